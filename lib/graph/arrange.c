/* SPDX-License-Identifier: MIT */
/* Rules of shapes, continued: copies, sums, choices, and the program's own. */
#include <string.h>

#include "graph/ops.h"
#include "mem/dtype.h"

static const struct weir_tensor *source(const struct weir__made *m, unsigned i)
{
	return &m->src[i]->t;
}

static uint64_t elements(const struct weir_tensor *t)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= (uint64_t)t->shape[i];
	return n;
}

static bool is_number(uint32_t dtype)
{
	return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_F16 ||
	       dtype == WEIR_DTYPE_BF16 || dtype > WEIR_DTYPE_GGML;
}

static int check_convert(const struct weir__made *m, uint32_t from, uint32_t to)
{
	if (from == to || (is_number(from) && is_number(to)))
		return 0;
	return weir__op_refuse(m, "%s is not converted to %s",
			       weir__dtype(from)->name, weir__dtype(to)->name);
}

/* -EINVAL: the rows of the result would not be whole blocks. */
static int check_blocks(const struct weir__made *m, uint32_t dtype,
			unsigned ndim, const int64_t *shape)
{
	const struct weir_dtype_info *info = weir__dtype(dtype);
	int64_t row = ndim ? shape[ndim - 1] : 1;

	if (row % info->block == 0)
		return 0;
	return weir__op_refuse(
		m,
		"rows of %lld elements are not whole blocks of %u, which %s has",
		(long long)row, info->block, info->name);
}

int weir__rule_copy(struct weir__made *m)
{
	const struct weir_tensor *a = source(m, 0), *dst = source(m, 1);

	if (elements(a) != elements(dst))
		return weir__op_refuse(m, "%llu elements, dst has %llu",
				       (unsigned long long)elements(a),
				       (unsigned long long)elements(dst));
	return check_convert(m, a->dtype, dst->dtype);
}

int weir__rule_cont(struct weir__made *m)
{
	struct weir_op_cont *p = m->params;
	const struct weir_tensor *a = source(m, 0);
	int r;

	if (!p->dtype)
		p->dtype = a->dtype;
	if (!weir__dtype(p->dtype))
		return weir__op_refuse(m, "%u is not a dtype", p->dtype);
	if ((r = check_convert(m, a->dtype, p->dtype)) < 0 ||
	    (r = check_blocks(m, p->dtype, a->ndim, a->shape)) < 0)
		return r;
	return weir__op_result(m, p->dtype, a->ndim, a->shape);
}

int weir__rule_concat(struct weir__made *m)
{
	const struct weir_op_concat *p = m->params;
	const struct weir_tensor *a = source(m, 0), *b = source(m, 1);
	int64_t shape[WEIR_MAX_DIMS], sum;
	int r;

	if (a->dtype != b->dtype || a->ndim != b->ndim)
		return weir__op_refuse(
			m, "dtypes or numbers of dimensions differ");
	if (p->dim >= a->ndim)
		return weir__op_refuse(m, "dimension %u of %u", p->dim,
				       a->ndim);
	for (uint32_t i = 0; i < a->ndim; i++)
		if (i != p->dim && a->shape[i] != b->shape[i])
			return weir__op_refuse(m,
					       "dimension %u is %lld and %lld",
					       i, (long long)a->shape[i],
					       (long long)b->shape[i]);
	if (__builtin_add_overflow(a->shape[p->dim], b->shape[p->dim], &sum))
		return weir__fail(-EOVERFLOW,
				  "concat: dimension %u is over 2^63 - 1",
				  p->dim);
	if ((r = check_blocks(m, a->dtype, a->ndim, a->shape)) < 0 ||
	    (r = check_blocks(m, b->dtype, b->ndim, b->shape)) < 0)
		return r;
	memcpy(shape, a->shape, sizeof(shape));
	shape[p->dim] = sum;
	return weir__op_result(m, a->dtype, a->ndim, shape);
}

static int check_reserved(const struct weir__made *m, uint32_t reserved)
{
	return reserved
		       ? weir__op_refuse(m, "reserved %u (must be 0)", reserved)
		       : 0;
}

/*
 * The result has the shape of the parameters, whose other dimensions become 0: they
 * are no part of the fingerprint.
 */
static int result_shaped(struct weir__made *m, uint32_t dtype, uint32_t ndim,
			 int64_t shape[WEIR_MAX_DIMS])
{
	int r = weir__op_result(m, dtype, ndim, shape);

	for (uint32_t i = ndim; i < WEIR_MAX_DIMS; i++)
		shape[i] = 0;
	return r;
}

int weir__rule_repeat(struct weir__made *m)
{
	struct weir_op_repeat *p = m->params;
	const struct weir_tensor *a = source(m, 0);
	int r;

	if ((r = check_reserved(m, p->reserved)) < 0)
		return r;
	if (p->ndim > WEIR_MAX_DIMS)
		return weir__fail(
			-EOPNOTSUPP,
			"repeat: the result would have %u dimensions, at most %d",
			p->ndim, WEIR_MAX_DIMS);
	if (p->ndim < a->ndim)
		return weir__op_refuse(m, "%u dimensions, needs %u to %d",
				       p->ndim, a->ndim, WEIR_MAX_DIMS);
	for (uint32_t i = 0; i < a->ndim; i++) {
		int64_t from = weir__dim_back(a, i);
		int64_t to = p->shape[p->ndim - 1 - i];

		if (from ? to % from : to)
			return weir__op_refuse(
				m, "shape %s: %lld is no multiple of %lld",
				weir__shape_words(p->ndim, p->shape),
				(long long)to, (long long)from);
	}
	if ((r = check_blocks(m, a->dtype, a->ndim, a->shape)) < 0)
		return r;
	return result_shaped(m, a->dtype, p->ndim, p->shape);
}

int weir__rule_sum(struct weir__made *m)
{
	const int64_t one = 1;

	return weir__op_result(m, WEIR_DTYPE_F32, 1, &one);
}

int weir__rule_sum_rows(struct weir__made *m)
{
	const struct weir_tensor *a = source(m, 0);
	int64_t shape[WEIR_MAX_DIMS];

	memcpy(shape, a->shape, sizeof(shape));
	shape[a->ndim - 1] = 1;
	return weir__op_result(m, WEIR_DTYPE_F32, a->ndim, shape);
}

/* Indices are I32, and a row without elements has none. */
static int check_indices(const struct weir__made *m)
{
	int64_t row = weir__dim_back(source(m, 0), 0);

	if (row < 1 || row > INT32_MAX)
		return weir__op_refuse(m, "rows of %lld elements, not 1 to %d",
				       (long long)row, INT32_MAX);
	return 0;
}

int weir__rule_argmax(struct weir__made *m)
{
	const struct weir_tensor *a = source(m, 0);
	int r = check_indices(m);

	return r < 0 ? r
		     : weir__op_result(m, WEIR_DTYPE_I32, a->ndim - 1,
				       a->shape);
}

int weir__rule_top_k(struct weir__made *m)
{
	const struct weir_op_top_k *p = m->params;
	const struct weir_tensor *a = source(m, 0);
	int64_t shape[WEIR_MAX_DIMS], row = weir__dim_back(a, 0);
	int r = check_indices(m);

	if (r < 0)
		return r;
	if (p->k < 1 || p->k > row)
		return weir__op_refuse(m, "k %lld, not 1 to %lld",
				       (long long)p->k, (long long)row);
	memcpy(shape, a->shape, sizeof(shape));
	shape[a->ndim - 1] = p->k;
	return weir__op_result(m, WEIR_DTYPE_I32, a->ndim, shape);
}

int weir__rule_call(struct weir__made *m)
{
	struct weir_op_call *p = m->params;
	int r = check_reserved(m, p->reserved);

	if (r < 0)
		return r;
	if (!p->fn)
		return weir__op_refuse(m, "fn is NULL");
	return result_shaped(m, p->dtype, p->ndim, p->shape);
}
