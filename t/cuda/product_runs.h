/* SPDX-License-Identifier: MIT */
/*
 * A product that cuBLASLt may compute, for tests of that library: the graph of
 * a product of a [M, K] of BF16 and b [N, K] of F32, which a device runs.
 */
#ifndef T_PRODUCT_RUNS_H
#define T_PRODUCT_RUNS_H

#include "gpu.h"

#define M 33
#define N 70
#define K 136

extern struct product {
	struct weir *weir;
	struct weir_dev *dev;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_node *a, *b, *y;
	struct weir_exec *exec;
	struct weir_run *run;
} p;
/* The inputs: sums of them depend on their order. */
extern bool uneven;

/* A root with a run on @device, as "CUDA0" or "CUDA0:cublaslt=no". */
void begin(const char *device);
void end(void);
/* Parts of begin(). */
void product_graph(void);
void product_inputs(void);
int run_once(void);
void result_get(float y[N * M]);
/* The inputs need no rounding, so only sums are rounded. */
bool is_right(void);
struct weir_lane lane(void);

#endif
