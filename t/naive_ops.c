/* SPDX-License-Identifier: MIT */
/* Operations on single elements and on rows. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "naive_ops.h"
#include "naive_store.h"

bool next_index(const int64_t *shape, int64_t *index)
{
	for (int d = LAST; d >= 0; d--) {
		if (++index[d] < shape[d])
			return true;
		index[d] = 0;
	}
	return false;
}

static double two_numbers(uint32_t op, double a, double b)
{
	switch (op) {
	case WEIR_OP_ADD:
		return a + b;
	case WEIR_OP_SUB:
		return a - b;
	case WEIR_OP_MUL:
		return a * b;
	default:
		return a / b;
	}
}

/* The second source is repeated. */
static int repeated(uint32_t op, struct array *dst, const struct array *src)
{
	int64_t index[NAIVE_DIMS] = { 0 };

	for (int64_t i = 0; i < dst->n; i++) {
		dst->v[i] =
			two_numbers(op, src[0].v[i], *element(&src[1], index));
		next_index(dst->shape, index);
	}
	return 0;
}

#define REPEATED(name, op)                                     \
	static int name(const void *params, struct array *dst, \
			const struct array *src, unsigned n)   \
	{                                                      \
		(void)params, (void)n;                         \
		return repeated(op, dst, src);                 \
	}
REPEATED(add, WEIR_OP_ADD)
REPEATED(sub, WEIR_OP_SUB)
REPEATED(mul, WEIR_OP_MUL)
REPEATED(quotient, WEIR_OP_DIV)

static double silu(double x)
{
	return x / (1 + exp(-x));
}

static double gelu(double x)
{
	return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x)
{
	return x / 2 * erfc(-x / sqrt(2));
}

static double relu(double x)
{
	return x > 0 || isnan(x) ? x : 0;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double square(double x)
{
	return x * x;
}

#define ELEMENTS(name, expression)                             \
	static int name(const void *params, struct array *dst, \
			const struct array *src, unsigned n)   \
	{                                                      \
		(void)params, (void)n;                         \
		for (int64_t i = 0; i < dst->n; i++)           \
			dst->v[i] = expression;                \
		return 0;                                      \
	}
ELEMENTS(sqr_elements, square(src[0].v[i]))
ELEMENTS(silu_elements, silu(src[0].v[i]))
ELEMENTS(gelu_elements, gelu(src[0].v[i]))
ELEMENTS(gelu_erf_elements, gelu_erf(src[0].v[i]))
ELEMENTS(relu_elements, relu(src[0].v[i]))
ELEMENTS(tanh_elements, tanh(src[0].v[i]))
ELEMENTS(sigmoid_elements, sigmoid(src[0].v[i]))
ELEMENTS(exp_elements, exp(src[0].v[i]))
ELEMENTS(sqrt_elements, sqrt(src[0].v[i]))
ELEMENTS(swiglu, silu(src[0].v[i]) * src[1].v[i])

static int scale(const void *params, struct array *dst, const struct array *src,
		 unsigned n)
{
	const struct weir_op_scale *p = params;

	(void)n;
	for (int64_t i = 0; i < dst->n; i++)
		dst->v[i] = (double)p->scale * src[0].v[i] + (double)p->bias;
	return 0;
}

static int clamp(const void *params, struct array *dst, const struct array *src,
		 unsigned n)
{
	const struct weir_op_clamp *p = params;

	(void)n;
	for (int64_t i = 0; i < dst->n; i++) {
		double x = src[0].v[i];

		dst->v[i] = x < (double)p->min   ? (double)p->min
			    : x > (double)p->max ? (double)p->max
						 : x;
	}
	return 0;
}

static double mean(const double *row, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += row[i];
	return sum / (double)n;
}

/* The sum of the squares of the differences to @middle. */
static double squares_of(const double *a, int64_t n, double middle)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += square(a[i] - middle);
	return sum;
}

/* Rows of @c elements, whatever the shape of @dst says. */
static int norm_rows(struct array *dst, const struct array *src, int64_t c,
		     double eps, bool around_mean)
{
	for (int64_t at = 0; at < dst->n; at += c) {
		const double *a = src[0].v + at;
		double middle = around_mean ? mean(a, c) : 0;
		double squares = squares_of(a, c, middle);

		for (int64_t i = 0; i < c; i++)
			dst->v[at + i] = (a[i] - middle) /
					 sqrt(squares / (double)c + eps);
	}
	return 0;
}

static int rms_norm(const void *params, struct array *dst,
		    const struct array *src, unsigned n)
{
	const struct weir_op_norm *p = params;

	(void)n;
	return norm_rows(dst, src, dst->shape[LAST], (double)p->eps, false);
}

static int norm(const void *params, struct array *dst, const struct array *src,
		unsigned n)
{
	const struct weir_op_norm *p = params;

	(void)n;
	return norm_rows(dst, src, dst->shape[LAST], (double)p->eps, true);
}

static int group_norm(const void *params, struct array *dst,
		      const struct array *src, unsigned n)
{
	const struct weir_op_group_norm *p = params;

	(void)n;
	return norm_rows(dst, src,
			 dst->shape[LAST - 2] / p->groups *
				 dst->shape[LAST - 1] * dst->shape[LAST],
			 (double)p->eps, true);
}

static int l2_norm(const void *params, struct array *dst,
		   const struct array *src, unsigned n)
{
	const struct weir_op_norm *p = params;
	int64_t c = dst->shape[LAST];

	(void)n;
	for (int64_t at = 0; at < dst->n; at += c) {
		double length = sqrt(squares_of(src[0].v + at, c, 0));

		if (length < (double)p->eps)
			length = (double)p->eps;
		for (int64_t i = at; i < at + c; i++)
			dst->v[i] = src[0].v[i] / length;
	}
	return 0;
}

static int sum(const void *params, struct array *dst, const struct array *src,
	       unsigned n)
{
	(void)params, (void)n;
	dst->v[0] = 0;
	for (int64_t i = 0; i < src[0].n; i++)
		dst->v[0] += src[0].v[i];
	return 0;
}

static int sum_rows(const void *params, struct array *dst,
		    const struct array *src, unsigned n)
{
	(void)params, (void)n;
	for (int64_t i = 0; i < dst->n; i++) {
		dst->v[i] = 0;
		for (int64_t k = 0; k < src[0].shape[LAST]; k++)
			dst->v[i] += row_of(&src[0], i)[k];
	}
	return 0;
}

/* True if element @a of @row comes before @b: the greatest first, NaNs last. */
static bool is_before(const double *row, int64_t a, int64_t b)
{
	if (isnan(row[a]) || isnan(row[b]))
		return isnan(row[a]) == isnan(row[b]) ? a < b : isnan(row[b]);
	return row[a] != row[b] ? row[a] > row[b] : a < b;
}

static bool is_before_ascending(const double *row, int64_t a, int64_t b)
{
	if (isnan(row[a]) || isnan(row[b]))
		return is_before(row, a, b);
	return row[a] != row[b] ? row[a] < row[b] : a < b;
}

/* Merge sort of the indices at @to; @tmp has room for as many. */
static void sort(const double *row, int64_t n, double *to, double *tmp,
		 bool (*before)(const double *row, int64_t a, int64_t b))
{
	int64_t half = n / 2, i = 0, j = half;

	if (n < 2)
		return;
	sort(row, half, to, tmp, before);
	sort(row, n - half, to + half, tmp, before);
	for (int64_t k = 0; k < n; k++)
		tmp[k] = j == n || (i < half &&
				    before(row, (int64_t)to[i], (int64_t)to[j]))
				 ? to[i++]
				 : to[j++];
	memcpy(to, tmp, (size_t)n * sizeof(*to));
}

/* The first @k indices of the row, in their order. */
static void choose(const double *row, int64_t c, int64_t k, double *to,
		   bool (*before)(const double *row, int64_t a, int64_t b))
{
	double *all = malloc(2 * (size_t)c * sizeof(*all));

	if (!all)
		abort();
	for (int64_t i = 0; i < c; i++)
		all[i] = (double)i;
	sort(row, c, all, all + c, before);
	memcpy(to, all, (size_t)k * sizeof(*to));
	free(all);
}

static int argmax(const void *params, struct array *dst,
		  const struct array *src, unsigned n)
{
	(void)params, (void)n;
	for (int64_t i = 0; i < dst->n; i++) {
		const double *row = row_of(&src[0], i);
		int64_t first = 0;

		for (int64_t j = 1; j < src[0].shape[LAST]; j++)
			first = is_before(row, j, first) ? j : first;
		dst->v[i] = (double)first;
	}
	return 0;
}

static int top_k(const void *params, struct array *dst, const struct array *src,
		 unsigned n)
{
	const struct weir_op_top_k *p = params;

	(void)n;
	for (int64_t row = 0; row < outer_of(dst, 1); row++)
		choose(row_of(&src[0], row), src[0].shape[LAST], p->k,
		       row_of(dst, row), is_before);
	return 0;
}

static int argsort(const void *params, struct array *dst,
		   const struct array *src, unsigned n)
{
	const struct weir_op_argsort *p = params;
	int64_t c = src[0].shape[LAST];

	(void)n;
	for (int64_t row = 0; row < outer_of(dst, 1); row++)
		choose(row_of(&src[0], row), c, c, row_of(dst, row),
		       p->order == WEIR_SORT_ASCENDING ? is_before_ascending
						       : is_before);
	return 0;
}

static int64_t id_at(const struct array *ids, int64_t i)
{
	return (int64_t)ids->v[i];
}

/* ids [.., n] has the outer dimensions of a [.., R, C]: i / n counts them. */
static int get_rows(const void *params, struct array *dst,
		    const struct array *src, unsigned n)
{
	const struct array *a = &src[0], *ids = &src[1];
	int64_t rows = a->shape[LAST - 1], c = a->shape[LAST];

	(void)params, (void)n;
	for (int64_t i = 0; i < ids->n; i++) {
		int64_t outer = i / ids->shape[LAST], id = id_at(ids, i);

		if (id < 0 || id >= rows)
			return -EINVAL;
		memcpy(row_of(dst, i), row_of(a, outer * rows + id),
		       (size_t)c * sizeof(double));
	}
	return 0;
}

/* Row @id of matrix @outer of @t [.., R, C]. */
static struct weir_operand row_at(const struct weir_operand *t, int64_t outer,
				  int64_t id)
{
	uint32_t last = t->ndim - 1;
	struct weir_operand row = { .dtype = t->dtype, .ndim = 1 };
	unsigned char *p = t->data;

	p += id * t->stride[last - 1];
	for (uint32_t d = last - 1; d-- > 0; outer /= t->shape[d])
		p += outer % t->shape[d] * t->stride[d];
	row.data = p;
	row.shape[0] = t->shape[last];
	row.stride[0] = t->stride[last];
	return row;
}

/* The outer dimensions of b [.., n, C] belong to those of ids [.., n], which
 * are repeated. */
int naive_set_rows(const struct weir_operand *dst, const struct array *b,
		   const struct array *ids)
{
	int64_t rows = dst->shape[dst->ndim - 2], each = b->shape[LAST - 1];
	int64_t index[NAIVE_DIMS] = { 0 }, shape[NAIVE_DIMS] = { 1 };
	struct weir_operand row;

	memcpy(shape + 1, b->shape, sizeof(shape) - sizeof(*shape));
	for (int64_t i = 0; i < outer_of(b, 1); i++) {
		int64_t id = (int64_t)*element(ids, index);

		if (id < 0 || id >= rows)
			return -EINVAL;
		row = row_at(dst, i / each, id);
		naive_store(&row, row_of(b, i));
		next_index(shape, index);
	}
	return 0;
}

naive_op *naive_op_find(uint32_t op)
{
	static naive_op *const table[] = {
		[WEIR_OP_GET_ROWS] = get_rows,
		[WEIR_OP_MUL_MAT] = naive_mul_mat,
		[WEIR_OP_MUL_MAT_ID] = naive_mul_mat_id,
		[WEIR_OP_ADD] = add,
		[WEIR_OP_SUB] = sub,
		[WEIR_OP_MUL] = mul,
		[WEIR_OP_DIV] = quotient,
		[WEIR_OP_SCALE] = scale,
		[WEIR_OP_SQR] = sqr_elements,
		[WEIR_OP_SILU] = silu_elements,
		[WEIR_OP_GELU] = gelu_elements,
		[WEIR_OP_GELU_ERF] = gelu_erf_elements,
		[WEIR_OP_RELU] = relu_elements,
		[WEIR_OP_TANH] = tanh_elements,
		[WEIR_OP_SIGMOID] = sigmoid_elements,
		[WEIR_OP_EXP] = exp_elements,
		[WEIR_OP_SQRT] = sqrt_elements,
		[WEIR_OP_CLAMP] = clamp,
		[WEIR_OP_SWIGLU] = swiglu,
		[WEIR_OP_RMS_NORM] = rms_norm,
		[WEIR_OP_NORM] = norm,
		[WEIR_OP_L2_NORM] = l2_norm,
		[WEIR_OP_GROUP_NORM] = group_norm,
		[WEIR_OP_SOFT_MAX] = naive_soft_max,
		[WEIR_OP_ROPE] = naive_rope,
		[WEIR_OP_ATTENTION] = naive_attention,
		[WEIR_OP_SUM] = sum,
		[WEIR_OP_SUM_ROWS] = sum_rows,
		[WEIR_OP_ARGMAX] = argmax,
		[WEIR_OP_TOP_K] = top_k,
		[WEIR_OP_ARGSORT] = argsort,
	};

	return op < sizeof(table) / sizeof(table[0]) ? table[op] : NULL;
}
