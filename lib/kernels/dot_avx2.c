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

#define LANES 8
#define FLOAT_COLS 2
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

/* Nibbles 0 or 1 of the bytes. */
INLINE __m256i nibbles(__m256i x, unsigned i)
{
	return _mm256_and_si256(_mm256_srli_epi16(x, 4 * (int)i),
				_mm256_set1_epi8(15));
}

INLINE void unpack_Q4_0(struct half *v, const unsigned char *a, unsigned i)
{
	__m128i x = _mm_loadu_si128((const __m128i_u *)(a + 2));
	__m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(x),
					       _mm_srli_epi16(x, 4), 1);

	(void)i;
	v->q = _mm256_and_si256(both, _mm256_set1_epi8(15));
	v->scale = _mm256_set1_ps(half_at(a));
}

INLINE void unpack_Q8_0(struct half *v, const unsigned char *a, unsigned i)
{
	(void)i;
	v->q = load_32(a + 2);
	v->scale = _mm256_set1_ps(half_at(a));
}

INLINE void unpack_Q4_1(struct half *v, const unsigned char *a, unsigned i)
{
	unpack_Q4_0(v, a + 2, i);
	v->scale = _mm256_set1_ps(half_at(a));
	v->min = _mm256_set1_ps(-half_at(a + 2));
}

/* 16 where a bit of the word is set. */
INLINE __m256i fifth_bits(const unsigned char *p)
{
	return _mm256_and_si256(spread_bits(p), _mm256_set1_epi8(16));
}

INLINE void unpack_Q5_0(struct half *v, const unsigned char *a, unsigned i)
{
	unpack_Q4_0(v, a + 4, i);
	v->q = _mm256_or_si256(v->q, fifth_bits(a + 2));
	v->scale = _mm256_set1_ps(half_at(a));
}

INLINE void unpack_Q5_1(struct half *v, const unsigned char *a, unsigned i)
{
	unpack_Q4_0(v, a + 6, i);
	v->q = _mm256_or_si256(v->q, fifth_bits(a + 4));
	v->scale = _mm256_set1_ps(half_at(a));
	v->min = _mm256_set1_ps(-half_at(a + 2));
}

INLINE void unpack_IQ4_NL(struct half *v, const unsigned char *a, unsigned i)
{
	const __m256i values = _mm256_broadcastsi128_si256(
		_mm_loadu_si128((const __m128i_u *)weir__dot_iq4));

	unpack_Q4_0(v, a, i);
	v->q = _mm256_shuffle_epi8(values, v->q);
}

/* Scale @i of 8 with 6 bits, and its minimum, of 12 bytes of Q4_K and Q5_K. */
INLINE void unpack_scale(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *p = a + 4;
	int scale = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | (p[i - 4] >> 6) << 4;
	int min = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | (p[i] >> 6) << 4;

	v->scale = _mm256_set1_ps(half_at(a) * (float)scale);
	v->min = _mm256_set1_ps(half_at(a + 2) * (float)min);
}

INLINE void unpack_Q4_K(struct half *v, const unsigned char *a, unsigned i)
{
	unpack_scale(v, a, i);
	v->q = nibbles(load_32(a + 16 + 32 * (i / 2)), i % 2);
}

INLINE void unpack_Q5_K(struct half *v, const unsigned char *a, unsigned i)
{
	__m256i fifth = _mm256_srli_epi16(load_32(a + 16), (int)i);

	unpack_scale(v, a, i);
	fifth = _mm256_and_si256(fifth, _mm256_set1_epi8(1));
	v->q = _mm256_or_si256(nibbles(load_32(a + 48 + 32 * (i / 2)), i % 2),
			       _mm256_slli_epi16(fifth, 4));
}

INLINE void unpack_Q6_K(struct half *v, const unsigned char *a, unsigned i)
{
	unsigned part = i / 4, quarter = i % 4; /* of 128 elements */
	__m256i low = load_32(a + 64 * part + 32 * (quarter % 2));
	__m256i high = load_32(a + 128 + 32 * part);
	const signed char *scale = (const signed char *)a + 192 + 2 * i;
	float d = half_at(a + 208);

	high = _mm256_and_si256(_mm256_srli_epi16(high, 2 * (int)quarter),
				_mm256_set1_epi8(3));
	v->q = _mm256_or_si256(nibbles(low, quarter / 2),
			       _mm256_slli_epi16(high, 4));
	v->scale = two_scales(d * (float)scale[0], d * (float)scale[1]);
}

INLINE void unpack_Q2_K(struct half *v, const unsigned char *a, unsigned i)
{
	const unsigned char *s = a + 2 * i;
	float d = half_at(a + 80), min = half_at(a + 82);

	v->q = pairs(a + 16, i);
	v->scale = two_scales(d * (float)(s[0] & 15), d * (float)(s[1] & 15));
	v->min = two_scales(min * (float)(s[0] >> 4), min * (float)(s[1] >> 4));
}

/* Scale @i of 16 with 6 bits, of 12 bytes of Q3_K. */
INLINE float scale_q3(const unsigned char *p, unsigned i)
{
	int low = p[i % 8] >> i / 8 * 4 & 15, high = p[8 + i % 4] >> i / 4 * 2;

	return (float)((low | (high & 3) << 4) - 32);
}

INLINE void unpack_Q3_K(struct half *v, const unsigned char *a, unsigned i)
{
	__m256i third = _mm256_srli_epi16(load_32(a), (int)i);
	float d = half_at(a + 108);

	third = _mm256_and_si256(third, _mm256_set1_epi8(1));
	v->q = _mm256_or_si256(pairs(a + 32, i), _mm256_slli_epi16(third, 2));
	v->scale = two_scales(d * scale_q3(a + 96, 2 * i),
			      d * scale_q3(a + 96, 2 * i + 1));
}

INLINE void unpack_IQ4_XS(struct half *v, const unsigned char *a, unsigned i)
{
	int low = a[4 + i / 2] >> i % 2 * 4 & 15;
	int high = (a[2] | a[3] << 8) >> 2 * i & 3;

	unpack_IQ4_NL(v, a + 6 + 16 * i, 0);
	v->scale = _mm256_set1_ps(half_at(a) * (float)((low | high << 4) - 32));
}

/* dtype, bytes of a block, its halves, bias or -1: minima; its sign is moved */
#define QUANTS(X)                  \
	X(Q4_0, 18, 1, 8, false)   \
	X(Q4_1, 20, 1, -1, false)  \
	X(Q5_0, 22, 1, 16, false)  \
	X(Q5_1, 24, 1, -1, false)  \
	X(Q8_0, 34, 1, 0, true)    \
	X(IQ4_NL, 18, 1, 0, true)  \
	X(Q2_K, 84, 8, -1, false)  \
	X(Q3_K, 110, 8, 4, false)  \
	X(IQ4_XS, 136, 8, 0, true) \
	X(Q4_K, 144, 8, -1, false) \
	X(Q5_K, 176, 8, -1, false) \
	X(Q6_K, 210, 8, 32, false)

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
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
	.low = weir__dot_avx2_low,
};
#endif
