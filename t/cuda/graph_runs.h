/* SPDX-License-Identifier: MIT */
/*
 * A graph that CUDA0 runs again and again, for tests of CUDA graphs: a graph of
 * some kernels, with an index that may be out of range.
 */
#ifndef T_GRAPH_RUNS_H
#define T_GRAPH_RUNS_H

#include "gpu.h"

#define N 32

extern struct weir *weir;
extern struct weir_dev *cuda;
extern struct weir_sched *sched;
extern struct weir_graph *g;
extern bool pinned; /* sched is the test's own */

extern struct model {
	struct weir_node *x, *ids, *table, *y;
	struct weir_exec *exec;
	struct weir_run *run;
} m;

/* A root, and CUDA0 with these parameters; or without, if it is NULL. */
void begin_as(const char *params);
void end(void);
struct weir_node *input(const char *name, enum weir_dtype dtype, int64_t rows,
			int64_t columns);
/* A run whose result is @out, by a scheduler of its own unless it is pinned. */
void run_make(struct weir_node *out);
void run_free(void);
/* y = ((table[ids] * x) + x) * 2; without @indices a square is the row. */
void model_make(bool indices);
void set(struct weir_node *node, size_t n, float value);
void model_set(float x, int32_t id);
int run_once(void);
float result(void); /* the first element */
struct weir_lane lane(void);

#endif
