/* SPDX-License-Identifier: MIT */
/*
 * Products with AVX2 of the formats of few bits: FP4, one and two bits, three
 * values, and the grids of IQ1, IQ2 and IQ3. lib/mem/quants_grid.c has the formats
 * of these in plain C.
 */
#include "kernels/dot.h"

#ifdef __x86_64__
#include "kernels/dot_avx2.h"
#include "kernels/dot_low.h"

/* For each byte from 0 to 15 one of 16. */
INLINE __m256i look_up(const void *values, __m256i x)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
					   (const __m128i_u *)values)),
				   x);
}

/* An element of FP4: weir__dot_fp4 is 128 more. */
INLINE __m256i fp4(__m256i x)
{
	return _mm256_xor_si256(look_up(weir__dot_fp4, x),
				_mm256_set1_epi8(-128));
}

INLINE void unpack_MXFP4(struct half *v, const unsigned char *a, unsigned i)
{
	__m128i x = _mm_loadu_si128((const __m128i_u *)(a + 1));
	__m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(x),
					       _mm_srli_epi16(x, 4), 1);

	(void)i;
	v->q = fp4(_mm256_and_si256(both, _mm256_set1_epi8(15)));
	v->scale = _mm256_set1_ps(half_e8m0(a[0]));
}

/* An E4M3 without sign, halved; 0x7f is 0. */
INLINE float half_e4m3(uint32_t x)
{
	if (x == 0x7f)
		return 0;
	x &= 0x7f;
	return x < 8 ? (float)x * 0x1p-10f : float_of((x << 20) + (119u << 23));
}

/* For 16 elements 8 bytes: the low nibbles, then the high ones. */
INLINE void unpack_NVFP4(struct half *v, const unsigned char *a, unsigned i)
{
	__m256i x = _mm256_castsi128_si256(
		_mm_loadu_si128((const __m128i_u *)(a + 4 + 16 * i)));

	x = _mm256_permute4x64_epi64(x, 0x50); /* 0, 0, 1, 1 */
	x = _mm256_srlv_epi64(x, _mm256_set_epi64x(4, 0, 4, 0));
	v->q = fp4(_mm256_and_si256(x, _mm256_set1_epi8(15)));
	v->scale = two_scales(half_e4m3(a[2 * i]), half_e4m3(a[2 * i + 1]));
}

INLINE void unpack_Q1_0(struct half *v, const unsigned char *a, unsigned i)
{
	v->q = _mm256_and_si256(spread_bits(a + 2 + 4 * i),
				_mm256_set1_epi8(2));
	v->scale = _mm256_set1_ps(half_at(a));
}

/* The 8 pairs of bits in each word, to bytes. */
INLINE __m256i spread_pairs(__m256i x)
{
	x = _mm256_or_si256(x, _mm256_slli_epi64(x, 24));
	x = _mm256_and_si256(x, _mm256_set1_epi64x(0x000000ff000000ff));
	x = _mm256_or_si256(x, _mm256_slli_epi64(x, 12));
	x = _mm256_and_si256(x, _mm256_set1_epi64x(0x000f000f000f000f));
	x = _mm256_or_si256(x, _mm256_slli_epi64(x, 6));
	return _mm256_and_si256(x, _mm256_set1_epi8(3));
}

INLINE void unpack_Q2_0(struct half *v, const unsigned char *a, unsigned i)
{
	__m128i x = _mm_loadl_epi64((const __m128i_u *)(a + 2 + 8 * i));

	v->q = spread_pairs(_mm256_cvtepu16_epi64(x));
	v->scale = _mm256_set1_ps(half_at(a));
}

INLINE void unpack_TQ2_0(struct half *v, const unsigned char *a, unsigned i)
{
	v->q = pairs(a, i);
	v->scale = _mm256_set1_ps(half_at(a + 64));
}

/*
 * A digit of base 3 of 16 bytes, which are fractions of 256: the highest of a byte
 * times a power of 3.
 */
INLINE __m256i digit(__m128i bytes, __m256i power)
{
	__m256i x = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(bytes), power);

	x = _mm256_and_si256(x, _mm256_set1_epi16(255));
	x = _mm256_mullo_epi16(x, _mm256_set1_epi16(3));
	return _mm256_srli_epi16(x, 8);
}

/* 5 digits of 32 bytes, 5 of 16, 4 of 4. */
INLINE void unpack_TQ1_0(struct half *v, const unsigned char *a, unsigned i)
{
	const short powers[8] = { 1, 3, 9, 27, 81, 1, 9, 81 };
	const unsigned char *at = i < 5 ? a : a + 32;
	__m128i low = _mm_loadu_si128((const __m128i_u *)at), high = low;
	__m256i first = _mm256_set1_epi16(powers[i]);
	__m256i second = i < 5 ? first : _mm256_set1_epi16(3 * powers[i]);

	if (i < 5)
		high = _mm_loadu_si128((const __m128i_u *)(at + 16));
	if (i == 7) {
		high = _mm_set1_epi32((int)get_32(a + 48));
		second = _mm256_set_epi64x(0x001b001b001b001b,
					   0x0009000900090009,
					   0x0003000300030003,
					   0x0001000100010001);
	}
	v->q = _mm256_packus_epi16(digit(low, first), digit(high, second));
	v->q = _mm256_permute4x64_epi64(v->q, 0xd8); /* 0, 2, 1, 3 */
	v->scale = _mm256_set1_ps(half_at(a + 52));
}

/* Minus the bytes where the bit of @signs is set. */
INLINE __m256i negate(__m256i q, uint32_t signs)
{
	__m256i minus = spread_bits((const unsigned char *)&signs);

	return _mm256_sub_epi8(_mm256_xor_si256(q, minus), minus);
}

/* 32 elements of a grid of 8 each; of IQ2 the fourth value is not used. */
INLINE __m256i four_points(const uint16_t *grid, uint32_t a, uint32_t b,
			   uint32_t c, uint32_t d)
{
	return spread_pairs(
		_mm256_set_epi64x(grid[d], grid[c], grid[b], grid[a]));
}
static const uint8_t iq2_values[16] = { 8, 25, 43, 60 };

/* The scales of IQ2 and IQ3_XXS. */
INLINE float odd_scale(float d, uint32_t x)
{
	return d * (0.5f + (float)(x & 15));
}

/* For 32 elements 4 numbers, then 4 times 7 signs and a scale. */
INLINE void unpack_IQ2_XXS(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 2 + 8 * i;
	uint32_t rest = get_32(p + 4);

	v->q = look_up(iq2_values,
		       four_points(v->grid, p[0], p[1], p[2], p[3]));
	v->q = negate(v->q, (uint32_t)even_signs(spread_sevens(rest)));
	v->scale = _mm256_set1_ps(odd_scale(half_at(a) * 0.25f, rest >> 28));
}

/* Two scales of 4 bits each in a byte, for 16 elements each. */
INLINE __m256 odd_scales(float d, uint32_t x)
{
	return two_scales(odd_scale(d, x), odd_scale(d, x >> 4));
}

/* 9 bits of the number, 7 signs; the scales are at the end. */
INLINE void unpack_IQ2_XS(struct half *v, const unsigned char *a, unsigned i)
{
	uint64_t own, signs;

	memcpy(&own, a + 2 + 8 * i, sizeof(own));
	signs = own >> 9 & 0x007f007f007f007f;
	signs = (signs | signs >> 8) & 0x0000ffff0000ffff;
	v->q = four_points(v->grid, own & 511, own >> 16 & 511, own >> 32 & 511,
			   own >> 48 & 511);
	v->q = negate(look_up(iq2_values, v->q),
		      (uint32_t)even_signs(signs | signs >> 16));
	v->scale = odd_scales(half_at(a) * 0.25f, a[66 + i]);
}

/* 8 bits of 32 numbers, 8 signs of each, two more bits of each, scales. */
INLINE void unpack_IQ2_S(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 2 + 4 * i;
	uint32_t high = a[66 + i];

	v->q = four_points(v->grid, p[0] | (high << 8 & 0x300),
			   p[1] | (high << 6 & 0x300),
			   p[2] | (high << 4 & 0x300),
			   p[3] | (high << 2 & 0x300));
	v->q = negate(look_up(iq2_values, v->q), get_32(a + 34 + 4 * i));
	v->scale = odd_scales(half_at(a) * 0.25f, a[74 + i]);
}

/* 8 points of 4 numbers of 3 bits, to bytes. */
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

/* 64 numbers; then for 32 elements 4 times 7 signs and a scale. */
INLINE void unpack_IQ3_XXS(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 2 + 8 * i;
	uint32_t rest = get_32(a + 66 + 4 * i), n[8];

	WEIR__UNROLL
	for (unsigned k = 0; k < 8; k++)
		n[k] = p[k];
	v->q = look_up(iq3_xxs_values, triples(v->grid, n));
	v->q = negate(v->q, (uint32_t)even_signs(spread_sevens(rest)));
	v->scale = _mm256_set1_ps(odd_scale(half_at(a) * 0.5f, rest >> 28));
}

/* 8 bits of 64 numbers, the ninth of each, signs, scales of 32 elements. */
INLINE void unpack_IQ3_S(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 2 + 8 * i;
	uint32_t high = a[66 + i], n[8];
	int scale = a[106 + i / 2] >> i % 2 * 4 & 15;

	WEIR__UNROLL
	for (unsigned k = 0; k < 8; k++)
		n[k] = p[k] | (high >> k & 1) << 8;
	v->q = look_up(iq3_s_values, triples(v->grid, n));
	v->q = negate(v->q, get_32(a + 74 + 4 * i));
	v->scale = _mm256_set1_ps(half_at(a) * (float)(2 * scale + 1));
}

/*
 * 32 elements of IQ1: 8 times their values, from -1 to 1, plus 1, or minus 1 where
 * @minus has bytes of 0xff.
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

/* 8 bits of 32 numbers; for 4 of them 3 more bits each, a scale, the sign. */
INLINE void unpack_IQ1_S(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 2 + 4 * i;
	uint32_t rest = get_16(a + 34 + 2 * i);

	v->q = four_points(v->grid, p[0] | (rest << 8 & 0x700),
			   p[1] | (rest << 5 & 0x700),
			   p[2] | (rest << 2 & 0x700),
			   p[3] | (rest >> 1 & 0x700));
	v->q = iq1_bytes(v->q, _mm256_set1_epi8(rest >> 15 ? -1 : 0));
	v->scale = _mm256_set1_ps(iq1_scale(half_at(a) * 0.125f, rest >> 12));
}

/* 8 bits of 32 numbers; for each 3 more bits and the sign; 4 times 4 scales. */
INLINE void unpack_IQ1_M(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 4 * i, *s = a + 48;
	uint32_t rest = get_16(a + 32 + 2 * i);
	uint32_t scales = get_16(s + i / 2 * 2) >> i % 2 * 6;
	uint32_t bits = get_16(s) >> 12 | (get_16(s + 2) >> 12) << 4 |
			(get_16(s + 4) >> 12) << 8 |
			(get_16(s + 6) >> 12) << 12;
	float d = _cvtsh_ss((uint16_t)bits) * 0.125f;
	__m256i minus = _mm256_set_epi64x(-(int64_t)(rest >> 15 & 1),
					  -(int64_t)(rest >> 11 & 1),
					  -(int64_t)(rest >> 7 & 1),
					  -(int64_t)(rest >> 3 & 1));

	v->q = four_points(v->grid, p[0] | (rest << 8 & 0x700),
			   p[1] | (rest << 4 & 0x700), p[2] | (rest & 0x700),
			   p[3] | (rest >> 4 & 0x700));
	v->q = iq1_bytes(v->q, minus);
	v->scale = two_scales(iq1_scale(d, scales), iq1_scale(d, scales >> 3));
}

/* dtype, bytes of a block, its halves, bias, its sign is moved */
#define QUANTS(X)                  \
	X(MXFP4, 17, 1, 0, true)   \
	X(NVFP4, 36, 2, 0, true)   \
	X(Q1_0, 18, 4, 1, false)   \
	X(Q2_0, 18, 2, 1, false)   \
	X(TQ1_0, 54, 8, 1, false)  \
	X(TQ2_0, 66, 8, 1, false)  \
	X(IQ1_S, 50, 8, 0, true)   \
	X(IQ1_M, 56, 8, 0, true)   \
	X(IQ2_XXS, 66, 8, 0, true) \
	X(IQ2_XS, 74, 8, 0, true)  \
	X(IQ2_S, 82, 8, 0, true)   \
	X(IQ3_XXS, 98, 8, 0, true) \
	X(IQ3_S, 110, 8, 0, true)
QUANTS(QUANT_ROWS)

const struct weir__dot weir__dot_avx2_low[] = { QUANTS(QUANT_ENTRY){ 0 } };
#endif
