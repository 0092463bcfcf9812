/* SPDX-License-Identifier: MIT */
/*
 * IQ1, IQ2 and IQ3: a number selects a point of a grid, which is 4 or 8
 * elements; IQ2 and IQ3 have signs of their own.
 */
#include "mem/quants.h"

/* 8 bytes above 0, negative where the bit of @signs is set. */
WEIR__INLINE uint64_t negate(uint64_t bytes, uint32_t signs)
{
	uint64_t ones = weir__spread_bits(signs);

	return (bytes ^ ones * 0xff) + ones;
}

/* 7 signs; the eighth makes the number of negative ones even. */
WEIR__INLINE uint32_t even_signs(uint32_t x)
{
	uint32_t odd = x ^ x >> 4;

	odd ^= odd >> 2;
	odd ^= odd >> 1;
	return x | (odd & 1) << 7;
}

WEIR__INLINE uint64_t iq2_point(uint32_t packed)
{
	uint64_t k = weir__spread_pairs(packed);

	return 8 * WEIR__BYTES + 17 * k + (k >> 1 & WEIR__BYTES);
}

/* 4 numbers of 3 bits, to the bytes of a word. */
WEIR__INLINE uint64_t spread_triples(uint32_t x)
{
	x = (x & 0x3f) | (x & 0xfc0) << 10;
	return (x & 0x00070007) | (x & 0x00380038) << 5;
}

WEIR__INLINE uint64_t iq3_xxs_points(uint32_t first, uint32_t second)
{
	uint64_t k = spread_triples(first) | spread_triples(second) << 32;

	return 4 * WEIR__BYTES + 8 * k +
	       ((k + WEIR__BYTES) >> 2 & 2 * WEIR__BYTES);
}

WEIR__INLINE uint64_t iq3_s_points(uint32_t first, uint32_t second)
{
	uint64_t k = spread_triples(first) | spread_triples(second) << 32;

	return WEIR__BYTES + 2 * k;
}

/* The scales of IQ2 and IQ3_XXS, of 4 bits. */
WEIR__INLINE float odd_scale(float d, uint32_t x)
{
	return d * (0.5f + (float)(x & 15));
}

/* For 32 elements 4 numbers, then 4 times 7 signs and a scale. */
WEIR__INLINE void iq2_xxs(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x) * 0.25f;

	for (unsigned i = 0; i < 32; i++) {
		const unsigned char *at = x + 2 + i / 4 * 8;
		uint32_t rest = weir__get32(at + 4);
		uint32_t signs = even_signs(rest >> i % 4 * 7 & 127);
		uint32_t point = weir__grid_iq2_xxs[at[i % 4]];

		v->scale[i / 4] = odd_scale(d, rest >> 28);
		weir__put_q(v->q + 8 * i, negate(iq2_point(point), signs));
	}
}
WEIR__QUANT(IQ2_XXS, 256, 66, 32, false, iq2_xxs)

/* 9 bits of the number, 7 signs; the scales, of 16 elements, are at the end. */
WEIR__INLINE void iq2_xs(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x) * 0.25f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t own = weir__get16(x + 2 + 2 * i);
		uint32_t point = weir__grid_iq2_xs[own & 511];

		weir__put_q(v->q + 8 * i,
			    negate(iq2_point(point), even_signs(own >> 9)));
	}
	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = odd_scale(d, x[66 + i / 2] >> i % 2 * 4);
}
WEIR__QUANT(IQ2_XS, 256, 74, 16, false, iq2_xs)

/* 8 bits of 32 numbers, 8 signs of each, two more bits of each, scales. */
WEIR__INLINE void iq2_s(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x) * 0.25f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t high = x[66 + i / 4] >> i % 4 * 2 & 3;
		uint32_t point = weir__grid_iq2_s[x[2 + i] | high << 8];

		weir__put_q(v->q + 8 * i, negate(iq2_point(point), x[34 + i]));
	}
	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = odd_scale(d, x[74 + i / 2] >> i % 2 * 4);
}
WEIR__QUANT(IQ2_S, 256, 82, 16, false, iq2_s)

/* 64 numbers; then for 32 elements 4 times 7 signs and a scale. */
WEIR__INLINE void iq3_xxs(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x) * 0.5f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t rest = weir__get32(x + 66 + i / 4 * 4);
		uint32_t signs = even_signs(rest >> i % 4 * 7 & 127);
		uint64_t points =
			iq3_xxs_points(weir__grid_iq3_xxs[x[2 + 2 * i]],
				       weir__grid_iq3_xxs[x[3 + 2 * i]]);

		v->scale[i / 4] = odd_scale(d, rest >> 28);
		weir__put_q(v->q + 8 * i, negate(points, signs));
	}
}
WEIR__QUANT(IQ3_XXS, 256, 98, 32, false, iq3_xxs)

/* 8 bits of 64 numbers, the ninth of each, signs, scales of 32 elements. */
WEIR__INLINE void iq3_s(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x);

	for (unsigned i = 0; i < 32; i++) {
		uint32_t high = (uint32_t)x[66 + i / 4] >> i % 4 * 2;
		uint32_t first = x[2 + 2 * i] | (high & 1) << 8;
		uint32_t second = x[3 + 2 * i] | (high & 2) << 7;
		uint64_t points = iq3_s_points(weir__grid_iq3_s[first],
					       weir__grid_iq3_s[second]);

		weir__put_q(v->q + 8 * i, negate(points, x[74 + i]));
	}
	for (unsigned i = 0; i < 8; i++) {
		unsigned scale = x[106 + i / 2] >> i % 2 * 4 & 15;

		v->scale[i] = d * (float)(2 * scale + 1);
	}
}
WEIR__QUANT(IQ3_S, 256, 110, 32, false, iq3_s)

/*
 * 8 times the elements of a point and 1/8, or -1/8 if @minus; the scale is an
 * eighth. The bytes are added with their highest bit set, so that no carry or
 * borrow leaves them.
 */
WEIR__INLINE uint64_t iq1_point(uint32_t packed, bool minus)
{
	uint64_t k = weir__spread_pairs(packed);

	return (8 * k + (minus ? 0x77 : 0x79) * WEIR__BYTES) ^
	       0x80 * WEIR__BYTES;
}

WEIR__INLINE float iq1_scale(float d, uint32_t x)
{
	return d * (float)(2 * (x & 7) + 1);
}

/* 8 bits of 32 numbers; for 4 of them 3 more bits each, a scale, the sign. */
WEIR__INLINE void iq1_s(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x) * 0.125f;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t rest = weir__get16(x + 34 + i / 4 * 2);
		uint32_t high = rest >> i % 4 * 3 & 7;
		uint32_t point = weir__grid_iq1[x[2 + i] | high << 8];

		v->scale[i / 4] = iq1_scale(d, rest >> 12);
		weir__put_q(v->q + 8 * i, iq1_point(point, rest >> 15));
	}
}
WEIR__QUANT(IQ1_S, 256, 50, 32, false, iq1_s)

/*
 * 8 bits of 32 numbers; for each 3 more bits and the sign; 4 times 4 scales of 3
 * bits with 4 bits of d.
 */
WEIR__INLINE void iq1_m(struct weir__quant *v, const unsigned char *x)
{
	uint32_t bits = 0;
	float d;

	for (unsigned i = 0; i < 4; i++)
		bits |= weir__get16(x + 48 + 2 * i) >> 12 << 4 * i;
	d = weir__half_of(bits) * 0.125f;
	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = iq1_scale(d, weir__get16(x + 48 + i / 4 * 2) >>
						   i % 4 * 3);
	for (unsigned i = 0; i < 32; i++) {
		uint32_t rest = x[32 + i / 2] >> i % 2 * 4;
		uint32_t point = weir__grid_iq1[x[i] | (rest & 7) << 8];

		weir__put_q(v->q + 8 * i, iq1_point(point, rest >> 3 & 1));
	}
}
WEIR__QUANT(IQ1_M, 256, 56, 16, false, iq1_m)
