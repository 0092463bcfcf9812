/* SPDX-License-Identifier: MIT */
/* Rows of b as bytes, which mat-vecs with quantised rows read: params.h. */
#ifndef WEIR__CUDA_ROUNDED_CUH
#define WEIR__CUDA_ROUNDED_CUH

#include "cuda/kernels/device.cuh"

/*
 * A warp rounds the 32 elements of a group of a row, which is at @row as bytes;
 * lane i has element i. If one is infinite or NaN their scale is NaN; the bytes
 * are 0 if the inverse of the scale would be infinite.
 */
__device__ static inline void group_round(float v, unsigned group,
					  uint32_t order, char *row)
{
	unsigned lane = threadIdx.x % 32;
	char *to = row + group / 32 * (uint64_t)WEIR__CUDA_MATVEC_UNIT_BYTES;
	unsigned bits = __reduce_max_sync(~0u,
					  __float_as_uint(v) & 0x7fffffff);
	float most = __uint_as_float(bits);
	float factor = most >= 1e-35f && bits < 0x7f800000 ? 127 / most : 0;
	unsigned part = (group * 2 + lane / 16) % 64;
	unsigned h = part >> order & 1;
	unsigned owner = part >> (order + 1) << order |
			 (part & ((1 << order) - 1));
	int byte, low, all;

	/* Adding this moves the integer to the lowest bits. */
	v = factor > 0 ? __fmul_rn(v, factor) : 0;
	byte = (signed char)__float_as_uint(__fadd_rn(v, 12582912.0f));
	low = __reduce_add_sync(~0u, lane < 16 ? byte : 0);
	all = __reduce_add_sync(~0u, byte);
	to[512 * h + 16 * owner + lane % 16] = (char)byte;
	if (!lane)
		*(int2 *)(to + WEIR__CUDA_MATVEC_UNIT + 8 * (group % 32)) =
			make_int2(bits >= 0x7f800000 ? 0x7fffffff
				  : factor > 0 ? __float_as_int(most / 127)
					       : 0,
				  (low & 0xffff) | (all - low) << 16);
}

#endif
