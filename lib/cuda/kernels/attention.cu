/* SPDX-License-Identifier: MIT */
/*
 * Attention, plain: a block has one query and goes over the positions, TILE at
 * a time. It keeps the greatest score so far, the sum of exp(score - greatest),
 * and that sum with each exp times v. The order of the sums depends on nothing
 * but the positions; a position that is hidden changes no bit. It computes what
 * attention_chunks.cu does not.
 */
#include "cuda/kernels/quants.cuh"
#include "cuda/kernels/sequences.cuh"

#define TILE 128     /* threads of a block: a position of a tile for each */
#define HIDDEN -1.0f /* instead of an exp, which is not negative */

extern __shared__ float memory[]; /* the query [d], the result [dv] */

/* The memory of this block: in the workspace, if heads are long. */
__device__ static inline float *memory_of(const struct weir__cuda_attention &p,
					  char *workspace)
{
	if (!p.apart)
		return memory;
	return (float *)(workspace + p.apart) +
	       (int64_t)blockIdx.x * (p.d + p.dv);
}

/*
 * Element @i of a row, whose elements have @stride. A call: code for all dtypes
 * is large, and k and v have one.
 */
extern "C" __device__ __noinline__ float weir_stored(uint32_t dtype,
						     uint32_t unaligned,
						     int64_t stride,
						     const char *row, int64_t i)
{
	operand t;

	t.dtype = dtype;
	t.unaligned = unaligned;
	t.stride[0] = stride;
	return stored_in(t, row, i);
}

__device__ static inline float element_of(const operand &t, const char *row,
					  int64_t i)
{
	return weir_stored(t.dtype, t.unaligned, t.stride[0], row, i);
}

__device__ static inline float score_of(const struct weir__cuda_attention &p,
					const float *query, const char *row,
					const char *mask, float slope,
					int64_t s)
{
	float hidden = 0, w = 0;

	if (p.mask.data)
		hidden =
			slope * element_in(p.mask, mask + s * p.mask.stride[0]);
	if (hidden == -INFINITY)
		return hidden;
#pragma unroll 1
	for (int64_t i = 0; i < p.d; i++)
		w += query[i] * element_of(p.k, row, i);
	w *= p.scale;
	if (p.softcap > 0)
		w = p.softcap * tanhf(w / p.softcap);
	return w + hidden;
}

KERNEL(attention, attention)
{
	__shared__ float part[32], weight[TILE];
	__shared__ int64_t rows[TILE]; /* of k and v, of the positions */
	float *query = memory_of(p, workspace), *result = query + p.d;

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		place w = place_of(p.q, 1, n), v = w;
		const char *q = at_repeated(p.q, w, 1, WEIR__CUDA_DIMS);
		const char *k = at_shared(p.k, p.q, w, 2);
		const char *from = at_shared(p.v, p.q, w, 2);
		const char *mask = at_repeated(p.mask, w, 1, WEIR__CUDA_DIMS);
		float slope = slope_of(p.max_bias, w.i[2], p.heads);
		float most = sink_of(p.sinks, w.i[2]);
		float sum = most == -INFINITY ? 0 : expf(most - most);
		uint64_t sequence = n / (uint64_t)(p.q.dim[1] * p.q.dim[2]);
		attended r = attended_by(p, sequence, w.i[1], w.i[1] + 1);
		char *dst;

		if (is_out_of_range(p, sequence, r, workspace))
			continue;

		v.i[1] = w.i[2]; /* the result is [.., T, H, Dv] */
		v.i[2] = w.i[1];
		dst = at_repeated(p.dst, v, 1, WEIR__CUDA_DIMS);
#pragma unroll 1
		for (int64_t i = threadIdx.x; i < p.d; i += TILE)
			query[i] = element_in(p.q, q + i * p.q.stride[0]);
#pragma unroll 1
		for (int64_t i = threadIdx.x; i < p.dv; i += TILE)
			result[i] = 0;
		__syncthreads();
		for (int64_t tile = r.from / TILE * TILE; tile < r.to;
		     tile += TILE) {
			int64_t s = tile + threadIdx.x;
			int64_t left = r.to - tile < TILE ? r.to - tile : TILE;
			bool is_in = s >= r.from && s < r.to;
			int64_t row = is_in ? row_of(p, sequence, s) : 0;
			float score = is_in ? score_of(p, query,
						       k + row * p.k.stride[1],
						       mask, slope, s)
					    : -INFINITY;
			float next = fmaxf(most, block_max(score, part)), old;
			float e = expf(score - next);

			/* A NaN is not the greatest; the sum becomes NaN. */
			if (next == -INFINITY &&
			    !__syncthreads_or(isnan(score)))
				continue;
			if (score == -INFINITY)
				e = 0;
			old = most == -INFINITY ? 0 : expf(most - next);
			most = next;
			weight[threadIdx.x] = score == -INFINITY ? HIDDEN : e;
			rows[threadIdx.x] = row;
			sum = sum * old + block_sum(e, part);
#pragma unroll 1
			for (int64_t i = threadIdx.x; i < p.dv; i += TILE) {
				float more = result[i] * old;

#pragma unroll 1
				for (int64_t j = 0; j < left; j++) {
					const char *at =
						from + rows[j] * p.v.stride[1];

					if (weight[j] != HIDDEN)
						more += weight[j] *
							element_of(p.v, at, i);
				}
				result[i] = more;
			}
			__syncthreads();
		}
#pragma unroll 1
		for (int64_t i = threadIdx.x; i < p.dv; i += TILE)
			element_out(p.dst, dst + i * p.dst.stride[0],
				    sum != 0 ? result[i] / sum : 0);
		__syncthreads();
	}
}
