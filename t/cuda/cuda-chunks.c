/* SPDX-License-Identifier: MIT */
/*
 * Attention by chunks of positions on CUDA0: sizes of heads, groups of heads,
 * chunks that begin and end anywhere, in turn and split; which kernel computes
 * it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend.h"
#include "dtypes.h"
#include "tap.h"

#define INF ((double)INFINITY)

static const struct chunked {
	enum weir_dtype dtype;
	const char *name; /* of its kernel */
	double near;
} chunked[] = {
	{ F32, "f32", NEAR_F32 },
	{ F16, "f16", NEAR_F32 },
	{ BF16, "bf16", NEAR_F32 },
	{ WEIR_DTYPE_Q8_0, "blocks", NEAR_F32 },
	{ WEIR_DTYPE_Q4_0, "blocks", NEAR_F32 },
};
#define CHUNKED 5

static int launches_of_chunks(void)
{
	return launches("attention_chunks_f32") +
	       launches("attention_chunks_f16") +
	       launches("attention_chunks_bf16") +
	       launches("attention_chunks_blocks");
}

/* Sizes of heads, groups of heads, and chunks that are not whole. */
static void shapes(const struct chunked *c)
{
	/* Rows of whole words of blocks come first. */
	static const struct shape shape[] = {
		{ 8, 2, 1, 1, 128, 128 },    { 4, 1, 1, 127, 64, 64 },
		{ 2, 1, 3, 257, 256, 256 },  { 4, 2, 8, 400, 64, 128 },
		{ 16, 2, 1, 384, 192, 128 }, { 2, 1, 1, 0, 64, 128 },
		{ 9, 1, 1, 1100, 128, 64 },  { 2, 2, 5, 129, 64, 256 },
		{ 3, 3, 2, 129, 80, 80 },    { 14, 2, 1, 300, 96, 96 },
		{ 2, 2, 1, 1025, 32, 40 },   { 5, 1, 1, 1100, 48, 64 },
		{ 6, 2, 5, 200, 72, 112 },   { 2, 1, 1, 0, 64, 32 },
	};
	const bool is_blocks = c->dtype > WEIR_DTYPE_GGML;
	const int all = (int)(sizeof(shape) / sizeof(shape[0]));
	const struct weir_op_attention causal = { .causal = 1 };
	const int n = is_blocks ? 8 : all;
	int before = launches_of_chunks();

	for (int i = 0; i < n; i++)
		same(attend(&shape[i], c->dtype, NULL, i % 2 ? &causal : NULL),
		     c->near,
		     "%s: %d heads of %d and %d elements, %d of k, "
		     "%d tokens, %d positions",
		     c->name, shape[i].heads, shape[i].d, shape[i].dv,
		     shape[i].heads_k, shape[i].t, shape[i].s);
	if (on_fake(1))
		is_int(launches_of_chunks() - before, n,
		       "each was computed by attention_chunks_%s", c->name);
}

/* A mask of @t rows: random numbers, and hidden positions. */
static struct weir_node *mask_put(int t, int s, int from, int to)
{
	double *v = calloc((size_t)(t * s), sizeof(*v));
	struct weir_node *mask;

	for (int i = 0; i < t * s; i++)
		v[i] = i % s < from || i % s >= to || random_below(5) == 0
			       ? -INF
			       : random_number();
	mask = put_values(t % 2 ? F16 : F32, v, 2, t, s);
	free(v);
	return mask;
}

static void parameters(const struct chunked *c)
{
	const struct shape few = { 4, 2, 3, 500, 64, 64 };
	struct weir_op_attention p = { .scale = 0.2f, .softcap = 3 };
	struct weir_node *src[5];

	same(attend(&few, c->dtype, mask_put(3, 500, 0, 500), &p), c->near,
	     "%s: a mask, scale and softcap", c->name);
	p.softcap = 0;
	p.max_bias = 8;
	same(attend(&few, c->dtype, mask_put(3, 500, 130, 251), &p), c->near,
	     "%s: ALiBi, and a mask that hides two chunks", c->name);
	same(attend(&few, c->dtype, mask_put(3, 500, 0, 0), &p), c->near,
	     "%s: a mask that hides all", c->name);
	p = (struct weir_op_attention){ .causal = 1, .window = 200 };
	same(attend(&few, c->dtype, NULL, &p), c->near, "%s: a window",
	     c->name);
	p.precision = WEIR_PRECISION_INVARIANT;
	src[0] = put(F16, 4, 2, 4, 300, 64);
	src[1] = put(c->dtype, 4, 2, 2, 300, 64);
	src[2] = put(c->dtype, 4, 2, 2, 300, 64);
	src[3] = NULL;
	src[4] = put(F32, 1, 4);
	same(weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p), src, 5),
	     c->near, "%s: many tokens, a window and sinks, invariant",
	     c->name);
}

/* Sequences of all lengths, in pages or not. */
static void sequences(const struct chunked *c, int t, int page)
{
	const double length[] = { 0, 1, 300, 128, 129, 256, 3, 290 };
	struct weir_op_attention p = { .causal = 1, .page = (uint32_t)page };
	int n = page ? 304 / page : 304;
	int dv = c->dtype > WEIR_DTYPE_GGML ? 64 : 96;
	struct weir_node *src[7] = { NULL };
	double *pages = calloc((size_t)(8 * n), sizeof(*pages));

	/* Several sequences have the same pages. */
	for (int i = 0; i < 8 * n; i++)
		pages[i] = (double)random_below((uint64_t)n);
	src[0] = put(F32, 4, 8, 6, t, 64);
	src[1] = page ? put(c->dtype, 3, 2, n * page, 64)
		      : put(c->dtype, 4, 8, 2, n, 64);
	src[2] = page ? put(c->dtype, 3, 2, n * page, dv)
		      : put(c->dtype, 4, 8, 2, n, dv);
	src[5] = put_values(I32, length, 1, 8);
	src[6] = page ? put_values(I32, pages, 2, 8, n) : NULL;
	same(weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p), src, 7),
	     c->near, "%s: 8 lengths, %d tokens, pages of %d", c->name, t,
	     page);
	free(pages);
}

/* A cache of [S, heads, D], and positions that were never written. */
static void views(const struct chunked *c)
{
	const double row[] = { 0, 0, -INF, -INF, 0, -INF };
	double *v = calloc(6 * 64, sizeof(*v));
	struct weir_node *k;

	same(weir_attention(g, put(BF16, 3, 4, 2, 64),
			    weir_permute(g, put(c->dtype, 3, 150, 2, 64), 3,
					 D(1, 0, 2)),
			    weir_permute(g, put(c->dtype, 3, 150, 2, 64), 3,
					 D(1, 0, 2)),
			    NULL, NULL),
	     c->near, "%s: permuted heads", c->name);
	if (c->dtype > WEIR_DTYPE_GGML) {
		free(v);
		return;
	}
	for (int i = 0; i < 6 * 64; i++)
		v[i] = row[i / 64] != 0 ? NAN : random_number();
	k = put_values(c->dtype, v, 3, 1, 6, 64);
	same(weir_attention(g, put(F32, 3, 2, 1, 64), k, k,
			    put_values(F32, row, 2, 1, 6), NULL),
	     c->near, "%s: hidden positions may be NaNs", c->name);
	free(v);
}

/* Rows that chunks do not take. */
static void others(void)
{
	static const struct shape shape[] = {
		{ 2, 1, 1, 200, 24, 64 },
		{ 2, 1, 1, 200, 64, 260 },
		{ 2, 1, 1, 200, 68, 64 },
	};
	const struct shape odd = { 2, 1, 1, 200, 96, 64 };
	const struct shape even = { 2, 1, 1, 200, 64, 64 };
	int before = launches_of_chunks();

	for (int i = 0; i < 3; i++)
		same(attend(&shape[i], F16, NULL, NULL), NEAR_F32,
		     "heads of %d and %d elements", shape[i].d, shape[i].dv);
	same(weir_attention(g, put(F32, 3, 2, 1, 64),
			    weir_slice(g, put(F16, 3, 2, 200, 68), 2, 3, 64),
			    put(F16, 3, 2, 200, 64), NULL, NULL),
	     NEAR_F32, "rows at addresses that are no multiples of 16");
	same(attend(&odd, WEIR_DTYPE_Q8_0, NULL, NULL), NEAR_F32,
	     "rows of blocks that are no whole words");
	same(attend(&even, WEIR_DTYPE_Q5_0, NULL, NULL), NEAR_F32,
	     "rows of Q5_0");
	if (on_fake(1))
		is_int(launches_of_chunks() - before, 0,
		       "none of them was computed by chunks");
}

static void orders(void)
{
	static const struct shape all = { 4, 1, 2, 1100, 32, 32 };
	uint64_t blocks = 0;
	char order[8];

	if (!on_fake(1))
		return;
	for (int i = 1; i <= 20; i++) {
		snprintf(order, sizeof(order), "%d", i);
		fake.set("ORDER", order);
		sequences(&chunked[i % CHUNKED], i % 3 + 1, i % 2 ? 16 : 0);
		if (i % 4)
			continue;
		blocks = kernel_counts("attention_chunks_f16").blocks;
		same(attend(&all, F16, NULL, NULL), NEAR_F32,
		     "order %d of blocks", i);
		blocks = kernel_counts("attention_chunks_f16").blocks - blocks;
	}
	fake.set("ORDER", "0");
	is_int((int)blocks, 18, "the last of them was split into 18 blocks");
}

int main(void)
{
	/* A device of few multiprocessors splits few blocks only. */
	setenv("FAKECUDA_SMS", "2", 1);
	trials_begin();
	for (unsigned i = 0; i < CHUNKED; i++) {
		shapes(&chunked[i]);
		sequences(&chunked[i], 7, 16);
		if (i == CHUNKED - 1)
			break; /* blocks of another dtype */
		parameters(&chunked[i]);
		sequences(&chunked[i], 1, 0);
		views(&chunked[i]);
	}
	others();
	orders();
	return trials_end();
}
