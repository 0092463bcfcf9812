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

#endif
