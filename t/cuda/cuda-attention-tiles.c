/* SPDX-License-Identifier: MIT */
/*
 * Attention of many tokens by tensor cores on CUDA0: sizes of heads, groups of
 * heads, tiles that begin and end anywhere; which kernel computes it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend.h"
#include "dtypes.h"
#include "tap.h"

/* q and exponents have 8 bits, or 11. */
#define NEAR_BITS8 3e-5
#define NEAR_BITS11 1e-6

static const struct tiled {
	enum weir_dtype dtype;
	const char *name; /* of its kernel */
	double near;
	int d, dv; /* of a head, in sequences() */
} tiled[] = {
	{ F16, "attention_tiles_f16", NEAR_BITS11, 64, 32 },
	{ BF16, "attention_tiles_bf16", NEAR_BITS8, 64, 32 },
};

/* Heads of more than 128 elements; blocks, whose elements have 8 bits too. */
static const struct tiled large[] = {
	{ F16, "attention_tiles_f16_large", NEAR_BITS11, 192, 64 },
	{ BF16, "attention_tiles_bf16_large", NEAR_BITS8, 192, 64 },
	{ WEIR_DTYPE_Q8_0, "attention_tiles_bf16_large", NEAR_BITS8, 192, 64 },
	{ WEIR_DTYPE_Q4_0, "attention_tiles_bf16_large", NEAR_BITS8, 192, 64 },
};

static int launches_of_tiles(void)
{
	return launches("attention_tiles_f16") +
	       launches("attention_tiles_bf16") +
	       launches("attention_tiles_f16_large") +
	       launches("attention_tiles_bf16_large");
}

/* Compute each shape with and without causal. */
static void shapes_try(const struct tiled *c, const struct shape *shape, int n)
{
	const struct weir_op_attention causal = { .causal = 1 };
	int before = launches(c->name);

	for (int i = 0; i < n; i++) {
		same(attend(&shape[i], c->dtype, NULL, NULL), c->near,
		     "%s: %d heads of %d and %d elements, %d of k, "
		     "%d tokens, %d positions",
		     c->name, shape[i].heads, shape[i].d, shape[i].dv,
		     shape[i].heads_k, shape[i].t, shape[i].s);
		same(attend(&shape[i], c->dtype, NULL, &causal), c->near,
		     "%s: the same, causal", c->name);
	}
	if (on_fake(1))
		is_int(launches(c->name) - before, 2 * n,
		       "each was computed by %s", c->name);
}

/* Sizes of heads, groups of heads, tiles that are not whole. */
static void shapes(const struct tiled *c)
{
	static const struct shape shape[] = {
		{ 4, 1, 16, 64, 64, 64 },   { 2, 2, 9, 130, 80, 80 },
		{ 3, 1, 33, 65, 96, 96 },   { 2, 1, 70, 200, 128, 128 },
		{ 7, 1, 20, 190, 64, 112 }, { 1, 1, 65, 65, 32, 48 },
		{ 4, 2, 40, 7, 48, 64 },    { 2, 1, 20, 0, 64, 32 },
	};

	shapes_try(c, shape, (int)(sizeof(shape) / sizeof(shape[0])));
}

static void shapes_large(const struct tiled *c)
{
	static const struct shape shape[] = {
		{ 4, 1, 16, 64, 256, 256 }, { 2, 2, 9, 130, 192, 64 },
		{ 3, 1, 33, 65, 64, 192 },  { 2, 1, 40, 7, 192, 128 },
		{ 8, 1, 20, 33, 256, 192 }, { 2, 1, 20, 0, 64, 256 },
	};

	shapes_try(c, shape, (int)(sizeof(shape) / sizeof(shape[0])));
}

/* Sequences of all lengths, in pages or not, with sinks and a window. */
static void sequences(const struct tiled *c, int t, int page, uint32_t window)
{
	const double length[] = { 0, 1, 140, 64, 65, 128, 3, 151 };
	struct weir_op_attention p = { .causal = 1,
				       .window = window,
				       .page = (uint32_t)page };
	int n = page ? 160 / page : 160;
	struct weir_node *src[7] = { NULL };
	double *pages = calloc((size_t)(8 * n), sizeof(*pages));

	for (int i = 0; i < 8 * n; i++)
		pages[i] = (double)random_below((uint64_t)n);
	src[0] = put(F32, 4, 8, 6, t, c->d);
	src[1] = page ? put(c->dtype, 3, 2, n * page, c->d)
		      : put(c->dtype, 4, 8, 2, n, c->d);
	src[2] = page ? put(c->dtype, 3, 2, n * page, c->dv)
		      : put(c->dtype, 4, 8, 2, n, c->dv);
	src[4] = put(F32, 1, 6);
	src[5] = put_values(I32, length, 1, 8);
	src[6] = page ? put_values(I32, pages, 2, 8, n) : NULL;
	same(weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p), src, 7),
	     c->near, "%s: 8 lengths, %d tokens, pages of %d, window %u",
	     c->name, t, page, window);
	free(pages);
}

/* Positions after the length may be NaNs; a length out of range fails. */
static void lengths(const struct tiled *c)
{
	const double length = 70, wrong = 101;
	double *v = calloc(100 * 32, sizeof(*v));
	struct weir_node *src[7] = { NULL };
	struct weir_op_attention p = { .causal = 1 };

	for (int i = 0; i < 100 * 32; i++)
		v[i] = i / 32 < 70 ? random_number() : NAN;
	for (int i = 0; i < 2; i++) {
		src[0] = put(F32, 4, 1, 2, 12, 32);
		src[1] = src[2] = put_values(c->dtype, v, 4, 1, 1, 100, 32);
		src[5] = put_values(I32, i ? &wrong : &length, 1, 1);
		if (i)
			fails(weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p),
					    src, 7),
			      -EINVAL,
			      "length 101 of sequence 0 is not 0 to 100",
			      "%s: a length above the positions", c->name);
		else
			same(weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p),
					   src, 7),
			     c->near,
			     "%s: positions after the length may be NaNs",
			     c->name);
	}
	free(v);
}

/* A cache of [S, heads, D], q of another dtype. */
static void views(const struct tiled *c)
{
	same(weir_attention(
		     g, weir_permute(g, put(F16, 3, 20, 4, 64), 3, D(1, 0, 2)),
		     weir_permute(g, put(c->dtype, 3, 90, 2, 64), 3,
				  D(1, 0, 2)),
		     weir_permute(g, put(c->dtype, 3, 90, 2, 64), 3,
				  D(1, 0, 2)),
		     NULL, NULL),
	     c->near, "%s: permuted heads", c->name);
}

/* A mask of @t rows and @s positions, some of which are hidden. */
static struct weir_node *mask_put(enum weir_dtype dtype, int t, int s)
{
	double *v = calloc((size_t)(t * s), sizeof(*v));
	struct weir_node *mask;

	for (int i = 0; i < t * s; i++)
		v[i] = i % s / 40 == 1 || random_below(5) == 0
			       ? -(double)INFINITY
			       : random_number();
	mask = put_values(dtype, v, 2, t, s);
	free(v);
	return mask;
}

/* Masks of floats, ALiBi, softcap: kernels for large heads have them. */
static void changes(const struct tiled *c)
{
	static const struct shape shape[] = {
		{ 4, 2, 30, 150, 64, 64 },
		{ 6, 1, 12, 70, 256, 128 },
	};
	struct weir_op_attention p = { .causal = 1 };
	int before = launches(c->name);

	for (int i = 0; i < 2; i++) {
		const struct shape *f = &shape[i];

		p.softcap = 0;
		p.max_bias = 0;
		same(attend(f, c->dtype, mask_put(F32, f->t, f->s), &p),
		     c->near, "%s: a mask, %d elements", c->name, f->d);
		p.max_bias = 8;
		same(attend(f, c->dtype, mask_put(F16, f->t + 3, f->s), &p),
		     c->near, "%s: ALiBi, %d elements", c->name, f->d);
		p.softcap = 3;
		same(attend(f, c->dtype, mask_put(F32, f->t, f->s), &p),
		     c->near, "%s: a mask and softcap, %d elements", c->name,
		     f->d);
		p.softcap = 50;
		p.max_bias = 0;
		same(attend(f, c->dtype, NULL, &p), c->near,
		     "%s: softcap of 50, %d elements", c->name, f->d);
	}
	same(weir_attention(g, put(F32, 4, 2, 4, 20, 64),
			    put(c->dtype, 4, 2, 2, 70, 64),
			    put(c->dtype, 4, 2, 2, 70, 64),
			    put(F32, 4, 2, 4, 20, 70), NULL),
	     c->near, "%s: a mask of each head and sequence", c->name);
	same(weir_attention(g, put(F32, 4, 2, 4, 20, 64),
			    put(c->dtype, 4, 2, 2, 70, 64),
			    put(c->dtype, 4, 2, 2, 70, 64),
			    put(F16, 4, 2, 1, 20, 70), NULL),
	     c->near, "%s: a mask of each sequence", c->name);
	if (on_fake(1))
		is_int(launches(c->name) - before, 10,
		       "each was computed by %s", c->name);
}

/* What tiles do not compute: it is exact. */
static void others(void)
{
	static const struct shape few = { 2, 1, 8, 70, 64, 64 };
	static const struct shape many = { 2, 1, 20, 70, 64, 64 };
	static const struct shape odd = { 2, 1, 20, 70, 72, 64 };
	struct weir_op_attention p = { 0 };
	int before = launches_of_tiles();

	same(attend(&few, BF16, NULL, NULL), NEAR_F32, "8 tokens");
	same(attend(&odd, BF16, NULL, NULL), NEAR_F32, "72 elements");
	same(attend(&many, F32, NULL, NULL), NEAR_F32, "k and v of F32");
	p.precision = WEIR_PRECISION_INVARIANT;
	same(attend(&many, BF16, NULL, &p), NEAR_F32, "invariant");
	p.precision = WEIR_PRECISION_F32;
	same(attend(&many, BF16, NULL, &p), NEAR_F32, "exact");
	if (on_fake(1))
		is_int(launches_of_tiles() - before, 0,
		       "none of them was computed by tiles");
}

static void orders(void)
{
	char order[8];

	if (!on_fake(0))
		return;
	for (int i = 1; i <= 20; i++) {
		snprintf(order, sizeof(order), "%d", i);
		fake.set("ORDER", order);
		sequences(i % 5 ? &tiled[i % 2] : &large[i / 5 % 4], 10 + i % 3,
			  i % 4 < 2 ? 16 : 0, i % 3 ? 40 : 0);
	}
	fake.set("ORDER", "0");
}

/* Rows of 64 and 128 elements: chunks of 16 bytes fill whole passes. */
static void no_conflicts(const struct tiled *c)
{
	static const struct shape whole = { 2, 1, 70, 200, 128, 64 };
	struct fakecuda_kernel before = kernel_counts(c->name), k;

	same(attend(&whole, c->dtype, NULL, NULL), c->near, "%s: whole rows",
	     c->name);
	if (!on_fake(1))
		return;
	k = kernel_counts(c->name);
	is_int((int)(k.bank_conflicts - before.bank_conflicts), 0,
	       "%s: threads use different banks of shared memory", c->name);
}

int main(void)
{
	trials_begin();
	for (unsigned i = 0; i < 2; i++) {
		shapes(&tiled[i]);
		sequences(&tiled[i], 9, 16, 0);
		sequences(&tiled[i], 30, 0, 50);
		lengths(&tiled[i]);
		views(&tiled[i]);
		no_conflicts(&tiled[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		shapes_large(&large[i]);
		sequences(&large[i], 9, 16, 0);
		sequences(&large[i], 30, 0, 50);
		if (i < 3)
			changes(&large[i]);
	}
	others();
	orders();
	return trials_end();
}
