/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of quantised blocks as they are stored. b
 * is rounded to bytes with a scale for each 32 elements, as on the CPU: so
 * products of elements are sums of integers, four by an instruction, which are
 * exact. A lane takes two parts of 16 elements, h = 0 and 1, of each 1024.
 */
#include "cuda/kernels/matvec.cuh"
#include "cuda/kernels/rounded.cuh"

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

struct rows_q8_0 {
	static const int elements = 32, bytes = 34, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		scale = scale_in(unit + 34 * lane);
		words_in<8>(unit + 34 * lane + 2, q);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int v = dot_16(q + 4, b.q + 4, dot_16(q, b.q, 0));

		return scale * b.scale[0] * (float)v;
	}
};

struct rows_q4_0 {
	static const int elements = 32, bytes = 18, order = 0, wide = 4;
	static const bool shifted = true;
	int q[8];
	float scale;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		int w[4];

		scale = scale_in(unit + 18 * lane);
		words_in<4>(unit + 18 * lane + 2, w);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			q[i] = w[i] & 0x0f0f0f0f;
			q[4 + i] = w[i] & 0xf0f0f0f0;
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		/* The upper ones are 16 times what they are. */
		int v = dot_16(q, b.q, 0) +
			(dot_16_unsigned(q + 4, b.q + 4) >> 4);

		return scale * b.scale[0] *
		       (float)(v - 8 * (b.sum[0] + b.sum[1]));
	}
};

/*
 * Eight lanes for a block: two of each 32 bytes, which are two groups of 32
 * elements. Blocks are multiples of 16 bytes: the first 16 have two scales, and
 * those of the groups.
 */
struct rows_q4_k {
	static const int elements = 256, bytes = 144, order = 1, wide = 4;
	static const bool shifted = false;
	int q[8];
	float scale[2], least[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 144 * (lane / 8);
		uint4 head = shared_u32x4(b);
		uint4 w = shared_u32x4(b + 16 + 16 * (lane % 8));
		float d = f16_in((uint16_t)head.x);
		float m = f16_in((uint16_t)(head.x >> 16));
		uint32_t scales = head.y & 0x3f3f3f3f;
		uint32_t leasts = head.z & 0x3f3f3f3f;

		/* Four bits of the last four groups, and two of the first. */
		if (lane % 8 >= 4) {
			scales = (head.w & 0x0f0f0f0f) |
				 (head.y >> 2 & 0x30303030);
			leasts = (head.w >> 4 & 0x0f0f0f0f) |
				 (head.z >> 2 & 0x30303030);
		}
		scales >>= 16 * (lane / 2 % 2);
		leasts >>= 16 * (lane / 2 % 2);
		/* The upper ones are 16 times what they are. */
		q[0] = (int)(w.x & 0x0f0f0f0f), q[4] = (int)(w.x & 0xf0f0f0f0);
		q[1] = (int)(w.y & 0x0f0f0f0f), q[5] = (int)(w.y & 0xf0f0f0f0);
		q[2] = (int)(w.z & 0x0f0f0f0f), q[6] = (int)(w.z & 0xf0f0f0f0);
		q[3] = (int)(w.w & 0x0f0f0f0f), q[7] = (int)(w.w & 0xf0f0f0f0);
		scale[0] = d * (float)(scales & 255);
		scale[1] = d / 16 * (float)(scales >> 8 & 255);
		least[0] = m * (float)(leasts & 255);
		least[1] = m * (float)(leasts >> 8 & 255);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float low = scale[0] * (float)dot_16(q, b.q, 0);
		float up = scale[1] *
			   (float)dot_16_unsigned(q + 4, b.q + 4);

		low = fmaf(-least[0], (float)b.sum[0], low);
		up = fmaf(-least[1], (float)b.sum[1], up);
		return fmaf(b.scale[1], up, b.scale[0] * low);
	}
};

/*
 * Eight lanes for a block, four for each half. The low bits of a lane's parts
 * are in 16 bytes, the high ones in 16 bytes that another lane reads, too.
 */
struct rows_q6_k {
	static const int elements = 256, bytes = 210, order = 2, wide = 2;
	static const bool shifted = true;
	int q[8];
	float scale[2];

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + 210 * (lane / 8);
		unsigned half = lane / 4 % 2, j = lane / 2 % 2, part = lane % 2;
		float d = scale_in(b + 208);
		int low[4], high[4];

		words_in<4>(b + 64 * half + 32 * j + 16 * part, low);
		words_in<4>(b + 128 + 32 * half + 16 * part, high);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int up = high[i] >> 2 * j;

			q[i] = (low[i] & 0x0f0f0f0f) | (up & 0x03030303) << 4;
			q[4 + i] = (low[i] >> 4 & 0x0f0f0f0f) |
				   (up & 0x30303030);
		}
#pragma unroll
		for (unsigned h = 0; h < 2; h++)
			scale[h] = d * (float)(signed char)shared_u8(
				b + 192 + 8 * half + 2 * j + part + 4 * h);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float v = 0;

#pragma unroll
		for (int h = 0; h < 2; h++)
			v = fmaf(scale[h] * b.scale[h],
				 (float)(dot_16(q + 4 * h, b.q + 4 * h, 0) -
					 32 * b.sum[h]),
				 v);
		return v;
	}
};

/* Part @h of lane @lane, of the 64 parts of a unit. */
__device__ static inline unsigned part_of(unsigned order, unsigned lane,
					  unsigned h)
{
	return (lane >> order) * (2 << order) + (lane & ((1 << order) - 1)) +
	       (h << order);
}

template <class R> struct blocks {
	static const int elements = R::elements, bytes = R::bytes;
	static const int unit = MATVEC_UNIT, b_bytes = MATVEC_UNIT_BYTES;
	static const int unit_bytes = unit / elements * bytes;
	static const int wide = R::wide;
	static const bool shifted = R::shifted;

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
			int2 s = *(const int2 *)(b + unit + 8 * group);
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
		unsigned lane = threadIdx.x % 32;
		R a[ROWS];

		/* A block is that of neighbouring lanes. */
		if (32 * (int)lane >= k)
			return;
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			a[r].in(at[r], lane);
#pragma unroll
		for (int c = 0; c < C; c++) {
			column_parts x;

			parts_in(b + column[c], lane, x);
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				sum[c * ROWS + r] += a[r].dot(x);
		}
	}
};

MATVECS(matvec_q8_0, blocks<rows_q8_0>, 3)
MATVECS(matvec_q4_0, blocks<rows_q4_0>, 3)
MATVECS(matvec_q4_k, blocks<rows_q4_k>, 2)
MATVECS(matvec_q6_k, blocks<rows_q6_k>, 2)

/* A warp rounds 32 elements of a row of b. */
KERNEL(matvec_bytes, matvec_columns)
{
	uint64_t units = (uint64_t)(p.k + MATVEC_UNIT - 1) / MATVEC_UNIT;
	uint64_t groups = units * (MATVEC_UNIT / 32);
	unsigned lane = threadIdx.x % 32;

	for (uint64_t i = thread_first() / 32; i < p.rows * groups;
	     i += thread_step() / 32) {
		uint64_t row = i / groups, group = i % groups;
		int64_t k = (int64_t)group * 32 + lane;
		const char *from = at_repeated(p.b, place_of(p.b, 1, row), 1,
					       WEIR__CUDA_DIMS);
		float v = k < p.k ? element_in(p.b, from + k * p.b.stride[0])
				  : 0;

		group_round(v, (unsigned)group, p.order,
			    workspace + p.at + row * p.pitch);
	}
}
