/* SPDX-License-Identifier: MIT */
/*
 * Quantising by AVX2 and AVX-512, with the results of the portable form. Blocks
 * for which these instructions would not be exact, such as blocks with
 * infinities or NaNs, are left to the portable form.
 */
#include "mem/quantise.h"

#ifdef __x86_64__
#include <immintrin.h>

#include <weir/tensor.h>

#include "mem/convert.h"
#include "mem/dtype_table.h"
#include "mem/fpenv.h"

#define AVX2_TARGET __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline AVX2_TARGET __attribute__((always_inline))
#define AVX512_TARGET \
	__attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl")))
#define AVX512_INLINE static inline AVX512_TARGET __attribute__((always_inline))

#define F32_INF 0x7f800000

/* The largest F32 below one half. */
#define BELOW_HALF 0x1.fffffep-2f

/* 1.5 * 2^23: the last bit of a sum with it is worth 1. */
#define MAGIC 12582912.f
#define MAGIC_BITS 0x4b400000

AVX2_INLINE void put_half(unsigned char *p, float x)
{
	uint16_t half = (uint16_t)_mm_cvtsi128_si32(
		_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT));

	memcpy(p, &half, sizeof(half));
}

INLINE float inverse_of(float x)
{
	return x != 0 ? 1 / x : 0;
}

INLINE float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* 32 elements. */
struct avx2_block {
	__m256 x[4];
};

AVX2_INLINE struct avx2_block avx2_load(const unsigned char *src)
{
	struct avx2_block b;

	for (int i = 0; i < 4; i++)
		b.x[i] = _mm256_loadu_ps((const float *)(const void *)src +
					 8 * i);
	return b;
}

AVX2_INLINE __m256i avx2_magnitude(__m256 x)
{
	return _mm256_and_si256(_mm256_castps_si256(x),
				_mm256_set1_epi32(0x7fffffff));
}

/*
 * Return the bits of the greatest magnitude. They are compared as integers, in
 * which infinity and NaNs are the greatest.
 */
AVX2_INLINE uint32_t avx2_most(const struct avx2_block *b)
{
	__m256i most =
		_mm256_max_epi32(_mm256_max_epi32(avx2_magnitude(b->x[0]),
						  avx2_magnitude(b->x[1])),
				 _mm256_max_epi32(avx2_magnitude(b->x[2]),
						  avx2_magnitude(b->x[3])));
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128(most),
				  _mm256_extracti128_si256(most, 1));

	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(m);
}

/* Return the lowest bytes of 32 integers from 0 to 255. */
AVX2_INLINE __m256i avx2_pack(const __m256i i[4])
{
	__m256i low = _mm256_packus_epi32(i[0], i[1]);
	__m256i high = _mm256_packus_epi32(i[2], i[3]);

	return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high),
					   _mm256_setr_epi32(0, 4, 1, 5, 2, 6,
							     3, 7));
}

/*
 * Round magnitudes below 2^22 as roundf does, half away from zero. Others
 * become some integer.
 */
AVX2_INLINE __m256i avx2_round(__m256 x)
{
	__m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.f));
	__m256 half = _mm256_or_ps(sign, _mm256_set1_ps(BELOW_HALF));

	return _mm256_cvttps_epi32(_mm256_add_ps(x, half));
}

AVX2_TARGET static void avx2_Q8_0(unsigned char *dst, const unsigned char *src,
				  size_t n)
{
	for (; n; n--, src += 4 * 32, dst += WEIR__BYTES_Q8_0) {
		struct avx2_block b = avx2_load(src);
		uint32_t most = avx2_most(&b);
		float d = float_of(most) / 127;
		__m256 inverse = _mm256_set1_ps(inverse_of(d));
		__m256i level[4];

		if (most >= F32_INF) {
			weir__quantise_q8_0(dst, src, 1);
			continue;
		}
		put_half(dst, d);
		for (int i = 0; i < 4; i++)
			level[i] = _mm256_and_si256(
				avx2_round(_mm256_mul_ps(b.x[i], inverse)),
				_mm256_set1_epi32(255));
		_mm256_storeu_si256((__m256i_u *)(dst + 2), avx2_pack(level));
	}
}

/* Return the first element whose magnitude has these bits, the greatest. */
AVX2_INLINE float avx2_extreme(const struct avx2_block *b, uint32_t most,
			       const unsigned char *src)
{
	uint32_t found = 0;
	float x;

	for (int i = 0; i < 4; i++) {
		__m256i same = _mm256_cmpeq_epi32(avx2_magnitude(b->x[i]),
						  _mm256_set1_epi32((int)most));

		found |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same))
			 << 8 * i;
	}
	memcpy(&x, src + 4 * __builtin_ctz(found), sizeof(x));
	return most ? x : 0; /* not -0 */
}

AVX2_TARGET static void avx2_Q4_0(unsigned char *dst, const unsigned char *src,
				  size_t n)
{
	for (; n; n--, src += 4 * 32, dst += WEIR__BYTES_Q4_0) {
		struct avx2_block b = avx2_load(src);
		uint32_t most = avx2_most(&b);
		float d = avx2_extreme(&b, most, src) / -8;
		__m256 inverse = _mm256_set1_ps(inverse_of(d));
		__m256i level[4], bytes;

		if (most >= F32_INF) {
			weir__quantise_q4_0(dst, src, 1);
			continue;
		}
		put_half(dst, d);
		/* From 0 to 16; if the inverse is infinite, 2^31, whose low
		 * bits are 0. */
		for (int i = 0; i < 4; i++)
			level[i] = _mm256_and_si256(
				_mm256_cvttps_epi32(_mm256_add_ps(
					_mm256_mul_ps(b.x[i], inverse),
					_mm256_set1_ps(8.5f))),
				_mm256_set1_epi32(255));
		bytes = _mm256_min_epu8(avx2_pack(level), _mm256_set1_epi8(15));
		_mm_storeu_si128(
			(__m128i_u *)(dst + 2),
			_mm_or_si128(_mm256_castsi256_si128(bytes),
				     _mm_slli_epi16(
					     _mm256_extracti128_si256(bytes, 1),
					     4)));
	}
}

AVX512_INLINE __m512i avx512_magnitude(__m512 x)
{
	return _mm512_and_si512(_mm512_castps_si512(x),
				_mm512_set1_epi32(0x7fffffff));
}

/* This is avx2_most for vectors of 16 elements. */
AVX512_INLINE uint32_t avx512_most(__m512 x, __m512 y)
{
	__m512i both =
		_mm512_max_epi32(avx512_magnitude(x), avx512_magnitude(y));
	__m256i most = _mm256_max_epi32(_mm512_castsi512_si256(both),
					_mm512_extracti64x4_epi64(both, 1));
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128(most),
				  _mm256_extracti128_si256(most, 1));

	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(m);
}

/* Round as avx2_round does, and return the lowest bytes. */
AVX512_INLINE __m128i avx512_round(__m512 x)
{
	__m512i sign = _mm512_and_si512(_mm512_castps_si512(x),
					_mm512_set1_epi32(INT32_MIN));
	__m512i half = _mm512_or_si512(
		sign, _mm512_castps_si512(_mm512_set1_ps(BELOW_HALF)));

	return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(
		_mm512_add_ps(x, _mm512_castsi512_ps(half))));
}

AVX512_TARGET static void avx512_Q8_0(unsigned char *dst,
				      const unsigned char *src, size_t n)
{
	for (; n; n--, src += 4 * 32, dst += WEIR__BYTES_Q8_0) {
		__m512 x = _mm512_loadu_ps(src), y = _mm512_loadu_ps(src + 64);
		uint32_t most = avx512_most(x, y);
		float d = float_of(most) / 127;
		__m512 inverse = _mm512_set1_ps(inverse_of(d));

		if (most >= F32_INF) {
			weir__quantise_q8_0(dst, src, 1);
			continue;
		}
		put_half(dst, d);
		_mm_storeu_si128((__m128i_u *)(dst + 2),
				 avx512_round(_mm512_mul_ps(x, inverse)));
		_mm_storeu_si128((__m128i_u *)(dst + 18),
				 avx512_round(_mm512_mul_ps(y, inverse)));
	}
}

/* This is avx2_extreme for vectors of 16 elements. */
AVX512_INLINE float avx512_extreme(__m512 x, __m512 y, uint32_t most,
				   const unsigned char *src)
{
	__m512i bits = _mm512_set1_epi32((int)most);
	uint32_t found =
		_mm512_cmpeq_epi32_mask(avx512_magnitude(x), bits) |
		(uint32_t)_mm512_cmpeq_epi32_mask(avx512_magnitude(y), bits)
			<< 16;
	float value;

	memcpy(&value, src + 4 * __builtin_ctz(found), sizeof(value));
	return most ? value : 0;
}

/* Return the levels of 16 elements, from 0 to 15. */
AVX512_INLINE __m128i avx512_q4_0_levels(__m512 x, __m512 inverse)
{
	__m512i i = _mm512_cvttps_epi32(
		_mm512_add_ps(_mm512_mul_ps(x, inverse), _mm512_set1_ps(8.5f)));

	return _mm_min_epu8(_mm512_cvtepi32_epi8(i), _mm_set1_epi8(15));
}

AVX512_TARGET static void avx512_Q4_0(unsigned char *dst,
				      const unsigned char *src, size_t n)
{
	for (; n; n--, src += 4 * 32, dst += WEIR__BYTES_Q4_0) {
		__m512 x = _mm512_loadu_ps(src), y = _mm512_loadu_ps(src + 64);
		uint32_t most = avx512_most(x, y);
		float d = avx512_extreme(x, y, most, src) / -8;
		__m512 inverse = _mm512_set1_ps(inverse_of(d));

		if (most >= F32_INF) {
			weir__quantise_q4_0(dst, src, 1);
			continue;
		}
		put_half(dst, d);
		_mm_storeu_si128(
			(__m128i_u *)(dst + 2),
			_mm_or_si128(
				avx512_q4_0_levels(x, inverse),
				_mm_slli_epi16(avx512_q4_0_levels(y, inverse),
					       4)));
	}
}

/*
 * Round 8 elements to levels from @low to @high, and return how far they are
 * above @low. Set bits of *@bad where that is not exact.
 */
AVX2_INLINE __m256i avx2_levels(__m256 x, int low, int high, __m256i *bad)
{
	__m256i magnitude = avx2_magnitude(x);
	__m256i bits =
		_mm256_castps_si256(_mm256_add_ps(x, _mm256_set1_ps(MAGIC)));

	*bad = _mm256_or_si256(
		*bad,
		_mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x4a7fffff)));
	bits = _mm256_max_epi32(bits, _mm256_set1_epi32(MAGIC_BITS + low));
	bits = _mm256_min_epi32(bits, _mm256_set1_epi32(MAGIC_BITS + high));
	return _mm256_sub_epi32(bits, _mm256_set1_epi32(MAGIC_BITS + low));
}

AVX2_INLINE bool all_finite(const float *x, int n)
{
	__m256i most = _mm256_setzero_si256();

	for (int i = 0; i < n; i += 8)
		most = _mm256_max_epi32(most,
					avx2_magnitude(_mm256_loadu_ps(x + i)));
	most = _mm256_cmpgt_epi32(most, _mm256_set1_epi32(F32_INF - 1));
	return _mm256_testz_si256(most, most);
}

/*
 * Store a block of Q4_K, whose groups have these scales and minima. Where the
 * scale is 0 as it is stored, the levels are inverse * (x - base). Return false
 * if the levels are not exact.
 */
AVX2_INLINE bool finish_q4_k(unsigned char *dst, const float *x,
			     const float *scale, const float *min,
			     const float *inverse, const float *base)
{
	unsigned char level[256];
	struct weir__q4_k v;
	__m256i bad = _mm256_setzero_si256();

	for (int j = 0; j < 8; j++) {
		v.scale[j] = scale[j];
		v.min[j] = -min[j];
	}
	weir__q4_k_store(&v, dst);
	for (int j = 0; j < 8; j++) {
		__m256i i[4];

		for (int k = 0; k < 4; k++) {
			__m256 y = _mm256_loadu_ps(x + 32 * j + 8 * k);

			if (v.unit[j] != 0)
				y = (y + v.shift[j]) / v.unit[j];
			else
				y = inverse[j] * (y - base[j]);
			i[k] = avx2_levels(y, 0, 15, &bad);
		}
		_mm256_storeu_si256((__m256i_u *)(level + 32 * j),
				    avx2_pack(i));
	}
	weir__q4_k_pack(dst, level);
	return _mm256_testz_si256(bad, bad);
}

/*
 * Store a block of Q6_K, whose groups have the scales in @v. Where the scale is
 * 0 as it is stored, the levels are inverse * x.
 */
AVX2_INLINE bool finish_q6_k(unsigned char *dst, const float *x,
			     struct weir__q6_k *v, const float *inverse)
{
	unsigned char level[256];
	__m256i bad = _mm256_setzero_si256();

	if (!weir__q6_k_store(v, dst))
		return true;
	for (int j = 0; j < 8; j++) {
		__m256i i[4];

		for (int k = 0; k < 4; k++) {
			int group = 2 * j + k / 2;
			__m256 y = _mm256_loadu_ps(x + 32 * j + 8 * k);

			if (v->unit[group] != 0)
				y = y / v->unit[group];
			else
				y = y * inverse[group];
			i[k] = avx2_levels(y, -32, 31, &bad);
			if (v->unit[group] == 0 && inverse[group] == 0)
				i[k] = _mm256_setzero_si256();
		}
		_mm256_storeu_si256((__m256i_u *)(level + 32 * j),
				    avx2_pack(i));
	}
	weir__q6_k_pack(dst, level);
	return _mm256_testz_si256(bad, bad);
}

typedef float avx2_floats __attribute__((vector_size(32)));
typedef int32_t avx2_ints __attribute__((vector_size(32)));

AVX2_INLINE avx2_ints avx2_max_i(avx2_ints a, avx2_ints b)
{
	return (avx2_ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

AVX2_INLINE avx2_ints avx2_min_i(avx2_ints a, avx2_ints b)
{
	return (avx2_ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

AVX2_INLINE avx2_floats avx2_root(avx2_floats x)
{
	return _mm256_sqrt_ps(x);
}

AVX2_INLINE bool avx2_any(avx2_ints bits)
{
	return !_mm256_testz_si256((__m256i)bits, (__m256i)bits);
}

#define WIDTH 8
#define NAME(name) avx2_##name
#define GROUP_INLINE AVX2_INLINE
#define floats avx2_floats
#define ints avx2_ints
#include "mem/quantise_groups.inc"
#undef WIDTH
#undef NAME
#undef GROUP_INLINE
#undef floats
#undef ints

AVX2_TARGET static void avx2_Q4_K(unsigned char *dst, const unsigned char *src,
				  size_t n)
{
	avx2_blocks_q4_k(dst, src, n);
}

AVX2_TARGET static void avx2_Q6_K(unsigned char *dst, const unsigned char *src,
				  size_t n)
{
	avx2_blocks_q6_k(dst, src, n);
}

typedef float avx512_floats __attribute__((vector_size(64)));
typedef int32_t avx512_ints __attribute__((vector_size(64)));

AVX512_INLINE avx512_ints avx512_max_i(avx512_ints a, avx512_ints b)
{
	return (avx512_ints)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

AVX512_INLINE avx512_ints avx512_min_i(avx512_ints a, avx512_ints b)
{
	return (avx512_ints)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

AVX512_INLINE avx512_floats avx512_root(avx512_floats x)
{
	return _mm512_sqrt_ps(x);
}

AVX512_INLINE bool avx512_any(avx512_ints bits)
{
	return _mm512_test_epi32_mask((__m512i)bits, (__m512i)bits);
}

#define WIDTH 16
#define NAME(name) avx512_##name
#define GROUP_INLINE AVX512_INLINE
#define floats avx512_floats
#define ints avx512_ints
#include "mem/quantise_groups.inc"
#undef WIDTH
#undef NAME
#undef GROUP_INLINE
#undef floats
#undef ints

AVX512_TARGET static void avx512_Q4_K(unsigned char *dst,
				      const unsigned char *src, size_t n)
{
	size_t left = avx512_blocks_q4_k(dst, src, n);

	n -= left;
	avx2_Q4_K(dst + n * WEIR__BYTES_Q4_K, src + n * 4 * 256, left);
}

AVX512_TARGET static void avx512_Q6_K(unsigned char *dst,
				      const unsigned char *src, size_t n)
{
	avx512_blocks_q6_k(dst, src, n);
}

#define RUN(set, name)                                                     \
	static void set##_run_##name(void *dst, const void *src, size_t n) \
	{                                                                  \
		weir__fpenv env = weir__fpenv_default();                   \
                                                                           \
		set##_##name(dst, src, n);                                 \
		weir__fpenv_restore(env);                                  \
	}
#define AVX2_RUN(name) RUN(avx2, name)
#define AVX512_RUN(name) RUN(avx512, name)
WEIR__WRITTEN_QUANTS(AVX2_RUN)
WEIR__WRITTEN_QUANTS(AVX512_RUN)

#define ROW(set, name)                         \
	{ .run = set##_run_##name,             \
	  .block = WEIR__BLOCK_##name,         \
	  .src_bytes = 4 * WEIR__BLOCK_##name, \
	  .dst_bytes = WEIR__BYTES_##name,     \
	  .from = WEIR_DTYPE_F32,              \
	  .to = WEIR_DTYPE_##name },
#define AVX2_ROW(name) ROW(avx2, name)
#define AVX512_ROW(name) ROW(avx512, name)
static const struct weir_backend_convert avx2_list[] = { WEIR__WRITTEN_QUANTS(
	AVX2_ROW) };
static const struct weir_backend_convert avx512_list[] = { WEIR__WRITTEN_QUANTS(
	AVX512_ROW) };

static bool avx2_usable(void)
{
	return weir__convert_avx2.usable();
}

static bool avx512_usable(void)
{
	return weir__convert_avx512.usable();
}

const struct weir__convert_set weir__quantise_avx2 = {
	.name = "AVX2",
	.usable = avx2_usable,
	.list = avx2_list,
	.n = sizeof(avx2_list) / sizeof(avx2_list[0]),
};

const struct weir__convert_set weir__quantise_avx512 = {
	.name = "AVX-512",
	.usable = avx512_usable,
	.list = avx512_list,
	.n = sizeof(avx512_list) / sizeof(avx512_list[0]),
};
#endif
