/* SPDX-License-Identifier: MIT */
#ifndef WEIR__GRAPH_OVERLAP_H
#define WEIR__GRAPH_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/tensor.h>

struct weir__made;

/*
 * Do @a at @at_a and @b at @at_b have a byte in common? Both are valid. True also
 * if strides are such that 4096 steps do not find that out.
 */
bool weir__overlap(const struct weir_tensor *a, uint64_t at_a,
		   const struct weir_tensor *b, uint64_t at_b);

/*
 * -EINVAL: the target of a write and another source of it overlap. Bytes of which
 * nothing is known yet, those of leaves that are not placed, do not.
 */
int weir__check_overlap(const struct weir__made *m);

#endif
