/* SPDX-License-Identifier: MIT */
/*
 * Conversion of elements by AVX2 and F16C, eight at a time: a source is decoded
 * to F32, which is exact, and encoded. F64, and formats of scales and of one
 * vendor's devices, have only the portable kernels.
 *
 * Some of the instructions depend on MXCSR (traps, denormals-are-zero) and set
 * flags in it, so it has its default value while a kernel runs.
 */
#include "mem/convert.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#include <weir/tensor.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE static inline AVX2 __attribute__((always_inline))

#define LANES 8
#define MXCSR_DEFAULT 0x1f80u

static uint32_t mxcsr_default(void)
{
	uint32_t old, mxcsr = MXCSR_DEFAULT;

	__asm__ volatile("stmxcsr %0" : "=m"(old));
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
	return old;
}

static void mxcsr_restore(uint32_t old)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(old) : "memory");
}

INLINE __m256 decode_f32(const void *src)
{
	return _mm256_loadu_ps(src);
}

INLINE __m256 decode_f16(const void *src)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(src));
}

INLINE __m256 decode_bf16(const void *src)
{
	__m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(src));
	__m256i y = _mm256_slli_epi32(x, 16);
	__m256 nan = _mm256_cmp_ps(_mm256_castsi256_ps(y),
				   _mm256_castsi256_ps(y), _CMP_UNORD_Q);
	__m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(0x00400000));

	return _mm256_or_ps(_mm256_castsi256_ps(y), _mm256_and_ps(nan, quiet));
}

/* E5M2 is the upper half of an F16. */
INLINE __m256 decode_e5m2(const void *src)
{
	__m128i x = _mm_cvtepu8_epi16(_mm_loadl_epi64(src));

	return _mm256_cvtph_ps(_mm_slli_epi16(x, 8));
}

/*
 * Moved into the bits of an F16 the value is 2^8 too small, since the biases
 * are 7 and 15. E4M3's NaN becomes 1.875 there, which no other element is.
 */
INLINE __m256 decode_e4m3(const void *src)
{
	__m128i x = _mm_cvtepi8_epi16(_mm_loadl_epi64(src));
	__m128i y = _mm_and_si128(_mm_slli_epi16(x, 7),
				  _mm_set1_epi16((short)0xbf80));
	__m128i mag = _mm_and_si128(y, _mm_set1_epi16(0x7fff));
	__m128i nan = _mm_cmpeq_epi16(mag, _mm_set1_epi16(0x3f80));

	/* 0x3f80 to 0x7e00, F16's NaN */
	y = _mm_xor_si128(y, _mm_and_si128(nan, _mm_set1_epi16(0x4180)));
	return _mm256_mul_ps(_mm256_cvtph_ps(y), _mm256_set1_ps(256));
}

INLINE void encode_f32(void *dst, __m256 x)
{
	_mm256_storeu_ps(dst, x);
}

INLINE void encode_f16(void *dst, __m256 x)
{
	_mm_storeu_si128(dst, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Not by instructions for BF16, which flush subnormals to zero. */
INLINE void encode_bf16(void *dst, __m256 value)
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

/* Without rounding, for sources whose mantissa has at most 7 bits. */
INLINE void encode_bf16_exact(void *dst, __m256 value)
{
	__m256i y = _mm256_srli_epi32(_mm256_castps_si256(value), 16);

	_mm_storeu_si128(dst, _mm_packus_epi32(_mm256_castsi256_si128(y),
					       _mm256_extracti128_si256(y, 1)));
}

/* One conversion a line: from, to, the bytes of both, decoder, encoder. */
#define CONVERSIONS(X)                           \
	X(F32, F16, 4, 2, f32, f16)              \
	X(F32, BF16, 4, 2, f32, bf16)            \
	X(F16, F32, 2, 4, f16, f32)              \
	X(F16, BF16, 2, 2, f16, bf16)            \
	X(BF16, F32, 2, 4, bf16, f32)            \
	X(BF16, F16, 2, 2, bf16, f16)            \
	X(F8_E5M2, F32, 1, 4, e5m2, f32)         \
	X(F8_E5M2, F16, 1, 2, e5m2, f16)         \
	X(F8_E5M2, BF16, 1, 2, e5m2, bf16_exact) \
	X(F8_E4M3, F32, 1, 4, e4m3, f32)         \
	X(F8_E4M3, F16, 1, 2, e4m3, f16)         \
	X(F8_E4M3, BF16, 1, 2, e4m3, bf16_exact)

/* The last elements are converted in a copy that has all lanes. */
#define KERNEL(from_, to_, src_bytes_, dst_bytes_, decoder, encoder)       \
	static AVX2 void from_##_##to_(void *restrict dst,                 \
				       const void *restrict src, size_t n) \
	{                                                                  \
		unsigned char *restrict out = dst;                         \
		const unsigned char *restrict in = src;                    \
		unsigned char x[LANES * src_bytes_] = { 0 };               \
		unsigned char y[LANES * dst_bytes_];                       \
		uint32_t mxcsr = mxcsr_default();                          \
                                                                           \
		for (; n >= LANES; n -= LANES) {                           \
			encode_##encoder(out, decode_##decoder(in));       \
			in += LANES * src_bytes_;                          \
			out += LANES * dst_bytes_;                         \
		}                                                          \
		if (n) {                                                   \
			memcpy(x, in, n *src_bytes_);                      \
			encode_##encoder(y, decode_##decoder(x));          \
			memcpy(out, y, n *dst_bytes_);                     \
		}                                                          \
		mxcsr_restore(mxcsr);                                      \
	}
CONVERSIONS(KERNEL)

#define ROW(from_, to_, src_bytes_, dst_bytes_, decoder, encoder)    \
	{ from_##_##to_, src_bytes_, dst_bytes_, WEIR_DTYPE_##from_, \
	  WEIR_DTYPE_##to_ },
static const struct weir__convert list[] = { CONVERSIONS(ROW) };

/* Not every compiler knows "f16c" here; cpu_supports also asks the kernel. */
static bool avx2_usable(void)
{
	unsigned eax, ebx, ecx = 0, edx;

	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") &&
	       __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & bit_F16C;
}

const struct weir__convert_set weir__convert_avx2 = {
	.name = "AVX2",
	.usable = avx2_usable,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};
#endif
