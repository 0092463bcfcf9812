/* SPDX-License-Identifier: MIT */
/* Operations that reduce rows: sum, sum_rows, argmax, top_k; argsort. */
#include <math.h>
#include <string.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

static void plan_source(const struct weir_backend_node *node, unsigned threads,
			struct weir__kernel_plan *ret)
{
	const struct weir_operand *a = &node->src[0];

	ret->cost = (uint64_t)weir__elements(a) / 4;
	ret->parts =
		weir__kernel_parts(ret->cost, (uint64_t)weir__rows(a), threads);
}

/* Sum the row at @p, whose stride is any. */
static double row_sum(const struct weir_operand *a, const unsigned char *p)
{
	int64_t n = weir__dim(a, 0), stride = weir__stride(a, 0), k;
	float tmp[WEIR__FLOATS];
	double sum = 0;

	for (int64_t i = 0; i < n; i += k) {
		k = n - i < WEIR__FLOATS ? n - i : WEIR__FLOATS;
		sum += weir__vec()->sum(weir__floats_in(WEIR_DTYPE_F32,
							p + i * stride, stride,
							(size_t)k, tmp),
					(size_t)k);
	}
	return sum;
}

/* The first phase sums the parts, the second adds up their sums. */
static void sum_plan(const struct weir_backend_node *node, unsigned threads,
		     struct weir__kernel_plan *ret)
{
	plan_source(node, threads, ret);
	ret->phases = 2;
	ret->shared = ret->parts * sizeof(double);
}

static int sum_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0];
	double sum = 0, *shared = run->shared;
	struct weir__walk w;
	int64_t row, end;
	float result;

	if (run->phase == 0) {
		end = weir__kernel_rows(run, a, &w, &row);
		/* Rows without elements may be too many to count. */
		if (!weir__dim(a, 0))
			end = row;
		for (; row < end; row++, weir__walk_next(&w))
			sum += row_sum(a, weir__walk_at(&w, a));
		shared[run->part] = sum;
	} else if (run->part == 0) {
		for (uint32_t i = 0; i < run->plan->parts; i++)
			sum += shared[i];
		result = (float)sum;
		memcpy(run->node->dst.data, &result, sizeof(result));
	}
	return 0;
}

const struct weir__kernel weir__kernel_sum = {
	.op = WEIR_OP_SUM,
	.name = "sum",
	.supports = weir__kernel_needs_f32,
	.plan = sum_plan,
	.run = sum_run,
};

static int sum_rows_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0];
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, a, &w, &row);
	float result;

	for (; row < end; row++, weir__walk_next(&w)) {
		result = (float)row_sum(a, weir__walk_at(&w, a));
		memcpy(weir__walk_at(&w, &run->node->dst), &result,
		       sizeof(result));
	}
	return 0;
}

const struct weir__kernel weir__kernel_sum_rows = {
	.op = WEIR_OP_SUM_ROWS,
	.name = "sum_rows",
	.supports = weir__kernel_needs_f32,
	.plan = plan_source,
	.run = sum_rows_run,
};

#define CHUNK 256 /* elements whose greatest is computed at a time */

/* An element and its index. NaN comes after all numbers. */
struct ranked {
	float x;
	int32_t index;
};

static bool comes_before(struct ranked a, struct ranked b)
{
	if (a.x > b.x || (isnan(b.x) && !isnan(a.x)))
		return true;
	if (a.x < b.x || (isnan(a.x) && !isnan(b.x)))
		return false;
	return a.index < b.index;
}

static struct ranked element(const unsigned char *row, int64_t i)
{
	struct ranked r = { .index = (int32_t)i };

	memcpy(&r.x, row + i * (int64_t)sizeof(r.x), sizeof(r.x));
	return r;
}

/*
 * Return the greatest of the elements [@i, @end), found by a loop over vectors.
 */
static float chunk_max(const unsigned char *row, int64_t i, int64_t end)
{
	return weir__vec()->max((const float *)(const void *)row + i,
				(size_t)(end - i));
}

static int64_t chunk_end(int64_t i, int64_t n)
{
	return n - i < CHUNK ? n : i + CHUNK;
}

/*
 * Return the index of the greatest element: it is in the first chunk that has
 * this value.
 */
static int32_t row_argmax(const unsigned char *row, int64_t n)
{
	struct ranked best = { .x = -INFINITY }, next;
	int64_t from = 0, to = n;
	float max;

	for (int64_t i = 0; i < n; i = chunk_end(i, n)) {
		max = chunk_max(row, i, chunk_end(i, n));
		if (max > best.x) {
			best.x = max;
			from = i;
			to = chunk_end(i, n);
		}
	}
	best = element(row, from);
	for (int64_t i = from + 1; i < to; i++) {
		next = element(row, i);
		if (comes_before(next, best))
			best = next;
	}
	return best.index;
}

static int argmax_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0];
	int32_t *index = run->node->dst.data;
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, a, &w, &row);

	for (; row < end; row++, weir__walk_next(&w))
		index[row] = row_argmax(weir__walk_at(&w, a), weir__dim(a, 0));
	return 0;
}

const struct weir__kernel weir__kernel_argmax = {
	.op = WEIR_OP_ARGMAX,
	.name = "argmax",
	.supports = weir__kernel_needs_f32,
	.plan = plan_source,
	.run = argmax_run,
};

/*
 * Restore the heap of @n elements below @i. Its first element comes after all
 * others.
 */
static void heap_sink(struct ranked *heap, int64_t n, int64_t i)
{
	struct ranked moved = heap[i];

	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && comes_before(heap[child], heap[child + 1]))
			child++;
		if (comes_before(heap[child], moved))
			break;
		heap[i] = heap[child];
	}
	heap[i] = moved;
}

static void heap_make(struct ranked *heap, int64_t n)
{
	for (int64_t i = n / 2; i-- > 0;)
		heap_sink(heap, n, i);
}

/* Take all elements out of the heap, the last one first. */
static void heap_empty(struct ranked *heap, int64_t n, int32_t *ret)
{
	while (n-- > 0) {
		ret[n] = heap[0].index;
		heap[0] = heap[n];
		heap_sink(heap, n, 0);
	}
}

/* Replace elements of the heap by those of [@i, @end) that come before them. */
static void chunk_choose(const unsigned char *row, int64_t i, int64_t end,
			 struct ranked *heap, int64_t k)
{
	for (; i < end; i++) {
		struct ranked next = element(row, i);

		if (!comes_before(next, heap[0]))
			continue;
		heap[0] = next;
		heap_sink(heap, k, 0);
	}
}

/*
 * Find the top k. Elements that are equal to the last of the heap come after
 * it.
 */
static void row_top_k(const unsigned char *row, int64_t n, int64_t k,
		      struct ranked *heap, int32_t *ret)
{
	for (int64_t i = 0; i < k; i++)
		heap[i] = element(row, i);
	heap_make(heap, k);
	for (int64_t i = k; i < n; i = chunk_end(i, n))
		if (!(chunk_max(row, i, chunk_end(i, n)) <= heap[0].x))
			chunk_choose(row, i, chunk_end(i, n), heap, k);
	heap_empty(heap, k, ret);
}

static void top_k_plan(const struct weir_backend_node *node, unsigned threads,
		       struct weir__kernel_plan *ret)
{
	const struct weir_op_top_k *p = node->params;

	plan_source(node, threads, ret);
	ret->scratch = (size_t)p->k * sizeof(struct ranked);
}

static int top_k_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0];
	const struct weir_op_top_k *p = run->node->params;
	int32_t *index = run->node->dst.data;
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, a, &w, &row);

	for (; row < end; row++, weir__walk_next(&w))
		row_top_k(weir__walk_at(&w, a), weir__dim(a, 0), p->k,
			  run->scratch, index + row * p->k);
	return 0;
}

const struct weir__kernel weir__kernel_top_k = {
	.op = WEIR_OP_TOP_K,
	.name = "top_k",
	.supports = weir__kernel_needs_f32,
	.plan = top_k_plan,
	.run = top_k_run,
};

static void argsort_plan(const struct weir_backend_node *node, unsigned threads,
			 struct weir__kernel_plan *ret)
{
	const struct weir_operand *a = &node->src[0];

	ret->cost = (uint64_t)weir__elements(a) * 20;
	ret->parts =
		weir__kernel_parts(ret->cost, (uint64_t)weir__rows(a), threads);
	ret->scratch = (size_t)weir__dim(a, 0) * sizeof(struct ranked);
}

/* The ascending order is the descending one of the elements negated. */
static int argsort_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0];
	const struct weir_op_argsort *p = run->node->params;
	int32_t *index = run->node->dst.data;
	struct ranked *heap = run->scratch;
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, a, &w, &row);
	int64_t n = weir__dim(a, 0);

	for (; row < end; row++, weir__walk_next(&w)) {
		for (int64_t i = 0; i < n; i++) {
			heap[i] = element(weir__walk_at(&w, a), i);
			if (p->order == WEIR_SORT_ASCENDING)
				heap[i].x = -heap[i].x;
		}
		heap_make(heap, n);
		heap_empty(heap, n, index + row * n);
	}
	return 0;
}

const struct weir__kernel weir__kernel_argsort = {
	.op = WEIR_OP_ARGSORT,
	.name = "argsort",
	.supports = weir__kernel_needs_f32,
	.plan = argsort_plan,
	.run = argsort_run,
};
