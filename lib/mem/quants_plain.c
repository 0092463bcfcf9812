/* SPDX-License-Identifier: MIT */
/* Formats with one or four scales in a block, and IQ4_XS. */
#include "mem/quants.h"

/* The 32 bits at @x as the bit of value 16 of each element. */
WEIR__INLINE void fifth_bits(int8_t *q, const unsigned char *x)
{
	int8_t high[32];

	for (unsigned i = 0; i < 4; i++)
		weir__put_q(high + 8 * i, weir__spread_bits(x[i]) << 4);
	for (unsigned i = 0; i < 32; i++)
		q[i] |= high[i];
}

WEIR__INLINE void q4_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	weir__nibbles(v->q, x + 2, 16);
	weir__subtract(v->q, 32, 8);
}
WEIR__QUANT(Q4_0, 32, 18, 32, false, q4_0)

WEIR__INLINE void q4_1(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	v->offset[0] = weir__half(x + 2);
	weir__nibbles(v->q, x + 4, 16);
}
WEIR__QUANT(Q4_1, 32, 20, 32, true, q4_1)

WEIR__INLINE void q5_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	weir__nibbles(v->q, x + 6, 16);
	fifth_bits(v->q, x + 2);
	weir__subtract(v->q, 32, 16);
}
WEIR__QUANT(Q5_0, 32, 22, 32, false, q5_0)

WEIR__INLINE void q5_1(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	v->offset[0] = weir__half(x + 2);
	weir__nibbles(v->q, x + 8, 16);
	fifth_bits(v->q, x + 4);
}
WEIR__QUANT(Q5_1, 32, 24, 32, true, q5_1)

WEIR__INLINE void q8_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	memcpy(v->q, x + 2, 32);
}
WEIR__QUANT(Q8_0, 32, 34, 32, false, q8_0)

/* After the scale, the scale times the sum of the elements. */
WEIR__INLINE void q8_1(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	memcpy(v->q, x + 4, 32);
}
WEIR__QUANT(Q8_1, 32, 36, 32, false, q8_1)

/* The scale is an F32. After the elements, sums of 16 of them. */
WEIR__INLINE void q8_k(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__float_of(weir__get32(x));
	memcpy(v->q, x + 4, 256);
}
WEIR__QUANT(Q8_K, 256, 292, 256, false, q8_k)

/* A bit: 1 or -1. */
WEIR__INLINE void q1_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	for (unsigned i = 0; i < 16; i++)
		weir__put_q(v->q + 8 * i, weir__spread_bits(x[2 + i]) << 1);
	weir__subtract(v->q, 128, 1);
}
WEIR__QUANT(Q1_0, 128, 18, 128, false, q1_0)

WEIR__INLINE void q2_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	for (unsigned i = 0; i < 8; i++)
		weir__put_q(v->q + 8 * i,
			    weir__spread_pairs(weir__get16(x + 2 + 2 * i)));
	weir__subtract(v->q, 64, 1);
}
WEIR__QUANT(Q2_0, 64, 18, 64, false, q2_0)

/*
 * @width bytes with @digits digits each: the first is the highest of base 3 in a
 * fraction of 256.
 */
WEIR__INLINE void ternary(int8_t *restrict q, const unsigned char *restrict x,
			  unsigned width, unsigned digits)
{
	unsigned power = 1;

	for (unsigned k = 0; k < digits; k++, power *= 3)
		for (unsigned i = 0; i < width; i++) {
			uint8_t rest = (uint8_t)(x[i] * power);

			q[k * width + i] = (int8_t)((rest * 3 >> 8) - 1);
		}
}

WEIR__INLINE void tq1_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x + 52);
	ternary(v->q, x, 32, 5);
	ternary(v->q + 160, x + 32, 16, 5);
	ternary(v->q + 240, x + 48, 4, 4);
}
WEIR__QUANT(TQ1_0, 256, 54, 256, false, tq1_0)

WEIR__INLINE void tq2_0(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x + 64);
	weir__pairs(v->q, x);
	weir__pairs(v->q + 128, x + 32);
	weir__subtract(v->q, 256, 1);
}
WEIR__QUANT(TQ2_0, 256, 66, 256, false, tq2_0)

/* The values of ggml's kvalues_iq4nl (ggml-common.h, MIT licence). */
static const int8_t iq4_values[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};
/* Twice the values of E2M1, of the specification of MX formats. */
static const int8_t fp4_values[16] = { 0, 1,  2,  3,  4,  6,  8,  12,
				       0, -1, -2, -3, -4, -6, -8, -12 };

/* As weir__nibbles of @n bytes, with the value for each. */
WEIR__INLINE void look_up(int8_t *restrict q, const unsigned char *restrict x,
			  unsigned n, const int8_t *restrict values)
{
	for (unsigned i = 0; i < n; i++) {
		q[i] = values[x[i] & 15];
		q[i + n] = values[x[i] >> 4];
	}
}

WEIR__INLINE void iq4_nl(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__half(x);
	look_up(v->q, x + 2, 16, iq4_values);
}
WEIR__QUANT(IQ4_NL, 32, 18, 32, false, iq4_nl)

/* Scales of 6 bits: the high two in 16 bits, then the low four. */
WEIR__INLINE void iq4_xs(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x);
	uint32_t high = weir__get16(x + 2);

	for (unsigned i = 0; i < 8; i++) {
		int scale = x[4 + i / 2] >> i % 2 * 4 & 15;

		scale |= (high >> 2 * i & 3) << 4;
		v->scale[i] = d * (float)(scale - 32);
		look_up(v->q + 32 * i, x + 8 + 16 * i, 16, iq4_values);
	}
}
WEIR__QUANT(IQ4_XS, 256, 136, 32, false, iq4_xs)

/* The scale, an E8M0, is halved, as the values are doubled; 255 is not NaN. */
WEIR__INLINE void mxfp4(struct weir__quant *v, const unsigned char *x)
{
	v->scale[0] = weir__float_of(x[0] < 2 ? 0x00200000u << x[0]
					      : (x[0] - 1u) << 23);
	look_up(v->q, x + 1, 16, fp4_values);
}
WEIR__QUANT(MXFP4, 32, 17, 32, false, mxfp4)

/* A scale of E4M3 without sign, halved; 0x7f, NaN elsewhere, is 0. */
WEIR__INLINE float half_e4m3(unsigned x)
{
	unsigned exponent = x >> 3 & 15, mantissa = x & 7;

	if (x == 0x7f)
		return 0;
	if (!exponent)
		return (float)mantissa * 0x1p-10f;
	return weir__float_of((exponent + 119) << 23 | mantissa << 20);
}

WEIR__INLINE void nvfp4(struct weir__quant *v, const unsigned char *x)
{
	for (unsigned i = 0; i < 4; i++) {
		v->scale[i] = half_e4m3(x[i]);
		look_up(v->q + 16 * i, x + 4 + 8 * i, 8, fp4_values);
	}
}
WEIR__QUANT(NVFP4, 64, 36, 16, false, nvfp4)
