/* SPDX-License-Identifier: MIT */
/*
 * What tiles need before they start: columns of b in another form, and for
 * mul_mat_id lists of the columns of each expert.
 */
#include "cuda/kernels/device.cuh"

#define GROUP 8 /* elements of a thread at once */

__device__ static inline void group_in(const struct weir__cuda_columns &p,
				       const char *row, int64_t k,
				       float v[GROUP])
{
	if (p.dense && k + GROUP <= p.k) {
		float4 x = *(const float4 *)(row + 4 * k);
		float4 y = *(const float4 *)(row + 4 * k + 16);

		v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
		v[4] = y.x, v[5] = y.y, v[6] = y.z, v[7] = y.w;
		return;
	}
#pragma unroll
	for (int i = 0; i < GROUP; i++)
		v[i] = k + i < p.k ? element_in(p.b, row + (k + i) *
							     p.b.stride[0])
				   : 0;
}

struct as_bf16 {
	__device__ static inline uint16_t out(float v)
	{
		return bf16_out(v);
	}
	__device__ static inline float in(uint16_t x)
	{
		return bf16_in(x);
	}
};

struct as_f16 {
	__device__ static inline uint16_t out(float v)
	{
		return f16_out(v);
	}
	__device__ static inline float in(uint16_t x)
	{
		return f16_in(x);
	}
};

/* Write the elements, times @factor, and what rounding took of them. */
template <class T>
__device__ static inline void group_out(const struct weir__cuda_columns &p,
					char *to, int64_t k, float factor,
					const float v[GROUP])
{
	uint32_t high[GROUP / 2], low[GROUP / 2];

#pragma unroll
	for (int i = 0; i < GROUP / 2; i++)
		high[i] = low[i] = 0;
#pragma unroll
	for (int i = 0; i < GROUP; i++) {
		float x = v[i] * factor;
		uint16_t h = T::out(x);
		float rest = x - T::in(h);

		/* Of an infinite one nothing is left. */
		if (!(fabsf(rest) < INFINITY))
			rest = 0;
		high[i / 2] |= (uint32_t)h << i % 2 * 16;
		low[i / 2] |= (uint32_t)T::out(rest) << i % 2 * 16;
	}
	*(uint4 *)(to + 2 * k) = make_uint4(high[0], high[1], high[2], high[3]);
	if (p.low_at)
		*(uint4 *)(to + p.low_at + 2 * k) =
			make_uint4(low[0], low[1], low[2], low[3]);
}

/*
 * The power of two that brings the greatest finite element to [2^14, 2^15),
 * or as near as powers of two go.
 */
__device__ static inline float factor_of(float greatest)
{
	int up = 14 + 127 - (int)(__float_as_uint(greatest) >> 23);

	if (greatest == 0)
		return 1;
	return __uint_as_float((uint32_t)(127 + (up < 126 ? up : 126)) << 23);
}

__device__ static inline float greatest_of(const struct weir__cuda_columns &p,
					   const char *row, float *part)
{
	float most = 0, v[GROUP];

	for (int64_t k = threadIdx.x * GROUP; k < p.k; k += blockDim.x * GROUP) {
		group_in(p, row, k, v);
#pragma unroll
		for (int i = 0; i < GROUP; i++)
			if (fabsf(v[i]) < INFINITY)
				most = fmaxf(most, fabsf(v[i]));
	}
	return block_max(most, part);
}

/* A block converts a column. */
KERNEL(columns, columns)
{
	__shared__ float part[32];
	uint64_t i = blockIdx.x;
	place w = place_of(p.b, 2, p.batch + i / (uint64_t)p.n);
	const char *row = at_repeated(p.b, w, 2, WEIR__CUDA_DIMS) +
			  (p.column + (int64_t)(i % (uint64_t)p.n)) *
				  p.b.stride[1];
	char *to = workspace + p.b_at + (int64_t)i * p.b_stride;
	float factor = 1, v[GROUP];

	if (p.scale_at) {
		factor = factor_of(greatest_of(p, row, part));
		if (!threadIdx.x)
			*(float *)(to + p.scale_at) = 1 / factor;
	}
	for (int64_t k = threadIdx.x * GROUP; k < p.k; k += blockDim.x * GROUP) {
		group_in(p, row, k, v);
		if (p.scale_at)
			group_out<as_f16>(p, to, k, factor, v);
		else
			group_out<as_bf16>(p, to, k, 1, v);
	}
}

/* A block multiplies the elements of a row of dst by the scale of its column. */
KERNEL(unscale, scaled)
{
	const struct weir__cuda_columns &c = p.columns;
	uint64_t i = blockIdx.x;
	place w = place_of(p.dst, 2, c.batch + i / (uint64_t)c.n);
	float *row = (float *)(at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS) +
			       (c.column + (int64_t)(i % (uint64_t)c.n)) *
				       p.dst.stride[1]);
	float scale = *(const float *)(workspace + c.b_at +
				       (int64_t)i * c.b_stride + c.scale_at);

	for (int64_t m = threadIdx.x; m < p.m; m += blockDim.x)
		row[m] *= scale;
}

__device__ static inline int32_t id_of(const struct weir__cuda_lists &p,
				       int64_t slot)
{
	return (int32_t)word_in<uint32_t>(
		p.ids, address(p.ids) + slot / p.n * p.ids.stride[1] +
			       slot % p.n * p.ids.stride[0]);
}

/* An index out of range is reported, and is in no list. */
__device__ static inline void ids_check(const struct weir__cuda_lists &p,
					char *workspace)
{
	for (int64_t s = threadIdx.x; s < p.slots; s += blockDim.x) {
		int32_t id = id_of(p, s);

		if (id < 0 || id >= p.experts)
			found_index(workspace, p.node, id, s % p.n, p.experts);
	}
}

/*
 * A block lists the columns of an expert, in their order: the place of the
 * first one is the number of those of experts before it.
 */
KERNEL(lists, lists)
{
	__shared__ int part[32];
	int32_t *first = (int32_t *)(workspace + p.lists);
	int32_t *list = first + p.experts + 1;
	int32_t expert = (int32_t)blockIdx.x;
	unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int before = 0, mine = 0, at;

	if (!expert)
		ids_check(p, workspace);
	if (expert >= p.experts)
		return;
	for (int64_t s = threadIdx.x; s < p.slots; s += blockDim.x) {
		int32_t id = id_of(p, s);

		before += id >= 0 && id < expert;
		mine += id == expert;
	}
	before = block_sum(before, part);
	mine = block_sum(mine, part);
	if (!threadIdx.x) {
		first[expert] = before;
		if (expert == p.experts - 1)
			first[p.experts] = before + mine;
	}
	at = before;
	for (int64_t s0 = 0; s0 < p.slots; s0 += blockDim.x) {
		int64_t s = s0 + threadIdx.x;
		bool is = s < p.slots && id_of(p, s) == expert;
		unsigned those = __ballot_sync(~0u, is);
		int of_warp = __popc(those), offset = 0;

		if (!lane)
			part[warp] = of_warp;
		__syncthreads();
		for (unsigned i = 0; i < blockDim.x / 32; i++) {
			offset += i < warp ? part[i] : 0;
			of_warp = i ? of_warp + part[i] : part[i];
		}
		if (is)
			list[at + offset +
			     __popc(those & ((1u << lane) - 1))] = (int32_t)s;
		at += of_warp;
		__syncthreads();
	}
}
