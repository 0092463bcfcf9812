/* SPDX-License-Identifier: MIT */
/* mul_mat and mul_mat_id against the naive evaluator. */
#include <errno.h>

#include <weir.h>

#include "dtypes.h"
#include "naive.h"
#include "tap.h"
#include "trial.h"

#define Q8_0 WEIR_DTYPE_Q8_0
#define Q4_0 WEIR_DTYPE_Q4_0

static const enum weir_dtype dtypes[] = { F32,
					  F16,
					  BF16,
					  Q8_0,
					  Q4_0,
					  WEIR_DTYPE_Q4_K,
					  WEIR_DTYPE_Q5_K,
					  WEIR_DTYPE_Q6_K,
					  WEIR_DTYPE_Q2_K };
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static double near_product(enum weir_dtype dtype)
{
	return dtype == F32    ? NEAR_F32
	       : dtype == F16  ? NEAR_PRODUCT_F16
	       : dtype == BF16 ? NEAR_PRODUCT_BF16
			       : NEAR_PRODUCT_QUANT;
}

static void shapes_of(enum weir_dtype d)
{
	const char *name = dtype_name(d);
	double near = near_product(d);

	same(weir_mul_mat(g, put(d, 2, 37, 512), put(F32, 2, 1, 512)), near,
	     "mul_mat of %s with one column is right", name);
	same(weir_mul_mat(g, put(d, 2, 37, 768), put(F32, 2, 3, 768)), near,
	     "mul_mat of %s with 3 columns is right", name);
	same(weir_mul_mat(g, put(d, 2, 67, 256), put(F32, 2, 35, 256)), near,
	     "mul_mat of %s with 35 columns is right", name);
	same(weir_mul_mat(g, put(d, 3, 2, 9, 256), put(F32, 3, 6, 5, 256)),
	     near, "mul_mat of %s repeats its matrices", name);
	same(weir_mul_mat(g, put(d, 4, 2, 3, 5, 256),
			  put(F32, 4, 4, 6, 2, 256)),
	     near, "mul_mat of %s repeats two outer dimensions", name);
	same(weir_mul_mat(g, put(d, 4, 3, 1, 5, 256),
			  put(F32, 4, 3, 4, 1, 256)),
	     near, "mul_mat of %s repeats its inner matrix only", name);
	same(weir_mul_mat(g, put(d, 2, 0, 256), put(F32, 2, 3, 256)), near,
	     "mul_mat of %s without rows is empty", name);
	same(weir_mul_mat(g, put(d, 2, 4, 256), put(F32, 2, 0, 256)), near,
	     "mul_mat of %s without columns is empty", name);
	same(weir_mul_mat(g, put(d, 2, 9, 512), put(F16, 2, 3, 512)), near,
	     "mul_mat of %s with columns of F16 is right", name);
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  weir_transpose(g, put(F32, 2, 512, 3))),
	     near, "mul_mat of %s with transposed columns is right", name);
}

static void ids_of(enum weir_dtype d)
{
	const char *name = dtype_name(d);
	double near = near_product(d);

	same(weir_mul_mat_id(g, put(d, 3, 4, 21, 256), put(F32, 3, 1, 1, 256),
			     put_ids(WEIR_DTYPE_I32, 4, 2, 1, 2)),
	     near, "mul_mat_id of %s for one token is right", name);
	same(weir_mul_mat_id(g, put(d, 3, 5, 40, 256), put(F32, 3, 33, 1, 256),
			     put_ids(WEIR_DTYPE_I32, 5, 2, 33, 3)),
	     near, "mul_mat_id of %s repeats a token's row", name);
	same(weir_mul_mat_id(g, put(d, 3, 3, 9, 256), put(F32, 3, 30, 4, 256),
			     put_ids(WEIR_DTYPE_I32, 3, 2, 30, 4)),
	     near, "mul_mat_id of %s takes a row for each id", name);
}

/* Matrices of more bytes than a thread gets from a reader at once. */
static void large(void)
{
	for (int n = 1; n < 40; n += 34) {
		same(weir_mul_mat(g, put(F32, 2, 700, 512),
				  put(F32, 2, n, 512)),
		     NEAR_F32,
		     "mul_mat of 1.4 MB of F32 with %d columns is right", n);
		same(weir_mul_mat(g, put(Q4_0, 3, 2, 2900, 256),
				  put(F32, 3, 2, n, 256)),
		     NEAR_PRODUCT_QUANT,
		     "mul_mat of 0.8 MB of Q4_0 with %d columns is right", n);
	}
	same(weir_mul_mat_id(g, put(F16, 3, 4, 500, 256),
			     put(F32, 3, 3, 1, 256),
			     put_ids(WEIR_DTYPE_I32, 4, 2, 3, 2)),
	     NEAR_PRODUCT_F16, "mul_mat_id of 1 MB of F16 is right");
}

/* Lengths of rows that no vector divides. */
static void odd_lengths(void)
{
	static const enum weir_dtype floats[] = { F32, F16, BF16 };

	for (unsigned i = 0; i < 3; i++)
		for (int k = 1; k < 80; k += 13)
			for (int n = 1; n < 40; n += 12)
				same(weir_mul_mat(g, put(floats[i], 2, 7, k),
						  put(F32, 2, n, k)),
				     near_product(floats[i]),
				     "mul_mat of rows of %d %s with %d columns is right",
				     k, dtype_name(floats[i]), n);
	for (int k = 32; k < 200; k += 32) {
		same(weir_mul_mat(g, put(Q4_0, 2, 7, k), put(F32, 2, 2, k)),
		     NEAR_PRODUCT_QUANT, "mul_mat of rows of %d Q4_0 is right",
		     k);
		same(weir_mul_mat(g, put(Q8_0, 2, 7, k), put(F32, 2, 2, k)),
		     NEAR_PRODUCT_QUANT, "mul_mat of rows of %d Q8_0 is right",
		     k);
	}
	same(weir_mul_mat(g, put(F32, 2, 3, 0), put(F32, 2, 2, 0)), NEAR_F32,
	     "mul_mat of rows without elements is 0");
	same(weir_mul_mat(g, put(F16, 2, 3, 0), put(F32, 2, 20, 0)), NEAR_F32,
	     "mul_mat of many rows without elements is 0");
}

/* Views, as caches of keys and values are. */
static void views(void)
{
	static const int64_t heads_first[] = { 1, 0, 2 };

	same(weir_mul_mat(g, weir_slice(g, put(F16, 2, 90, 64), 0, 11, 37),
			  put(F32, 2, 2, 64)),
	     NEAR_PRODUCT_F16, "mul_mat takes a slice of rows");
	same(weir_mul_mat(
		     g, weir_permute(g, put(F16, 3, 31, 2, 64), 3, heads_first),
		     weir_permute(g, put(F32, 3, 5, 8, 64), 3, heads_first)),
	     NEAR_PRODUCT_F16, "mul_mat takes heads that lie between rows");
	same(weir_mul_mat(g, weir_slice(g, put(F32, 2, 30, 64), 1, 16, 32),
			  weir_slice(g, put(F32, 2, 20, 64), 1, 8, 32)),
	     NEAR_F32, "mul_mat takes slices of columns");
}

static void wrong_ids(void)
{
	static const double ids[] = { 0, 2, 3, 1 };
	static const double negative[] = { 0, 1, -1, 1 };

	fails(weir_mul_mat_id(g, put(F32, 3, 3, 5, 16), put(F32, 3, 2, 1, 16),
			      put_values(WEIR_DTYPE_I32, ids, 2, 2, 2)),
	      -EINVAL, "id 3 at 2, of 3 matrices",
	      "mul_mat_id refuses an id past the last matrix");
	fails(weir_mul_mat_id(g, put(F32, 3, 3, 5, 16), put(F32, 3, 2, 1, 16),
			      put_values(WEIR_DTYPE_I32, negative, 2, 2, 2)),
	      -EINVAL, "id -1 at 2, of 3 matrices",
	      "mul_mat_id refuses a negative id");
}

int main(void)
{
	trials_begin();
	for (unsigned i = 0; i < DTYPES; i++) {
		shapes_of(dtypes[i]);
		ids_of(dtypes[i]);
	}
	large();
	odd_lengths();
	views();
	wrong_ids();
	return trials_end();
}
