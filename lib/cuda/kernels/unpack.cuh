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
 * A dtype is added as another struct of this kind, with a line in
 * tiles_blocks.cu.
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
	__device__ static inline unsigned byte(uint32_t w, unsigned i)
	{
		return w >> 8 * i & 255;
	}
	__device__ static inline float scale(const raw &r)
	{
		unsigned i = r.g % 4;
		unsigned s = r.g < 4 ? byte(r.head.y, i) & 63
				     : (byte(r.head.w, i) & 15) |
					       byte(r.head.y, i) >> 6 << 4;

		return f16_in((uint16_t)r.head.x) * (float)s;
	}
	__device__ static inline float least(const raw &r)
	{
		unsigned i = r.g % 4;
		unsigned s = r.g < 4 ? byte(r.head.z, i) & 63
				     : byte(r.head.w, i) >> 4 |
					       byte(r.head.z, i) >> 6 << 4;

		return f16_in((uint16_t)(r.head.x >> 16)) * (float)s;
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

#endif
