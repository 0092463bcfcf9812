/* SPDX-License-Identifier: MIT */
/*
 * More rows, elements and products than a grid has blocks for: on a device with
 * one multiprocessor a block takes several, one after the other. The kernels of
 * attention and of sums are not here, since their blocks always do.
 */
#include <stdlib.h>

#include "attend.h"
#include "dtypes.h"

#define ROWS 700 /* over 512 blocks */
#define C 40     /* elements of a row: two warps */
#define MORE "more %s than a grid has blocks for are right: %s"

static struct weir_node *rows(void)
{
	return put(F32, 2, ROWS, C);
}

static void whole_rows(void)
{
	same(weir_rms_norm(g, rows(), 1e-5f), NEAR_F32, MORE, "rows",
	     "rms_norm");
	same(weir_mul(g, weir_rms_norm(g, rows(), 1e-5f), put(F32, 1, C)),
	     NEAR_F32, MORE, "rows", "rms_norm and mul");
	same(weir_norm(g, rows(), 1e-5f), NEAR_F32, MORE, "rows", "norm");
	same(weir_l2_norm(g, rows(), 1e-5f), NEAR_F32, MORE, "rows", "l2_norm");
	same(weir_group_norm(g, put(F32, 4, ROWS / 2, 4, 5, 9), 2, 1e-5f),
	     NEAR_F32, MORE, "groups", "group_norm");
	same(weir_soft_max(g, rows(), NULL, 0, 0), NEAR_F32, MORE, "rows",
	     "soft_max");
	same(weir_rope(g, put(F32, 3, ROWS, 2, 70), put(I32, 1, ROWS), NULL,
		       NULL),
	     1e-8, MORE, "tokens", "rope");
	same(weir_sum_rows(g, rows()), NEAR_F32, MORE, "rows", "sum_rows");
	same(weir_argmax(g, rows()), 0, MORE, "rows", "argmax");
	same(weir_top_k(g, rows(), 3), 0, MORE, "rows", "top_k");
	same(weir_argsort(g, rows(), WEIR_SORT_ASCENDING), 0, MORE, "rows",
	     "argsort");
	same(weir_argsort(g, put(F32, 2, 6, 2100), WEIR_SORT_DESCENDING), 0,
	     MORE, "elements", "argsort of long rows");
}

/* Over 32 blocks of 256 threads. */
static void elements(void)
{
	same(weir_add(g, put(F16, 2, 301, 37), put(F32, 1, 37)), NEAR_F16, MORE,
	     "elements", "add");
	same(weir_cont(g, weir_transpose(g, put(F32, 2, 301, 37))), 0, MORE,
	     "elements", "cont");
	same(weir_cast(g, put(F32, 2, 301, 37), BF16), NEAR_BF16, MORE,
	     "elements", "cast to BF16");
	same(weir_cast(g, put(F32, 2, 40, 256), WEIR_DTYPE_Q8_0), 1e-4, MORE,
	     "elements", "cast to Q8_0");
	same(weir_cast(g, put(WEIR_DTYPE_Q6_K, 2, 40, 256), F32), NEAR_F32,
	     MORE, "elements", "cast of Q6_K");
	same(weir_concat(g, put(I32, 2, 301, 37), put(I32, 2, 9, 37), 0), 0,
	     MORE, "elements", "concat");
	same(weir_repeat(g, put(F32, 2, 43, 37), 2, D(7 * 43, 37)), 0, MORE,
	     "elements", "repeat");
	same(weir_get_rows(g, put(WEIR_DTYPE_Q4_0, 2, 50, 64),
			   put_ids(I32, 50, 1, 301)),
	     NEAR_F32, MORE, "elements", "get_rows");
	same(weir_set_rows(g, put(F16, 2, 301, 37), put(F32, 2, 301, 37),
			   weir_argsort(g, put(F32, 1, 301),
					WEIR_SORT_ASCENDING)),
	     NEAR_F16, MORE, "elements", "set_rows");
}

/* Two matrices for each of 300 tokens, at multiples of 16 bytes. */
static void products(void)
{
	static const struct {
		enum weir_dtype dtype;
		const char *kernel;
	} of[] = {
		{ F32, "matvec_f32_1" },
		{ F16, "matvec_f16_1" },
		{ BF16, "matvec_bf16_1" },
		{ WEIR_DTYPE_Q8_0, "matvec_q8_0_1" },
		{ WEIR_DTYPE_Q4_0, "matvec_q4_0_1" },
		{ WEIR_DTYPE_Q4_K, "matvec_q4_k_1" },
		{ WEIR_DTYPE_Q6_K, "matvec_q6_k_1" },
		{ WEIR_DTYPE_Q4_1, "matvec_q4_1_1" },
		{ WEIR_DTYPE_Q5_0, "matvec_q5_0_1" },
		{ WEIR_DTYPE_Q5_1, "matvec_q5_1_1" },
		{ WEIR_DTYPE_Q2_K, "matvec_q2_k_1" },
		{ WEIR_DTYPE_Q3_K, "matvec_q3_k_1" },
		{ WEIR_DTYPE_Q5_K, "matvec_q5_k_1" },
		{ WEIR_DTYPE_IQ4_NL, "matvec_iq4_nl_1" },
		{ WEIR_DTYPE_IQ4_XS, "matvec_iq4_xs_1" },
		{ WEIR_DTYPE_MXFP4, "matvec_mxfp4_1" },
		{ WEIR_DTYPE_NVFP4, "matvec_nvfp4_1" },
		{ WEIR_DTYPE_IQ1_S, "matvec_iq1_s_1" },
		{ WEIR_DTYPE_IQ1_M, "matvec_iq1_m_1" },
		{ WEIR_DTYPE_IQ2_XXS, "matvec_iq2_xxs_1" },
		{ WEIR_DTYPE_IQ2_XS, "matvec_iq2_xs_1" },
		{ WEIR_DTYPE_IQ2_S, "matvec_iq2_s_1" },
		{ WEIR_DTYPE_IQ3_XXS, "matvec_iq3_xxs_1" },
		{ WEIR_DTYPE_IQ3_S, "matvec_iq3_s_1" },
		{ WEIR_DTYPE_TQ1_0, "matvec_tq1_0_1" },
		{ WEIR_DTYPE_TQ2_0, "matvec_tq2_0_1" },
		{ WEIR_DTYPE_Q1_0, "matvec_q1_0_1" },
		{ WEIR_DTYPE_Q2_0, "matvec_q2_0_1" },
	};

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		enum weir_dtype d = of[i].dtype;
		int before = launches(of[i].kernel);

		same(weir_mul_mat_id_precision(g, put(d, 3, 4, 12, 512),
					       put(F32, 3, 300, 1, 512),
					       put_ids(I32, 4, 2, 300, 2),
					       WEIR_PRECISION_INVARIANT),
		     i < 3 ? NEAR_F32 : NEAR_PRODUCT_QUANT, MORE, "products",
		     dtype_name(d));
		if (on_fake(1))
			is_int(launches(of[i].kernel) - before, 1,
			       "they were computed by %s", of[i].kernel);
	}
}

int main(void)
{
	setenv("FAKECUDA_SMS", "1", 1);
	trials_begin();
	whole_rows();
	elements();
	products();
	return trials_end();
}
