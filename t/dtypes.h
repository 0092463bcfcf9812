/* SPDX-License-Identifier: MIT */
/*
 * Short names of dtypes, and those of weights, for tests of graphs and kernels.
 */
#ifndef T_DTYPES_H
#define T_DTYPES_H

#include <weir.h>

#include "mem/dtype_table.h"

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

/* The dtypes that weights may have; the quantised ones follow the others. */
static const enum weir_dtype weights[] = {
#define WEIGHT(name, ...) WEIR_DTYPE_##name,
	F32, F16, BF16, WEIR__QUANTISED_DTYPES(WEIGHT)
#undef WEIGHT
};
#define WEIGHTS (sizeof(weights) / sizeof(weights[0]))
#define FIRST_QUANTISED 3

#endif
