/* SPDX-License-Identifier: MIT */
/*
 * bench/exact [SECONDS]: the exact planner on one core. Each problem is made
 * from a placement, so its optimum is known; the rows have the worst of three
 * of each shape and size: the time until the optimum is proved, or SECONDS (60)
 * and the height to the lower bound.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/base.h>

#include "core/clock.h"
#include "../t/place/exact_made.h"

static const char *const shape_name[EXACT_SHAPES] = { "tiles", "steps",
						      "layers" };
static struct exact_made made;

static struct weir__exact_result solve(int64_t limit_ns, double *ret_s)
{
	int64_t begun = weir__now();
	struct weir__exact_opts opts = { .deadline = begun + limit_ns };
	struct weir__exact_result r = { 0 };
	uint64_t off[EXACT_MADE_MAX], top = 0;

	for (size_t i = 0; i < made.n; i++) {
		off[i] = top;
		top += made.item[i].bytes;
	}
	if (weir__exact_place(made.item, made.n, &opts, off, &r) < 0) {
		fprintf(stderr, "%s\n", weir_error());
		exit(1);
	}
	*ret_s = (double)(weir__now() - begun) / 1e9;
	return r;
}

static void show(enum exact_shape shape, size_t n, int64_t limit_ns)
{
	double worst_s = 0, worst_ratio = 1;
	uint64_t nodes = 0;
	unsigned proved = 0;

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct weir__exact_result r;
		double s, ratio;

		exact_make(shape, n, seed, &made);
		r = solve(limit_ns, &s);
		ratio = (double)r.height / (double)r.bound;
		proved += r.proved;
		nodes = r.nodes > nodes ? r.nodes : nodes;
		worst_s = s > worst_s ? s : worst_s;
		worst_ratio = ratio > worst_ratio ? ratio : worst_ratio;
	}
	printf("%-8s %4zu items  %u of 3 proved  %9.3f s  %.4f of the bound  "
	       "%9llu nodes\n",
	       shape_name[shape], n, proved, worst_s, worst_ratio,
	       (unsigned long long)nodes);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double limit = argc > 1 ? strtod(argv[1], NULL) : 60;

	for (unsigned shape = 0; shape < EXACT_SHAPES; shape++)
		for (size_t n = 150; n <= 450; n += 75)
			show(shape, n, (int64_t)(limit * 1e9));
	return 0;
}
