/* SPDX-License-Identifier: MIT */
/*
 * GGML's quantised blocks to F32, for the files quants*.c.
 *
 * The value of an element is scale * q + offset, rounded to F32 after each of the
 * two operations, where q is a small integer and a group of neighbours has the
 * same scale and offset. The file of a format unpacks one block to a struct
 * weir__quant; the rest is the same for all formats. The loops have constant
 * lengths, for the vectoriser of the compiler.
 */
#ifndef WEIR__QUANTS_H
#define WEIR__QUANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mem/fpenv.h"

#define WEIR__INLINE static inline __attribute__((always_inline))

/* Each quantised dtype of GGML: elements of a block, its bytes. */
#define WEIR__QUANTS(X)     \
	X(Q4_0, 32, 18)     \
	X(Q4_1, 32, 20)     \
	X(Q5_0, 32, 22)     \
	X(Q5_1, 32, 24)     \
	X(Q8_0, 32, 34)     \
	X(Q8_1, 32, 36)     \
	X(Q2_K, 256, 84)    \
	X(Q3_K, 256, 110)   \
	X(Q4_K, 256, 144)   \
	X(Q5_K, 256, 176)   \
	X(Q6_K, 256, 210)   \
	X(Q8_K, 256, 292)   \
	X(IQ2_XXS, 256, 66) \
	X(IQ2_XS, 256, 74)  \
	X(IQ3_XXS, 256, 98) \
	X(IQ1_S, 256, 50)   \
	X(IQ4_NL, 32, 18)   \
	X(IQ3_S, 256, 110)  \
	X(IQ2_S, 256, 82)   \
	X(IQ4_XS, 256, 136) \
	X(IQ1_M, 256, 56)   \
	X(TQ1_0, 256, 54)   \
	X(TQ2_0, 256, 66)   \
	X(MXFP4, 32, 17)    \
	X(NVFP4, 64, 36)    \
	X(Q1_0, 128, 18)    \
	X(Q2_0, 64, 18)

/* As run of struct weir_backend_convert, from @n blocks to F32. */
#define WEIR__QUANT_DECLARE(name, block, bytes)                               \
	void weir__quant_##name(void *restrict dst, const void *restrict src, \
				size_t n);
WEIR__QUANTS(WEIR__QUANT_DECLARE)

extern const uint16_t weir__grid_iq2_xxs[256], weir__grid_iq2_xs[512],
	weir__grid_iq2_s[1024], weir__grid_iq1[2048], weir__grid_iq3_xxs[256],
	weir__grid_iq3_s[512];

#define WEIR__QUANT_MAX 256u /* elements of a block */

/* A block, in the order of its elements and groups. */
struct weir__quant {
	int8_t q[WEIR__QUANT_MAX];
	float scale[WEIR__QUANT_MAX / 16], offset[WEIR__QUANT_MAX / 16];
};

/* Little-endian, at any address. */
WEIR__INLINE uint32_t weir__get16(const unsigned char *x)
{
	return x[0] | (uint32_t)x[1] << 8;
}

WEIR__INLINE uint32_t weir__get32(const unsigned char *x)
{
	return weir__get16(x) | weir__get16(x + 2) << 16;
}

WEIR__INLINE float weir__float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/*
 * An F16. The bits moved to an F32 are the value / 2^112, perhaps subnormal; the
 * product is exact.
 */
WEIR__INLINE float weir__half_of(uint32_t x)
{
	uint32_t moved = (x & 0x7fff) << 13, sign = (x & 0x8000) << 16;

	if (moved >= 0x7c00u << 13)
		return weir__float_of(sign | 0x7f800000 | moved);
	return weir__float_of(sign | moved) * 0x1p112f;
}

WEIR__INLINE float weir__half(const unsigned char *x)
{
	return weir__half_of(weir__get16(x));
}

/* 8 elements of a block in one word, the first in the lowest byte. */
WEIR__INLINE void weir__put_q(int8_t *q, uint64_t bytes)
{
	memcpy(q, &bytes, sizeof(bytes)); /* little-endian */
}

#define WEIR__BYTES 0x0101010101010101u

/* 8 bits to 8 bytes of 0 or 1. */
WEIR__INLINE uint64_t weir__spread_bits(uint32_t x)
{
	uint64_t own = (uint64_t)x * WEIR__BYTES & 0x8040201008040201u;

	return (own + 0x7f * WEIR__BYTES) >> 7 & WEIR__BYTES;
}

/* 8 pairs of bits to 8 bytes of 0 to 3. */
WEIR__INLINE uint64_t weir__spread_pairs(uint32_t pairs)
{
	uint64_t x = pairs;

	x = (x | x << 24) & 0x000000ff000000ff;
	x = (x | x << 12) & 0x000f000f000f000f;
	return (x | x << 6) & 0x0303030303030303;
}

/* The low nibbles of @n bytes, then the high ones. */
WEIR__INLINE void weir__nibbles(int8_t *restrict q,
				const unsigned char *restrict x, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		q[i] = (int8_t)(x[i] & 15);
		q[i + n] = (int8_t)(x[i] >> 4);
	}
}

WEIR__INLINE void weir__subtract(int8_t *q, unsigned n, int8_t bias)
{
	for (unsigned i = 0; i < n; i++)
		q[i] = (int8_t)(q[i] - bias);
}

/* The pairs of bits of 32 bytes: the lowest of all, then the next of all. */
WEIR__INLINE void weir__pairs(int8_t *restrict q,
			      const unsigned char *restrict x)
{
	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < 32; i++)
			q[32 * k + i] = (int8_t)(x[i] >> 2 * k & 3);
}

/* NaNs of infinity * 0 and of two NaNs differ between CPUs: make them equal. */
WEIR__INLINE void weir__quant_nans(unsigned char *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, values + 4 * i, 4);
		bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
		memcpy(values + 4 * i, &bits, 4);
	}
}

WEIR__INLINE bool weir__quant_finite(const float *values, unsigned n)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &values[i], 4);
		found |= (bits & 0x7f800000) == 0x7f800000;
	}
	return !found;
}

/* A group of @n elements to F32. */
WEIR__INLINE void weir__quant_group(unsigned char *restrict dst,
				    const int8_t *restrict q, unsigned n,
				    float scale)
{
	for (unsigned i = 0; i < n; i++) {
		float y = scale * (float)q[i];

		memcpy(dst + 4 * i, &y, sizeof(y));
	}
}

WEIR__INLINE void weir__quant_group_offset(unsigned char *restrict dst,
					   const int8_t *restrict q, unsigned n,
					   float scale, float offset)
{
	for (unsigned i = 0; i < n; i++) {
		float y = scale * (float)q[i] + offset;

		memcpy(dst + 4 * i, &y, sizeof(y));
	}
}

/* Elements to F32; @block, @group and @offset are constants. */
WEIR__INLINE void weir__quant_values(unsigned char *restrict dst,
				     const struct weir__quant *restrict v,
				     unsigned block, unsigned group,
				     bool offset)
{
	for (unsigned k = 0; k < block / group; k++) {
		const int8_t *q = v->q + k * group;
		unsigned char *to = dst + (size_t)4 * k * group;

		if (offset)
			weir__quant_group_offset(to, q, group, v->scale[k],
						 v->offset[k]);
		else
			weir__quant_group(to, q, group, v->scale[k]);
	}
	if (!weir__quant_finite(v->scale, block / group) ||
	    (offset && !weir__quant_finite(v->offset, block / group)))
		weir__quant_nans(dst, block);
}

/* The conversion by unpack(struct weir__quant *, const unsigned char *). */
#define WEIR__QUANT(name, block, bytes, group, offset, unpack)                \
	void weir__quant_##name(void *restrict dst, const void *restrict src, \
				size_t n)                                     \
	{                                                                     \
		unsigned char *restrict out = dst;                            \
		const unsigned char *restrict in = src;                       \
		const weir__fpenv env = weir__fpenv_default();                \
                                                                              \
		for (size_t i = 0; i < n; i++) {                              \
			struct weir__quant v;                                 \
                                                                              \
			unpack(&v, in + i * (bytes));                         \
			weir__quant_values(out + i * (block)*4, &v, block,    \
					   group, offset);                    \
		}                                                             \
		weir__fpenv_restore(env);                                     \
	}

#endif
