/* SPDX-License-Identifier: MIT */
/*
 * Products of small matrices. Lane l is in group g = l / 4, at place t = l % 4.
 * A register of A or B holds e neighbouring elements of k. A: register r has
 * row g + 8 * (r % 2) and k from t * e + 4 * e * (r / 2), in shapes of 16 rows;
 * with 8 rows row g and k from t * e + 4 * e * r. B: column g, k as the latter.
 * The result: rows g and g + 8, columns 2 * t and 2 * t + 1.
 *
 * Products are exact, sums are made in double (integers: in 32 bits) and
 * rounded once at the end, or as rough.c has it.
 */
#include <string.h>

#include "machine.h"

#define DEEP 32u

struct matrices {
	double a[16][DEEP], b[8][DEEP];
	int32_t ia[16][DEEP], ib[8][DEEP];
};

static double element(const struct ins *in, uint64_t v, unsigned i)
{
	uint32_t u;
	double d;
	float f;

	switch (in->type2) {
	case T_F16:
		return (double)ptx_half_float((uint16_t)(v >> 16 * i));
	case T_BF16:
		return (double)ptx_bf16_float((uint16_t)(v >> 16 * i));
	case T_TF32:
		u = (uint32_t)v & 0xffffe000; /* the rest is not read */
		memcpy(&f, &u, 4);
		return (double)f;
	default:
		memcpy(&d, &v, 8);
		return d;
	}
}

static void gather(struct warp *w, const struct ins *in, struct matrices *x)
{
	const struct operand *a = &in->op[in->nd], *b = a + in->bytes;
	unsigned e = in->type2 == T_S8                           ? 4
		     : in->type2 == T_F16 || in->type2 == T_BF16 ? 2
								 : 1;
	bool tall = in->sub2 & 4;

	for (unsigned lane = 0; lane < LANES; lane++) {
		unsigned g = lane / 4, t = lane % 4, r, i;

		for (r = 0; r < in->bytes; r++) {
			uint64_t v = ptx_value(w, &a[r], lane);
			unsigned row = g + (tall ? 8 * (r & 1) : 0);
			unsigned k = t * e + 4 * e * (tall ? r / 2 : r);

			for (i = 0; i < e; i++) {
				if (e < 4)
					x->a[row][k + i] = element(in, v, i);
				else
					x->ia[row][k + i] =
						in->sub2 & 1
							? (int8_t)(v >> 8 * i)
							: (uint8_t)(v >> 8 * i);
			}
		}
		for (r = 0; r < in->space; r++) {
			uint64_t v = ptx_value(w, &b[r], lane);
			unsigned k = t * e + 4 * e * r;

			for (i = 0; i < e; i++) {
				if (e < 4)
					x->b[g][k + i] = element(in, v, i);
				else
					x->ib[g][k + i] =
						in->sub2 & 2
							? (int8_t)(v >> 8 * i)
							: (uint8_t)(v >> 8 * i);
			}
		}
	}
}

/* Row @row, column @column of A times B, added to @c. */
static uint64_t product(const struct warp *w, const struct ins *in,
			const struct matrices *x, unsigned row, unsigned column,
			uint64_t c)
{
	double p[DEEP];
	uint64_t ret = 0;
	int64_t sum;
	uint32_t u = (uint32_t)c;
	double d;
	float f;

	if (in->type == T_S32) {
		sum = (int32_t)c;
		for (unsigned k = 0; k < in->sub; k++)
			sum += x->ia[row][k] * x->ib[column][k];
		if (in->sat)
			sum = sum > INT32_MAX   ? INT32_MAX
			      : sum < INT32_MIN ? INT32_MIN
						: sum;
		return (uint32_t)sum;
	}
	if (in->type == T_F64) {
		memcpy(&d, &c, 8);
	} else if (in->type == T_F16) {
		d = (double)ptx_half_float((uint16_t)c);
	} else {
		memcpy(&f, &u, 4);
		d = (double)f;
	}
	for (unsigned k = 0; k < in->sub; k++)
		p[k] = x->a[row][k] * x->b[column][k];
	if (w->block->machine->launch->rough && in->type != T_F64)
		d = ptx_rough_sum(in, d, p, in->sub);
	else
		for (unsigned k = 0; k < in->sub; k++)
			d += p[k];
	if (in->type == T_F16)
		return ptx_to_half(d, R_RN);
	f = (float)d;
	if (in->type == T_F64)
		memcpy(&ret, &d, 8);
	else
		memcpy(&ret, &f, 4);
	return ret;
}

void ptx_do_mma(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *c = &in->op[in->nd + in->bytes + in->space];
	struct matrices x;

	if (m != FULL)
		return;
	gather(w, in, &x);
	for (unsigned lane = 0; lane < LANES; lane++) {
		unsigned g = lane / 4, t = lane % 4;

		for (unsigned r = 0; r < in->nd; r++) {
			uint64_t v = ptx_value(w, &c[r], lane);

			if (in->type == T_F16)
				v = product(w, in, &x, g + 8 * r, 2 * t, v) |
				    product(w, in, &x, g + 8 * r, 2 * t + 1,
					    v >> 16)
					    << 16;
			else
				v = product(w, in, &x, g + 8 * (r / 2),
					    2 * t + r % 2, v);
			ptx_assign(w, &in->op[r], lane, v);
		}
	}
}
