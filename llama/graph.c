/* SPDX-License-Identifier: MIT */
/*
 * The graph of a pass. Builders read like the formulas; the first failure is
 * kept in the graph, so nothing is checked here. Shapes: T tokens, S attended
 * tokens of the cache, E the embedding, H heads and KV heads of D elements.
 *
 * Each operation has a name: that of its weight without ".weight", or one of its
 * layer. So a pattern for the weights of a layer also matches its operations.
 */
#include <stdio.h>
#include <string.h>

#include "llama.h"

enum {
	NAME_BYTES = 128
};

struct builder {
	struct weir_graph *g;
	const struct llama_config *c;
	const struct llama_weights *w;
	const struct llama_cache *cache;
	const struct llama_pass *pass;
	struct weir_node *factors; /* of RoPE; NULL: none */
};

/* A constant: if several devices need it, each copies it once. */
static struct weir_node *weight(const struct builder *b, size_t i)
{
	const struct llama_source *s = &b->w->source[i];
	const struct weir_tensor *t = &b->w->tensor[i];

	if (s->file)
		return weir_graph_leaf_file(b->g, t, s->file, s->offset);
	return weir_graph_constant(b->g,
				   weir_graph_leaf(b->g, t, b->w->event[i]));
}

/* Name @x after weight @i, and @what: "blk.0.attn_q.rope". */
static struct weir_node *of_weight(const struct builder *b, size_t i,
				   const char *what, struct weir_node *x)
{
	const char *weight = b->w->tensor[i].name;
	const char *end = strstr(weight, ".weight");
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.*s%s",
		 end ? (int)(end - weight) : NAME_BYTES, weight, what);
	return weir_node_set_name(x, name);
}

/* "blk.0.attn" */
static struct weir_node *of_layer(const struct builder *b, size_t layer,
				  const char *what, struct weir_node *x)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s.%zu.%s",
		 b->c->gguf ? "blk" : "model.layers", layer, what);
	return weir_node_set_name(x, name);
}

static struct weir_node *norm(const struct builder *b, struct weir_node *x,
			      size_t i)
{
	x = of_weight(b, i, ".rms", weir_rms_norm(b->g, x, b->c->eps));
	return of_weight(b, i, "", weir_mul(b->g, x, weight(b, i)));
}

static struct weir_node *product(const struct builder *b, size_t i,
				 struct weir_node *x)
{
	return of_weight(b, i, "", weir_mul_mat(b->g, weight(b, i), x));
}

/* [T, heads * D] as [T, heads, D]. */
static struct weir_node *split(const struct builder *b, struct weir_node *x,
			       int64_t rows, int64_t heads)
{
	const int64_t shape[] = { rows, heads, b->c->head };

	return weir_reshape(b->g, x, 3, shape);
}

/* The reverse. */
static struct weir_node *join(const struct builder *b, struct weir_node *x,
			      int64_t rows, int64_t heads)
{
	const int64_t shape[] = { rows, heads * b->c->head };

	return weir_reshape(b->g, x, 2, shape);
}

/* [rows, heads, D] as [heads, rows, D], which attention needs. */
static struct weir_node *by_heads(const struct builder *b, struct weir_node *x)
{
	const int64_t dim[] = { 1, 0, 2 };

	return weir_permute(b->g, x, 3, dim);
}

/* The product with weight @i, by heads, rotated: [T, heads, D]. */
static struct weir_node *rotated(const struct builder *b, size_t i,
				 struct weir_node *x, int64_t heads)
{
	x = split(b, product(b, i, x), b->pass->tokens, heads);
	x = weir_rope(b->g, x, b->pass->positions, b->factors, &b->c->rope);
	return of_weight(b, i, ".rope", x);
}

/*
 * Write @x, [T, KV heads * D], the result of weight @w, to cache @i. Returns its
 * attended tokens, by heads.
 */
static struct weir_node *remember(const struct builder *b, struct weir_node *x,
				  size_t i, size_t w)
{
	struct weir_node *all;

	all = weir_graph_leaf(b->g, &b->cache->tensor[i], NULL);
	all = of_weight(b, w, ".cache", all);
	all = weir_set_rows(b->g, all, x, b->pass->positions);
	all = of_weight(b, w, ".cached", all);
	all = weir_slice(b->g, all, 0, 0, b->pass->attended);
	all = split(b, all, b->pass->attended, b->c->kv_heads);
	return by_heads(b, all);
}

static struct weir_node *attention(const struct builder *b, size_t layer,
				   struct weir_node *x)
{
	const size_t w = layer * LLAMA_LAYER_TENSORS;
	const int64_t n = b->pass->tokens;
	struct weir_node *q, *k, *v;

	q = rotated(b, w + LLAMA_Q, x, b->c->heads);
	k = rotated(b, w + LLAMA_K, x, b->c->kv_heads);
	v = product(b, w + LLAMA_V, x);
	k = remember(b, join(b, k, n, b->c->kv_heads), layer, w + LLAMA_K);
	v = remember(b, v, (size_t)b->c->layers + layer, w + LLAMA_V);
	x = weir_attention(b->g, by_heads(b, q), k, v, b->pass->mask, NULL);
	return join(b, of_layer(b, layer, "attention", x), n, b->c->heads);
}

static struct weir_node *feed_forward(const struct builder *b, size_t layer,
				      struct weir_node *x)
{
	const size_t w = layer * LLAMA_LAYER_TENSORS;

	struct weir_node *gate, *up;

	gate = product(b, w + LLAMA_GATE, x);
	up = product(b, w + LLAMA_UP, x);
	x = of_layer(b, layer, "swiglu", weir_swiglu(b->g, gate, up));
	return product(b, w + LLAMA_DOWN, x);
}

/* Of the last layer, only the tokens whose logits are needed. */
static struct weir_node *needed(const struct builder *b, size_t layer,
				struct weir_node *x)
{
	const int64_t n = b->pass->tokens;

	if (b->pass->all || n == 1 || (int64_t)layer + 1 < b->c->layers)
		return x;
	return weir_slice(b->g, x, 0, n - 1, 1);
}

static struct weir_node *layer(const struct builder *b, size_t i,
			       struct weir_node *x)
{
	const size_t w = i * LLAMA_LAYER_TENSORS;
	struct weir_node *y;

	y = attention(b, i, norm(b, x, w + LLAMA_ATTN_NORM));
	y = product(b, w + LLAMA_ATTN_OUT, needed(b, i, y));
	x = of_layer(b, i, "attn_sum", weir_add(b->g, needed(b, i, x), y));
	y = feed_forward(b, i, norm(b, x, w + LLAMA_FFN_NORM));
	return of_layer(b, i, "sum", weir_add(b->g, x, y));
}

void llama_graph(struct weir_graph *g, const struct llama_config *c,
		 const struct llama_weights *w, const struct llama_cache *cache,
		 struct llama_pass *pass)
{
	const int64_t mask[] = { pass->tokens, pass->attended };
	struct builder b = {
		.g = g, .c = c, .w = w, .cache = cache, .pass = pass
	};
	struct weir_node *x;

	pass->ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, mask);
	pass->positions =
		weir_graph_input(g, "positions", WEIR_DTYPE_I32, 1, mask);
	pass->mask = weir_graph_input(g, "mask", WEIR_DTYPE_F32, 2, mask);
	if (w->factors < w->n)
		b.factors = weir_node_set_name(weight(&b, w->factors),
					       "rope_factors");
	x = weir_get_rows(g, weight(&b, w->embedding), pass->ids);
	x = of_weight(&b, w->embedding, "", x);
	for (int64_t i = 0; i < c->layers; i++)
		x = layer(&b, (size_t)i, x);
	x = product(&b, w->output, norm(&b, x, w->norm));
	pass->logits = weir_graph_output(g, weir_node_set_name(x, "logits"));
}
