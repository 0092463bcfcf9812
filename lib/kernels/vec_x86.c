/* SPDX-License-Identifier: MIT */
/* Loops over vectors with AVX2, and with AVX-512. */
#include "kernels/vec.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#define LANES 8
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define NAME(x) avx2_##x
#include "kernels/vec.inc"

/* Not every compiler knows "f16c" here; cpu_supports also asks the kernel. */
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
					  VEC_MEMBERS };

#undef LANES
#undef TARGET
#undef NAME
#undef VEC_MEMBERS
#define LANES 16
#define TARGET                   \
	__attribute__((target(   \
		"avx2,fma,f16c," \
		"avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#define NAME(x) avx512_##x
#include "kernels/vec.inc"

/* CPUs without VBMI lower their frequency for AVX-512. */
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
					    VEC_MEMBERS };
#endif
