/* SPDX-License-Identifier: MIT */
/*
 * Products of many columns, which tiles compute on CUDA0: all of their kernels
 * at the edges of tiles, which kernel is chosen, and bank conflicts.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dtypes.h"
#include "gpu.h"
#include "kernels/trial.h"
#include "tap.h"

/* b rounded to BF16, and numbers of 16 bits and more. */
#define NEAR_ROUNDED 1e-5
#define NEAR_PAIRS 1e-10
/* Rows of thousands of elements: tensor cores cut off each of their sums. */
#define NEAR_LONG 1e-7

static const struct tiled {
	enum weir_dtype dtype;
	const char *name; /* of its kernels */
	double near;
	int block;
} tiled[] = {
	{ BF16, "bf16", NEAR_ROUNDED, 1 },
	{ F16, "f16", NEAR_PAIRS, 1 },
	{ F32, "f32", NEAR_PAIRS, 1 },
	{ WEIR_DTYPE_Q8_0, "q8_0", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_Q4_0, "q4_0", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_Q4_K, "q4_k", NEAR_ROUNDED, 256 },
	{ WEIR_DTYPE_Q6_K, "q6_k", NEAR_ROUNDED, 256 },
	{ WEIR_DTYPE_Q2_K, "q2_k", NEAR_ROUNDED, 256 },
	{ WEIR_DTYPE_Q3_K, "q3_k", NEAR_ROUNDED, 256 },
	{ WEIR_DTYPE_Q5_K, "q5_k", NEAR_ROUNDED, 256 },
	{ WEIR_DTYPE_Q4_1, "q4_1", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_Q5_0, "q5_0", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_Q5_1, "q5_1", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_IQ4_NL, "iq4_nl", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_IQ4_XS, "iq4_xs", NEAR_ROUNDED, 256 },
	{ WEIR_DTYPE_MXFP4, "mxfp4", NEAR_ROUNDED, 32 },
	{ WEIR_DTYPE_NVFP4, "nvfp4", NEAR_ROUNDED, 64 },
};
#define TILED (sizeof(tiled) / sizeof(*tiled))
/* The sanitizers, which make the stand-in slow, see no kernels. */
static unsigned n_tiled = TILED;
#define FLOATS_AND_ONE 4 /* the first of them */

static __typeof__(&fakecuda_kernel) counts_of;

/* The counts of a kernel; all are 0 on a real device. */
static struct fakecuda_kernel counts(const char *name)
{
	struct fakecuda_kernel k = { 0 };
	char full[64];

	snprintf(full, sizeof(full), "weir_kernel_%s", name);
	if (counts_of)
		counts_of(full, &k);
	return k;
}

static uint64_t launches(const char *name)
{
	return counts(name).launches;
}

/*
 * Elements of a row: whole groups of 8 and blocks, or not, if it may be. The
 * last two are more pieces of a row than wide and narrow tiles keep.
 */
static int row_of(const struct tiled *t, int i)
{
	static const int whole[] = { 64, 40, 200, 64 };
	static const int groups[] = { 96, 160, 288, 672 };
	static const int blocks[] = { 64, 192, 320, 704 };
	static const int large[] = { 256, 512, 768, 1280 };
	const int *rows = t->block == 256  ? large
			  : t->block == 64 ? blocks
			  : t->block == 32 ? groups
					   : whole;

	return rows[i];
}

static void edges(const struct tiled *t)
{
	static const int rows[] = { 1, 33, 70, 16 };
	static const int columns[] = { 9, 16, 31, 67 };
	char kernel[32];
	uint64_t before;

	snprintf(kernel, sizeof(kernel), "tiles_%s_narrow", t->name);
	before = launches(kernel);
	for (int i = 0; i < 4; i++) {
		int k = row_of(t, i);

		same(weir_mul_mat(g, put(t->dtype, 2, rows[i], k),
				  put(F32, 2, columns[i], k)),
		     t->near, "%s: %d rows of %d elements, %d columns", t->name,
		     rows[i], k, columns[i]);
	}
	if (on_fake(1))
		is_int((int)(launches(kernel) - before), 4,
		       "each was computed by %s", kernel);
}

/* Several matrices, which several batches of b share. */
static void batches(const struct tiled *t)
{
	int k = row_of(t, 0);

	same(weir_mul_mat(g, put(t->dtype, 4, 2, 1, 40, k),
			  put(F32, 4, 4, 3, 35, k)),
	     t->near, "%s: batches share matrices", t->name);
	same(weir_mul_mat(
		     g,
		     weir_permute(g, put(t->dtype, 3, 40, 2, k), 3, D(1, 0, 2)),
		     weir_permute(g, put(F32, 3, 35, 4, k), 3, D(1, 0, 2))),
	     t->near, "%s: permuted heads", t->name);
	same(weir_mul_mat(g, put(t->dtype, 2, 40, k),
			  weir_transpose(g, put(F32, 2, k, 35))),
	     t->near, "%s: transposed columns", t->name);
}

static void wide(const struct tiled *t)
{
	char kernel[32];
	uint64_t before;
	int k = row_of(t, 2); /* more than there are stages */

	snprintf(kernel, sizeof(kernel), "tiles_%s_wide", t->name);
	before = launches(kernel);
	same(weir_mul_mat(g, put(t->dtype, 3, 2, 130, k),
			  put(F32, 3, 12, 133, k)),
	     t->near, "%s: wide tiles", t->name);
	if (on_fake(1))
		is_int((int)(launches(kernel) - before), 1,
		       "they were computed by %s", kernel);
}

static void experts(const struct tiled *t)
{
	char kernel[32];
	uint64_t before;
	int k = row_of(t, 0);

	snprintf(kernel, sizeof(kernel), "tiles_%s_narrow", t->name);
	before = launches(kernel);
	same(weir_mul_mat_id(g, put(t->dtype, 3, 5, 40, k),
			     put(F32, 3, 90, 1, k), put_ids(I32, 5, 2, 90, 2)),
	     t->near, "%s: experts", t->name);
	same(weir_mul_mat_id(g, put(t->dtype, 3, 9, 40, k),
			     put(F32, 3, 20, 2, k), put_ids(I32, 3, 2, 20, 4)),
	     t->near, "%s: experts that no token has, and rows in turn",
	     t->name);
	if (on_fake(1))
		is_int((int)(launches(kernel) - before), 2,
		       "they were computed by %s", kernel);
}

/* Which expert a tile has does not depend on how its blocks are unpacked. */
static void wide_experts(const struct tiled *t)
{
	char kernel[32];
	uint64_t before;
	int k = row_of(t, 0);

	snprintf(kernel, sizeof(kernel), "tiles_%s_wide", t->name);
	before = launches(kernel);
	same(weir_mul_mat_id(g, put(t->dtype, 3, 2, 3000, k),
			     put(F32, 3, 70, 1, k), put_ids(I32, 2, 2, 70, 2)),
	     t->near, "%s: experts of many tokens and rows", t->name);
	if (on_fake(1))
		is_int((int)(launches(kernel) - before), 1,
		       "they were computed by %s", kernel);
}

/* An index out of range fails the run; its column is in no list. */
static void odd_experts(const struct tiled *t)
{
	double high[20], low[20];
	uint64_t before = launches("lists");
	int k = row_of(t, 0);

	for (int i = 0; i < 20; i++) {
		high[i] = i == 13 ? 3 : i % 3;
		low[i] = i == 4 ? -1 : i % 3;
	}
	fails(weir_mul_mat_id(g, put(t->dtype, 3, 3, 40, k),
			      put(F32, 3, 20, 1, k),
			      put_values(I32, high, 2, 20, 1)),
	      -EINVAL, "index 3 at 0 is not one of 3",
	      "%s: an expert that is not there", t->name);
	fails(weir_mul_mat_id(g, put(t->dtype, 3, 3, 40, k),
			      put(F32, 3, 20, 1, k),
			      put_values(I32, low, 2, 20, 1)),
	      -EINVAL, "index -1 at 0 is not one of 3", "%s: a negative expert",
	      t->name);
	if (on_fake(1))
		is_int((int)(launches("lists") - before), 2,
		       "experts were listed");
}

/*
 * Rows of floats exchange their chunks. Blocks are unpacked from where their
 * copy arrived, at any even address, four rows to a bank: a fourth of all
 * requests may wait for another.
 */
static void few_conflicts(void)
{
	static const char *const sizes[] = { "narrow", "wide" };

	if (!on_fake(n_tiled * 2))
		return;
	for (unsigned i = 0; i < n_tiled * 2; i++) {
		struct fakecuda_kernel k;
		char name[32];

		snprintf(name, sizeof(name), "tiles_%s_%s", tiled[i / 2].name,
			 sizes[i % 2]);
		k = counts(name);
		ok(k.shared_requests &&
			   k.bank_conflicts <= (tiled[i / 2].block > 1
							? k.shared_requests / 4
							: 0),
		   "%s: threads use different banks of shared memory", name);
		diag("%lu conflicts of %lu requests",
		     (unsigned long)k.bank_conflicts,
		     (unsigned long)k.shared_requests);
	}
}

static uint64_t launches_of_tiles(void)
{
	uint64_t n = 0;
	char name[32];

	for (unsigned i = 0; i < n_tiled; i++) {
		snprintf(name, sizeof(name), "tiles_%s_narrow", tiled[i].name);
		n += launches(name);
		snprintf(name, sizeof(name), "tiles_%s_wide", tiled[i].name);
		n += launches(name);
	}
	return n;
}

/*
 * Products that tiles do not compute: exact and invariant ones, few columns,
 * and rows that are not aligned.
 */
static void others(void)
{
	uint64_t before = launches_of_tiles();

	for (unsigned i = 0; i < n_tiled; i++) {
		enum weir_dtype d = tiled[i].dtype;
		int k = row_of(&tiled[i], 1);

		same(weir_mul_mat_precision(g, put(d, 2, 11, k),
					    put(F32, 2, 20, k),
					    WEIR_PRECISION_F32),
		     NEAR_F32, "%s: exact as F32", tiled[i].name);
		same(weir_mul_mat_precision(g, put(d, 2, 11, k),
					    put(F32, 2, 20, k),
					    WEIR_PRECISION_INVARIANT),
		     NEAR_PRODUCT_QUANT, "%s: invariant", tiled[i].name);
		same(weir_mul_mat(g, put(d, 2, 11, k), put(F32, 2, 8, k)),
		     NEAR_PRODUCT_QUANT, "%s: 8 columns", tiled[i].name);
	}
	same(weir_mul_mat(g, weir_slice(g, put(BF16, 2, 11, 100), 1, 3, 64),
			  put(F32, 2, 20, 64)),
	     NEAR_ROUNDED,
	     "bf16: rows at addresses that are no multiples of 16");
	same(weir_mul_mat_id(g, put(BF16, 3, 8, 13, 64), put(F32, 3, 10, 1, 64),
			     put_ids(I32, 8, 2, 10, 3)),
	     NEAR_ROUNDED, "bf16: experts of few tokens");
	if (on_fake(1))
		is_int((int)(launches_of_tiles() - before), 0,
		       "none of them was computed by tiles");
}

/* b that needs no conversion, and b of other dtypes. */
static void forms_of_b(void)
{
	uint64_t before = launches("columns");

	same(weir_mul_mat(g, put(BF16, 3, 2, 40, 72), put(BF16, 3, 4, 35, 72)),
	     NEAR_F32, "b of BF16 is not rounded");
	same(weir_mul_mat(g, put(WEIR_DTYPE_Q8_0, 2, 40, 96),
			  weir_slice(g, put(BF16, 2, 50, 96), 0, 3, 35)),
	     NEAR_F32, "b of BF16 and blocks: nothing is rounded");
	same(weir_mul_mat(g, weir_slice(g, put(BF16, 2, 40, 72), 1, 0, 69),
			  weir_slice(g, put(BF16, 2, 35, 72), 1, 0, 69)),
	     NEAR_F32, "rows of BF16 that go on behind their elements");
	if (on_fake(1))
		is_int((int)(launches("columns") - before), 0,
		       "b was read as it is");
	same(weir_mul_mat(g, put(BF16, 2, 40, 64),
			  weir_slice(g, put(BF16, 2, 35, 70), 1, 1, 64)),
	     NEAR_F32, "b of BF16 at addresses that are no multiples of 16");
	same(weir_mul_mat(g, put(F16, 2, 40, 64), put(F16, 2, 35, 64)),
	     NEAR_PAIRS, "b of F16");
}

/* Numbers that F16 does not have. */
static void great_and_small(void)
{
	double b[12 * 8];

	for (int i = 0; i < 12 * 8; i++)
		b[i] = i / 8 < 4   ? 1e30 * (i % 8 - 3.3)
		       : i / 8 < 8 ? 1e-30 * (i % 8 - 3.3)
				   : 70000 * (i % 8 - 3.3);
	same(weir_mul_mat(g, put(F16, 2, 40, 8), put_values(F32, b, 2, 12, 8)),
	     NEAR_PAIRS, "f16: columns beyond the numbers of F16");
	b[11] = INFINITY;
	b[50] = -INFINITY;
	b[70] = NAN;
	for (int i = 0; i < 12 * 8; i++)
		if (i / 8 != 1 && i / 8 != 6 && i / 8 != 8)
			b[i] = i % 5 - 2;
	same(weir_mul_mat(g, put(F16, 2, 40, 8), put_values(F32, b, 2, 12, 8)),
	     NEAR_PAIRS, "f16: NaN and inf stay in their columns");
	same(weir_mul_mat(g, put(BF16, 2, 40, 8), put_values(F32, b, 2, 12, 8)),
	     NEAR_ROUNDED, "bf16: NaN and inf stay in their columns");
}

/* More columns than the workspace has room for at once. */
static void parts(void)
{
	uint64_t before = launches("columns");

	same(weir_mul_mat(g, put(F16, 2, 1, 4096), put(F32, 3, 65, 32, 4096)),
	     NEAR_LONG, "batches in parts");
	if (on_fake(1))
		is_int((int)(launches("columns") - before), 2,
		       "b was converted in two parts");
	before = launches("columns");
	same(weir_mul_mat(g, put(F16, 2, 1, 98304), put(F32, 2, 90, 98304)),
	     NEAR_LONG, "columns in parts");
	if (on_fake(1))
		is_int((int)(launches("columns") - before), 2,
		       "b was converted in two parts");
	before = launches("columns");
	same(weir_mul_mat_id(g, put(F16, 3, 3, 1, 16384),
			     put(F32, 3, 70, 8, 16384),
			     put_ids(I32, 3, 2, 70, 8)),
	     NEAR_LONG, "tokens in parts");
	if (on_fake(1))
		is_int((int)(launches("columns") - before), 2,
		       "b was converted in two parts");
}

int main(void)
{
	trials_begin();
	if (getenv("WEIR_T_QUICK"))
		n_tiled = FLOATS_AND_ONE;
	if (fake.handle)
		*(void **)&counts_of = fake_symbol("fakecuda_kernel");
	for (unsigned i = 0; i < n_tiled; i++) {
		edges(&tiled[i]);
		batches(&tiled[i]);
		wide(&tiled[i]);
		experts(&tiled[i]);
		if (i < FLOATS_AND_ONE)
			wide_experts(&tiled[i]);
	}
	odd_experts(&tiled[0]);
	odd_experts(&tiled[3]);
	few_conflicts();
	others();
	forms_of_b();
	great_and_small();
	if (fake.handle)
		fake.set("KERNELCHECK", "0");
	parts();
	return trials_end();
}
