/* SPDX-License-Identifier: MIT */
/*
 * Attention: the queries that share a head of k, and the rows of positions.
 */
#ifndef WEIR__CUDA_QUERIES_CUH
#define WEIR__CUDA_QUERIES_CUH

#include "cuda/kernels/sequences.cuh"

typedef struct weir__cuda_attention_chunks params;

/* The place of query @row of those that share head @head_k of a sequence. */
__device__ static inline place query_at(const params &p, uint64_t sequence,
					int64_t head_k, unsigned row)
{
	place w = place_of(p.a.q, 3, sequence);

	w.i[1] = row / p.group;
	w.i[2] = head_k * p.group + row % p.group;
	return w;
}

/* The address of the result, [.., T, H, Dv]. */
__device__ static inline char *result_at(const params &p, place w)
{
	int64_t head = w.i[2];

	w.i[2] = w.i[1];
	w.i[1] = head;
	return at_repeated(p.a.dst, w, 1, WEIR__CUDA_DIMS);
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
