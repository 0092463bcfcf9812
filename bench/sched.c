/* SPDX-License-Identifier: MIT */
/*
 * bench/sched [RUNS]: executable graphs of graphs of the shape of Llama on the
 * CPU, and runs of tiny nodes; medians of RUNS (5). "make" is CPU time of an
 * executable graph that the scheduler does not have, "again" of one that it
 * has. "node" is the time that each node of a long run adds whose nodes add two
 * elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "layers.h"
#include "must.h"
#include "raw.h"
#include "result.h"

#define MAX_RUNS 101u

static struct weir_dev *dev;
static unsigned times = 5;

static void add(const char *name, size_t n, const char *unit, double goal,
		double *v)
{
	char row[64];

	snprintf(row, sizeof(row), "%s, %zu nodes", name, n);
	result_add_values(row, unit, goal, v, times);
}

/* Resident bytes of this process. */
static double resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		die("/proc/self/statm");
	fclose(f);
	return (double)pages * 4096;
}

static void schedules(struct weir_graph *g, const struct layers *l, size_t n,
		      double goal_us)
{
	double make[MAX_RUNS], again[MAX_RUNS], bytes = 0;
	struct weir_exec *s, *same;
	struct weir_sched *sched;

	layers_build(g, l, n);
	for (unsigned i = 0; i < times; i++) {
		double begun;

		must(weir_sched_new(&dev, 1, NULL, &sched));
		bytes = resident();
		begun = raw_cpu();
		must(weir_exec_new(sched, g, &s));
		make[i] = (raw_cpu() - begun) * 1e6;
		bytes = resident() - bytes;
		layers_build(g, l, n);
		begun = raw_cpu();
		must(weir_exec_new(sched, g, &same));
		again[i] = (raw_cpu() - begun) * 1e6;
		weir_exec_free(same);
		weir_exec_free(s);
		weir_sched_free(sched);
	}
	add("make", weir_graph_count(g), "us", goal_us, make);
	add("again", weir_graph_count(g), "us", 20. * (double)n / 2000, again);
	printf("# %.0f bytes a node\n", bytes / (double)weir_graph_count(g));
}

/* A chain of @n additions. */
static void chain(struct weir_graph *g, unsigned n)
{
	const int64_t shape = 2;
	struct weir_node *x, *y;

	weir_graph_reset(g);
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &shape);
	y = x;
	for (unsigned i = 0; i < n; i++)
		y = weir_add(g, y, x);
	weir_graph_output(g, y);
}

/* Microseconds of a run of a chain of @n. */
static double run_chain(struct weir_sched *sched, struct weir_graph *g,
			unsigned n)
{
	const unsigned rounds = 200;
	struct weir_exec *s;
	float value[2] = { 1, 2 };
	struct weir_run *run;
	double begun = 0;

	chain(g, n);
	must(weir_exec_new(sched, g, &s));
	must(weir_run_new(s, &run));
	must(weir_run_input(run, weir_graph_node(g, 0), value, sizeof(value)));
	for (unsigned i = 0; i < rounds + 10; i++) {
		if (i == 10)
			begun = raw_now();
		must(weir_run_start(run));
		must(weir_run_wait(run, -1));
	}
	begun = (raw_now() - begun) * 1e6 / rounds;
	weir_run_free(run);
	weir_exec_free(s);
	return begun;
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Microseconds of a host function in a stream, which a run cannot be below. */
static double call(struct weir_stream *stream)
{
	const unsigned rounds = 200;
	double begun = raw_now();

	for (unsigned i = 0; i < rounds; i++) {
		must(weir_stream_call(stream, nothing, NULL));
		must(weir_stream_sync(stream, -1));
	}
	return (raw_now() - begun) * 1e6 / rounds;
}

static void runs(struct weir_graph *g)
{
	double each[MAX_RUNS], one[MAX_RUNS], ratio[MAX_RUNS];
	struct weir_stream *stream;
	struct weir_sched *sched;
	struct spread s;

	must(weir_stream_new(dev, NULL, &stream));
	must(weir_sched_new(&dev, 1, NULL, &sched));
	for (unsigned i = 0; i < times; i++) {
		ratio[i] = call(stream);
		one[i] = run_chain(sched, g, 1);
		each[i] = (run_chain(sched, g, 2001) - one[i]) / 2000 * 1e3;
		ratio[i] /= one[i];
	}
	s = spread_of(ratio, times);
	printf("# a run of one node takes %.1f us; a host function in a stream %.2f of that (%.2f to %.2f)\n",
	       spread_of(one, times).mid, s.mid, s.low, s.high);
	add("run: each node of", 2000, "ns", 200, each);
	weir_sched_free(sched);
	weir_stream_free(stream);
}

int main(int argc, char **argv)
{
	struct layers l = layers_new();
	struct weir_graph *g;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir *weir;

	if (argc > 1)
		times = (unsigned)atoi(argv[1]);
	if (argc > 2 || times < 1 || times > MAX_RUNS)
		die("usage: sched [RUNS], at most %u", MAX_RUNS);
	must(weir_open(NULL, &weir));
	must(weir_dev_find(weir, "CPU", &dev));
	must(weir_dev_buft(dev, WEIR_MEM_PLAIN, &buft));
	layers_place(&l, buft, &buf);
	must(weir_graph_new(&g));
	result_head();
	schedules(g, &l, 2000, 5000);
	schedules(g, &l, 100000, 500000);
	runs(g);
	weir_graph_free(g);
	weir_buf_free(buf);
	weir_close(weir);
	return result_all_ok() ? 0 : 1;
}
