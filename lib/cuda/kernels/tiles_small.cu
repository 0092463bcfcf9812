/* SPDX-License-Identifier: MIT */
/*
 * Tiles of Q4_1, Q5_0 and Q5_1: blocks of 32 elements, the low four bits of
 * two in each byte.
 */
#include "cuda/kernels/tiles_blocks.cuh"

/* The elements from @k on, which are those of the low or of the high bits. */
__device__ static inline void fours_in(uint32_t q[4], const char *at,
				       unsigned k)
{
	shared_in(q, at);
#pragma unroll
	for (int i = 0; i < 4; i++)
		q[i] = q[i] >> k % 32 / 4 & 0x0f0f0f0f;
}

/* Four fifth bits for each word: a product spreads them to its bytes. */
__device__ static inline void fifths_add(uint32_t q[4], uint32_t fifth,
					 unsigned k)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		q[i] |= (fifth >> (k % 32 + 4 * i) & 15) * 0x00204081 << 4 &
			0x10101010;
}

/* The offset that is added is a minimum with another sign. */
struct unpack_q4_1 : byte_elements<32, 0, true> {
	static const int align = 4;
	static const int piece = 128, piece_bytes = 80, narrow_slots = 4;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 20;
		uint32_t both = *(const uint32_t *)b;

		fours_in(r.q, b + 4, k);
		r.scale = f16_in((uint16_t)both);
		r.least = -f16_in((uint16_t)(both >> 16));
	}
};

struct unpack_q5_0 : byte_elements<32, 16, false> {
	static const int align = 2;
	static const int piece = 128, piece_bytes = 88, narrow_slots = 2;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 22;
		const uint16_t *head = (const uint16_t *)b;

		fours_in(r.q, b + 6, k);
		fifths_add(r.q, head[1] | (uint32_t)head[2] << 16, k);
		r.scale = f16_in(head[0]);
	}
};

struct unpack_q5_1 : byte_elements<32, 0, true> {
	static const int align = 8;
	static const int piece = 128, piece_bytes = 96, narrow_slots = 2;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 24;
		uint2 head = *(const uint2 *)b;

		fours_in(r.q, b + 8, k);
		fifths_add(r.q, head.y, k);
		r.scale = f16_in((uint16_t)head.x);
		r.least = -f16_in((uint16_t)(head.x >> 16));
	}
};

TILES(q4_1)
TILES(q5_0)
TILES(q5_1)
