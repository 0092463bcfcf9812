/* SPDX-License-Identifier: MIT */
/*
 * Elements of rows as they are stored: floats, and blocks of quantised dtypes,
 * which may be at any address. Each struct has the elements of a block, its
 * bytes, and element @i of it, in the same bits as the CPU has it
 * (lib/mem/quants.c): a scale times a small integer, and an offset.
 */
#ifndef WEIR__CUDA_BLOCKS_CUH
#define WEIR__CUDA_BLOCKS_CUH

#include "cuda/kernels/device.cuh"
#include "mem/dtype_table.h"

#define BLOCK(name)                                          \
	static const unsigned elements = WEIR__BLOCK_##name, \
			      bytes = WEIR__BYTES_##name

__device__ static inline float half_in(const char *at)
{
	return f16_in(bytes_in<uint16_t>(at));
}

__device__ static inline unsigned byte_in(const char *at)
{
	return (uint8_t)*at;
}

/*
 * The product is exact, of at most 11 + 6 + 5 bits: so a fused multiply-add has
 * the bits of the two operations.
 */
__device__ static inline float scaled(float scale, int q, float offset)
{
	return scale * (float)q + offset;
}

/* Nibble @i of @n bytes: their low ones, then their high ones. */
__device__ static inline unsigned nibble(const char *at, unsigned i, unsigned n)
{
	return byte_in(at + i % n) >> i / n * 4 & 15;
}

/* Element @i of 2 bits of 32 bytes: the lowest of all bytes, then the next. */
__device__ static inline unsigned pair(const char *at, unsigned i)
{
	return byte_in(at + i % 32) >> 2 * (i / 32) & 3;
}

struct block_q8_0 {
	BLOCK(Q8_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return half_in(b) * (float)(signed char)b[2 + i];
	}
};

struct block_q4_0 {
	BLOCK(Q4_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return half_in(b) * (float)((int)nibble(b + 2, i, 16) - 8);
	}
};

/*
 * The scale and the minimum of group @g of Q4_K and Q5_K, of 6 bits each, from
 * 12 bytes at @at.
 */
__device__ static inline float group_in(const char *b, const char *at,
					unsigned g, int q)
{
	const uint8_t *s = (const uint8_t *)at;
	unsigned scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
	unsigned least = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;

	return scaled(half_in(b) * (float)scale, q,
		      -(half_in(b + 2) * (float)least));
}

/* 8 groups of 32 elements, each with a scale and a minimum. */
struct block_q4_k {
	BLOCK(Q4_K);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return group_in(b, b + 4, i / 32,
				(int)nibble(b + 16 + i / 64 * 32, i % 64, 32));
	}
};

/* 16 groups of 16 elements, whose upper 2 bits are apart. */
struct block_q6_k {
	BLOCK(Q6_K);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned half = i / 128, j = i % 128;
		unsigned low = nibble(b + 64 * half, j, 64);
		unsigned high = pair(b + 128 + 32 * half, j);
		float d = half_in(b + 208) * (float)(signed char)b[192 + i / 16];

		return d * (float)((int)(low | high << 4) - 32);
	}
};

template <typename B>
__device__ static inline float block_in(const char *row, int64_t i)
{
	return B::at(row + i / B::elements * B::bytes,
		     (unsigned)(i % B::elements));
}

#endif
