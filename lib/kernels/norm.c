/* SPDX-License-Identifier: MIT */
/* Norms and softmax: whole rows of F32. A part is a range of rows. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/softmax.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

static void plan_rows(const struct weir_backend_node *node, unsigned threads,
		      struct weir__kernel_plan *ret, unsigned tenths)
{
	ret->cost = (uint64_t)weir__elements(&node->dst) / 10 * tenths;
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)weir__rows(&node->dst), threads);
}

static void norm_plan(const struct weir_backend_node *node, unsigned threads,
		      struct weir__kernel_plan *ret)
{
	plan_rows(node, threads, ret, 5);
}

/* Compute a row @d from @a, both of @n elements; @w is the index of the row. */
typedef void row_fn(const struct weir_backend_node *node,
		    const struct weir__walk *w, float *d, const float *a,
		    size_t n);

static void each_row(const struct weir__kernel_run *run, row_fn *each)
{
	const struct weir_backend_node *node = run->node;
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, &node->dst, &w, &row);

	for (; row < end; row++, weir__walk_next(&w))
		each(node, &w, (void *)weir__walk_at(&w, &node->dst),
		     (void *)weir__walk_at(&w, &node->src[0]),
		     (size_t)weir__dim(&node->dst, 0));
}

/* Scale in two steps if the elements are so small that @factor is no float. */
static void scale_by(float *d, const float *a, double factor, float bias,
		     size_t n)
{
	if (factor > (double)FLT_MAX && isfinite(factor)) {
		weir__vec()->scale(d, a, 0x1p64f, 0, n);
		a = d;
		factor *= 0x1p-64;
	}
	weir__vec()->scale(d, a, (float)factor, bias, n);
}

static void rms_norm_row(const struct weir_backend_node *node,
			 const struct weir__walk *w, float *d, const float *a,
			 size_t n)
{
	const struct weir_op_norm *p = node->params;
	double mean = n ? weir__vec()->sum_sqr(a, 0, n) / (double)n : 0;

	(void)w;
	scale_by(d, a, 1 / sqrt(mean + (double)p->eps), 0, n);
}

static int rms_norm_run(const struct weir__kernel_run *run)
{
	each_row(run, rms_norm_row);
	return 0;
}

const struct weir__kernel weir__kernel_rms_norm = {
	.op = WEIR_OP_RMS_NORM,
	.name = "rms_norm",
	.supports = weir__kernel_needs_f32,
	.plan = norm_plan,
	.run = rms_norm_run,
};

/* Subtract the mean, and divide by the deviation. */
static void normalise(float *d, const float *a, float eps, size_t n)
{
	const struct weir__vec *vec = weir__vec();
	double mean = n ? vec->sum(a, n) / (double)n : 0;
	/* The mean is high + low. */
	float high = (float)mean, low = (float)(mean - (double)high);
	double variance = n ? vec->sum_sqr(a, high, n) / (double)n : 0, factor;

	variance -= (double)low * (double)low;
	factor = 1 / sqrt(variance + (double)eps);
	vec->scale(d, a, 1, -high, n);
	if (factor > (double)FLT_MAX && isfinite(factor))
		scale_by(d, d, factor, 0, n);
	else
		vec->scale(d, d, (float)factor, (float)(-factor * (double)low),
			   n);
}

static void norm_row(const struct weir_backend_node *node,
		     const struct weir__walk *w, float *d, const float *a,
		     size_t n)
{
	const struct weir_op_norm *p = node->params;

	(void)w;
	normalise(d, a, p->eps, n);
}

static int norm_run(const struct weir__kernel_run *run)
{
	each_row(run, norm_row);
	return 0;
}

const struct weir__kernel weir__kernel_norm = {
	.op = WEIR_OP_NORM,
	.name = "norm",
	.supports = weir__kernel_needs_f32,
	.plan = norm_plan,
	.run = norm_run,
};

static void l2_norm_row(const struct weir_backend_node *node,
			const struct weir__walk *w, float *d, const float *a,
			size_t n)
{
	const struct weir_op_norm *p = node->params;
	double length = sqrt(weir__vec()->sum_sqr(a, 0, n));

	(void)w;
	/* A NaN stays. */
	if (length < (double)p->eps)
		length = (double)p->eps;
	scale_by(d, a, 1 / length, 0, n);
}

static int l2_norm_run(const struct weir__kernel_run *run)
{
	each_row(run, l2_norm_row);
	return 0;
}

const struct weir__kernel weir__kernel_l2_norm = {
	.op = WEIR_OP_L2_NORM,
	.name = "l2_norm",
	.supports = weir__kernel_needs_f32,
	.plan = norm_plan,
	.run = l2_norm_run,
};

/* Elements of a group, and the groups of all batches. Both are contiguous. */
static int64_t group_elements(const struct weir_backend_node *node)
{
	const struct weir_op_group_norm *p = node->params;

	return weir__dim(&node->dst, 2) / p->groups * weir__dim(&node->dst, 1) *
	       weir__dim(&node->dst, 0);
}

static int64_t group_count(const struct weir_backend_node *node)
{
	int64_t n = group_elements(node);

	return n ? weir__elements(&node->dst) / n : 0;
}

static void group_norm_plan(const struct weir_backend_node *node,
			    unsigned threads, struct weir__kernel_plan *ret)
{
	ret->cost = (uint64_t)weir__elements(&node->dst) / 2;
	ret->parts = weir__kernel_parts(ret->cost, (uint64_t)group_count(node),
					threads);
}

static int group_norm_run(const struct weir__kernel_run *run)
{
	const struct weir_backend_node *node = run->node;
	const struct weir_op_group_norm *p = node->params;
	int64_t n = group_elements(node), at, end;

	weir__kernel_range(run, group_count(node), &at, &end);
	for (; at < end; at++)
		normalise((float *)node->dst.data + at * n,
			  (const float *)node->src[0].data + at * n, p->eps,
			  (size_t)n);
	return 0;
}

const struct weir__kernel weir__kernel_group_norm = {
	.op = WEIR_OP_GROUP_NORM,
	.name = "group_norm",
	.supports = weir__kernel_needs_f32,
	.plan = group_norm_plan,
	.run = group_norm_run,
};

static int soft_max_supports(const struct weir_backend_node *node)
{
	const struct weir_operand *mask = node->n_src > 1 ? &node->src[1]
							  : NULL;

	if (mask && mask->dtype && !weir__is_float(mask->dtype))
		return weir__kernel_refuse(node,
					   "the mask is not floating-point");
	return weir__kernel_needs_f32(node);
}

static void soft_max_plan(const struct weir_backend_node *node,
			  unsigned threads, struct weir__kernel_plan *ret)
{
	plan_rows(node, threads, ret, 10);
}

/* d = scale * a + slope * mask */
static void add_mask(const struct weir_backend_node *node,
		     const struct weir__walk *w, float *d, const float *a,
		     size_t n)
{
	const struct weir_op_soft_max *p = node->params;
	const struct weir_operand *mask = &node->src[1];
	const struct weir__vec *vec = weir__vec();
	float slope, tmp[WEIR__FLOATS];
	const unsigned char *m;

	vec->scale(d, a, p->scale, 0, n);
	if (node->n_src < 2 || !mask->data)
		return;
	slope = weir__slope(p->max_bias, w->index[2], weir__dim(&node->dst, 2));
	m = weir__walk_at(w, mask);
	for (size_t i = 0, k; i < n; i += k) {
		k = n - i < WEIR__FLOATS ? n - i : WEIR__FLOATS;
		vec->add_scaled(
			d + i, slope,
			weir__floats_in(mask->dtype,
					m + (int64_t)i * weir__stride(mask, 0),
					weir__stride(mask, 0), k, tmp),
			k);
	}
}

/* A row of minus infinities becomes 0, and a row with a NaN becomes NaN. */
static void soft_max_row(const struct weir_backend_node *node,
			 const struct weir__walk *w, float *d, const float *a,
			 size_t n)
{
	const struct weir__vec *vec = weir__vec();
	float sink = weir__sink(node, 2, w->index[2]), max;
	double sum;

	add_mask(node, w, d, a, n);
	max = vec->max(d, n);
	max = sink > max ? sink : max;
	max = max == -INFINITY ? 0 : max;
	sum = vec->exp_sum(d, d, max, n) + (double)expf(sink - max);
	if (sum != 0)
		vec->scale(d, d, (float)(1 / sum), 0, n);
}

static int soft_max_run(const struct weir__kernel_run *run)
{
	each_row(run, soft_max_row);
	return 0;
}

const struct weir__kernel weir__kernel_soft_max = {
	.op = WEIR_OP_SOFT_MAX,
	.name = "soft_max",
	.supports = soft_max_supports,
	.plan = soft_max_plan,
	.run = soft_max_run,
};
