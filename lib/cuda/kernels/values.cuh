/* SPDX-License-Identifier: MIT */
/*
 * Dtypes whose elements select one of 16 values by 4 bits: the values, and the
 * scales of FP4.
 */
#ifndef WEIR__CUDA_VALUES_CUH
#define WEIR__CUDA_VALUES_CUH

#include "cuda/kernels/device.cuh"

/* 4 bits select one of 16 values, the bytes of two words. */
__device__ static inline int value_of(uint64_t low, uint64_t high, unsigned q)
{
	return (signed char)((q < 8 ? low : high) >> 8 * (q % 8));
}

/* -127 -104 -83 -65 -49 -35 -22 -10, 1 13 25 38 53 69 89 113. */
#define IQ4_FIRST 0xf6eaddcfbfad9881
#define IQ4_LAST 0x7159453526190d01
/* Twice the values of E2M1: 0 1 2 3 4 6 8 12, and these with a sign. */
#define FP4_FIRST 0x0c08060403020100
#define FP4_LAST 0xf4f8fafcfdfeff00

__device__ static inline int iq4_value(unsigned q)
{
	return value_of(IQ4_FIRST, IQ4_LAST, q);
}

__device__ static inline int fp4_value(unsigned q)
{
	return value_of(FP4_FIRST, FP4_LAST, q);
}

__device__ static inline uint32_t permute(uint32_t low, uint32_t high,
					  uint32_t which)
{
	uint32_t v;

	asm("prmt.b32 %0, %1, %2, %3;"
	    : "=r"(v)
	    : "r"(low), "r"(high), "r"(which));
	return v;
}

/*
 * The values of the low and of the high four bits of each byte of @w. A
 * permutation takes four numbers of three bits, from the low half of a word;
 * the fourth bits then select from its result with either half of the table.
 */
__device__ static inline void values_in(uint64_t first, uint64_t last,
					uint32_t w, int *low, int *high)
{
	uint32_t three = w & 0x77777777;
	uint32_t fourth = (w >> 1 & 0x44444444) | 0x32103210;
	uint32_t v[2];

#pragma unroll
	for (int i = 0; i < 2; i++) {
		uint32_t a = permute((uint32_t)first, (uint32_t)(first >> 32),
				     three >> 16 * i);
		uint32_t b = permute((uint32_t)last, (uint32_t)(last >> 32),
				     three >> 16 * i);

		v[i] = permute(a, b, fourth >> 16 * i);
	}
	*low = (int)permute(v[0], v[1], 0x6420);
	*high = (int)permute(v[0], v[1], 0x7531);
}

/* Half of E8M0. */
__device__ static inline float e8m0_half(unsigned e)
{
	return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* Half of E4M3 without sign; 0x7f is 0. */
__device__ static inline float e4m3_half(unsigned x)
{
	unsigned e = x >> 3 & 15;
	float v = e ? __uint_as_float((e + 119) << 23 | (x & 7) << 20)
		    : (float)(x & 7) * 0x1p-10f;

	return x == 0x7f ? 0 : v;
}

#endif
