/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of IQ4_NL, IQ4_XS, MXFP4 and NVFP4, whose
 * elements select one of 16 values by 4 bits.
 */
#include "cuda/kernels/matvec_blocks.cuh"
#include "cuda/kernels/values.cuh"

/* Blocks of 16 bytes of elements: what @lane reads of them. */
struct values {
	int q[8];
	float scale;

	__device__ inline void iq4_in(const int w[4])
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
			values_in(IQ4_FIRST, IQ4_LAST, (uint32_t)w[i], &q[i],
				  &q[4 + i]);
	}

	__device__ inline void fp4_in(const int w[4])
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
			values_in(FP4_FIRST, FP4_LAST, (uint32_t)w[i], &q[i],
				  &q[4 + i]);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int v = dot_16(q + 4, b.q + 4, dot_16(q, b.q, 0));

		return scale * b.scale[0] * (float)v;
	}
};

struct rows_iq4_nl : values {
	static const int elements = 32, bytes = 18, order = 0, wide = 4;
	static const bool shifted = true;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		int w[4];

		scale = scale_in(unit + 18 * lane);
		words_in<4>(unit + 18 * lane + 2, w);
		iq4_in(w);
	}
};

/* Rows begin at multiples of 8 bytes. Eight lanes for a block. */
struct rows_iq4_xs : values {
	static const int elements = 256, bytes = 136, order = 0, wide = 4;
	static const bool shifted = true;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 136 * (lane / 8), g = lane % 8;
		uint2 head = shared_u32x2(b);
		uint2 x = shared_u32x2(b + 8 + 16 * g);
		uint2 y = shared_u32x2(b + 16 + 16 * g);
		const int w[4] = { (int)x.x, (int)x.y, (int)y.x, (int)y.y };
		uint32_t s = (head.y >> 4 * g & 15) |
			     (head.x >> (16 + 2 * g) & 3) << 4;

		scale = f16_in((uint16_t)head.x) * (float)((int)s - 32);
		iq4_in(w);
	}
};

/* Blocks, and rows, begin at any byte. */
struct rows_mxfp4 : values {
	static const int elements = 32, bytes = 17, order = 0, wide = 4;
	static const bool shifted = true;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		int w[4];

		scale = e8m0_half(shared_u8(unit + 17 * lane));
		words_in<4>(unit + 17 * lane + 1, w);
		fp4_in(w);
	}
};

/*
 * Rows begin at multiples of 4 bytes. Two lanes for a block; a part has 8
 * bytes and a scale.
 */
struct rows_nvfp4 {
	static const int elements = 64, bytes = 36, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 36 * (lane / 2);
		uint32_t s = shared_u32(b) >> lane % 2 * 16;

		b += 4 + 16 * (lane % 2);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			scale[h] = e4m3_half(s >> 8 * h & 255);
#pragma unroll
			for (int i = 0; i < 2; i++)
				values_in(FP4_FIRST, FP4_LAST,
					  shared_u32(b + 8 * h + 4 * i),
					  &q[4 * h + i], &q[4 * h + 2 + i]);
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float low = scale[0] * (float)dot_16(q, b.q, 0);
		float up = scale[1] * (float)dot_16(q + 4, b.q + 4, 0);

		return b.scale[0] * (low + up);
	}
};

MATVECS(matvec_iq4_nl, blocks<rows_iq4_nl>, 3)
MATVECS(matvec_iq4_xs, blocks<rows_iq4_xs>, 3)
MATVECS(matvec_mxfp4, blocks<rows_mxfp4>, 3)
MATVECS(matvec_nvfp4, blocks<rows_nvfp4>, 2)
