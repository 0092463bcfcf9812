/* SPDX-License-Identifier: MIT */
/*
 * Quantising F32 to Q8_0, Q4_0, Q4_K and Q6_K: what the portable form and the
 * forms for x86 CPUs have in common.
 */
#ifndef WEIR__QUANTISE_H
#define WEIR__QUANTISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Each product and each sum is rounded. Compilers may not fuse them, which some
 * do if the CPU can.
 */
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#define INLINE static inline __attribute__((always_inline))

/* Groups of 16 elements whose largest magnitude is smaller become zeros. */
#define Q6_K_LEAST 1e-15f

/*
 * The portable form: convert @n blocks. It accepts every value and every
 * address, in the default floating-point environment.
 */
void weir__quantise_q8_0(unsigned char *dst, const unsigned char *src,
			 size_t n);
void weir__quantise_q4_0(unsigned char *dst, const unsigned char *src,
			 size_t n);
void weir__quantise_q4_k(unsigned char *dst, const unsigned char *src,
			 size_t n);
void weir__quantise_q6_k(unsigned char *dst, const unsigned char *src,
			 size_t n);

/*
 * The numbers of the groups of a block of Q4_K: an element is scale * level -
 * min, level from 0 to 15.
 */
struct weir__q4_k {
	float scale[8], min[8];
	float unit[8], shift[8]; /* scale and min, as they are stored */
};

/* Round the numbers of the groups, and store them in the block. */
void weir__q4_k_store(struct weir__q4_k *groups, unsigned char *block);

/*
 * The numbers of the groups of a block of Q6_K: an element is scale * (level -
 * 32), level from 0 to 63.
 */
struct weir__q6_k {
	float scale[16];
	float unit[16];
};

/*
 * Round the scales and store them in the block, and clear the rest of it.
 * False: all scales are 0, so the block is complete.
 */
bool weir__q6_k_store(struct weir__q6_k *groups, unsigned char *block);

/* Pack the levels of the 256 elements into the block. */
INLINE void weir__q4_k_pack(unsigned char *restrict block,
			    const unsigned char *restrict level)
{
	for (int j = 0; j < 4; j++)
		for (int i = 0; i < 32; i++)
			block[16 + 32 * j + i] =
				(unsigned char)(level[64 * j + i] |
						level[64 * j + 32 + i] << 4);
}

INLINE void weir__q6_k_pack(unsigned char *restrict block,
			    const unsigned char *restrict level)
{
	for (int half = 0; half < 2; half++) {
		const unsigned char *l = level + 128 * half;
		unsigned char *low = block + 64 * half;
		unsigned char *high = block + 128 + 32 * half;

		for (int i = 0; i < 32; i++) {
			low[i] = (unsigned char)((l[i] & 15) | l[i + 64] << 4);
			low[i + 32] = (unsigned char)((l[i + 32] & 15) |
						      l[i + 96] << 4);
			high[i] = (unsigned char)(l[i] >> 4 |
						  l[i + 32] >> 4 << 2 |
						  l[i + 64] >> 4 << 4 |
						  l[i + 96] >> 4 << 6);
		}
	}
}

#endif
