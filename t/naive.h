/* SPDX-License-Identifier: MIT */
/*
 * A second implementation of graphs: plain loops in double precision, written
 * from weir_ops(3) alone, for host tensors. A node without bytes in a leaf has
 * memory of its own, so nothing is ever used again. Leaves are copied, each
 * buffer once, and operations write to the copies, in the order of the nodes.
 * Conversions are the library's weir_convert(), which has tests of its own.
 */
#ifndef T_NAIVE_H
#define T_NAIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

struct naive;

/* Bails out: a leaf is not placed, or its buffer is joined. */
struct naive *naive_new(const struct weir_graph *g);
void naive_free(struct naive *naive);
/* The bytes of an input, which are copied. */
void naive_input(struct naive *naive, const struct weir_node *node,
		 const void *data);
/*
 * Compute all nodes. 0, or the errno of a CALL; -EINVAL: an index is out of
 * range. naive_failed() is the node then.
 */
int naive_run(struct naive *naive);
size_t naive_failed(const struct naive *naive);
/* The result of a node; of what is stored in a leaf, the last one. */
const struct weir_operand *naive_result(const struct naive *naive,
					const struct weir_node *node);

/* The tensor as an operand. It is placed in host memory. */
struct weir_operand naive_operand(const struct weir_tensor *t);
/* The same for a tensor whose first element is at @data. */
struct weir_operand naive_operand_at(const struct weir_tensor *t, void *data);
/* The elements as doubles, in their order. Free it. */
double *naive_doubles(const struct weir_operand *t);
int64_t naive_count(const struct weir_operand *t);

/* How far a tensor is from what it should be. */
struct naive_diff {
	double nmse; /* sum (got - want)^2 / sum want^2; of finite elements */
	double max;  /* greatest difference of a finite element */
	int64_t at;  /* element with that difference */
	int64_t odd; /* first element that only in one is NaN, +inf or -inf, or
			dtype or shape differ: 0; -1: none */
};
struct naive_diff naive_compare(const struct weir_operand *got,
				const struct weir_operand *want);

#endif
