/* SPDX-License-Identifier: MIT */
/* The greedy planner on the lifetimes of transformers' graphs. */
#include <weir.h>

#include "../../bench/graphs.h"
#include "tap.h"

static struct weir_placement_info place(const struct graph *g)
{
	struct weir_placement_info info;

	if (graph_place(g, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static void is_low(const struct arch *a)
{
	unsigned high = 0;

	for (size_t i = 0; i < n_runs; i++) {
		struct graph g = { 0 };
		struct weir_placement_info info;

		graph_build(&g, a, &runs[i]);
		info = place(&g);
		if (info.bytes > info.bound + info.bound / 10) {
			diag("%s: %.3f of the bound", runs[i].name,
			     (double)info.bytes / (double)info.bound);
			high++;
		}
		graph_free(&g);
	}
	is_int(high, 0,
	       "%s: no placement exceeds the lower bound by over 10 %%",
	       a->name);
}

/* So many items live at once that no list could hold their conflicts. */
static void is_dense(void)
{
	static struct weir_lifetime item[10000];
	struct graph g = { .item = item, .n = 10000 };
	struct weir_placement_info info;

	for (size_t i = 0; i < g.n; i++)
		item[i] = (struct weir_lifetime){
			.lower = (int64_t)i,
			.upper = (int64_t)(i + 1 + i * 7919 % 6000),
			.bytes = 256 * (1 + i * 31 % 97),
		};
	info = place(&g);
	diag("%.3f of the bound", (double)info.bytes / (double)info.bound);
	ok(info.bytes < info.bound + info.bound / 50,
	   "10,000 items of which 3,000 live at once exceed the lower bound by less than 2 %%");
}

int main(void)
{
	plan((unsigned)n_archs + 1);
	for (size_t i = 0; i < n_archs; i++)
		is_low(&archs[i]);
	is_dense();
	return done_testing();
}
