/* SPDX-License-Identifier: MIT */
/*
 * Conversion of elements by AVX2 and F16C, 8 at a time, or AVX-512, 16 at a
 * time: a source is decoded to F32, which is exact, and encoded. F64, F8_E8M0
 * and the FNUZ formats, which are rare in files, have only the portable
 * kernels.
 *
 * Some of the instructions depend on MXCSR (traps, denormals-are-zero) and set
 * flags in it, so it has its default value while a kernel runs.
 */
#include "mem/convert.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>

#include <weir/tensor.h>

#include "mem/fpenv.h"

#define AVX2_TARGET __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline AVX2_TARGET __attribute__((always_inline))
#define AVX2_WIDTH 8
#define AVX512_TARGET \
	__attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl")))
#define AVX512_INLINE static inline AVX512_TARGET __attribute__((always_inline))
#define AVX512_WIDTH 16

AVX2_INLINE __m256 avx2_from_f32(const void *src)
{
	return _mm256_loadu_ps(src);
}

AVX2_INLINE __m256 avx2_from_f16(const void *src)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(src));
}

AVX2_INLINE __m256 avx2_from_bf16(const void *src)
{
	__m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(src));
	__m256i y = _mm256_slli_epi32(x, 16);
	__m256 nan = _mm256_cmp_ps(_mm256_castsi256_ps(y),
				   _mm256_castsi256_ps(y), _CMP_UNORD_Q);
	__m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(0x00400000));

	return _mm256_or_ps(_mm256_castsi256_ps(y), _mm256_and_ps(nan, quiet));
}

/* E5M2 is the upper half of an F16. */
AVX2_INLINE __m256 avx2_from_e5m2(const void *src)
{
	__m128i x = _mm_cvtepu8_epi16(_mm_loadl_epi64(src));

	return _mm256_cvtph_ps(_mm_slli_epi16(x, 8));
}

/*
 * The bits of an E4M3, moved into those of an F16, are a value that is 2^8 too
 * small, since the biases are 7 and 15. E4M3's NaN becomes 1.875 there, which
 * no other element does.
 */
AVX2_INLINE __m256 avx2_from_e4m3(const void *src)
{
	__m128i x = _mm_cvtepi8_epi16(_mm_loadl_epi64(src));
	__m128i y = _mm_and_si128(_mm_slli_epi16(x, 7),
				  _mm_set1_epi16((short)0xbf80));
	__m128i mag = _mm_and_si128(y, _mm_set1_epi16(0x7fff));
	__m128i nan = _mm_cmpeq_epi16(mag, _mm_set1_epi16(0x3f80));

	/* 0x3f80 becomes 0x7e00, F16's NaN. */
	y = _mm_xor_si128(y, _mm_and_si128(nan, _mm_set1_epi16(0x4180)));
	return _mm256_mul_ps(_mm256_cvtph_ps(y), _mm256_set1_ps(256));
}

AVX2_INLINE void avx2_to_f32(void *dst, __m256 x)
{
	_mm256_storeu_ps(dst, x);
}

AVX2_INLINE void avx2_to_f16(void *dst, __m256 x)
{
	_mm_storeu_si128(dst, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* The instructions for BF16 flush subnormals to zero, so they are not used. */
AVX2_INLINE void avx2_to_bf16(void *dst, __m256 value)
{
	__m256i x = _mm256_castps_si256(value);
	__m256i high = _mm256_srli_epi32(x, 16);
	__m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
	__m256i sum = _mm256_add_epi32(
		_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd);
	__m256i nan =
		_mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
	__m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
	__m256i y = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);

	_mm_storeu_si128(dst, _mm_packus_epi32(_mm256_castsi256_si128(y),
					       _mm256_extracti128_si256(y, 1)));
}

/* Convert without rounding elements whose mantissa has at most 7 bits. */
AVX2_INLINE void avx2_to_bf16_exact(void *dst, __m256 value)
{
	__m256i y = _mm256_srli_epi32(_mm256_castps_si256(value), 16);

	_mm_storeu_si128(dst, _mm_packus_epi32(_mm256_castsi256_si128(y),
					       _mm256_extracti128_si256(y, 1)));
}

AVX512_INLINE __m512 avx512_from_f32(const void *src)
{
	return _mm512_loadu_ps(src);
}

AVX512_INLINE __m512 avx512_from_f16(const void *src)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256(src));
}

AVX512_INLINE __m512 avx512_from_bf16(const void *src)
{
	__m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(src));
	__m512i y = _mm512_slli_epi32(x, 16);
	__mmask16 nan = _mm512_cmp_ps_mask(
		_mm512_castsi512_ps(y), _mm512_castsi512_ps(y), _CMP_UNORD_Q);

	return _mm512_castsi512_ps(
		_mm512_mask_or_epi32(y, nan, y, _mm512_set1_epi32(0x00400000)));
}

AVX512_INLINE __m512 avx512_from_e5m2(const void *src)
{
	__m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128(src));

	return _mm512_cvtph_ps(_mm256_slli_epi16(x, 8));
}

/* This is avx2_from_e4m3 for 16 elements. */
AVX512_INLINE __m512 avx512_from_e4m3(const void *src)
{
	__m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128(src));
	__m256i y = _mm256_and_si256(_mm256_slli_epi16(x, 7),
				     _mm256_set1_epi16((short)0xbf80));
	__m256i mag = _mm256_and_si256(y, _mm256_set1_epi16(0x7fff));
	__m256i nan = _mm256_cmpeq_epi16(mag, _mm256_set1_epi16(0x3f80));

	y = _mm256_xor_si256(y,
			     _mm256_and_si256(nan, _mm256_set1_epi16(0x4180)));
	return _mm512_mul_ps(_mm512_cvtph_ps(y), _mm512_set1_ps(256));
}

AVX512_INLINE void avx512_to_f32(void *dst, __m512 x)
{
	_mm512_storeu_ps(dst, x);
}

AVX512_INLINE void avx512_to_f16(void *dst, __m512 x)
{
	_mm256_storeu_si256(dst, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* This is avx2_to_bf16 for 16 elements. */
AVX512_INLINE void avx512_to_bf16(void *dst, __m512 value)
{
	__m512i x = _mm512_castps_si512(value);
	__m512i high = _mm512_srli_epi32(x, 16);
	__m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
	__m512i sum = _mm512_add_epi32(
		_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd);
	__mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
	__m512i y = _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), nan, high,
					 _mm512_set1_epi32(0x40));

	_mm256_storeu_si256(dst, _mm512_cvtepi32_epi16(y));
}

/* This is avx2_to_bf16_exact for 16 elements. */
AVX512_INLINE void avx512_to_bf16_exact(void *dst, __m512 value)
{
	__m512i y = _mm512_srli_epi32(_mm512_castps_si512(value), 16);

	_mm256_storeu_si256(dst, _mm512_cvtepi32_epi16(y));
}

/*
 * Each line is one conversion: the two dtypes, the bytes of both, the decoder
 * and the encoder.
 */
#define CONVERSIONS(X, set, SET)                           \
	X(set, SET, F32, F16, 4, 2, f32, f16)              \
	X(set, SET, F32, BF16, 4, 2, f32, bf16)            \
	X(set, SET, F16, F32, 2, 4, f16, f32)              \
	X(set, SET, F16, BF16, 2, 2, f16, bf16)            \
	X(set, SET, BF16, F32, 2, 4, bf16, f32)            \
	X(set, SET, BF16, F16, 2, 2, bf16, f16)            \
	X(set, SET, F8_E5M2, F32, 1, 4, e5m2, f32)         \
	X(set, SET, F8_E5M2, F16, 1, 2, e5m2, f16)         \
	X(set, SET, F8_E5M2, BF16, 1, 2, e5m2, bf16_exact) \
	X(set, SET, F8_E4M3, F32, 1, 4, e4m3, f32)         \
	X(set, SET, F8_E4M3, F16, 1, 2, e4m3, f16)         \
	X(set, SET, F8_E4M3, BF16, 1, 2, e4m3, bf16_exact)

/* The last elements are converted in a copy that fills a whole vector. */
#define KERNEL(set, SET, from_, to_, src_bytes_, dst_bytes_, decoder, encoder) \
	static SET##_TARGET void set##_##from_##_##to_(                        \
		void *restrict dst, const void *restrict src, size_t n)        \
	{                                                                      \
		unsigned char *restrict out = dst;                             \
		const unsigned char *restrict in = src;                        \
		unsigned char x[SET##_WIDTH * src_bytes_] = { 0 };             \
		unsigned char y[SET##_WIDTH * dst_bytes_];                     \
		weir__fpenv env = weir__fpenv_default();                       \
                                                                               \
		for (; n >= SET##_WIDTH; n -= SET##_WIDTH) {                   \
			set##_to_##encoder(out, set##_from_##decoder(in));     \
			in += SET##_WIDTH * src_bytes_;                        \
			out += SET##_WIDTH * dst_bytes_;                       \
		}                                                              \
		if (n) {                                                       \
			memcpy(x, in, n *src_bytes_);                          \
			set##_to_##encoder(y, set##_from_##decoder(x));        \
			memcpy(out, y, n *dst_bytes_);                         \
		}                                                              \
		weir__fpenv_restore(env);                                      \
	}
CONVERSIONS(KERNEL, avx2, AVX2)
CONVERSIONS(KERNEL, avx512, AVX512)

#define ROW(set, SET, from_, to_, src_bytes_, dst_bytes_, decoder, encoder) \
	{ .run = set##_##from_##_##to_,                                     \
	  .block = 1,                                                       \
	  .src_bytes = src_bytes_,                                          \
	  .dst_bytes = dst_bytes_,                                          \
	  .from = WEIR_DTYPE_##from_,                                       \
	  .to = WEIR_DTYPE_##to_ },
static const struct weir_backend_convert avx2_list[] = { CONVERSIONS(ROW, avx2,
								     AVX2) };
static const struct weir_backend_convert avx512_list[] = { CONVERSIONS(
	ROW, avx512, AVX512) };

/*
 * Not every compiler accepts "f16c" in __builtin_cpu_supports, which also asks
 * the kernel. The CPU is asked only once, since that takes many microseconds in
 * a virtual machine.
 */
static bool avx2_usable(void)
{
	static _Atomic int known; /* 0 not yet, 1 no, 2 yes */
	unsigned eax, ebx, ecx = 0, edx;
	bool usable;

	if (atomic_load_explicit(&known, memory_order_relaxed))
		return atomic_load_explicit(&known, memory_order_relaxed) == 2;
	__builtin_cpu_init();
	usable = __builtin_cpu_supports("avx2") &&
		 __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & bit_F16C;
	atomic_store_explicit(&known, usable ? 2 : 1, memory_order_relaxed);
	return usable;
}

/* CPUs without VBMI lower their frequency for AVX-512. */
static bool avx512_usable(void)
{
	return avx2_usable() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vbmi");
}

const struct weir__convert_set weir__convert_avx2 = {
	.name = "AVX2",
	.usable = avx2_usable,
	.list = avx2_list,
	.n = sizeof(avx2_list) / sizeof(avx2_list[0]),
};

const struct weir__convert_set weir__convert_avx512 = {
	.name = "AVX-512",
	.usable = avx512_usable,
	.list = avx512_list,
	.n = sizeof(avx512_list) / sizeof(avx512_list[0]),
};
#endif
