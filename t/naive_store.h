/* SPDX-License-Identifier: MIT */
/* Elements of the naive evaluator in memory: any dtype, any strides. */
#ifndef T_NAIVE_STORE_H
#define T_NAIVE_STORE_H

#include <weir.h>

/* Convert the elements, in their order, and write them to @to. */
void naive_store(const struct weir_operand *to, const double *v);
/* The elements of @from, in their order, to @to: copied or converted. */
void naive_move(const struct weir_operand *to, const struct weir_operand *from);
/*
 * Each element of @to is that of @a with the same index, modulo the shape of
 * @a. If @b is not NULL, indices from a->shape[@dim] on are those of @b.
 */
void naive_repeat(const struct weir_operand *to, const struct weir_operand *a,
		  const struct weir_operand *b, unsigned dim);

#endif
