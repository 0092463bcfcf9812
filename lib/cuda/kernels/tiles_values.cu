/* SPDX-License-Identifier: MIT */
/*
 * Tiles of IQ4_NL, IQ4_XS, MXFP4 and NVFP4, whose elements select one of 16
 * values by 4 bits.
 */
#include "cuda/kernels/tiles_blocks.cuh"
#include "cuda/kernels/values.cuh"

/* Bytes with a sign become bytes that are 128 more. */
template <int G> struct value_elements : byte_elements<G, 128, false> {
	/* Those of the low four bits of the bytes of @w, or of the high ones. */
	__device__ static inline uint32_t select(uint64_t first, uint64_t last,
						 uint32_t w, bool is_high)
	{
		int low, high;

		values_in(first, last, w, &low, &high);
		return (uint32_t)(is_high ? high : low) ^ 0x80808080;
	}

	/* 16 bytes, which have the elements @k % 32 = 0, and those from 16 on. */
	__device__ static inline void select_16(uint32_t q[4], uint64_t first,
						uint64_t last, const char *at,
						unsigned k)
	{
		shared_in(q, at);
#pragma unroll
		for (int i = 0; i < 4; i++)
			q[i] = select(first, last, q[i], k % 32);
	}
};

struct unpack_iq4_nl : value_elements<32> {
	static const int align = 2;
	static const int piece = 128, piece_bytes = 72, narrow_slots = 4;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 18;

		select_16(r.q, IQ4_FIRST, IQ4_LAST, b + 2, k);
		r.scale = f16_in(*(const uint16_t *)b);
	}
};

struct unpack_iq4_xs : value_elements<32> {
	static const int align = 8;
	static const int piece = 256, piece_bytes = 136, narrow_slots = 2;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		uint2 head = *(const uint2 *)at;
		unsigned g = k / 32;
		unsigned s = (head.y >> 4 * g & 15) |
			     (head.x >> (16 + 2 * g) & 3) << 4;

		select_16(r.q, IQ4_FIRST, IQ4_LAST, at + 8 + 16 * g, k);
		r.scale = f16_in((uint16_t)head.x) * (float)((int)s - 32);
	}
};

/* Blocks, and rows, begin at any byte. */
struct unpack_mxfp4 : value_elements<32> {
	static const int align = 1;
	static const int piece = 128, piece_bytes = 68, narrow_slots = 4;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 17;

		select_16(r.q, FP4_FIRST, FP4_LAST, b + 1, k);
		r.scale = e8m0_half((uint8_t)*b);
	}
};

/* A group has 8 bytes: its first 8 elements are the low bits of all. */
struct unpack_nvfp4 : value_elements<16> {
	static const int align = 4;
	static const int piece = 128, piece_bytes = 72, narrow_slots = 4;

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 64 * 36;
		unsigned g = k % 64 / 16;
		uint32_t w[4];

		shared_in(w, b + 4 + 8 * g);
#pragma unroll
		for (int i = 0; i < 4; i++)
			r.q[i] = select(FP4_FIRST, FP4_LAST, w[i % 2], i / 2);
		r.scale = e4m3_half((uint8_t)b[g]);
	}
};

TILES(iq4_nl)
TILES(iq4_xs)
TILES(mxfp4)
TILES(nvfp4)
