/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of Q4_1, Q5_0 and Q5_1: blocks of 32
 * elements, of which a lane has one.
 */
#include "cuda/kernels/matvec_blocks.cuh"

/*
 * Elements of 5 bits: their low four are those of @w, first the low ones of all
 * bytes, and their fifth those of @fifth. A product spreads four bits to the
 * fifth ones of four bytes.
 */
__device__ static inline void fives_in(const int w[4], uint32_t fifth,
				       int q[8])
{
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t pair = fifth >> (16 * h + 8 * (i / 2));
			uint32_t spread = i % 2 ? (pair & 0xf0) * 0x00204081
						: (pair & 0x0f) * 0x02040810;

			q[4 * h + i] = (w[i] >> 4 * h & 0x0f0f0f0f) |
				       (int)(spread & 0x10101010);
		}
}

/* Rows begin at multiples of 4 bytes. */
struct rows_q4_1 {
	static const int elements = 32, bytes = 20, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale, offset;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 20 * lane, both = shared_u32(b);

		scale = f16_in((uint16_t)both);
		offset = f16_in(both >> 16);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t w = shared_u32(b + 4 + 4 * i);

			q[i] = (int)(w & 0x0f0f0f0f);
			q[4 + i] = (int)(w & 0xf0f0f0f0);
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		/* The upper ones are 16 times what they are. */
		int v = dot_16(q, b.q, 0) +
			(dot_16_unsigned(q + 4, b.q + 4) >> 4);

		return b.scale[0] * fmaf(offset, (float)(b.sum[0] + b.sum[1]),
					 scale * (float)v);
	}
};

struct rows_q5_0 {
	static const int elements = 32, bytes = 22, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		int w[5];

		scale = scale_in(unit + 22 * lane);
		words_in<5>(unit + 22 * lane + 2, w);
		fives_in(w + 1, (uint32_t)w[0], q);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int v = dot_16(q + 4, b.q + 4, dot_16(q, b.q, 0));

		return scale * b.scale[0] *
		       (float)(v - 16 * (b.sum[0] + b.sum[1]));
	}
};

/* Rows begin at multiples of 8 bytes. */
struct rows_q5_1 {
	static const int elements = 32, bytes = 24, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale, offset;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint2 head = shared_u32x2(unit + 24 * lane);
		uint2 x = shared_u32x2(unit + 24 * lane + 8);
		uint2 y = shared_u32x2(unit + 24 * lane + 16);
		const int w[4] = { (int)x.x, (int)x.y, (int)y.x, (int)y.y };

		scale = f16_in((uint16_t)head.x);
		offset = f16_in(head.x >> 16);
		fives_in(w, head.y, q);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int v = dot_16(q + 4, b.q + 4, dot_16(q, b.q, 0));

		return b.scale[0] * fmaf(offset, (float)(b.sum[0] + b.sum[1]),
					 scale * (float)v);
	}
};

MATVECS(matvec_q4_1, blocks<rows_q4_1>, 2)
MATVECS(matvec_q5_0, blocks<rows_q5_0>, 3)
MATVECS(matvec_q5_1, blocks<rows_q5_1>, 2)
