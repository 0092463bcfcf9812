/* SPDX-License-Identifier: MIT */
/*
 * bench/graph [RUNS]: building a graph of the shape of Llama, fingerprint
 * included: nanoseconds of CPU time for each node, the median of RUNS (5). The
 * graph is built again in the memory of the last time, as for each step of a
 * model.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir.h>

#include "layers.h"
#include "must.h"
#include "raw.h"
#include "result.h"

#define GOAL_NS 200
#define MAX_RUNS 101u
#define MEASURED 1000000u /* nodes of a run, at least */

static void show(struct weir_graph *g, const struct layers *l, size_t n,
		 unsigned times)
{
	unsigned rounds = (unsigned)(MEASURED / n) + 1;
	double ns[MAX_RUNS];
	char name[64];

	layers_build(g, l, n);
	for (unsigned i = 0; i < times; i++) {
		double begun = raw_cpu();

		for (unsigned r = 0; r < rounds; r++)
			layers_build(g, l, n);
		ns[i] = (raw_cpu() - begun) * 1e9 / rounds /
			(double)weir_graph_count(g);
	}
	snprintf(name, sizeof(name), "a node, of %zu", weir_graph_count(g));
	result_add_values(name, "ns", GOAL_NS, ns, times);
}

int main(int argc, char **argv)
{
	unsigned times = argc > 1 ? (unsigned)atoi(argv[1]) : 5;
	struct layers l = layers_new();
	struct weir_graph *g;

	if (argc > 2 || times < 1 || times > MAX_RUNS)
		die("usage: graph [RUNS], at most %u", MAX_RUNS);
	must(weir_graph_new(&g));
	result_head();
	show(g, &l, 2000, times);
	show(g, &l, 100000, times);
	weir_graph_free(g);
	return result_all_ok() ? 0 : 1;
}
