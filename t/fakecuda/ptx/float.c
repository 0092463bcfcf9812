/* SPDX-License-Identifier: MIT */
/* Numbers of 16 bits, and rounding. */
#include <math.h>
#include <string.h>

#include "machine.h"

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

float ptx_half_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffu;
	float f;

	if (rest >= 0x7c00)
		return float_of(sign | 0x7f800000 | rest << 13);
	f = float_of(rest << 13) * 0x1p112f;
	return sign ? -f : f;
}

float ptx_bf16_float(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

/*
 * @v in a format with @bits bits of significand, exponents from @low to @high.
 * The result is exact in a double; infinite if it does not fit.
 */
static double rounded(double v, int bits, int low, int high,
		      enum rounding round)
{
	double a = fabs(v), unit, q, r;
	int e;

	if (v == 0 || !isfinite(v))
		return v;
	frexp(a, &e);
	e -= 1;
	if (e < low)
		e = low;
	unit = ldexp(1.0, e - (bits - 1));
	q = a / unit; /* exact: a power of two */
	r = floor(q);
	if (q != r) {
		bool up = false;

		switch (round) {
		case R_RZ:
			break;
		case R_RM:
			up = v < 0;
			break;
		case R_RP:
			up = v > 0;
			break;
		case R_RNA:
			up = q - r >= 0.5;
			break;
		default:
			up = q - r > 0.5 || (q - r == 0.5 && fmod(r, 2) != 0);
		}
		r += up;
	}
	a = r * unit;
	if (a >= ldexp(1.0, high + 1)) {
		bool largest = round == R_RZ || (round == R_RM && v > 0) ||
			       (round == R_RP && v < 0);

		a = largest ? ldexp(2.0 - ldexp(1.0, 1 - bits), high)
			    : INFINITY;
	}
	return copysign(a, v);
}

uint16_t ptx_to_half(double v, enum rounding round)
{
	double r = rounded(v, 11, -14, 15, round);
	uint16_t sign = signbit(r) ? 0x8000 : 0;
	int e;

	if (isnan(r))
		return 0x7fff;
	r = fabs(r);
	if (isinf(r))
		return sign | 0x7c00;
	if (r < 0x1p-14)
		return sign | (uint16_t)(r * 0x1p24);
	frexp(r, &e);
	return sign | (uint16_t)(((e - 1 + 15) << 10) +
				 (int)ldexp(r, 10 - (e - 1)) - 1024);
}

uint16_t ptx_to_bf16(double v, enum rounding round)
{
	double r = rounded(v, 8, -126, 127, round);
	float f = (float)r; /* exact */
	uint32_t bits;

	if (isnan(r))
		return 0x7fff;
	memcpy(&bits, &f, 4);
	return (uint16_t)(bits >> 16);
}

double ptx_fma_odd(double a, double b, double c)
{
	double p = a * b, s = p + c, t = s - p, err = (p - (s - t)) + (c - t);
	uint64_t bits;

	if (err == 0 || !isfinite(s))
		return s;
	memcpy(&bits, &s, 8);
	if (!(bits & 1))
		bits += (err > 0) == (s > 0) ? 1 : (uint64_t)-1;
	memcpy(&s, &bits, 8);
	return s;
}
