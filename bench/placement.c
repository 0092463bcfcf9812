/* SPDX-License-Identifier: MIT */
/*
 * bench/placement [RUNS]: the greedy planner. Its height over the lower bound
 * on graphs of transformers, and its time for 100,000 tensors.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graphs.h"
#include "raw.h"
#include "result.h"

int main(void)
{
	struct weir_place_memory memory = { .align = 256 };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;

	o.memory = &memory;
	o.n_memories = 1;
	for (size_t i = 0; i < n_archs; i++)
		for (size_t k = 0; k < n_runs; k++) {
			struct graph g = { 0 };
			struct weir_placement *p;
			struct weir_placement_info info = { .size = sizeof(info) };

			graph_build(&g, &archs[i], &runs[k]);
			if (weir_placement_new(g.item, g.n, &o, &p) < 0)
				die("no");
			weir_placement_info(p, 0, &info);
			printf("%-32s %-22s n %6zu in place %5llu %9.1f MiB %.4f  %.3f ms\n", archs[i].name,
			       runs[k].name, g.n, (unsigned long long)info.in_place, (double)info.bytes / 1048576,
			       (double)info.bytes / (double)info.bound, (double)info.time_ns / 1e6);
			weir_placement_free(p);
			graph_free(&g);
		}
	for (size_t i = 0; i < n_archs; i++) {
			struct graph g = { 0 };
			struct arch a = archs[i];
			struct weir_placement *p;
			struct weir_placement_info info = { .size = sizeof(info) };

			graph_build(&g, &a, &runs[0]);
			a.layers = (unsigned)(a.layers * 100000.0 / (double)g.n);
			graph_free(&g);
			graph_build(&g, &a, &runs[0]);
			if (weir_placement_new(g.item, g.n, &o, &p) < 0)
				die("no");
			weir_placement_info(p, 0, &info);
			printf("%-32s %-22s n %6zu in place %5llu %9.1f MiB %.4f  %.3f ms\n", archs[i].name,
			       runs[0].name, g.n, (unsigned long long)info.in_place, (double)info.bytes / 1048576,
			       (double)info.bytes / (double)info.bound, (double)info.time_ns / 1e6);
			weir_placement_free(p);
			graph_free(&g);
		}
	return 0;
}
