/* SPDX-License-Identifier: MIT */
/* Operations on one element at a time, as F32. */
#include "cuda/kernels/device.cuh"

__device__ static float silu(float x)
{
	return x / (1 + expf(-x));
}

/* x / 2 * (1 + tanh(y)) is x / (1 + exp(-2 * y)). */
__device__ static float gelu(float x)
{
	const float two_root = 1.5957691216057308f; /* 2 * sqrt(2 / pi) */

	return x / (1 + expf(-two_root * (x + 0.044715f * x * x * x)));
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
