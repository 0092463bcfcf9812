/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns on CUDA0, whose kernels read 16 bytes at once:
 * against the plain evaluator, at the edges of their units, groups of rows and
 * columns, and where they give way to the plain kernels.
 */
#include <stdlib.h>

#include <weir.h>

#include "trial.h"

#define F32 WEIR_DTYPE_F32
#define D(...) ((const int64_t[]){ __VA_ARGS__ })

static const struct {
	enum weir_dtype dtype;
	double near;
	int block;
} dtypes[] = {
	{ F32, NEAR_F32, 1 },
	{ WEIR_DTYPE_F16, NEAR_F32, 1 },
	{ WEIR_DTYPE_BF16, NEAR_F32, 1 },
	{ WEIR_DTYPE_Q8_0, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_Q4_0, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_Q4_K, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_Q6_K, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_Q4_1, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_Q5_0, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_Q5_1, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_Q2_K, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_Q3_K, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_Q5_K, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ4_NL, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_IQ4_XS, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_MXFP4, NEAR_PRODUCT_QUANT, 32 },
	{ WEIR_DTYPE_NVFP4, NEAR_PRODUCT_QUANT, 64 },
	{ WEIR_DTYPE_IQ1_S, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ1_M, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ2_XXS, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ2_XS, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ2_S, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ3_XXS, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_IQ3_S, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_TQ1_0, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_TQ2_0, NEAR_PRODUCT_QUANT, 256 },
	{ WEIR_DTYPE_Q1_0, NEAR_PRODUCT_QUANT, 128 },
	{ WEIR_DTYPE_Q2_0, NEAR_PRODUCT_QUANT, 64 },
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

/*
 * With one SM four warps share a row of few, two from 24 rows on; from 48 on
 * none do, and blocks take several groups of rows.
 */
static void shapes(unsigned i)
{
	static const int shape[][3] = {
		{ 60, 1024, 1 }, { 61, 1280, 2 }, { 30, 2304, 3 },
		{ 29, 2560, 8 }, { 12, 4352, 4 }, { 7, 5376, 5 },
		{ 5, 768, 6 },   { 4, 256, 7 },   { 9, 4352, 11 },
		{ 6, 1056, 1 },  { 97, 2080, 2 }, { 13, 4000, 8 },
		{ 11, 4224, 2 }, { 10, 1088, 5 }, { 97, 1312, 3 },
		{ 97, 1280, 4 },
	};
	enum weir_dtype d = dtypes[i].dtype;

	for (unsigned j = 0; j < sizeof(shape) / sizeof(shape[0]); j++) {
		int m = shape[j][0], k = shape[j][1], n = shape[j][2];

		if (k % dtypes[i].block)
			continue;
		same(weir_mul_mat_precision(g, put(d, 2, m, k),
					    put(F32, 2, n, k),
					    WEIR_PRECISION_INVARIANT),
		     dtypes[i].near, "%s [%d, %d] and %d columns",
		     dtype_name(d), m, k, n);
	}
}

static void batches(unsigned i)
{
	enum weir_dtype d = dtypes[i].dtype;

	same(weir_mul_mat(g, put(d, 3, 2, 9, 512), put(F32, 3, 6, 3, 512)),
	     dtypes[i].near, "%s: three matrices of b for each of a",
	     dtype_name(d));
	same(weir_mul_mat_precision(g, put(d, 4, 1, 2, 8, 512),
				    put(F32, 4, 3, 4, 9, 512),
				    WEIR_PRECISION_INVARIANT),
	     dtypes[i].near, "%s: two outer dimensions, 9 columns",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  put(F32, 6, 2, 1, 2, 2, 2, 512)),
	     dtypes[i].near, "%s: three outer dimensions, one matrix",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  put(F32, 6, 2, 2, 2, 2, 1, 512)),
	     dtypes[i].near, "%s: four outer dimensions, one matrix",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 6, 1, 2, 2, 1, 4, 512),
			  put(F32, 6, 2, 6, 2, 3, 2, 512)),
	     dtypes[i].near, "%s: four outer dimensions, four matrices",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 5, 2, 1, 3, 8, 512),
			  put(F32, 5, 2, 2, 6, 4, 512)),
	     dtypes[i].near, "%s: three outer dimensions, 4 columns",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 5, 2, 1, 3, 8, 512),
			  put(F32, 5, 2, 2, 6, 7, 512)),
	     dtypes[i].near, "%s: three outer dimensions, 7 columns",
	     dtype_name(d));
	same(weir_mul_mat_id(g, put(d, 3, 5, 70, 1280), put(F32, 3, 3, 2, 1280),
			     put_ids(WEIR_DTYPE_I32, 5, 2, 3, 4)),
	     dtypes[i].near, "%s: chosen matrices, rows of b in turn",
	     dtype_name(d));
	same(weir_mul_mat_id(g, put(d, 3, 5, 60, 512), put(F32, 3, 2, 1, 512),
			     put_ids(WEIR_DTYPE_I32, 5, 2, 2, 2)),
	     dtypes[i].near, "%s: chosen matrices of many rows", dtype_name(d));
}

static void views(unsigned i)
{
	enum weir_dtype d = dtypes[i].dtype;
	double near = dtypes[i].near;
	int more = dtypes[i].block;

	same(weir_mul_mat(g, weir_slice(g, put(d, 2, 9, 1024), 1, 512, 512),
			  put(F32, 2, 3, 512)),
	     near, "%s: the second half of each row", dtype_name(d));
	same(weir_mul_mat(g,
			  weir_slice(g, put(d, 2, 9, 512 + more), 1, more, 512),
			  put(F32, 2, 3, 512)),
	     near, "%s: rows that begin at no multiple of 16", dtype_name(d));
	same(weir_mul_mat(g, weir_slice(g, put(d, 2, 19, 512), 0, 1, 11),
			  put(F32, 2, 2, 512)),
	     near, "%s: from the second row on", dtype_name(d));
	same(weir_mul_mat(
		     g, weir_permute(g, put(d, 3, 7, 2, 512), 3, D(1, 0, 2)),
		     weir_permute(g, put(F32, 3, 5, 4, 512), 3, D(1, 0, 2))),
	     near, "%s: permuted matrices", dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  weir_transpose(g, put(F32, 2, 512, 5))),
	     near, "%s: transposed columns", dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  weir_slice(g, put(F32, 2, 5, 515), 1, 3, 512)),
	     near, "%s: columns that begin at no multiple of 16",
	     dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  weir_slice(g, weir_sqr(g, put(F32, 2, 5, 520)), 1, 3,
				     512)),
	     near, "%s: such columns, computed", dtype_name(d));
	same(weir_mul_mat(g, put(d, 2, 9, 512),
			  put(WEIR_DTYPE_BF16, 2, 3, 512)),
	     near, "%s: columns of BF16", dtype_name(d));
	same(weir_mul_mat(g, put(d, 3, 2, 9, 512),
			  put(WEIR_DTYPE_F16, 3, 4, 1, 512)),
	     near, "%s: columns of F16, and two matrices", dtype_name(d));
	same(weir_mul_mat_precision(g, put(d, 2, 9, 1280), put(F32, 2, 2, 1280),
				    WEIR_PRECISION_F32),
	     NEAR_F32, "%s: b is not rounded with precision F32",
	     dtype_name(d));
}

/* Columns that b's rounding to bytes has to treat apart. */
static void odd_columns(unsigned i)
{
	enum weir_dtype d = dtypes[i].dtype;
	double b[2 * 512] = { 0 };

	for (unsigned k = 0; k < 512; k++)
		b[k] = k % 32 ? 0 : k < 256 ? 1e-37 : -3;
	for (unsigned k = 512; k < 1024; k++)
		b[k] = k % 7 - 3.5;
	same(weir_mul_mat(g, put(d, 2, 9, 512), put_values(F32, b, 2, 2, 512)),
	     dtypes[i].near, "%s: groups of zeros, and of tiny numbers",
	     dtype_name(d));
	for (unsigned k = 0; k < 1024; k++)
		b[k] = k % 32 ? (int)(k * 7 % 255) - 127 : 127;
	same(weir_mul_mat(g, put(d, 2, 9, 512), put_values(F32, b, 2, 2, 512)),
	     NEAR_F32, "%s: bytes are exact", dtype_name(d));
}

int main(void)
{
	setenv("FAKECUDA_SMS", "1", 1);
	trials_begin();
	for (unsigned i = 0; i < DTYPES; i++) {
		shapes(i);
		batches(i);
		views(i);
		odd_columns(i);
	}
	return trials_end();
}
