/* SPDX-License-Identifier: MIT */
/*
 * Each operation with random sources: all dtypes, shapes, strides and
 * parameters that its rule accepts, with empty tensors, views, and bytes that
 * are not aligned. A trial has a seed: WEIR_T_SEED is the first one,
 * WEIR_T_TRIALS is the number of trials of an operation, 8.
 *
 * The device accepts what the CPU accepts, and refuses the rest with a
 * sentence.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtypes.h"
#include "graph/compile/compiled.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "kernels/kernels.h"
#include "tap.h"
#include "trial.h"
#include "trial_ways.h"

/* Tensors are small, some operands of products have up to 40,000 elements. */
#define LONG_ROW 600u

static const enum weir_dtype dtypes[] = { F32,
					  F16,
					  BF16,
					  I32,
					  I64,
					  WEIR_DTYPE_F64,
#define DTYPE(name, ...) WEIR_DTYPE_##name,
					  WEIR__QUANTISED_DTYPES(DTYPE)
#undef DTYPE
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

/* A shape, and the dtype. */
struct form {
	enum weir_dtype dtype;
	int block; /* elements of a block */
	unsigned ndim;
	int shape[WEIR_MAX_DIMS];
};

static bool one_in(unsigned n)
{
	return !random_below(n);
}

static int from_to(int from, int to)
{
	return from + (int)random_below((uint64_t)(to - from) + 1);
}

static unsigned flag_of(enum weir_dtype dtype)
{
	switch (dtype) {
	case F32:
		return WEIR__IS_F32;
	case F16:
		return WEIR__IS_F16;
	case BF16:
		return WEIR__IS_BF16;
	case I32:
		return WEIR__IS_I32;
	case I64:
		return WEIR__IS_I64;
	default:
		return dtype > WEIR_DTYPE_GGML ? WEIR__IS_QUANT
					       : WEIR__IS_OTHER;
	}
}

/* A dtype that source @arg of @op may have; half the time a much used one. */
static struct form dtype_for(enum weir_op op, unsigned arg)
{
	static const enum weir_dtype used[] = { F32,
						F16,
						BF16,
						WEIR_DTYPE_Q8_0,
						WEIR_DTYPE_Q4_0,
						WEIR_DTYPE_Q4_K,
						WEIR_DTYPE_Q6_K };
	struct weir_dtype_info info = { .size = sizeof(info) };
	unsigned set = weir__op_row(op)->arg[arg].dtypes;
	struct form f = { .ndim = 0 };

	do
		f.dtype = one_in(2) ? used[random_below(7)]
				    : dtypes[random_below(DTYPES)];
	while (!(set & flag_of(f.dtype)));
	if (weir_dtype_info(f.dtype, &info) < 0)
		bail("%s", weir_error());
	f.block = (int)info.block;
	return f;
}

/* A number of elements: small ones, and those around limits of kernels. */
static int length(void)
{
	static const int some[] = { 1,  2,  3,  4,  5,   7,   8,   9,
				    15, 16, 17, 31, 32,  33,  48,  63,
				    64, 65, 96, 80, 127, 128, 129, 130 };

	if (one_in(40))
		return 0;
	return one_in(12) ? from_to(1, LONG_ROW)
			  : some[random_below(sizeof(some) / sizeof(*some))];
}

/* A few; seldom none. */
static int few(void)
{
	return one_in(50) ? 0 : from_to(1, one_in(4) ? 5 : 3);
}

static int row_of(const struct form *f)
{
	if (f->block == 1)
		return length();
	return one_in(30) ? 0 : f->block * from_to(1, f->block > 32 ? 2 : 6);
}

/* As many dimensions as there may be, each of one or two elements or blocks. */
static void shape_deep(struct form *f)
{
	f->ndim = (unsigned)from_to(6, WEIR_MAX_DIMS);
	for (unsigned i = 0; i < f->ndim; i++)
		f->shape[i] = from_to(1, 2);
	f->shape[f->ndim - 1] *= f->block;
}

/* [few.., rows, row], with @least to @most dimensions; seldom more. */
static void shape_any(struct form *f, unsigned least, unsigned most)
{
	if (one_in(6)) {
		shape_deep(f);
		return;
	}
	f->ndim = (unsigned)from_to((int)least, (int)most);
	for (unsigned i = 0; i < f->ndim; i++)
		f->shape[i] = few();
	if (f->ndim > 1 && one_in(2))
		f->shape[f->ndim - 2] = from_to(1, 20);
	if (f->ndim)
		f->shape[f->ndim - 1] = row_of(f);
}

static struct form with_shape(struct form f, unsigned ndim, int a, int b, int c)
{
	const int shape[] = { a, b, c };

	f.ndim = ndim;
	memcpy(f.shape, shape + 3 - ndim, ndim * sizeof(int));
	return f;
}

/* Put dimensions in front of @f's, which has at most 3. */
static void in_front(struct form *f, unsigned n, const int *dims)
{
	memmove(f->shape + n, f->shape, f->ndim * sizeof(int));
	memcpy(f->shape, dims, n * sizeof(int));
	f->ndim += n;
}

static struct weir_node *put_form(const struct form *f)
{
	const int *s = f->shape;

	return put(f->dtype, f->ndim, s[0], s[1], s[2], s[3], s[4], s[5], s[6],
		   s[7]);
}

static int64_t elements(const struct form *f)
{
	int64_t n = 1;

	for (unsigned i = 0; i < f->ndim; i++)
		n *= f->shape[i];
	return n;
}

/* Contiguous, and some bytes after an aligned address. */
static struct weir_node *displaced(const struct form *f)
{
	struct form more = *f;
	struct weir_tensor t;
	unsigned char *data;
	unsigned by = 1 + (unsigned)random_below(15);
	size_t bytes;

	if (!f->ndim || !elements(f))
		return put_form(f);
	more.shape[0] += f->ndim == 1 ? 16 * f->block : 16;
	t = *weir_node_tensor(put_form(&more));
	t.shape[0] = f->shape[0];
	if (weir_tensor_bytes(&t, &bytes) < 0)
		bail("%s", weir_error());
	data = weir_tensor_data(&t);
	memmove(data + by, data, bytes);
	t.offset += by;
	return weir_graph_leaf(g, &t, NULL);
}

/* Every second element of each row. */
static struct weir_node *with_steps(const struct form *f)
{
	struct form wide = *f;
	int64_t shape[WEIR_MAX_DIMS];
	struct weir_node *node;

	wide.shape[wide.ndim++] = 2;
	node = weir_slice(g, put_form(&wide), f->ndim, (int)random_below(2), 1);
	for (unsigned i = 0; i < f->ndim; i++)
		shape[i] = f->shape[i];
	return weir_reshape(g, node, f->ndim, shape);
}

/*
 * Gaps after rows and other dimensions, which are in another order in memory.
 * The last one stays the last if @rows is set.
 */
static struct weir_node *spread(const struct form *f, bool rows)
{
	unsigned n = f->ndim, free = rows && n ? n - 1 : n;
	int64_t order
		[WEIR_MAX_DIMS]; /* order[i]: where dimension i is stored */
	int before[WEIR_MAX_DIMS] = { 0 };
	struct form wide = *f;
	struct weir_node *node;

	for (unsigned i = 0; i < n; i++) {
		unsigned k = i < free ? (unsigned)random_below(i + 1) : i;

		order[i] = order[k];
		order[k] = i;
	}
	for (unsigned i = 0; i < n; i++) {
		int unit = i == n - 1 ? f->block : 1;

		before[i] = one_in(3) ? unit * from_to(0, 2) : 0;
		wide.shape[order[i]] = f->shape[i] + before[i] +
				       (one_in(3) ? unit * from_to(0, 3) : 0);
	}
	node = put_form(&wide);
	node = weir_permute(g, node, n, order);
	for (unsigned i = 0; i < n; i++)
		node = weir_slice(g, node, i, before[i], f->shape[i]);
	return node;
}

/* A source for argument @arg of @op, in memory as its rule allows. */
static struct weir_node *source(const struct form *f, enum weir_op op,
				unsigned arg)
{
	enum weir__form form = weir__op_row(op)->arg[arg].form;

	if (one_in(4))
		return put_form(f);
	if (form == WEIR__FORM_WHOLE || one_in(4))
		return displaced(f);
	if (form == WEIR__FORM_ANY && f->block == 1 && f->ndim && one_in(4) &&
	    f->ndim < WEIR_MAX_DIMS)
		return with_steps(f);
	return spread(f, form != WEIR__FORM_ANY || f->block > 1);
}

static struct form floats(unsigned ndim, int a, int b, int c)
{
	return with_shape((struct form){ .dtype = F32, .block = 1 }, ndim, a, b,
			  c);
}

/* The bound of a result that is the sum of many: a few may cancel. */
static double few_results(double near, const struct weir_node *node)
{
	int64_t n = 1;

	for (uint32_t i = 0; node && i < node->t.ndim; i++)
		n *= node->t.shape[i];
	return n < 4 ? near * 1e6 : n < 16 ? near * 100 : near;
}

static double near_exact(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_Q4_0   ? 3e-2
	       : dtype == WEIR_DTYPE_Q8_0 ? 1e-3
	       : dtype > WEIR_DTYPE_GGML  ? 1e-12
					  : near_of(dtype);
}

/* Of the dtype of weights, or of k and v. */
static double near_product(enum weir_dtype dtype, uint32_t precision)
{
	if (precision == WEIR_PRECISION_F32)
		return 1e-9;
	if (dtype > WEIR_DTYPE_GGML)
		return NEAR_PRODUCT_QUANT;
	if (precision == WEIR_PRECISION_INVARIANT)
		return 1e-9;
	return dtype == BF16  ? NEAR_PRODUCT_BF16
	       : dtype == F16 ? NEAR_PRODUCT_F16
			      : 1e-9;
}

static struct weir_node *make_one(enum weir_op op, double *ret_near)
{
	const struct weir_op_clamp clamp = { .min = -1, .max = 0.5f };
	const struct weir_op_scale scale = { .scale = 1.5f, .bias = -0.25f };
	const struct weir_op_norm norm = { .eps = one_in(2) ? 1e-5f : 1 };
	struct form f = dtype_for(op, 0);
	struct weir_node *a;
	const void *p = op == WEIR_OP_CLAMP        ? (const void *)&clamp
			: op == WEIR_OP_SCALE      ? (const void *)&scale
			: weir__op_row(op)->params ? (const void *)&norm
						   : NULL;

	shape_any(&f, weir__op_row(op)->arg[0].dims, 5);
	a = source(&f, op, 0);
	*ret_near = f.dtype == F32 ? 1e-8 : near_of(f.dtype);
	if (op == WEIR_OP_SUM || op == WEIR_OP_SUM_ROWS)
		*ret_near = 1e-6;
	return weir_graph_op(g, op, p, weir__op_row(op)->params, &a, 1);
}

static struct weir_node *make_group_norm(double *ret_near)
{
	struct form f = floats(3, from_to(1, 12), few(), length());
	const int outer = few();
	uint32_t groups;

	if (one_in(2))
		in_front(&f, 1, &outer);
	do
		groups = (uint32_t)from_to(1, f.shape[f.ndim - 3]);
	while ((uint32_t)f.shape[f.ndim - 3] % groups);
	*ret_near = 1e-8;
	return weir_group_norm(g, source(&f, WEIR_OP_GROUP_NORM, 0), groups,
			       1e-5f);
}

/* b has a divisor of each dimension of a, or lacks some. */
static struct weir_node *make_repeated(enum weir_op op, double *ret_near)
{
	struct form a = dtype_for(op, 0), b = floats(0, 0, 0, 0);
	struct weir_node *src[2];
	unsigned lacks;

	shape_any(&a, 0, 5);
	lacks = one_in(3) ? (unsigned)random_below(a.ndim + 1) : 0;
	for (unsigned i = lacks; i < a.ndim; i++) {
		int n = a.shape[i];

		if (one_in(3))
			n = n ? 1 : 0;
		else if (n % 2 == 0 && one_in(3))
			n /= 2;
		b.shape[b.ndim++] = n;
	}
	src[0] = source(&a, op, 0);
	src[1] = source(&b, op, 1);
	*ret_near = near_of(a.dtype);
	return weir_graph_op(g, op, NULL, 0, src, 2);
}

static struct weir_node *make_swiglu(double *ret_near)
{
	struct form f = dtype_for(WEIR_OP_SWIGLU, 0);

	shape_any(&f, 0, 5);
	*ret_near = f.dtype == F32 ? 1e-8 : near_of(f.dtype);
	return weir_swiglu(g, source(&f, WEIR_OP_SWIGLU, 0),
			   source(&f, WEIR_OP_SWIGLU, 1));
}

/* [.., T or more, S] */
static struct weir_node *mask_of(enum weir_op op, unsigned arg, int t, int s)
{
	struct form f = dtype_for(op, arg);

	f = with_shape(f, 2, 0, t + (one_in(3) ? from_to(0, 3) : 0), s);
	return source(&f, op, arg);
}

static struct weir_node *make_soft_max(double *ret_near)
{
	struct form f = floats(0, 0, 0, 0), sinks;
	struct weir_node *a, *mask = NULL, *sink = NULL;
	unsigned n;

	shape_any(&f, 1, 4);
	n = f.ndim;
	a = source(&f, WEIR_OP_SOFT_MAX, 0);
	if (n > 1 && one_in(2))
		mask = mask_of(WEIR_OP_SOFT_MAX, 1, f.shape[n - 2],
			       f.shape[n - 1]);
	sinks = floats(1, 0, 0, n > 2 ? f.shape[n - 3] : 1);
	if (one_in(3))
		sink = source(&sinks, WEIR_OP_SOFT_MAX, 2);
	*ret_near = 1e-8;
	return weir_soft_max_sinks(g, a, mask, sink, one_in(2) ? 0 : 0.3f,
				   mask && one_in(2) ? 8 : 0);
}

static struct weir_node *make_rope(double *ret_near)
{
	struct weir_op_rope p = { .mode = (uint32_t)random_below(2) };
	int t = one_in(3) ? length() : few(), d = 2 * from_to(1, 40);
	struct form a = dtype_for(WEIR_OP_ROPE, 0), f;
	struct weir_node *pos, *factors = NULL;
	const int outer = few();

	a = with_shape(a, 3, t, few(), d);
	if (one_in(3))
		in_front(&a, 1, &outer);
	if (one_in(2))
		p.n_dims = 2 * (uint32_t)from_to(1, d / 2);
	if (one_in(3)) {
		p.ext_factor = 0.5f;
		p.context = 50;
	}
	pos = put_ids(I32, 100, 1, t);
	f = floats(1, 0, 0, d / 2 + from_to(0, 2));
	if (one_in(3))
		factors = weir_scale(g, weir_sqr(g, put_form(&f)), 1, 0.5f);
	*ret_near = a.dtype == F32 ? 1e-8 : near_of(a.dtype);
	return weir_rope(g, source(&a, WEIR_OP_ROPE, 0), pos, factors, &p);
}

/* a has divisors of the outer dimensions of b. */
static struct weir_node *make_mul_mat(double *ret_near)
{
	struct weir_op_mul_mat p = { .precision = (uint32_t)random_below(3) };
	struct form a = dtype_for(WEIR_OP_MUL_MAT, 0);
	struct form b = dtype_for(WEIR_OP_MUL_MAT, 1);
	int k = row_of(&a), n = one_in(2) ? from_to(1, 8) : length();
	int outer[2], by;
	struct weir_node *node, *src[2];

	if (one_in(3))
		k = 8 * from_to(1, 40) / a.block * a.block;
	a = with_shape(a, 2, 0, length(), k);
	b = with_shape(b, 2, 0, n, k);
	if (one_in(3)) {
		for (unsigned i = 0; i < 2; i++)
			outer[i] = from_to(1, 2);
		by = from_to(1, 3);
		in_front(&a, 2, outer);
		outer[1] *= by;
		in_front(&b, 2, outer);
	}
	src[0] = source(&a, WEIR_OP_MUL_MAT, 0);
	src[1] = source(&b, WEIR_OP_MUL_MAT, 1);
	node = weir_graph_op(g, WEIR_OP_MUL_MAT, &p, sizeof(p), src, 2);
	*ret_near = few_results(near_product(a.dtype, p.precision), node);
	return node;
}

static struct weir_node *make_mul_mat_id(double *ret_near)
{
	struct weir_op_mul_mat p = { .precision = (uint32_t)random_below(3) };
	struct form as = dtype_for(WEIR_OP_MUL_MAT_ID, 0);
	struct form b = dtype_for(WEIR_OP_MUL_MAT_ID, 1);
	int k = row_of(&as), t = one_in(2) ? few() : from_to(1, 40);
	int e = from_to(1, 6), n = from_to(1, 4);
	struct weir_node *node, *src[3];

	as = with_shape(as, 3, e, length(), k);
	b = with_shape(b, 3, t, one_in(2) ? 1 : n, k);
	src[0] = source(&as, WEIR_OP_MUL_MAT_ID, 0);
	src[1] = source(&b, WEIR_OP_MUL_MAT_ID, 1);
	src[2] = put_ids(I32, (uint64_t)e, 2, t, n);
	if (one_in(3))
		src[2] = weir_slice(g, put_ids(I32, (uint64_t)e, 2, t, n + 2),
				    1, 1, n);
	node = weir_graph_op(g, WEIR_OP_MUL_MAT_ID, &p, sizeof(p), src, 3);
	*ret_near = few_results(near_product(as.dtype, p.precision), node);
	return node;
}

static struct weir_node *make_get_rows(double *ret_near)
{
	struct form f = dtype_for(WEIR_OP_GET_ROWS, 0);
	int r = from_to(1, 20), n = few(), outer = from_to(1, 3);
	struct weir_node *ids;

	f = with_shape(f, 2, 0, r, row_of(&f));
	if (one_in(2)) {
		in_front(&f, 1, &outer);
		ids = put_ids(I32, (uint64_t)r, 2, outer, n);
	} else {
		ids = put_ids(I32, (uint64_t)r, 1, n);
	}
	*ret_near = 1e-12;
	return weir_get_rows(g, source(&f, WEIR_OP_GET_ROWS, 0), ids);
}

/* Different rows, so that the result does not depend on the order. */
static struct weir_node *row_numbers(enum weir_dtype dtype, int rows, int n)
{
	double v[32];

	for (int i = 0; i < rows; i++) {
		int k = (int)random_below((uint64_t)i + 1);

		v[i] = v[k];
		v[k] = i;
	}
	return put_values(dtype, v, 1, n);
}

static struct weir_node *make_set_rows(double *ret_near)
{
	struct form dst = dtype_for(WEIR_OP_SET_ROWS, 0);
	struct form b = dtype_for(WEIR_OP_SET_ROWS, 1);
	int rows = from_to(1, 20), n = from_to(0, rows), outer = few();

	dst = with_shape(dst, 2, 0, rows, row_of(&dst));
	b = with_shape(b, 2, 0, n, dst.shape[1]);
	if (one_in(2)) {
		in_front(&dst, 1, &outer);
		in_front(&b, 1, &outer);
	}
	*ret_near = near_exact(dst.dtype);
	return weir_set_rows(g, source(&dst, WEIR_OP_SET_ROWS, 0),
			     source(&b, WEIR_OP_SET_ROWS, 1),
			     row_numbers(one_in(2) ? I32 : I64, rows, n));
}

/* Half of the time of one dtype. */
static struct form dtype_to(const struct form *from, enum weir_op op,
			    unsigned arg)
{
	return one_in(2) ? *from : dtype_for(op, arg);
}

static bool are_numbers(enum weir_dtype a, enum weir_dtype b)
{
	const unsigned numbers = WEIR__IS_F32 | WEIR__IS_F16 | WEIR__IS_BF16 |
				 WEIR__IS_QUANT;

	return a == b || (flag_of(a) & numbers && flag_of(b) & numbers);
}

static struct weir_node *make_copy(double *ret_near)
{
	struct form a, dst;
	int row;

	do {
		a = dtype_for(WEIR_OP_COPY, 0);
		dst = dtype_to(&a, WEIR_OP_COPY, 1);
	} while (!are_numbers(a.dtype, dst.dtype));
	shape_any(&a, 1, 4);
	row = a.shape[a.ndim - 1];
	if (row % dst.block)
		a.shape[a.ndim - 1] = row / dst.block * dst.block;
	memcpy(dst.shape, a.shape, sizeof(a.shape));
	dst.ndim = a.ndim;
	if (a.ndim > 1 && one_in(3)) { /* two dimensions as one */
		dst.shape[0] *= dst.shape[1];
		dst.ndim--;
		memmove(dst.shape + 1, dst.shape + 2,
			(dst.ndim - 1) * sizeof(int));
	}
	*ret_near = near_exact(dst.dtype);
	return weir_copy(g, source(&a, WEIR_OP_COPY, 0),
			 source(&dst, WEIR_OP_COPY, 1));
}

static struct weir_node *make_cont(double *ret_near)
{
	struct form a, to;

	do {
		a = dtype_for(WEIR_OP_CONT, 0);
		to = dtype_to(&a, WEIR_OP_CONT, 0);
	} while (!are_numbers(a.dtype, to.dtype));
	shape_any(&a, a.block > 1 || to.block > 1, 5);
	if (a.ndim && a.shape[a.ndim - 1] % to.block)
		a.shape[a.ndim - 1] -= a.shape[a.ndim - 1] % to.block;
	*ret_near = near_exact(to.dtype);
	return weir_cast(g, source(&a, WEIR_OP_CONT, 0), to.dtype);
}

static struct weir_node *make_concat(double *ret_near)
{
	struct form a = dtype_for(WEIR_OP_CONCAT, 0), b;
	unsigned dim;

	shape_any(&a, 1, 4);
	b = a;
	dim = (unsigned)random_below(a.ndim);
	b.shape[dim] = dim == a.ndim - 1 ? row_of(&b) : few();
	*ret_near = 0;
	return weir_concat(g, source(&a, WEIR_OP_CONCAT, 0),
			   source(&b, WEIR_OP_CONCAT, 1), dim);
}

static struct weir_node *make_repeat(double *ret_near)
{
	struct form a = dtype_for(WEIR_OP_REPEAT, 0);
	int64_t shape[WEIR_MAX_DIMS];
	unsigned n = 0;

	shape_any(&a, a.block > 1, 4);
	if (a.ndim < WEIR_MAX_DIMS && one_in(3))
		shape[n++] = few();
	for (unsigned i = 0; i < a.ndim; i++)
		shape[n++] = (int64_t)a.shape[i] * from_to(1, 3);
	*ret_near = 0;
	return weir_repeat(g, source(&a, WEIR_OP_REPEAT, 0), n, shape);
}

static struct weir_node *make_choice(enum weir_op op, double *ret_near)
{
	struct form f = floats(0, 0, 0, 0);
	struct weir_node *a;
	int row;

	shape_any(&f, 1, 4);
	row = f.shape[f.ndim - 1] += !f.shape[f.ndim - 1];
	a = source(&f, op, 0);
	*ret_near = 0;
	return op == WEIR_OP_ARGMAX ? weir_argmax(g, a)
	       : op == WEIR_OP_TOP_K
		       ? weir_top_k(g, a,
				    from_to(1, one_in(2) ? row : (row + 7) / 8))
		       : weir_argsort(g, a,
				      one_in(2) ? WEIR_SORT_ASCENDING
						: WEIR_SORT_DESCENDING);
}

/* The sources of an attention. */
struct attention {
	struct weir_op_attention p;
	int b, heads, heads_k, t, s, pages; /* of a sequence */
	struct form q, k, v;
	struct weir_node *src[7];
};

static void attention_sizes(struct attention *a)
{
	int block;

	a->q = dtype_for(WEIR_OP_ATTENTION, 0);
	a->k = dtype_for(WEIR_OP_ATTENTION, 1);
	a->v = one_in(2) ? a->k : dtype_for(WEIR_OP_ATTENTION, 2);
	block = a->k.block;
	a->heads_k = from_to(1, 2);
	a->heads = a->heads_k * from_to(1, one_in(3) ? 9 : 4);
	a->t = one_in(2) ? from_to(1, 3) : from_to(1, 20);
	a->s = one_in(3) ? from_to(0, 300) : from_to(0, 40);
	a->b = from_to(1, 3);
	a->q.shape[2] = block > 1   ? block
			: one_in(2) ? 8 << random_below(5)
				    : from_to(1, 40);
	a->v.shape[2] = a->v.block > 1 ? a->v.block
			: one_in(2)    ? a->q.shape[2]
				       : from_to(1, 40);
}

/* A pool of pages, each of which any sequence may have. */
static void attention_pages(struct attention *a)
{
	int pool = from_to(1, 6);

	a->p.page = (uint32_t)from_to(1, one_in(2) ? 16 : 5);
	a->pages = a->s / (int)a->p.page;
	a->s = pool * (int)a->p.page;
	a->src[6] = put_ids(I32, (uint64_t)pool, 2, a->b, a->pages);
}

static void attention_lengths(struct attention *a)
{
	int most = a->s;

	if (one_in(2)) {
		attention_pages(a);
		most = a->pages * (int)a->p.page;
	}
	a->src[5] = put_ids(I32, (uint64_t)most + 1, 1, a->b);
}

static struct weir_node *make_attention(double *ret_near)
{
	struct attention a = { .b = 0 };
	struct weir_node *node;

	attention_sizes(&a);
	a.p.precision = (uint32_t)random_below(3);
	a.p.softcap = one_in(4) ? 2 : 0;
	a.p.scale = one_in(2) ? 0 : 0.3f;
	a.p.causal = one_in(2);
	a.p.window = a.p.causal && one_in(2) ? (uint32_t)from_to(1, 20) : 0;
	if (one_in(2))
		attention_lengths(&a);
	a.q = with_shape(a.q, 3, a.heads, a.t, a.q.shape[2]);
	a.k = with_shape(a.k, 3, a.heads_k, a.s, a.q.shape[2]);
	a.v = with_shape(a.v, 3, a.heads_k, a.s, a.v.shape[2]);
	in_front(&a.q, 1, &a.b);
	if (!a.src[6]) {
		in_front(&a.k, 1, &a.b);
		in_front(&a.v, 1, &a.b);
	}
	a.src[0] = source(&a.q, WEIR_OP_ATTENTION, 0);
	a.src[1] = source(&a.k, WEIR_OP_ATTENTION, 1);
	a.src[2] = source(&a.v, WEIR_OP_ATTENTION, 2);
	if (one_in(3))
		a.src[3] = mask_of(WEIR_OP_ATTENTION, 3, a.t,
				   a.src[6] ? a.pages * (int)a.p.page : a.s);
	if (a.src[3] && one_in(3))
		a.p.max_bias = 8;
	if (one_in(3))
		a.src[4] = put(F32, 1, a.heads);
	node = weir_graph_op(g, WEIR_OP_ATTENTION, &a.p, sizeof(a.p), a.src, 7);
	*ret_near = few_results(fmax(near_product(a.k.dtype, 0),
				     near_product(a.v.dtype, 0)),
				node);
	return node;
}

static struct weir_node *make(enum weir_op op, double *ret_near)
{
	switch (op) {
	case WEIR_OP_GET_ROWS:
		return make_get_rows(ret_near);
	case WEIR_OP_SET_ROWS:
		return make_set_rows(ret_near);
	case WEIR_OP_MUL_MAT:
		return make_mul_mat(ret_near);
	case WEIR_OP_MUL_MAT_ID:
		return make_mul_mat_id(ret_near);
	case WEIR_OP_ADD:
	case WEIR_OP_SUB:
	case WEIR_OP_MUL:
	case WEIR_OP_DIV:
		return make_repeated(op, ret_near);
	case WEIR_OP_SWIGLU:
		return make_swiglu(ret_near);
	case WEIR_OP_GROUP_NORM:
		return make_group_norm(ret_near);
	case WEIR_OP_SOFT_MAX:
		return make_soft_max(ret_near);
	case WEIR_OP_ROPE:
		return make_rope(ret_near);
	case WEIR_OP_ATTENTION:
		return make_attention(ret_near);
	case WEIR_OP_COPY:
		return make_copy(ret_near);
	case WEIR_OP_CONT:
		return make_cont(ret_near);
	case WEIR_OP_CONCAT:
		return make_concat(ret_near);
	case WEIR_OP_REPEAT:
		return make_repeat(ret_near);
	case WEIR_OP_ARGMAX:
	case WEIR_OP_TOP_K:
	case WEIR_OP_ARGSORT:
		return make_choice(op, ret_near);
	default:
		return make_one(op, ret_near);
	}
}

/* The device says what the CPU says. False: both refuse the node. */
static bool accepted(const struct weir_node *node, char *why, size_t room)
{
	struct weir_operand src[16] = { 0 };
	struct weir_backend_node flat;
	int cpu, here;

	weir__node_flat(node, &flat, src);
	cpu = weir__kernel_supports(&flat);
	here = ways_supports(node);
	if ((cpu < 0) != (here < 0))
		snprintf(why, room, "the CPU says %d, the device %d: %s", cpu,
			 here, weir_error());
	else if (here < 0 && !strchr(weir_error(), ':'))
		snprintf(why, room, "no sentence: %s", weir_error());
	return !cpu && !here;
}

/* One check: @n trials of the operation, each of its seed. */
static void operation(enum weir_op op, uint64_t seed, uint64_t n)
{
	const char *name = weir__op_row(op)->name, *differs;
	char why[400] = "";
	uint64_t computed = 0, i;
	struct weir_node *node;
	double near;

	for (i = 0; i < n && !why[0]; i++) {
		random_from((seed + i) * 64 + op);
		node = make(op, &near);
		if (!node) {
			weir_graph_error(g, NULL);
			bail("%s, seed %llu: %s", name,
			     (unsigned long long)(seed + i), weir_error());
		}
		if (!accepted(node, why, sizeof(why))) {
			trial_reset();
			continue;
		}
		computed++;
		differs = trial_differs(node, near);
		if (differs)
			snprintf(why, sizeof(why), "%s", differs);
		if (i % 16 == 15)
			tap_renew();
	}
	ok(!why[0] && computed, "%s of random sources is right", name);
	if (why[0])
		diag("%s, WEIR_T_TRIALS=1 WEIR_T_SEED=%llu: %s", name,
		     (unsigned long long)(seed + i - 1), why);
	else if (computed < n)
		diag("%s: %llu trials, %llu were refused", name,
		     (unsigned long long)n, (unsigned long long)(n - computed));
}

static uint64_t number_from(const char *name, uint64_t other)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : other;
}

int main(void)
{
	uint64_t seed = number_from("WEIR_T_SEED", 1);
	uint64_t n = number_from("WEIR_T_TRIALS", 8);

	trials_begin();
	for (unsigned op = WEIR_OP_VIEW + 1; weir__op_row(op); op++)
		if (op != WEIR_OP_CALL)
			operation((enum weir_op)op, seed, n);
	return trials_end();
}
