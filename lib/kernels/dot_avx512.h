/* SPDX-License-Identifier: MIT */
/*
 * Products of quantised rows by AVX-512 and VNNI, for dot_avx512*.c. A row is
 * unpacked 256 elements at a time: the elements, in their order, become bytes
 * without a sign in four registers, the scales and minima of their groups one
 * register each.
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

/*
 * A unit of 256 elements of a row, unpacked. Groups of 32 elements have the
 * lower 8 scales and minima, groups of 16 all.
 */
struct unit_avx512 {
	__m512i q[4]; /* 64 elements each, as bytes without a sign */
	__m512 scale, min;
	/*
	 * The caller sets these: the points of the dtype, or NULL, and how many
	 * blocks the row has here.
	 */
	const uint16_t *grid;
	unsigned blocks;
};

/* A dtype: constants, and the function that unpacks a unit. */
struct quant_avx512 {
	void (*unpack)(struct unit_avx512 *v, const unsigned char *a);
	size_t bytes;   /* bytes of a unit */
	unsigned block; /* elements of a block */
	unsigned group; /* elements that have the same scale: 16 or 32 */
	int bias; /* what is to be subtracted from the bytes; -1: minima */
	uint32_t dtype;
};

INLINE __m512 spread_half(__m128i halves, __m512i index)
{
	__m512 x = _mm512_castps256_ps512(_mm256_cvtph_ps(halves));

	return _mm512_permutexvar_ps(index, x);
}

/* Return the indices @first, 8 times, then @first + 1, 8 times. */
INLINE __m512i index_of_8(unsigned first)
{
	return _mm512_inserti64x4(_mm512_set1_epi32((int)first),
				  _mm256_set1_epi32((int)first + 1), 1);
}

/*
 * Return the low nibbles of the first 16 bytes, the high ones, and those of the
 * next 16.
 */
INLINE __m512i low_high(__m256i x)
{
	__m512i twice = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 2, 3, 2, 1,
								  0, 1, 0),
						 _mm512_castsi256_si512(x));

	twice = _mm512_srlv_epi64(twice,
				  _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0));
	return _mm512_and_si512(twice, _mm512_set1_epi8(15));
}

/*
 * Return the F16 at @a for the lower 8 elements, and the one at @b for the
 * upper 8.
 */
INLINE __m512 scales_of_two(const unsigned char *a, const unsigned char *b)
{
	uint16_t x, y;

	memcpy(&x, a, 2);
	memcpy(&y, b, 2);
	return spread_half(_mm_cvtsi32_si128((int)(x | (uint32_t)y << 16)),
			   index_of_8(0));
}

/* Return the F16 at @a, 16 times. */
INLINE __m512 half_at(const unsigned char *a)
{
	uint16_t x;

	memcpy(&x, a, 2);
	return _mm512_set1_ps(_cvtsh_ss(x));
}

/*
 * Return block @i of a unit, of @bytes bytes. Beyond the end of the row it is
 * the first block, since the elements of b are 0 there.
 */
INLINE const unsigned char *block_at(const struct unit_avx512 *v,
				     const unsigned char *a, size_t bytes,
				     unsigned i)
{
	return a + (i < v->blocks ? i : 0) * bytes;
}

/* Return the F16 at byte @at of each of 8 blocks, as the lower 8 elements. */
INLINE __m512 halves(const struct unit_avx512 *v, const unsigned char *a,
		     size_t bytes, unsigned at)
{
	uint16_t x[8];

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		memcpy(&x[i], block_at(v, a, bytes, i) + at, 2);
	return _mm512_castps256_ps512(_mm256_cvtph_ps(_mm_set_epi16(
		(short)x[7], (short)x[6], (short)x[5], (short)x[4], (short)x[3],
		(short)x[2], (short)x[1], (short)x[0])));
}

INLINE __m256i two_of_16(const unsigned char *a, const unsigned char *b)
{
	return _mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const __m128i_u *)a)),
		_mm_loadu_si128((const __m128i_u *)b), 1);
}

/*
 * Return elements 64 * @i and the next 63 of 256 with 2 bits each, as in Q2_K
 * and Q3_K.
 */
INLINE __m512i pairs(const unsigned char *a, unsigned i)
{
	__m512i x = _mm512_broadcast_i64x4(
		_mm256_loadu_si256((const __m256i_u *)(a + 32 * (i / 2))));

	x = _mm512_srlv_epi64(x, _mm512_set_epi64(2, 2, 2, 2, 0, 0, 0, 0));
	x = _mm512_srli_epi64(x, 4 * (i % 2));
	return _mm512_and_si512(x, _mm512_set1_epi8(3));
}

/*
 * Return the scales of elements 64 * @i and the next 63 of a unit: one for each
 * 4 of them.
 */
INLINE __m512 spread_scales(const struct quant_avx512 *quant, __m512 scale,
			    unsigned i)
{
	const __m512i index = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1,
					       1, 0, 0, 0, 0);

	if (quant->group == 32)
		return _mm512_permutexvar_ps(index_of_8(2 * i), scale);
	return _mm512_permutexvar_ps(
		_mm512_add_epi32(index, _mm512_set1_epi32(4 * (int)i)), scale);
}

/* Return the scales of b for the groups of a. */
INLINE __m512 scales_of(const struct quant_avx512 *quant,
			const struct weir__dot_q8 *y)
{
	const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2,
					       2, 1, 1, 0, 0);
	__m512 scale = _mm512_castps256_ps512(_mm256_load_ps(y->scale));

	return quant->group == 32 ? scale : _mm512_permutexvar_ps(twice, scale);
}

/*
 * Add the excess: by how much the bias or the minima make the products too
 * large. Elements without a group are 0.
 */
INLINE __m512 excess(const struct quant_avx512 *quant,
		     const struct unit_avx512 *v, const struct weir__dot_q8 *y,
		     __m512 sum)
{
	__m512 x = quant->bias < 0 ? v->min : v->scale;

	if (!quant->bias)
		return sum;
	if (quant->group == 32)
		return _mm512_fmadd_ps(
			_mm512_maskz_mov_ps(0xff, x),
			_mm512_zextps256_ps512(_mm256_load_ps(y->sum32)), sum);
	return _mm512_fmadd_ps(x, _mm512_load_ps(y->sum16), sum);
}

/*
 * The sums of a column: products of the even and the odd 64 elements, and the
 * excess.
 */
struct sums_avx512 {
	__m512 part[2], excess;
};

/*
 * Multiply the first @chunks times 64 elements of a unit with @cols columns, a
 * constant.
 */
INLINE void quant_unit(const struct quant_avx512 *quant, const uint16_t *grid,
		       unsigned cols, unsigned chunks, unsigned blocks,
		       struct sums_avx512 *sum, const unsigned char *a,
		       const struct weir__dot_q8 *const *b, size_t at)
{
	struct unit_avx512 v;
	__m512 scale[4];

	v.grid = grid;
	v.blocks = blocks;
	quant->unpack(&v, a);
	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		const struct weir__dot_q8 *y = b[c] + at;

		scale[c] = _mm512_mul_ps(v.scale, scales_of(quant, y));
		sum[c].excess = excess(quant, &v, y, sum[c].excess);
	}
	WEIR__UNROLL
	for (unsigned i = 0; i < chunks; i++)
		WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		const __m512i *y = (const __m512i *)(const void *)b[c][at].q;
		__m512 *to = &sum[c].part[i % 2];
		__m512i x = _mm512_dpbusd_epi32(_mm512_setzero_si512(), v.q[i],
						_mm512_load_si512(y + i));

		*to = _mm512_fmadd_ps(_mm512_cvtepi32_ps(x),
				      spread_scales(quant, scale[c], i), *to);
	}
}

/* Multiply the last elements of a row, fewer than a unit: whole blocks. */
INLINE void quant_rest(const struct quant_avx512 *quant, const uint16_t *grid,
		       unsigned cols, struct sums_avx512 *sum,
		       const unsigned char *a,
		       const struct weir__dot_q8 *const *b, size_t at, size_t n)
{
	unsigned blocks = (unsigned)n / quant->block;

	if (n <= 64)
		quant_unit(quant, grid, cols, 1, blocks, sum, a, b, at);
	else if (n <= 128)
		quant_unit(quant, grid, cols, 2, blocks, sum, a, b, at);
	else
		quant_unit(quant, grid, cols, 4, blocks, sum, a, b, at);
}

/* Multiply one row of @k elements with @cols columns, a constant. */
INLINE void quant_row(const struct quant_avx512 *quant, const uint16_t *grid,
		      unsigned cols, float *const *dst, size_t at,
		      const unsigned char *a, const void *const *b, size_t k,
		      size_t ahead)
{
	const struct weir__dot_q8 *y[4];
	size_t units = k / WEIR__DOT_UNIT;
	struct sums_avx512 sum[4];

	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		sum[c].part[0] = sum[c].part[1] = _mm512_setzero_ps();
		sum[c].excess = _mm512_setzero_ps();
		y[c] = b[c];
	}
	for (size_t u = 0; u < units; u++) {
		const unsigned char *x = a + u * quant->bytes;

		for (size_t i = 0; i < quant->bytes; i += 64)
			__builtin_prefetch(x + ahead + i);
		quant_unit(quant, grid, cols, 4, WEIR__DOT_UNIT / quant->block,
			   sum, x, y, u);
	}
	if (quant->block < WEIR__DOT_UNIT && k % WEIR__DOT_UNIT)
		quant_rest(quant, grid, cols, sum, a + units * quant->bytes, y,
			   units, k % WEIR__DOT_UNIT);
	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		__m512 all = _mm512_add_ps(sum[c].part[0], sum[c].part[1]);
		float bias = quant->bias < 0 ? 1 : (float)quant->bias;

		dst[c][at] = _mm512_reduce_add_ps(_mm512_fnmadd_ps(
			_mm512_set1_ps(bias), sum[c].excess, all));
	}
}

INLINE void quant_rows(const struct quant_avx512 *quant, float *const *dst,
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

/*
 * Define the function of a row of QUANTS, which is a dtype, and its entry in
 * the list.
 */
#define QUANT_ROWS(name, group_, bias_)                                       \
	static TARGET void rows_##name(float *const *dst,                     \
				       const unsigned char *a, size_t pitch,  \
				       size_t rows, const void *const *b,     \
				       unsigned cols, size_t k, size_t ahead) \
	{                                                                     \
		const struct quant_avx512 quant = {                           \
			.unpack = unpack_##name,                              \
			.bytes = WEIR__BYTES_##name *                         \
				 (WEIR__DOT_UNIT / WEIR__BLOCK_##name),       \
			.block = WEIR__BLOCK_##name,                          \
			.group = group_,                                      \
			.bias = bias_,                                        \
			.dtype = WEIR_DTYPE_##name                            \
		};                                                            \
                                                                              \
		quant_rows(&quant, dst, a, pitch, rows, b, cols, k, ahead);   \
	}
#define QUANT_ENTRY(name, group_, bias_) \
	{ .dtype = WEIR_DTYPE_##name,    \
	  .form = WEIR__DOT_Q8,          \
	  .block = WEIR__BLOCK_##name,   \
	  .run = rows_##name },

#endif
