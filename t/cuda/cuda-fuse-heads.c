/* SPDX-License-Identifier: MIT */
/*
 * Which rope and set_rows, with norms of heads before, are a group, and which
 * attention before products. Each case changes one thing of a group that is
 * one.
 */
#include "cuda/segment.h"
#include "tap.h"

#define D 32
#define HEADS 2 /* of q and of k */
#define HEAD (D * 4)
#define TOKEN (HEADS * D)
#define SIZE (HEADS * HEAD)
#define ROWS 4 /* of caches */
/* Places of q and k: source, norm, product, rotated, scale, factors. */
#define SOURCE(i) PLACE(2 + 12 * (i))
#define NORM(i) PLACE(4 + 12 * (i))
#define MUL(i) PLACE(6 + 12 * (i))
#define ROPE(i) PLACE(8 + 12 * (i))
#define SCALE(i) PLACE(10 + 12 * (i))
#define FACTORS(i) PLACE(12 + 12 * (i))
#define V PLACE(26)
#define CACHE(i) PLACE(28 + 3 * (i)) /* of k and v */
#define POS PLACE(34)
#define ID(i) (PLACE(36) + 512 * (i))
#define WEIGHT PLACE(38)
#define P PLACE(42)

static const struct weir_op_norm eps = { .eps = 1e-5F }, no_eps;
static const struct weir_op_mul_mat fast = { .precision = 0 };
static const struct weir_op_rope angles = { .n_dims = D,
					    .base = 10000,
					    .freq_scale = 1,
					    .attn_factor = 1,
					    .beta_fast = 32,
					    .beta_slow = 1 };
static struct weir_backend_node *norm[2], *mul[2], *rope[2], *set[2];

static struct weir_operand heads(unsigned at)
{
	return heads_at(at, F32, 1, HEADS, D);
}

static void rope_of(unsigned i, unsigned from)
{
	rope[i] = node(WEIR_OP_ROPE, &angles, heads(ROPE(i)), 3, heads(from),
		       index_at(POS, 7), rows_at(FACTORS(i), F32, 1, D / 2));
	src_of(rope[i], 2)->ndim = 1;
	src_of(rope[i], 2)->shape[0] = D / 2;
	src_of(rope[i], 2)->stride[0] = 4;
}

static void normed(unsigned i)
{
	norm[i] = node(WEIR_OP_RMS_NORM, &eps, heads(NORM(i)), 1,
		       heads(SOURCE(i)));
	mul[i] = node(WEIR_OP_MUL, NULL, heads(MUL(i)), 2, heads(NORM(i)),
		      rows_at(SCALE(i), F32, 1, D));
	rope_of(i, MUL(i));
}

static void set_of(unsigned i, struct weir_operand b)
{
	struct weir_operand cache =
		numbers(rows_at(CACHE(i), F16, ROWS, TOKEN));

	set[i] = node(WEIR_OP_SET_ROWS, NULL, cache, 3, cache, b,
		      index_at(ID(i), 1 + (int)i));
}

static void sets(void)
{
	set_of(0, rows_at(ROPE(1), F32, 1, TOKEN));
	set_of(1, rows_at(V, F32, 1, TOKEN));
}

static void rope_begin(void)
{
	segment_begin();
	rope_of(0, SOURCE(0));
	rope_of(1, SOURCE(1));
	sets();
}

static void normed_begin(void)
{
	segment_begin();
	normed(0);
	normed(1);
	sets();
}

static void groups(void)
{
	rope_begin();
	segment_check(4, 1, "rope of q and k, set_rows of k and v");
	normed_begin();
	segment_check(8, 1, "the same with norms of the heads");
	rope_begin();
	*src_of(rope[0], 2) = *src_of(rope[1], 2) = (struct weir_operand){ 0 };
	segment_check(4, 1, "the same without factors");
	rope_begin();
	src_of(set[0], 1)->stride[0] = 1 << 20;
	segment_check(4, 1, "the same, whatever the stride of the only row");
	segment_begin();
	rope_of(0, SOURCE(0));
	normed(1);
	sets();
	segment_check(6, 1, "the same with norms of k only");
	normed_begin();
	for (unsigned i = 0; i < 2; i++) {
		const struct weir_operand head =
			heads_at(SOURCE(i), F32, 1, 1, SENSITIVE);

		sensitive(head);
		norm[i]->params = &no_eps;
		norm[i]->dst = *src_of(norm[i], 0) = head;
		mul[i]->dst = *src_of(mul[i], 0) = head;
		*src_of(mul[i], 1) = rows_at(SCALE(i), F32, 1, SENSITIVE);
		rope[i]->dst = *src_of(rope[i], 0) = head;
		move(&norm[i]->dst, NORM(i));
		move(src_of(mul[i], 0), NORM(i));
	}
	*src_of(set[0], 1) = rows_at(SOURCE(1), F32, 1, SENSITIVE);
	set[0]->dst = rows_at(CACHE(0), F16, ROWS, SENSITIVE);
	*src_of(set[0], 0) = set[0]->dst;
	segment_check(8, 1, "the order of the sums in norms of heads");
	normed_begin();
	for (unsigned i = 0; i < 2; i++) {
		move(&norm[i]->dst, SOURCE(i));
		move(src_of(mul[i], 0), SOURCE(i));
		move(&mul[i]->dst, SOURCE(i));
		move(src_of(rope[i], 0), SOURCE(i));
		move(&rope[i]->dst, SOURCE(i));
	}
	move(src_of(set[0], 1), SOURCE(1));
	segment_check(8, 1, "norms of heads, all in one place");
}

/* Another place of a source, with numbers. */
static void place(struct weir_operand *t, unsigned at)
{
	move(t, at);
	numbers(*t);
}

/* The cache of k or of v has another place. */
static void cache_place(unsigned i, unsigned at)
{
	place(&set[i]->dst, at);
	move(src_of(set[i], 0), at);
}

/* Heads and caches with gaps, without alignment, and other dtypes. */
static void views(void)
{
	normed_begin();
	for (unsigned i = 0; i < 2; i++) {
		src_of(norm[i], 0)->stride[1] = 3 * HEAD;
		src_of(mul[i], 1)->stride[1] = 8 + 4 * i;
		src_of(set[i], 0)->stride[0] = (4 + 2 * i) * TOKEN;
		set[i]->dst.stride[0] = (4 + 2 * i) * TOKEN;
		set[i]->dst.shape[0] = src_of(set[i], 0)->shape[0] = 3;
	}
	segment_check(8, 1, "heads and rows of caches with gaps");
	rope_begin();
	for (unsigned i = 0; i < 2; i++)
		src_of(rope[i], 0)->stride[1] = 3 * HEAD;
	segment_check(4, 1, "heads with gaps, without norms");
	normed_begin();
	for (unsigned i = 0; i < 2; i++) {
		place(src_of(norm[i], 0), SOURCE(i) + 1);
		place(src_of(mul[i], 1), SCALE(i) + 2);
		place(src_of(rope[i], 2), FACTORS(i) + 3);
		*src_of(rope[i], 1) = index_at(POS + 5, 7);
		cache_place(i, CACHE(i) + 1);
		*src_of(set[i], 2) = index_at(ID(i) + 3, 2);
	}
	place(src_of(set[1], 1), V + 1);
	segment_check(8, 1, "sources and caches without alignment");
	normed_begin();
	for (unsigned i = 0; i < 2; i++) {
		move(&norm[i]->dst, NORM(i) + 1);
		move(src_of(mul[i], 0), NORM(i) + 1);
		move(&mul[i]->dst, MUL(i) + 2);
		move(src_of(rope[i], 0), MUL(i) + 2);
		move(&rope[i]->dst, ROPE(i) + 3);
	}
	move(src_of(set[0], 1), ROPE(1) + 3);
	segment_check(8, 1, "results without alignment");
	rope_begin();
	for (unsigned i = 0; i < 2; i++) {
		const enum weir_dtype dtype = i ? BF16 : F16;
		const enum weir_dtype cache = i ? F32 : BF16;

		*src_of(rope[i], 0) =
			numbers(heads_at(SOURCE(i), dtype, 1, HEADS, D));
		rope[i]->dst = heads_at(ROPE(i), dtype, 1, HEADS, D);
		set[i]->dst = numbers(rows_at(CACHE(i), cache, ROWS, TOKEN));
		*src_of(set[i], 0) = set[i]->dst;
		*src_of(set[i], 1) = i ? numbers(rows_at(V, F16, 1, TOKEN))
				       : rows_at(ROPE(1), BF16, 1, TOKEN);
	}
	segment_check(4, 1, "heads, v and caches of other dtypes");
}

/* k or v is copied to its cache. */
static void copies(unsigned i)
{
	set[i]->op = WEIR_OP_COPY;
	set[i]->n_src = 2;
	*src_of(set[i], 0) = *src_of(set[i], 1);
	set[i]->dst = *src_of(set[i], 1) = rows_at(CACHE(i), F16, 1, TOKEN);
}

/* Other operations in their places. */
static void operations(void)
{
	rope_begin();
	copies(0);
	segment_check(4, 4, "a copy of k");
	rope_begin();
	copies(1);
	segment_check(4, 4, "a copy of v");
	for (unsigned i = 0; i < 2; i++) {
		rope_begin();
		rope[i]->op = WEIR_OP_SQR;
		rope[i]->n_src = 1;
		segment_check(4, 4, i ? "k without rope" : "q without rope");
		normed_begin();
		norm[i]->op = WEIR_OP_L2_NORM;
		segment_check(8, i ? 7 : 3, "another norm");
		normed_begin();
		mul[i]->op = WEIR_OP_SUB;
		segment_check(8, i ? 7 : 3, "a norm and a subtraction");
	}
	segment_begin();
	rope_of(0, SOURCE(0));
	rope_of(1, SOURCE(1));
	set_of(0, rows_at(ROPE(1), F32, 1, TOKEN));
	segment_check(3, 3, "rope of q and k, set_rows of k");
}

/* Blocks have heads, of one token. */
static void shapes(void)
{
	rope_begin();
	rope[0]->dst = heads_at(ROPE(0), F32, 2, HEADS, D);
	*src_of(rope[0], 0) = heads_at(SOURCE(0), F32, 2, HEADS, D);
	src_of(rope[0], 1)->shape[0] = 2;
	zeros(*src_of(rope[0], 1));
	segment_check(4, 4, "q of two tokens");
	rope_begin();
	rope[0]->dst = heads_at(ROPE(0), F32, 1, 1, 2 * D);
	*src_of(rope[0], 0) = heads_at(SOURCE(0), F32, 1, 1, 2 * D);
	segment_check(4, 4, "longer heads of q than of k");
	rope_begin();
	*src_of(set[0], 1) = rows_at(ROPE(1), F32, 2, D);
	set[0]->dst = rows_at(CACHE(0), F16, ROWS, D);
	*src_of(set[0], 0) = set[0]->dst;
	zeros(*src_of(set[0], 2));
	src_of(set[0], 2)->shape[0] = 2;
	index_at(ID(0), 1);
	segment_check(4, 4, "heads of k are rows of the cache");
	rope_begin();
	*src_of(set[1], 1) = rows_at(V, F32, 2, TOKEN);
	zeros(*src_of(set[1], 2));
	src_of(set[1], 2)->shape[0] = 2;
	index_at(ID(1), 1);
	segment_check(4, 4, "v of two tokens");
	rope_begin();
	*src_of(set[0], 1) = rows_at(ROPE(1), F32, 1, D);
	set[0]->dst = rows_at(CACHE(0), F16, ROWS, D);
	*src_of(set[0], 0) = set[0]->dst;
	segment_check(4, 4, "one head of k is set");
	for (unsigned i = 0; i < 2; i++) {
		rope_begin();
		set[i]->dst = numbers(rows_at(CACHE(i), Q8_0, ROWS, TOKEN));
		*src_of(set[i], 0) = set[i]->dst;
		segment_check(4, 4, i ? "v of Q8_0" : "k of Q8_0");
	}
}

static void heads_that_are_set(void)
{
	rope_begin();
	move(src_of(set[0], 1), SCALE(0));
	segment_check(4, 4, "something else than k is set");
	rope_begin();
	move(src_of(set[0], 1), ROPE(0));
	segment_check(4, 4, "q is set");
	rope_begin();
	zeros(*src_of(rope[1], 0));
	*src_of(set[0], 1) = rows_at(ROPE(1), F16, 1, TOKEN);
	segment_check(4, 4, "the bytes of k as another dtype");
	rope_begin();
	src_of(set[0], 1)->stride[1] = 0;
	segment_check(4, 4, "one number of k, repeated");
}

/* Norms and rope are no group if a head reads what another head writes. */
static void norms(void)
{
	for (unsigned i = 0; i < 2; i++) {
		const int less = i ? 6 : 2;

		normed_begin();
		move(src_of(rope[i], 0), SOURCE(i));
		segment_check(8, less, "rope is not of the norm");
		normed_begin();
		move(src_of(mul[i], 0), SOURCE(i));
		segment_check(8, less + 1, "the product is not of the norm");
		normed_begin();
		*src_of(mul[i], 1) = rows_at(SCALE(i), F32, HEADS, D);
		segment_check(8, less, "a scale for each head");
		normed_begin();
		*src_of(mul[i], 1) = rows_at(SCALE(i), F32, 1, 1);
		segment_check(8, less + 1, "a scale that is a number");
		normed_begin();
		move(&mul[i]->dst, SOURCE(i) + HEAD);
		move(src_of(rope[i], 0), SOURCE(i) + HEAD);
		segment_check(8, less + 1, "the product where the source was");
		normed_begin();
		move(&rope[i]->dst, SOURCE(i) + HEAD);
		if (i)
			move(src_of(set[0], 1), SOURCE(i) + HEAD);
		segment_check(8, less, "rope where the source was");
		normed_begin();
		move(&rope[i]->dst, NORM(i) + HEAD);
		if (i)
			move(src_of(set[0], 1), NORM(i) + HEAD);
		segment_check(8, less, "rope where the norm was");
		normed_begin();
		move(&rope[i]->dst, SCALE(i));
		if (i)
			move(src_of(set[0], 1), SCALE(i));
		segment_check(8, less, "rope where the scale was");
		normed_begin();
		move(src_of(rope[i], 2), MUL(i));
		segment_check(8, less,
			      "factors that are a part of the product");
		normed_begin();
		move(src_of(rope[i], 2), NORM(i) + HEAD);
		segment_check(8, less, "factors that are a part of the norm");
	}
	normed_begin();
	zeros(*src_of(norm[0], 0));
	move(src_of(rope[0], 1), NORM(0) + HEAD);
	segment_check(8, 2, "a position that is a part of the norm");
}

/* There is no group if a block of q, k or v writes bytes that another reads. */
static void hazards(void)
{
	rope_begin();
	move(&rope[1]->dst, SOURCE(0));
	move(src_of(set[0], 1), SOURCE(0));
	segment_check(4, 4, "k where q was");
	rope_begin();
	move(src_of(rope[1], 0), ROPE(0) + HEAD);
	segment_check(4, 4, "k is of q");
	rope_begin();
	move(&set[0]->dst, SOURCE(0) - SIZE);
	move(src_of(set[0], 0), SOURCE(0) - SIZE);
	segment_check(4, 4, "the cache of k where q was");
	rope_begin();
	move(&set[1]->dst, SOURCE(0) - SIZE);
	move(src_of(set[1], 0), SOURCE(0) - SIZE);
	segment_check(4, 4, "the cache of v where q was");
	rope_begin();
	move(src_of(set[1], 1), ROPE(0));
	segment_check(4, 4, "q is set as v");
	rope_begin();
	move(&set[0]->dst, SOURCE(1) - SIZE);
	move(src_of(set[0], 0), SOURCE(1) - SIZE);
	segment_check(4, 4, "the cache of k where k was");
	normed_begin();
	move(&set[0]->dst, NORM(1) + HEAD - 2 * TOKEN);
	move(src_of(set[0], 0), NORM(1) + HEAD - 2 * TOKEN);
	segment_check(8, 6, "the cache of k where the norm was");
	normed_begin();
	move(&set[0]->dst, MUL(1) + HEAD - 2 * TOKEN);
	move(src_of(set[0], 0), MUL(1) + HEAD - 2 * TOKEN);
	segment_check(8, 6, "the cache of k where the product was");
	rope_begin();
	move(&set[1]->dst, SOURCE(1) - SIZE);
	move(src_of(set[1], 0), SOURCE(1) - SIZE);
	segment_check(4, 4, "the cache of v where k was");
	rope_begin();
	move(src_of(set[1], 1), ROPE(1));
	segment_check(4, 4, "k is set as v");
	rope_begin();
	move(&set[1]->dst, CACHE(0) + 2 * TOKEN);
	move(src_of(set[1], 0), CACHE(0) + 2 * TOKEN);
	segment_check(4, 4, "the caches overlap");
	rope_begin();
	zeros(*src_of(rope[1], 0));
	move(src_of(set[0], 2), ROPE(1) + HEAD);
	segment_check(4, 4, "the index of k is a part of k");
	rope_begin();
	zeros(*src_of(rope[1], 0));
	move(src_of(set[1], 2), ROPE(1) + HEAD);
	segment_check(4, 4, "the index of v is a part of k");
	rope_begin();
	zeros(*src_of(rope[0], 0));
	move(src_of(set[0], 2), ROPE(0) + HEAD);
	segment_check(4, 4, "the index of k is a part of q");
}

static const struct weir_op_attention attend = { .scale = 0.1F };
static struct weir_backend_node *attention, *product;

/* Attention of @tokens, and a product of its result [@tokens, HEADS * D]. */
static void attention_begin(int tokens)
{
	segment_begin();
	attention = node(WEIR_OP_ATTENTION, &attend,
			 heads_at(ROPE(0), F32, tokens, HEADS, D), 3,
			 heads_at(SOURCE(0), F32, HEADS, tokens, D),
			 heads_at(SOURCE(1), F32, HEADS, 8, D),
			 heads_at(V, F32, HEADS, 8, D));
	product = node(WEIR_OP_MUL_MAT, &fast, rows_at(P, F32, tokens, 8), 2,
		       numbers(rows_at(WEIGHT, Q8_0, 8, TOKEN)),
		       rows_at(ROPE(0), F32, tokens, TOKEN));
}

static void results_of_attention(void)
{
	attention_begin(1);
	segment_check(3, 2, "attention, and a product that reads bytes");
	attention_begin(2);
	segment_check(3, 2, "the same of two tokens");
	attention_begin(1);
	*src_of(product, 0) = numbers(rows_at(WEIGHT, F32, 8, TOKEN));
	segment_check(2, 2, "attention, and a product that reads floats");
	attention_begin(1);
	product->op = WEIR_OP_ADD;
	product->dst = rows_at(P, F32, 1, TOKEN);
	*src_of(product, 0) = rows_at(WEIGHT, F32, 1, TOKEN);
	segment_check(2, 2, "attention, and a sum with its result");
	attention_begin(1);
	attention->dst = heads_at(ROPE(0), F32, 1, HEADS, D / 2);
	src_of(attention, 0)->shape[2] = D / 2;
	src_of(attention, 1)->shape[2] = D / 2;
	src_of(attention, 2)->shape[2] = D / 2;
	*src_of(product, 0) = numbers(rows_at(WEIGHT, Q8_0, 8, D));
	*src_of(product, 1) = rows_at(ROPE(0), F32, 1, D);
	segment_check(3, 3, "attention with heads of 16");
	attention_begin(1);
	move(src_of(product, 1), ROPE(1));
	segment_check(3, 3, "a product of something else");
	attention_begin(1);
	zeros(*src_of(attention, 2));
	*src_of(product, 1) = rows_at(ROPE(0), F16, 1, TOKEN);
	segment_check(3, 3, "the bytes of the result as another dtype");
	attention_begin(2);
	src_of(product, 1)->stride[0] = 0;
	segment_check(3, 3, "the result of one token, repeated");
	attention_begin(1);
	*src_of(product, 0) = numbers(rows_at(WEIGHT, Q8_0, 8, D));
	*src_of(product, 1) = rows_at(ROPE(0), F32, HEADS, D);
	product->dst = rows_at(P, F32, HEADS, 8);
	segment_check(3, 3, "heads are columns of the product");
	attention_begin(2);
	*src_of(product, 1) = rows_at(ROPE(0), F32, 1, TOKEN);
	product->dst = rows_at(P, F32, 1, 8);
	segment_check(3, 3, "the product of one token of two");
	attention_begin(1);
	move(&product->dst, SOURCE(0));
	segment_check(3, 2, "the product where q was");
}

/* An index that is out of range is that of its node. */
static void indices(void)
{
	rope_begin();
	index_at(ID(0), ROWS);
	segment_fails(2, "index 4 at 0", "a row of k");
	rope_begin();
	index_at(ID(1), -1);
	segment_fails(3, "index -1 at 0", "a row of v");
	attention_begin(1);
	attention->n_src = 6;
	*src_of(attention, 3) = *src_of(attention, 4) =
		(struct weir_operand){ 0 };
	*src_of(attention, 5) = index_at(ID(0), 9);
	segment_fails(0, "length 9 of sequence 0", "a length");
}

int main(void)
{
	segments_begin();
	groups();
	views();
	operations();
	shapes();
	heads_that_are_set();
	norms();
	hazards();
	results_of_attention();
	indices();
	segments_end();
	return done_testing();
}
