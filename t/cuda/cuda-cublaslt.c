/* SPDX-License-Identifier: MIT */
/*
 * Products of many columns by cuBLASLt on CUDA0: which of them, in which parts,
 * and that their results are right. On a real device the library is NVIDIA's,
 * if there is one.
 */
#include <stdio.h>

#include "dtypes.h"
#include "gpu.h"
#include "kernels/trial.h"
#include "tap.h"

/* b rounded to BF16, as the sum of two F16, and not rounded. */
#define NEAR_ROUNDED 1e-5
#define NEAR_PAIRS 1e-10

static __typeof__(&fakecuda_kernel) counts_of;

static unsigned long calls(void)
{
	return fake.calls("cublasLtMatmul");
}

static uint64_t launches(const char *name)
{
	struct fakecuda_kernel k = { 0 };

	if (counts_of)
		counts_of(name, &k);
	return k.launches;
}

/* The calls that it took to compute @node, compared with what it gives. */
static void by_calls(struct weir_node *node, double near, int n,
		     const char *title)
{
	unsigned long before = calls();

	same(node, near, "%s", title);
	if (on_fake(1))
		is_int((int)(calls() - before), n, "%s: %d calls", title, n);
}

static void shapes(void)
{
	by_calls(weir_mul_mat(g, put(BF16, 2, 64, 72), put(F32, 2, 64, 72)),
		 NEAR_ROUNDED, 1, "bf16");
	by_calls(weir_mul_mat(g, put(BF16, 2, 65, 33), put(F32, 2, 67, 33)),
		 NEAR_ROUNDED, 1, "bf16: odd sizes");
	by_calls(weir_mul_mat(g, put(BF16, 2, 70, 1), put(F32, 2, 64, 1)),
		 NEAR_ROUNDED, 1, "bf16: rows of one element");
	by_calls(weir_mul_mat(g, put(BF16, 2, 70, 40), put(BF16, 2, 65, 40)),
		 NEAR_F32, 1, "bf16: b of BF16");
	by_calls(weir_mul_mat(g, put(BF16, 2, 70, 40), put(F16, 2, 65, 40)),
		 NEAR_ROUNDED, 1, "bf16: b of F16");
	by_calls(weir_mul_mat(g, put(F16, 2, 70, 40), put(F16, 2, 65, 40)),
		 NEAR_F32, 1, "f16: b of F16");
	by_calls(weir_mul_mat(g, put(F16, 2, 70, 40), put(F32, 2, 65, 40)),
		 NEAR_PAIRS, 2, "f16: b of F32, as the sum of two");
	by_calls(weir_mul_mat(g, put(F16, 2, 70, 33), put(BF16, 2, 65, 33)),
		 NEAR_PAIRS, 2, "f16: b of BF16, odd sizes");
}

static void views(void)
{
	by_calls(weir_mul_mat(g, weir_slice(g, put(BF16, 2, 70, 100), 1, 3, 64),
			      put(F32, 2, 80, 64)),
		 NEAR_ROUNDED, 1, "rows at odd addresses");
	by_calls(weir_mul_mat(g, weir_slice(g, put(F16, 2, 90, 100), 0, 5, 70),
			      weir_slice(g, put(F16, 2, 80, 112), 1, 8, 100)),
		 NEAR_F32, 1, "rows that go on behind their elements");
	by_calls(weir_mul_mat(g, put(BF16, 2, 70, 64),
			      weir_slice(g, put(BF16, 2, 80, 70), 1, 1, 64)),
		 NEAR_F32, 1, "b at odd addresses is copied");
	by_calls(weir_mul_mat(g, put(BF16, 2, 70, 64),
			      weir_transpose(g, put(F32, 2, 64, 80))),
		 NEAR_ROUNDED, 1, "transposed columns");
}

static void batches(void)
{
	by_calls(weir_mul_mat(g, put(BF16, 3, 3, 70, 40),
			      put(F32, 3, 3, 65, 40)),
		 NEAR_ROUNDED, 1, "batches with matrices of their own");
	by_calls(weir_mul_mat(g, put(BF16, 3, 2, 70, 40),
			      put(F32, 3, 6, 65, 40)),
		 NEAR_ROUNDED, 2, "three batches share a matrix");
	by_calls(weir_mul_mat(g, put(F16, 2, 70, 40), put(F32, 3, 3, 65, 40)),
		 NEAR_PAIRS, 2, "all batches share a matrix");
	by_calls(weir_mul_mat(g, put(BF16, 4, 2, 1, 70, 40),
			      put(BF16, 4, 4, 3, 65, 40)),
		 NEAR_F32, 4, "two dimensions of batches");
	by_calls(
		weir_mul_mat(
			g,
			weir_permute(g, put(F16, 3, 70, 2, 40), 3, D(1, 0, 2)),
			weir_permute(g, put(F16, 3, 65, 4, 40), 3, D(1, 0, 2))),
		NEAR_F32, 2, "permuted heads");
	by_calls(weir_mul_mat(g, put(BF16, 5, 5, 13, 1, 64, 8),
			      put(F32, 5, 5, 13, 1, 64, 8)),
		 NEAR_ROUNDED, 0, "too many calls: other kernels");
	by_calls(weir_mul_mat(g, put(BF16, 3, 0, 64, 8), put(F32, 3, 0, 64, 8)),
		 NEAR_F32, 0, "no batches");
	by_calls(weir_mul_mat(g, put(BF16, 3, 1, 64, 8), put(F32, 3, 0, 64, 8)),
		 NEAR_F32, 0, "no batches that share a matrix");
}

/* What the library does not compute. */
static void others(void)
{
	by_calls(weir_mul_mat(g, put(BF16, 2, 15, 40), put(F32, 2, 64, 40)),
		 NEAR_ROUNDED, 0, "15 rows");
	by_calls(weir_mul_mat(g, put(BF16, 2, 64, 40), put(F32, 2, 63, 40)),
		 NEAR_ROUNDED, 0, "63 columns");
	by_calls(weir_mul_mat_precision(g, put(BF16, 2, 64, 40),
					put(F32, 2, 64, 40),
					WEIR_PRECISION_INVARIANT),
		 NEAR_F32, 0, "invariant");
	by_calls(weir_mul_mat_precision(g, put(BF16, 2, 64, 40),
					put(F32, 2, 64, 40),
					WEIR_PRECISION_F32),
		 NEAR_F32, 0, "exact as F32");
	by_calls(weir_mul_mat(g, put(F32, 2, 64, 40), put(F32, 2, 64, 40)),
		 NEAR_PAIRS, 0, "f32, which TF32 would round");
	by_calls(weir_mul_mat(g, put(WEIR_DTYPE_Q8_0, 2, 64, 32),
			      put(F32, 2, 64, 32)),
		 NEAR_ROUNDED, 0, "q8_0");
	by_calls(weir_mul_mat_id(g, put(BF16, 3, 2, 64, 40),
				 put(F32, 3, 70, 1, 40),
				 put_ids(I32, 2, 2, 70, 2)),
		 NEAR_ROUNDED, 0, "experts");
}

/* More columns than the workspace has room for at once. */
static void parts(void)
{
	uint64_t before = launches("weir_kernel_columns");

	if (fake.handle)
		fake.set("KERNELCHECK", "0");
	by_calls(weir_mul_mat(g, put(BF16, 2, 16, 49152),
			      put(F32, 2, 400, 49152)),
		 NEAR_ROUNDED, 2, "columns in parts");
	by_calls(weir_mul_mat(g, put(BF16, 3, 2, 16, 65536),
			      put(F32, 3, 2, 150, 65536)),
		 NEAR_ROUNDED, 2, "batches in parts");
	if (on_fake(1))
		is_int((int)(launches("weir_kernel_columns") - before), 4,
		       "b was converted in four parts");
	if (fake.handle)
		fake.set("KERNELCHECK", "1");
}

/* Numbers that F16 does not have. */
static void great_and_small(void)
{
	double b[64 * 8];

	for (int i = 0; i < 64 * 8; i++)
		b[i] = i / 8 < 24   ? 1e30 * (i % 8 - 3.3)
		       : i / 8 < 40 ? 1e-30 * (i % 8 - 3.3)
				    : 70000 * (i % 8 - 3.3);
	by_calls(weir_mul_mat(g, put(F16, 2, 64, 8),
			      put_values(F32, b, 2, 64, 8)),
		 NEAR_PAIRS, 2, "f16: columns beyond the numbers of F16");
}

int main(void)
{
	trials_begin();
	if (fake.handle) {
		*(void **)&counts_of = fake_symbol("fakecuda_kernel");
		fake.set("CUBLASLT", "130002");
	}
	shapes();
	views();
	batches();
	others();
	great_and_small();
	parts();
	return trials_end();
}
