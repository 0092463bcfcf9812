/* SPDX-License-Identifier: MIT */
/*
 * Loops over vectors of F32, each in several instruction sets. One source,
 * vec.inc, with the vector extension of GCC and clang; the best set for this
 * CPU is chosen once. Addresses need no alignment. Destinations may be a source,
 * but not overlap it otherwise.
 */
#ifndef WEIR__VEC_H
#define WEIR__VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void weir__vec_map1(float *d, const float *a, size_t n);
typedef void weir__vec_map2(float *d, const float *a, const float *b, size_t n);

struct weir__vec {
	const char *name;
	bool (*usable)(void);
	weir__vec_map2 *add, *sub, *mul, *div;
	weir__vec_map2 *swiglu; /* silu(a) * b */
	weir__vec_map1 *sqr, *silu, *gelu;
	/* d = s * a + b */
	void (*scale)(float *d, const float *a, float s, float b, size_t n);
};

extern const struct weir__vec weir__vec_base, weir__vec_avx2, weir__vec_avx512;

/* The set for this CPU. */
const struct weir__vec *weir__vec(void);

#endif
