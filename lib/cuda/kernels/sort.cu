/* SPDX-License-Identifier: MIT */
/*
 * top_k and argsort. An element and its index become one number, so that all
 * are different, and any sort is stable:
 *
 * - top_k of up to MOST elements: a block finds the greatest number that is
 *   chosen, 8 bits at a time, by counting; then it sorts what is not above;
 * - else a block sorts CHUNK elements, and launches of many blocks merge
 *   neighbouring runs, each number going to its place in both.
 */
#include "cuda/kernels/device.cuh"

#define THREADS 256
#define CHUNK WEIR__CUDA_SORT_CHUNK
#define MOST WEIR__CUDA_TOP_K_MOST
#define NONE (~(uint64_t)0)

/* The number of an element: the first in the order is the least; NaN is last.
 */
__device__ static inline uint64_t number_of(const struct weir__cuda_sort &p,
					    const char *row, int64_t i)
{
	float x = element_in(p.a, row + i * p.a.stride[0]);
	uint32_t bits = __float_as_uint(x == 0 ? 0.0f : x);

	bits = bits >> 31 ? ~bits : bits | 0x80000000u;
	if (p.descending)
		bits = ~bits;
	if (isnan(x))
		bits = ~0u;
	return (uint64_t)bits << 32 | (uint32_t)i;
}

__device__ static inline const char *row_of(const struct weir__cuda_sort &p,
					    uint64_t row)
{
	return at_repeated(p.a, place_of(p.a, 1, row), 1, WEIR__CUDA_DIMS);
}

__device__ static inline void index_out(const struct weir__cuda_sort &p,
					uint64_t row, int64_t place,
					uint64_t number)
{
	word_out<uint32_t>(p.dst,
			   address(p.dst) + 4 * ((int64_t)row * p.k + place),
			   (uint32_t)number);
}

/* Sort @n numbers, a power of two, by a bitonic network. */
__device__ static inline void block_sort(uint64_t *v, unsigned n)
{
	for (unsigned size = 2; size <= n; size *= 2)
		for (unsigned step = size / 2; step; step /= 2) {
			__syncthreads();
			for (unsigned t = threadIdx.x; t < n / 2;
			     t += THREADS) {
				unsigned i = 2 * t - (t & (step - 1));
				uint64_t x = v[i], y = v[i + step];
				bool up = !(i & size);

				if (up == (x > y)) {
					v[i] = y;
					v[i + step] = x;
				}
			}
		}
	__syncthreads();
}

/* A block sorts chunks of rows: to the workspace, or to the result. */
KERNEL(sort_chunks, sort)
{
	__shared__ uint64_t v[CHUNK];
	uint64_t chunks = ((uint64_t)p.columns + CHUNK - 1) / CHUNK;
	uint64_t *to = (uint64_t *)(workspace + p.to);

	for (uint64_t c = blockIdx.x; c < p.rows * chunks; c += gridDim.x) {
		uint64_t row = c / chunks;
		const char *a = row_of(p, p.first + row);
		int64_t at = (int64_t)(c % chunks) * CHUNK;
		unsigned n = p.columns - at < CHUNK ? (unsigned)(p.columns - at)
						    : CHUNK;
		unsigned power = 1;

		while (power < n)
			power *= 2;
		for (unsigned i = threadIdx.x; i < power; i += THREADS)
			v[i] = i < n ? number_of(p, a, at + i) : NONE;
		block_sort(v, power);
		for (unsigned i = threadIdx.x; i < n; i += THREADS)
			if (!p.last)
				to[row * (uint64_t)p.columns + (uint64_t)at +
				   i] = v[i];
			else if (i < p.k)
				index_out(p, p.first + row, i, v[i]);
		__syncthreads();
	}
}

/* How many of @n sorted numbers are less than @x. */
__device__ static inline uint64_t count_less(const uint64_t *v, uint64_t n,
					     uint64_t x)
{
	uint64_t low = 0;

	while (low < n) {
		uint64_t middle = low + (n - low) / 2;

		if (v[middle] < x)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

/* Merge pairs of runs of p.width numbers. A thread moves some numbers. */
KERNEL(sort_merge, sort)
{
	uint64_t columns = (uint64_t)p.columns, width = p.width;

	for (uint64_t i = thread_first(); i < p.rows * columns;
	     i += thread_step()) {
		uint64_t row = i / columns, at = i % columns;
		const uint64_t *from =
			(const uint64_t *)(workspace + p.from) + row * columns;
		uint64_t own = at / width * width, both = own & ~width;
		uint64_t other = own ^ width, n = 0, place, x = from[at];

		if (other < columns)
			n = count_less(from + other,
				       columns - other < width ? columns - other
							       : width,
				       x);
		place = both + (at - own) + n;
		if (!p.last)
			((uint64_t *)(workspace + p.to))[row * columns +
							 place] = x;
		else if (place < (uint64_t)p.k)
			index_out(p, p.first + row, (int64_t)place, x);
	}
}

/* Count the numbers whose bits above @shift are those of @prefix. */
__device__ static inline void digits_count(const struct weir__cuda_sort &p,
					   const char *a, uint64_t prefix,
					   unsigned shift, uint32_t *count)
{
	for (int64_t i = threadIdx.x; i < p.columns; i += THREADS) {
		uint64_t x = number_of(p, a, i);

		/* In two steps: a shift by 64 is not defined. */
		if ((x ^ prefix) >> shift >> 8)
			continue;
		atomicAdd(&count[x >> shift & 255], 1u);
	}
}

/*
 * The greatest of the p.k least numbers of the row, or one that is greater and
 * less than the next. @count has room for 256 digits, @found for 3 numbers.
 */
__device__ static inline uint64_t find_last(const struct weir__cuda_sort &p,
					    const char *a, uint32_t *count,
					    uint32_t *found)
{
	uint32_t need = (uint32_t)p.k, own, sum;
	unsigned shift = 56, t = threadIdx.x;
	uint64_t prefix = 0;

	for (;; shift -= 8) {
		count[t] = 0;
		__syncthreads();
		digits_count(p, a, prefix, shift, count);
		__syncthreads();
		own = sum = count[t];
		for (unsigned o = 1; o < 256; o *= 2) {
			uint32_t before = t >= o ? count[t - o] : 0;

			__syncthreads();
			sum += before;
			count[t] = sum;
			__syncthreads();
		}
		if (sum >= need && sum - own < need) {
			found[0] = t;
			found[1] = sum - own;
			found[2] = own;
		}
		__syncthreads();
		prefix |= (uint64_t)found[0] << shift;
		need -= found[1];
		if (found[2] == need || !shift)
			return prefix | (((uint64_t)1 << shift) - 1);
		/* found is written again after the barriers above. */
	}
}

KERNEL(top_k, sort)
{
	__shared__ uint64_t v[MOST];
	__shared__ uint32_t count[256], found[3], chosen;

	for (uint64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
		const char *a = row_of(p, row);
		uint64_t last = find_last(p, a, count, found);
		unsigned k = (unsigned)p.k, power = 1;

		while (power < k)
			power *= 2;
		for (unsigned i = threadIdx.x; i < power; i += THREADS)
			v[i] = NONE;
		if (threadIdx.x == 0)
			chosen = 0;
		__syncthreads();
		for (int64_t i = threadIdx.x; i < p.columns; i += THREADS) {
			uint64_t x = number_of(p, a, i);

			if (x <= last)
				v[atomicAdd(&chosen, 1u)] = x;
		}
		block_sort(v, power);
		for (unsigned i = threadIdx.x; i < k; i += THREADS)
			index_out(p, row, i, v[i]);
		__syncthreads();
	}
}
