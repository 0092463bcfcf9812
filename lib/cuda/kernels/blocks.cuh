/* SPDX-License-Identifier: MIT */
/*
 * Elements of rows as they are stored: floats, and blocks of quantised dtypes,
 * which may be at any address. Each struct has the elements of a block, its
 * bytes, and element @i of it.
 */
#ifndef WEIR__CUDA_BLOCKS_CUH
#define WEIR__CUDA_BLOCKS_CUH

#include "cuda/kernels/device.cuh"

struct block_q8_0 {
	static const unsigned elements = 32, bytes = 34;

	__device__ static inline float at(const char *b, unsigned i)
	{
		return f16_in(bytes_in<uint16_t>(b)) *
		       (float)(signed char)b[2 + i];
	}
};

struct block_q4_0 {
	static const unsigned elements = 32, bytes = 18;

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned q = (uint8_t)b[2 + i % 16];

		return f16_in(bytes_in<uint16_t>(b)) *
		       (float)((int)(i < 16 ? q & 15 : q >> 4) - 8);
	}
};

/* 8 groups of 32 elements, each with a scale and a minimum of 6 bits. */
struct block_q4_k {
	static const unsigned elements = 256, bytes = 144;

	__device__ static inline float at(const char *b, unsigned i)
	{
		const uint8_t *s = (const uint8_t *)b + 4;
		unsigned g = i / 32, q = (uint8_t)b[16 + i / 64 * 32 + i % 32];
		unsigned scale = g < 4 ? s[g] & 63
				       : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
		unsigned least = g < 4 ? s[g + 4] & 63
				       : s[g + 4] >> 4 | s[g] >> 6 << 4;

		q = g % 2 ? q >> 4 : q & 15;
		return f16_in(bytes_in<uint16_t>(b)) * (float)scale * (float)q -
		       f16_in(bytes_in<uint16_t>(b + 2)) * (float)least;
	}
};

/* 16 groups of 16 elements, whose upper 2 bits are apart. */
struct block_q6_k {
	static const unsigned elements = 256, bytes = 210;

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned half = i / 128, j = i % 128, low, high;
		const uint8_t *ql = (const uint8_t *)b + 64 * half;
		const uint8_t *qh = (const uint8_t *)b + 128 + 32 * half;
		int scale = (signed char)b[192 + i / 16];

		low = ql[j % 64];
		low = j < 64 ? low & 15 : low >> 4;
		high = qh[j % 32] >> 2 * (j / 32) & 3;
		return f16_in(bytes_in<uint16_t>(b + 208)) * (float)scale *
		       (float)((int)(low | high << 4) - 32);
	}
};

template <typename B>
__device__ static inline float block_in(const char *row, int64_t i)
{
	return B::at(row + i / B::elements * B::bytes,
		     (unsigned)(i % B::elements));
}

/* Element @i of a row of any of these dtypes. */
__device__ static inline float stored_in(const operand &t, const char *row,
					 int64_t i)
{
	switch (t.dtype) {
	case WEIR_DTYPE_Q8_0:
		return block_in<block_q8_0>(row, i);
	case WEIR_DTYPE_Q4_0:
		return block_in<block_q4_0>(row, i);
	case WEIR_DTYPE_Q4_K:
		return block_in<block_q4_k>(row, i);
	case WEIR_DTYPE_Q6_K:
		return block_in<block_q6_k>(row, i);
	default:
		return element_in(t, row + i * t.stride[0]);
	}
}

#endif
