/* SPDX-License-Identifier: MIT */
/*
 * The other quantised dtypes, as blocks.cuh has the most used ones, and elements
 * of rows of any of them.
 */
#ifndef WEIR__CUDA_QUANTS_CUH
#define WEIR__CUDA_QUANTS_CUH

#include "cuda/kernels/blocks.cuh"
#include "cuda/kernels/values.cuh"

#define WEIR__GRID(name, n) __device__ static const uint16_t grid_##name[n]
#include "mem/quants_grids.inc"

struct block_q4_1 {
	BLOCK(Q4_1);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return scaled(half_in(b), (int)nibble(b + 4, i, 16),
			      half_in(b + 2));
	}
};

/* The fifth bits are those of a word. */
__device__ static inline unsigned five_bits(const char *low, const char *high,
					    unsigned i)
{
	return nibble(low, i, 16) | (bytes_in<uint32_t>(high) >> i & 1) << 4;
}

struct block_q5_0 {
	BLOCK(Q5_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return half_in(b) *
		       (float)((int)five_bits(b + 6, b + 2, i) - 16);
	}
};

struct block_q5_1 {
	BLOCK(Q5_1);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return scaled(half_in(b), (int)five_bits(b + 8, b + 4, i),
			      half_in(b + 2));
	}
};

struct block_q8_1 {
	BLOCK(Q8_1);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return half_in(b) * (float)(signed char)b[4 + i];
	}
};

struct block_q8_k {
	BLOCK(Q8_K);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return __uint_as_float(bytes_in<uint32_t>(b)) *
		       (float)(signed char)b[4 + i];
	}
};

struct block_q1_0 {
	BLOCK(Q1_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return half_in(b) *
		       (float)(int)(byte_in(b + 2 + i / 8) >> i % 8 & 1 ? 1 : -1);
	}
};

struct block_q2_0 {
	BLOCK(Q2_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned q = byte_in(b + 2 + i / 4) >> 2 * (i % 4) & 3;

		return half_in(b) * (float)((int)q - 1);
	}
};

/* 32, 16 and 4 bytes with 5, 5 and 4 digits of base 3 each. */
struct block_tq1_0 {
	BLOCK(TQ1_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned first = i < 160 ? 0 : i < 240 ? 160 : 240;
		unsigned width = i < 160 ? 32 : i < 240 ? 16 : 4;
		const char *from = b + (i < 160 ? 0 : i < 240 ? 32 : 48);
		unsigned digit = (i - first) / width, rest;

		rest = byte_in(from + (i - first) % width);
		rest *= digit == 0   ? 1
			: digit == 1 ? 3
			: digit == 2 ? 9
			: digit == 3 ? 27
				     : 81;
		return half_in(b + 52) *
		       (float)((int)((rest & 255) * 3 >> 8) - 1);
	}
};

struct block_tq2_0 {
	BLOCK(TQ2_0);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned q = pair(b + i / 128 * 32, i % 128);

		return half_in(b + 64) * (float)((int)q - 1);
	}
};

struct block_iq4_nl {
	BLOCK(IQ4_NL);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return half_in(b) * (float)iq4_value(nibble(b + 2, i, 16));
	}
};

/* Scales of 6 bits: the high two in 16 bits, then the low four. */
struct block_iq4_xs {
	BLOCK(IQ4_XS);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned g = i / 32;
		unsigned scale = byte_in(b + 4 + g / 2) >> g % 2 * 4 & 15;

		scale |= (bytes_in<uint16_t>(b + 2) >> 2 * g & 3u) << 4;
		return half_in(b) * (float)((int)scale - 32) *
		       (float)iq4_value(nibble(b + 8 + 16 * g, i % 32, 16));
	}
};

/* The scale, an E8M0, is halved, since the values are doubled. */
struct block_mxfp4 {
	BLOCK(MXFP4);

	__device__ static inline float at(const char *b, unsigned i)
	{
		return e8m0_half(byte_in(b)) *
		       (float)fp4_value(nibble(b + 1, i, 16));
	}
};

/* 4 scales of E4M3 without sign, halved; 0x7f is 0. */
struct block_nvfp4 {
	BLOCK(NVFP4);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned g = i / 16;

		return e4m3_half(byte_in(b + g)) *
		       (float)fp4_value(nibble(b + 4 + 8 * g, i % 16, 8));
	}
};

struct block_q2_k {
	BLOCK(Q2_K);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned s = byte_in(b + i / 16);

		return scaled(half_in(b + 80) * (float)(s & 15),
			      (int)pair(b + 16 + i / 128 * 32, i % 128),
			      -(half_in(b + 82) * (float)(s >> 4)));
	}
};

/* The low nibbles of 16 scales, then their high two bits; elements of 3 bits. */
struct block_q3_k {
	BLOCK(Q3_K);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned g = i / 16;
		unsigned low = byte_in(b + 96 + g % 8) >> g / 8 * 4 & 15;
		unsigned high = byte_in(b + 104 + g % 4) >> g / 4 * 2 & 3;
		unsigned q = pair(b + 32 + i / 128 * 32, i % 128);

		q |= (byte_in(b + i % 32) >> i / 32 & 1) << 2;
		return half_in(b + 108) *
		       (float)((int)(low | high << 4) - 32) *
		       (float)((int)q - 4);
	}
};

struct block_q5_k {
	BLOCK(Q5_K);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned q = nibble(b + 48 + i / 64 * 32, i % 64, 32);

		q |= (byte_in(b + 16 + i % 32) >> i / 32 & 1) << 4;
		return group_in(b, b + 4, i / 32, (int)q);
	}
};

/*
 * IQ1, IQ2 and IQ3: a number selects a point of a grid, which is 4 or 8
 * elements. IQ2 and IQ3 store the signs of the elements separately, sometimes
 * without the eighth, which makes the number of negative ones even.
 */
__device__ static inline unsigned even_signs(unsigned x)
{
	return x | (__popc(x) & 1u) << 7;
}

/* Element @i of 8 of a point of IQ2, with its sign. */
__device__ static inline float iq2_value(unsigned point, unsigned signs,
					 unsigned i)
{
	int k = (int)(point >> 2 * i & 3), q = 8 + 17 * k + (k >> 1);

	return (float)(signs >> i & 1 ? -q : q);
}

/* A scale of IQ2 or IQ3_XXS, of 4 bits. */
__device__ static inline float odd_scale(float d, unsigned x)
{
	return d * (0.5f + (float)(x & 15));
}

/* 32 elements have 4 numbers, then 4 times 7 signs and a scale. */
struct block_iq2_xxs {
	BLOCK(IQ2_XXS);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned j = i / 8;
		const char *at = b + 2 + j / 4 * 8;
		uint32_t rest = bytes_in<uint32_t>(at + 4);

		return odd_scale(half_in(b) * 0.25f, rest >> 28) *
		       iq2_value(grid_iq2_xxs[byte_in(at + j % 4)],
				 even_signs(rest >> j % 4 * 7 & 127), i % 8);
	}
};

/* 9 bits of the number, 7 signs; the scales, of 16 elements, are at the end. */
struct block_iq2_xs {
	BLOCK(IQ2_XS);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned own = bytes_in<uint16_t>(b + 2 + i / 8 * 2);

		return odd_scale(half_in(b) * 0.25f,
				 byte_in(b + 66 + i / 32) >> i / 16 % 2 * 4) *
		       iq2_value(grid_iq2_xs[own & 511], even_signs(own >> 9),
				 i % 8);
	}
};

/* 8 bits of 32 numbers, 8 signs of each, two more bits of each, scales. */
struct block_iq2_s {
	BLOCK(IQ2_S);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned j = i / 8;
		unsigned high = byte_in(b + 66 + j / 4) >> j % 4 * 2 & 3;

		return odd_scale(half_in(b) * 0.25f,
				 byte_in(b + 74 + i / 32) >> i / 16 % 2 * 4) *
		       iq2_value(grid_iq2_s[byte_in(b + 2 + j) | high << 8],
				 byte_in(b + 34 + j), i % 8);
	}
};

/* 64 numbers; then for 32 elements 4 times 7 signs and a scale. */
struct block_iq3_xxs {
	BLOCK(IQ3_XXS);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned j = i / 8;
		uint32_t rest = bytes_in<uint32_t>(b + 66 + j / 4 * 4);
		unsigned signs = even_signs(rest >> j % 4 * 7 & 127);
		unsigned point = grid_iq3_xxs[byte_in(b + 2 + i / 4)];
		int k = (int)(point >> 3 * (i % 4) & 7);
		int q = 4 + 8 * k + ((k + 1) >> 2 & 2);

		return odd_scale(half_in(b) * 0.5f, rest >> 28) *
		       (float)(signs >> i % 8 & 1 ? -q : q);
	}
};

/* 8 bits of 64 numbers, the ninth of each, signs, scales of 32 elements. */
struct block_iq3_s {
	BLOCK(IQ3_S);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned high = byte_in(b + 66 + i / 32) >> i / 4 % 8 & 1;
		unsigned scale = byte_in(b + 106 + i / 64) >> i / 32 % 2 * 4;
		unsigned point =
			grid_iq3_s[byte_in(b + 2 + i / 4) | high << 8];
		int q = 1 + 2 * (int)(point >> 3 * (i % 4) & 7);

		return half_in(b) * (float)(2 * (scale & 15) + 1) *
		       (float)(byte_in(b + 74 + i / 8) >> i % 8 & 1 ? -q : q);
	}
};

/* 8 times element @i of a point, and 1 or -1; the scale is an eighth. */
__device__ static inline float iq1_value(unsigned point, unsigned minus,
					 unsigned i)
{
	int k = (int)(point >> 2 * i & 3);

	return (float)(8 * (k - 1) + (minus & 1 ? -1 : 1));
}

__device__ static inline float iq1_scale(float half, unsigned x)
{
	return half * 0.125f * (float)(2 * (x & 7) + 1);
}

/* 8 bits of 32 numbers; for 4 of them 3 more bits each, a scale, the sign. */
struct block_iq1_s {
	BLOCK(IQ1_S);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned j = i / 8;
		unsigned rest = bytes_in<uint16_t>(b + 34 + j / 4 * 2);
		unsigned high = rest >> j % 4 * 3 & 7;

		return iq1_scale(half_in(b), rest >> 12) *
		       iq1_value(grid_iq1[byte_in(b + 2 + j) | high << 8],
				 rest >> 15, i % 8);
	}
};

/*
 * 8 bits of 32 numbers; for each 3 more bits and the sign; 4 times 4 scales of
 * 3 bits with 4 bits of the block's scale.
 */
struct block_iq1_m {
	BLOCK(IQ1_M);

	__device__ static inline float at(const char *b, unsigned i)
	{
		unsigned j = i / 8, g = i / 16, bits = 0;
		unsigned rest = byte_in(b + 32 + j / 2) >> j % 2 * 4;

#pragma unroll
		for (unsigned k = 0; k < 4; k++)
			bits |= byte_in(b + 49 + 2 * k) >> 4 << 4 * k;
		return iq1_scale(f16_in((uint16_t)bits),
				 bytes_in<uint16_t>(b + 48 + g / 4 * 2) >>
					 g % 4 * 3) *
		       iq1_value(grid_iq1[byte_in(b + j) | (rest & 7) << 8],
				 rest >> 3, i % 8);
	}
};

/* Element @i of a row of any dtype of weights. */
__device__ static inline float stored_in(const operand &t, const char *row,
					 int64_t i)
{
#define CASE(name, block)         \
	case WEIR_DTYPE_##name: \
		return block_in<block_##block>(row, i);
	switch (t.dtype) {
	CASE(Q8_0, q8_0)
	CASE(Q4_0, q4_0)
	CASE(Q4_K, q4_k)
	CASE(Q6_K, q6_k)
	CASE(Q4_1, q4_1)
	CASE(Q5_0, q5_0)
	CASE(Q5_1, q5_1)
	CASE(Q8_1, q8_1)
	CASE(Q8_K, q8_k)
	CASE(Q1_0, q1_0)
	CASE(Q2_0, q2_0)
	CASE(TQ1_0, tq1_0)
	CASE(TQ2_0, tq2_0)
	CASE(IQ4_NL, iq4_nl)
	CASE(IQ4_XS, iq4_xs)
	CASE(MXFP4, mxfp4)
	CASE(NVFP4, nvfp4)
	CASE(Q2_K, q2_k)
	CASE(Q3_K, q3_k)
	CASE(Q5_K, q5_k)
	CASE(IQ2_XXS, iq2_xxs)
	CASE(IQ2_XS, iq2_xs)
	CASE(IQ2_S, iq2_s)
	CASE(IQ3_XXS, iq3_xxs)
	CASE(IQ3_S, iq3_s)
	CASE(IQ1_S, iq1_s)
	CASE(IQ1_M, iq1_m)
	default:
		return element_in(t, row + i * t.stride[0]);
	}
#undef CASE
}

#endif
