/* SPDX-License-Identifier: MIT */
/*
 * Elements to blocks of Q8_0 and Q4_0, in the same bits as the CPU makes them
 * (lib/kernels/floats.c). A lane of a warp has an element of the block.
 */
#include "cuda/kernels/indices.cuh"
#include "cuda/kernels/quants.cuh"

#define ALL (~0u)

/* The greatest magnitude becomes 127, or -127; NaN becomes 0. */
__device__ static inline void q8_0_out(char *b, float x, unsigned lane)
{
	float most = x == x ? fabsf(x) : 0, scale, inverse, y;
	int q;

	for (unsigned o = 16; o; o >>= 1)
		most = fmaxf(most, __shfl_xor_sync(ALL, most, o));
	scale = __fdiv_rn(most, 127);
	inverse = scale != 0 ? __fdiv_rn(1, scale) : 0;
	y = __fmul_rn(x, inverse);
	q = y < 127 ? (y < -127 ? -127 : __float2int_rn(y)) : 127;
	b[2 + lane] = (char)(y == y ? q : 0);
	if (lane == 0)
		bytes_out<uint16_t>(b, f16_out(scale));
}

/* The first element of the greatest magnitude becomes -8; NaN becomes 0. */
__device__ static inline void q4_0_out(char *b, float x, unsigned lane)
{
	float most = x == x ? x : 0, scale, inverse, y;
	unsigned at = lane, q, other;

	for (unsigned o = 16; o; o >>= 1) {
		float value = __shfl_xor_sync(ALL, most, o);
		unsigned from = __shfl_xor_sync(ALL, at, o);

		if (fabsf(value) > fabsf(most) ||
		    (fabsf(value) == fabsf(most) && from < at)) {
			most = value;
			at = from;
		}
	}
	/* -0 is no magnitude that the CPU finds. */
	scale = __fdiv_rn(most == 0 ? 0 : most, -8);
	inverse = scale != 0 ? __fdiv_rn(1, scale) : 0;
	y = __fmul_rn(x, inverse);
	q = y < 7.5f ? (y < -8 ? 0 : (unsigned)__fadd_rn(y, 8.5f)) : 15;
	q = y == y ? q : 8;
	other = __shfl_xor_sync(ALL, q, 16);
	if (lane < 16)
		b[2 + lane] = (char)(q | other << 4);
	if (lane == 0)
		bytes_out<uint16_t>(b, f16_out(scale));
}

__device__ static inline void block_out(const operand &t, char *b, float x)
{
	unsigned lane = threadIdx.x % 32;

	if (t.dtype == WEIR_DTYPE_Q8_0)
		q8_0_out(b, x, lane);
	else
		q4_0_out(b, x, lane);
}

/* p.n blocks; dimension 0 of the result is in blocks. */
KERNEL(copy_blocks, copy)
{
	for (uint64_t i = thread_first() / 32; i < p.n;
	     i += thread_step() / 32) {
		place w = place_of(p.dst, 0, i);
		place v = place_of(p.a, 0, 32 * i + threadIdx.x % 32);
		const char *row = at_repeated(p.a, v, 1, WEIR__CUDA_DIMS);

		block_out(p.dst, at_repeated(p.dst, w, 0, WEIR__CUDA_DIMS),
			  stored_in(p.a, row, v.i[0]));
	}
}

/* As set_rows: a warp writes a column of blocks of all rows, in their order. */
KERNEL(set_rows_blocks, index)
{
	uint64_t columns = (uint64_t)p.a.dim[0] / 32;

	for (uint64_t i = thread_first() / 32; i < p.n;
	     i += thread_step() / 32) {
		int64_t column = (int64_t)(i % columns);
		place w = place_of(p.a, 2, i / columns);
		char *dst = at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS) +
			    column * p.dst.stride[0];
		const char *a = at_repeated(p.a, w, 2, WEIR__CUDA_DIMS) +
				(32 * column + threadIdx.x % 32) *
					p.a.stride[0];

		for (int64_t row = 0; row < p.a.dim[1]; row++) {
			int64_t index;

			w.i[1] = row;
			if (!set_row_in(p, workspace, w, index))
				continue;
			block_out(p.dst, dst + index * p.dst.stride[1],
				  element_in(p.a, a + row * p.a.stride[1]));
		}
	}
}
