/* SPDX-License-Identifier: MIT */
/* Operations on one element at a time, as F32. */
#include "cuda/kernels/device.cuh"

/* x / 2 * (1 + tanh(y)) is x / (1 + exp(-2 * y)). */
__device__ static float gelu(float x)
{
	const float two_root = 1.5957691216057308f; /* 2 * sqrt(2 / pi) */

	return x / (1 + expf(-two_root * (x + 0.044715f * x * x * x)));
}

/*
 * x / 2 * erfc(-x / sqrt(2)), and erfc(z) is erfcx(z) * exp(-z^2). The square
 * is that of h, which is |x| without its last bits and so exact, and a rest: so
 * small results are as exact as others.
 */
__device__ static float gelu_erf(float x)
{
	float size = fminf(fabsf(x), 20);
	float h = __uint_as_float(__float_as_uint(size) & ~0xfffu);
	float y = erfcxf(0.70710678f * size) * expf(-0.5f * (h * h)) *
		  expf(-0.5f * (size - h) * (size + h));

	return 0.5f * x * (x > 0 ? 2 - y : y);
}

/* A NaN stays. */
__device__ static float clamp(float x, float min, float max)
{
	x = x < min ? min : x;
	return x > max ? max : x;
}

__device__ static float compute(const struct weir__cuda_elements &p, float a,
				float b)
{
	switch (p.op) {
	case WEIR_OP_ADD:
		return a + b;
	case WEIR_OP_SUB:
		return a - b;
	case WEIR_OP_MUL:
		return a * b;
	case WEIR_OP_DIV:
		return a / b;
	case WEIR_OP_SCALE:
		return fmaf(p.scale, a, p.bias);
	case WEIR_OP_SQR:
		return a * a;
	case WEIR_OP_SILU:
		return silu(a);
	case WEIR_OP_GELU:
		return gelu(a);
	case WEIR_OP_GELU_ERF:
		return gelu_erf(a);
	case WEIR_OP_RELU:
		return a <= 0 ? 0 : a;
	case WEIR_OP_TANH:
		return tanhf(a);
	case WEIR_OP_SIGMOID:
		return 1 / (1 + expf(-a));
	case WEIR_OP_EXP:
		return expf(a);
	case WEIR_OP_SQRT:
		return sqrtf(a);
	case WEIR_OP_CLAMP:
		return clamp(a, p.min, p.max);
	default: /* WEIR_OP_SWIGLU */
		return silu(a) * b;
	}
}

/* a has the shape of the result, and b is repeated to it. */
KERNEL(elements, elements)
{
	for (uint64_t i = thread_first(); i < p.n; i += thread_step()) {
		char *dst = address(p.dst), *a = address(p.a),
		     *b = address(p.b);
		uint64_t rest = i;
		float y = 0;

#pragma unroll
		for (unsigned d = 0; d < WEIR__CUDA_DIMS; d++) {
			uint64_t dim = (uint64_t)p.dst.dim[d], at = rest;

			if (d >= p.ndim)
				continue;
			if (d + 1 < p.ndim) {
				rest = at / dim;
				at -= rest * dim;
			}
			dst += (int64_t)at * p.dst.stride[d];
			a += (int64_t)at * p.a.stride[d];
			if (b && p.b.dim[d] != p.dst.dim[d])
				at %= (uint64_t)p.b.dim[d];
			b += (int64_t)at * p.b.stride[d];
		}
		if (p.b.data)
			y = element_in(p.b, b);
		element_out(p.dst, dst, compute(p, element_in(p.a, a), y));
	}
}
