/* SPDX-License-Identifier: MIT */
/*
 * Several nodes in one launch. Each result is written as by the kernels of the
 * single nodes, in the same order of additions, and later nodes read it from
 * memory: so the bits are the same.
 */
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/indices.cuh"
#include "cuda/kernels/rotate.cuh"
#include "cuda/kernels/rounded.cuh"

/*
 * [add,] rms_norm, mul. A block has a row, and an element of all tensors of the
 * row is always that of the same thread.
 */
KERNEL(rms_norm_mul, norm_mul)
{
	__shared__ double part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		place w = place_of(p.norm, 1, n);
		char *sum_at = at_repeated(p.sum, w, 1, WEIR__CUDA_DIMS);
		char *norm = at_repeated(p.norm, w, 1, WEIR__CUDA_DIMS);
		char *dst = at_repeated(p.dst, w, 1, WEIR__CUDA_DIMS);
		const char *scale =
			at_repeated(p.scale, w, 1, WEIR__CUDA_DIMS);
		double sum = 0, factor;

		if (p.b.data) {
			const char *a =
				at_repeated(p.a, w, 1, WEIR__CUDA_DIMS);
			const char *b =
				at_repeated(p.b, w, 1, WEIR__CUDA_DIMS);

			for (int64_t i = threadIdx.x; i < p.columns;
			     i += blockDim.x)
				element_out(
					p.sum, sum_at + i * p.sum.stride[0],
					element_in(p.a,
						   a + i * p.a.stride[0]) +
						element_in(
							p.b,
							b + i * p.b.stride[0]));
		}
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
			double x = (double)element_in(
				p.sum, sum_at + i * p.sum.stride[0]);

			sum += x * x;
		}
		sum = block_sum(sum, part);
		factor = 1 / sqrt(sum / (double)p.columns + (double)p.eps);
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
			char *to = norm + i * p.norm.stride[0];
			double x = (double)element_in(
				p.sum, sum_at + i * p.sum.stride[0]);

			float v;

			element_out(p.norm, to, (float)(x * factor));
			v = element_in(p.norm, to) *
			    element_in(p.scale,
				       scale + i * p.scale.stride[0]);
			element_out(p.dst, dst + i * p.dst.stride[0], v);
			/* Neighbouring lanes have neighbouring elements. */
			if (p.rounded.pitch)
				group_round(v, (unsigned)(i / 32),
					    p.rounded.order,
					    workspace + p.rounded.at +
						    n * p.rounded.pitch);
		}
	}
}

/* swiglu, and its result as bytes. A warp has 32 elements of a row at a time. */
KERNEL(swiglu_bytes, swiglu)
{
	uint64_t groups = (uint64_t)p.columns / 32;

	for (uint64_t i = thread_first() / 32; i < p.rows * groups;
	     i += thread_step() / 32) {
		uint64_t row = i / groups, group = i % groups;
		int64_t k = (int64_t)group * 32 + threadIdx.x % 32;
		place w = place_of(p.dst, 1, row);
		const char *a = at_repeated(p.a, w, 1, WEIR__CUDA_DIMS);
		const char *b = at_repeated(p.b, w, 1, WEIR__CUDA_DIMS);
		char *dst = at_repeated(p.dst, w, 1, WEIR__CUDA_DIMS);
		float v = silu(element_in(p.a, a + k * p.a.stride[0])) *
			  element_in(p.b, b + k * p.b.stride[0]);

		element_out(p.dst, dst + k * p.dst.stride[0], v);
		group_round(v, (unsigned)group, p.rounded.order,
			    workspace + p.rounded.at + row * p.rounded.pitch);
	}
}

/*
 * rope of q and of k, and set_rows of the rotated k and of v, of one token.
 * Block 0 has q, block 1 k, block 2 v. Each thread of block 2 reports an index
 * of k that is out of range before one of v, as the kernels of the single nodes
 * do: block 1 may not have begun.
 */
KERNEL(rope_set_rows, rope_set)
{
	if (blockIdx.x == 0) {
		rotate_token(p.q, 0);
	} else if (blockIdx.x == 1) {
		rotate_token(p.k, 0);
		__syncthreads();
		set_rows_of(p.set_k, workspace, threadIdx.x, blockDim.x);
	} else {
		int64_t index;

		set_row_in(p.set_k, workspace, place_of(p.set_k.a, 1, 0),
			   index);
		set_rows_of(p.set_v, workspace, threadIdx.x, blockDim.x);
	}
}
