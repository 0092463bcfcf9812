/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of the most used quantised dtypes; and the
 * kernel that rounds b to bytes for all of them.
 */
#include "cuda/kernels/matvec_blocks.cuh"
#include "cuda/kernels/rounded.cuh"

struct rows_q8_0 {
	static const int elements = 32, bytes = 34, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		scale = scale_in(unit + 34 * lane);
		words_in<8>(unit + 34 * lane + 2, q);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int v = dot_16(q + 4, b.q + 4, dot_16(q, b.q, 0));

		return scale * b.scale[0] * (float)v;
	}
};

struct rows_q4_0 {
	static const int elements = 32, bytes = 18, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		int w[4];

		scale = scale_in(unit + 18 * lane);
		words_in<4>(unit + 18 * lane + 2, w);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			q[i] = w[i] & 0x0f0f0f0f;
			q[4 + i] = w[i] & 0xf0f0f0f0;
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		/* The upper ones are 16 times what they are. */
		int v = dot_16(q, b.q, 0) +
			(dot_16_unsigned(q + 4, b.q + 4) >> 4);

		return scale * b.scale[0] *
		       (float)(v - 8 * (b.sum[0] + b.sum[1]));
	}
};

/*
 * Eight lanes for a block: two of each 32 bytes, which are two groups of 32
 * elements. Blocks are multiples of 16 bytes: the first 16 have two scales, and
 * those of the groups.
 */
struct rows_q4_k {
	static const int elements = 256, bytes = 144, order = 1, wide = 4;
	static const bool shifted = false;
	int q[8];
	float scale[2], least[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 144 * (lane / 8);
		uint4 w = shared_u32x4(b + 16 + 16 * (lane % 8));

		scales_q4_k(shared_u32x4(b), lane, scale, least);
		/* The upper ones are 16 times what they are. */
		q[0] = (int)(w.x & 0x0f0f0f0f), q[4] = (int)(w.x & 0xf0f0f0f0);
		q[1] = (int)(w.y & 0x0f0f0f0f), q[5] = (int)(w.y & 0xf0f0f0f0);
		q[2] = (int)(w.z & 0x0f0f0f0f), q[6] = (int)(w.z & 0xf0f0f0f0);
		q[3] = (int)(w.w & 0x0f0f0f0f), q[7] = (int)(w.w & 0xf0f0f0f0);
		scale[1] /= 16;
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float low = scale[0] * (float)dot_16(q, b.q, 0);
		float up = scale[1] *
			   (float)dot_16_unsigned(q + 4, b.q + 4);

		low = fmaf(-least[0], (float)b.sum[0], low);
		up = fmaf(-least[1], (float)b.sum[1], up);
		return fmaf(b.scale[1], up, b.scale[0] * low);
	}
};

/*
 * Eight lanes for a block, four for each half. The low bits of a lane's parts
 * are in 16 bytes, the high ones in 16 bytes that another lane reads, too.
 */
struct rows_q6_k {
	static const int elements = 256, bytes = 210, order = 2, wide = 2;
	static const bool shifted = true;
	int q[8];
	float scale[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 210 * (lane / 8);
		unsigned half = lane / 4 % 2, j = lane / 2 % 2, part = lane % 2;
		float d = scale_in(b + 208);
		int low[4], high[4];

		words_in<4>(b + 64 * half + 32 * j + 16 * part, low);
		words_in<4>(b + 128 + 32 * half + 16 * part, high);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int up = high[i] >> 2 * j;

			q[i] = (low[i] & 0x0f0f0f0f) | (up & 0x03030303) << 4;
			q[4 + i] = (low[i] >> 4 & 0x0f0f0f0f) |
				   (up & 0x30303030);
		}
#pragma unroll
		for (unsigned h = 0; h < 2; h++)
			scale[h] = d * (float)(signed char)shared_u8(
				b + 192 + 8 * half + 2 * j + part + 4 * h);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float v = 0;

#pragma unroll
		for (int h = 0; h < 2; h++)
			v = fmaf(scale[h] * b.scale[h],
				 (float)(dot_16(q + 4 * h, b.q + 4 * h, 0) -
					 32 * b.sum[h]),
				 v);
		return v;
	}
};

MATVECS(matvec_q8_0, blocks<rows_q8_0>, 3)
MATVECS(matvec_q4_0, blocks<rows_q4_0>, 3)
MATVECS(matvec_q4_k, blocks<rows_q4_k>, 2)
MATVECS(matvec_q6_k, blocks<rows_q6_k>, 2)

/* A warp rounds 32 elements of a row of b. */
KERNEL(matvec_bytes, matvec_columns)
{
	uint64_t units = (uint64_t)(p.k + MATVEC_UNIT - 1) / MATVEC_UNIT;
	uint64_t groups = units * (MATVEC_UNIT / 32);
	unsigned lane = threadIdx.x % 32;

	for (uint64_t i = thread_first() / 32; i < p.rows * groups;
	     i += thread_step() / 32) {
		uint64_t row = i / groups, group = i % groups;
		int64_t k = (int64_t)group * 32 + lane;
		const char *from = at_repeated(p.b, place_of(p.b, 1, row), 1,
					       WEIR__CUDA_DIMS);
		float v = k < p.k ? element_in(p.b, from + k * p.b.stride[0])
				  : 0;

		group_round(v, (unsigned)group, p.order,
			    workspace + p.at + row * p.pitch);
	}
}
