/* SPDX-License-Identifier: MIT */
/* The operations of the naive evaluator: arrays of doubles in and out. */
#ifndef T_NAIVE_OPS_H
#define T_NAIVE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#define NAIVE_DIMS WEIR_MAX_DIMS

/*
 * The elements of a tensor in their order. Its dimensions are the last ones of
 * shape; those that it lacks are 1.
 */
struct array {
	int64_t shape[NAIVE_DIMS];
	int64_t n;
	double *v; /* NULL: a source that was left out */
};

#define LAST (NAIVE_DIMS - 1)

/* Element @index of @a, whose dimensions are repeated as often as needed. */
static inline double *element(const struct array *a, const int64_t *index)
{
	int64_t at = 0;

	for (int d = 0; d < NAIVE_DIMS; d++)
		at = at * a->shape[d] + index[d] % a->shape[d];
	return &a->v[at];
}

/* Row @row of @a, counted over all outer dimensions. */
static inline double *row_of(const struct array *a, int64_t row)
{
	return a->v + row * a->shape[LAST];
}

/* Number of rows, of @dims dimensions together each. */
static inline int64_t outer_of(const struct array *a, int dims)
{
	int64_t n = 1;

	for (int d = 0; d < NAIVE_DIMS - dims; d++)
		n *= a->shape[d];
	return n;
}

/* The next index in @shape, in order; false after the last one. */
bool next_index(const int64_t *shape, int64_t *index);

/*
 * Compute @dst, whose elements may have any value before. -EINVAL: an index is
 * out of range.
 */
typedef int naive_op(const void *params, struct array *dst,
		     const struct array *src, unsigned n);

/* The operation, or NULL. */
naive_op *naive_op_find(uint32_t op);

naive_op naive_mul_mat, naive_mul_mat_id, naive_soft_max, naive_rope,
	naive_attention;

/* Write rows @ids of @dst. -EINVAL: an index is out of range. */
int naive_set_rows(const struct weir_operand *dst, const struct array *b,
		   const struct array *ids);

#endif
