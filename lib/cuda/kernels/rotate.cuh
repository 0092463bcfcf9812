/* SPDX-License-Identifier: MIT */
/* Rotations by position: rope. */
#ifndef WEIR__CUDA_ROTATE_CUH
#define WEIR__CUDA_ROTATE_CUH

#include "cuda/kernels/device.cuh"

/* Cosine and sine of pair @i at position @pos. */
__device__ static inline void rope_pair(const struct weir__cuda_rope &p,
					uint32_t i, int32_t pos, float *c,
					float *s)
{
	double angle = exp2(-2.0 * (double)i / (double)p.n_dims * p.base_log2);
	double scale = p.freq_scale, mix = 0, turns;

	if (p.factors.data)
		angle /= (double)element_in(p.factors,
					    address(p.factors) +
						    i * p.factors.stride[0]);
	if (p.ext_factor != 0) {
		mix = ((double)i - p.low) / fmax(p.high - p.low, 0.001);
		mix = p.ext_factor * (1 - fmin(fmax(mix, 0.0), 1.0));
		scale = scale * (1 - mix) + mix;
	}
	turns = angle * scale * 0.15915494309189535 * (double)pos;
	sincospif((float)(2 * (turns - rint(turns))), s, c);
	*c *= (float)p.size;
	*s *= (float)p.size;
}

/* A block rotates heads [@from, @end) of token @n. Each thread has a pair. */
__device__ static inline void rotate_heads(const struct weir__cuda_rope &p,
					   uint64_t n, int64_t from,
					   int64_t end)
{
	place w = place_of(p.dst, 2, n);
	char *dst = at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS);
	const char *a = at_repeated(p.a, w, 2, WEIR__CUDA_DIMS);
	int32_t pos = (int32_t)word_in<uint32_t>(
		p.pos, address(p.pos) + w.i[2] * p.pos.stride[0]);

	for (uint32_t i = threadIdx.x; i < p.n_dims / 2; i += blockDim.x) {
		int64_t x = p.neox ? i : 2 * i;
		int64_t y = p.neox ? i + p.n_dims / 2 : 2 * i + 1;
		float c, s;

		rope_pair(p, i, pos, &c, &s);
		for (int64_t h = from; h < end; h++) {
			const char *in = a + h * p.a.stride[1];
			char *to = dst + h * p.dst.stride[1];
			float u = element_in(p.a, in + x * p.a.stride[0]);
			float v = element_in(p.a, in + y * p.a.stride[0]);

			element_out(p.dst, to + x * p.dst.stride[0],
				    u * c - v * s);
			element_out(p.dst, to + y * p.dst.stride[0],
				    u * s + v * c);
		}
	}
	for (int64_t i = p.n_dims + threadIdx.x; i < p.dst.dim[0];
	     i += blockDim.x)
		for (int64_t h = from; h < end; h++)
			element_out(p.dst,
				    dst + h * p.dst.stride[1] +
					    i * p.dst.stride[0],
				    element_in(p.a,
					       a + h * p.a.stride[1] +
						       i * p.a.stride[0]));
}

#endif
