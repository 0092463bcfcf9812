/* SPDX-License-Identifier: MIT */
/*
 * Sequences of attention: the positions to which a token attends, and the rows
 * of k and v that have them.
 */
#ifndef WEIR__CUDA_SEQUENCES_CUH
#define WEIR__CUDA_SEQUENCES_CUH

#include "cuda/kernels/device.cuh"

/* Positions [from, to). */
struct attended {
	int64_t from, to;
};

__device__ static inline int64_t length_of(const struct weir__cuda_attention &p,
					   uint64_t sequence)
{
	if (!p.lengths.data)
		return p.positions;
	return (int32_t)word_in<uint32_t>(p.lengths,
					  address(p.lengths) + sequence * 4);
}

__device__ static inline int64_t page_of(const struct weir__cuda_attention &p,
					 uint64_t sequence, int64_t i)
{
	return (int32_t)word_in<uint32_t>(
		p.pages, address(p.pages) +
				 (int64_t)sequence * p.pages.stride[1] +
				 i * p.pages.stride[0]);
}

/* The row of k and v with position @s. */
__device__ static inline int64_t row_of(const struct weir__cuda_attention &p,
					uint64_t sequence, int64_t s)
{
	int64_t page = p.page;

	if (!p.pages.data)
		return s;
	return page_of(p, sequence, s / page) * page + s % page;
}

/*
 * The positions to which any of the tokens [@token, @end) attends. The last
 * token of the node has the last position of its sequence.
 */
__device__ static inline attended
attended_by(const struct weir__cuda_attention &p, uint64_t sequence,
	    int64_t token, int64_t end)
{
	int64_t length = length_of(p, sequence);
	attended r = { 0, length };

	if (p.window)
		r.from = length - p.q.dim[1] + token - p.window + 1;
	if (r.from < 0)
		r.from = 0;
	if (p.causal)
		r.to -= p.q.dim[1] - end;
	if (r.to < r.from)
		r.to = r.from;
	return r;
}

/*
 * True if the length of the sequence or a page of the positions @r is out of
 * range, which is reported. All threads of the block call it.
 */
__device__ static inline bool
is_out_of_range(const struct weir__cuda_attention &p, uint64_t sequence,
		const attended &r, char *workspace)
{
	int64_t length, pages;
	bool found = false;

	if (!p.lengths.data)
		return false;
	length = length_of(p, sequence);
	if (length < 0 || length > p.positions) {
		if (threadIdx.x == 0)
			found_sequence(workspace, p.node,
				       WEIR__CUDA_FOUND_LENGTH, length,
				       (int64_t)sequence, p.positions, 0);
		return true;
	}
	if (!p.pages.data)
		return false;
	pages = p.k.dim[1] / p.page;
	for (int64_t i = r.from / p.page + threadIdx.x; i * p.page < r.to;
	     i += blockDim.x) {
		int64_t page = page_of(p, sequence, i);

		if (page >= 0 && page < pages)
			continue;
		found = true;
		found_sequence(workspace, p.node, WEIR__CUDA_FOUND_PAGE, page,
			       i, pages, (int64_t)sequence);
	}
	return __syncthreads_or(found);
}

#endif
