/* SPDX-License-Identifier: MIT */
/*
 * The limit of products of one column: read @n units of 16 bytes, and nothing
 * else. @out has one word. bench/products embeds the PTX that is kept beside
 * this file.
 */
#include <cstdint>

constexpr int UNROLL = 8; /* loads of a thread that are on their way */

static __device__ uint4 load(const uint4 *p)
{
	uint4 v;

	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, "
		     "[%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(p));
	return v;
}

extern "C" __global__ void __launch_bounds__(512)
	bench_read(const uint4 *p, uint64_t n, uint32_t *out)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t sum = 0;
	uint4 v[UNROLL];

	for (; i + (UNROLL - 1) * step < n; i += UNROLL * step) {
#pragma unroll
		for (int k = 0; k < UNROLL; k++)
			v[k] = load(p + i + k * step);
#pragma unroll
		for (int k = 0; k < UNROLL; k++)
			sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
	}
	for (; i < n; i += step) {
		v[0] = load(p + i);
		sum ^= v[0].x ^ v[0].y ^ v[0].z ^ v[0].w;
	}
	/* Never true, but the compiler does not know. */
	if (sum == 0x9e3779b9 && i == 1)
		*out = sum;
}
