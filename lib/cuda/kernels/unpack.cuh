/* SPDX-License-Identifier: MIT */
/*
 * 16 elements of quantised dtypes for tiles: integers as BF16, in which they
 * are exact, and apart from them the scale of their group, and the minimum that
 * is subtracted. Each struct has:
 *
 * - group: elements that share a scale, 16 or 32;
 * - minimum: whether there is one;
 * - align: of the blocks, a power of two;
 * - piece, piece_bytes: elements of a row, whole blocks and a multiple of 128,
 *   that shared memory has at once as they are stored; narrow_slots: how many
 *   times, in narrow tiles;
 * - raw: what a thread needs of a block;
 * - read(): elements from @k on, a multiple of 16, of a piece in shared memory;
 * - unpack(): these as 8 pairs; and scale() and least().
 *
 * A dtype is added as another struct of this kind, with a line TILES(), in a
 * tiles_*.cu.
 */
#ifndef WEIR__CUDA_UNPACK_CUH
#define WEIR__CUDA_UNPACK_CUH

#include "cuda/kernels/device.cuh"

/* @n words at an address that is a multiple of 2. */
template <int n>
__device__ static inline void words_in(uint32_t *w, const uint8_t *at)
{
	const uint16_t *h = (const uint16_t *)at;

#pragma unroll
	for (int i = 0; i < n; i++)
		w[i] = h[2 * i] | (uint32_t)h[2 * i + 1] << 16;
}

/*
 * 16 bytes of shared memory at an address that is a multiple of 2, by two
 * aligned loads: loads of words would have four lanes in each bank.
 */
__device__ static inline void shared_in(uint32_t w[4], const char *at)
{
	unsigned odd = (unsigned)((uint64_t)at % 16);
	const uint4 *v = (const uint4 *)(at - odd);
	uint4 low = v[0], high = v[1];
	uint32_t x[8] = { low.x,  low.y,  low.z,  low.w,
			  high.x, high.y, high.z, high.w };

#pragma unroll
	for (int i = 0; i < 6; i++)
		x[i] = odd & 8 ? x[i + 2] : x[i];
#pragma unroll
	for (int i = 0; i < 5; i++)
		x[i] = odd & 4 ? x[i + 1] : x[i];
#pragma unroll
	for (int i = 0; i < 4; i++)
		w[i] = __funnelshift_r(x[i], x[i + 1], odd % 4 * 8);
}

/* Byte @i of @w, 0 to 255, less @less: exact for both below 2^23. */
__device__ static inline float byte_less(uint32_t w, int i, float less)
{
	/* 2^23 + the byte */
	return __uint_as_float(__byte_perm(w, 0x4b000000, 0x7540 | i)) -
	       (8388608.0f + less);
}

/* The bytes of a word as two pairs of BF16. */
__device__ static inline void bytes_to_pairs(uint32_t pair[2], uint32_t w,
					     float less)
{
#pragma unroll
	for (int i = 0; i < 2; i++)
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
		    : "=r"(pair[i])
		    : "f"(byte_less(w, 2 * i + 1, less)),
		      "f"(byte_less(w, 2 * i, less)));
}

/*
 * What most dtypes have: a byte for each element, LESS more than it is. Groups
 * of G elements have a scale, and a minimum if MINIMUM.
 */
template <int G, int LESS, bool MINIMUM> struct byte_elements {
	static const int group = G;
	static const bool minimum = MINIMUM;
	struct raw {
		uint32_t q[4];
		float scale, least;
	};

	__device__ static inline float scale(const raw &r)
	{
		return r.scale;
	}
	__device__ static inline float least(const raw &r)
	{
		return MINIMUM ? r.least : 0;
	}
	__device__ static inline void unpack(uint32_t *pair, const raw &r)
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
			bytes_to_pairs(pair + 2 * i, r.q[i], LESS);
	}
};

__device__ static inline unsigned byte_of(uint32_t w, unsigned i)
{
	return w >> 8 * i & 255;
}

/*
 * The scale and the minimum of group @g of a block of Q4_K or Q5_K, whose first
 * 16 bytes are @head: two factors, and 6 bits of each for each group.
 */
__device__ static inline float scale_q4_k(uint4 head, unsigned g)
{
	unsigned i = g % 4;
	unsigned s = g < 4 ? byte_of(head.y, i) & 63
			   : (byte_of(head.w, i) & 15) |
				     byte_of(head.y, i) >> 6 << 4;

	return f16_in((uint16_t)head.x) * (float)s;
}

__device__ static inline float least_q4_k(uint4 head, unsigned g)
{
	unsigned i = g % 4;
	unsigned s = g < 4 ? byte_of(head.z, i) & 63
			   : byte_of(head.w, i) >> 4 |
				     byte_of(head.z, i) >> 6 << 4;

	return f16_in((uint16_t)(head.x >> 16)) * (float)s;
}

#endif
