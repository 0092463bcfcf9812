/* SPDX-License-Identifier: MIT */
/*
 * Products with AVX2: of floats, and of bytes and the quantised dtypes of 4 and
 * more bits and the K formats. dot_avx2_low.c has the others.
 */
#include "kernels/dot.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/dot_avx2.h"
#include "kernels/vec.h"

#define WIDTH 8
#define FLOAT_COLS 3u
#define PANEL_COLS 4
#define NAME(x) avx2_##x

typedef float avx2_vf __attribute__((vector_size(32)));

static inline TARGET __attribute__((always_inline)) avx2_vf
avx2_load_F16(const unsigned char *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)p));
}

static inline TARGET __attribute__((always_inline)) avx2_vf
avx2_load_BF16(const unsigned char *p)
{
	__m128i x = _mm_loadu_si128((const __m128i_u *)p);

	return _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

#include "kernels/dot_float.inc"
#include "kernels/dot_panel.inc"
#include "kernels/dot_q8.inc"

/* Return the low (@i = 0) or the high (@i = 1) nibble of each byte. */
INLINE __m256i nibbles(__m256i x, unsigned i)
{
	return _mm256_and_si256(i ? _mm256_srli_epi16(x, 4) : x,
				_mm256_set1_epi8(15));
}

/* Return the low nibbles of 16 bytes, then the high ones. */
INLINE __m256i low_high(const unsigned char *a)
{
	__m128i x = _mm_loadu_si128((const __m128i_u *)a);

	return _mm256_and_si256(
		_mm256_inserti128_si256(_mm256_castsi128_si256(x),
					_mm_srli_epi16(x, 4), 1),
		_mm256_set1_epi8(15));
}

INLINE void scales_Q4_0(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves(v, a, WEIR__BYTES_Q4_0, 0);
}

INLINE __m256i bytes_Q4_0(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	return low_high(block_at(v, a, WEIR__BYTES_Q4_0, i) + 2);
}

INLINE void scales_Q8_0(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves(v, a, WEIR__BYTES_Q8_0, 0);
}

INLINE __m256i bytes_Q8_0(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	return load_32(block_at(v, a, WEIR__BYTES_Q8_0, i) + 2);
}

/*
 * Return minus the offsets of 8 blocks, whose elements are scale * q + offset.
 */
INLINE __m256 minima(const struct unit_avx2 *v, const unsigned char *a,
		     size_t bytes)
{
	return _mm256_sub_ps(_mm256_setzero_ps(), halves(v, a, bytes, 2));
}

INLINE void scales_Q4_1(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves(v, a, WEIR__BYTES_Q4_1, 0);
	v->min[0] = minima(v, a, WEIR__BYTES_Q4_1);
}

INLINE __m256i bytes_Q4_1(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	return low_high(block_at(v, a, WEIR__BYTES_Q4_1, i) + 4);
}

/* Return bytes that are 16 where the bit of the word is set. */
INLINE __m256i fifth_bits(const unsigned char *p)
{
	return _mm256_and_si256(spread_bits(p), _mm256_set1_epi8(16));
}

INLINE void scales_Q5_0(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves(v, a, WEIR__BYTES_Q5_0, 0);
}

INLINE __m256i bytes_Q5_0(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	a = block_at(v, a, WEIR__BYTES_Q5_0, i);
	return _mm256_or_si256(low_high(a + 6), fifth_bits(a + 2));
}

INLINE void scales_Q5_1(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves(v, a, WEIR__BYTES_Q5_1, 0);
	v->min[0] = minima(v, a, WEIR__BYTES_Q5_1);
}

INLINE __m256i bytes_Q5_1(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	a = block_at(v, a, WEIR__BYTES_Q5_1, i);
	return _mm256_or_si256(low_high(a + 8), fifth_bits(a + 4));
}

INLINE __m256i iq4_bytes(__m256i x)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
					   (const __m128i_u *)weir__dot_iq4)),
				   x);
}

INLINE void scales_IQ4_NL(struct unit_avx2 *v, const unsigned char *a)
{
	v->scale[0] = halves(v, a, WEIR__BYTES_IQ4_NL, 0);
}

INLINE __m256i bytes_IQ4_NL(const struct unit_avx2 *v, const unsigned char *a,
			    unsigned i)
{
	return iq4_bytes(low_high(block_at(v, a, WEIR__BYTES_IQ4_NL, i) + 2));
}

/* Q4_K and Q5_K have 8 scales of 6 bits and 8 minima, in 12 bytes. */
INLINE void scales_Q4_K(struct unit_avx2 *v, const unsigned char *a)
{
	uint32_t x[3], low, high;

	memcpy(x, a + 4, sizeof(x));
	low = (x[2] & 0x0f0f0f0f) | (x[0] >> 2 & 0x30303030);
	high = (x[2] >> 4 & 0x0f0f0f0f) | (x[1] >> 2 & 0x30303030);
	v->scale[0] = bytes_times(_mm_set_epi32(0, 0, (int)low,
						(int)(x[0] & 0x3f3f3f3f)),
				  half_at(a));
	v->min[0] = bytes_times(_mm_set_epi32(0, 0, (int)high,
					      (int)(x[1] & 0x3f3f3f3f)),
				half_at(a + 2));
}

INLINE __m256i bytes_Q4_K(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	(void)v;
	return nibbles(load_32(a + 16 + 32 * (i / 2)), i % 2);
}

INLINE void scales_Q5_K(struct unit_avx2 *v, const unsigned char *a)
{
	scales_Q4_K(v, a);
}

INLINE __m256i bytes_Q5_K(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	__m256i fifth = _mm256_srli_epi16(load_32(a + 16), (int)i);

	(void)v;
	fifth = _mm256_and_si256(fifth, _mm256_set1_epi8(1));
	return _mm256_or_si256(nibbles(load_32(a + 48 + 32 * (i / 2)), i % 2),
			       _mm256_slli_epi16(fifth, 4));
}

INLINE void scales_Q6_K(struct unit_avx2 *v, const unsigned char *a)
{
	sixteen_times(v->scale, _mm_loadu_si128((const __m128i_u *)(a + 192)),
		      half_at(a + 208));
}

INLINE __m256i bytes_Q6_K(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	unsigned part = i / 4,
		 quarter =
			 i % 4; /* part of 128 elements, quarter of the part */
	__m256i low = load_32(a + 64 * part + 32 * (quarter % 2));
	__m256i high = load_32(a + 128 + 32 * part);

	(void)v;
	high = quarter < 3 ? _mm256_slli_epi16(high, 4 - 2 * (int)quarter)
			   : _mm256_srli_epi16(high, 2);
	return _mm256_or_si256(nibbles(low, quarter / 2),
			       _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
}

INLINE void scales_Q2_K(struct unit_avx2 *v, const unsigned char *a)
{
	__m128i both = _mm_loadu_si128((const __m128i_u *)a);
	const __m128i low = _mm_set1_epi8(15);

	sixteen_times(v->scale, _mm_and_si128(both, low), half_at(a + 80));
	sixteen_times(v->min, _mm_and_si128(_mm_srli_epi16(both, 4), low),
		      half_at(a + 82));
}

INLINE __m256i bytes_Q2_K(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	(void)v;
	return pairs(a + 16, i);
}

/* Q3_K has 16 scales of 6 bits, plus 32, in 12 bytes. */
INLINE void scales_Q3_K(struct unit_avx2 *v, const unsigned char *a)
{
	uint32_t x[3];
	__m128i low, high;

	memcpy(x, a + 96, sizeof(x));
	low = _mm_set_epi32((int)(x[1] >> 4 & 0x0f0f0f0f),
			    (int)(x[0] >> 4 & 0x0f0f0f0f),
			    (int)(x[1] & 0x0f0f0f0f), (int)(x[0] & 0x0f0f0f0f));
	high = _mm_set_epi32((int)(x[2] >> 2 & 0x30303030),
			     (int)(x[2] & 0x30303030),
			     (int)(x[2] << 2 & 0x30303030),
			     (int)(x[2] << 4 & 0x30303030));
	sixteen_times(v->scale,
		      _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32)),
		      half_at(a + 108));
}

INLINE __m256i bytes_Q3_K(const struct unit_avx2 *v, const unsigned char *a,
			  unsigned i)
{
	__m256i third = load_32(a);

	(void)v;
	third = i < 3 ? _mm256_slli_epi16(third, 2 - (int)i)
		      : _mm256_srli_epi16(third, (int)i - 2);
	return _mm256_or_si256(pairs(a + 32, i),
			       _mm256_and_si256(third, _mm256_set1_epi8(4)));
}

/* IQ4_XS has 8 scales, plus 32: 4 bits of each in 4 bytes, 2 bits in a word. */
INLINE void scales_IQ4_XS(struct unit_avx2 *v, const unsigned char *a)
{
	uint32_t word, top = a[2] | (uint32_t)a[3] << 8;
	__m256i low, high;

	memcpy(&word, a + 4, sizeof(word));
	low = _mm256_srlv_epi32(_mm256_set1_epi32((int)word),
				_mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0));
	high = _mm256_srlv_epi32(_mm256_set1_epi32((int)top),
				 _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0));
	low = _mm256_and_si256(low, _mm256_set1_epi32(15));
	high = _mm256_and_si256(high, _mm256_set1_epi32(3));
	low = _mm256_or_si256(low, _mm256_slli_epi32(high, 4));
	low = _mm256_sub_epi32(low, _mm256_set1_epi32(32));
	v->scale[0] = _mm256_mul_ps(_mm256_cvtepi32_ps(low),
				    _mm256_set1_ps(half_at(a)));
}

INLINE __m256i bytes_IQ4_XS(const struct unit_avx2 *v, const unsigned char *a,
			    unsigned i)
{
	(void)v;
	return iq4_bytes(low_high(a + 8 + 16 * i));
}

/*
 * A dtype, how many of its elements have one scale, the bias or -1 if it has
 * minima, and true if its elements have signs, which are moved to b.
 */
#define QUANTS(X)              \
	X(Q4_0, 32, 8, false)  \
	X(Q4_1, 32, -1, false) \
	X(Q5_0, 32, 16, false) \
	X(Q5_1, 32, -1, false) \
	X(Q8_0, 32, 0, true)   \
	X(IQ4_NL, 32, 0, true) \
	X(Q2_K, 16, -1, false) \
	X(Q3_K, 16, 4, false)  \
	X(IQ4_XS, 32, 0, true) \
	X(Q4_K, 32, -1, false) \
	X(Q5_K, 32, -1, false) \
	X(Q6_K, 16, 32, false)

QUANTS(QUANT_ROWS)

static const struct weir__dot list[] = { FLOAT_LIST, QUANTS(QUANT_ENTRY) };

static bool avx2_usable(void)
{
	return weir__vec_avx2.usable();
}

const struct weir__dot_set weir__dot_avx2 = {
	.name = "AVX2",
	.usable = avx2_usable,
	.quantise = avx2_quantise,
	.panel = &avx2_panel,
	.panels_floats = 33,
	.panels_bytes = 128,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
	.low = weir__dot_avx2_low,
};
#endif
