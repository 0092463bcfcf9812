/* SPDX-License-Identifier: MIT */
/*
 * bench/placement [RUNS]: the greedy planner. The ratio of its height to the
 * lower bound on graphs of transformers, the worst of several runs of each; and
 * the CPU time of its one thread for 100,000 tensors, the median of RUNS (5).
 * The last rows are not graphs, but random lifetimes, of which 50 or 5,000 live
 * at once.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/base.h>

#include "graphs.h"
#include "raw.h"
#include "result.h"

#define TENSORS 100000u
#define MAX_RUNS 101u

static struct weir_placement_info place(const struct graph *g)
{
	struct weir_placement_info info;

	if (graph_place(g, &info) < 0)
		die("%s", weir_error());
	return info;
}

static double ratio_of(const struct weir_placement_info *info)
{
	return (double)info->bytes / (double)info->bound;
}

/* The worst height to the bound, of all runs. */
static void show_height(const struct arch *a)
{
	struct result res = { .unit = "x", .judged = GOAL_VALUE, .goal = 1.10 };
	const char *worst = "";
	size_t n = 0;

	for (size_t i = 0; i < n_runs; i++) {
		struct graph g = { 0 };
		struct weir_placement_info info;

		graph_build(&g, a, &runs[i]);
		info = place(&g);
		if (res.value < ratio_of(&info)) {
			res.value = ratio_of(&info);
			worst = runs[i].name;
		}
		n = n < g.n ? g.n : n;
		graph_free(&g);
	}
	snprintf(res.name, sizeof(res.name), "%s, %zu", a->name, n);
	snprintf(res.limit, sizeof(res.limit), "bound, %s", worst);
	res.limit_value = 1;
	result_add(&res);
}

static void show_time(const struct graph *g, const char *name, unsigned times)
{
	struct result res = { .unit = "ms",
			      .limit_value = 200,
			      .judged = GOAL_VALUE,
			      .goal = 200 };
	double ms[MAX_RUNS];
	struct weir_placement_info info;
	struct spread s;

	for (unsigned i = 0; i < times; i++) {
		double begun = raw_cpu();

		info = place(g);
		ms[i] = (raw_cpu() - begun) * 1e3;
	}
	s = spread_of(ms, times);
	snprintf(res.name, sizeof(res.name), "%s", name);
	snprintf(res.limit, sizeof(res.limit), "0.2 s; height %.4f of bound",
		 ratio_of(&info));
	res.value = s.mid;
	res.ratio = 200 / s.mid;
	res.low = 200 / s.high;
	res.high = 200 / s.low;
	result_add(&res);
}

/* So many layers that the graph has nearly 100,000 tensors. */
static void show_large(const struct arch *a, unsigned times)
{
	struct arch many = *a;
	struct graph g = { 0 };
	char name[64];

	graph_build(&g, a, &runs[0]);
	many.layers = (unsigned)((double)a->layers * TENSORS / (double)g.n);
	graph_free(&g);
	graph_build(&g, &many, &runs[0]);
	snprintf(name, sizeof(name), "%s, %zu", a->name, g.n);
	show_time(&g, name, times);
	graph_free(&g);
}

static void show_random(unsigned live, unsigned times)
{
	struct graph g = { 0 };
	uint64_t seed = 1;
	char name[64];

	g.item = calloc(TENSORS, sizeof(*g.item));
	if (!g.item)
		die("no memory");
	for (g.n = 0; g.n < TENSORS; g.n++) {
		struct weir_lifetime *item = &g.item[g.n];

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		item->lower = (int64_t)g.n;
		item->upper =
			item->lower + 1 + (int64_t)((seed >> 33) % (2 * live));
		item->bytes = 1 + (seed >> 20) % 4096 * 256;
	}
	snprintf(name, sizeof(name), "random, %u live", live);
	show_time(&g, name, times);
	graph_free(&g);
}

int main(int argc, char **argv)
{
	unsigned times = argc > 1 ? (unsigned)atoi(argv[1]) : 5;

	if (argc > 2 || times < 1 || times > MAX_RUNS)
		die("usage: placement [RUNS], at most %u", MAX_RUNS);
	result_head();
	for (size_t i = 0; i < n_archs; i++)
		show_height(&archs[i]);
	for (size_t i = 0; i < n_archs; i++)
		show_large(&archs[i], times);
	show_random(50, times);
	show_random(5000, times);
	return result_all_ok() ? 0 : 1;
}
