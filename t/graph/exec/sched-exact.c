/* SPDX-License-Identifier: MIT */
/* Schedulers whose options ask for the exact planner of results. */
#include <string.h>

#include <weir/ops.h>

#include "leaf.h"
#include "streams.h"

#define ITEMS 14
#define UNIT 4096 /* floats; beside them the results of sums are small */
#define LARGEST 12

static struct weir *weir;
static struct weir_dev *dev;
static float x[LARGEST * UNIT];

/*
 * A graph with results of different sizes that live for different times: each
 * is scaled from a part of the input, and summed later, in an order that
 * follows from @seed.
 */
static struct weir_graph *graph_of(uint32_t seed)
{
	const int64_t shape[] = { LARGEST * UNIT };
	struct weir_graph *g = graph_new();
	struct weir_node *in, *item[ITEMS], *sum = NULL, *s;
	unsigned born = 0, alive = 0;

	in = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, shape);
	while (born < ITEMS || alive) {
		seed = seed * 1664525u + 1013904223u;
		if (born < ITEMS && (alive < 2 || seed >> 29 < 4)) {
			const int64_t n = 1 + (seed >> 16) % LARGEST;

			item[alive++] =
				weir_scale(g, weir_slice(g, in, 0, 0, n * UNIT),
					   (float)++born, 0);
			continue;
		}
		s = weir_sum(g, item[seed % alive]);
		item[seed % alive] = item[alive - 1];
		alive--;
		sum = sum ? weir_add(g, sum, s) : s;
	}
	weir_graph_output(g, sum);
	must(weir_graph_error(g, NULL));
	return g;
}

struct outcome {
	struct weir_exec_info info, estimate;
	float sum;
};

static struct outcome outcome_of(const struct weir_graph *g, uint32_t place_ms)
{
	struct weir_sched_opts o = { .size = sizeof(o), .place_ms = place_ms };
	struct outcome ret = { .info.size = sizeof(ret.info),
			       .estimate.size = sizeof(ret.estimate) };
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
	struct weir_tensor t;

	must(weir_sched_new(&dev, 1, &o, &sched));
	must(weir_sched_estimate(sched, g, &ret.estimate));
	must(weir_exec_new(sched, g, &exec));
	must(weir_exec_info(exec, &ret.info));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, weir_graph_node(g, 0), x, sizeof(x)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_run_output(run, weir_graph_node(g, weir_graph_count(g) - 1),
			     &t));
	must(weir_tensor_get(&t, 0, &ret.sum, sizeof(ret.sum)));
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	return ret;
}

/* The greedy planner does not find the lowest placement of these graphs. */
static void lower(void)
{
	static const uint32_t seeds[] = { 5, 53, 103, 107 };

	for (unsigned i = 0; i < 4; i++) {
		struct weir_graph *g = graph_of(seeds[i]);
		struct outcome greedy = outcome_of(g, 0);
		struct outcome exact = outcome_of(g, 60000);

		ok(greedy.info.results > greedy.info.lowest &&
			   exact.info.results == exact.info.lowest,
		   "the exact planner saves %d bytes of results",
		   (int)(greedy.info.results - exact.info.results));
		is_int(exact.estimate.bytes, exact.info.bytes,
		       "an estimate asks the exact planner too");
		ok(exact.sum == greedy.sum, "the results are the same");
		weir_graph_free(g);
	}
}

static void never_higher(void)
{
	unsigned higher = 0, differ = 0;

	for (uint32_t seed = 0; seed < 30; seed++) {
		struct weir_graph *g = graph_of(seed);
		struct outcome greedy = outcome_of(g, 0);
		struct outcome exact = outcome_of(g, 1);

		higher += exact.info.bytes > greedy.info.bytes;
		differ += exact.sum != greedy.sum;
		weir_graph_free(g);
	}
	is_int(higher, 0, "a short search needs no more memory than none");
	is_int(differ, 0, "a short search changes no result");
}

int main(void)
{
	plan(14);
	weir = open_root(WEIR_IO_AUTO);
	dev = cpu_of(weir);
	for (int i = 0; i < LARGEST * UNIT; i++)
		x[i] = (float)(i % 31 - 15) / 16;
	lower();
	never_higher();
	weir_close(weir);
	return done_testing();
}
