/* SPDX-License-Identifier: MIT */
/* Indices of rows, of get_rows and set_rows. */
#ifndef WEIR__CUDA_INDICES_CUH
#define WEIR__CUDA_INDICES_CUH

#include "cuda/kernels/device.cuh"

/* The index for @w, whose dimension 1 is the last one of ids. */
__device__ static inline int64_t index_in(const operand &ids, const place &w)
{
	char *at = address(ids);

#pragma unroll
	for (unsigned d = 0; d + 1 < WEIR__CUDA_DIMS; d++)
		if (w.i[d + 1])
			at += w.i[d + 1] % ids.dim[d] * ids.stride[d];
	if (ids.dtype == WEIR_DTYPE_I64)
		return (int64_t)word_in<uint64_t>(ids, at);
	return (int32_t)word_in<uint32_t>(ids, at);
}

/* Find the row that set_rows sets for @w; false: out of range, and reported. */
__device__ static inline bool set_row_in(const struct weir__cuda_index &p,
					 char *workspace, const place &w,
					 int64_t &index)
{
	index = index_in(p.ids, w);
	if (index >= 0 && index < p.dst.dim[1])
		return true;
	found_index(workspace, p.node, index, w.i[1], p.dst.dim[1]);
	return false;
}

/* Threads from @first on, @step of them, set columns before @end. */
__device__ static inline void set_rows_of(const struct weir__cuda_index &p,
					  char *workspace, uint64_t first,
					  uint64_t end, uint64_t step)
{
	for (uint64_t i = first; i < end; i += step) {
		int64_t column = (int64_t)(i % (uint64_t)p.a.dim[0]);
		place w = place_of(p.a, 2, i / (uint64_t)p.a.dim[0]);
		char *dst = at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS) +
			    column * p.dst.stride[0];
		const char *a = at_repeated(p.a, w, 2, WEIR__CUDA_DIMS) +
				column * p.a.stride[0];

		for (int64_t row = 0; row < p.a.dim[1]; row++) {
			int64_t index;

			w.i[1] = row;
			if (!set_row_in(p, workspace, w, index))
				continue;
			element_out(p.dst, dst + index * p.dst.stride[1],
				    element_in(p.a, a + row * p.a.stride[1]));
		}
	}
}

#endif
