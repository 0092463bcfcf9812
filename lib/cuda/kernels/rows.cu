/* SPDX-License-Identifier: MIT */
/* Norms, softmax, rope: operations on whole rows. */
#include "cuda/kernels/device.cuh"

/* Rows of a row operation; all threads of a block have one. */
struct row {
	char *dst;
	const char *a;
	place w;
};

__device__ static inline row row_begin(const struct weir__cuda_rows &p,
				       uint64_t n)
{
	row r;

	r.w = place_of(p.dst, 1, n);
	r.dst = at_repeated(p.dst, r.w, 1, WEIR__CUDA_DIMS);
	r.a = at_repeated(p.a, r.w, 1, WEIR__CUDA_DIMS);
	return r;
}

__device__ static inline float row_in(const struct weir__cuda_rows &p,
				      const row &r, int64_t i)
{
	return element_in(p.a, r.a + i * p.a.stride[0]);
}

__device__ static inline void row_out(const struct weir__cuda_rows &p,
				      const row &r, int64_t i, float v)
{
	element_out(p.dst, r.dst + i * p.dst.stride[0], v);
}

/* Sums are double, as on the CPU: squares of small elements are no floats. */
KERNEL(rms_norm, rows)
{
	__shared__ double part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		row r = row_begin(p, n);
		double sum = 0, factor;

		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
			double x = (double)row_in(p, r, i);

			sum += x * x;
		}
		sum = block_sum(sum, part);
		factor = 1 / sqrt(sum / (double)p.columns + (double)p.eps);
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			row_out(p, r, i,
				(float)((double)row_in(p, r, i) * factor));
	}
}

KERNEL(l2_norm, rows)
{
	__shared__ double part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		row r = row_begin(p, n);
		double sum = 0, length;

		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
			double x = (double)row_in(p, r, i);

			sum += x * x;
		}
		length = sqrt(block_sum(sum, part));
		/* A NaN stays. */
		if (length < (double)p.eps)
			length = (double)p.eps;
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			row_out(p, r, i,
				(float)((double)row_in(p, r, i) / length));
	}
}

KERNEL(norm, rows)
{
	__shared__ double part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		row r = row_begin(p, n);
		double sum = 0, squares = 0, mean, factor;

		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			sum += (double)row_in(p, r, i);
		mean = block_sum(sum, part) / (double)p.columns;
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
			double x = (double)row_in(p, r, i) - mean;

			squares += x * x;
		}
		squares = block_sum(squares, part);
		factor = 1 / sqrt(squares / (double)p.columns + (double)p.eps);
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			row_out(p, r, i,
				(float)(((double)row_in(p, r, i) - mean) *
					factor));
	}
}

/* scale * a + slope * mask */
__device__ static inline float weight(const struct weir__cuda_rows &p,
				      const row &r, const char *mask,
				      float slope, int64_t i)
{
	float w = p.scale * row_in(p, r, i);

	if (p.mask.data)
		w += slope * element_in(p.mask, mask + i * p.mask.stride[0]);
	return w;
}

/* A row of minus infinities becomes 0, and a row with a NaN becomes NaN. */
KERNEL(soft_max, rows)
{
	__shared__ float part[32];

	for (uint64_t n = blockIdx.x; n < p.rows; n += gridDim.x) {
		row r = row_begin(p, n);
		const char *mask =
			at_repeated(p.mask, r.w, 1, WEIR__CUDA_DIMS);
		float slope = slope_of(p.max_bias, r.w.i[2], p.dst.dim[2]);
		float sink = sink_of(p.sinks, r.w.i[2]);
		float most = -INFINITY, sum = 0, factor;

		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			most = fmaxf(most, weight(p, r, mask, slope, i));
		most = fmaxf(block_max(most, part), sink);
		most = most == -INFINITY ? 0 : most;
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			sum += expf(weight(p, r, mask, slope, i) - most);
		sum = block_sum(sum, part) + expf(sink - most);
		factor = sum != 0 ? 1 / sum : 1;
		for (int64_t i = threadIdx.x; i < p.columns; i += blockDim.x)
			row_out(p, r, i,
				factor * expf(weight(p, r, mask, slope, i) -
					      most));
	}
}

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

/* A thread rotates a pair of all heads of a token. */
KERNEL(rope, rope)
{
	for (uint64_t n = blockIdx.x; n < p.tokens; n += gridDim.x) {
		place w = place_of(p.dst, 2, n);
		char *dst = at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS);
		const char *a = at_repeated(p.a, w, 2, WEIR__CUDA_DIMS);
		int32_t pos = (int32_t)word_in<uint32_t>(
			p.pos, address(p.pos) + w.i[2] * p.pos.stride[0]);

		for (uint32_t i = threadIdx.x; i < p.n_dims / 2;
		     i += blockDim.x) {
			int64_t x = p.neox ? i : 2 * i;
			int64_t y = p.neox ? i + p.n_dims / 2 : 2 * i + 1;
			float c, s;

			rope_pair(p, i, pos, &c, &s);
			for (int64_t h = 0; h < p.dst.dim[1]; h++) {
				const char *from = a + h * p.a.stride[1];
				char *to = dst + h * p.dst.stride[1];
				float u = element_in(
					p.a, from + x * p.a.stride[0]);
				float v = element_in(
					p.a, from + y * p.a.stride[0]);

				element_out(p.dst, to + x * p.dst.stride[0],
					    u * c - v * s);
				element_out(p.dst, to + y * p.dst.stride[0],
					    u * s + v * c);
			}
		}
		for (int64_t i = p.n_dims + threadIdx.x; i < p.dst.dim[0];
		     i += blockDim.x)
			for (int64_t h = 0; h < p.dst.dim[1]; h++)
				element_out(
					p.dst,
					dst + h * p.dst.stride[1] +
						i * p.dst.stride[0],
					element_in(p.a,
						   a + h * p.a.stride[1] +
							   i * p.a.stride[0]));
	}
}
