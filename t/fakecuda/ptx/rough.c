/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic that is as far off as that of a GPU may be, for tests whose bounds
 * have to hold there. Instructions with .approx: an error that the operand
 * decides, up to the bound of the PTX manual. Products of matrices: sums of 8
 * products (TF32: 4) and the earlier sum, each cut off at one bit below the
 * last place of the greatest, as tensor cores of compute capability 8.0 do.
 */
#include <math.h>
#include <string.h>

#include "machine.h"

static const struct {
	const char *name;
	int relative; /* the error is at most 2^-relative of the result */
	int absolute; /* or 2^-absolute; 0: no such bound */
} bounds[] = {
	{ "ex2", 22, 0 },   { "lg2", 22, 22 }, { "sin", 0, 20 },
	{ "cos", 0, 20 },   { "rcp", 23, 0 },  { "sqrt", 23, 0 },
	{ "rsqrt", 22, 0 }, { "tanh", 11, 0 }, { "div", 22, 0 },
};

/* Which bounds the operation has; 0: it is exact. */
uint8_t ptx_rough_of(const char *base, const struct ins *in)
{
	bool always = !strcmp(base, "ex2") || !strcmp(base, "tanh");

	if (in->type != T_F32 ||
	    (!always && in->round != R_APPROX && in->round != R_FULL))
		return 0;
	for (unsigned i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		if (!strcmp(bounds[i].name, base))
			return (uint8_t)(i + 1);
	}
	return 0;
}

/* -1 to 1, the same for the same bits. */
static double draw(uint32_t bits)
{
	uint64_t x = (bits + 1ull) * 0x9e3779b97f4a7c15u;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (double)(int32_t)(x >> 32) * 0x1p-31;
}

void ptx_roughen(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *d = &in->op[0];

	for (unsigned lane = 0; lane < LANES; lane++) {
		uint32_t bits = (uint32_t)ptx_value(w, d, lane);
		double v, error = 0;
		float f;

		memcpy(&f, &bits, 4);
		if (!(m >> lane & 1) || !isfinite(f) || f == 0)
			continue;
		v = (double)f;
		if (bounds[in->rough - 1].relative)
			error = ldexp(fabs(v), -bounds[in->rough - 1].relative);
		if (bounds[in->rough - 1].absolute)
			error = fmax(error,
				     ldexp(1, -bounds[in->rough - 1].absolute));
		f = (float)(v + error * draw(bits));
		memcpy(&bits, &f, 4);
		ptx_assign(w, d, lane, bits);
	}
}

/* @c and @n products, which are then one number of 24 bits. */
static double sum_at_once(double c, const double *p, unsigned n)
{
	double most = fabs(c), unit, sum;
	int e;

	for (unsigned i = 0; i < n; i++)
		most = fmax(most, fabs(p[i]));
	if (!isfinite(most) || most == 0) {
		for (unsigned i = 0; i < n; i++)
			c += p[i];
		return c;
	}
	frexp(most, &e);
	unit = ldexp(1, e - 25);
	sum = trunc(c / unit);
	for (unsigned i = 0; i < n; i++)
		sum += trunc(p[i] / unit);
	sum *= unit;
	if (sum == 0)
		return 0;
	frexp(sum, &e);
	unit = ldexp(1, e - 24);
	return trunc(sum / unit) * unit;
}

double ptx_rough_sum(const struct ins *in, double c, const double *p,
		     unsigned n)
{
	unsigned each = in->type2 == T_TF32 ? 4 : 8;

	for (unsigned i = 0; i < n; i += each)
		c = sum_at_once(c, p + i, n - i < each ? n - i : each);
	return c;
}
