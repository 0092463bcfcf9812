/* SPDX-License-Identifier: MIT */
/*
 * bench/assign [RUNS]: the passes that divide a graph of the shape of Llama
 * between four devices, each of which has a quarter of the layers by pins of
 * their leaves: CPU time to assign nodes and to order lanes, medians of RUNS
 * (5).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/dev.h"
#include "graph/compile/assign.h"
#include "graph/graph.h"
#include "graph/compile/sync.h"
#include "layers.h"
#include "must.h"
#include "raw.h"
#include "result.h"

#define MAX_RUNS 101u
#define DEVS 4u
#define MOST 100100u

static unsigned times = 5;
static uint8_t marks[MOST], pin[MOST];
static uint64_t usable[MOST];

static void marks_set(const struct weir_graph *g)
{
	for (size_t i = 0; i < g->n; i++) {
		bool leaf = g->node[i]->op == WEIR_OP_LEAF;

		marks[i] = leaf ? WEIR__MARK_LEAF : 0;
		if (g->node[i]->op == WEIR_OP_INPUT)
			marks[i] = WEIR__MARK_INPUT;
		pin[i] = leaf ? (uint8_t)(i * DEVS / g->n) : WEIR__ASSIGN_NONE;
		usable[i] = leaf ? UINT64_MAX : 0;
	}
}

/* Microseconds of CPU time. */
static double divide(const struct weir_graph *g, struct weir_dev *const *devs)
{
	static const uint64_t shares[DEVS] = { 1, 2, 4, 8 };
	struct weir_rates rates[DEVS];
	struct weir__reach_in in;
	struct weir__reach reach;
	struct weir__assign assign;
	struct weir__sync sync;
	struct weir__assign_in a = { .in = &in,
				     .reach = &reach,
				     .marks = marks,
				     .n_devs = DEVS,
				     .rates = rates,
				     .shares = shares,
				     .usable = usable,
				     .pin = pin };
	struct weir__sync_in o = { .in = &in,
				   .reach = &reach,
				   .marks = marks,
				   .n_devs = DEVS,
				   .usable = usable,
				   .shares = shares };
	double begun;

	for (unsigned i = 0; i < DEVS; i++)
		rates[i] = weir__dev_rates(devs[i]);
	must(weir__reach_graph(g, &in));
	must(weir__reach(&in, &reach));
	begun = raw_cpu();
	must(weir__assign_graph(g, devs, &a, &assign));
	o.dev = assign.dev;
	must(weir__sync(&o, &sync));
	begun = (raw_cpu() - begun) * 1e6;
	weir__sync_free(&sync);
	weir__assign_free(&assign);
	weir__reach_free(&reach);
	weir__reach_in_free(&in);
	return begun;
}

static void passes(struct weir_graph *g, struct weir_dev *const *devs, size_t n,
		   double goal_us)
{
	struct layers l = layers_new();
	double took[MAX_RUNS];
	char name[64];

	layers_build(g, &l, n);
	if (g->n > MOST)
		die("%zu nodes", g->n);
	marks_set(g);
	for (unsigned i = 0; i < times; i++)
		took[i] = divide(g, devs);
	snprintf(name, sizeof(name), "assign and order, %zu nodes", g->n);
	result_add_values(name, "us", goal_us, took, times);
}

int main(int argc, char **argv)
{
	struct weir_dev *devs[DEVS];
	struct weir_graph *g;
	struct weir *weir;

	if (argc > 1)
		times = (unsigned)atoi(argv[1]);
	if (argc > 2 || times < 1 || times > MAX_RUNS)
		die("usage: assign [RUNS], at most %u", MAX_RUNS);
	must(weir_open(NULL, &weir));
	must(weir_dev_configure(weir, "CPU:devices=4,apart=1", &devs[0]));
	for (unsigned i = 0; i < DEVS; i++) {
		devs[i] = weir_dev_get(weir, i);
		must(weir__dev_use(devs[i]));
	}
	must(weir_graph_new(&g));
	result_head();
	passes(g, devs, 2000, 5000);
	passes(g, devs, 100000, 250000);
	weir_graph_free(g);
	weir_close(weir);
	return result_all_ok() ? 0 : 1;
}
