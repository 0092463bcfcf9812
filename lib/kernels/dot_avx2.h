/* SPDX-License-Identifier: MIT */
/*
 * Products of quantised rows by AVX2, for the files dot_avx2*.c: by the
 * instructions that add pairs of products to 16 bits. Those take bytes with a sign
 * for b only, and their sums hold 128 * 127 * 2; the signs of rows whose bytes have
 * them are moved to b.
 */
#ifndef WEIR__DOT_AVX2_H
#define WEIR__DOT_AVX2_H

#include <immintrin.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/dot.h"

#define TARGET WEIR__NO_UBSAN __attribute__((target("avx2,fma,f16c")))
#define INLINE static inline TARGET __attribute__((always_inline))

/* Half a struct weir__dot_q8: 32 elements, 8 lanes. */
struct half {
	__m256i q;
	__m256 scale, min;
	const uint16_t *grid; /* set before: the points of the dtype, or NULL */
};

/* Of a dtype: constants, and how 32 elements of a block are unpacked. */
struct quant {
	void (*unpack)(struct half *v, const unsigned char *a, unsigned i);
	size_t bytes;    /* of a block */
	unsigned halves; /* of 32 elements, in a block */
	bool mins, sign;
	uint32_t dtype;
};

INLINE float half_at(const unsigned char *p)
{
	uint16_t x;

	memcpy(&x, p, sizeof(x));
	return _cvtsh_ss(x);
}

INLINE __m256i load_32(const unsigned char *p)
{
	return _mm256_loadu_si256((const __m256i_u *)p);
}

/* 0xff where a bit of the word is set. */
INLINE __m256i spread_bits(const unsigned char *p)
{
	const __m256i byte = _mm256_set_epi64x(
		0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
	const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
	int32_t word;
	__m256i x;

	memcpy(&word, p, sizeof(word));
	x = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte);
	return _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
}

/* Two scales for the halves of the lanes. */
INLINE __m256 two_scales(float low, float high)
{
	return _mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low));
}

/* Elements 32 * @i and on of 256 with 2 bits each, as in Q2_K and Q3_K. */
INLINE __m256i pairs(const unsigned char *a, unsigned i)
{
	return _mm256_and_si256(_mm256_srli_epi16(load_32(a + 32 * (i / 4)),
						  2 * (int)(i % 4)),
				_mm256_set1_epi8(3));
}

/* Of 8 lanes: halves are added, three times. */
INLINE float sum_of(__m256 v)
{
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v),
			      _mm256_extractf128_ps(v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* 32 elements with column @y, at half @h of it. */
INLINE __m256 quant_half(const struct quant *quant, const struct half *v,
			 const struct weir__dot_q8 *y, unsigned h, __m256 sum)
{
	__m256i q = v->q, x = load_32((const unsigned char *)y->q + 32 * h);
	__m256 scale =
		_mm256_mul_ps(v->scale, _mm256_loadu_ps(y->scale + 8 * h));

	if (quant->sign) {
		x = _mm256_sign_epi8(x, q);
		q = _mm256_abs_epi8(q);
	}
	x = _mm256_madd_epi16(_mm256_maddubs_epi16(q, x), _mm256_set1_epi16(1));
	if (!quant->mins && !quant->sign)
		x = _mm256_add_epi32(
			x, load_32((const unsigned char *)(y->bias + 8 * h)));
	sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(x), scale, sum);
	if (quant->mins)
		sum = _mm256_fnmadd_ps(v->min,
				       _mm256_loadu_ps(y->offset + 8 * h), sum);
	return sum;
}

/* One row of @k elements with @cols columns, a constant. */
INLINE void quant_row(const struct quant *quant, const uint16_t *grid,
		      unsigned cols, float *const *dst, size_t at,
		      const unsigned char *a, const void *const *b, size_t k,
		      size_t ahead)
{
	size_t blocks = k / (32 * quant->halves);
	__m256 sum[2];

	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++)
		sum[c] = _mm256_setzero_ps();
	for (size_t u = 0; u < blocks; u++) {
		const unsigned char *x = a + u * quant->bytes;

		for (size_t i = 0; i < quant->bytes; i += 64)
			__builtin_prefetch(x + ahead + i);
		WEIR__UNROLL
		for (unsigned i = 0; i < quant->halves; i++) {
			size_t h = u * quant->halves + i;
			struct half v;

			v.grid = grid;
			quant->unpack(&v, x, i);
			WEIR__UNROLL
			for (unsigned c = 0; c < cols; c++) {
				const struct weir__dot_q8 *y = b[c];

				sum[c] = quant_half(quant, &v, y + h / 2, h % 2,
						    sum[c]);
			}
		}
	}
	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++)
		dst[c][at] = sum_of(sum[c]);
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

		for (; c + 2 <= cols; c += 2)
			quant_row(quant, grid, 2, dst + c, r, row, b + c, k,
				  ahead);
		if (c < cols)
			quant_row(quant, grid, 1, dst + c, r, row, b + c, k,
				  ahead);
	}
}

/* The function of a dtype, for a list of rows like those of QUANTS; its entry. */
#define QUANT_ROWS(name, bytes_, halves_, bias_, sign_)                       \
	static TARGET void rows_##name(float *const *dst,                     \
				       const unsigned char *a, size_t pitch,  \
				       size_t rows, const void *const *b,     \
				       unsigned cols, size_t k, size_t ahead) \
	{                                                                     \
		const struct quant quant = { .unpack = unpack_##name,         \
					     .bytes = bytes_,                 \
					     .halves = halves_,               \
					     .mins = bias_ < 0,               \
					     .sign = sign_,                   \
					     .dtype = WEIR_DTYPE_##name };    \
                                                                              \
		quant_rows(&quant, dst, a, pitch, rows, b, cols, k, ahead);   \
	}
#define QUANT_ENTRY(name, bytes_, halves_, bias_, sign_)       \
	{ .dtype = WEIR_DTYPE_##name,                          \
	  .form = bias_ < 0 ? WEIR__DOT_MINS : WEIR__DOT_BIAS, \
	  .bias = bias_ < 0 ? 0 : bias_,                       \
	  .block = 32 * halves_,                               \
	  .run = rows_##name },

#endif
