/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the CPU compared with the naive evaluator. A trial is a small
 * graph: put() makes its leaves, the functions of ops.h its operations, and
 * same() computes it in several ways and empties it:
 *
 * - each kernel by itself, its parts in random order, as planned for one thread
 *   and for three; results, and the kernel's own memory, are NaNs before;
 * - the last one with its result in the place of each source that allows it,
 *   and with source 0 from a reader, if its kernel takes one, and one that
 *   fails;
 * - all of it by an executable graph.
 *
 * t/cuda has the same trials on a CUDA device (ways_cuda.c).
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <stdint.h>

#include <weir.h>

/* Greatest NMSE for results of F32, of F16 and of BF16. */
#define NEAR_F32 1e-10
#define NEAR_F16 1e-6
#define NEAR_BF16 1e-4
/*
 * Limits of products with weights of F16 and BF16, and quantised ones, to whose
 * precision a kernel may convert the other source.
 */
#define NEAR_PRODUCT_F16 1e-6
#define NEAR_PRODUCT_BF16 1e-4
#define NEAR_PRODUCT_QUANT 5e-4

extern struct weir_graph *g; /* graph of this trial */

void trials_begin(void);
/* Draw what follows from @seed. */
void random_from(uint64_t seed);
int trials_end(void); /* the exit status of main */

/* A number in [0, n), [-2, 2). */
uint64_t random_below(uint64_t n);
double random_number(void);
/* A leaf of random elements: numbers in [-2, 2), or in [0, 100) of I32. */
struct weir_node *put(enum weir_dtype dtype, unsigned ndim, ...);
/* A leaf of random indices in [0, below). */
struct weir_node *put_ids(enum weir_dtype dtype, uint64_t below, unsigned ndim,
			  ...);
/* A leaf of these elements; not quantised. */
struct weir_node *put_values(enum weir_dtype dtype, const double *v,
			     unsigned ndim, ...);
/* "F32" */
const char *dtype_name(enum weir_dtype dtype);
/* The greatest NMSE that a result of this dtype may have. */
double near_of(enum weir_dtype dtype);

/* One check: all ways to compute @node agree with the evaluator. */
void same(struct weir_node *node, double nmse, const char *title, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * No check: NULL, or what the first way that is wrong did. A device computes
 * twice, in two orders of warps and blocks, the same bits.
 */
const char *trial_differs(struct weir_node *node, double nmse);
/* Empty the graph, without a check. */
void trial_reset(void);
/* One check: every way fails with this errno, and this part of a sentence. */
void fails(struct weir_node *node, int err, const char *part, const char *title,
	   ...) __attribute__((format(printf, 4, 5)));
/* One check: the CPU refuses the operation, with this part of a sentence. */
void refuses(struct weir_node *node, const char *part, const char *title, ...)
	__attribute__((format(printf, 3, 4)));

#endif
