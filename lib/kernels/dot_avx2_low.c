/* SPDX-License-Identifier: MIT */
/*
 * Products with AVX2 of the dtypes of few bits: FP4, one and two bits, three
 * values, and the grids of IQ1, IQ2 and IQ3. lib/mem/quants.c shows their
 * blocks in plain C.
 */
#include "kernels/dot.h"

#ifdef __x86_64__
#include "kernels/dot_avx2.h"
#include "kernels/dot_low.h"

/*
 * Replace each byte, an index from 0 to 15, by that one of the 16 bytes at
 * @values.
 */
INLINE __m256i look_up(const void *values, __m256i x)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
					   (const __m128i_u *)values)),
				   x);
}

/* Look up elements of FP4: weir__dot_fp4 has their values plus 128. */
INLINE __m256i fp4(__m256i x)
{
	return _mm256_xor_si256(look_up(weir__dot_fp4, x),
				_mm256_set1_epi8(-128));
}

/* Return the first byte of each of 8 blocks. */
INLINE uint64_t first_bytes(const struct unit_avx2 *v, const unsigned char *a,
			    size_t bytes)
{
	uint64_t x = 0;

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		x |= (uint64_t)*block_at(v, a, bytes, i) << 8 * i;
	return x;
}

/* 8 scales of E8M0, halved. Those of 0 and 1 are subnormal in F32. */
INLINE void scales_MXFP4(struct unit_avx2 *v, const unsigned char *a)
{
	uint64_t bytes = first_bytes(v, a, WEIR__BYTES_MXFP4);
	const __m256i one = _mm256_set1_epi32(1);
	__m256i x = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
	__m256i zero = _mm256_cmpeq_epi32(x, _mm256_setzero_si256());
	__m256i y = _mm256_slli_epi32(_mm256_sub_epi32(x, one), 23);

	y = _mm256_max_epi32(y, _mm256_set1_epi32(0x00400000));
	y = _mm256_sub_epi32(
		y, _mm256_and_si256(zero, _mm256_set1_epi32(0x00200000)));
	v->scale[0] = _mm256_castsi256_ps(y);
}

INLINE __m256i bytes_MXFP4(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	__m128i x = _mm_loadu_si128(
		(const __m128i_u *)(block_at(v, a, WEIR__BYTES_MXFP4, i) + 1));
	__m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(x),
					       _mm_srli_epi16(x, 4), 1);

	return fp4(_mm256_and_si256(both, _mm256_set1_epi8(15)));
}

/* Convert 8 scales of E4M3 without sign, halved; 0x7f becomes 0. */
INLINE __m256 halves_e4m3(uint32_t first, uint32_t second)
{
	__m256i x = _mm256_cvtepu8_epi32(
		_mm_cvtsi64_si128((int64_t)(first | (uint64_t)second << 32)));
	__m256i own = _mm256_and_si256(x, _mm256_set1_epi32(0x7f));
	__m256i bits = _mm256_add_epi32(_mm256_slli_epi32(own, 20),
					_mm256_set1_epi32(119 << 23));
	__m256 tiny = _mm256_mul_ps(_mm256_cvtepi32_ps(own),
				    _mm256_set1_ps(0x1p-10f));
	__m256i is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), own);
	__m256i is_nan = _mm256_cmpeq_epi32(x, _mm256_set1_epi32(0x7f));
	__m256 y = _mm256_blendv_ps(_mm256_castsi256_ps(bits), tiny,
				    _mm256_castsi256_ps(is_tiny));

	return _mm256_andnot_ps(_mm256_castsi256_ps(is_nan), y);
}

INLINE void scales_NVFP4(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves_e4m3(get_32(a),
				  get_32(block_at(v, a, WEIR__BYTES_NVFP4, 1)));
	v->scale[1] = halves_e4m3(get_32(block_at(v, a, WEIR__BYTES_NVFP4, 2)),
				  get_32(block_at(v, a, WEIR__BYTES_NVFP4, 3)));
}

/* 16 elements have 8 bytes: first the low nibbles, then the high ones. */
INLINE __m256i bytes_NVFP4(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	__m256i x = _mm256_castsi128_si256(_mm_loadu_si128(
		(const __m128i_u *)(block_at(v, a, WEIR__BYTES_NVFP4, i / 2) +
				    4 + 16 * (i % 2))));

	x = _mm256_permute4x64_epi64(x, 0x50); /* 0, 0, 1, 1 */
	x = _mm256_srlv_epi64(x, _mm256_set_epi64x(4, 0, 4, 0));
	return fp4(_mm256_and_si256(x, _mm256_set1_epi8(15)));
}

INLINE void scales_Q1_0(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = _mm256_set_m128(
		_mm_set1_ps(half_at(block_at(v, a, WEIR__BYTES_Q1_0, 1))),
		_mm_set1_ps(half_at(a)));
}

INLINE __m256i bytes_Q1_0(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	return _mm256_and_si256(
		spread_bits(block_at(v, a, WEIR__BYTES_Q1_0, i / 4) + 2 +
			    4 * (i % 4)),
		_mm256_set1_epi8(2));
}

/* Spread the 8 pairs of bits in each word to bytes. */
INLINE __m256i spread_pairs(__m256i x)
{
	x = _mm256_or_si256(x, _mm256_slli_epi64(x, 24));
	x = _mm256_and_si256(x, _mm256_set1_epi64x(0x000000ff000000ff));
	x = _mm256_or_si256(x, _mm256_slli_epi64(x, 12));
	x = _mm256_and_si256(x, _mm256_set1_epi64x(0x000f000f000f000f));
	x = _mm256_or_si256(x, _mm256_slli_epi64(x, 6));
	return _mm256_and_si256(x, _mm256_set1_epi8(3));
}

INLINE void scales_Q2_0(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = _mm256_permutevar8x32_ps(
		_mm256_castps128_ps256(
			_mm_set_ps(half_at(block_at(v, a, WEIR__BYTES_Q2_0, 3)),
				   half_at(block_at(v, a, WEIR__BYTES_Q2_0, 2)),
				   half_at(block_at(v, a, WEIR__BYTES_Q2_0, 1)),
				   half_at(a))),
		_mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0));
}

INLINE __m256i bytes_Q2_0(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	__m128i x = _mm_loadl_epi64(
		(const __m128i_u *)(block_at(v, a, WEIR__BYTES_Q2_0, i / 2) +
				    2 + 8 * (i % 2)));

	return spread_pairs(_mm256_cvtepu16_epi64(x));
}

INLINE void scales_TQ2_0(struct unit_avx2 *v, const unsigned char *a)
{
	one_scale(v, half_at(a + 64));
}

INLINE __m256i bytes_TQ2_0(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	(void)v;
	return pairs(a, i);
}

/*
 * Return a digit in base 3 of each of 16 bytes, which are fractions of 256: the
 * highest digit of the byte times a power of 3.
 */
INLINE __m256i digit(__m128i bytes, __m256i power)
{
	__m256i x = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(bytes), power);

	x = _mm256_and_si256(x, _mm256_set1_epi16(255));
	x = _mm256_mullo_epi16(x, _mm256_set1_epi16(3));
	return _mm256_srli_epi16(x, 8);
}

/* A block has 32 bytes of 5 digits, 16 bytes of 5 and 4 bytes of 4. */
INLINE void scales_TQ1_0(struct unit_avx2 *v, const unsigned char *a)
{
	one_scale(v, half_at(a + 52));
}

INLINE __m256i bytes_TQ1_0(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	const short powers[8] = { 1, 3, 9, 27, 81, 1, 9, 81 };
	const unsigned char *at = i < 5 ? a : a + 32;
	__m128i low = _mm_loadu_si128((const __m128i_u *)at), high = low;
	__m256i first = _mm256_set1_epi16(powers[i]);
	__m256i second = i < 5 ? first : _mm256_set1_epi16(3 * powers[i]);

	(void)v;
	if (i < 5)
		high = _mm_loadu_si128((const __m128i_u *)(at + 16));
	if (i == 7) {
		high = _mm_set1_epi32((int)get_32(a + 48));
		second = _mm256_set_epi64x(0x001b001b001b001b,
					   0x0009000900090009,
					   0x0003000300030003,
					   0x0001000100010001);
	}
	return _mm256_permute4x64_epi64(
		_mm256_packus_epi16(digit(low, first), digit(high, second)),
		0xd8); /* 0, 2, 1, 3 */
}

/* Negate the bytes whose bit in @signs is set. */
INLINE __m256i negate(__m256i q, uint32_t signs)
{
	__m256i minus = spread_bits((const unsigned char *)&signs);

	return _mm256_sub_epi8(_mm256_xor_si256(q, minus), minus);
}

/*
 * Return 32 elements: four points of 8 elements each. In IQ2 the fourth value
 * is not used.
 */
INLINE __m256i four_points(const uint16_t *grid, uint32_t a, uint32_t b,
			   uint32_t c, uint32_t d)
{
	return spread_pairs(
		_mm256_set_epi64x(grid[d], grid[c], grid[b], grid[a]));
}
static const uint8_t iq2_values[16] = { 8, 25, 43, 60 };

/* Return a scale of IQ2 or IQ3_XXS. */
INLINE float odd_scale(float d, uint32_t x)
{
	return d * (0.5f + (float)(x & 15));
}

/* 32 elements have 4 numbers of points, then 4 times 7 signs and a scale. */
INLINE void scales_IQ2_XXS(struct unit_avx2 *v, const unsigned char *a)
{
	float d = half_at(a) * 0.25f, scale[8];

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		scale[i] = odd_scale(d, get_32(a + 6 + 8 * i) >> 28);
	v->scale[0] = _mm256_loadu_ps(scale);
}

INLINE __m256i bytes_IQ2_XXS(const struct unit_avx2 *v, const unsigned char *a,
			     unsigned i)
{
	const unsigned char *p = a + 2 + 8 * i;
	__m256i q = look_up(iq2_values,
			    four_points(v->grid, p[0], p[1], p[2], p[3]));

	return negate(q, (uint32_t)even_signs(spread_sevens(get_32(p + 4))));
}

/* Unpack 16 scales of 4 bits from 8 bytes. */
INLINE void odd_scales(struct unit_avx2 *v, const unsigned char *p, float d)
{
	__m128i x = _mm_loadl_epi64((const __m128i_u *)p);
	const __m256 add = _mm256_set1_ps(0.5f * d);

	x = _mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4));
	sixteen_times(v->scale, _mm_and_si128(x, _mm_set1_epi8(15)), d);
	v->scale[0] = _mm256_add_ps(v->scale[0], add);
	v->scale[1] = _mm256_add_ps(v->scale[1], add);
}

/*
 * 8 elements have 9 bits of a point's number and 7 signs. The scales are at the
 * end.
 */
INLINE void scales_IQ2_XS(struct unit_avx2 *v, const unsigned char *a)
{
	odd_scales(v, a + 66, half_at(a) * 0.25f);
}

INLINE __m256i bytes_IQ2_XS(const struct unit_avx2 *v, const unsigned char *a,
			    unsigned i)
{
	uint64_t own, signs;
	__m256i q;

	memcpy(&own, a + 2 + 8 * i, sizeof(own));
	signs = own >> 9 & 0x007f007f007f007f;
	signs = (signs | signs >> 8) & 0x0000ffff0000ffff;
	q = four_points(v->grid, own & 511, own >> 16 & 511, own >> 32 & 511,
			own >> 48 & 511);
	return negate(look_up(iq2_values, q),
		      (uint32_t)even_signs(signs | signs >> 16));
}

/*
 * A block has the low 8 bits of 32 numbers, 8 signs for each, its high two
 * bits, and scales.
 */
INLINE void scales_IQ2_S(struct unit_avx2 *v, const unsigned char *a)
{
	odd_scales(v, a + 74, half_at(a) * 0.25f);
}

INLINE __m256i bytes_IQ2_S(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	const unsigned char *p = a + 2 + 4 * i;
	uint32_t high = a[66 + i];
	__m256i q = four_points(v->grid, p[0] | (high << 8 & 0x300),
				p[1] | (high << 6 & 0x300),
				p[2] | (high << 4 & 0x300),
				p[3] | (high << 2 & 0x300));

	return negate(look_up(iq2_values, q), get_32(a + 34 + 4 * i));
}

/* Convert 8 points, of 4 values of 3 bits each, to bytes. */
INLINE __m256i triples(const uint16_t *grid, const uint32_t *n)
{
	__m256i x = _mm256_set_epi32(grid[n[7]], grid[n[6]], grid[n[5]],
				     grid[n[4]], grid[n[3]], grid[n[2]],
				     grid[n[1]], grid[n[0]]);
	__m256i high = _mm256_and_si256(x, _mm256_set1_epi32(0xfc0));

	x = _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0x3f)),
			    _mm256_slli_epi32(high, 10));
	high = _mm256_and_si256(x, _mm256_set1_epi32(0x00380038));
	return _mm256_or_si256(_mm256_and_si256(x,
						_mm256_set1_epi32(0x00070007)),
			       _mm256_slli_epi32(high, 5));
}

static const uint8_t iq3_xxs_values[16] = { 4, 12, 20, 28, 36, 44, 52, 62 };
static const uint8_t iq3_s_values[16] = { 1, 3, 5, 7, 9, 11, 13, 15 };

/*
 * A block has 64 numbers, then for each 32 elements 4 times 7 signs and a
 * scale.
 */
INLINE void scales_IQ3_XXS(struct unit_avx2 *v, const unsigned char *a)
{
	float d = half_at(a) * 0.5f, scale[8];

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		scale[i] = odd_scale(d, get_32(a + 66 + 4 * i) >> 28);
	v->scale[0] = _mm256_loadu_ps(scale);
}

INLINE __m256i bytes_IQ3_XXS(const struct unit_avx2 *v, const unsigned char *a,
			     unsigned i)
{
	const unsigned char *p = a + 2 + 8 * i;
	uint32_t rest = get_32(a + 66 + 4 * i), n[8];

	WEIR__UNROLL
	for (unsigned k = 0; k < 8; k++)
		n[k] = p[k];
	return negate(look_up(iq3_xxs_values, triples(v->grid, n)),
		      (uint32_t)even_signs(spread_sevens(rest)));
}

/*
 * A block has the low 8 bits of 64 numbers, their ninth bits, signs, and scales
 * of 32 elements.
 */
INLINE void scales_IQ3_S(struct unit_avx2 *v, const unsigned char *a)
{
	__m128i x = _mm_cvtsi32_si128((int)get_32(a + 106));

	x = _mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4));
	x = _mm_and_si128(x, _mm_set1_epi8(15));
	x = _mm_add_epi8(_mm_add_epi8(x, x), _mm_set1_epi8(1));
	v->scale[0] = bytes_times(x, half_at(a));
}

INLINE __m256i bytes_IQ3_S(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	const unsigned char *p = a + 2 + 8 * i;
	uint32_t high = a[66 + i], n[8];

	WEIR__UNROLL
	for (unsigned k = 0; k < 8; k++)
		n[k] = p[k] | (high >> k & 1) << 8;
	return negate(look_up(iq3_s_values, triples(v->grid, n)),
		      get_32(a + 74 + 4 * i));
}

/*
 * Convert 32 elements of IQ1: the results are 8 times their values, from -1 to
 * 1, plus 1, or minus 1 where @minus has bytes of 0xff.
 */
INLINE __m256i iq1_bytes(__m256i points, __m256i minus)
{
	__m256i one = _mm256_or_si256(minus, _mm256_set1_epi8(1));

	points = _mm256_sub_epi8(points, _mm256_set1_epi8(1));
	points = _mm256_add_epi8(points, points);
	points = _mm256_add_epi8(points, points);
	return _mm256_add_epi8(_mm256_add_epi8(points, points), one);
}

INLINE float iq1_scale(float d, uint32_t x)
{
	return d * (float)(2 * (x & 7) + 1);
}

/*
 * A block has the low 8 bits of 32 numbers; then for each 4 of them their high
 * 3 bits, a scale and a sign.
 */
INLINE void scales_IQ1_S(struct unit_avx2 *v, const unsigned char *a)
{
	float d = half_at(a) * 0.125f, scale[8];

	WEIR__UNROLL
	for (unsigned i = 0; i < 8; i++)
		scale[i] = iq1_scale(d, get_16(a + 34 + 2 * i) >> 12);
	v->scale[0] = _mm256_loadu_ps(scale);
}

INLINE __m256i bytes_IQ1_S(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	const unsigned char *p = a + 2 + 4 * i;
	uint32_t rest = get_16(a + 34 + 2 * i);
	__m256i q = four_points(v->grid, p[0] | (rest << 8 & 0x700),
				p[1] | (rest << 5 & 0x700),
				p[2] | (rest << 2 & 0x700),
				p[3] | (rest >> 1 & 0x700));

	return iq1_bytes(q, _mm256_set1_epi8(rest >> 15 ? -1 : 0));
}

/*
 * A block has the low 8 bits of 32 numbers, for each its high 3 bits and a
 * sign, and scales.
 */
/* There are 4 words of 4 scales of 3 bits and 4 bits of the block's scale. */
INLINE void scales_IQ1_M(struct unit_avx2 *v, const unsigned char *a)
{
	const __m256i at = _mm256_set_epi32(9, 6, 3, 0, 9, 6, 3, 0);
	uint64_t own = get_64(a + 48);
	uint64_t d = (own >> 12 & 15) | (own >> 24 & 0xf0) |
		     (own >> 36 & 0xf00) | (own >> 48 & 0xf000);
	__m256 factor = _mm256_set1_ps(_cvtsh_ss((uint16_t)d) * 0.125f);
	__m256i words = _mm256_castsi128_si256(
		_mm_cvtepu16_epi32(_mm_cvtsi64_si128((int64_t)own)));

	WEIR__UNROLL
	for (int i = 0; i < 2; i++) {
		__m256i x = _mm256_permutevar8x32_epi32(
			words, _mm256_set_epi32(2 * i + 1, 2 * i + 1, 2 * i + 1,
						2 * i + 1, 2 * i, 2 * i, 2 * i,
						2 * i));

		x = _mm256_and_si256(_mm256_srlv_epi32(x, at),
				     _mm256_set1_epi32(7));
		x = _mm256_add_epi32(_mm256_add_epi32(x, x),
				     _mm256_set1_epi32(1));
		v->scale[i] = _mm256_mul_ps(_mm256_cvtepi32_ps(x), factor);
	}
}

INLINE __m256i bytes_IQ1_M(const struct unit_avx2 *v, const unsigned char *a,
			   unsigned i)
{
	const unsigned char *p = a + 4 * i;
	uint32_t rest = get_16(a + 32 + 2 * i);
	__m256i minus = _mm256_set_epi64x(-(int64_t)(rest >> 15 & 1),
					  -(int64_t)(rest >> 11 & 1),
					  -(int64_t)(rest >> 7 & 1),
					  -(int64_t)(rest >> 3 & 1));
	__m256i q = four_points(v->grid, p[0] | (rest << 8 & 0x700),
				p[1] | (rest << 4 & 0x700),
				p[2] | (rest & 0x700),
				p[3] | (rest >> 4 & 0x700));

	return iq1_bytes(q, minus);
}

/*
 * A dtype, how many of its elements have one scale, the bias, and true if its
 * elements have signs, which are moved to b.
 */
#define QUANTS(X)               \
	X(MXFP4, 32, 0, true)   \
	X(NVFP4, 16, 0, true)   \
	X(Q1_0, 32, 1, false)   \
	X(Q2_0, 32, 1, false)   \
	X(TQ1_0, 32, 1, false)  \
	X(TQ2_0, 32, 1, false)  \
	X(IQ1_S, 32, 0, true)   \
	X(IQ1_M, 16, 0, true)   \
	X(IQ2_XXS, 32, 0, true) \
	X(IQ2_XS, 16, 0, true)  \
	X(IQ2_S, 16, 0, true)   \
	X(IQ3_XXS, 32, 0, true) \
	X(IQ3_S, 32, 0, true)
QUANTS(QUANT_ROWS)

const struct weir__dot weir__dot_avx2_low[] = { QUANTS(QUANT_ENTRY){ 0 } };
#endif
