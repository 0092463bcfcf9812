/* SPDX-License-Identifier: MIT */
/*
 * Products with AVX-512 of the dtypes of few bits: FP4, one and two bits, three
 * values, and the grids of IQ1, IQ2 and IQ3. lib/mem/quants.c shows their
 * blocks in plain C.
 */
#include "kernels/dot.h"

#ifdef __x86_64__
#include "kernels/dot_avx512.h"
#include "kernels/dot_low.h"

/*
 * Replace each byte, an index from 0 to 15, by that one of the 16 bytes at
 * @values.
 */
INLINE __m512i look_up(const void *values, __m512i x)
{
	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(
					   (const __m128i_u *)values)),
				   x);
}

/* Return the first byte of each of 8 blocks. */
INLINE uint64_t first_bytes(const struct unit_avx512 *v, const unsigned char *a,
			    size_t bytes)
{
	uint64_t x = 0;

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		x |= (uint64_t)*block_at(v, a, bytes, i) << 8 * i;
	return x;
}

/*
 * Convert 8 scales of E8M0, halved, to the lower elements. Those of 0 and 1 are
 * subnormal in F32.
 */
INLINE __m512 halves_e8m0(uint64_t bytes)
{
	const __m256i one = _mm256_set1_epi32(1);
	__m256i x = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
	__m256i zero = _mm256_cmpeq_epi32(x, _mm256_setzero_si256());
	__m256i y = _mm256_slli_epi32(_mm256_sub_epi32(x, one), 23);

	y = _mm256_max_epi32(y, _mm256_set1_epi32(0x00400000));
	y = _mm256_sub_epi32(
		y, _mm256_and_si256(zero, _mm256_set1_epi32(0x00200000)));
	return _mm512_castps256_ps512(_mm256_castsi256_ps(y));
}

INLINE void unpack_MXFP4(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves_e8m0(first_bytes(v, a, WEIR__BYTES_MXFP4));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		const unsigned char *first =
			block_at(v, a, WEIR__BYTES_MXFP4, 2 * i);
		const unsigned char *second =
			block_at(v, a, WEIR__BYTES_MXFP4, 2 * i + 1);

		v->q[i] = look_up(weir__dot_fp4,
				  low_high(two_of_16(first + 1, second + 1)));
	}
}

/* Convert 16 scales of E4M3 without sign, halved; 0x7f becomes 0. */
INLINE __m512 halves_e4m3(__m128i bytes)
{
	__m512i x = _mm512_cvtepu8_epi32(bytes);
	__m512i own = _mm512_and_si512(x, _mm512_set1_epi32(0x7f));
	__m512i bits = _mm512_add_epi32(_mm512_slli_epi32(own, 20),
					_mm512_set1_epi32(119 << 23));
	__m512 tiny = _mm512_mul_ps(_mm512_cvtepi32_ps(own),
				    _mm512_set1_ps(0x1p-10f));
	__mmask16 is_tiny = _mm512_cmplt_epi32_mask(own, _mm512_set1_epi32(8));
	__mmask16 is_nan = _mm512_cmpeq_epi32_mask(x, _mm512_set1_epi32(0x7f));
	__m512 y = _mm512_mask_mov_ps(_mm512_castsi512_ps(bits), is_tiny, tiny);

	return _mm512_mask_mov_ps(y, is_nan, _mm512_setzero_ps());
}

/* 16 elements have 8 bytes: first the low nibbles, then the high ones. */
INLINE void unpack_NVFP4(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves_e4m3(
		_mm_set_epi32((int)get_32(block_at(v, a, WEIR__BYTES_NVFP4, 3)),
			      (int)get_32(block_at(v, a, WEIR__BYTES_NVFP4, 2)),
			      (int)get_32(block_at(v, a, WEIR__BYTES_NVFP4, 1)),
			      (int)get_32(a)));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		__m512i x = _mm512_castsi256_si512(_mm256_loadu_si256(
			(const __m256i_u *)(block_at(v, a, WEIR__BYTES_NVFP4,
						     i) +
					    4)));

		x = _mm512_permutexvar_epi64(
			_mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0), x);
		x = _mm512_srlv_epi64(x,
				      _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0));
		x = _mm512_and_si512(x, _mm512_set1_epi8(15));
		v->q[i] = look_up(weir__dot_fp4, x);
	}
}

INLINE void unpack_Q1_0(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = _mm512_mask_mov_ps(
		half_at(a), 0xf0, half_at(block_at(v, a, WEIR__BYTES_Q1_0, 1)));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = _mm512_maskz_mov_epi8(
			get_64(block_at(v, a, WEIR__BYTES_Q1_0, i / 2) + 2 +
			       8 * (i % 2)),
			_mm512_set1_epi8(2));
}

/* Spread the 8 pairs of bits in each of 8 words of 16 bits to bytes. */
INLINE __m512i spread_pairs(__m128i words)
{
	const __m512i from = _mm512_set1_epi64(0x0e0c0a0806040200);
	__m512i x = _mm512_multishift_epi64_epi8(from,
						 _mm512_cvtepu16_epi64(words));

	return _mm512_and_si512(x, _mm512_set1_epi8(3));
}

INLINE void unpack_Q2_0(struct unit_avx512 *v, const unsigned char *a)
{
	const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2,
					       2, 1, 1, 0, 0);
	__m128i four = _mm_set_epi16(
		0, 0, 0, 0, (short)get_16(block_at(v, a, WEIR__BYTES_Q2_0, 3)),
		(short)get_16(block_at(v, a, WEIR__BYTES_Q2_0, 2)),
		(short)get_16(block_at(v, a, WEIR__BYTES_Q2_0, 1)),
		(short)get_16(a));

	v->scale = spread_half(four, twice);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = spread_pairs(_mm_loadu_si128((
			const __m128i_u *)(block_at(v, a, WEIR__BYTES_Q2_0, i) +
					   2)));
}

INLINE void unpack_TQ2_0(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = half_at(a + 64);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = pairs(a, i);
}

/*
 * Return a digit in base 3 of each of 32 bytes, which are fractions of 256: the
 * highest digit of the byte times a power of 3.
 */
INLINE __m256i digit(__m256i bytes, __m512i power)
{
	__m512i x = _mm512_mullo_epi16(_mm512_cvtepu8_epi16(bytes), power);

	x = _mm512_and_si512(x, _mm512_set1_epi16(255));
	x = _mm512_mullo_epi16(x, _mm512_set1_epi16(3));
	return _mm512_cvtepi16_epi8(_mm512_srli_epi16(x, 8));
}

INLINE __m512i two_digits(__m256i low, __m512i power_low, __m256i high,
			  __m512i power_high)
{
	__m512i x = _mm512_castsi256_si512(digit(low, power_low));

	return _mm512_inserti64x4(x, digit(high, power_high), 1);
}

/* Return the power @first for 16 elements, and @second for the next 16. */
INLINE __m512i powers(short first, short second)
{
	return _mm512_inserti64x4(_mm512_set1_epi16(first),
				  _mm256_set1_epi16(second), 1);
}

/* A block has 32 bytes of 5 digits, 16 bytes of 5 and 4 bytes of 4. */
INLINE void unpack_TQ1_0(struct unit_avx512 *v, const unsigned char *a)
{
	__m256i x = _mm256_loadu_si256((const __m256i_u *)a);
	__m128i y = _mm_loadu_si128((const __m128i_u *)(a + 32));
	__m128i z = _mm_set1_epi32((int)get_32(a + 48));
	__m256i yy = _mm256_broadcastsi128_si256(y);
	__m256i yz = _mm256_inserti128_si256(_mm256_castsi128_si256(y), z, 1);
	const __m512i of_z = _mm512_inserti64x4(
		_mm512_set1_epi16(81),
		_mm256_set_epi64x(0x001b001b001b001b, 0x0009000900090009,
				  0x0003000300030003, 0x0001000100010001),
		1);

	v->q[0] = two_digits(x, powers(1, 1), x, powers(3, 3));
	v->q[1] = two_digits(x, powers(9, 9), x, powers(27, 27));
	v->q[2] = two_digits(x, powers(81, 81), yy, powers(1, 3));
	v->q[3] = two_digits(yy, powers(9, 27), yz, of_z);
	v->scale = half_at(a + 52);
}

/*
 * Negate the elements whose bit in @signs is set. Bytes are elements plus 128.
 */
INLINE __m512i negate(__m512i q, uint64_t signs)
{
	return _mm512_mask_sub_epi8(q, signs, _mm512_setzero_si512(), q);
}

/* The values 8, 25 and 43, plus 128. The fourth is not used. */
static const uint8_t iq2_values[16] = { 136, 153, 171, 188 };
/*
 * The values 4, 12, 20, 28, 36, 44, 52 and 62, plus 128, and the odd numbers,
 * plus 128.
 */
static const uint8_t iq3_xxs_values[16] = { 132, 140, 148, 156,
					    164, 172, 180, 190 };
static const uint8_t iq3_s_values[16] = {
	129, 131, 133, 135, 137, 139, 141, 143
};

/* Convert 16 values of 4 bits, in 8 bytes, to floats. */
INLINE __m512 sixteen_nibbles(const unsigned char *p)
{
	__m128i x = _mm_cvtsi64_si128((int64_t)get_64(p));

	x = _mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4));
	x = _mm_and_si128(x, _mm_set1_epi8(15));
	return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x));
}

/*
 * Return scales of IQ2 and IQ3_XXS: @factor * (1/2 + x) times the block's
 * scale.
 */
INLINE __m512 odd_scales(__m512 x, const unsigned char *a, float factor)
{
	__m512 d = _mm512_mul_ps(half_at(a), _mm512_set1_ps(factor));

	return _mm512_mul_ps(_mm512_add_ps(x, _mm512_set1_ps(0.5f)), d);
}

/* Look up 32 numbers in the 64 points at @grid. */
INLINE __m512i points_of_64(const uint16_t *grid, __m512i n)
{
	return _mm512_permutex2var_epi16(_mm512_loadu_si512(grid), n,
					 _mm512_loadu_si512(grid + 32));
}

/* Look up 32 numbers in 128 points: a bit of the number selects the half. */
INLINE __m512i points_of_128(const uint16_t *grid, __m512i n)
{
	return _mm512_mask_blend_epi16(
		_mm512_test_epi16_mask(n, _mm512_set1_epi16(64)),
		points_of_64(grid, n), points_of_64(grid + 64, n));
}

INLINE __m512i points_of_256(const uint16_t *grid, __m512i n)
{
	return _mm512_mask_blend_epi16(
		_mm512_test_epi16_mask(n, _mm512_set1_epi16(128)),
		points_of_128(grid, n), points_of_128(grid + 128, n));
}

INLINE __m512i points_of_512(const uint16_t *grid, __m512i n)
{
	return _mm512_mask_blend_epi16(
		_mm512_test_epi16_mask(n, _mm512_set1_epi16(256)),
		points_of_256(grid, n), points_of_256(grid + 256, n));
}

INLINE __m512i points_of_1024(const uint16_t *grid, __m512i n)
{
	return _mm512_mask_blend_epi16(
		_mm512_test_epi16_mask(n, _mm512_set1_epi16(512)),
		points_of_512(grid, n), points_of_512(grid + 512, n));
}

/*
 * Return the elements of points 8 * @i and the next 7 of IQ2; @i is a constant.
 */
INLINE __m512i iq2_bytes(__m512i points, unsigned i, uint64_t signs)
{
	__m256i half = i < 2 ? _mm512_castsi512_si256(points)
			     : _mm512_extracti64x4_epi64(points, 1);
	__m128i own = i % 2 ? _mm256_extracti128_si256(half, 1)
			    : _mm256_castsi256_si128(half);

	return negate(look_up(iq2_values, spread_pairs(own)), signs);
}

/* 32 elements have 4 numbers of points, then 4 times 7 signs and a scale. */
INLINE void unpack_IQ2_XXS(struct unit_avx512 *v, const unsigned char *a)
{
	const __m512i even = _mm512_set_epi32(15, 13, 11, 9, 7, 5, 3, 1, 14, 12,
					      10, 8, 6, 4, 2, 0);
	__m512i words =
		_mm512_permutexvar_epi32(even, _mm512_loadu_si512(a + 2));
	__m256i rest = _mm512_extracti64x4_epi64(words, 1);
	__m512i points = points_of_256(
		v->grid, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(words)));

	v->scale = odd_scales(_mm512_castps256_ps512(_mm256_cvtepi32_ps(
				      _mm256_srli_epi32(rest, 28))),
			      a, 0.25f);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		const unsigned char *p = a + 2 + 16 * i;
		uint64_t signs = get_32(p + 4) | (uint64_t)get_32(p + 12) << 32;

		v->q[i] =
			iq2_bytes(points, i, even_signs(spread_sevens(signs)));
	}
}

/*
 * 8 elements have 9 bits of a point's number and 7 signs. The scales are at the
 * end.
 */
INLINE void unpack_IQ2_XS(struct unit_avx512 *v, const unsigned char *a)
{
	__m512i own = _mm512_loadu_si512(a + 2);
	__m512i points = points_of_512(
		v->grid, _mm512_and_si512(own, _mm512_set1_epi16(511)));
	uint64_t signs[4];

	v->scale = odd_scales(sixteen_nibbles(a + 66), a, 0.25f);
	_mm256_storeu_si256((__m256i_u *)signs,
			    _mm512_cvtepi16_epi8(_mm512_srli_epi16(own, 9)));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		v->q[i] = iq2_bytes(points, i, even_signs(signs[i]));
	}
}

/*
 * A block has the low 8 bits of 32 numbers, 8 signs for each, its high two
 * bits, and scales.
 */
INLINE void unpack_IQ2_S(struct unit_avx512 *v, const unsigned char *a)
{
	const __m256i from =
		_mm256_set_epi64x(0x3e3c3a3836343230, 0x2e2c2a2826242220,
				  0x1e1c1a1816141210, 0x0e0c0a0806040200);
	__m256i low = _mm256_loadu_si256((const __m256i_u *)(a + 2));
	__m256i high = _mm256_multishift_epi64_epi8(
		from, _mm256_set1_epi64x((int64_t)get_64(a + 66)));
	__m512i n, points;

	v->scale = odd_scales(sixteen_nibbles(a + 74), a, 0.25f);
	high = _mm256_and_si256(high, _mm256_set1_epi8(3));
	n = _mm512_slli_epi16(_mm512_cvtepu8_epi16(high), 8);
	n = _mm512_or_si512(n, _mm512_cvtepu8_epi16(low));
	points = points_of_1024(v->grid, n);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		v->q[i] = iq2_bytes(points, i, get_64(a + 34 + 8 * i));
	}
}

/* Return the elements, values of 3 bits, of 16 points of IQ3. */
INLINE __m512i iq3_bytes(const uint8_t *values, __m512i points, unsigned half,
			 uint64_t signs)
{
	const __m512i from = _mm512_set1_epi64(0x2926232009060300);
	__m256i own = half ? _mm512_extracti64x4_epi64(points, 1)
			   : _mm512_castsi512_si256(points);
	__m512i x =
		_mm512_multishift_epi64_epi8(from, _mm512_cvtepu16_epi32(own));

	x = look_up(values, _mm512_and_si512(x, _mm512_set1_epi8(7)));
	return negate(x, signs);
}

/* Widen 32 bytes to numbers of 16 bits. */
INLINE __m512i numbers(const unsigned char *p)
{
	return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i_u *)p));
}

/*
 * A block has 64 numbers, then for each 32 elements 4 times 7 signs and a
 * scale.
 */
INLINE void unpack_IQ3_XXS(struct unit_avx512 *v, const unsigned char *a)
{
	__m256i rest = _mm256_loadu_si256((const __m256i_u *)(a + 66));
	__m512i points[2];
	__m512 scale = _mm512_castps256_ps512(
		_mm256_cvtepi32_ps(_mm256_srli_epi32(rest, 28)));

	v->scale = odd_scales(scale, a, 0.5f);
	points[0] = points_of_256(v->grid, numbers(a + 2));
	points[1] = points_of_256(v->grid, numbers(a + 34));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		uint64_t signs = spread_sevens(get_64(a + 66 + 8 * i));

		v->q[i] = iq3_bytes(iq3_xxs_values, points[i / 2], i % 2,
				    even_signs(signs));
	}
}

/*
 * A block has the low 8 bits of 64 numbers, their ninth bits, signs, and scales
 * of 32 elements.
 */
INLINE void unpack_IQ3_S(struct unit_avx512 *v, const unsigned char *a)
{
	__m128i nibbles = _mm_cvtsi32_si128((int)get_32(a + 106));
	__m512i points[2];
	__m512 scale;

	nibbles = _mm_unpacklo_epi8(nibbles, _mm_srli_epi16(nibbles, 4));
	nibbles = _mm_and_si128(nibbles, _mm_set1_epi8(15));
	scale = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(nibbles));
	scale = _mm512_add_ps(_mm512_add_ps(scale, scale), _mm512_set1_ps(1));
	v->scale = _mm512_mul_ps(scale, half_at(a));
	WEIR__UNROLL
	for (unsigned i = 0; i < 2; i++) {
		__m512i ninth = _mm512_maskz_mov_epi16(get_32(a + 66 + 4 * i),
						       _mm512_set1_epi16(256));

		points[i] = points_of_512(
			v->grid,
			_mm512_or_si512(numbers(a + 2 + 32 * i), ninth));
	}
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		v->q[i] = iq3_bytes(iq3_s_values, points[i / 2], i % 2,
				    get_64(a + 74 + 8 * i));
	}
}

/* Look up four points in a grid that is too large for registers. */
INLINE uint64_t four_points(const uint16_t *grid, const uint16_t *n)
{
	return grid[n[0]] | (uint64_t)grid[n[1]] << 16 |
	       (uint64_t)grid[n[2]] << 32 | (uint64_t)grid[n[3]] << 48;
}

INLINE __m128i eight_points(const uint16_t *grid, const uint16_t *n)
{
	return _mm_set_epi64x((int64_t)four_points(grid, n + 4),
			      (int64_t)four_points(grid, n));
}

/* Combine 8 numbers from their low bytes and the bits above these. */
INLINE void eight_numbers(uint16_t *n, const unsigned char *low, __m128i high)
{
	__m128i x = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)get_64(low)));

	_mm_storeu_si128((__m128i_u *)n,
			 _mm_or_si128(x, _mm_slli_epi16(high, 8)));
}

/*
 * Convert 8 points of IQ1: the results are 128 plus 8 times their elements,
 * from -1 to 1, plus 1, or minus 1 where @minus has the point's bit.
 */
INLINE __m512i iq1_bytes(const uint16_t *grid, const uint16_t *n,
			 __mmask8 minus)
{
	__m512i x = _mm512_slli_epi64(spread_pairs(eight_points(grid, n)), 3);
	__m512i one = _mm512_mask_mov_epi64(_mm512_set1_epi8(0x79), minus,
					    _mm512_set1_epi8(0x77));

	return _mm512_add_epi8(x, one);
}

/*
 * Return (2 x + 1) times an eighth of the block's scale for each scale x of 3
 * bits.
 */
INLINE __m512 iq1_scales(__m512i x, __m512 d)
{
	x = _mm512_and_si512(x, _mm512_set1_epi32(7));
	x = _mm512_add_epi32(_mm512_add_epi32(x, x), _mm512_set1_epi32(1));
	return _mm512_mul_ps(_mm512_cvtepi32_ps(x),
			     _mm512_mul_ps(d, _mm512_set1_ps(0.125f)));
}

/*
 * A block has the low 8 bits of 32 numbers; then for each 4 of them their high
 * 3 bits, a scale and a sign.
 */
INLINE void unpack_IQ1_S(struct unit_avx512 *v, const unsigned char *a)
{
	const __m128i at = _mm_set_epi16(9, 6, 3, 0, 9, 6, 3, 0);
	const __m128i twice =
		_mm_set_epi64x(0x0302030203020302, 0x0100010001000100);
	__m512i rest = _mm512_castsi256_si512(_mm256_cvtepu16_epi32(
		_mm_loadu_si128((const __m128i_u *)(a + 34))));

	v->scale = iq1_scales(_mm512_srli_epi32(rest, 12), half_at(a));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		uint32_t own = get_32(a + 34 + 4 * i);
		__mmask8 minus = (__mmask8)((own & 0x8000 ? 0x0f : 0) |
					    (own >> 31 ? 0xf0 : 0));
		__m128i high =
			_mm_shuffle_epi8(_mm_cvtsi32_si128((int)own), twice);
		uint16_t n[8];

		high = _mm_and_si128(_mm_srlv_epi16(high, at),
				     _mm_set1_epi16(7));
		eight_numbers(n, a + 2 + 8 * i, high);
		v->q[i] = iq1_bytes(v->grid, n, minus);
	}
}

/* There are 4 words of 4 scales of 3 bits and 4 bits of the block's scale. */
INLINE __m512 scales_iq1_m(const unsigned char *p)
{
	const __m512i word = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1,
					      1, 0, 0, 0, 0);
	const __m512i at = _mm512_set_epi32(9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0,
					    9, 6, 3, 0);
	uint64_t own = get_64(p);
	uint64_t d = (own >> 12 & 15) | (own >> 24 & 0xf0) |
		     (own >> 36 & 0xf00) | (own >> 48 & 0xf000);
	__m512i x = _mm512_castsi128_si512(
		_mm_cvtepu16_epi32(_mm_cvtsi64_si128((int64_t)own)));

	x = _mm512_srlv_epi32(_mm512_permutexvar_epi32(word, x), at);
	return iq1_scales(x, spread_half(_mm_cvtsi32_si128((int)d),
					 _mm512_setzero_si512()));
}

/*
 * A block has the low 8 bits of 32 numbers, for each its high 3 bits and a
 * sign, and scales.
 */
INLINE void unpack_IQ1_M(struct unit_avx512 *v, const unsigned char *a)
{
	const __m256i at = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);

	v->scale = scales_iq1_m(a + 48);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		__m256i own = _mm256_srlv_epi32(
			_mm256_set1_epi32((int)get_32(a + 32 + 4 * i)), at);
		__mmask8 minus =
			_mm256_test_epi32_mask(own, _mm256_set1_epi32(8));
		uint16_t n[8];

		own = _mm256_and_si256(own, _mm256_set1_epi32(7));
		eight_numbers(n, a + 8 * i, _mm256_cvtepi32_epi16(own));
		v->q[i] = iq1_bytes(v->grid, n, minus);
	}
}

/* A dtype, how many of its elements have one scale, and the bias. */
#define QUANTS(X)           \
	X(MXFP4, 32, 128)   \
	X(NVFP4, 16, 128)   \
	X(Q1_0, 32, 1)      \
	X(Q2_0, 32, 1)      \
	X(TQ1_0, 32, 1)     \
	X(TQ2_0, 32, 1)     \
	X(IQ1_S, 32, 128)   \
	X(IQ1_M, 16, 128)   \
	X(IQ2_XXS, 32, 128) \
	X(IQ2_XS, 16, 128)  \
	X(IQ2_S, 16, 128)   \
	X(IQ3_XXS, 32, 128) \
	X(IQ3_S, 32, 128)
QUANTS(QUANT_ROWS)

const struct weir__dot weir__dot_avx512_low[] = { QUANTS(QUANT_ENTRY){ 0 } };
#endif
