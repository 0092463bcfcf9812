/* SPDX-License-Identifier: MIT */
/* Graphs of the shape of Llama, whose layers all have the same tensors. */
#ifndef BENCH_LAYERS_H
#define BENCH_LAYERS_H

#include <weir.h>

/* The tensors of a layer. */
struct layers {
	struct weir_tensor norm, q, k, v, out, gate, up, down, cache;
};

/* The tensors have no place. */
struct layers layers_new(void);
/* Place them in a new buffer. */
void layers_place(struct layers *l, struct weir_buft *buft,
		  struct weir_buf **ret_buf);
/* Build a graph of at least @n nodes, for one token. */
void layers_build(struct weir_graph *g, const struct layers *l, size_t n);

#endif
