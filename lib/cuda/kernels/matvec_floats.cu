/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of F32, F16 and BF16. b is F32, in rows
 * that begin at multiples of 16 bytes. A lane takes 4 neighbouring elements of
 * each 128.
 */
#include "cuda/kernels/matvec.cuh"

struct quad_f32 {
	static const int bytes = 4;

	__device__ static inline void in(uint32_t at, float v[4])
	{
		uint4 x = shared_u32x4(at);

		v[0] = __uint_as_float(x.x), v[1] = __uint_as_float(x.y);
		v[2] = __uint_as_float(x.z), v[3] = __uint_as_float(x.w);
	}
};

struct quad_f16 {
	static const int bytes = 2;

	__device__ static inline void in(uint32_t at, float v[4])
	{
		uint2 x = shared_u32x2(at);

		v[0] = f16_in((uint16_t)x.x), v[1] = f16_in(x.x >> 16);
		v[2] = f16_in((uint16_t)x.y), v[3] = f16_in(x.y >> 16);
	}
};

struct quad_bf16 {
	static const int bytes = 2;

	__device__ static inline void in(uint32_t at, float v[4])
	{
		uint2 x = shared_u32x2(at);

		v[0] = __uint_as_float(x.x << 16);
		v[1] = __uint_as_float(x.x & 0xffff0000u);
		v[2] = __uint_as_float(x.y << 16);
		v[3] = __uint_as_float(x.y & 0xffff0000u);
	}
};

template <class Q> struct floats {
	static const int elements = 1, bytes = Q::bytes;
	static const int unit = 1024 / Q::bytes, unit_bytes = 1024;
	static const int b_bytes = 4 * unit;
	static const int wide = 4;
	static const bool shifted = false;

	__device__ static inline void begin()
	{
	}

	template <int C, int ROWS>
	__device__ static inline void quads(const uint32_t at[ROWS],
					    const char *b, const int column[C],
					    float *sum)
	{
		float4 x[C];

#pragma unroll
		for (int c = 0; c < C; c++)
			x[c] = *(const float4 *)(b + column[c]);
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			float a[4];

			Q::in(at[r], a);
#pragma unroll
			for (int c = 0; c < C; c++) {
				float &s = sum[c * ROWS + r];

				s = fmaf(a[0], x[c].x, s);
				s = fmaf(a[1], x[c].y, s);
				s = fmaf(a[2], x[c].z, s);
				s = fmaf(a[3], x[c].w, s);
			}
		}
	}

	template <int C, int ROWS>
	__device__ static inline void add(const uint32_t unit_at[ROWS],
					  const char *b, const int column[C],
					  int k, float *sum)
	{
		int lane = threadIdx.x % 32;
		uint32_t at[ROWS];

		b += 16 * lane;
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			at[r] = unit_at[r] + 4 * Q::bytes * lane;
#pragma unroll (C > 4 ? 2 : unit / 128)
		for (int i = 0; i < unit; i += 128) {
			if (i + 4 * lane < k)
				quads<C, ROWS>(at, b, column, sum);
			b += 4 * 128;
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				at[r] += Q::bytes * 128;
		}
	}
};

MATVECS(matvec_f32, floats<quad_f32>, 3)
MATVECS(matvec_f16, floats<quad_f16>, 3)
MATVECS(matvec_bf16, floats<quad_bf16>, 3)

/* A warp copies 32 elements of a row of b at a time. */
KERNEL(matvec_floats, matvec_columns)
{
	uint64_t groups = (uint64_t)(p.k + 31) / 32;

	for (uint64_t i = thread_first() / 32; i < p.rows * groups;
	     i += thread_step() / 32) {
		uint64_t row = i / groups;
		int64_t k = (int64_t)(i % groups) * 32 + threadIdx.x % 32;
		const char *from = at_repeated(p.b, place_of(p.b, 1, row), 1,
					       WEIR__CUDA_DIMS);

		if (k < p.k)
			*(float *)(workspace + p.at + row * p.pitch + 4 * k) =
				element_in(p.b, from + k * p.b.stride[0]);
	}
}
