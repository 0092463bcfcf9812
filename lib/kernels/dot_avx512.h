/* SPDX-License-Identifier: MIT */
/*
 * Products of quantised rows by AVX-512 and VNNI, for the files dot_avx512*.c. The
 * rows are unpacked 64 elements at a time, in their order, to bytes from 0 on in
 * one register, with the scales, and minima, of its 16 lanes of four.
 */
#ifndef WEIR__DOT_AVX512_H
#define WEIR__DOT_AVX512_H

#include <immintrin.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/dot.h"

#define TARGET                                                             \
	WEIR__NO_UBSAN __attribute__((                                     \
		target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl," \
		       "avx512vbmi,avx512vnni")))
#define INLINE static inline TARGET __attribute__((always_inline))

/* Elements that are unpacked together, at most 4 times 64. */
struct unit {
	__m512i q[4];
	__m512 scale[4], min[4]; /* of the lanes */
	const uint16_t *grid; /* set before: the points of the dtype, or NULL */
};

/* Of a dtype: constants, and how a unit is unpacked. */
struct quant {
	void (*unpack)(struct unit *v, const unsigned char *a);
	size_t bytes;    /* of a unit */
	unsigned chunks; /* of 64 elements */
	bool mins;
	uint32_t dtype;
};

INLINE __m512 half_lanes(__m128i halves, __m512i lanes)
{
	__m512 x = _mm512_castps256_ps512(_mm256_cvtph_ps(halves));

	return _mm512_permutexvar_ps(lanes, x);
}

/* Of each 8 lanes the value 0, then 1. */
INLINE __m512i lanes_of_8(unsigned first)
{
	return _mm512_inserti64x4(_mm512_set1_epi32((int)first),
				  _mm256_set1_epi32((int)first + 1), 1);
}

/* The low nibbles of the first 16 bytes, the high ones, those of the next. */
INLINE __m512i low_high(__m256i x)
{
	__m512i twice = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 2, 3, 2, 1,
								  0, 1, 0),
						 _mm512_castsi256_si512(x));

	twice = _mm512_srlv_epi64(twice,
				  _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0));
	return _mm512_and_si512(twice, _mm512_set1_epi8(15));
}

/* Two F16 at @a and @b for the lanes of the halves. */
INLINE __m512 scales_of_two(const unsigned char *a, const unsigned char *b)
{
	uint16_t x, y;

	memcpy(&x, a, 2);
	memcpy(&y, b, 2);
	return half_lanes(_mm_cvtsi32_si128((int)(x | (uint32_t)y << 16)),
			  lanes_of_8(0));
}

INLINE __m256i two_of_16(const unsigned char *a, const unsigned char *b)
{
	return _mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const __m128i_u *)a)),
		_mm_loadu_si128((const __m128i_u *)b), 1);
}

/* Scales, or minima, of 16 elements each to the lanes of 64: chunk @i. */
INLINE __m512 lanes_of_4(__m512 x, unsigned i)
{
	const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1,
					      1, 0, 0, 0, 0);

	return _mm512_permutexvar_ps(
		_mm512_add_epi32(lane, _mm512_set1_epi32(4 * (int)i)), x);
}

/* Elements 64 * @i and on of 256 with 2 bits each, as in Q2_K and Q3_K. */
INLINE __m512i pairs(const unsigned char *a, unsigned i)
{
	__m512i x = _mm512_broadcast_i64x4(
		_mm256_loadu_si256((const __m256i_u *)(a + 32 * (i / 2))));

	x = _mm512_srlv_epi64(x, _mm512_set_epi64(2, 2, 2, 2, 0, 0, 0, 0));
	x = _mm512_srli_epi64(x, 4 * (i % 2));
	return _mm512_and_si512(x, _mm512_set1_epi8(3));
}

/* A unit with @cols columns, a constant. */
INLINE void quant_unit(const struct quant *quant, const uint16_t *grid,
		       unsigned cols, __m512 *sum, const unsigned char *a,
		       const struct weir__dot_q8 *const *b, size_t at)
{
	struct unit v;

	v.grid = grid;
	quant->unpack(&v, a);
	WEIR__UNROLL
	for (unsigned i = 0; i < quant->chunks; i++)
		WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		const struct weir__dot_q8 *y = b[c] + at + i;
		__m512i x = quant->mins ? _mm512_setzero_si512()
					: _mm512_load_si512(y->bias);
		__m512 scale =
			_mm512_mul_ps(v.scale[i], _mm512_load_ps(y->scale));

		x = _mm512_dpbusd_epi32(x, v.q[i], _mm512_load_si512(y->q));
		sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(x), scale, sum[c]);
		if (quant->mins)
			sum[c] = _mm512_fnmadd_ps(
				v.min[i], _mm512_load_ps(y->offset), sum[c]);
	}
}

/* One row of @k elements with @cols columns, a constant. */
INLINE void quant_row(const struct quant *quant, const uint16_t *grid,
		      unsigned cols, float *const *dst, size_t at,
		      const unsigned char *a, const void *const *b, size_t k,
		      size_t ahead)
{
	const struct weir__dot_q8 *y[4];
	size_t units = k / (64 * quant->chunks);
	__m512 sum[4];

	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		sum[c] = _mm512_setzero_ps();
		y[c] = b[c];
	}
	for (size_t u = 0; u < units; u++) {
		const unsigned char *x = a + u * quant->bytes;

		for (size_t i = 0; i < quant->bytes; i += 64)
			__builtin_prefetch(x + ahead + i);
		quant_unit(quant, grid, cols, sum, x, y, u * quant->chunks);
	}
	if (quant->chunks == 1 && k % 64) {
		unsigned char last[72] = { 0 }; /* of two blocks the first */

		memcpy(last, a + units * quant->bytes, quant->bytes / 2);
		quant_unit(quant, grid, cols, sum, last, y, units);
	}
	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++)
		dst[c][at] = _mm512_reduce_add_ps(sum[c]);
}

INLINE void quant_rows(const struct quant *quant, float *const *dst,
		       const unsigned char *a, size_t pitch, size_t rows,
		       const void *const *b, unsigned cols, size_t k,
		       size_t ahead)
{
	const uint16_t *grid = weir__dot_grid(quant->dtype);

	for (size_t r = 0; r < rows; r++) {
		const unsigned char *row = a + r * pitch;
		unsigned c = 0;

		for (; c + 4 <= cols; c += 4)
			quant_row(quant, grid, 4, dst + c, r, row, b + c, k,
				  ahead);
		if (c + 2 <= cols) {
			quant_row(quant, grid, 2, dst + c, r, row, b + c, k,
				  ahead);
			c += 2;
		}
		if (c < cols)
			quant_row(quant, grid, 1, dst + c, r, row, b + c, k,
				  ahead);
	}
}

/* The function of a dtype, for a list of rows like those of QUANTS; its entry. */
#define QUANT_ROWS(name, bytes_, chunks_, bias_, block_)                      \
	static TARGET void rows_##name(float *const *dst,                     \
				       const unsigned char *a, size_t pitch,  \
				       size_t rows, const void *const *b,     \
				       unsigned cols, size_t k, size_t ahead) \
	{                                                                     \
		const struct quant quant = { .unpack = unpack_##name,         \
					     .bytes = bytes_,                 \
					     .chunks = chunks_,               \
					     .mins = bias_ < 0,               \
					     .dtype = WEIR_DTYPE_##name };    \
                                                                              \
		quant_rows(&quant, dst, a, pitch, rows, b, cols, k, ahead);   \
	}
#define QUANT_ENTRY(name, bytes_, chunks_, bias_, block_)      \
	{ .dtype = WEIR_DTYPE_##name,                          \
	  .form = bias_ < 0 ? WEIR__DOT_MINS : WEIR__DOT_BIAS, \
	  .bias = bias_ < 0 ? 0 : bias_,                       \
	  .block = block_,                                     \
	  .run = rows_##name },

#endif
