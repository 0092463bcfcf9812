/* SPDX-License-Identifier: MIT */
/* Kernels with a fault each; the test says which words are to be found. */
#include <cstdint>

extern "C" {

__global__ void out_of_bounds(float *y, int n)
{
	y[threadIdx.x + n] = 1;
}

__global__ void misaligned(float *y, int n)
{
	*(float4 *)(y + n) = make_float4(1, 2, 3, 4);
}

__global__ void beyond_shared(float *y, int n)
{
	__shared__ float a[32], b[32];

	a[threadIdx.x] = 1;
	b[threadIdx.x] = 2;
	__syncthreads();
	y[threadIdx.x] = a[threadIdx.x + n] + b[threadIdx.x];
}

__global__ void unwritten_shared(float *y, int n)
{
	__shared__ float a[64];

	a[threadIdx.x] = 1;
	__syncthreads();
	y[threadIdx.x] = a[threadIdx.x + n];
}

__global__ void unwritten_global(const float *x, float *y)
{
	y[threadIdx.x] = x[threadIdx.x];
}

/* The barrier is missing. */
__global__ void race_warps(float *y)
{
	__shared__ float a[64];

	a[threadIdx.x] = threadIdx.x;
	y[threadIdx.x] = a[63 - threadIdx.x];
}

/* Read by all, then written by lane 0: shuffles order nothing. */
__global__ void race_lanes(float *y)
{
	__shared__ float a[2];
	float v;

	if (threadIdx.x < 2)
		a[threadIdx.x] = 1;
	__syncthreads();
	v = a[0];
	v = __shfl_xor_sync(~0u, v, 1);
	if (threadIdx.x == 0)
		a[0] = v;
	y[threadIdx.x] = v;
}

__global__ void race_blocks(int *y)
{
	if (threadIdx.x == 0)
		*y = blockIdx.x;
}

__global__ void shuffle_in_branch(float *y, int n)
{
	float v = threadIdx.x;

	if ((int)threadIdx.x < n)
		v = __shfl_down_sync(~0u, v, 1);
	y[threadIdx.x] = v;
}

__global__ void barrier_in_branch(float *y, int n)
{
	if ((int)threadIdx.x < n) {
		__syncthreads();
		y[threadIdx.x] = 1;
	} else {
		asm volatile("bar.sync 1;");
	}
}

__global__ void async_too_early(const float4 *x, float4 *y)
{
	__shared__ float4 a[64];
	int i = threadIdx.x;

	for (int k = 0; k < 2; k++) {
		unsigned p = (unsigned)__cvta_generic_to_shared(a + i + 32 * k);

		asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(p),
			     "l"(x + i + 32 * k));
		asm volatile("cp.async.commit_group;");
	}
	asm volatile("cp.async.wait_group 1;" ::: "memory");
	y[i] = a[i];
	y[i + 32] = a[i + 32];
}

__global__ void unwritten_register(int *y)
{
	int v;

	asm volatile("{ .reg .b32 t; add.s32 %0, t, 1; }" : "=r"(v));
	y[threadIdx.x] = v;
}

__global__ void endless(volatile int *y)
{
	while (!*y)
		;
}

__global__ void traps(int *y)
{
	if (*y == 3)
		__trap();
}

/* Each lane reads another sector, and all read the same bank. */
__global__ void strided(const float *x, float *y)
{
	__shared__ float a[1024];

	for (int i = 0; i < 32; i++)
		a[threadIdx.x + 32 * i] = 0;
	__syncthreads();
	y[threadIdx.x] = x[threadIdx.x * 8] + a[threadIdx.x * 32];
}
}
