/* SPDX-License-Identifier: MIT */
/* Sums, and the greatest element of rows. */
#include "cuda/kernels/device.cuh"

__device__ static inline const char *row_of(const struct weir__cuda_reduce &p,
					    uint64_t n)
{
	return at_repeated(p.a, place_of(p.a, 1, n), 1, WEIR__CUDA_DIMS);
}

/* A block sums every gridDim.x-th row of threads, in their order. */
KERNEL(sum, reduce)
{
	__shared__ double part[32];
	uint64_t n = p.rows * (uint64_t)p.columns;
	double sum = 0;

	for (uint64_t i = thread_first(); i < n; i += thread_step())
		sum += (double)element_in(
			p.a, at_repeated(p.a, place_of(p.a, 0, i), 0,
					 WEIR__CUDA_DIMS));
	sum = block_sum(sum, part);
	if (threadIdx.x != 0)
		return;
	if (gridDim.x > 1)
		((double *)(workspace + p.sums))[blockIdx.x] = sum;
	else
		element_out(p.dst, address(p.dst), (float)sum);
}

/* One block adds up the sums of the blocks. */
KERNEL(sum_blocks, reduce)
{
	__shared__ double part[32];
	const double *sums = (const double *)(workspace + p.sums);
	double sum = 0;

	for (uint64_t i = threadIdx.x; i < p.blocks; i += blockDim.x)
		sum += sums[i];
	sum = block_sum(sum, part);
	if (threadIdx.x == 0)
		element_out(p.dst, address(p.dst), (float)sum);
}

KERNEL(sum_rows, reduce)
{
	__shared__ double part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		const char *a = row_of(p, n);
		double sum = 0;

		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			sum += (double)element_in(p.a, a + i * p.a.stride[0]);
		sum = block_sum(sum, part);
		if (threadIdx.x == 0)
			element_out(p.dst,
				    at_repeated(p.dst, place_of(p.a, 1, n), 1,
						WEIR__CUDA_DIMS),
				    (float)sum);
	}
}

/* An element and its index, -1: none. NaN comes after all numbers. */
struct element_at {
	float x;
	int32_t index;
};

__device__ static inline bool comes_before(const element_at &a,
					       const element_at &b)
{
	if (a.index < 0 || b.index < 0)
		return a.index >= 0;
	if (a.x > b.x || (isnan(b.x) && !isnan(a.x)))
		return true;
	if (a.x < b.x || (isnan(a.x) && !isnan(b.x)))
		return false;
	return a.index < b.index;
}

/* The first of those that the threads of a block have. */
__device__ static inline element_at block_first(element_at r, element_at *part)
{
	for (unsigned o = 16; o; o >>= 1) {
		element_at other;

		other.x = __shfl_xor_sync(~0u, r.x, o);
		other.index = __shfl_xor_sync(~0u, r.index, o);
		if (comes_before(other, r))
			r = other;
	}
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = r;
	__syncthreads();
	for (unsigned i = 0; i < blockDim.x / 32; i++)
		if (comes_before(part[i], r))
			r = part[i];
	__syncthreads();
	return r;
}

KERNEL(argmax, reduce)
{
	__shared__ element_at part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		const char *a = row_of(p, n);
		element_at best, next;

		best.x = 0;
		best.index = -1;
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
			next.x = element_in(p.a, a + i * p.a.stride[0]);
			next.index = (int32_t)i;
			if (comes_before(next, best))
				best = next;
		}
		best = block_first(best, part);
		if (threadIdx.x == 0)
			word_out<uint32_t>(p.dst,
					   address(p.dst) + 4 * (int64_t)n,
					   (uint32_t)best.index);
	}
}
