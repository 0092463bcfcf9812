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

/* The norm of head @h, and that times a scale to @dst, as by rms_norm_mul. */
__device__ static inline void norm_head(const struct weir__cuda_head_norm &p,
					const operand &dst, int64_t h)
{
	__shared__ double part[32];
	const char *a = address(p.a) + h * p.a.stride[1];
	char *norm = address(p.norm) + h * p.norm.stride[1];
	char *to = address(dst) + h * dst.stride[1];
	double sum = 0, factor;

	for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
		double x = (double)element_in(p.a, a + i * p.a.stride[0]);

		sum += x * x;
	}
	sum = block_sum(sum, part);
	factor = 1 / sqrt(sum / (double)p.columns + (double)p.eps);
	for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
		double x = (double)element_in(p.a, a + i * p.a.stride[0]);
		char *at = norm + i * p.norm.stride[0];

		element_out(p.norm, at, (float)(x * factor));
		element_out(dst, to + i * dst.stride[0],
			    element_in(p.norm, at) *
				    element_in(p.scale,
					       address(p.scale) +
						       i * p.scale.stride[0]));
	}
	__syncthreads();
}

/*
 * rope of q and of k, after norms of their heads, and set_rows of the rotated k
 * and of v, of one token. Each head of q and of k has a block; the last block
 * has v. Each of its threads reports an index of k that is out of range before
 * one of v, as the kernels of the single nodes do: no block of k may have
 * begun.
 */
KERNEL(rope_set_rows, rope_set)
{
	const bool is_q = blockIdx.x < (uint64_t)p.q.dst.dim[1];
	int64_t h = blockIdx.x;

	if (blockIdx.x == gridDim.x - 1) {
		int64_t index;

		set_row_in(p.set_k, workspace, place_of(p.set_k.a, 1, 0),
			   index);
		set_rows_of(p.set_v, workspace, threadIdx.x, p.set_v.n,
			    blockDim.x);
		return;
	}
	if (is_q) {
		if (p.norm_q.columns)
			norm_head(p.norm_q, p.q.a, h);
		rotate_heads(p.q, 0, h, h + 1);
		return;
	}
	h -= p.q.dst.dim[1];
	if (p.norm_k.columns)
		norm_head(p.norm_k, p.k.a, h);
	rotate_heads(p.k, 0, h, h + 1);
	__syncthreads();
	set_rows_of(p.set_k, workspace,
		    (uint64_t)(h * p.k.dst.dim[0]) + threadIdx.x,
		    (uint64_t)((h + 1) * p.k.dst.dim[0]), blockDim.x);
}
