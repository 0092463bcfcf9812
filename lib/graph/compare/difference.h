/* SPDX-License-Identifier: MIT */
/* How far two tensors are from each other. */
#ifndef WEIR__GRAPH_DIFFERENCE_H
#define WEIR__GRAPH_DIFFERENCE_H

#include <weir/compare.h>

/*
 * Fill in what @ret says of its tensors, which are in host memory at these
 * addresses. -EOPNOTSUPP: a quantised dtype that the library does not convert.
 */
int weir__difference(const void *a, const void *b, struct weir_compared *ret);

#endif
