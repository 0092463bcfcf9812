/* SPDX-License-Identifier: MIT */
/*
 * bench/engine: the engine alone, between a source without a disk and a
 * device without memory. Each row is the rate that was reached as a share of
 * the slower side's rate. With --chunks N one job of N chunks is run once, by
 * --way, so that callgrind can count it (t/kernels/instructions.sh).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "null.h"
#include "raw.h"
#include "result.h"

#define GB 1e9
#define RUNS 7u

static const struct row {
	double source, sink; /* GB/s; sink 0: in place */
	int64_t source_latency, sink_latency;
	double goal;
} rows[] = {
	{ 10, 0, 200000, 0, 0.97 },      { 40, 0, 200000, 0, 0.97 },
	{ 10, 55, 200000, 10000, 0.97 }, { 40, 55, 200000, 10000, 0.97 },
	{ 10, 5, 200000, 10000, 0.97 },  { 40, 10, 200000, 10000, 0.97 },
	{ 10, 10, 200000, 10000, 0.92 },
};

static struct weir_dev *sink;

/* The destination is memory whose content does not matter. */
static double run_bytes(uint64_t bytes, struct weir_dev *dev)
{
	struct weir__extent ext = { .file = null_file,
				    .len = bytes,
				    .addr = (unsigned char *)(1ull << 40),
				    .dev = dev };

	return null_run(&ext, 1);
}

static void run_row(const struct row *row)
{
	double slower = row->sink && row->sink < row->source ? row->sink
							     : row->source;
	uint64_t bytes = (uint64_t)(slower * GB * 0.8);
	struct result res = { .unit = "GB/s",
			      .limit = "the slower side",
			      .limit_value = slower,
			      .judged = GOAL_RATIO,
			      .goal = row->goal };
	double rate[RUNS];
	struct spread mid;

	null_source =
		(struct null_server){ row->source, row->source_latency, 0 };
	null_sink = (struct null_server){ row->sink ? row->sink : 1,
					  row->sink_latency, 0 };
	for (unsigned i = 0; i < RUNS; i++)
		rate[i] = (double)bytes / GB /
			  run_bytes(bytes, row->sink ? sink : NULL);
	mid = spread_of(rate, RUNS);
	if (row->sink)
		snprintf(res.name, sizeof(res.name),
			 "source %.0f GB/s, device %.0f", row->source,
			 row->sink);
	else
		snprintf(res.name, sizeof(res.name),
			 "source %.0f GB/s, in place", row->source);
	res.value = mid.mid;
	res.ratio = mid.mid / slower;
	res.low = mid.low / slower;
	res.high = mid.high / slower;
	result_add(&res);
}

/*
 * Extents of few bytes each, copied out of slots, @apart in the file: far apart
 * each is a chunk, otherwise many share one.
 */
static void run_staged(uint64_t chunks, uint64_t apart)
{
	static unsigned char memory[64];
	struct weir__extent *ext = calloc(chunks, sizeof(*ext));

	if (!ext)
		die("no memory");
	for (uint64_t i = 0; i < chunks; i++)
		ext[i] = (struct weir__extent){ .file = null_file,
						.off = i * apart + 1,
						.len = sizeof(memory),
						.addr = memory };
	null_run(ext, chunks);
	free(ext);
}

/* Tensors whose distances on the device differ from those in the file. */
static void run_segments(uint64_t n)
{
	struct weir__extent *ext = calloc(n, sizeof(*ext));

	if (!ext)
		die("no memory");
	for (uint64_t i = 0; i < n; i++)
		ext[i] = (struct weir__extent){
			.file = null_file,
			.off = i * 2000,
			.len = 2000,
			.addr = (unsigned char *)(1ull << 40) + i * 2048,
			.dev = sink
		};
	null_run(ext, n);
	free(ext);
}

static void count(uint64_t chunks, const char *way)
{
	uint64_t bytes = chunks * null_chunk();

	/* Reads and copies complete at once, so that no thread sleeps. */
	null_source = null_sink = (struct null_server){ 1e9, 0, 0 };
	if (!strcmp(way, "in-place"))
		run_bytes(bytes, NULL);
	else if (!strcmp(way, "device"))
		run_bytes(bytes, sink);
	else if (!strcmp(way, "staged"))
		run_staged(chunks, 1u << 17);
	else if (!strcmp(way, "merged"))
		run_staged(chunks, 2048);
	else if (!strcmp(way, "segments"))
		run_segments(chunks);
	else
		die("--way is in-place, staged, device, segments or merged");
}

struct args {
	const char *way, *json, *svg;
	uint64_t chunks;
};

static void take_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
		{ "chunks", required_argument, NULL, 'c' },
		{ "json", required_argument, NULL, 'j' },
		{ "svg", required_argument, NULL, 's' },
		{ "way", required_argument, NULL, 'w' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'c')
			a->chunks = strtoull(optarg, NULL, 10);
		else if (c == 'j')
			a->json = optarg;
		else if (c == 's')
			a->svg = optarg;
		else if (c == 'w')
			a->way = optarg;
		else
			die("usage: bench/engine [--json FILE] [--svg FILE], or --chunks N [--way WAY]");
}

static int measure(const struct args *a)
{
	result_head();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	if (a->json)
		result_write_json(a->json);
	if (a->svg)
		result_write_svg(
			a->svg,
			"bench/engine: the engine against the slower side");
	return result_all_ok() ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct args a = { .way = "in-place" };
	int status = 0;

	take_args(argc, argv, &a);
	null_open("NULL0", NULL, &sink);
	if (a.chunks)
		count(a.chunks, a.way);
	else
		status = measure(&a);
	null_close();
	return status;
}
