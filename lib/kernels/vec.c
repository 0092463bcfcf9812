/* SPDX-License-Identifier: MIT */
/* The portable set of loops over vectors, and the choice of a set. */
#include "kernels/vec.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <stdatomic.h>
#include <string.h>

#define WIDTH 4
#define VECTORS 2
#define SWAP_PAIRS 1, 0, 3, 2
#define TARGET
#define NAME(x) base_##x
#include "kernels/vec.inc"

static bool base_usable(void)
{
	return true;
}

const struct weir__vec weir__vec_base = { .name = "portable",
					  .usable = base_usable,
					  VEC_MEMBERS };

#ifdef __x86_64__
#undef WIDTH
#undef VECTORS
#undef SWAP_PAIRS
#undef TARGET
#undef NAME
#undef VEC_MEMBERS
#define WIDTH 8
#define VECTORS 2
#define SWAP_PAIRS 1, 0, 3, 2, 5, 4, 7, 6
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define NAME(x) avx2_##x
#include "kernels/vec.inc"

static TARGET void avx2_from_f16(float *d, const void *a, size_t n)
{
	const unsigned char *p = a;
	uint16_t x[WIDTH] = { 0 };
	size_t i = 0;

	for (; i + WIDTH <= n; i += WIDTH)
		_mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(
						(const void *)(p + 2 * i))));
	if (i < n) {
		memcpy(x, p + 2 * i, (n - i) * 2);
		avx2_store_some(d + i,
				_mm256_cvtph_ps(_mm_loadu_si128((void *)x)),
				n - i);
	}
}

/*
 * __builtin_cpu_supports() also asks the kernel. Not every compiler knows
 * "f16c" there.
 */
static bool avx2_usable(void)
{
	unsigned eax, ebx, ecx = 0, edx;

	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & bit_F16C;
}

const struct weir__vec weir__vec_avx2 = { .name = "AVX2",
					  .usable = avx2_usable,
					  .from_f16 = avx2_from_f16,
					  VEC_MEMBERS };

#undef WIDTH
#undef VECTORS
#undef SWAP_PAIRS
#undef TARGET
#undef NAME
#undef VEC_MEMBERS
#define WIDTH 16
#define VECTORS 4
#define SWAP_PAIRS 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define TARGET                                 \
	__attribute__((target("avx2,fma,f16c," \
			      "avx512f,avx512bw,avx512dq,avx512vl")))
#define NAME(x) avx512_##x
#include "kernels/vec.inc"

static TARGET void avx512_from_f16(float *d, const void *a, size_t n)
{
	const unsigned char *p = a;
	uint16_t x[WIDTH] = { 0 };
	size_t i = 0;

	for (; i + WIDTH <= n; i += WIDTH)
		_mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256(
						(const void *)(p + 2 * i))));
	if (i < n) {
		memcpy(x, p + 2 * i, (n - i) * 2);
		avx512_store_some(
			d + i, _mm512_cvtph_ps(_mm256_loadu_si256((void *)x)),
			n - i);
	}
}

/*
 * True if AVX-512 is worth using: CPUs without VBMI lower their frequency for
 * it.
 */
static bool avx512_usable(void)
{
	return avx2_usable() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vbmi");
}

const struct weir__vec weir__vec_avx512 = { .name = "AVX-512",
					    .usable = avx512_usable,
					    .from_f16 = avx512_from_f16,
					    VEC_MEMBERS };
#endif

static const struct weir__vec *choose(void)
{
#ifdef __x86_64__
	if (weir__vec_avx512.usable())
		return &weir__vec_avx512;
	if (weir__vec_avx2.usable())
		return &weir__vec_avx2;
#endif
	return &weir__vec_base;
}

/* Several threads may choose at the same time: they choose the same set. */
const struct weir__vec *weir__vec(void)
{
	static const struct weir__vec *_Atomic chosen;
	const struct weir__vec *vec =
		atomic_load_explicit(&chosen, memory_order_relaxed);

	if (!vec) {
		vec = choose();
		atomic_store_explicit(&chosen, vec, memory_order_relaxed);
	}
	return vec;
}
