/* SPDX-License-Identifier: MIT */
/*
 * Attention: the queries that share a head of k, and the rows of positions.
 */
#ifndef WEIR__CUDA_QUERIES_CUH
#define WEIR__CUDA_QUERIES_CUH

#include "cuda/kernels/sequences.cuh"

typedef struct weir__cuda_attention_chunks params;

struct query {
	int64_t token, head;
};

/* Query @row of those that share head @head_k. */
__device__ static inline query query_of(const params &p, int64_t head_k,
					unsigned row)
{
	query w = { row / p.group, head_k * p.group + row % p.group };

	return w;
}

/* The row of head @head and token @token; @step is that of sequences. */
__device__ static inline char *row_at(const operand &t, int64_t step,
				      uint64_t sequence, int64_t head,
				      int64_t token)
{
	return address(t) + (int64_t)sequence * step + head * t.stride[2] +
	       token * t.stride[1];
}

__device__ static inline char *query_at(const params &p, uint64_t sequence,
					query w)
{
	return row_at(p.a.q, p.step_q, sequence, w.head, w.token);
}

__device__ static inline char *mask_at(const params &p, uint64_t sequence,
				       query w)
{
	return row_at(p.a.mask, p.step_mask, sequence, w.head, w.token);
}

/* The result is [.., T, H, Dv]. */
__device__ static inline char *result_at(const params &p, uint64_t sequence,
					 query w)
{
	return row_at(p.a.dst, p.step_dst, sequence, w.token, w.head);
}

__device__ static inline bool
length_is_wrong(const params &p, uint64_t sequence, char *workspace)
{
	int64_t length = length_of(p.a, sequence);

	if (length >= 0 && length <= p.a.positions)
		return false;
	found_sequence(workspace, p.a.node, WEIR__CUDA_FOUND_LENGTH, length,
		       (int64_t)sequence, p.a.positions, 0);
	return true;
}

/* The row of position @s, or -1 if its page is out of range. */
__device__ static inline int32_t row_checked(const params &p, uint64_t sequence,
					     uint32_t s, char *workspace)
{
	uint32_t page = p.a.page, pages = (uint32_t)p.a.k.dim[1];
	int64_t at;

	if (!p.a.pages.data)
		return (int32_t)s;
	pages /= page;
	at = page_of(p.a, sequence, s / page);
	if (at >= 0 && at < pages)
		return (int32_t)((uint32_t)at * page + s % page);
	found_sequence(workspace, p.a.node, WEIR__CUDA_FOUND_PAGE, at, s / page,
		       pages, (int64_t)sequence);
	return -1;
}

#endif
