/* SPDX-License-Identifier: MIT */
/*
 * Products of rows: plain kernels, for floats of a and for blocks. A warp
 * multiplies a row of a with up to COLUMNS rows of b. Sums are F32, and their
 * order depends on nothing but the number of elements: so a result does not
 * depend on what is computed with it.
 */
#include "cuda/kernels/quants.cuh"

#define COLUMNS 4

struct row_f32 {
	__device__ static inline float at(const operand &t, const char *row,
					  int64_t i)
	{
		return __uint_as_float(word_in<uint32_t>(t, row + 4 * i));
	}
};

struct row_f16 {
	__device__ static inline float at(const operand &t, const char *row,
					  int64_t i)
	{
		return f16_in(word_in<uint16_t>(t, row + 2 * i));
	}
};

struct row_bf16 {
	__device__ static inline float at(const operand &t, const char *row,
					  int64_t i)
	{
		return bf16_in(word_in<uint16_t>(t, row + 2 * i));
	}
};

/* Any quantised dtype. */
struct row_quants {
	__device__ static inline float at(const operand &t, const char *row,
					  int64_t i)
	{
		return stored_in(t, row, i);
	}
};

template <typename R>
__device__ static inline void multiply(const struct weir__cuda_product &p,
				       const char *a, const char *b, char *dst,
				       int64_t columns)
{
	unsigned lane = threadIdx.x % 32;
	float sum[COLUMNS] = { 0 };

	for (int64_t i = lane; i < p.k; i += 32) {
		float x = R::at(p.a, a, i);

#pragma unroll
		for (int c = 0; c < COLUMNS; c++)
			if (c < columns)
				sum[c] += x * element_in(p.b,
							 b + c * p.b.stride[1] +
								 i * p.b.stride[0]);
	}
#pragma unroll
	for (int c = 0; c < COLUMNS; c++) {
		for (unsigned o = 16; o; o >>= 1)
			sum[c] += __shfl_xor_sync(~0u, sum[c], o);
		if (lane == 0 && c < columns)
			element_out(p.dst, dst + c * p.dst.stride[1], sum[c]);
	}
}

/* A warp computes a row of the matrix that the index of a column chooses. */
template <typename R>
__device__ static inline void chosen(const struct weir__cuda_product &p,
				     char *workspace)
{
	uint64_t all = (uint64_t)p.m * (uint64_t)p.n * p.batches;

	for (uint64_t i = thread_first() / 32; i < all;
	     i += thread_step() / 32) {
		int64_t m = (int64_t)(i % (uint64_t)p.m);
		int64_t n = (int64_t)(i / (uint64_t)p.m % (uint64_t)p.n);
		int64_t t = (int64_t)(i / (uint64_t)p.m / (uint64_t)p.n);
		int32_t id = (int32_t)word_in<uint32_t>(
			p.ids, address(p.ids) + t * p.ids.stride[1] +
				       n * p.ids.stride[0]);

		if (id < 0 || id >= p.a.dim[2]) {
			found_index(workspace, p.node, id, n, p.a.dim[2]);
			continue;
		}
		multiply<R>(p,
			    address(p.a) + id * p.a.stride[2] +
				    m * p.a.stride[1],
			    address(p.b) + t * p.b.stride[2] +
				    n % p.b.dim[1] * p.b.stride[1],
			    address(p.dst) + t * p.dst.stride[2] +
				    n * p.dst.stride[1] + m * p.dst.stride[0],
			    1);
	}
}

/* A warp computes a row of a and a group of columns of a batch. */
template <typename R>
__device__ static inline void product(const struct weir__cuda_product &p)
{
	uint64_t groups = (uint64_t)(p.n + COLUMNS - 1) / COLUMNS;
	uint64_t all = (uint64_t)p.m * groups * p.batches;

	for (uint64_t i = thread_first() / 32; i < all;
	     i += thread_step() / 32) {
		int64_t m = (int64_t)(i % (uint64_t)p.m);
		int64_t n = (int64_t)(i / (uint64_t)p.m % groups) * COLUMNS;
		place w = place_of(p.dst, 2, i / (uint64_t)p.m / groups);

		multiply<R>(p,
			    at_shared(p.a, p.dst, w, 2) + m * p.a.stride[1],
			    at_repeated(p.b, w, 2, WEIR__CUDA_DIMS) +
				    n * p.b.stride[1],
			    at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS) +
				    n * p.dst.stride[1] + m * p.dst.stride[0],
			    p.n - n);
	}
}

#define PRODUCT(name, type)                            \
	KERNEL(name, product)                          \
	{                                              \
		if (p.ids.data)                        \
			chosen<type>(p, workspace);    \
		else                                   \
			product<type>(p);              \
	}
PRODUCT(mul_mat_f32, row_f32)
PRODUCT(mul_mat_f16, row_f16)
PRODUCT(mul_mat_bf16, row_bf16)
PRODUCT(mul_mat_quants, row_quants)
