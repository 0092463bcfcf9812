/* SPDX-License-Identifier: MIT */
/*
 * Products of quantised rows by AVX2, for dot_avx2*.c. The instructions add
 * pairs of products to 16 bits. They multiply bytes without sign by bytes with
 * a sign, and a sum may be 128 * 127 * 2 at most. So the bytes of a row have no
 * sign: if a dtype has signs, those are moved to b.
 */
#ifndef WEIR__DOT_AVX2_H
#define WEIR__DOT_AVX2_H

#include <immintrin.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/dot.h"

#define TARGET WEIR__NO_UBSAN __attribute__((target("avx2,fma,f16c")))
#define INLINE static inline TARGET __attribute__((always_inline))

/*
 * A unit of 256 elements of a row: its scales and minima, unpacked once. Groups
 * of 32 elements have the first 8 of each, groups of 16 all.
 */
struct unit_avx2 {
	__m256 scale[2], min[2];
	/*
	 * The caller sets these: the points of the dtype, or NULL, and how many
	 * blocks the row has here.
	 */
	const uint16_t *grid;
	unsigned blocks;
};

/* A dtype: constants, and the functions that unpack a unit. */
struct quant_avx2 {
	void (*scales)(struct unit_avx2 *v, const unsigned char *a);
	/* Return elements 32 * @i and the next 31, as bytes. */
	__m256i (*bytes)(const struct unit_avx2 *v, const unsigned char *a,
			 unsigned i);
	size_t size;    /* bytes of a unit */
	unsigned block; /* elements of a block */
	unsigned group; /* elements that have the same scale: 16 or 32 */
	int bias;  /* what is to be subtracted from the bytes; -1: minima */
	bool sign; /* the bytes have signs, which are moved to b */
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

/* Return bytes that are 0xff where the bit of the word is set. */
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

/*
 * Return block @i of a unit, of @bytes bytes. Beyond the end of the row it is
 * the first block, since the elements of b are 0 there.
 */
INLINE const unsigned char *block_at(const struct unit_avx2 *v,
				     const unsigned char *a, size_t bytes,
				     unsigned i)
{
	return a + (i < v->blocks ? i : 0) * bytes;
}

/* Return the F16 at byte @at of each of 8 blocks. */
INLINE __m256 halves(const struct unit_avx2 *v, const unsigned char *a,
		     size_t bytes, unsigned at)
{
	uint16_t x[8];

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		memcpy(&x[i], block_at(v, a, bytes, i) + at, 2);
	return _mm256_cvtph_ps(_mm_set_epi16(
		(short)x[7], (short)x[6], (short)x[5], (short)x[4], (short)x[3],
		(short)x[2], (short)x[1], (short)x[0]));
}

/* Set the same scale for all groups. */
INLINE void one_scale(struct unit_avx2 *v, float scale)
{
	v->scale[0] = v->scale[1] = _mm256_set1_ps(scale);
}

/* Convert 8 bytes to floats, times a scale. */
INLINE __m256 bytes_times(__m128i bytes, float scale)
{
	return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
			     _mm256_set1_ps(scale));
}

INLINE void sixteen_times(__m256 *to, __m128i bytes, float scale)
{
	to[0] = bytes_times(bytes, scale);
	to[1] = bytes_times(_mm_unpackhi_epi64(bytes, bytes), scale);
}

/*
 * Return elements 32 * @i and the next 31 of 256 with 2 bits each, as in Q2_K
 * and Q3_K.
 */
INLINE __m256i pairs(const unsigned char *a, unsigned i)
{
	return _mm256_and_si256(_mm256_srli_epi16(load_32(a + 32 * (i / 4)),
						  2 * (int)(i % 4)),
				_mm256_set1_epi8(3));
}

/* Return the sum of 8 floats: halves are added, three times. */
INLINE float sum_of(__m256 v)
{
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v),
			      _mm256_extractf128_ps(v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/*
 * The sums of a column: products of the even and the odd 32 elements, and the
 * excess.
 */
struct sums_avx2 {
	__m256 part[2], excess;
};

/*
 * Return the scales of b for 8 groups of a: for groups of 16 elements each
 * twice.
 */
INLINE __m256 scales_of(const struct quant_avx2 *quant,
			const struct weir__dot_q8 *y, unsigned part)
{
	__m256 scale = _mm256_load_ps(y->scale);

	if (quant->group == 32)
		return scale;
	return part ? _mm256_permutevar8x32_ps(
			      scale, _mm256_set_epi32(7, 7, 6, 6, 5, 5, 4, 4))
		    : _mm256_permutevar8x32_ps(
			      scale, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0));
}

/*
 * Add the excess: by how much the bias or the minima make the products too
 * large.
 */
INLINE __m256 excess(const struct quant_avx2 *quant, const struct unit_avx2 *v,
		     const struct weir__dot_q8 *y, __m256 sum)
{
	const __m256 *x = quant->bias < 0 ? v->min : v->scale;

	if (!quant->bias)
		return sum;
	if (quant->group == 32)
		return _mm256_fmadd_ps(x[0], _mm256_load_ps(y->sum32), sum);
	sum = _mm256_fmadd_ps(x[0], _mm256_load_ps(y->sum16), sum);
	return _mm256_fmadd_ps(x[1], _mm256_load_ps(y->sum16 + 8), sum);
}

/* Return the scales of 32 elements: one for each 4 of them. */
INLINE __m256 spread_scales(const struct quant_avx2 *quant, const __m256 *scale,
			    unsigned i)
{
	int at = quant->group == 32 ? (int)i : (int)(2 * i % 8);

	if (quant->group == 32)
		return _mm256_permutevar8x32_ps(scale[0],
						_mm256_set1_epi32(at));
	return _mm256_permutevar8x32_ps(
		scale[i / 4], _mm256_set_epi32(at + 1, at + 1, at + 1, at + 1,
					       at, at, at, at));
}

/* Return 8 sums of 4 products of bytes each. */
INLINE __m256 products(const struct quant_avx2 *quant, __m256i q, __m256i y)
{
	if (quant->sign) {
		y = _mm256_sign_epi8(y, q);
		q = _mm256_abs_epi8(q);
	}
	return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_maddubs_epi16(q, y),
						    _mm256_set1_epi16(1)));
}

/*
 * Multiply the first @n times 32 elements of a unit with @cols columns, a
 * constant.
 */
INLINE void quant_unit(const struct quant_avx2 *quant, const uint16_t *grid,
		       unsigned cols, unsigned n, unsigned blocks,
		       struct sums_avx2 *sum, const unsigned char *a,
		       const struct weir__dot_q8 *const *b, size_t at)
{
	__m256 scale[2][2];
	struct unit_avx2 v;

	v.grid = grid;
	v.blocks = blocks;
	quant->scales(&v, a);
	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		const struct weir__dot_q8 *y = b[c] + at;

		scale[c][0] = _mm256_mul_ps(v.scale[0], scales_of(quant, y, 0));
		if (quant->group == 16)
			scale[c][1] = _mm256_mul_ps(v.scale[1],
						    scales_of(quant, y, 1));
		sum[c].excess = excess(quant, &v, y, sum[c].excess);
	}
	WEIR__UNROLL
	for (unsigned i = 0; i < n; i++) {
		__m256i q = quant->bytes(&v, a, i);

		WEIR__UNROLL
		for (unsigned c = 0; c < cols; c++) {
			__m256i y = load_32((const unsigned char *)b[c][at].q +
					    32 * i);
			__m256 *to = &sum[c].part[i % 2];

			*to = _mm256_fmadd_ps(products(quant, q, y),
					      spread_scales(quant, scale[c], i),
					      *to);
		}
	}
}

/* Multiply the last elements of a row, fewer than a unit: whole blocks. */
INLINE void quant_rest(const struct quant_avx2 *quant, const uint16_t *grid,
		       unsigned cols, struct sums_avx2 *sum,
		       const unsigned char *a,
		       const struct weir__dot_q8 *const *b, size_t at, size_t n)
{
	unsigned blocks = (unsigned)n / quant->block;

	if (n <= 64)
		quant_unit(quant, grid, cols, 2, blocks, sum, a, b, at);
	else if (n <= 128)
		quant_unit(quant, grid, cols, 4, blocks, sum, a, b, at);
	else
		quant_unit(quant, grid, cols, 8, blocks, sum, a, b, at);
}

/* Multiply one row of @k elements with @cols columns, a constant. */
INLINE void quant_row(const struct quant_avx2 *quant, const uint16_t *grid,
		      unsigned cols, float *const *dst, size_t at,
		      const unsigned char *a, const void *const *b, size_t k,
		      size_t ahead)
{
	const struct weir__dot_q8 *y[2];
	size_t units = k / WEIR__DOT_UNIT;
	struct sums_avx2 sum[2];

	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		sum[c].part[0] = sum[c].part[1] = _mm256_setzero_ps();
		sum[c].excess = _mm256_setzero_ps();
		y[c] = b[c];
	}
	for (size_t u = 0; u < units; u++) {
		const unsigned char *x = a + u * quant->size;

		for (size_t i = 0; i < quant->size; i += 64)
			__builtin_prefetch(x + ahead + i);
		quant_unit(quant, grid, cols, 8, WEIR__DOT_UNIT / quant->block,
			   sum, x, y, u);
	}
	if (quant->block < WEIR__DOT_UNIT && k % WEIR__DOT_UNIT)
		quant_rest(quant, grid, cols, sum, a + units * quant->size, y,
			   units, k % WEIR__DOT_UNIT);
	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++) {
		__m256 all = _mm256_add_ps(sum[c].part[0], sum[c].part[1]);
		float bias = quant->bias < 0 ? 1 : (float)quant->bias;

		dst[c][at] = sum_of(_mm256_fnmadd_ps(_mm256_set1_ps(bias),
						     sum[c].excess, all));
	}
}

INLINE void quant_rows(const struct quant_avx2 *quant, float *const *dst,
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

/*
 * Define the function of a row of QUANTS, which is a dtype, and its entry in
 * the list.
 */
#define QUANT_ROWS(name, group_, bias_, sign_)                                \
	static TARGET void rows_##name(float *const *dst,                     \
				       const unsigned char *a, size_t pitch,  \
				       size_t rows, const void *const *b,     \
				       unsigned cols, size_t k, size_t ahead) \
	{                                                                     \
		const struct quant_avx2 quant = {                             \
			.scales = scales_##name,                              \
			.bytes = bytes_##name,                                \
			.size = WEIR__BYTES_##name *                          \
				(WEIR__DOT_UNIT / WEIR__BLOCK_##name),        \
			.block = WEIR__BLOCK_##name,                          \
			.group = group_,                                      \
			.bias = bias_,                                        \
			.sign = sign_,                                        \
			.dtype = WEIR_DTYPE_##name                            \
		};                                                            \
                                                                              \
		quant_rows(&quant, dst, a, pitch, rows, b, cols, k, ahead);   \
	}
#define QUANT_ENTRY(name, group_, bias_, sign_) \
	{ .dtype = WEIR_DTYPE_##name,           \
	  .form = WEIR__DOT_Q8,                 \
	  .block = WEIR__BLOCK_##name,          \
	  .run = rows_##name },

#endif
