/* SPDX-License-Identifier: MIT */
/*
 * Products with AVX2: of floats, and of bytes by the instructions that add pairs
 * of products to 16 bits. Those take bytes with a sign for b only, and their sums
 * hold 128 * 127 * 2; the signs of Q8_0 and IQ4_NL are moved to b.
 */
#include "kernels/dot.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/vec.h"

#define LANES 8
#define FLOAT_COLS 2
#define PANEL_COLS 4
#define TARGET WEIR__NO_UBSAN __attribute__((target("avx2,fma,f16c")))
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

/* Half a struct weir__dot_q8: 32 elements, 8 lanes. */
struct half {
	__m256i q;
	__m256 scale, min;
};

/* Of a dtype: constants, and how 32 elements of a block are unpacked. */
struct quant {
	void (*unpack)(struct half *v, const unsigned char *a, unsigned i);
	size_t bytes;    /* of a block */
	unsigned halves; /* of 32 elements, in a block */
	bool mins, sign;
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
	const __m256i byte = _mm256_set_epi64x(
		0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
	const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
	int32_t word;
	__m256i x;

	memcpy(&word, p, sizeof(word));
	x = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte);
	x = _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
	return _mm256_and_si256(x, _mm256_set1_epi8(16));
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

/* Two scales for the halves of the lanes. */
INLINE __m256 two_scales(float low, float high)
{
	return _mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low));
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

/* Elements 32 * @i and on of 256 with 2 bits each, as in Q2_K and Q3_K. */
INLINE __m256i pairs(const unsigned char *a, unsigned i)
{
	return _mm256_and_si256(_mm256_srli_epi16(load_32(a + 32 * (i / 4)),
						  2 * (int)(i % 4)),
				_mm256_set1_epi8(3));
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

#define QUANT_AHEAD 2048 /* bytes fetched ahead; rows follow each other */

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
INLINE void quant_row(const struct quant *quant, unsigned cols,
		      float *const *dst, size_t at, const unsigned char *a,
		      const void *const *b, size_t k)
{
	size_t blocks = k / (32 * quant->halves);
	__m256 sum[2];

	WEIR__UNROLL
	for (unsigned c = 0; c < cols; c++)
		sum[c] = _mm256_setzero_ps();
	for (size_t u = 0; u < blocks; u++) {
		const unsigned char *x = a + u * quant->bytes;

		for (size_t i = 0; i < quant->bytes; i += 64)
			__builtin_prefetch(x + QUANT_AHEAD + i);
		WEIR__UNROLL
		for (unsigned i = 0; i < quant->halves; i++) {
			size_t h = u * quant->halves + i;
			struct half v;

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
		dst[c][at] = avx2_sum(sum[c]);
}

INLINE void quant_rows(const struct quant *quant, float *const *dst,
		       const unsigned char *a, size_t pitch, size_t rows,
		       const void *const *b, unsigned cols, size_t k)
{
	for (size_t r = 0; r < rows; r++) {
		const unsigned char *row = a + r * pitch;
		unsigned c = 0;

		for (; c + 2 <= cols; c += 2)
			quant_row(quant, 2, dst + c, r, row, b + c, k);
		if (c < cols)
			quant_row(quant, 1, dst + c, r, row, b + c, k);
	}
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

#define ROWS(name, bytes_, halves_, bias_, sign_)                            \
	static TARGET void avx2_##name(float *const *dst,                    \
				       const unsigned char *a, size_t pitch, \
				       size_t rows, const void *const *b,    \
				       unsigned cols, size_t k)              \
	{                                                                    \
		const struct quant quant = { .unpack = unpack_##name,        \
					     .bytes = bytes_,                \
					     .halves = halves_,              \
					     .mins = bias_ < 0,              \
					     .sign = sign_ };                \
                                                                             \
		quant_rows(&quant, dst, a, pitch, rows, b, cols, k);         \
	}
QUANTS(ROWS)

#define ROW(name, bytes_, halves_, bias_, sign_)               \
	{ .dtype = WEIR_DTYPE_##name,                          \
	  .form = bias_ < 0 ? WEIR__DOT_MINS : WEIR__DOT_BIAS, \
	  .bias = bias_ < 0 ? 0 : bias_,                       \
	  .block = 32 * halves_,                               \
	  .run = avx2_##name },
static const struct weir__dot list[] = { FLOAT_LIST, QUANTS(ROW) };

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
};
#endif
