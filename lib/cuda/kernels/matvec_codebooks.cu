/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns with rows of dtypes of one to three bits: IQ1, IQ2
 * and IQ3, whose numbers select points of a grid; TQ1_0, TQ2_0 and Q2_0, whose
 * elements are digits less 1; and Q1_0. quants.cuh shows their blocks in plain
 * form. A block of threads unpacks the points of its grid once, to shared
 * memory: constant memory would be read by one lane at a time.
 */
#include "cuda/kernels/matvec_blocks.cuh"
#include "mem/dtype_table.h"

#define WEIR__GRID(name, n) \
	__device__ static const __align__(16) uint16_t grid_##name[n]
#include "mem/quants_grids.inc"

/* What all have. */
#define BLOCK_OF(name, order_)                                                 \
	static const int elements = WEIR__BLOCK_##name,                        \
			 bytes = WEIR__BYTES_##name, order = order_, wide = 2; \
	static const bool shifted = true

/* Two parts of a row with one scale, or a scale for each. */
struct one_scale {
	int q[8];
	float scale;

	/* The sum of both parts' products. */
	__device__ inline int sum(const column_parts &b) const
	{
		return dot_16(q + 4, b.q + 4, dot_16(q, b.q, 0));
	}

	__device__ inline float dot(const column_parts &b) const
	{
		return scale * b.scale[0] * (float)sum(b);
	}
};

struct two_scales {
	int q[8];
	float scale[2];

	__device__ inline float dot(const column_parts &b) const
	{
		float v = scale[0] * b.scale[0] * (float)dot_16(q, b.q, 0);

		return fmaf(scale[1] * b.scale[1],
			    (float)dot_16(q + 4, b.q + 4, 0), v);
	}
};

__device__ static inline uint32_t byte_of(uint32_t w, int i)
{
	return w >> 8 * i & 255;
}

/* __byte_perm() would clear the upper bit of each nibble of @select. */
__device__ static inline uint32_t permuted(uint32_t a, uint32_t b,
					   uint32_t select)
{
	uint32_t v;

	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(select));
	return v;
}

/*
 * The points of a grid in shared memory: P::grid() has them as they are packed,
 * and P::point() unpacks one to 4 bytes. A thread unpacks eight at a time.
 */
template <class P> struct points {
	__device__ static inline uint32_t *table()
	{
		__shared__ __align__(16) uint32_t all[P::n];

		return all;
	}

	__device__ static inline void begin()
	{
		for (int i = (int)threadIdx.x; i < P::n / 8;
		     i += 32 * MATVEC_WARPS) {
			uint4 from = ((const uint4 *)P::grid())[i];
			uint4 *to = (uint4 *)table() + 2 * i;

			to[0] = make_uint4(P::point(from.x & 0xffff),
					   P::point(from.x >> 16),
					   P::point(from.y & 0xffff),
					   P::point(from.y >> 16));
			to[1] = make_uint4(P::point(from.z & 0xffff),
					   P::point(from.z >> 16),
					   P::point(from.w & 0xffff),
					   P::point(from.w >> 16));
		}
		__syncthreads();
	}

	__device__ static inline uint32_t at(uint32_t number)
	{
		return shared_u32((uint32_t)__cvta_generic_to_shared(table()) +
				  4 * number);
	}
};

#define GRID(name)                                      \
	static const int n = sizeof(grid_##name) / 2;   \
	__device__ static inline const uint16_t *grid() \
	{                                               \
		return grid_##name;                     \
	}

/* Spread the pairs of bits of @x. */
__device__ static inline uint32_t four_bytes(uint32_t x)
{
	x = (x | x << 12) & 0x000f000f;
	return (x | x << 6) & 0x03030303;
}

__device__ static inline uint32_t eight_nibbles(uint32_t x)
{
	x = (x | x << 8) & 0x00ff00ff;
	x = (x | x << 4) & 0x0f0f0f0f;
	return (x | x << 2) & 0x33333333;
}

/*
 * Each byte of @seven has 7 signs: add the eighth, which makes the number of
 * negative elements even.
 */
__device__ static inline uint32_t even_signs(uint32_t seven)
{
	uint32_t odd = seven ^ seven >> 4;

	odd ^= odd >> 2;
	odd ^= odd >> 1;
	return seven | (odd & 0x01010101) << 7;
}

/* The same for 4 times 7 neighbouring bits. */
__device__ static inline uint32_t sevens(uint32_t x)
{
	return even_signs((x & 0x7f) | (x & 0x3f80) << 1 | (x & 0x1fc000) << 2 |
			  (x & 0xfe00000) << 3);
}

/*
 * IQ2: a point has a nibble for each of its 8 elements. It selects the byte 8,
 * 25 or 43, or, if a sign is its third bit, -8, -25 or -43.
 */
template <class G> struct iq2 : points<iq2<G>>, G {
	__device__ static inline uint32_t point(uint32_t x)
	{
		return eight_nibbles(x);
	}

	/* Words of a point that has 8 signs. */
	__device__ static inline void in(uint32_t number, uint32_t signs,
					 int *q)
	{
		uint32_t select = signs * 0x1001 & 0x000f000f;

		select = select * 0x41 & 0x03030303;
		select = (select * 0x24 & 0x44444444) |
			 points<iq2<G>>::at(number);
		q[0] = (int)permuted(0x002b1908, 0x00d5e7f8, select);
		q[1] = (int)permuted(0x002b1908, 0x00d5e7f8, select >> 16);
	}
};

struct grid_of_iq2_xxs {
	GRID(iq2_xxs)
};
struct grid_of_iq2_xs {
	GRID(iq2_xs)
};
struct grid_of_iq2_s {
	GRID(iq2_s)
};
typedef iq2<grid_of_iq2_xxs> points_iq2_xxs;
typedef iq2<grid_of_iq2_xs> points_iq2_xs;
typedef iq2<grid_of_iq2_s> points_iq2_s;

/* A scale of IQ2 or IQ3_XXS, of 4 bits. */
__device__ static inline float odd_scale(float d, uint32_t x)
{
	return d * (0.5f + (float)(x & 15));
}

struct rows_iq2_xxs : one_scale {
	BLOCK_OF(IQ2_XXS, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 8), signs;
		int w[2];

		words_in<2>(b + 2 + 8 * (lane % 8), w);
		scale = odd_scale(scale_in(b) * 0.25f, (uint32_t)w[1] >> 28);
		signs = sevens((uint32_t)w[1]);
#pragma unroll
		for (int j = 0; j < 4; j++)
			points_iq2_xxs::in(byte_of((uint32_t)w[0], j),
					   byte_of(signs, j), q + 2 * j);
	}
};

struct rows_iq2_xs : two_scales {
	BLOCK_OF(IQ2_XS, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 8), signs;
		uint32_t scales = shared_u8(b + 66 + lane % 8);
		float d = scale_in(b) * 0.25f;
		int w[2];

		words_in<2>(b + 2 + 8 * (lane % 8), w);
		scale[0] = odd_scale(d, scales);
		scale[1] = odd_scale(d, scales >> 4);
		signs = even_signs(__byte_perm((uint32_t)w[0] >> 9 & 0x007f007f,
					       (uint32_t)w[1] >> 9 & 0x007f007f,
					       0x6420));
#pragma unroll
		for (int j = 0; j < 4; j++)
			points_iq2_xs::in((uint32_t)w[j / 2] >> 16 * (j % 2) &
						  511,
					  byte_of(signs, j), q + 2 * j);
	}
};

struct rows_iq2_s : two_scales {
	BLOCK_OF(IQ2_S, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 8);
		uint32_t high = shared_u8(b + 66 + lane % 8) << 8;
		uint32_t scales = shared_u8(b + 74 + lane % 8);
		float d = scale_in(b) * 0.25f;
		int low, signs;

		words_in<1>(b + 2 + 4 * (lane % 8), &low);
		words_in<1>(b + 34 + 4 * (lane % 8), &signs);
		scale[0] = odd_scale(d, scales);
		scale[1] = odd_scale(d, scales >> 4);
#pragma unroll
		for (int j = 0; j < 4; j++)
			points_iq2_s::in(byte_of((uint32_t)low, j) |
						 (high >> 2 * j & 0x300),
					 byte_of((uint32_t)signs, j),
					 q + 2 * j);
	}
};

/* Spread four times three bits to bytes. */
__device__ static inline uint32_t four_triples(uint32_t x)
{
	x = (x & 0x3f) | (x & 0xfc0) << 10;
	return (x & 0x00070007) | (x & 0x00380038) << 5;
}

/* Bytes of ones for those of four elements whose sign is 1: bits of @signs. */
__device__ static inline uint32_t minus_bytes(uint32_t signs)
{
	/* Bit i moves to the top of byte i, which is filled with it. */
	return permuted((signs & 15) * 0x10204080, 0, 0xba98);
}

struct points_iq3_xxs : points<points_iq3_xxs> {
	GRID(iq3_xxs)

	/* 4, 12, 20 and so on, and 62. */
	__device__ static inline uint32_t point(uint32_t x)
	{
		x = four_triples(x);
		return 8 * x + 0x04040404 +
		       2 * (x & x >> 1 & x >> 2 & 0x01010101);
	}
};

struct rows_iq3_xxs : one_scale {
	BLOCK_OF(IQ3_XXS, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 8), signs;
		int w[2], rest;

		words_in<2>(b + 2 + 8 * (lane % 8), w);
		words_in<1>(b + 66 + 4 * (lane % 8), &rest);
		scale = odd_scale(scale_in(b) * 0.5f, (uint32_t)rest >> 28);
		signs = sevens((uint32_t)rest);
#pragma unroll
		for (int i = 0; i < 8; i++) {
			uint32_t minus = minus_bytes(signs >> 4 * i);
			uint32_t p = points_iq3_xxs::at(
				byte_of((uint32_t)w[i / 4], i % 4));

			/* No element is 0: so no byte overflows. */
			q[i] = (int)((p ^ minus) + (minus & 0x01010101));
		}
	}
};

struct points_iq3_s : points<points_iq3_s> {
	GRID(iq3_s)

	__device__ static inline uint32_t point(uint32_t x)
	{
		return four_triples(x);
	}
};

/* An element is 2 k + 1, with k in q; its negative has the complement of k. */
struct rows_iq3_s : one_scale {
	BLOCK_OF(IQ3_S, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		unsigned g = lane % 8;
		uint32_t b = unit + bytes * (lane / 8);
		uint32_t high = shared_u8(b + 66 + g) << 8;
		uint32_t s = shared_u8(b + 106 + g / 2) >> 4 * (g % 2) & 15;
		int w[2], signs;

		words_in<2>(b + 2 + 8 * g, w);
		words_in<1>(b + 74 + 4 * g, &signs);
		scale = scale_in(b) * (float)(2 * s + 1);
#pragma unroll
		for (int i = 0; i < 8; i++)
			q[i] = (int)(points_iq3_s::at(
					     byte_of((uint32_t)w[i / 4],
						     i % 4) |
					     (high >> i & 0x100)) ^
				     minus_bytes((uint32_t)signs >> 4 * i));
	}

	__device__ inline float dot(const column_parts &b) const
	{
		return scale * b.scale[0] *
		       (float)(2 * sum(b) + b.sum[0] + b.sum[1]);
	}
};

/*
 * IQ1: an element is 8 times -1, 0 or 1, and 1 more or less. A point has 4
 * times 0, 1 or 2 for each: the low nibbles are the first four elements.
 */
struct points_iq1 : points<points_iq1> {
	GRID(iq1)

	__device__ static inline uint32_t point(uint32_t x)
	{
		return four_bytes(x & 255) << 2 | four_bytes(x >> 8) << 6;
	}
};

__device__ static inline float iq1_scale(float d, uint32_t x)
{
	return d * 0.125f * (float)(2 * (x & 7) + 1);
}

struct rows_iq1_s : one_scale {
	BLOCK_OF(IQ1_S, 0);
	int least;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 8);
		uint32_t rest = shared_u16(b + 34 + 2 * (lane % 8));
		int low;

		words_in<1>(b + 2 + 4 * (lane % 8), &low);
		scale = iq1_scale(scale_in(b), rest >> 12);
		least = rest >> 15 ? -9 : -7;
#pragma unroll
		for (int j = 0; j < 4; j++) {
			uint32_t p =
				points_iq1::at(byte_of((uint32_t)low, j) |
					       (rest << 8 >> 3 * j & 0x700));

			q[2 * j] = (int)(p & 0x0f0f0f0f);
			q[2 * j + 1] = (int)(p >> 4 & 0x0f0f0f0f);
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		return scale * b.scale[0] *
		       (float)(2 * sum(b) + least * (b.sum[0] + b.sum[1]));
	}
};

/* Here each point has a sign. */
struct rows_iq1_m : two_scales {
	BLOCK_OF(IQ1_M, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		unsigned g = lane % 8;
		uint32_t b = unit + bytes * (lane / 8);
		uint32_t rest = shared_u16(b + 32 + 2 * g);
		uint32_t scales = shared_u16(b + 48 + 2 * (g / 2));
		int low, w[2];
		float d;

		words_in<1>(b + 4 * g, &low);
		words_in<2>(b + 48, w);
		d = f16_in((uint16_t)(((uint32_t)w[0] >> 12 & 0xf) |
				      ((uint32_t)w[0] >> 24 & 0xf0) |
				      ((uint32_t)w[1] >> 4 & 0xf00) |
				      ((uint32_t)w[1] >> 16 & 0xf000)));
		scales >>= 6 * (g % 2);
		scale[0] = iq1_scale(d, scales);
		scale[1] = iq1_scale(d, scales >> 3);
#pragma unroll
		for (int j = 0; j < 4; j++) {
			uint32_t p =
				points_iq1::at(byte_of((uint32_t)low, j) |
					       (rest << 8 >> 4 * j & 0x700));
			uint32_t plus = rest >> (4 * j + 3) & 1 ? 0
								: 0x01010101;

			q[2 * j] = (int)((p & 0x0f0f0f0f) | plus);
			q[2 * j + 1] = (int)((p >> 4 & 0x0f0f0f0f) | plus);
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		float v = scale[0] * b.scale[0] *
			  (float)(2 * dot_16(q, b.q, 0) - 9 * b.sum[0]);

		return fmaf(
			scale[1] * b.scale[1],
			(float)(2 * dot_16(q + 4, b.q + 4, 0) - 9 * b.sum[1]),
			v);
	}
};

/* Elements that are one less than q, with one scale. */
struct less_one : one_scale {
	__device__ inline float dot(const column_parts &b) const
	{
		return scale * b.scale[0] *
		       (float)(sum(b) - (b.sum[0] + b.sum[1]));
	}
};

/* A digit in base 3 of each byte: @power, 3^i, moves the i-th to the top. */
__device__ static inline uint32_t digits(uint32_t w, uint32_t power)
{
	uint32_t low = (w & 0x00ff00ff) * power & 0x00ff00ff;
	uint32_t high = (w >> 8 & 0x00ff00ff) * power & 0x00ff00ff;

	return __byte_perm(3 * low, 3 * high, 0x7351);
}

/*
 * 32 bytes of 5 digits, then 16 bytes of 5, then 4 bytes of 4. So a part is a
 * digit of 16 bytes, except for the last one of a block: all digits of 4 bytes.
 */
struct rows_tq1_0 : less_one {
	BLOCK_OF(TQ1_0, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		const uint32_t powers = 0x1b090301; /* 1, 3, 9, 27 */
		uint32_t b = unit + bytes * (lane / 8);
		unsigned l = lane % 8;

		scale = scale_in(b + 52);
#pragma unroll
		for (unsigned h = 0; h < 2; h++) {
			unsigned digit = l < 5 ? l : 2 * l + h - 10;
			uint32_t power = digit < 4 ? byte_of(powers, digit)
						   : 81;
			bool is_last = h == 1 && l == 7;
			int w[4];

			words_in<4>(b + (l < 5     ? 16 * h
					 : is_last ? 36
						   : 32),
				    w);
#pragma unroll
			for (int i = 0; i < 4; i++)
				q[4 * h + i] = (int)digits(
					(uint32_t)(is_last ? w[3] : w[i]),
					is_last ? byte_of(powers, i) : power);
		}
	}
};

/* A lane has two of the four digits of 16 bytes. */
struct rows_tq2_0 {
	BLOCK_OF(TQ2_0, 1);
	int q[8];
	float scale;

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		unsigned l = lane % 8;
		uint32_t b = unit + bytes * (lane / 8);
		int w[4];

		words_in<4>(b + 32 * (l / 4) + 16 * (l % 2), w);
		scale = scale_in(b + 64);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t pairs = (uint32_t)w[i] >> 4 * (l / 2 % 2);

			q[i] = (int)(pairs & 0x03030303);
			q[4 + i] = (int)(pairs >> 2 & 0x03030303);
		}
	}

	__device__ inline float dot(const column_parts &b) const
	{
		int low = dot_16(q, b.q, 0) - b.sum[0];
		int up = dot_16(q + 4, b.q + 4, 0) - b.sum[1];

		return scale *
		       fmaf(b.scale[1], (float)up, b.scale[0] * (float)low);
	}
};

/* An element is -1 or 1: twice its bit, less 1. */
struct rows_q1_0 : one_scale {
	BLOCK_OF(Q1_0, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 4);
		int w;

		words_in<1>(b + 2 + 4 * (lane % 4), &w);
		scale = scale_in(b);
#pragma unroll
		for (int i = 0; i < 8; i++)
			q[i] = (int)(((uint32_t)w >> 4 * i & 15) * 0x00204081 &
				     0x01010101);
	}

	__device__ inline float dot(const column_parts &b) const
	{
		return scale * b.scale[0] *
		       (float)(2 * sum(b) - (b.sum[0] + b.sum[1]));
	}
};

struct rows_q2_0 : less_one {
	BLOCK_OF(Q2_0, 0);

	__device__ inline void in(uint32_t unit, unsigned lane)
	{
		uint32_t b = unit + bytes * (lane / 2);
		int w[2];

		words_in<2>(b + 2 + 8 * (lane % 2), w);
		scale = scale_in(b);
#pragma unroll
		for (int i = 0; i < 8; i++)
			q[i] = (int)four_bytes(
				byte_of((uint32_t)w[i / 4], i % 4));
	}
};

/*
 * The kernels of four columns compute two as well: that saves a fourth of the
 * code. So many units of 1024 elements are copied at a time that these have 576
 * bytes or more.
 */
#define CODEBOOK(name, units, table)                             \
	typedef blocks<rows_##name, units, table> blocks_##name; \
	MATVEC(matvec_##name, blocks_##name, 1, 6)               \
	MATVEC(matvec_##name, blocks_##name, 4, 3)               \
	MATVEC(matvec_##name, blocks_##name, 8, 2)

CODEBOOK(iq1_s, 4, points_iq1)
CODEBOOK(iq1_m, 4, points_iq1)
CODEBOOK(iq2_xxs, 4, points_iq2_xxs)
CODEBOOK(iq2_xs, 2, points_iq2_xs)
CODEBOOK(iq2_s, 2, points_iq2_s)
CODEBOOK(iq3_xxs, 2, points_iq3_xxs)
CODEBOOK(iq3_s, 2, points_iq3_s)
CODEBOOK(tq1_0, 4, no_table)
CODEBOOK(tq2_0, 4, no_table)
CODEBOOK(q1_0, 4, no_table)
CODEBOOK(q2_0, 2, no_table)
