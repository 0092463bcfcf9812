/* SPDX-License-Identifier: MIT */
/*
 * What all kernels use: elements of every dtype as F32, and their addresses.
 * Device code only. Conversions are PTX, so that no header of CUDA is needed.
 */
#ifndef WEIR__CUDA_DEVICE_CUH
#define WEIR__CUDA_DEVICE_CUH

#include <weir/ops.h>

#include "cuda/kernels/params.h"

typedef struct weir__cuda_operand operand;

/* A kernel: its parameters, and the workspace of the run. */
#define KERNEL(name, params)              \
	extern "C" __global__ void weir_kernel_##name( \
		const struct weir__cuda_##params p, char *workspace)

__device__ static inline float f16_in(uint16_t x)
{
	float v;

	asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(x));
	return v;
}

__device__ static inline uint16_t f16_out(float v)
{
	uint16_t x;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x) : "f"(v));
	return x;
}

__device__ static inline float bf16_in(uint16_t x)
{
	return __uint_as_float((uint32_t)x << 16);
}

__device__ static inline uint16_t bf16_out(float v)
{
	uint16_t x;

	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x) : "f"(v));
	return x;
}

/* A little-endian number at any address. */
template <typename T>
__device__ static inline T bytes_in(const char *at)
{
	T v = 0;

#pragma unroll
	for (unsigned i = 0; i < sizeof(T); i++)
		v |= (T)(uint8_t)at[i] << 8 * i;
	return v;
}

template <typename T>
__device__ static inline void bytes_out(char *at, T v)
{
#pragma unroll
	for (unsigned i = 0; i < sizeof(T); i++)
		at[i] = (char)(v >> 8 * i);
}

template <typename T>
__device__ static inline T word_in(const operand &t, const char *at)
{
	return t.unaligned ? bytes_in<T>(at) : *(const T *)at;
}

template <typename T>
__device__ static inline void word_out(const operand &t, char *at, T v)
{
	if (t.unaligned)
		bytes_out<T>(at, v);
	else
		*(T *)at = v;
}

/* An element of F32, F16 or BF16 as F32, and back. */
__device__ static inline float element_in(const operand &t, const char *at)
{
	if (t.dtype == WEIR_DTYPE_F32)
		return __uint_as_float(word_in<uint32_t>(t, at));
	if (t.dtype == WEIR_DTYPE_F16)
		return f16_in(word_in<uint16_t>(t, at));
	return bf16_in(word_in<uint16_t>(t, at));
}

__device__ static inline void element_out(const operand &t, char *at, float v)
{
	if (t.dtype == WEIR_DTYPE_F32)
		word_out<uint32_t>(t, at, __float_as_uint(v));
	else
		word_out<uint16_t>(t, at, t.dtype == WEIR_DTYPE_F16
						  ? f16_out(v)
						  : bf16_out(v));
}

__device__ static inline char *address(const operand &t)
{
	return (char *)t.data;
}

/* The index of an element or a row in each dimension. */
struct place {
	int64_t i[WEIR__CUDA_DIMS];
};

/*
 * Number @n, counted over the dimensions of @t from @from on, which is a
 * constant. The dimensions before it are 0.
 */
__device__ static inline place place_of(const operand &t, unsigned from,
					uint64_t n)
{
	place w;

#pragma unroll
	for (unsigned d = 0; d < WEIR__CUDA_DIMS; d++) {
		uint64_t dim = (uint64_t)t.dim[d];

		w.i[d] = 0;
		if (d >= from && dim != 1) {
			w.i[d] = (int64_t)(n % dim);
			n /= dim;
		}
	}
	return w;
}

/* The address at @w in dimensions [from, to), in which @t is repeated. */
__device__ static inline char *at_repeated(const operand &t, const place &w,
					   unsigned from, unsigned to)
{
	char *p = address(t);

#pragma unroll
	for (unsigned d = 0; d < WEIR__CUDA_DIMS; d++) {
		int64_t i = w.i[d];

		if (d < from || d >= to || !i)
			continue;
		if (i >= t.dim[d])
			i %= t.dim[d];
		p += i * t.stride[d];
	}
	return p;
}

/*
 * The same for tensors each of whose indices belongs to several neighbouring
 * ones of @of, as heads of k and v do.
 */
__device__ static inline char *at_shared(const operand &t, const operand &of,
					 const place &w, unsigned from)
{
	char *p = address(t);

#pragma unroll
	for (unsigned d = 0; d < WEIR__CUDA_DIMS; d++)
		if (d >= from && w.i[d])
			p += w.i[d] / (of.dim[d] / t.dim[d]) * t.stride[d];
	return p;
}

/*
 * Sum and greatest over the threads of a block, whose number is a multiple of
 * 32, in a fixed order. @part has room for each warp; no thread uses it when
 * the call begins, or when it ends.
 */
template <typename T>
__device__ static inline T block_sum(T v, T *part)
{
	T sum = 0;

	for (unsigned o = 16; o; o >>= 1)
		v += __shfl_xor_sync(~0u, v, o);
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	for (unsigned i = 0; i < blockDim.x / 32; i++)
		sum += part[i];
	__syncthreads();
	return sum;
}

__device__ static inline float block_max(float v, float *part)
{
	for (unsigned o = 16; o; o >>= 1)
		v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = v;
	__syncthreads();
	for (unsigned i = 0; i < blockDim.x / 32; i++)
		v = fmaxf(v, part[i]);
	__syncthreads();
	return v;
}

/*
 * The slope of ALiBi, the factor of the mask, for head @h of @heads; 1 if
 * @max_bias is 0. It is never 0: so -infinity times it is -infinity.
 */
__device__ static inline float slope_of(float max_bias, int64_t h,
					int64_t heads)
{
	int64_t n = 1;
	float power;

	if (max_bias == 0)
		return 1;
	while (n <= heads / 2)
		n *= 2;
	power = h < n ? -max_bias * ((float)(h + 1) / (float)n)
		      : -max_bias / 2 * (float)(2 * (h - n) + 1) / (float)n;
	return fmaxf(exp2f(power), 1.17549435e-38f);
}

__device__ static inline float silu(float x)
{
	return x / (1 + expf(-x));
}

/* The sink of a head, -infinity if the source was left out. */
__device__ static inline float sink_of(const operand &sinks, int64_t h)
{
	return sinks.data ? element_in(sinks,
				       address(sinks) + h * sinks.stride[0])
			  : -INFINITY;
}

/* An index out of range: the first node that has one keeps it. */
__device__ static inline void found_index(char *workspace, uint64_t node,
					  int64_t index, int64_t at,
					  int64_t rows)
{
	struct weir__cuda_status *s = (struct weir__cuda_status *)workspace;

	if (atomicCAS((unsigned long long *)&s->node, 0, node))
		return;
	s->index = index;
	s->at = at;
	s->rows = rows;
}

/* The same for a length or a page of attention. */
__device__ static inline void
found_sequence(char *workspace, uint64_t node, enum weir__cuda_found_what what,
	       int64_t index, int64_t at, int64_t rows, int64_t sequence)
{
	struct weir__cuda_status *s = (struct weir__cuda_status *)workspace;

	if (atomicCAS((unsigned long long *)&s->node, 0, node))
		return;
	s->index = index;
	s->at = at;
	s->rows = rows;
	s->sequence = sequence;
	s->what = what;
}

/* The number of this thread in the grid, and how many there are. */
__device__ static inline uint64_t thread_first(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t thread_step(void)
{
	return (uint64_t)gridDim.x * blockDim.x;
}

#endif
