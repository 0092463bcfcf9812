/* SPDX-License-Identifier: MIT */
#include "graph/compare/difference.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

#define CHUNK 256u /* elements: the longest block */

/*
 * A sum of squares, @sum times 2^(2 * @scale). Squares of F64 are scaled by the
 * greatest one, since most F64 have no square in F64.
 */
struct squares {
	double sum;
	int scale;
};

struct difference {
	struct weir_compared *ret;
	uint32_t dtype, block, bytes; /* of a block */
	uint64_t n;                   /* elements so far */
	struct squares error, square;
};

static bool is_number(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_I32:
	case WEIR_DTYPE_I64:
	case WEIR_DTYPE_F16:
	case WEIR_DTYPE_BF16:
	case WEIR_DTYPE_F32:
	case WEIR_DTYPE_F64:
		return true;
	default:
		return dtype > WEIR_DTYPE_GGML;
	}
}

static int numbers(uint32_t dtype, const unsigned char *from, size_t n,
		   double *to)
{
	float f[CHUNK];
	int64_t i64;
	int32_t i32;
	int r = 0;

	if (dtype == WEIR_DTYPE_F64)
		memcpy(to, from, n * sizeof(*to));
	else if (dtype != WEIR_DTYPE_I32 && dtype != WEIR_DTYPE_I64)
		r = weir_convert(WEIR_DTYPE_F32, f, (enum weir_dtype)dtype,
				 from, n);
	for (size_t i = 0; i < n && dtype != WEIR_DTYPE_F64 && !r; i++) {
		if (dtype == WEIR_DTYPE_I32) {
			memcpy(&i32, from + i * sizeof(i32), sizeof(i32));
			to[i] = i32;
		} else if (dtype == WEIR_DTYPE_I64) {
			memcpy(&i64, from + i * sizeof(i64), sizeof(i64));
			to[i] = (double)i64;
		} else {
			to[i] = (double)f[i];
		}
	}
	return r;
}

/* The same infinity, or NaN twice, is no difference. */
static bool same_odd(double a, double b)
{
	return (isnan(a) && isnan(b)) || (isinf(a) && a == b);
}

/* Add the square of @x times 2^@twice. */
static void square_add(struct squares *s, double x, int twice, bool scales)
{
	int scale;

	if (scales && x != 0) {
		frexp(x, &scale);
		scale += twice;
		if (!(s->sum > 0) || scale > s->scale) {
			s->sum = ldexp(s->sum, 2 * (s->scale - scale));
			s->scale = scale;
		}
		x = ldexp(x, twice - s->scale);
	}
	s->sum += x * x;
}

/* @a / @b; 0 only if @a is. */
static double squares_ratio(const struct squares *a, const struct squares *b)
{
	double ratio;

	if (!(a->sum > 0))
		return 0;
	if (!(b->sum > 0))
		return INFINITY;
	ratio = ldexp(a->sum / b->sum, 2 * (a->scale - b->scale));
	return ratio > 0 ? ratio : nextafter(0, 1);
}

/* @apart: |a - b|, which a and b need not have as doubles. */
static void element_add(struct difference *d, double a, double b, double apart)
{
	bool scales = d->dtype == WEIR_DTYPE_F64;
	uint64_t at = d->n++;

	if (!isfinite(a) || !isfinite(b)) {
		d->ret->odd += !same_odd(a, b);
		return;
	}
	if (isfinite(apart))
		square_add(&d->error, apart, 0, scales);
	else
		square_add(&d->error, a / 2 - b / 2, 1, scales);
	square_add(&d->square, b, 0, scales);
	if (apart > d->ret->max) {
		d->ret->max = apart;
		d->ret->at = at;
	}
}

/* Several I64 may be the same double. */
static double i64_apart(const unsigned char *a, const unsigned char *b)
{
	int64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x > y ? (double)((uint64_t)x - (uint64_t)y)
		     : (double)((uint64_t)y - (uint64_t)x);
}

static int chunk_add(struct difference *d, const unsigned char *a,
		     const unsigned char *b, size_t n)
{
	double x[CHUNK], y[CHUNK];
	int r = numbers(d->dtype, a, n, x);

	if (!r)
		r = numbers(d->dtype, b, n, y);
	for (size_t i = 0; !r && i < n; i++)
		element_add(d, x[i], y[i],
			    d->dtype == WEIR_DTYPE_I64
				    ? i64_apart(a + i * sizeof(int64_t),
						b + i * sizeof(int64_t))
				    : fabs(x[i] - y[i]));
	return r;
}

/* @blocks blocks without gaps. */
static int row_add(struct difference *d, const unsigned char *a,
		   const unsigned char *b, size_t blocks)
{
	size_t most = CHUNK / d->block, n;
	int r = 0;

	if (!is_number(d->dtype)) {
		for (size_t i = 0; i < blocks; i++)
			d->ret->odd += !!memcmp(a + i * d->bytes,
						b + i * d->bytes, d->bytes);
		return 0;
	}
	for (size_t i = 0; !r && i < blocks; i += n) {
		n = blocks - i < most ? blocks - i : most;
		r = chunk_add(d, a + i * d->bytes, b + i * d->bytes,
			      n * d->block);
	}
	return r;
}

int weir__difference(const void *a, const void *b, struct weir_compared *ret)
{
	const struct weir_tensor *t = &ret->a;
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	struct difference d = { .ret = ret,
				.dtype = t->dtype,
				.block = info->block,
				.bytes = info->bytes };
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	uint64_t off = 0, bytes;
	unsigned outer;
	size_t row;
	int r = weir__tensor_bytes(t, &bytes);

	ret->nmse = ret->max = 0;
	ret->at = ret->odd = 0;
	if (r < 0 || !bytes)
		return r;
	outer = weir__tensor_outer(t, &row);
	do
		r = row_add(&d, (const unsigned char *)a + off,
			    (const unsigned char *)b + off, row / d.bytes);
	while (!r && weir__tensor_next_row(t, outer, index, &off));
	ret->nmse = squares_ratio(&d.error, &d.square);
	return r;
}
