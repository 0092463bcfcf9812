/* SPDX-License-Identifier: MIT */
/* Kernels of products. */
#include <errno.h>
#include <math.h>

#include <weir.h>

#include "dtypes.h"
#include "tap.h"
#include "trial.h"

static double product_near(enum weir_dtype dtype)
{
	return dtype > WEIR_DTYPE_GGML ? NEAR_PRODUCT_QUANT
	       : dtype == BF16         ? NEAR_PRODUCT_BF16
	       : dtype == F16          ? NEAR_PRODUCT_F16
				       : NEAR_F32;
}

/* From one column, as in decoding, to many, as in prompts. */
static void all_weights(void)
{
	const int columns[] = { 1, 2, 5, 70 };

	for (unsigned i = 0; i < WEIGHTS * 4; i++) {
		enum weir_dtype d = weights[i / 4];
		int n = columns[i % 4];

		same(weir_mul_mat(g, put(d, 2, 37, 512), put(F32, 2, n, 512)),
		     product_near(d), "mul_mat of %s and %d columns is right",
		     dtype_name(d), n);
	}
}

/* With 300 columns too: a fast product may have another way for so many. */
static void precisions(void)
{
	const int columns[] = { 1, 5, 300 };

	for (unsigned i = 0; i < WEIGHTS * 3; i++) {
		enum weir_dtype d = weights[i / 3];
		int n = columns[i % 3];

		same(weir_mul_mat_precision(g, put(d, 2, 11, 512),
					    put(F32, 2, n, 512),
					    WEIR_PRECISION_F32),
		     NEAR_F32, "mul_mat of %s and %d columns is exact as F32",
		     dtype_name(d), n);
		same(weir_mul_mat_precision(g, put(d, 2, 11, 512),
					    put(F32, 2, n, 512),
					    WEIR_PRECISION_INVARIANT),
		     d > WEIR_DTYPE_GGML ? NEAR_PRODUCT_QUANT : NEAR_F32,
		     "invariant mul_mat of %s and %d columns is right",
		     dtype_name(d), n);
	}
	same(weir_mul_mat_id_precision(g, put(WEIR_DTYPE_Q8_0, 3, 8, 13, 64),
				       put(F32, 3, 9, 1, 64),
				       put_ids(I32, 8, 2, 9, 3),
				       WEIR_PRECISION_F32),
	     NEAR_F32, "mul_mat_id of Q8_0 is exact as F32");
}

static void other_columns(void)
{
	const enum weir_dtype a[] = { F32, F16, BF16, WEIR_DTYPE_Q4_0,
				      WEIR_DTYPE_Q8_0 };
	const enum weir_dtype b[] = { F16, BF16 };

	for (unsigned i = 0; i < 20; i++) {
		enum weir_dtype d = a[i % 5], c = b[i / 5 % 2];
		int n = i < 10 ? 1 : 40;

		same(weir_mul_mat(g, put(d, 2, 19, 96), put(c, 2, n, 96)),
		     product_near(d), "mul_mat of %s and %d columns of %s",
		     dtype_name(d), n, dtype_name(c));
	}
}

static void sizes(enum weir_dtype d)
{
	const int k[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100 };
	const int m[] = { 1, 3, 4, 5, 8, 13 };

	for (unsigned i = 0; i < sizeof(k) / sizeof(*k); i++) {
		int rows = m[i % 6], n = i % 3 ? 1 : 4;

		same(weir_mul_mat(g, put(d, 2, rows, k[i]),
				  put(F32, 2, n, k[i])),
		     product_near(d),
		     "mul_mat of %s [%d, %d] and [%d, %d] is right",
		     dtype_name(d), rows, k[i], n, k[i]);
	}
	same(weir_mul_mat(g, put(d, 2, 5, 0), put(F32, 2, 3, 0)), NEAR_F32,
	     "mul_mat of %s with empty rows is 0", dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 0, 5), put(F32, 2, 3, 5)), NEAR_F32,
	     "mul_mat of no rows of %s is empty", dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 5, 7), put(F32, 2, 0, 7)), NEAR_F32,
	     "mul_mat of %s and no columns is empty", dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 1030, 257), put(F32, 2, 1, 257)),
	     product_near(d), "mul_mat of many rows of %s and one column",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 161, 257), put(F32, 2, 133, 257)),
	     product_near(d), "mul_mat of %s and many columns is right",
	     dtype_name(d));
}

static void groups(enum weir_dtype d)
{
	const int columns[] = { 1, 33 };

	for (unsigned i = 0; i < 2; i++) {
		int n = columns[i];

		same(weir_mul_mat(g, put(d, 3, 2, 5, 32),
				  put(F32, 3, 6, n, 32)),
		     product_near(d), "mul_mat of %s groups heads, %d columns",
		     dtype_name(d), n);
		same(weir_mul_mat(g, put(d, 4, 1, 2, 5, 32),
				  put(F32, 4, 3, 4, n, 32)),
		     product_near(d),
		     "mul_mat of %s groups two dimensions, %d columns",
		     dtype_name(d), n);
		same(weir_mul_mat(g, put(d, 2, 5, 32),
				  put(F32, 4, 3, 2, n, 32)),
		     product_near(d),
		     "mul_mat of %s: one matrix for all, %d columns",
		     dtype_name(d), n);
	}
}

/* Rows of a and of b whose outer dimensions are all in the other order. */
static void many_dims(enum weir_dtype d, int k)
{
	const int columns[] = { 1, 3, 6 };

	for (unsigned i = 0; i < 3; i++)
		same(weir_mul_mat_precision(
			     g,
			     weir_permute(g, put(d, 8, 2, 1, 2, 1, 3, 2, 3, k),
					  8, D(5, 4, 3, 2, 1, 0, 6, 7)),
			     weir_permute(g,
					  put(F32, 8, 2, 2, 4, 2, 3, 4,
					      columns[i], k),
					  8, D(5, 4, 3, 2, 1, 0, 6, 7)),
			     WEIR_PRECISION_F32),
		     NEAR_F32, "mul_mat of %s, 8 dimensions and %d columns",
		     dtype_name(d), columns[i]);
}

static void views(enum weir_dtype d)
{
	const int columns[] = { 1, 33 };

	for (unsigned i = 0; i < 2; i++) {
		int n = columns[i];

		same(weir_mul_mat(g,
				  weir_permute(g, put(d, 3, 7, 2, 64), 3,
					       D(1, 0, 2)),
				  weir_permute(g, put(F32, 3, n, 4, 64), 3,
					       D(1, 0, 2))),
		     product_near(d),
		     "mul_mat of permuted heads of %s and %d columns",
		     dtype_name(d), n);
		same(weir_mul_mat(g,
				  weir_slice(g, put(d, 2, 9, 128), 1, 32, 64),
				  weir_transpose(g, put(F32, 2, 64, n))),
		     product_near(d),
		     "mul_mat of a slice of %s and %d transposed columns",
		     dtype_name(d), n);
		same(weir_mul_mat(g, weir_slice(g, put(d, 2, 19, 64), 0, 3, 11),
				  weir_slice(g, put(F32, 2, n, 80), 1, 9, 64)),
		     product_near(d),
		     "mul_mat of some rows of %s and %d parts of columns",
		     dtype_name(d), n);
	}
}

static void odd_numbers(void)
{
	const double b[] = { NAN, 1, 1, 1, INFINITY, 1, 1, 1, 2, 1, 1, 1 };
	const double zero[32 * 3] = { 0 };

	same(weir_mul_mat(g, put(F32, 2, 5, 4), put_values(F32, b, 2, 3, 4)),
	     NEAR_F32, "mul_mat: NaN and inf stay in their columns");
	same(weir_mul_mat(g, put(WEIR_DTYPE_Q4_0, 2, 5, 32),
			  put_values(F32, zero, 2, 3, 32)),
	     NEAR_F32, "mul_mat of Q4_0 and zeros is 0");
	same(weir_mul_mat(g, put(WEIR_DTYPE_Q8_0, 2, 5, 32),
			  put_values(F32, zero, 2, 3, 32)),
	     NEAR_F32, "mul_mat of Q8_0 and zeros is 0");
}

static void experts(enum weir_dtype d)
{
	const double high[] = { 0, 1, 8, 2 }, low[] = { 0, 1, 2, -1 };
	const int tokens[] = { 1, 3, 50 };

	for (unsigned i = 0; i < 3; i++) {
		int t = tokens[i];

		same(weir_mul_mat_id(g, put(d, 3, 8, 13, 64),
				     put(F32, 3, t, 1, 64),
				     put_ids(I32, 8, 2, t, 3)),
		     product_near(d),
		     "mul_mat_id of %s with one row, %d tokens, is right",
		     dtype_name(d), t);
		same(weir_mul_mat_id(g, put(d, 3, 8, 13, 64),
				     put(F32, 3, t, 3, 64),
				     put_ids(I32, 8, 2, t, 3)),
		     product_near(d),
		     "mul_mat_id of %s with a row for each, %d tokens",
		     dtype_name(d), t);
		same(weir_mul_mat_id(g, put(d, 3, 8, 13, 64),
				     put(F32, 3, t, 2, 64),
				     put_ids(I32, 8, 2, t, 4)),
		     product_near(d),
		     "mul_mat_id of %s with rows in turn, %d tokens",
		     dtype_name(d), t);
	}
	same(weir_mul_mat_id(g, put(d, 3, 8, 13, 64), put(F32, 3, 0, 1, 64),
			     put_ids(I32, 1, 2, 0, 3)),
	     NEAR_F32, "mul_mat_id of %s and no tokens is empty",
	     dtype_name(d));
	fails(weir_mul_mat_id(g, put(d, 3, 8, 13, 64), put(F32, 3, 2, 1, 64),
			      put_values(I32, high, 2, 2, 2)),
	      -EINVAL, "8", "mul_mat_id of %s refuses an index too high",
	      dtype_name(d));
	fails(weir_mul_mat_id(g, put(d, 3, 8, 13, 64), put(F32, 3, 2, 1, 64),
			      put_values(I32, low, 2, 2, 2)),
	      -EINVAL, "-1", "mul_mat_id of %s refuses a negative index",
	      dtype_name(d));
}

static void experts_views(void)
{
	same(weir_mul_mat_id(g, weir_slice(g, put(F16, 3, 8, 13, 64), 1, 2, 9),
			     weir_permute(g, put(F32, 3, 2, 6, 64), 3,
					  D(1, 0, 2)),
			     weir_transpose(g, put_ids(I32, 8, 2, 2, 6))),
	     NEAR_PRODUCT_F16, "mul_mat_id takes views");
}

int main(void)
{
	trials_begin();
	all_weights();
	precisions();
	other_columns();
	sizes(F32);
	sizes(F16);
	sizes(BF16);
	groups(F32);
	groups(F16);
	groups(WEIR_DTYPE_Q4_0);
	many_dims(F32, 7);
	many_dims(F16, 5);
	many_dims(BF16, 9);
	many_dims(WEIR_DTYPE_Q8_0, 32);
	views(F32);
	views(F16);
	views(WEIR_DTYPE_Q8_0);
	odd_numbers();
	experts(F32);
	experts(F16);
	experts(WEIR_DTYPE_Q4_0);
	experts_views();
	return trials_end();
}
