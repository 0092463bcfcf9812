/* SPDX-License-Identifier: MIT */
/*
 * Lifetimes of the tensors of transformers' graphs, as a library that runs them
 * would give them to the planner: one step for each operation, weights and
 * caches placed elsewhere.
 */
#ifndef BENCH_GRAPHS_H
#define BENCH_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/placement.h>

struct arch {
	const char *name;
	unsigned layers, dim, heads, kv_heads, head_dim, ffn, vocab;
	unsigned experts, used, expert_ffn; /* numbers of a mixture of
					       experts */
	unsigned shared;                    /* experts that all tokens use */
	unsigned latent;                    /* compressed keys and values */
	unsigned encoder;                   /* layers of an encoder; its length
					       is 1500, as for speech */
	unsigned patches; /* patches of a vision tower of 24 layers and 1024
			     dims */
	bool fused_attention, parallel, post_norm, gated, biases;
	bool keeps_hidden; /* each layer's result is an output */
	bool trains;       /* with the backward pass */
};

/* One run: new tokens, and all that attention sees. */
struct run {
	const char *name;
	unsigned tokens, length, outputs;
};

struct graph {
	struct weir_lifetime *item;
	size_t n, max;
	int64_t step;
};

extern const struct arch archs[];
extern const size_t n_archs;
extern const struct run runs[];
extern const size_t n_runs;

/* Append the graph to @g ({ 0 } at first), after its last step. */
void graph_build(struct graph *g, const struct arch *a, const struct run *r);
void graph_free(struct graph *g);
/*
 * Place it in memory of a GPU, by the greedy planner, and describe the
 * placement. Errors of weir_placement_new().
 */
int graph_place(const struct graph *g, struct weir_placement_info *ret_info);

#endif
