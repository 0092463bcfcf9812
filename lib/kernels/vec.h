/* SPDX-License-Identifier: MIT */
/*
 * Loops over vectors of F32, in several instruction sets from one source,
 * vec.inc, in the vector extension of GCC and clang. The best set for this CPU
 * is chosen once. Addresses need no alignment. A destination may be the same
 * array as a source, but may not overlap it otherwise.
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
	weir__vec_map1 *sqr, *silu, *gelu, *gelu_erf;
	weir__vec_map1 *relu, *tanh, *sigmoid, *exp, *sqrt;
	/* d = the nearest to a of the numbers from min to max */
	void (*clamp)(float *d, const float *a, float min, float max, size_t n);
	/* d = s * a + b */
	void (*scale)(float *d, const float *a, float s, float b, size_t n);
	/* d += s * a */
	void (*add_scaled)(float *d, float s, const float *a, size_t n);
	/* The sums of a, and of (a - less)^2, in double. */
	double (*sum)(const float *a, size_t n);
	double (*sum_sqr)(const float *a, float less, size_t n);
	/*
	 * The greatest number. NaNs are ignored; without a number it is
	 * -infinity.
	 */
	float (*max)(const float *a, size_t n);
	/* d = exp(a - less); returns the sum of d. */
	double (*exp_sum)(float *d, const float *a, float less, size_t n);
	/* Rotate the @n pairs (i, i + n) by the angles with cosine c[i], sine
	 * s[i]. */
	void (*rotate_halves)(float *d, const float *a, const float *c,
			      const float *s, size_t n);
	/*
	 * The same for the pairs (2i, 2i + 1). Cosines are stored twice, as
	 * c[2i] and c[2i + 1]; s[2i] is minus the sine, s[2i + 1] the sine.
	 */
	void (*rotate_pairs)(float *d, const float *a, const float *c,
			     const float *s, size_t n);
	float (*dot)(const float *a, const float *b, size_t n);
	/* d = the greater of d and a; NaN if one of them is. */
	void (*maxes)(float *d, const float *a, size_t n);
	/*
	 * d += b; where b is -infinity d becomes -infinity, also if it was NaN.
	 */
	void (*bias)(float *d, const float *b, size_t n);
	/* True if no element is infinite or NaN. */
	bool (*finite)(const float *a, size_t n);
	/* d = cap * tanh(d / cap) */
	void (*softcap)(float *d, float cap, size_t n);
	/*
	 * d [columns, rows] = a [rows, columns]; distances of rows in floats.
	 */
	void (*transpose)(float *d, size_t d_row, const float *a, size_t a_row,
			  size_t rows, size_t columns);
	/* c [m, n] += a [m, k] * b [k, n]; n is a multiple of 16. */
	void (*product)(float *c, size_t c_row, const float *a, size_t a_row,
			const float *b, size_t b_row, size_t m, size_t n,
			size_t k);
	/*
	 * Convert F16 to F32. NULL if host->convert_find() has nothing slower.
	 */
	void (*from_f16)(float *d, const void *a, size_t n);
};

extern const struct weir__vec weir__vec_base, weir__vec_avx2, weir__vec_avx512;

/* Return the set for this CPU. */
const struct weir__vec *weir__vec(void);

#endif
