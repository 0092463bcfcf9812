/* SPDX-License-Identifier: MIT */
/* The kernel of attention. */
#include <math.h>
#include <stdlib.h>

#include <weir.h>

#include "dtypes.h"
#include "tap.h"
#include "trial.h"

#define INF ((double)INFINITY)

/* A causal mask of @t rows and @s columns, with @more at random. */
static struct weir_node *mask_put(enum weir_dtype dtype, int t, int s)
{
	double *v = calloc((size_t)(t * s), sizeof(*v));
	struct weir_node *mask;

	for (int i = 0; i < t * s; i++)
		v[i] = i % s > i / s + s - t ? -INF : -(double)random_below(3);
	mask = put_values(dtype, v, 2, t, s);
	free(v);
	return mask;
}

static void attention_dtypes(void)
{
	const enum weir_dtype q[] = { F32, F16, BF16 };
	const enum weir_dtype kv[] = { F32, F16, BF16, WEIR_DTYPE_Q8_0,
				       WEIR_DTYPE_Q4_0 };

	for (unsigned i = 0; i < 15; i++) {
		enum weir_dtype a = q[i / 5], b = kv[i % 5];
		double near = b > WEIR_DTYPE_GGML ? NEAR_PRODUCT_QUANT
			      : b == BF16         ? NEAR_PRODUCT_BF16
			      : b == F16          ? NEAR_PRODUCT_F16
						  : NEAR_F32;

		same(weir_attention(g, put(a, 3, 4, 3, 32),
				    put(b, 3, 2, 11, 32), put(b, 3, 2, 11, 64),
				    mask_put(F16, 3, 11), NULL),
		     near, "attention of %s with k and v of %s is right",
		     dtype_name(a), dtype_name(b));
	}
	same(weir_attention(g, put(F32, 3, 2, 3, 16), put(F16, 3, 2, 9, 16),
			    put(F32, 3, 2, 9, 24), NULL, NULL),
	     NEAR_PRODUCT_F16, "attention: k and v may differ in dtype");
}

static void attention_params(void)
{
	struct weir_op_attention p = { .scale = 0.3f, .softcap = 2 };

	same(weir_attention(g, put(F32, 4, 2, 6, 5, 16),
			    put(F32, 4, 2, 2, 9, 16), put(F32, 4, 2, 2, 9, 8),
			    NULL, NULL),
	     NEAR_F32, "attention without a mask is right");
	same(weir_attention(g, put(F32, 4, 2, 6, 5, 16),
			    put(F32, 4, 2, 2, 9, 16), put(F32, 4, 2, 2, 9, 8),
			    mask_put(F32, 5, 9), &p),
	     NEAR_F32, "attention with scale and softcap is right");
	p.max_bias = 8;
	p.softcap = 0;
	same(weir_attention(g, put(F32, 4, 2, 6, 5, 16),
			    put(F32, 4, 2, 2, 9, 16), put(F32, 4, 2, 2, 9, 8),
			    mask_put(F32, 5, 9), &p),
	     NEAR_F32, "attention with ALiBi and 6 heads is right");
	same(weir_attention(g, put(F32, 4, 2, 4, 5, 16),
			    put(F32, 4, 2, 4, 9, 16), put(F32, 4, 2, 4, 9, 8),
			    put(F32, 4, 2, 2, 7, 9), &p),
	     NEAR_F32,
	     "attention repeats a mask over heads, and it may have more rows");
}

/* Several splits of the positions, few tokens and many. */
static void attention_invariant(void)
{
	const int tokens[] = { 1, 3, 150 };
	struct weir_op_attention p = { .precision = WEIR_PRECISION_INVARIANT };

	for (unsigned i = 0; i < 3; i++)
		same(weir_attention(g, put(F32, 3, 4, tokens[i], 32),
				    put(F16, 3, 2, 1100, 32),
				    put(F16, 3, 2, 1100, 24),
				    mask_put(F32, tokens[i], 1100), &p),
		     NEAR_PRODUCT_F16,
		     "invariant attention of %d tokens is right", tokens[i]);
}

/* Attention with sinks: 8 heads, 2 of k and v. */
static void attention_sinks(int t, int s, const char *of)
{
	struct weir_op_attention p = { .max_bias = 8, .softcap = 2 };

	same(weir_attention_sinks(
		     g, put(F32, 4, 2, 8, t, 16), put(F32, 4, 2, 2, s, 16),
		     put(F32, 4, 2, 2, s, 24), NULL, put(F32, 1, 8), NULL),
	     NEAR_F32, "attention with sinks is right: %s", of);
	same(weir_attention_sinks(g, put(F32, 4, 2, 8, t, 16),
				  put(F32, 4, 2, 2, s, 16),
				  put(F32, 4, 2, 2, s, 24), mask_put(F16, t, s),
				  put(F32, 1, 8), &p),
	     NEAR_F32, "attention neither scales, caps nor masks sinks: %s",
	     of);
}

static void attention_sinks_odd(void)
{
	const double odd[] = { -INF, 100, NAN, INF };
	const double none[] = { -INF, -INF, 0, 0, 0, 0, 0, 0 };

	same(weir_attention_sinks(g, put(F32, 3, 4, 3, 16),
				  put(F32, 3, 2, 9, 16), put(F32, 3, 2, 9, 16),
				  NULL, put_values(F32, odd, 1, 4), NULL),
	     NEAR_F32,
	     "attention: a sink of NaN or +inf makes its head NaN, no other");
	same(weir_attention_sinks(g, put(F32, 3, 2, 4, 2), put(F32, 3, 2, 2, 2),
				  put(F32, 3, 2, 2, 2),
				  put_values(F32, none, 2, 4, 2),
				  put(F32, 1, 2), NULL),
	     NEAR_F32, "attention: a query with a sink and no position is 0");
}

/* CUDA devices keep no more than 8192 elements of a head in shared memory. */
static void attention_long_heads(void)
{
	struct weir_op_attention p = { .scale = 0.01f };
	const int d[][2] = { { 8100, 92 }, { 8101, 92 }, { 40, 8200 } };

	for (unsigned i = 0; i < 3; i++)
		same(weir_attention(g, put(F32, 3, 2, 3, d[i][0]),
				    put(F16, 3, 1, 5, d[i][0]),
				    put(F16, 3, 1, 5, d[i][1]),
				    mask_put(F16, 3, 5), &p),
		     NEAR_PRODUCT_F16,
		     "attention of heads of %d and %d elements is right",
		     d[i][0], d[i][1]);
}

static void attention_forms(void)
{
	same(weir_attention(g, put(F32, 3, 4, 1, 16), put(F16, 3, 2, 9, 16),
			    put(F16, 3, 2, 9, 16), mask_put(F16, 1, 9), NULL),
	     NEAR_PRODUCT_F16, "attention of one token is right");
	same(weir_attention(
		     g, weir_permute(g, put(F32, 3, 5, 4, 16), 3, D(1, 0, 2)),
		     weir_permute(g, put(F16, 3, 9, 2, 16), 3, D(1, 0, 2)),
		     weir_permute(g, put(F16, 3, 9, 2, 16), 3, D(1, 0, 2)),
		     mask_put(F16, 5, 9), NULL),
	     NEAR_PRODUCT_F16, "attention takes permuted heads");
	same(weir_attention(g, put(F32, 3, 4, 5, 16),
			    weir_slice(g, put(F16, 3, 2, 30, 16), 1, 0, 9),
			    weir_slice(g, put(F16, 3, 2, 30, 16), 1, 0, 9),
			    mask_put(F16, 5, 9), NULL),
	     NEAR_PRODUCT_F16, "attention takes a part of a cache");
	same(weir_attention(g, put(F32, 3, 4, 0, 16), put(F16, 3, 2, 9, 16),
			    put(F16, 3, 2, 9, 16), NULL, NULL),
	     NEAR_F32, "attention of no tokens is empty");
	same(weir_attention(g, put(F32, 5, 1 << 30, 1 << 30, 4, 0, 1 << 30),
			    put(F16, 5, 1 << 30, 1 << 30, 2, 0, 1 << 30),
			    put(F16, 5, 1 << 30, 1 << 30, 2, 0, 16), NULL,
			    NULL),
	     NEAR_F32, "attention without elements may have large dimensions");
	same(weir_attention(g, put(F32, 3, 0, 3, 16), put(F16, 3, 2, 9, 16),
			    put(F16, 3, 2, 9, 16), NULL, NULL),
	     NEAR_F32, "attention of no heads is empty");
	same(weir_attention(g, put(F32, 3, 4, 2, 16), put(F16, 3, 2, 0, 16),
			    put(F16, 3, 2, 0, 16), NULL, NULL),
	     NEAR_F32, "attention to no positions is 0");
	same(weir_attention(g, put(F32, 3, 8, 33, 64), put(F16, 3, 2, 300, 64),
			    put(F16, 3, 2, 300, 64), mask_put(F16, 33, 300),
			    NULL),
	     NEAR_PRODUCT_F16,
	     "attention of many tokens is right in all its parts");
	same(weir_attention(g, put(F32, 3, 8, 1, 64), put(F16, 3, 2, 1500, 64),
			    put(F16, 3, 2, 1500, 64), NULL, NULL),
	     NEAR_PRODUCT_F16, "attention to many positions is right");
}

/* Positions 1 and 3 hold numbers that would spoil every result. */
static void attention_masked(enum weir_dtype dtype)
{
	const double mask[] = { 0, -INF, 0, -INF, -INF, -INF, -INF, -INF };
	double v[4 * 16];
	struct weir_node *k;

	for (int i = 0; i < 64; i++)
		v[i] = i / 16 == 1 ? NAN : i / 16 == 3 ? INF : random_number();
	k = put_values(dtype, v, 3, 1, 4, 16);
	same(weir_attention(g, put(F32, 3, 2, 2, 16), k, k,
			    put_values(F16, mask, 2, 2, 4), NULL),
	     NEAR_PRODUCT_BF16,
	     "attention: a mask hides NaNs and infinities in a cache of %s",
	     dtype_name(dtype));
}

static void attention_nan(void)
{
	const double q[] = { NAN, 1, 1, 1 };

	same(weir_attention(g, put_values(F32, q, 3, 1, 2, 2),
			    put(F32, 3, 1, 5, 2), put(F32, 3, 1, 5, 3), NULL,
			    NULL),
	     NEAR_F32,
	     "attention: a query with a NaN gives NaNs, others do not");
}

static void attention_mask_nan(void)
{
	const double all[] = { NAN, NAN, NAN, NAN };
	const double some[] = { NAN, 0, -INF, 0, 0, 0, 0, 0 };

	same(weir_attention(g, put(F32, 3, 1, 1, 2), put(F32, 3, 1, 4, 2),
			    put(F32, 3, 1, 4, 3), put_values(F32, all, 2, 1, 4),
			    NULL),
	     NEAR_F32, "attention: a mask of NaNs gives NaNs");
	same(weir_attention(g, put(F32, 3, 1, 2, 2), put(F32, 3, 1, 4, 2),
			    put(F32, 3, 1, 4, 3),
			    put_values(F32, some, 2, 2, 4), NULL),
	     NEAR_F32,
	     "attention: a mask with a NaN gives NaNs to its query alone");
}

/* Scores that are far less than the cap; slopes that F32 does not have. */
static void attention_extremes(void)
{
	const double mask[] = { 0, -INF, 0, -INF };
	struct weir_op_attention p = { .scale = 1, .softcap = 1e5f };

	same(weir_attention(g, put(F32, 3, 1, 5, 16), put(F32, 3, 1, 9, 16),
			    put(F32, 3, 1, 9, 16), NULL, &p),
	     NEAR_F32, "attention with a large softcap is right");
	p.softcap = 0;
	p.max_bias = 400;
	same(weir_attention(g, put(F32, 3, 1, 1, 4), put(F32, 3, 1, 4, 4),
			    put(F32, 3, 1, 4, 4),
			    put_values(F32, mask, 2, 1, 4), &p),
	     NEAR_F32, "attention with a large max_bias masks what counts not");
}

/* The second position is hidden from the first query only. */
static void attention_not_finite(void)
{
	const double mask[] = { 0, -INF, 0, 0 }, v[] = { 1, 2, NAN, INF };

	same(weir_attention(g, put(F32, 3, 1, 2, 2), put(F32, 3, 1, 2, 2),
			    put_values(F32, v, 3, 1, 2, 2),
			    put_values(F32, mask, 2, 2, 2), NULL),
	     NEAR_F32,
	     "attention: a NaN of v reaches only queries whose mask admits it");
	same(weir_attention(g, put(F32, 3, 1, 2, 2),
			    put_values(F32, v, 3, 1, 2, 2),
			    put(F32, 3, 1, 2, 2),
			    put_values(F32, mask, 2, 2, 2), NULL),
	     NEAR_F32,
	     "attention: a NaN of k reaches only queries whose mask admits it");
}

int main(void)
{
	trials_begin();
	attention_dtypes();
	attention_params();
	attention_invariant();
	attention_forms();
	attention_long_heads();
	attention_sinks(5, 9, "few positions");
	attention_sinks(1, 1500, "one token and many positions");
	attention_sinks(33, 300, "many tokens and positions");
	attention_sinks(2, 0, "no positions");
	attention_sinks_odd();
	attention_masked(F32);
	attention_masked(F16);
	attention_masked(BF16);
	attention_nan();
	attention_mask_nan();
	attention_extremes();
	attention_not_finite();
	return trials_end();
}
