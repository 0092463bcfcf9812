/* SPDX-License-Identifier: MIT */
/*
 * bench/engine: the engine alone, between a source without a disk and a
 * device without memory. Each row gives the rate that was reached as a share
 * of the slower side's. With --chunks N one job of N chunks is run once, the
 * --way that is asked for, for callgrind to count: t/instructions.sh.
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "null.h"
#include "raw.h"
#include "result.h"
#include "sys.h"

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

static struct weir *weir;
static struct weir__engine *eng;
static struct weir_dev *sink;
static struct weir_file *file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool done;
static char path[] = "/tmp/weir-bench-null-XXXXXX";

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, int res, enum weir__chunk_way way)
{
	(void)job, (void)ext, (void)lo, (void)hi, (void)way;
	if (res < 0)
		die("a chunk failed: %s", strerror(-res));
}

static void on_done(struct weir__job *job)
{
	(void)job;
	pthread_mutex_lock(&lock);
	done = true;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&lock);
}

static int make(struct weir *w, struct weir__part **ret)
{
	return weir__engine_make(w, &null_method, ret);
}

/*
 * A sparse file of that size: only its descriptor is ever used. @reactors: 0,
 * as many as the library chooses.
 */
static void open_all(uint64_t bytes, uint32_t reactors)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir__part *part;
	int fd = mkstemp(path);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		die("%s cannot be made", path);
	close(fd);
	opts.reactors = reactors;
	if (weir_open(&opts, &weir) < 0 ||
	    weir__root_part(weir, WEIR__PART_IO, make, &part) < 0 ||
	    weir__engine_get(weir, &eng) < 0 ||
	    weir__registry_add(weir, &null_backend, NULL) < 0 ||
	    weir_dev_find(weir, "NULL0", &sink) < 0 ||
	    weir_file_open(weir, path, NULL, &file) < 0)
		die("%s", weir_error());
	unlink(path);
	/* As on a local disk, wherever /tmp is. */
	atomic_store(&file->direct_ok, true);
	file->nowait = true;
}

static double run(struct weir__extent *ext, size_t n)
{
	struct weir__job job = {
		.ext = ext, .n_ext = n, .chunk = on_chunk, .done = on_done
	};
	double begun = raw_now();

	null_source.free = null_sink.free = 0;
	done = false;
	if (weir__job_start(eng, &job) < 0)
		die("%s", weir_error());
	pthread_mutex_lock(&lock);
	while (!done)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return raw_now() - begun;
}

/* One extent, in memory that nobody ever looks at. */
static double run_bytes(uint64_t bytes, struct weir_dev *dev)
{
	struct weir__extent ext = { .file = file,
				    .len = bytes,
				    .addr = (unsigned char *)(1ull << 40),
				    .dev = dev };

	return run(&ext, 1);
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

/* A chunk each, of bytes that are cheap to copy: small tensors out of slots. */
static void run_staged(uint64_t chunks)
{
	static unsigned char memory[64];
	struct weir__extent *ext = calloc(chunks, sizeof(*ext));

	if (!ext)
		die("no memory");
	for (uint64_t i = 0; i < chunks; i++)
		ext[i] = (struct weir__extent){ .file = file,
						.off = i * 4096 + 1,
						.len = sizeof(memory),
						.addr = memory };
	run(ext, chunks);
	free(ext);
}

/* Tensors that cannot lie on the device as they do in the file. */
static void run_pieces(uint64_t n)
{
	struct weir__extent *ext = calloc(n, sizeof(*ext));

	if (!ext)
		die("no memory");
	for (uint64_t i = 0; i < n; i++)
		ext[i] = (struct weir__extent){
			.file = file,
			.off = i * 2000,
			.len = 2000,
			.addr = (unsigned char *)(1ull << 40) + i * 2048,
			.dev = sink
		};
	run(ext, n);
	free(ext);
}

static void count(uint64_t chunks, const char *way)
{
	uint64_t bytes = chunks * weir__engine_chunk(eng);

	/* Everything is done at once: nobody sleeps. */
	null_source = null_sink = (struct null_server){ 1e9, 0, 0 };
	if (!strcmp(way, "in-place"))
		run_bytes(bytes, NULL);
	else if (!strcmp(way, "device"))
		run_bytes(bytes, sink);
	else if (!strcmp(way, "staged"))
		run_staged(chunks);
	else if (!strcmp(way, "pieces"))
		run_pieces(chunks);
	else
		die("--way is in-place, staged, device or pieces");
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
	open_all(64ull << 30, a.chunks ? 1 : 0);
	if (a.chunks)
		count(a.chunks, a.way);
	else
		status = measure(&a);
	weir_file_close(file);
	weir_close(weir);
	return status;
}
