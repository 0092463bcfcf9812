/* SPDX-License-Identifier: MIT */
/* Dtypes and shapes for tests of graphs and kernels. */
#ifndef T_DTYPES_H
#define T_DTYPES_H

#include <weir.h>

#define F32 WEIR_DTYPE_F32
#define F16 WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16
#define I32 WEIR_DTYPE_I32
#define I64 WEIR_DTYPE_I64

/* A shape, or strides. */
#define D(...)              \
	(const int64_t[])   \
	{                   \
		__VA_ARGS__ \
	}

/* Those that weights may have; the quantised ones follow the others. */
static const enum weir_dtype weights[] = {
	WEIR_DTYPE_F32,     WEIR_DTYPE_F16,    WEIR_DTYPE_BF16,
	WEIR_DTYPE_Q4_0,    WEIR_DTYPE_Q4_1,   WEIR_DTYPE_Q5_0,
	WEIR_DTYPE_Q5_1,    WEIR_DTYPE_Q8_0,   WEIR_DTYPE_Q8_1,
	WEIR_DTYPE_Q2_K,    WEIR_DTYPE_Q3_K,   WEIR_DTYPE_Q4_K,
	WEIR_DTYPE_Q5_K,    WEIR_DTYPE_Q6_K,   WEIR_DTYPE_Q8_K,
	WEIR_DTYPE_IQ2_XXS, WEIR_DTYPE_IQ2_XS, WEIR_DTYPE_IQ3_XXS,
	WEIR_DTYPE_IQ1_S,   WEIR_DTYPE_IQ4_NL, WEIR_DTYPE_IQ3_S,
	WEIR_DTYPE_IQ2_S,   WEIR_DTYPE_IQ4_XS, WEIR_DTYPE_IQ1_M,
	WEIR_DTYPE_TQ1_0,   WEIR_DTYPE_TQ2_0,  WEIR_DTYPE_MXFP4,
	WEIR_DTYPE_NVFP4,   WEIR_DTYPE_Q1_0,   WEIR_DTYPE_Q2_0,
};
#define WEIGHTS (sizeof(weights) / sizeof(weights[0]))
#define FIRST_QUANTISED 3

#endif
