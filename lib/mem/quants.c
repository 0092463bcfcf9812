/* SPDX-License-Identifier: MIT */
/*
 * The conversions of GGML's quantised dtypes to F32.
 *
 * The value of an element is scale * q + offset, rounded to F32 after each of
 * the two operations, where q is a small integer, and neighbours, a group, have
 * the same scale and offset. A function for each dtype unpacks one block to a
 * struct quant_block; the rest is the same for all dtypes. The loops have
 * constant lengths, for the vectoriser of the compiler.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/tensor.h>

#include "mem/convert.h"
#include "mem/dtype_table.h"
#include "mem/fpenv.h"
#include "mem/quants_grids.h"

#define INLINE static inline __attribute__((always_inline))

#define MAX_BLOCK 256u /* elements of a block */

/* An unpacked block, in the order of its elements and groups. */
struct quant_block {
	int8_t q[MAX_BLOCK];
	float scale[MAX_BLOCK / 16], offset[MAX_BLOCK / 16];
};

/* Read a little-endian number at any address. */
INLINE uint32_t get_16(const unsigned char *x)
{
	return x[0] | (uint32_t)x[1] << 8;
}

INLINE uint32_t get_32(const unsigned char *x)
{
	return get_16(x) | get_16(x + 2) << 16;
}

INLINE float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/*
 * Return the value of an F16. The bits, moved to those of an F32, are the value
 * / 2^112, perhaps subnormal; the product is exact.
 */
INLINE float half_of(uint32_t x)
{
	uint32_t moved = (x & 0x7fff) << 13, sign = (x & 0x8000) << 16;

	if (moved >= 0x7c00u << 13)
		return float_of(sign | 0x7f800000 | moved);
	return float_of(sign | moved) * 0x1p112f;
}

INLINE float half_at(const unsigned char *x)
{
	return half_of(get_16(x));
}

/*
 * Store 8 elements that are the bytes of one word, the first in the lowest
 * byte.
 */
INLINE void store_8(int8_t *q, uint64_t bytes)
{
	memcpy(q, &bytes, sizeof(bytes)); /* little-endian */
}

#define ONES 0x0101010101010101u

/* Spread 8 bits to 8 bytes of 0 or 1. */
INLINE uint64_t spread_bits(uint32_t x)
{
	uint64_t own = (uint64_t)x * ONES & 0x8040201008040201u;

	return (own + 0x7f * ONES) >> 7 & ONES;
}

/* Spread 8 pairs of bits to 8 bytes of 0 to 3. */
INLINE uint64_t spread_pairs(uint32_t pairs)
{
	uint64_t x = pairs;

	x = (x | x << 24) & 0x000000ff000000ff;
	x = (x | x << 12) & 0x000f000f000f000f;
	return (x | x << 6) & 0x0303030303030303;
}

/* Store the low nibbles of @n bytes, then the high ones. */
INLINE void nibbles(int8_t *restrict q, const unsigned char *restrict x,
		    unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		q[i] = (int8_t)(x[i] & 15);
		q[i + n] = (int8_t)(x[i] >> 4);
	}
}

INLINE void subtract(int8_t *q, unsigned n, int8_t bias)
{
	for (unsigned i = 0; i < n; i++)
		q[i] = (int8_t)(q[i] - bias);
}

/*
 * Store the pairs of bits of 32 bytes: the lowest of all bytes, then the next
 * of all.
 */
INLINE void pairs(int8_t *restrict q, const unsigned char *restrict x)
{
	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < 32; i++)
			q[32 * k + i] = (int8_t)(x[i] >> 2 * k & 3);
}

/*
 * Make all NaNs equal. Those of infinity * 0 and of two NaNs differ between
 * CPUs.
 */
INLINE void quant_nans(unsigned char *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, values + 4 * i, 4);
		bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
		memcpy(values + 4 * i, &bits, 4);
	}
}

INLINE bool quant_finite(const float *values, unsigned n)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &values[i], 4);
		found |= (bits & 0x7f800000) == 0x7f800000;
	}
	return !found;
}

/* Convert a group of @n elements to F32. */
INLINE void quant_group(unsigned char *restrict dst, const int8_t *restrict q,
			unsigned n, float scale)
{
	for (unsigned i = 0; i < n; i++) {
		float y = scale * (float)q[i];

		memcpy(dst + 4 * i, &y, sizeof(y));
	}
}

INLINE void quant_group_offset(unsigned char *restrict dst,
			       const int8_t *restrict q, unsigned n,
			       float scale, float offset)
{
	for (unsigned i = 0; i < n; i++) {
		float y = scale * (float)q[i] + offset;

		memcpy(dst + 4 * i, &y, sizeof(y));
	}
}

/* Convert a block to F32. @block, @group and @offset are constants. */
INLINE void quant_values(unsigned char *restrict dst,
			 const struct quant_block *restrict v, unsigned block,
			 unsigned group, bool offset)
{
	for (unsigned k = 0; k < block / group; k++) {
		const int8_t *q = v->q + k * group;
		unsigned char *to = dst + (size_t)4 * k * group;

		if (offset)
			quant_group_offset(to, q, group, v->scale[k],
					   v->offset[k]);
		else
			quant_group(to, q, group, v->scale[k]);
	}
	if (!quant_finite(v->scale, block / group) ||
	    (offset && !quant_finite(v->offset, block / group)))
		quant_nans(dst, block);
}

/*
 * Define the conversion to F32 by unpack(struct quant_block *, const unsigned
 * char *).
 */
#define QUANT(name, group, offset, unpack)                                   \
	static void name##_f32(void *restrict dst, const void *restrict src, \
			       size_t n)                                     \
	{                                                                    \
		unsigned char *restrict out = dst;                           \
		const unsigned char *restrict in = src;                      \
		const weir__fpenv env = weir__fpenv_default();               \
                                                                             \
		for (size_t i = 0; i < n; i++) {                             \
			struct quant_block v;                                \
                                                                             \
			unpack(&v, in + i * WEIR__BYTES_##name);             \
			quant_values(out + i * WEIR__BLOCK_##name * 4, &v,   \
				     WEIR__BLOCK_##name, group, offset);     \
		}                                                            \
		weir__fpenv_restore(env);                                    \
	}

/* The dtypes with one to four scales in a block, and IQ4_XS. */

/* Add the 32 bits at @x to the elements, as their bit of value 16. */
INLINE void fifth_bits(int8_t *q, const unsigned char *x)
{
	int8_t high[32];

	for (unsigned i = 0; i < 4; i++)
		store_8(high + 8 * i, spread_bits(x[i]) << 4);
	for (unsigned i = 0; i < 32; i++)
		q[i] |= high[i];
}

INLINE void q4_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	nibbles(v->q, x + 2, 16);
	subtract(v->q, 32, 8);
}
QUANT(Q4_0, 32, false, q4_0)

INLINE void q4_1(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	v->offset[0] = half_at(x + 2);
	nibbles(v->q, x + 4, 16);
}
QUANT(Q4_1, 32, true, q4_1)

INLINE void q5_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	nibbles(v->q, x + 6, 16);
	fifth_bits(v->q, x + 2);
	subtract(v->q, 32, 16);
}
QUANT(Q5_0, 32, false, q5_0)

INLINE void q5_1(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	v->offset[0] = half_at(x + 2);
	nibbles(v->q, x + 8, 16);
	fifth_bits(v->q, x + 4);
}
QUANT(Q5_1, 32, true, q5_1)

INLINE void q8_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	memcpy(v->q, x + 2, 32);
}
QUANT(Q8_0, 32, false, q8_0)

/* The scale is followed by its product with the sum of the elements. */
INLINE void q8_1(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	memcpy(v->q, x + 4, 32);
}
QUANT(Q8_1, 32, false, q8_1)

/* The scale is an F32. The elements are followed by sums of 16 of them. */
INLINE void q8_k(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = float_of(get_32(x));
	memcpy(v->q, x + 4, 256);
}
QUANT(Q8_K, 256, false, q8_k)

/* An element is a bit: 1 or -1. */
INLINE void q1_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	for (unsigned i = 0; i < 16; i++)
		store_8(v->q + 8 * i, spread_bits(x[2 + i]) << 1);
	subtract(v->q, 128, 1);
}
QUANT(Q1_0, 128, false, q1_0)

INLINE void q2_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	for (unsigned i = 0; i < 8; i++)
		store_8(v->q + 8 * i, spread_pairs(get_16(x + 2 + 2 * i)));
	subtract(v->q, 64, 1);
}
QUANT(Q2_0, 64, false, q2_0)

/*
 * @width bytes with @digits digits each: the first is the highest of base 3 in
 * a fraction of 256.
 */
INLINE void ternary(int8_t *restrict q, const unsigned char *restrict x,
		    unsigned width, unsigned digits)
{
	unsigned power = 1;

	for (unsigned k = 0; k < digits; k++, power *= 3)
		for (unsigned i = 0; i < width; i++) {
			uint8_t rest = (uint8_t)(x[i] * power);

			q[k * width + i] = (int8_t)((rest * 3 >> 8) - 1);
		}
}

INLINE void tq1_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x + 52);
	ternary(v->q, x, 32, 5);
	ternary(v->q + 160, x + 32, 16, 5);
	ternary(v->q + 240, x + 48, 4, 4);
}
QUANT(TQ1_0, 256, false, tq1_0)

INLINE void tq2_0(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x + 64);
	pairs(v->q, x);
	pairs(v->q + 128, x + 32);
	subtract(v->q, 256, 1);
}
QUANT(TQ2_0, 256, false, tq2_0)

/* The values of ggml's kvalues_iq4nl (ggml-common.h, MIT licence). */
static const int8_t iq4_values[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};
/* Twice the values of E2M1, of the specification of MX formats. */
static const int8_t fp4_values[16] = { 0, 1,  2,  3,  4,  6,  8,  12,
				       0, -1, -2, -3, -4, -6, -8, -12 };

/* The same as nibbles(), but store the value that each nibble selects. */
INLINE void look_up(int8_t *restrict q, const unsigned char *restrict x,
		    unsigned n, const int8_t *restrict values)
{
	for (unsigned i = 0; i < n; i++) {
		q[i] = values[x[i] & 15];
		q[i + n] = values[x[i] >> 4];
	}
}

INLINE void iq4_nl(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] = half_at(x);
	look_up(v->q, x + 2, 16, iq4_values);
}
QUANT(IQ4_NL, 32, false, iq4_nl)

/* Scales of 6 bits: the high two in 16 bits, then the low four. */
INLINE void iq4_xs(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x);
	uint32_t high = get_16(x + 2);

	for (unsigned i = 0; i < 8; i++) {
		int scale = x[4 + i / 2] >> i % 2 * 4 & 15;

		scale |= (high >> 2 * i & 3) << 4;
		v->scale[i] = d * (float)(scale - 32);
		look_up(v->q + 32 * i, x + 8 + 16 * i, 16, iq4_values);
	}
}
QUANT(IQ4_XS, 32, false, iq4_xs)

/*
 * The scale, an E8M0, is halved, since the values are doubled. Its 255 is not
 * NaN.
 */
INLINE void mxfp4(struct quant_block *v, const unsigned char *x)
{
	v->scale[0] =
		float_of(x[0] < 2 ? 0x00200000u << x[0] : (x[0] - 1u) << 23);
	look_up(v->q, x + 1, 16, fp4_values);
}
QUANT(MXFP4, 32, false, mxfp4)

/* A scale of E4M3 without sign, halved; 0x7f, NaN elsewhere, is 0. */
INLINE float half_e4m3(unsigned x)
{
	unsigned exponent = x >> 3 & 15, mantissa = x & 7;

	if (x == 0x7f)
		return 0;
	if (!exponent)
		return (float)mantissa * 0x1p-10f;
	return float_of((exponent + 119) << 23 | mantissa << 20);
}

INLINE void nvfp4(struct quant_block *v, const unsigned char *x)
{
	for (unsigned i = 0; i < 4; i++) {
		v->scale[i] = half_e4m3(x[i]);
		look_up(v->q + 16 * i, x + 4 + 8 * i, 8, fp4_values);
	}
}
QUANT(NVFP4, 16, false, nvfp4)

/* The K dtypes: blocks of 256 elements, with quantised scales of 16 or 32. */

/* Add bit k of byte i, as the bit of value @value, to element 32 * k + i. */
INLINE void add_bits(int8_t *restrict q, const unsigned char *restrict x,
		     int value)
{
	for (unsigned k = 0; k < 8; k++)
		for (unsigned i = 0; i < 32; i++)
			q[32 * k + i] |= (int8_t)((x[i] >> k & 1) * value);
}

INLINE void q2_k(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x + 80), least = half_at(x + 82);

	for (unsigned i = 0; i < 16; i++) {
		v->scale[i] = d * (float)(x[i] & 15);
		v->offset[i] = -(least * (float)(x[i] >> 4));
	}
	pairs(v->q, x + 16);
	pairs(v->q + 128, x + 48);
}
QUANT(Q2_K, 16, true, q2_k)

/* 12 bytes: the low nibbles of 16 scales, then their high two bits. */
INLINE int q3_scale(const unsigned char *x, unsigned i)
{
	unsigned low = x[i % 8] >> i / 8 * 4 & 15;
	unsigned high = x[8 + i % 4] >> i / 4 * 2 & 3;

	return (int)(low | high << 4) - 32;
}

INLINE void q3_k(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x + 108);

	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = d * (float)q3_scale(x + 96, i);
	pairs(v->q, x + 32);
	pairs(v->q + 128, x + 64);
	add_bits(v->q, x, 4);
	subtract(v->q, 256, 4);
}
QUANT(Q3_K, 16, false, q3_k)

/*
 * 12 bytes: 4 scales and 4 minima in the low 6 bits of a byte each; then the
 * low nibbles of 4 scales, with those of 4 minima, whose high two bits are
 * those of the first 8 bytes.
 */
INLINE void q45_scales(struct quant_block *v, float d, float least,
		       const unsigned char *x)
{
	for (unsigned i = 0; i < 4; i++) {
		unsigned scale = (x[8 + i] & 15) | x[i] >> 6 << 4;
		unsigned min = x[8 + i] >> 4 | x[4 + i] >> 6 << 4;

		v->scale[i] = d * (float)(x[i] & 63);
		v->offset[i] = -(least * (float)(x[4 + i] & 63));
		v->scale[4 + i] = d * (float)scale;
		v->offset[4 + i] = -(least * (float)min);
	}
}

INLINE void q4_k(struct quant_block *v, const unsigned char *x)
{
	q45_scales(v, half_at(x), half_at(x + 2), x + 4);
	for (unsigned k = 0; k < 4; k++)
		nibbles(v->q + 64 * k, x + 16 + 32 * k, 32);
}
QUANT(Q4_K, 32, true, q4_k)

INLINE void q5_k(struct quant_block *v, const unsigned char *x)
{
	q45_scales(v, half_at(x), half_at(x + 2), x + 4);
	for (unsigned k = 0; k < 4; k++)
		nibbles(v->q + 64 * k, x + 48 + 32 * k, 32);
	add_bits(v->q, x + 16, 16);
}
QUANT(Q5_K, 32, true, q5_k)

/*
 * 128 elements of 64 bytes with their low nibbles, 32 with two bits more each.
 */
INLINE void q6_half(int8_t *restrict q, const unsigned char *restrict low,
		    const unsigned char *restrict high)
{
	int8_t top[128];

	pairs(top, high);
	nibbles(q, low, 64);
	for (unsigned i = 0; i < 128; i++)
		q[i] = (int8_t)((q[i] | top[i] << 4) - 32);
}

INLINE void q6_k(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x + 208);

	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = d * (float)(int8_t)x[192 + i];
	q6_half(v->q, x, x + 128);
	q6_half(v->q + 128, x + 64, x + 160);
}
QUANT(Q6_K, 16, false, q6_k)

/*
 * IQ1, IQ2 and IQ3: a number selects a point of a grid, which is 4 or 8
 * elements. IQ2 and IQ3 store the signs of the elements separately.
 */

/* Negate those of 8 positive bytes whose bit in @signs is set. */
INLINE uint64_t negate(uint64_t bytes, uint32_t signs)
{
	uint64_t ones = spread_bits(signs);

	return (bytes ^ ones * 0xff) + ones;
}

/*
 * Return 7 signs with the eighth, which makes the number of negative ones even.
 */
INLINE uint32_t even_signs(uint32_t x)
{
	uint32_t odd = x ^ x >> 4;

	odd ^= odd >> 2;
	odd ^= odd >> 1;
	return x | (odd & 1) << 7;
}

INLINE uint64_t iq2_point(uint32_t packed)
{
	uint64_t k = spread_pairs(packed);

	return 8 * ONES + 17 * k + (k >> 1 & ONES);
}

/* Spread 4 numbers of 3 bits to the bytes of a word. */
INLINE uint64_t spread_triples(uint32_t x)
{
	x = (x & 0x3f) | (x & 0xfc0) << 10;
	return (x & 0x00070007) | (x & 0x00380038) << 5;
}

INLINE uint64_t iq3_xxs_points(uint32_t first, uint32_t second)
{
	uint64_t k = spread_triples(first) | spread_triples(second) << 32;

	return 4 * ONES + 8 * k + ((k + ONES) >> 2 & 2 * ONES);
}

INLINE uint64_t iq3_s_points(uint32_t first, uint32_t second)
{
	uint64_t k = spread_triples(first) | spread_triples(second) << 32;

	return ONES + 2 * k;
}

/* Return a scale of IQ2 or IQ3_XXS, of 4 bits. */
INLINE float odd_scale(float d, uint32_t x)
{
	return d * (0.5f + (float)(x & 15));
}

/* 32 elements have 4 numbers, then 4 times 7 signs and a scale. */
INLINE void iq2_xxs(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x) * 0.25f;

	for (unsigned i = 0; i < 32; i++) {
		const unsigned char *at = x + 2 + i / 4 * 8;
		uint32_t rest = get_32(at + 4);
		uint32_t signs = even_signs(rest >> i % 4 * 7 & 127);
		uint32_t point = weir__grid_iq2_xxs[at[i % 4]];

		v->scale[i / 4] = odd_scale(d, rest >> 28);
		store_8(v->q + 8 * i, negate(iq2_point(point), signs));
	}
}
QUANT(IQ2_XXS, 32, false, iq2_xxs)

/* 9 bits of the number, 7 signs; the scales, of 16 elements, are at the end. */
INLINE void iq2_xs(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x) * 0.25f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t own = get_16(x + 2 + 2 * i);
		uint32_t point = weir__grid_iq2_xs[own & 511];

		store_8(v->q + 8 * i,
			negate(iq2_point(point), even_signs(own >> 9)));
	}
	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = odd_scale(d, x[66 + i / 2] >> i % 2 * 4);
}
QUANT(IQ2_XS, 16, false, iq2_xs)

/* 8 bits of 32 numbers, 8 signs of each, two more bits of each, scales. */
INLINE void iq2_s(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x) * 0.25f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t high = x[66 + i / 4] >> i % 4 * 2 & 3;
		uint32_t point = weir__grid_iq2_s[x[2 + i] | high << 8];

		store_8(v->q + 8 * i, negate(iq2_point(point), x[34 + i]));
	}
	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = odd_scale(d, x[74 + i / 2] >> i % 2 * 4);
}
QUANT(IQ2_S, 16, false, iq2_s)

/* 64 numbers; then for 32 elements 4 times 7 signs and a scale. */
INLINE void iq3_xxs(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x) * 0.5f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t rest = get_32(x + 66 + i / 4 * 4);
		uint32_t signs = even_signs(rest >> i % 4 * 7 & 127);
		uint64_t points =
			iq3_xxs_points(weir__grid_iq3_xxs[x[2 + 2 * i]],
				       weir__grid_iq3_xxs[x[3 + 2 * i]]);

		v->scale[i / 4] = odd_scale(d, rest >> 28);
		store_8(v->q + 8 * i, negate(points, signs));
	}
}
QUANT(IQ3_XXS, 32, false, iq3_xxs)

/* 8 bits of 64 numbers, the ninth of each, signs, scales of 32 elements. */
INLINE void iq3_s(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x);

	for (unsigned i = 0; i < 32; i++) {
		uint32_t high = (uint32_t)x[66 + i / 4] >> i % 4 * 2;
		uint32_t first = x[2 + 2 * i] | (high & 1) << 8;
		uint32_t second = x[3 + 2 * i] | (high & 2) << 7;
		uint64_t points = iq3_s_points(weir__grid_iq3_s[first],
					       weir__grid_iq3_s[second]);

		store_8(v->q + 8 * i, negate(points, x[74 + i]));
	}
	for (unsigned i = 0; i < 8; i++) {
		unsigned scale = x[106 + i / 2] >> i % 2 * 4 & 15;

		v->scale[i] = d * (float)(2 * scale + 1);
	}
}
QUANT(IQ3_S, 32, false, iq3_s)

/*
 * 8 times the elements of a point and 1/8, or -1/8 if @minus; the scale is an
 * eighth. The bytes are added with their highest bit set, so that no carry or
 * borrow leaves them.
 */
INLINE uint64_t iq1_point(uint32_t packed, bool minus)
{
	uint64_t k = spread_pairs(packed);

	return (8 * k + (minus ? 0x77 : 0x79) * ONES) ^ 0x80 * ONES;
}

INLINE float iq1_scale(float d, uint32_t x)
{
	return d * (float)(2 * (x & 7) + 1);
}

/* 8 bits of 32 numbers; for 4 of them 3 more bits each, a scale, the sign. */
INLINE void iq1_s(struct quant_block *v, const unsigned char *x)
{
	float d = half_at(x) * 0.125f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t rest = get_16(x + 34 + i / 4 * 2);
		uint32_t high = rest >> i % 4 * 3 & 7;
		uint32_t point = weir__grid_iq1[x[2 + i] | high << 8];

		v->scale[i / 4] = iq1_scale(d, rest >> 12);
		store_8(v->q + 8 * i, iq1_point(point, rest >> 15));
	}
}
QUANT(IQ1_S, 32, false, iq1_s)

/*
 * 8 bits of 32 numbers; for each 3 more bits and the sign; 4 times 4 scales of
 * 3 bits with 4 bits of d.
 */
INLINE void iq1_m(struct quant_block *v, const unsigned char *x)
{
	uint32_t bits = 0;
	float d;

	for (unsigned i = 0; i < 4; i++)
		bits |= get_16(x + 48 + 2 * i) >> 12 << 4 * i;
	d = half_of(bits) * 0.125f;
	for (unsigned i = 0; i < 16; i++)
		v->scale[i] =
			iq1_scale(d, get_16(x + 48 + i / 4 * 2) >> i % 4 * 3);
	for (unsigned i = 0; i < 32; i++) {
		uint32_t rest = x[32 + i / 2] >> i % 2 * 4;
		uint32_t point = weir__grid_iq1[x[i] | (rest & 7) << 8];

		store_8(v->q + 8 * i, iq1_point(point, rest >> 3 & 1));
	}
}
QUANT(IQ1_M, 16, false, iq1_m)

#define ROW(name, block_, bytes_, align) \
	{ .run = name##_f32,             \
	  .block = block_,               \
	  .src_bytes = bytes_,           \
	  .dst_bytes = block_ * 4,       \
	  .from = WEIR_DTYPE_##name,     \
	  .to = WEIR_DTYPE_F32 },
static const struct weir_backend_convert list[] = { WEIR__QUANTISED_DTYPES(
	ROW) };

static bool quants_usable(void)
{
	return true;
}

const struct weir__convert_set weir__convert_quants = {
	.name = "blocks",
	.usable = quants_usable,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};
