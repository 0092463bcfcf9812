/* SPDX-License-Identifier: MIT */
/*
 * Attention: softmax(q k^T) v without the scores of all positions in memory. A
 * unit is a head of k and v with the queries of its group of heads for some
 * tokens. It goes over the positions TILE at a time, and keeps of each query the
 * greatest score, the sum of exp(score - greatest), and the same of v (the online
 * softmax). If there are few units, the positions of a unit are split, and a
 * second phase adds up the splits.
 */
#include <math.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

#define QUERIES 128   /* about, of a unit */
#define LEAST_SPLIT 4 /* tiles */

static int64_t at_most(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void heads_of(const struct weir__node *node, struct weir__heads *h)
{
	const struct weir_operand *q = &node->src[0], *k = &node->src[1];

	h->heads = weir__dim(q, 2);
	h->heads_k = weir__dim(k, 2);
	h->group = h->heads_k ? h->heads / h->heads_k : 0;
	h->tokens = weir__dim(q, 1);
	h->positions = weir__dim(k, 1);
	h->d = weir__dim(q, 0);
	h->dv = weir__dim(&node->src[2], 0);
	h->dv_room = (h->dv + 15) / 16 * 16;
	h->tile = at_most(h->tokens, QUERIES / (h->group ? h->group : 1));
	h->tile = h->tile > 0 ? h->tile : 1;
	h->tiles = (h->tokens + h->tile - 1) / h->tile;
	h->rows = h->group * h->tile;
	h->units = weir__outer(q, 3) * h->heads_k * h->tiles;
}

static int attention_supports(const struct weir__node *node)
{
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t dtype = node->src[i].dtype;

		if (dtype != WEIR_DTYPE_F32 && !weir__to_f32(dtype))
			return weir__kernel_refuse(
				node, "source %u is not converted to F32", i);
		if (weir__to_f32(dtype) &&
		    weir__dim(&node->src[i], 0) % weir__to_f32(dtype)->block)
			return weir__kernel_refuse(node,
						   "rows are not whole blocks");
	}
	return 0;
}

/* Splits of the positions of each unit, so that all threads have one. */
static uint32_t splits_of(const struct weir__heads *h, unsigned threads)
{
	int64_t tiles = (h->positions + WEIR__TILE - 1) / WEIR__TILE;
	int64_t want = 2 * (int64_t)threads, n;

	if (threads <= 1 || !h->units || h->units >= want)
		return 1;
	n = at_most((want + h->units - 1) / h->units, tiles / LEAST_SPLIT);
	return n > 1 ? (uint32_t)n : 1;
}

/* Floats that a split keeps: of each query v's sum, the maximum, the sum. */
static size_t split_floats(const struct weir__heads *h)
{
	return (size_t)(h->rows * (h->dv_room + 2));
}

static void attention_plan(const struct weir__node *node, unsigned threads,
			   struct weir__kernel_plan *ret)
{
	struct weir__heads h;

	heads_of(node, &h);
	ret->scratch = weir__attention_scratch(&h) * sizeof(float);
	ret->cost = (uint64_t)(weir__rows(&node->src[0]) * h.positions) *
		    (uint64_t)(h.d + h.dv) / 20;
	ret->variant = splits_of(&h, threads);
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)h.units * ret->variant, threads);
	if (ret->parts == 1)
		ret->variant = 1;
	ret->phases = ret->variant > 1 ? 2 : 1;
	if (ret->variant > 1)
		ret->shared = (size_t)h.units * ret->variant *
			      split_floats(&h) * sizeof(float);
}

/* Where the result of head @head and token @token is; @b: outer dimensions. */
static float *result_at(const struct weir__node *node,
			const struct weir__heads *h, int64_t b, int64_t head,
			int64_t token)
{
	return (float *)node->dst.data +
	       ((b * h->tokens + token) * h->heads + head) * h->dv;
}

/* @sum, of exp(score) times v, divided by @weight, that of exp(score). */
static void result_store(float *d, const float *sum, float weight, int64_t n)
{
	if (weight == 0)
		memset(d, 0, (size_t)n * sizeof(*d));
	else
		weir__vec()->scale(d, sum, 1 / weight, 0, (size_t)n);
}

static void unit_store(const struct weir__node *node,
		       const struct weir__heads *h, int64_t unit,
		       const struct weir__attention *a)
{
	int64_t b = unit / (h->tiles * h->heads_k), head, token;
	int64_t rows = h->group * weir__attention_tokens(h, unit);

	for (int64_t row = 0; row < rows; row++) {
		weir__attention_query(h, unit, row, &head, &token);
		result_store(result_at(node, h, b, head, token),
			     a->sum + row * h->dv_room, a->weight[row], h->dv);
	}
}

/* The first phase: range of (unit, split). */
static void phase_units(const struct weir__kernel_run *run,
			const struct weir__heads *h)
{
	int64_t splits = run->plan->variant, i, end;
	int64_t tiles = (h->positions + WEIR__TILE - 1) / WEIR__TILE;
	struct weir__attention a;

	weir__kernel_range(run, h->units * splits, &i, &end);
	for (; i < end; i++) {
		int64_t split = i % splits;

		weir__attention_lay_out(&a, h, run->scratch);
		if (splits > 1) {
			a.sum = (float *)run->shared +
				(size_t)i * split_floats(h);
			a.most = a.sum + h->rows * h->dv_room;
			a.weight = a.most + h->rows;
		}
		weir__attention_unit(
			run->node, h, &a, i / splits,
			tiles * split / splits * WEIR__TILE,
			at_most(tiles * (split + 1) / splits * WEIR__TILE,
				h->positions));
		if (splits == 1)
			unit_store(run->node, h, i, &a);
	}
}

/* One row of @splits splits, which begin at @first; the first gets the sum. */
static void add_splits(const struct weir__heads *h, float *first, int64_t row,
		       int64_t splits, float *d)
{
	size_t each = split_floats(h);
	float *most = first + h->rows * h->dv_room + row, less = -INFINITY;
	float *weight = most + h->rows, total = 0, factor;
	float *sum = first + row * h->dv_room;

	for (int64_t i = 0; i < splits; i++)
		less = most[(size_t)i * each] > less ? most[(size_t)i * each]
						     : less;
	less = less == -INFINITY ? 0 : less;
	for (int64_t i = 0; i < splits; i++) {
		factor = expf(most[(size_t)i * each] - less);
		total += factor * weight[(size_t)i * each];
		if (i == 0)
			weir__vec()->scale(sum, sum, factor, 0, (size_t)h->dv);
		else
			weir__vec()->add_scaled(sum, factor,
						sum + (size_t)i * each,
						(size_t)h->dv);
	}
	result_store(d, sum, total, h->dv);
}

/* The second phase: a range of queries. */
static void phase_splits(const struct weir__kernel_run *run,
			 const struct weir__heads *h)
{
	int64_t splits = run->plan->variant, i, end, head, token;

	weir__kernel_range(run, h->units * h->rows, &i, &end);
	for (; i < end; i++) {
		int64_t unit = i / h->rows, row = i % h->rows;
		int64_t b = unit / (h->tiles * h->heads_k);
		float *first = (float *)run->shared +
			       (size_t)(unit * splits) * split_floats(h);

		if (row >= h->group * weir__attention_tokens(h, unit))
			continue;
		weir__attention_query(h, unit, row, &head, &token);
		add_splits(h, first, row, splits,
			   result_at(run->node, h, b, head, token));
	}
}

static int attention_run(const struct weir__kernel_run *run)
{
	struct weir__heads h;

	heads_of(run->node, &h);
	if (weir__elements(&run->node->dst) == 0)
		return 0;
	if (run->phase == 0)
		phase_units(run, &h);
	else
		phase_splits(run, &h);
	return 0;
}

const struct weir__kernel weir__kernel_attention = {
	.op = WEIR_OP_ATTENTION,
	.name = "attention",
	.supports = attention_supports,
	.plan = attention_plan,
	.run = attention_run,
};
