/* SPDX-License-Identifier: MIT */
/*
 * bench/engine: the engine alone, between a source without a disk and a
 * device without memory. Each row gives the rate that was reached as a share
 * of the slower side's. With --chunks N one job of N chunks is run once, in
 * place, for callgrind to count.
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
#define RUNS 5u

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

/* A sparse file of that size: only its descriptor is ever used. */
static void open_all(uint64_t bytes)
{
	struct weir__part *part;
	int fd = mkstemp(path);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		die("%s cannot be made", path);
	close(fd);
	if (weir_open(NULL, &weir) < 0 ||
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

static double run(uint64_t bytes, struct weir_dev *dev)
{
	struct weir__extent ext = { .file = file,
				    .len = bytes,
				    .addr = (unsigned char *)(1ull << 40),
				    .dev = dev };
	struct weir__job job = {
		.ext = &ext, .n_ext = 1, .chunk = on_chunk, .done = on_done
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

static void run_row(const struct row *row)
{
	double slower = row->sink && row->sink < row->source ? row->sink
							     : row->source;
	uint64_t bytes = (uint64_t)(slower * GB * 0.8);
	struct result r = { .unit = "GB/s",
			    .limit_value = slower,
			    .judged = GOAL_RATIO,
			    .goal = row->goal };
	double rate[RUNS];
	struct spread s;

	null_source =
		(struct null_server){ row->source, row->source_latency, 0 };
	null_sink = (struct null_server){ row->sink ? row->sink : 1,
					  row->sink_latency, 0 };
	for (unsigned i = 0; i < RUNS; i++)
		rate[i] = (double)bytes / GB /
			  run(bytes, row->sink ? sink : NULL);
	s = spread_of(rate, RUNS);
	r.value = s.mid;
	r.ratio = s.mid / slower;
	r.low = s.low / slower;
	r.high = s.high / slower;
	if (row->sink)
		snprintf(r.name, sizeof(r.name), "engine: %.0f to %.0f GB/s",
			 row->source, row->sink);
	else
		snprintf(r.name, sizeof(r.name), "engine: %.0f GB/s, in place",
			 row->source);
	snprintf(r.limit, sizeof(r.limit), "the slower side");
	result_add(&r);
}

static void run_chunks(uint64_t chunks)
{
	null_source = (struct null_server){ 1e6, 0, 0 };
	run(chunks * weir__engine_chunk(eng), NULL);
}

static void run_rows(const char *json, const char *svg)
{
	result_head();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	if (json)
		result_write_json(json);
	if (svg)
		result_write_svg(svg,
				 "bench/engine: between a source and a sink");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "chunks", required_argument, NULL, 'c' },
		{ "json", required_argument, NULL, 'j' },
		{ "svg", required_argument, NULL, 's' },
		{ 0 },
	};
	const char *json = NULL, *svg = NULL;
	uint64_t chunks = 0;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'c')
			chunks = strtoull(optarg, NULL, 10);
		else if (c == 'j')
			json = optarg;
		else if (c == 's')
			svg = optarg;
		else
			return 2;
	open_all(64ull << 30);
	if (chunks)
		run_chunks(chunks);
	else
		run_rows(json, svg);
	weir_file_close(file);
	weir_close(weir);
	return result_all_ok() ? 0 : 1;
}
