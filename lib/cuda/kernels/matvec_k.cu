/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of Q2_K, Q3_K and Q5_K: blocks of 256
 * elements, eight lanes for each.
 */
#include "cuda/kernels/matvec_blocks.cuh"

/*
 * Two of each 32 bytes, which are two groups of 32 elements, as in Q4_K. The
 * fifth bits of all groups are in 32 bytes.
 */
struct rows_q5_k {
	static const int elements = 256, bytes = 176, order = 1, wide = 4;
	static const bool shifted = false;
	int q[8];
	float scale[2], least[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 176 * (lane / 8);
		uint4 w = shared_u32x4(b + 48 + 16 * (lane % 8));
		uint4 fifth = shared_u32x4(b + 16 + 16 * (lane % 2));
		const uint32_t low[4] = { w.x, w.y, w.z, w.w };
		const uint32_t high[4] = { fifth.x, fifth.y, fifth.z, fifth.w };

		scales_q4_k(shared_u32x4(b), lane, scale, least);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t up = high[i] >> lane / 2 % 4 * 2;

			q[i] = (int)((low[i] & 0x0f0f0f0f) |
				     (up << 4 & 0x10101010));
			q[4 + i] = (int)((low[i] >> 4 & 0x0f0f0f0f) |
					 (up << 3 & 0x10101010));
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float low = scale[0] * (float)dot_16(q, b.q, 0);
		float up = scale[1] * (float)dot_16(q + 4, b.q + 4, 0);

		low = fmaf(-least[0], (float)b.sum[0], low);
		up = fmaf(-least[1], (float)b.sum[1], up);
		return fmaf(b.scale[1], up, b.scale[0] * low);
	}
};

/*
 * Four lanes for each half: a lane's parts are two of four pairs of bits of 16
 * bytes, which another lane reads, too.
 */
struct rows_q2_k {
	static const int elements = 256, bytes = 84, order = 2, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale[2], least[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 84 * (lane / 8);
		uint32_t from = b + 16 + 32 * (lane / 4 % 2) + 16 * (lane % 2);
		uint32_t both = shared_u32(b + 80);
		float d = f16_in((uint16_t)both), m = f16_in(both >> 16);
		uint32_t s = shared_u8(b + lane % 8 + lane / 4 % 2 * 4);
		uint32_t t = shared_u8(b + lane % 8 + lane / 4 % 2 * 4 + 4);

#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t w = shared_u32(from + 4 * i) >>
				     lane / 2 % 2 * 2;

			q[i] = (int)(w & 0x03030303);
			/* 16 times what they are. */
			q[4 + i] = (int)(w & 0x30303030);
		}
		scale[0] = d * (float)(s & 15);
		scale[1] = d / 16 * (float)(t & 15);
		least[0] = m * (float)(s >> 4);
		least[1] = m * (float)(t >> 4);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float v = 0;

#pragma unroll
		for (int h = 0; h < 2; h++) {
			int sum = dot_16(q + 4 * h, b.q + 4 * h, 0);
			float x = fmaf(-least[h], (float)b.sum[h],
				       scale[h] * (float)sum);

			v = fmaf(b.scale[h], x, v);
		}
		return v;
	}
};

/* As Q2_K, with a third bit in another 16 bytes, and scales of 6 bits. */
struct rows_q3_k {
	static const int elements = 256, bytes = 110, order = 2, wide = 2;
	static const bool shifted = true;
	int q[8];
	float scale[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 110 * (lane / 8);
		unsigned half = lane / 4 % 2, j = lane / 2 % 2, part = lane % 2;
		uint32_t s = b + 96 + lane % 4;
		uint32_t high = shared_u8(s + 8) >> 4 * half;
		float d = scale_in(b + 108);
		int low[4], third[4];

		words_in<4>(b + 32 + 32 * half + 16 * part, low);
		words_in<4>(b + 16 * part, third);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t w = (uint32_t)low[i] >> 2 * j;
			uint32_t t = (uint32_t)third[i] >> (4 * half + j);

			q[i] = (int)((w & 0x03030303) | (t << 2 & 0x04040404));
			/* 16 times what they are. */
			q[4 + i] = (int)((w & 0x30303030) |
					 (t << 4 & 0x40404040));
		}
#pragma unroll
		for (unsigned h = 0; h < 2; h++) {
			uint32_t x = shared_u8(s + 4 * h) >> 4 * half & 15;

			x |= (high >> 2 * h & 3) << 4;
			scale[h] = d * (float)((int)x - 32);
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int low = dot_16(q, b.q, 0) - 4 * b.sum[0];
		int up = (dot_16(q + 4, b.q + 4, 0) >> 4) - 4 * b.sum[1];

		return fmaf(scale[0] * b.scale[0], (float)low,
			    scale[1] * b.scale[1] * (float)up);
	}
};

MATVECS(matvec_q2_k, blocks<rows_q2_k>, 2)
MATVECS(matvec_q3_k, blocks<rows_q3_k>, 2)
MATVECS(matvec_q5_k, blocks<rows_q5_k>, 2)
