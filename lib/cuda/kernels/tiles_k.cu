/* SPDX-License-Identifier: MIT */
/*
 * Tiles of Q2_K, Q3_K and Q5_K: blocks of 256 elements. quants.cuh shows them
 * in plain form.
 */
#include "cuda/kernels/tiles_blocks.cuh"

/* 16 elements of a group: two bits of 16 bytes each, and a byte of scales. */
struct unpack_q2_k : byte_elements<16, 0, true> {
	static const int align = 4;
	static const int piece = 256, piece_bytes = 84, narrow_slots = 4;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		uint32_t both = *(const uint32_t *)(at + 80);
		unsigned s = (uint8_t)at[k / 16];

		shared_in(r.q, at + 16 + k / 128 * 32 + k % 32);
#pragma unroll
		for (int i = 0; i < 4; i++)
			r.q[i] = r.q[i] >> k % 128 / 32 * 2 & 0x03030303;
		r.scale = f16_in((uint16_t)both) * (float)(s & 15);
		r.least = f16_in((uint16_t)(both >> 16)) * (float)(s >> 4);
	}
};

/* As Q2_K, with a third bit in another 16 bytes, and scales of 6 bits. */
struct unpack_q3_k : byte_elements<16, 4, false> {
	static const int align = 2;
	static const int piece = 256, piece_bytes = 110, narrow_slots = 2;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const uint8_t *scales = (const uint8_t *)at + 96;
		unsigned part = k % 128 / 32, g = k / 16;
		unsigned s = (scales[g % 8] >> g / 8 * 4 & 15) |
			     (scales[8 + g % 4] >> g / 4 * 2 & 3) << 4;
		uint32_t third[4];

		shared_in(r.q, at + 32 + k / 128 * 32 + k % 32);
		shared_in(third, at + k % 32);
#pragma unroll
		for (int i = 0; i < 4; i++)
			r.q[i] = (r.q[i] >> 2 * part & 0x03030303) |
				 (third[i] >> k / 32 & 0x01010101) << 2;
		r.scale = f16_in(*(const uint16_t *)(at + 108)) *
			  (float)((int)s - 32);
	}
};

/* As Q4_K, with a fifth bit in one of 32 other bytes. */
struct unpack_q5_k : byte_elements<32, 0, true> {
	static const int align = 16;
	static const int piece = 256, piece_bytes = 176, narrow_slots = 2;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		uint4 head = *(const uint4 *)at;
		uint4 fifth = *(const uint4 *)(at + 16 + k % 32);
		uint4 w = *(const uint4 *)(at + 48 + k / 64 * 32 + k % 32);
		const uint32_t low[4] = { w.x, w.y, w.z, w.w };
		const uint32_t high[4] = { fifth.x, fifth.y, fifth.z, fifth.w };
		unsigned g = k / 32;

#pragma unroll
		for (int i = 0; i < 4; i++)
			r.q[i] = (low[i] >> g % 2 * 4 & 0x0f0f0f0f) |
				 (high[i] >> g & 0x01010101) << 4;
		r.scale = scale_q4_k(head, g);
		r.least = least_q4_k(head, g);
	}
};

TILES(q2_k)
TILES(q3_k)
TILES(q5_k)
