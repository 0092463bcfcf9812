/* SPDX-License-Identifier: MIT */
#include "layers.h"

#include "must.h"

enum {
	TOKENS = 1,
	DIM = 2048,
	HEADS = 32,
	KV = 4,
	HEAD = 64,
	FFN = 5632
};
enum {
	VOCAB = 32000,
	CACHE = 256
};

static struct weir_tensor tensor(enum weir_dtype dtype, unsigned ndim,
				 int64_t a, int64_t b)
{
	const int64_t shape[] = { a, b };
	struct weir_tensor t;

	must(weir_tensor_init(&t, dtype, ndim, shape));
	t.name = "blk.0.weight";
	return t;
}

struct layers layers_new(void)
{
	const enum weir_dtype f16 = WEIR_DTYPE_F16;

	return (struct layers){
		.norm = tensor(WEIR_DTYPE_F32, 1, DIM, 0),
		.q = tensor(f16, 2, HEADS * HEAD, DIM),
		.k = tensor(f16, 2, KV * HEAD, DIM),
		.v = tensor(f16, 2, KV * HEAD, DIM),
		.out = tensor(f16, 2, DIM, HEADS * HEAD),
		.gate = tensor(f16, 2, FFN, DIM),
		.up = tensor(f16, 2, FFN, DIM),
		.down = tensor(f16, 2, DIM, FFN),
		.cache = tensor(f16, 2, CACHE, KV * HEAD),
	};
}

#define LEAF(t) weir_graph_leaf(g, t, NULL)
#define DIMS(...)           \
	(const int64_t[])   \
	{                   \
		__VA_ARGS__ \
	}

static struct weir_node *heads(struct weir_graph *g, struct weir_node *x,
			       int64_t rows, int64_t n)
{
	return weir_reshape(g, x, 3, DIMS(rows, n, HEAD));
}

/* The cache with the new rows, as [heads, rows, HEAD]. */
static struct weir_node *stored(struct weir_graph *g, const struct layers *l,
				struct weir_node *x, struct weir_node *ids)
{
	struct weir_node *cache = weir_set_rows(g, LEAF(&l->cache), x, ids);

	return weir_permute(g, heads(g, cache, CACHE, KV), 3, DIMS(1, 0, 2));
}

static struct weir_node *attend(struct weir_graph *g, const struct layers *l,
				struct weir_node *x, struct weir_node *pos,
				struct weir_node *mask)
{
	struct weir_node *q, *k, *v;

	q = heads(g, weir_mul_mat(g, LEAF(&l->q), x), TOKENS, HEADS);
	k = heads(g, weir_mul_mat(g, LEAF(&l->k), x), TOKENS, KV);
	v = weir_mul_mat(g, LEAF(&l->v), x);
	q = weir_rope(g, q, pos, NULL, NULL);
	k = weir_rope(g, k, pos, NULL, NULL);
	k = weir_reshape(g, k, 2, DIMS(TOKENS, KV * HEAD));
	q = weir_permute(g, q, 3, DIMS(1, 0, 2));
	x = weir_attention(g, q, stored(g, l, k, pos), stored(g, l, v, pos),
			   mask, NULL);
	x = weir_reshape(g, x, 2, DIMS(TOKENS, HEADS * HEAD));
	return weir_mul_mat(g, LEAF(&l->out), x);
}

static struct weir_node *layer(struct weir_graph *g, const struct layers *l,
			       struct weir_node *x, struct weir_node *pos,
			       struct weir_node *mask)
{
	struct weir_node *y;

	y = weir_mul(g, weir_rms_norm(g, x, 1e-5f), LEAF(&l->norm));
	x = weir_add(g, x, attend(g, l, y, pos, mask));
	y = weir_mul(g, weir_rms_norm(g, x, 1e-5f), LEAF(&l->norm));
	y = weir_swiglu(g, weir_mul_mat(g, LEAF(&l->gate), y),
			weir_mul_mat(g, LEAF(&l->up), y));
	return weir_add(g, x, weir_mul_mat(g, LEAF(&l->down), y));
}

void layers_build(struct weir_graph *g, const struct layers *l, size_t n)
{
	struct weir_node *x, *pos, *mask;
	uint64_t fingerprint[2];

	weir_graph_reset(g);
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, DIMS(TOKENS, DIM));
	pos = weir_graph_input(g, "pos", WEIR_DTYPE_I32, 1, DIMS(TOKENS));
	mask = weir_graph_input(g, "mask", WEIR_DTYPE_F16, 2,
				DIMS(TOKENS, CACHE));
	while (x && weir_graph_count(g) < n)
		x = layer(g, l, x, pos, mask);
	weir_graph_output(g, x);
	must(weir_graph_fingerprint(g, fingerprint));
}

void layers_place(struct layers *l, struct weir_buft *buft,
		  struct weir_buf **ret_buf)
{
	must(weir_tensors_alloc(buft, (struct weir_tensor *)(void *)l,
				sizeof(*l) / sizeof(l->norm), ret_buf));
}
