/* SPDX-License-Identifier: MIT */
/*
 * Random graphs whose results are known well enough to compare two ways of
 * computing them. Of each node there is a bound of its elements, and how far
 * two right results can be apart. Many nodes are exact: their elements are
 * small multiples of a power of two, so every order of additions gives the
 * same. What grows too large or too uncertain is not used as a source.
 */
#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include <stdint.h>

#include <weir.h>

struct known {
	double bound; /* bound of absolute values */
	double step;  /* all elements are multiples of it; 0: of nothing */
	double err;   /* greatest difference between two right results */
};

#define RANDOM_INPUTS 4
#define RANDOM_CACHES 2 /* F32 and F16 */
#define RANDOM_LATER 4  /* leaves whose bytes arrive during a run */

struct random_graph {
	struct weir_graph *g;
	struct known *known; /* what is known of each node when it is made */
	int8_t *cache;       /* the cache in which it is stored; -1: none */
	size_t n, room;
	struct weir_node *input[RANDOM_INPUTS];
	unsigned n_inputs;
	struct known cache_known[RANDOM_CACHES]; /* after all writes */
	struct weir_node *later[RANDOM_LATER];
	unsigned n_later;
	/* Made once for all graphs: */
	struct weir_buf *weights, *caches[RANDOM_CACHES];
	/* Bytes that arrive; those of inputs in memory of the host. */
	struct weir_buf *leaf_bytes, *input_bytes;
	struct weir_event *leaf_event[RANDOM_LATER];
	struct weir_event *input_event[RANDOM_INPUTS];
};

/*
 * Allocate the buffers in memory of one of @n kinds each, the first in that of
 * the host, or bail out.
 */
void random_graph_begin(struct random_graph *r, struct weir *weir,
			struct weir_buft *const *buft, unsigned n);
void random_graph_end(struct random_graph *r);
/* Make another graph of about @nodes nodes, and the contents of the caches. */
void random_graph_make(struct random_graph *r, uint64_t seed, size_t nodes);
/* The contents of the caches as they were before the first run. */
void random_graph_caches(struct random_graph *r);
/* Bytes for an input. */
void random_graph_input(const struct weir_node *node, uint64_t seed, void *to);
/* Bytes of weights, for a leaf or an input that gets them later. */
const void *random_graph_bytes(const struct random_graph *r,
			       const struct weir_node *node, uint64_t seed);
/* Place @t, of the dtype and shape of input @i, where its bytes arrive. */
void random_graph_place(const struct random_graph *r, unsigned i,
			struct weir_tensor *t);
/* What is known of a node after all writes. */
struct known random_graph_known(const struct random_graph *r,
				const struct weir_node *node);

#endif
