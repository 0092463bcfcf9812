/* SPDX-License-Identifier: MIT */
/*
 * 16 elements of quantised dtypes for tiles: integers as BF16, in which they
 * are exact, and apart from them the scale of their group, and the minimum that
 * is subtracted. Each struct has:
 *
 * - group: elements that share a scale, 16 or 32;
 * - minimum: whether there is one;
 * - align: of the blocks, a power of two;
 * - raw: what a thread reads of a block before it is needed;
 * - read(): elements from @k on, a multiple of 16, of a row;
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
	static const bool minimum = false;
	struct raw {
		uint32_t q[4];
		uint16_t d;
	};

	__device__ static inline void read(raw &r, const char *row, int64_t k)
	{
		const uint8_t *b = (const uint8_t *)row + k / 32 * 34;

		r.d = *(const uint16_t *)b;
		words_in<4>(r.q, b + 2 + k % 32);
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
	static const bool minimum = false;
	struct raw {
		uint32_t q[4];
		uint16_t d;
		uint16_t shift; /* of the half of each byte */
	};

	__device__ static inline void read(raw &r, const char *row, int64_t k)
	{
		const uint8_t *b = (const uint8_t *)row + k / 32 * 18;

		r.d = *(const uint16_t *)b;
		r.shift = (uint16_t)(k % 32 / 4);
		words_in<4>(r.q, b + 2);
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
	static const bool minimum = true;
	struct raw {
		uint4 q, head; /* head: d, dmin, and 12 bytes of scales */
		uint32_t g;    /* number of the group */
	};

	__device__ static inline void read(raw &r, const char *row, int64_t k)
	{
		const char *b = row + k / 256 * 144;
		unsigned i = (unsigned)(k % 256);

		r.head = *(const uint4 *)b;
		r.q = *(const uint4 *)(b + 16 + i / 64 * 32 + i % 32);
		r.g = i / 32;
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
	static const bool minimum = false;
	struct raw {
		uint32_t low[4], high[4];
		uint16_t d;
		int8_t scale;
		uint8_t part; /* which quarter of 128 elements */
	};

	__device__ static inline void read(raw &r, const char *row, int64_t k)
	{
		const uint8_t *b = (const uint8_t *)row + k / 256 * 210;
		unsigned i = (unsigned)(k % 256), half = i / 128, j = i % 128;

		words_in<4>(r.low, b + 64 * half + j % 64);
		words_in<4>(r.high, b + 128 + 32 * half + j % 32);
		r.d = *(const uint16_t *)(b + 208);
		r.scale = (int8_t)b[192 + i / 16];
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
