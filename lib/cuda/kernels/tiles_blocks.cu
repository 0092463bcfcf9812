/* SPDX-License-Identifier: MIT */
/*
 * Tiles of the most used quantised dtypes.
 */
#include "cuda/kernels/tiles_blocks.cuh"

struct unpack_q8_0 {
	static const int group = 32, align = 2;
	static const int piece = 128, piece_bytes = 136, narrow_slots = 2;
	static const bool minimum = false;
	struct raw {
		uint32_t q[4];
		uint16_t d;
	};

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 34;

		r.d = *(const uint16_t *)b;
		shared_in(r.q, b + 2 + k % 32);
	}
	__device__ static inline float scale(const raw &r)
	{
		return f16_in(r.d);
	}
	__device__ static inline float least(const raw &)
	{
		return 0;
	}
	__device__ static inline void unpack(uint32_t *pair, const raw &r)
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
			bytes_to_pairs(pair + 2 * i, r.q[i] ^ 0x80808080, 128);
	}
};

struct unpack_q4_0 {
	static const int group = 32, align = 2;
	static const int piece = 128, piece_bytes = 72, narrow_slots = 4;
	static const bool minimum = false;
	struct raw {
		uint32_t q[4];
		uint16_t d;
		uint16_t shift; /* of the half of each byte */
	};

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		const char *b = at + k / 32 * 18;

		r.d = *(const uint16_t *)b;
		r.shift = (uint16_t)(k % 32 / 4);
		shared_in(r.q, b + 2);
	}
	__device__ static inline float scale(const raw &r)
	{
		return f16_in(r.d);
	}
	__device__ static inline float least(const raw &)
	{
		return 0;
	}
	__device__ static inline void unpack(uint32_t *pair, const raw &r)
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
			bytes_to_pairs(pair + 2 * i,
				       r.q[i] >> r.shift & 0x0f0f0f0f, 8);
	}
};

/* blocks.cuh: block_q4_k */
struct unpack_q4_k {
	static const int group = 32, align = 16;
	static const int piece = 256, piece_bytes = 144, narrow_slots = 2;
	static const bool minimum = true;
	struct raw {
		uint4 q, head; /* head: d, dmin, and 12 bytes of scales */
		uint32_t g;    /* number of the group */
	};

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		r.head = *(const uint4 *)at;
		r.q = *(const uint4 *)(at + 16 + k / 64 * 32 + k % 32);
		r.g = k / 32;
	}
	__device__ static inline float scale(const raw &r)
	{
		return scale_q4_k(r.head, r.g);
	}
	__device__ static inline float least(const raw &r)
	{
		return least_q4_k(r.head, r.g);
	}
	__device__ static inline void unpack(uint32_t *pair, const raw &r)
	{
		const uint32_t q[4] = { r.q.x, r.q.y, r.q.z, r.q.w };

#pragma unroll
		for (int i = 0; i < 4; i++)
			bytes_to_pairs(pair + 2 * i,
				       q[i] >> r.g % 2 * 4 & 0x0f0f0f0f, 0);
	}
};

/* blocks.cuh: block_q6_k */
struct unpack_q6_k {
	static const int group = 16, align = 2;
	static const int piece = 256, piece_bytes = 210, narrow_slots = 2;
	static const bool minimum = false;
	struct raw {
		uint32_t low[4], high[4];
		uint16_t d;
		int8_t scale;
		uint8_t part; /* which quarter of 128 elements */
	};

	__device__ static inline void read(raw &r, const char *at, unsigned k)
	{
		unsigned half = k / 128, j = k % 128;

		shared_in(r.low, at + 64 * half + j % 64);
		shared_in(r.high, at + 128 + 32 * half + j % 32);
		r.d = *(const uint16_t *)(at + 208);
		r.scale = (int8_t)at[192 + k / 16];
		r.part = (uint8_t)(j / 32);
	}
	__device__ static inline float scale(const raw &r)
	{
		return f16_in(r.d) * (float)r.scale;
	}
	__device__ static inline float least(const raw &)
	{
		return 0;
	}
	__device__ static inline void unpack(uint32_t *pair, const raw &r)
	{
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t low = r.low[i] >> r.part / 2 * 4;
			uint32_t high = r.high[i] >> 2 * r.part;

			bytes_to_pairs(pair + 2 * i,
				       (low & 0x0f0f0f0f) |
					       (high & 0x03030303) << 4,
				       32);
		}
	}
};

TILES(q8_0)
TILES(q4_0)
TILES(q4_k)
TILES(q6_k)
