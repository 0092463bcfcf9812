/* SPDX-License-Identifier: MIT */
#include "naive_store.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "naive.h"
#include "tap.h"

#define MOST_BLOCK 256

static struct weir_dtype_info info_of(uint32_t dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info((enum weir_dtype)dtype, &info) < 0)
		bail("%s", weir_error());
	return info;
}

int64_t naive_count(const struct weir_operand *t)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

/* A tensor as blocks: the last dimension counts them. */
struct blocks {
	struct weir_operand t;
	struct weir_dtype_info info;
	int64_t n;
};

static struct blocks blocks_of(const struct weir_operand *t)
{
	struct blocks b = { .t = *t, .info = info_of(t->dtype) };
	uint32_t last = t->ndim - 1;

	if (t->ndim && !t->stride[last]) { /* rows are not whole blocks */
		b.t.ndim = 1;
		b.t.shape[0] = naive_count(t) / b.info.block;
		b.t.stride[0] = b.info.bytes;
	} else if (t->ndim) {
		b.t.shape[last] /= b.info.block;
	}
	b.n = naive_count(&b.t);
	return b;
}

/* The address of the block with this number, in order. */
static unsigned char *block_at(const struct blocks *b, int64_t number)
{
	unsigned char *p = b->t.data;

	for (uint32_t d = b->t.ndim; d-- > 0; number /= b->t.shape[d])
		p += number % b->t.shape[d] * b->t.stride[d];
	return p;
}

static void load_block(double *to, const struct weir_dtype_info *info,
		       uint32_t dtype, const void *from)
{
	float f[MOST_BLOCK];
	int32_t i32;
	int64_t i64;

	switch (dtype) {
	case WEIR_DTYPE_I32:
		memcpy(&i32, from, sizeof(i32));
		*to = i32;
		return;
	case WEIR_DTYPE_I64:
		memcpy(&i64, from, sizeof(i64));
		*to = (double)i64;
		return;
	case WEIR_DTYPE_F64:
		memcpy(to, from, sizeof(*to));
		return;
	default:
		if (weir_convert(WEIR_DTYPE_F32, f, (enum weir_dtype)dtype,
				 from, info->block) < 0)
			bail("%s", weir_error());
		for (uint32_t i = 0; i < info->block; i++)
			to[i] = (double)f[i];
	}
}

double *naive_doubles(const struct weir_operand *t)
{
	struct blocks b = blocks_of(t);
	double *v = calloc((size_t)naive_count(t) + 1, sizeof(*v));

	if (!v)
		bail("no memory for %lld numbers", (long long)naive_count(t));
	for (int64_t i = 0; i < b.n; i++)
		load_block(v + i * b.info.block, &b.info, t->dtype,
			   block_at(&b, i));
	return v;
}

static void put_f16(unsigned char *to, double v)
{
	if (weir_convert(WEIR_DTYPE_F16, to, WEIR_DTYPE_F64, &v, 1) < 0)
		bail("%s", weir_error());
}

static void store_q8_0(unsigned char *to, const double *v)
{
	double most = 0, d;

	for (int i = 0; i < 32; i++)
		most = fmax(most, fabs(v[i]));
	d = most / 127;
	put_f16(to, d);
	for (int i = 0; i < 32; i++)
		to[2 + i] = (unsigned char)(d != 0 ? lround(v[i] / d) : 0);
}

static void store_q4_0(unsigned char *to, const double *v)
{
	double most = 0, d;
	int q[32];

	for (int i = 0; i < 32; i++)
		if (fabs(v[i]) > fabs(most))
			most = v[i];
	d = most / -8;
	put_f16(to, d);
	for (int i = 0; i < 32; i++) {
		q[i] = d != 0 ? (int)floor(v[i] / d + 8.5) : 8;
		q[i] = q[i] > 15 ? 15 : q[i];
	}
	for (int i = 0; i < 16; i++)
		to[2 + i] = (unsigned char)(q[i] | q[i + 16] << 4);
}

static void store_block(void *to, uint32_t dtype, const double *v)
{
	int32_t i32;
	int64_t i64;

	switch (dtype) {
	case WEIR_DTYPE_I32:
		i32 = (int32_t)*v;
		memcpy(to, &i32, sizeof(i32));
		return;
	case WEIR_DTYPE_I64:
		i64 = (int64_t)*v;
		memcpy(to, &i64, sizeof(i64));
		return;
	case WEIR_DTYPE_Q8_0:
		store_q8_0(to, v);
		return;
	case WEIR_DTYPE_Q4_0:
		store_q4_0(to, v);
		return;
	default:
		if (weir_convert((enum weir_dtype)dtype, to, WEIR_DTYPE_F64, v,
				 1) < 0)
			bail("%s", weir_error());
	}
}

void naive_store(const struct weir_operand *to, const double *v)
{
	struct blocks b = blocks_of(to);

	for (int64_t i = 0; i < b.n; i++)
		store_block(block_at(&b, i), to->dtype, v + i * b.info.block);
}

void naive_move(const struct weir_operand *to, const struct weir_operand *from)
{
	struct blocks a = blocks_of(from), b = blocks_of(to);
	double *v;

	if (from->dtype == to->dtype) {
		for (int64_t i = 0; i < a.n; i++)
			memcpy(block_at(&b, i), block_at(&a, i), a.info.bytes);
		return;
	}
	v = naive_doubles(from);
	naive_store(to, v);
	free(v);
}

/* The number of the block of @of at @index, modulo its shape. */
static int64_t number_of(const struct blocks *of, const int64_t *index,
			 uint32_t ndim)
{
	int64_t number = 0;

	for (uint32_t d = 0; d < of->t.ndim; d++) {
		int64_t at = index[ndim - of->t.ndim + d];

		number = number * of->t.shape[d] + at % of->t.shape[d];
	}
	return number;
}

void naive_repeat(const struct weir_operand *to, const struct weir_operand *a,
		  const struct weir_operand *b, unsigned dim)
{
	struct blocks in = blocks_of(a), more, out = blocks_of(to);
	int64_t index[WEIR_MAX_DIMS], left;
	const struct blocks *from;

	if (b)
		more = blocks_of(b);
	for (int64_t i = 0; i < out.n; i++) {
		left = i;
		for (uint32_t d = out.t.ndim; d-- > 0; left /= out.t.shape[d])
			index[d] = left % out.t.shape[d];
		from = &in;
		if (b && index[dim] >= in.t.shape[dim]) {
			index[dim] -= in.t.shape[dim];
			from = &more;
		}
		memcpy(block_at(&out, i),
		       block_at(from, number_of(from, index, out.t.ndim)),
		       out.info.bytes);
	}
}
