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
	/* d += s * a */
	void (*add_scaled)(float *d, float s, const float *a, size_t n);
	/* Of a; of (a - less)^2. In double. */
	double (*sum)(const float *a, size_t n);
	double (*sum_sqr)(const float *a, float less, size_t n);
	/* The greatest number; NaNs do not count. Of none: -infinity. */
	float (*max)(const float *a, size_t n);
	/* d = exp(a - less); returns the sum of d. */
	double (*exp_sum)(float *d, const float *a, float less, size_t n);
	/* Rotate the @n pairs (i, i + n) by the angles with cosine c[i], sine
	 * s[i]. */
	void (*rotate_halves)(float *d, const float *a, const float *c,
			      const float *s, size_t n);
	/*
	 * The same of the pairs (2i, 2i + 1). Cosines are stored twice, as c[2i]
	 * and c[2i + 1]; s[2i] is minus the sine, s[2i + 1] the sine.
	 */
	void (*rotate_pairs)(float *d, const float *a, const float *c,
			     const float *s, size_t n);
};

extern const struct weir__vec weir__vec_base, weir__vec_avx2, weir__vec_avx512;

/* The set for this CPU. */
const struct weir__vec *weir__vec(void);

#endif
