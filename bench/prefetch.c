/* SPDX-License-Identifier: MIT */
/*
 * bench/prefetch [RUNS]: runs whose weights are in a file, with memory for half
 * of them: the others are prefetched. Medians of RUNS (7) rounds. "both": an
 * operation for each weight sleeps, so that computing takes as long as
 * prefetching; the limit is the longer of the two alone. "prefetch": the
 * operations do nothing; the limit is a stream that reads as many bytes of the
 * file. The device has one thread, and one thread copies out of the page cache,
 * so that each finds a CPU of two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>
#include <weir/ops.h>

#include "must.h"
#include "raw.h"
#include "result.h"

#define PARTS 24
#define PART ((size_t)4 << 20)
#define MAX_RUNS 101u
#define PASSES 4 /* passes of a measurement */

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_file *file;
static unsigned times = 7;
static long sleep_ns; /* pause of each operation */

/* A model, and the run that computes it. */
struct model {
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
};

/* Reads one element of the weight. */
static int layer(void *arg, const struct weir_operand *dst,
		 const struct weir_operand *src, unsigned n, unsigned part,
		 unsigned parts)
{
	const struct timespec pause = { .tv_nsec = sleep_ns };

	(void)arg, (void)n, (void)part, (void)parts;
	if (sleep_ns)
		nanosleep(&pause, NULL);
	*(float *)dst->data =
		*(const float *)src[0].data + *(const float *)src[1].data;
	return 0;
}

static void model_build(struct weir_graph *g)
{
	const struct weir_op_call call = {
		.fn = layer, .dtype = WEIR_DTYPE_F32, .ndim = 1, .shape = { 1 }
	};
	const int64_t one = 1, n = PART / sizeof(float);
	struct weir_node *y;
	struct weir_tensor t;

	y = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &one);
	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &n));
	for (uint64_t i = 0; i < PARTS; i++)
		y = weir_call(
			g, &call,
			(struct weir_node *[]){
				weir_graph_leaf_file(g, &t, file, i * PART),
				y },
			2);
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
}

static struct model model_new(uint64_t weights)
{
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &weights };
	const float zero = 0;
	struct weir_graph *g;
	struct model m;

	must(weir_graph_new(&g));
	model_build(g);
	must(weir_sched_new(&dev, 1, &o, &m.sched));
	must(weir_exec_new(m.sched, g, &m.exec));
	must(weir_run_new(m.exec, &m.run));
	must(weir_run_input(m.run, weir_graph_node(g, 0), &zero, sizeof(zero)));
	weir_graph_free(g);
	return m;
}

static void model_free(struct model *m)
{
	weir_run_free(m->run);
	weir_exec_free(m->exec);
	weir_sched_free(m->sched);
}

/* Seconds of a pass, once the kept weights are there. */
static double model_run(struct model *m, long ns)
{
	double begun = 0;

	sleep_ns = ns;
	for (int i = -1; i < PASSES; i++) {
		if (i == 0)
			begun = raw_now();
		must(weir_run_start(m->run));
		must(weir_run_wait(m->run, -1));
	}
	return (raw_now() - begun) / PASSES;
}

/* The share of its last pass in which the model has waited for weights. */
static double share_waited(struct model *m)
{
	struct weir_run_report report = { .size = sizeof(report) };

	must(weir_run_report(m->run, &report));
	return (double)report.prefetch_wait_ns / (double)report.total_ns;
}

static uint64_t prefetched_bytes(const struct model *m)
{
	struct weir_exec_info info = { .size = sizeof(info) };

	must(weir_exec_info(m->exec, &info));
	return info.prefetched;
}

/* Seconds in which a stream reads @bytes, part after part, to three places. */
static double stream_run(uint64_t bytes)
{
	const int64_t n = 3 * PART;
	struct weir_stream *s;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir_tensor t;
	double begun = 0;

	must(weir_dev_buft(dev, WEIR_MEM_PLAIN, &buft));
	must(weir_buf_alloc(buft, (size_t)n, NULL, &buf));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_stream_new(dev, NULL, &s));
	for (int i = -1; i < PASSES; i++) {
		if (i == 0)
			begun = raw_now();
		for (uint64_t k = 0; k < bytes / PART; k++)
			must(weir_stream_read(s, file, 2 * k % PARTS * PART, &t,
					      k % 3 * PART, PART));
		must(weir_stream_sync(s, -1));
	}
	begun = raw_now() - begun;
	weir_stream_free(s);
	weir_buf_free(buf);
	return begun / PASSES;
}

static void rounds(struct model *half, struct model *whole)
{
	static double limit[2][MAX_RUNS], value[2][MAX_RUNS], waited[MAX_RUNS];
	uint64_t bytes = prefetched_bytes(half);

	for (unsigned i = 0; i < times; i++) {
		double prefetch = model_run(half, 0), alone;
		long ns = (long)(prefetch / PARTS * 1e9);

		limit[1][i] = stream_run(bytes) * 1e3;
		value[1][i] = prefetch * 1e3;
		alone = model_run(whole, ns);
		limit[0][i] = (alone > prefetch ? alone : prefetch) * 1e3;
		value[0][i] = model_run(half, ns) * 1e3;
		waited[i] = share_waited(half) * 100;
	}
	printf("# both: %.1f %% of the time is spent waiting for weights\n",
	       spread_of(waited, times).mid);
	printf("# %.0f of %.0f MiB are prefetched in each run\n",
	       (double)bytes / (1 << 20), (double)PARTS * PART / (1 << 20));
	result_add_pairs("both", "computing or prefetching alone", "ms", 0.9,
			 limit[0], value[0], times);
	result_add_pairs("prefetch", "a stream that reads them", "ms", 0.9,
			 limit[1], value[1], times);
}

static void file_write(const char *path)
{
	FILE *f = fopen(path, "w");
	float *part = calloc(1, PART);

	if (!f || !part)
		die("%s", path);
	for (int i = 0; i < PARTS; i++)
		if (fwrite(part, 1, PART, f) != PART)
			die("%s: cannot be written", path);
	if (fclose(f))
		die("%s: cannot be written", path);
	free(part);
}

int main(int argc, char **argv)
{
	char path[] = "/var/tmp/weir-prefetch-XXXXXX";
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct model half, whole;
	int fd;

	opts.copiers = 1;
	if (argc > 1)
		times = (unsigned)atoi(argv[1]);
	if (argc > 2 || times < 1 || times > MAX_RUNS)
		die("usage: prefetch [RUNS], at most %u", MAX_RUNS);
	fd = mkstemp(path);
	if (fd < 0)
		die("%s", path);
	close(fd);
	file_write(path);
	must(weir_open(&opts, &weir));
	must(weir_dev_configure(weir, "CPU:threads=1", &dev));
	must(weir_file_open(weir, path, NULL, &file));
	half = model_new(PARTS / 2 * (PART + 4096));
	whole = model_new(0);
	result_head();
	rounds(&half, &whole);
	model_free(&half);
	model_free(&whole);
	weir_file_close(file);
	/* Earlier, it would change the ctime of a file that is read. */
	unlink(path);
	weir_close(weir);
	return result_all_ok() ? 0 : 1;
}
