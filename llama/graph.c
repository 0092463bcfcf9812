/* SPDX-License-Identifier: MIT */
/*
 * The graph of a pass. Builders read like the formulas; the first failure is
 * kept in the graph, so nothing is checked here. Shapes: T tokens, E the
 * embedding, H heads and KV heads of D elements.
 *
 * Each operation has a name: that of its weight without ".weight", or one of
 * its layer. So a pattern for the weights of a layer also matches its
 * operations.
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
	struct weir_node *factors; /* factors of RoPE, or NULL */
};

/*
 * Add a weight. It is constant: if several devices need it, each copies it
 * once.
 */
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
	x = weir_mul_mat_precision(b->g, weight(b, i), x, b->pass->precision);
	return of_weight(b, i, "", x);
}

/* Add the product with a matrix of a layer, and its bias. */
static struct weir_node *linear(const struct builder *b, size_t layer,
				unsigned matrix, struct weir_node *x)
{
	size_t bias;

	x = product(b, llama_weight_of(b->w, layer, matrix), x);
	if (!b->c->has[LLAMA_BIAS + matrix])
		return x;
	bias = llama_weight_of(b->w, layer, LLAMA_BIAS + matrix);
	return of_weight(b, bias, "", weir_add(b->g, x, weight(b, bias)));
}

/* View [T, heads * D] as [T, heads, D]. */
static struct weir_node *split(const struct builder *b, struct weir_node *x,
			       int64_t rows, int64_t heads)
{
	const int64_t shape[] = { rows, heads, b->c->head };

	return weir_reshape(b->g, x, 3, shape);
}

/* The reverse of split(). */
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

/*
 * Q or K, [T, heads * D], by heads, with norm @kind if there is one, rotated:
 * [T, heads, D].
 */
static struct weir_node *rotated(const struct builder *b, size_t layer,
				 unsigned matrix, unsigned kind,
				 struct weir_node *x, int64_t heads)
{
	x = split(b, x, b->pass->tokens, heads);
	if (b->c->has[kind])
		x = norm(b, x, llama_weight_of(b->w, layer, kind));
	x = weir_rope(b->g, x, b->pass->positions, b->factors, &b->c->rope);
	return of_weight(b, llama_weight_of(b->w, layer, matrix), ".rope", x);
}

/*
 * Write @x, [T, KV heads * D], the result of weight @w, to cache @i. Returns
 * the cache, by heads.
 */
static struct weir_node *remember(const struct builder *b, struct weir_node *x,
				  size_t i, size_t w)
{
	struct weir_node *all;

	all = weir_graph_leaf(b->g, &b->cache->tensor[i], NULL);
	all = of_weight(b, w, ".cache", all);
	all = weir_set_rows(b->g, all, x, b->pass->positions);
	all = of_weight(b, w, ".cached", all);
	all = split(b, all, b->cache->length, b->c->kv_heads);
	return by_heads(b, all);
}

static struct weir_node *attention(const struct builder *b, size_t layer,
				   struct weir_node *x)
{
	const struct llama_config *c = b->c;
	const size_t weight_k = llama_weight_of(b->w, layer, LLAMA_K);
	const size_t weight_v = llama_weight_of(b->w, layer, LLAMA_V);
	const int64_t n = b->pass->tokens;
	struct weir_op_attention params = { .precision = b->pass->precision,
					    .causal = 1 };
	struct weir_node *q, *k, *v;

	if (llama_has_window(c, (int64_t)layer))
		params.window = (uint32_t)c->window;
	/* In this order devices compute neighbours by one kernel. */
	q = linear(b, layer, LLAMA_Q, x);
	k = linear(b, layer, LLAMA_K, x);
	v = linear(b, layer, LLAMA_V, x);
	q = rotated(b, layer, LLAMA_Q, LLAMA_Q_NORM, q, c->heads);
	k = rotated(b, layer, LLAMA_K, LLAMA_K_NORM, k, c->kv_heads);
	k = remember(b, join(b, k, n, c->kv_heads), layer, weight_k);
	v = remember(b, v, (size_t)c->layers + layer, weight_v);
	x = weir_attention_lengths(b->g, by_heads(b, q), k, v, b->pass->length,
				   NULL, NULL, &params);
	return join(b, of_layer(b, layer, "attention", x), n, c->heads);
}

static struct weir_node *feed_forward(const struct builder *b, size_t layer,
				      struct weir_node *x)
{
	struct weir_node *gate, *up;

	gate = linear(b, layer, LLAMA_GATE, x);
	up = linear(b, layer, LLAMA_UP, x);
	x = of_layer(b, layer, "swiglu", weir_swiglu(b->g, gate, up));
	return linear(b, layer, LLAMA_DOWN, x);
}

/* In the last layer keep only the tokens whose logits are needed. */
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
	struct weir_node *y;

	y = norm(b, x, llama_weight_of(b->w, i, LLAMA_ATTN_NORM));
	y = needed(b, i, attention(b, i, y));
	y = linear(b, i, LLAMA_ATTN_OUT, y);
	x = of_layer(b, i, "attn_sum", weir_add(b->g, needed(b, i, x), y));
	y = norm(b, x, llama_weight_of(b->w, i, LLAMA_FFN_NORM));
	return of_layer(b, i, "sum", weir_add(b->g, x, feed_forward(b, i, y)));
}

static void add_inputs(struct weir_graph *g, struct llama_pass *pass)
{
	const int64_t n = pass->tokens, one = 1;

	pass->ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, &n);
	pass->positions =
		weir_graph_input(g, "positions", WEIR_DTYPE_I32, 1, &n);
	pass->length = weir_graph_input(g, "length", WEIR_DTYPE_I32, 1, &one);
}

void llama_graph(struct weir_graph *g, const struct llama_config *c,
		 const struct llama_weights *w, const struct llama_cache *cache,
		 struct llama_pass *pass)
{
	struct builder b = {
		.g = g, .c = c, .w = w, .cache = cache, .pass = pass
	};
	struct weir_node *x;

	add_inputs(g, pass);
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
