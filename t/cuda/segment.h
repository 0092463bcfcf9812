/* SPDX-License-Identifier: MIT */
/*
 * Segments of nodes at addresses of the test's choice, for tests of groups of
 * nodes: overlapping tensors, which no plan of a graph may have made yet. Each
 * node is valid by itself: its result is apart from its sources, or takes the
 * place of one as operations allow. A test makes nodes after segment_begin(),
 * and segment_check() computes them.
 */
#ifndef T_SEGMENT_H
#define T_SEGMENT_H

#include "gpu.h"
#include <weir/backend.h>

#define F32 WEIR_DTYPE_F32
#define F16 WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16
#define I32 WEIR_DTYPE_I32
#define Q8_0 WEIR_DTYPE_Q8_0

/* Where tensors are: the first byte of place @i, of 4096 bytes. */
#define PLACES 48
#define PLACE(i) (4096u * (i))

/* Skips the test if CUDA0 does not compute. */
void segments_begin(void);
/* Two checks of their own: no finding about kernels, nothing is left. */
void segments_end(void);

/* Forget all nodes; all memory has random floats. */
void segment_begin(void);
/* A dense tensor of @rows, or @outer matrices of them. */
struct weir_operand rows_at(unsigned at, enum weir_dtype dtype, int rows,
			    int columns);
struct weir_operand heads_at(unsigned at, enum weir_dtype dtype, int outer,
			     int rows, int columns);
/* The same bytes and elements in another shape. */
struct weir_operand as_rows(struct weir_operand t, int rows, int columns);
/* Move the tensor to @at. */
void move(struct weir_operand *t, unsigned at);
/* Random numbers in the tensor's memory, in its dtype. */
struct weir_operand numbers(struct weir_operand t);
/* 4096 bytes of 0 from the tensor's first one on. */
void zeros(struct weir_operand t);
/*
 * A row of 256 numbers: in which order their squares are added up decides on
 * the bits of the norm. The order of 256 threads, each with one of them, leaves
 * a power of two.
 */
#define SENSITIVE 256
void sensitive(struct weir_operand t);
/* One index. */
struct weir_operand index_at(unsigned at, int value);
/* A node of the operation whose parameters are not changed later. */
struct weir_backend_node *node(enum weir_op op, const void *params,
			       struct weir_operand dst, unsigned n_src, ...);
/* Source @i of a node of this segment. */
struct weir_operand *src_of(struct weir_backend_node *node, unsigned i);

/*
 * One check: nodes one by one need @single launches, and groups @joined; both
 * leave the same bytes in all memory, whatever the order of blocks; and the
 * CPU computes about the same numbers.
 */
void segment_check(int single, int joined, const char *title);
/*
 * One check: with and without groups node @failed fails with -EINVAL, and
 * @part of a sentence.
 */
void segment_fails(size_t failed, const char *part, const char *title);

#endif
