/* SPDX-License-Identifier: MIT */
/* The K formats: 256 elements, with quantised scales of 16 or 32. */
#include "mem/quants.h"

/* To 8 times 32 elements: bit k of byte i, as the bit of value @value. */
WEIR__INLINE void add_bits(int8_t *restrict q, const unsigned char *restrict x,
			   int value)
{
	for (unsigned k = 0; k < 8; k++)
		for (unsigned i = 0; i < 32; i++)
			q[32 * k + i] |= (int8_t)((x[i] >> k & 1) * value);
}

WEIR__INLINE void q2_k(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x + 80), least = weir__half(x + 82);

	for (unsigned i = 0; i < 16; i++) {
		v->scale[i] = d * (float)(x[i] & 15);
		v->offset[i] = -(least * (float)(x[i] >> 4));
	}
	weir__pairs(v->q, x + 16);
	weir__pairs(v->q + 128, x + 48);
}
WEIR__QUANT(Q2_K, 256, 84, 16, true, q2_k)

/* 12 bytes: the low nibbles of 16 scales, then their high two bits. */
WEIR__INLINE int q3_scale(const unsigned char *x, unsigned i)
{
	unsigned low = x[i % 8] >> i / 8 * 4 & 15;
	unsigned high = x[8 + i % 4] >> i / 4 * 2 & 3;

	return (int)(low | high << 4) - 32;
}

WEIR__INLINE void q3_k(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x + 108);

	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = d * (float)q3_scale(x + 96, i);
	weir__pairs(v->q, x + 32);
	weir__pairs(v->q + 128, x + 64);
	add_bits(v->q, x, 4);
	weir__subtract(v->q, 256, 4);
}
WEIR__QUANT(Q3_K, 256, 110, 16, false, q3_k)

/*
 * 12 bytes: 4 scales and 4 minima in the low 6 bits of a byte each; then the low
 * nibbles of 4 scales, with those of 4 minima, whose high two bits are those of
 * the first 8 bytes.
 */
WEIR__INLINE void q45_scales(struct weir__quant *v, float d, float least,
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

WEIR__INLINE void q4_k(struct weir__quant *v, const unsigned char *x)
{
	q45_scales(v, weir__half(x), weir__half(x + 2), x + 4);
	for (unsigned k = 0; k < 4; k++)
		weir__nibbles(v->q + 64 * k, x + 16 + 32 * k, 32);
}
WEIR__QUANT(Q4_K, 256, 144, 32, true, q4_k)

WEIR__INLINE void q5_k(struct weir__quant *v, const unsigned char *x)
{
	q45_scales(v, weir__half(x), weir__half(x + 2), x + 4);
	for (unsigned k = 0; k < 4; k++)
		weir__nibbles(v->q + 64 * k, x + 48 + 32 * k, 32);
	add_bits(v->q, x + 16, 16);
}
WEIR__QUANT(Q5_K, 256, 176, 32, true, q5_k)

/* 128 elements of 64 bytes with their low nibbles, 32 with two bits more each. */
WEIR__INLINE void q6_half(int8_t *restrict q, const unsigned char *restrict low,
			  const unsigned char *restrict high)
{
	int8_t top[128];

	weir__pairs(top, high);
	weir__nibbles(q, low, 64);
	for (unsigned i = 0; i < 128; i++)
		q[i] = (int8_t)((q[i] | top[i] << 4) - 32);
}

WEIR__INLINE void q6_k(struct weir__quant *v, const unsigned char *x)
{
	float d = weir__half(x + 208);

	for (unsigned i = 0; i < 16; i++)
		v->scale[i] = d * (float)(int8_t)x[192 + i];
	q6_half(v->q, x, x + 128);
	q6_half(v->q + 128, x + 64, x + 160);
}
WEIR__QUANT(Q6_K, 256, 210, 16, false, q6_k)
