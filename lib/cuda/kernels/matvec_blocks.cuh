/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of quantised blocks as they are stored. b
 * is rounded to bytes with a scale for each 32 elements, as on the CPU: so
 * products of elements are sums of integers, four by an instruction, which are
 * exact. A lane takes two parts of 16 elements, h = 0 and 1, of each 1024.
 *
 * A dtype is a struct:
 *
 *	elements, bytes		of a block
 *	order			of the parts of a lane (part_of())
 *	wide, shifted		as in matvec.cuh
 *	in()			unpacks the parts of a lane from a unit of 1024
 *				elements
 *	dot()			their product with those of a column
 */
#ifndef WEIR__CUDA_MATVEC_BLOCKS_CUH
#define WEIR__CUDA_MATVEC_BLOCKS_CUH

#include "cuda/kernels/matvec.cuh"

/* Two parts of a column: bytes, their scale, and the sum of the bytes. */
struct column_parts {
	int q[8];
	float scale[2];
	int sum[2];
};

/* N words at any address of shared memory. */
template <int N> __device__ static inline void words_in(uint32_t at, int *w)
{
	uint32_t from = at & ~3u, own = shared_u32(from), next;

#pragma unroll
	for (int i = 0; i < N; i++) {
		/* Nothing is read behind the word with the last byte. */
		next = shared_u32(i + 1 < N ? from + 4 * (i + 1)
					    : (at + 4 * N - 1) & ~3u);
		w[i] = (int)__funnelshift_r(own, next, 8 * at);
		own = next;
	}
}

__device__ static inline float scale_in(uint32_t at)
{
	return f16_in(shared_u16(at));
}

/* The sum of four words of bytes times those of a column. */
__device__ static inline int dot_16(const int *a, const int *b, int sum)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum = __dp4a(a[i], b[i], sum);
	return sum;
}

/* The same with bytes of a that have no sign. */
__device__ static inline int dot_16_unsigned(const int *a, const int *b)
{
	int sum = 0;

#pragma unroll
	for (int i = 0; i < 4; i++)
		asm("dp4a.u32.s32 %0, %1, %2, %0;"
		    : "+r"(sum)
		    : "r"(a[i]), "r"(b[i]));
	return sum;
}

/* Of a dtype without a table in shared memory. */
struct no_table {
	__device__ static inline void begin()
	{
	}
};

/*
 * The scales and minima of a lane of Q4_K or Q5_K, whose parts are in two
 * neighbouring groups of 32 elements: the first 16 bytes of a block have two
 * scales, and those of the groups, of 6 bits each.
 */
__device__ static inline void scales_q4_k(uint4 head, unsigned lane,
					  float scale[2], float least[2])
{
	float d = f16_in((uint16_t)head.x);
	float m = f16_in((uint16_t)(head.x >> 16));
	uint32_t scales = head.y & 0x3f3f3f3f;
	uint32_t leasts = head.z & 0x3f3f3f3f;

	/* Four bits of the last four groups, and two of the first. */
	if (lane % 8 >= 4) {
		scales = (head.w & 0x0f0f0f0f) | (head.y >> 2 & 0x30303030);
		leasts = (head.w >> 4 & 0x0f0f0f0f) |
			 (head.z >> 2 & 0x30303030);
	}
	scales >>= 16 * (lane / 2 % 2);
	leasts >>= 16 * (lane / 2 % 2);
	scale[0] = d * (float)(scales & 255);
	scale[1] = d * (float)(scales >> 8 & 255);
	least[0] = m * (float)(leasts & 255);
	least[1] = m * (float)(leasts >> 8 & 255);
}

/* Part @h of lane @lane, of the 64 parts of a unit. */
__device__ static inline unsigned part_of(unsigned order, unsigned lane,
					  unsigned h)
{
	return (lane >> order) * (2 << order) + (lane & ((1 << order) - 1)) +
	       (h << order);
}

/* @UNITS times 1024 elements of a row are copied at a time. */
template <class R, int UNITS = 1, class TABLE = no_table> struct blocks {
	static const int elements = R::elements, bytes = R::bytes;
	static const int unit = UNITS * MATVEC_UNIT;
	static const int b_bytes = UNITS * MATVEC_UNIT_BYTES;
	static const int unit_bytes = unit / elements * bytes;
	static const int wide = R::wide;
	static const bool shifted = R::shifted;

	__device__ static inline void begin()
	{
		TABLE::begin();
	}

	/*
	 * Bytes are in the order of lanes: those of part 0, then of part 1.
	 * Parts of one group have the same scale; else part h is the half of
	 * its group that the number of the lane says.
	 */
	__device__ static inline void parts_in(const char *b, unsigned lane,
					       column_parts &to)
	{
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int4 q = *(const int4 *)(b + 512 * h + 16 * lane);

			to.q[4 * h] = q.x, to.q[4 * h + 1] = q.y;
			to.q[4 * h + 2] = q.z, to.q[4 * h + 3] = q.w;
		}
#pragma unroll
		for (int h = 0; h < 2; h++) {
			unsigned group = part_of(R::order, lane, h) / 2;
			int2 s = *(const int2 *)(b + MATVEC_UNIT + 8 * group);
			bool upper = R::order ? lane % 2 : h;

			to.scale[h] = __int_as_float(s.x);
			to.sum[h] = upper ? s.y >> 16 : (int)(int16_t)s.y;
		}
	}

	template <int C, int ROWS>
	__device__ static inline void add(const uint32_t at[ROWS],
					  const char *b, const int column[C],
					  int k, float *sum)
	{
		const int apart = unit_bytes / UNITS;
		unsigned lane = threadIdx.x % 32;
		R a[ROWS];

#pragma unroll 1
		for (int u = 0; u < UNITS; u++) {
			/* A block is that of neighbouring lanes. */
			if (MATVEC_UNIT * u + 32 * (int)lane >= k)
				return;
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				a[r].in(at[r] + u * apart, lane);
#pragma unroll
			for (int c = 0; c < C; c++) {
				column_parts x;

				parts_in(b + column[c], lane, x);
#pragma unroll
				for (int r = 0; r < ROWS; r++)
					sum[c * ROWS + r] += a[r].dot(x);
			}
			b += MATVEC_UNIT_BYTES;
		}
	}
};

#endif
