/* SPDX-License-Identifier: MIT */
/* Nodes for tests of graphs. */
#ifndef T_LEAF_H
#define T_LEAF_H

#include <weir.h>

/* A new graph, or bail out. */
struct weir_graph *graph_new(void);
/* A leaf that is not placed, with @ndim dimensions of type int. */
struct weir_node *leaf(struct weir_graph *g, const char *name,
		       enum weir_dtype dtype, unsigned ndim, ...);
/* The same, of F32 and without a name. */
#define F32(g, ndim, ...) leaf(g, NULL, WEIR_DTYPE_F32, ndim, __VA_ARGS__)

/* "F32 [2, 3]" of a node; "NULL". Valid until the fourth call from now. */
const char *form_of(const struct weir_node *node);

#endif
