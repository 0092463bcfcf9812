/* SPDX-License-Identifier: MIT */
/* Norms, softmax, rope: operations on whole rows. */
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/rotate.cuh"

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

KERNEL(rope, rope)
{
	for (uint64_t n = blockIdx.x; n < p.tokens; n += gridDim.x)
		rotate_heads(p, n, 0, p.dst.dim[1]);
}
