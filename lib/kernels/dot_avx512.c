/* SPDX-License-Identifier: MIT */
/*
 * Products with AVX-512: of floats, and by VNNI of bytes and of the quantised
 * dtypes of 4 and more bits and the K formats. dot_avx512_low.c has the others.
 */
#include "kernels/dot.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/dot_avx512.h"
#include "kernels/vec.h"

#define WIDTH 16
#define FLOAT_COLS 6u
#define PANEL_COLS 8
#define NAME(x) avx512_##x

typedef float avx512_vf __attribute__((vector_size(64)));

static inline TARGET __attribute__((always_inline)) avx512_vf
avx512_load_F16(const unsigned char *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)p));
}

static inline TARGET __attribute__((always_inline)) avx512_vf
avx512_load_BF16(const unsigned char *p)
{
	__m256i x = _mm256_loadu_si256((const __m256i_u *)p);

	return _mm512_castsi512_ps(
		_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

#include "kernels/dot_float.inc"
#include "kernels/dot_panel.inc"
#include "kernels/dot_q8.inc"

/*
 * Return 64 elements, of blocks 2 * @i and 2 * @i + 1, whose nibbles begin at
 * byte @at.
 */
INLINE __m512i nibbles_of_two(const struct unit_avx512 *v,
			      const unsigned char *a, size_t bytes, size_t at,
			      unsigned i)
{
	return low_high(two_of_16(block_at(v, a, bytes, 2 * i) + at,
				  block_at(v, a, bytes, 2 * i + 1) + at));
}

INLINE void unpack_Q4_0(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves(v, a, WEIR__BYTES_Q4_0, 0);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = nibbles_of_two(v, a, WEIR__BYTES_Q4_0, 2, i);
}

INLINE void unpack_Q8_0(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves(v, a, WEIR__BYTES_Q8_0, 0);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		const unsigned char *first =
			block_at(v, a, WEIR__BYTES_Q8_0, 2 * i);
		const unsigned char *second =
			block_at(v, a, WEIR__BYTES_Q8_0, 2 * i + 1);
		__m256i low =
			_mm256_loadu_si256((const __m256i_u *)(first + 2));
		__m256i high =
			_mm256_loadu_si256((const __m256i_u *)(second + 2));
		__m512i x = _mm512_inserti64x4(_mm512_castsi256_si512(low),
					       high, 1);

		v->q[i] = _mm512_xor_si512(x, _mm512_set1_epi8(-128));
	}
}

/*
 * Return minus the offsets of 8 blocks, whose elements are scale * q + offset.
 */
INLINE __m512 minima(const struct unit_avx512 *v, const unsigned char *a,
		     size_t bytes)
{
	return _mm512_sub_ps(_mm512_setzero_ps(), halves(v, a, bytes, 2));
}

/*
 * Return 64 bytes that are 16 where the bit is set in the words at byte @at of
 * blocks 2 * @i and 2 * @i + 1.
 */
INLINE __m512i fifth_bits(const struct unit_avx512 *v, const unsigned char *a,
			  size_t bytes, size_t at, unsigned i)
{
	uint32_t x, y;

	memcpy(&x, block_at(v, a, bytes, 2 * i) + at, 4);
	memcpy(&y, block_at(v, a, bytes, 2 * i + 1) + at, 4);
	return _mm512_maskz_mov_epi8(x | (uint64_t)y << 32,
				     _mm512_set1_epi8(16));
}

INLINE void unpack_Q4_1(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves(v, a, WEIR__BYTES_Q4_1, 0);
	v->min = minima(v, a, WEIR__BYTES_Q4_1);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = nibbles_of_two(v, a, WEIR__BYTES_Q4_1, 4, i);
}

INLINE void unpack_Q5_0(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves(v, a, WEIR__BYTES_Q5_0, 0);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		v->q[i] = _mm512_or_si512(
			nibbles_of_two(v, a, WEIR__BYTES_Q5_0, 6, i),
			fifth_bits(v, a, WEIR__BYTES_Q5_0, 2, i));
	}
}

INLINE void unpack_Q5_1(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves(v, a, WEIR__BYTES_Q5_1, 0);
	v->min = minima(v, a, WEIR__BYTES_Q5_1);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		v->q[i] = _mm512_or_si512(
			nibbles_of_two(v, a, WEIR__BYTES_Q5_1, 8, i),
			fifth_bits(v, a, WEIR__BYTES_Q5_1, 4, i));
	}
}

/* Look up values of IQ4, plus 128. */
INLINE __m512i iq4_bytes(__m512i x)
{
	const __m512i values =
		_mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128(
					 (const __m128i_u *)weir__dot_iq4)),
				 _mm512_set1_epi8(-128));

	return _mm512_shuffle_epi8(values, x);
}

INLINE void unpack_IQ4_NL(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = halves(v, a, WEIR__BYTES_IQ4_NL, 0);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = iq4_bytes(
			nibbles_of_two(v, a, WEIR__BYTES_IQ4_NL, 2, i));
}

/* Q4_K and Q5_K have 8 scales of 6 bits and 8 minima, in 12 bytes. */
INLINE __m128i packed_scales(const unsigned char *p)
{
	uint32_t x[3];
	uint32_t low, high;

	memcpy(x, p, sizeof(x));
	low = (x[2] & 0x0f0f0f0f) | (x[0] >> 2 & 0x30303030);
	high = (x[2] >> 4 & 0x0f0f0f0f) | (x[1] >> 2 & 0x30303030);
	return _mm_set_epi32((int)high, (int)(x[1] & 0x3f3f3f3f), (int)low,
			     (int)(x[0] & 0x3f3f3f3f));
}

/*
 * Unpack the scales and minima of Q4_K and Q5_K from the first 16 bytes of a
 * block.
 */
INLINE void unpack_scales(struct unit_avx512 *v, const unsigned char *a)
{
	__m512 both =
		_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(packed_scales(a + 4)));

	both = _mm512_mul_ps(both, scales_of_two(a, a + 2));
	v->scale = both;
	v->min = _mm512_shuffle_f32x4(both, both, 0xee); /* the upper half */
}

/* Return the low nibbles of 32 bytes, then the high ones. */
INLINE __m512i nibbles(const unsigned char *a)
{
	__m512i x = _mm512_broadcast_i64x4(
		_mm256_loadu_si256((const __m256i_u *)a));

	x = _mm512_srlv_epi64(x, _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0));
	return _mm512_and_si512(x, _mm512_set1_epi8(15));
}

INLINE void unpack_Q4_K(struct unit_avx512 *v, const unsigned char *a)
{
	unpack_scales(v, a);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = nibbles(a + 16 + 32 * i);
}

INLINE void unpack_Q5_K(struct unit_avx512 *v, const unsigned char *a)
{
	__m512i fifth = _mm512_broadcast_i64x4(
		_mm256_loadu_si256((const __m256i_u *)(a + 16)));
	const __m512i bit = _mm512_set_epi64(
		0x0202020202020202, 0x0202020202020202, 0x0202020202020202,
		0x0202020202020202, 0x0101010101010101, 0x0101010101010101,
		0x0101010101010101, 0x0101010101010101);

	unpack_scales(v, a);
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		__mmask64 set = _mm512_test_epi8_mask(
			_mm512_srli_epi64(fifth, 2 * i), bit);

		v->q[i] = _mm512_or_si512(
			nibbles(a + 48 + 32 * i),
			_mm512_maskz_mov_epi8(set, _mm512_set1_epi8(16)));
	}
}

INLINE void unpack_Q6_K(struct unit_avx512 *v, const unsigned char *a)
{
	__m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
		_mm_loadu_si128((const __m128i_u *)(a + 192))));

	v->scale = _mm512_mul_ps(scale, half_at(a + 208));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		__m512i low = _mm512_loadu_si512(a + 64 * (i / 2));
		__m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256(
			(const __m256i_u *)(a + 128 + 32 * (i / 2))));

		low = _mm512_srli_epi64(low, 4 * (i % 2));
		high = _mm512_srlv_epi64(high, _mm512_set_epi64(2, 2, 2, 2, 0,
								0, 0, 0));
		high = _mm512_srli_epi64(high, 4 * (i % 2));
		v->q[i] = _mm512_or_si512(
			_mm512_and_si512(low, _mm512_set1_epi8(15)),
			_mm512_slli_epi64(_mm512_and_si512(high,
							   _mm512_set1_epi8(3)),
					  4));
	}
}

INLINE void unpack_Q2_K(struct unit_avx512 *v, const unsigned char *a)
{
	__m128i both = _mm_loadu_si128((const __m128i_u *)a);
	__m128i low = _mm_and_si128(both, _mm_set1_epi8(15));
	__m128i high =
		_mm_and_si128(_mm_srli_epi16(both, 4), _mm_set1_epi8(15));

	v->scale = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(low)),
				 half_at(a + 80));
	v->min = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(high)),
			       half_at(a + 82));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = pairs(a + 16, i);
}

/* Q3_K has 16 scales of 6 bits in 12 bytes. */
INLINE __m512i scales_q3(const unsigned char *p)
{
	uint32_t x[3];
	__m128i low, high;

	memcpy(x, p, sizeof(x));
	low = _mm_set_epi32((int)(x[1] >> 4 & 0x0f0f0f0f),
			    (int)(x[0] >> 4 & 0x0f0f0f0f),
			    (int)(x[1] & 0x0f0f0f0f), (int)(x[0] & 0x0f0f0f0f));
	high = _mm_set_epi32((int)(x[2] >> 2 & 0x30303030),
			     (int)(x[2] & 0x30303030),
			     (int)(x[2] << 2 & 0x30303030),
			     (int)(x[2] << 4 & 0x30303030));
	return _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_or_si128(low, high)),
				_mm512_set1_epi32(32));
}

INLINE void unpack_Q3_K(struct unit_avx512 *v, const unsigned char *a)
{
	__m512i third = _mm512_broadcast_i64x4(
		_mm256_loadu_si256((const __m256i_u *)a));
	const __m512i bit =
		_mm512_inserti64x4(_mm512_set1_epi8(1), _mm256_set1_epi8(2), 1);

	v->scale = _mm512_mul_ps(_mm512_cvtepi32_ps(scales_q3(a + 96)),
				 half_at(a + 108));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++) {
		__mmask64 set = _mm512_test_epi8_mask(
			_mm512_srli_epi64(third, 2 * i), bit);

		v->q[i] = _mm512_or_si512(
			pairs(a + 32, i),
			_mm512_maskz_mov_epi8(set, _mm512_set1_epi8(4)));
	}
}

/* IQ4_XS has 8 scales: 4 bits of each in 4 bytes, 2 bits in a word. */
INLINE __m512 scales_iq4(const unsigned char *a)
{
	__m256i low, high;
	uint32_t word;
	uint16_t top;

	memcpy(&top, a + 2, sizeof(top));
	memcpy(&word, a + 4, sizeof(word));
	low = _mm256_srlv_epi32(_mm256_set1_epi32((int)word),
				_mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0));
	high = _mm256_srlv_epi32(_mm256_set1_epi32(top),
				 _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0));
	low = _mm256_and_si256(low, _mm256_set1_epi32(15));
	high = _mm256_and_si256(high, _mm256_set1_epi32(3));
	low = _mm256_or_si256(low, _mm256_slli_epi32(high, 4));
	low = _mm256_sub_epi32(low, _mm256_set1_epi32(32));
	return _mm512_castps256_ps512(_mm256_cvtepi32_ps(low));
}

INLINE void unpack_IQ4_XS(struct unit_avx512 *v, const unsigned char *a)
{
	v->scale = _mm512_mul_ps(scales_iq4(a), half_at(a));
	WEIR__UNROLL
	for (unsigned i = 0; i < 4; i++)
		v->q[i] = iq4_bytes(
			low_high(two_of_16(a + 8 + 32 * i, a + 24 + 32 * i)));
}

/*
 * A dtype, how many of its elements have one scale, and the bias or -1 if it
 * has minima.
 */
#define QUANTS(X)          \
	X(Q4_0, 32, 8)     \
	X(Q4_1, 32, -1)    \
	X(Q5_0, 32, 16)    \
	X(Q5_1, 32, -1)    \
	X(Q8_0, 32, 128)   \
	X(IQ4_NL, 32, 128) \
	X(Q2_K, 16, -1)    \
	X(Q3_K, 16, 4)     \
	X(IQ4_XS, 32, 128) \
	X(Q4_K, 32, -1)    \
	X(Q5_K, 32, -1)    \
	X(Q6_K, 16, 32)

QUANTS(QUANT_ROWS)

static const struct weir__dot list[] = { FLOAT_LIST, QUANTS(QUANT_ENTRY) };

/*
 * __builtin_cpu_supports() also asks the kernel. CPUs with AVX-512 have F16C.
 */
static bool avx512_usable(void)
{
	return weir__vec_avx512.usable() &&
	       __builtin_cpu_supports("avx512vnni");
}

const struct weir__dot_set weir__dot_avx512 = {
	.name = "AVX-512",
	.usable = avx512_usable,
	.quantise = avx512_quantise,
	.panel = &avx512_panel,
	.panels_floats = 64,
	.panels_bytes = 256,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
	.low = weir__dot_avx512_low,
};
#endif
