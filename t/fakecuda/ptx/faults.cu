/* SPDX-License-Identifier: MIT */
/* Kernels with a fault each; the test says which words are to be found. */
#include <cstdint>

extern "C" {

/* Of the driver. */
__device__ void __assertfail(const char *what, const char *file, unsigned line,
			     const char *function, size_t char_size);

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
	if (*y != 3)
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

__global__ void misaligned_shared(float *y, int n)
{
	__shared__ float a[32];

	a[threadIdx.x] = 1;
	__syncthreads();
	if (threadIdx.x == 0)
		*(float4 *)y = *(float4 *)(a + n);
}

/* The index is not known to the compiler: the array is in local memory. */
__global__ void unwritten_local(int *y, int n)
{
	int a[16];

	for (int i = 0; i < n; i++)
		a[i * 5 % 16] = i;
	y[threadIdx.x] = a[(n + threadIdx.x) % 16];
}

__global__ void beyond_local(int *y, int n)
{
	int a[16];

	for (int i = 0; i < 16; i++)
		a[i] = y[i];
	y[threadIdx.x] = a[n + threadIdx.x];
}

/*
 * Warps 0 and 1 read, and warp 2 writes. It has met warp @n, but not the other
 * one: to find that, both reads have to be remembered.
 */
__global__ void race_readers(float *y, int n)
{
	__shared__ float a[1];
	int warp = threadIdx.x / 32;
	float v = 0;

	if (threadIdx.x == 0)
		a[0] = 1;
	__syncthreads();
	if (warp < 2 && threadIdx.x % 32 == 0)
		v = *(volatile float *)a * 0 + a[0];
	if (warp == n || warp == 2)
		asm volatile("bar.sync 1, 64;" ::: "memory");
	if (threadIdx.x == 64)
		a[0] = 2;
	y[threadIdx.x] = v;
}

/* An atomic access and one that is not. */
__global__ void race_atomic(int *y)
{
	if (threadIdx.x == 0 && blockIdx.x == 0)
		atomicAdd(y, 1);
	else if (threadIdx.x == 0)
		*y = 1;
}

/* The fences are missing: relaxed accesses order nothing else. */
__global__ void race_relaxed(int *y)
{
	int there = 0;

	if (threadIdx.x)
		return;
	if (blockIdx.x == 0) {
		y[1] = 7;
		asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(y)
			     : "memory");
		return;
	}
	while (!there)
		asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
			     : "=r"(there)
			     : "l"(y)
			     : "memory");
	y[2] = y[1];
}

/*
 * The last block adds what both wrote. It lacks the fence after the write, or
 * that before the reads, or has those of a block.
 */
__device__ static inline void last_adds(int *y, bool release, bool acquire,
					bool inside)
{
	bool last;

	if (threadIdx.x)
		return;
	y[1 + blockIdx.x] = 7;
	if (release)
		__threadfence();
	if (inside)
		__threadfence_block();
	last = atomicAdd(y, 1) == 1;
	if (acquire)
		__threadfence();
	if (inside)
		__threadfence_block();
	if (last)
		y[3] = y[1] + y[2];
}

__global__ void race_no_release(int *y)
{
	last_adds(y, false, true, false);
}

__global__ void race_no_acquire(int *y)
{
	last_adds(y, true, false, false);
}

__global__ void race_fence_of_block(int *y)
{
	last_adds(y, false, false, true);
}

__global__ void vote_in_branch(unsigned *y, int n)
{
	unsigned v = 0;

	if ((int)threadIdx.x < n)
		v = __ballot_sync(~0u, v == 0);
	y[threadIdx.x] = v;
}

__global__ void product_in_branch(int *y, int n)
{
	int d[4] = { 0 }, a = threadIdx.x;

	if ((int)threadIdx.x < n)
		asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
			     "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
			     "{%0, %1, %2, %3};"
			     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
			     : "r"(a));
	y[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

/* Lanes 0 to 15 take part, and read from lanes 16 to 31. */
__global__ void shuffle_from_outside(float *y, int n)
{
	float v = threadIdx.x;

	if ((int)threadIdx.x < n)
		v = __shfl_sync(0xffff, v, threadIdx.x + 16);
	y[threadIdx.x] = v;
}

__global__ void not_in_its_mask(float *y)
{
	y[threadIdx.x] = __shfl_sync(0xffff, threadIdx.x, 0);
}

__global__ void two_barriers(float *y, int n)
{
	if ((int)threadIdx.x < n)
		asm volatile("bar.sync 0;");
	else
		asm volatile("bar.sync 0;\n\tnanosleep.u32 1;");
	y[threadIdx.x] = 1;
}

__global__ void half_a_warp(float *y, int n)
{
	asm volatile("barrier.sync 1, %0;" ::"r"(n));
	y[threadIdx.x] = 1;
}

__global__ void async_too_many(const char *x, float4 *y)
{
	__shared__ float4 a[32];
	unsigned p = (unsigned)__cvta_generic_to_shared(a + threadIdx.x);

	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(p),
		     "l"(x + 16 * threadIdx.x), "r"(threadIdx.x));
	asm volatile("cp.async.wait_all;" ::: "memory");
	y[threadIdx.x] = a[threadIdx.x];
}

__global__ void async_misaligned(const char *x, float4 *y)
{
	__shared__ float4 a[32];
	unsigned p = (unsigned)__cvta_generic_to_shared(a + threadIdx.x);

	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(p),
		     "l"(x + 16 * threadIdx.x + 8));
	asm volatile("cp.async.wait_all;" ::: "memory");
	y[threadIdx.x] = a[threadIdx.x];
}

__global__ void unset_predicate(int *y)
{
	int v = 0;

	asm volatile("{ .reg .pred p; @p add.s32 %0, %0, 1; }" : "+r"(v));
	y[threadIdx.x] = v;
}

__global__ void unset_choice(int *y)
{
	int v = 0;

	asm volatile("{ .reg .pred p; selp.s32 %0, 1, 2, p; }" : "=r"(v));
	y[threadIdx.x] = v;
}

/* What assert() calls, without the path of this file. */
__global__ void asserts(int *y, int n)
{
	if ((int)threadIdx.x >= n)
		__assertfail("i < n", "faults.cu", 1, "asserts", 1);
	y[threadIdx.x] = 1;
}
}
