/* SPDX-License-Identifier: MIT */
/*
 * Attention: softmax(q k^T) v without the scores of all positions in memory. A
 * unit is a head of k and v with the queries of its group of heads for some
 * tokens. It goes over the positions TILE at a time, and keeps of each query the
 * greatest score, the sum of exp(score - greatest), and the same of v (the online
 * softmax). With few tokens the positions of a unit are split too, and a second
 * phase adds up the splits.
 *
 * An attention that is invariant always splits the positions, SPLIT at a time, and
 * adds up the splits in their order: in a second phase with few tokens, else by the
 * thread that computed them. So its order depends on neither threads nor tokens.
 */
#include <math.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

#define QUERIES 128 /* about, of units that are computed together */
#define SPLIT (8 * WEIR__TILE)

static int64_t at_most(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void heads_of(const struct weir_backend_node *node,
		     struct weir__heads *h)
{
	const struct weir_operand *q = &node->src[0], *k = &node->src[1];
	const struct weir_op_attention *params = node->params;

	h->invariant = params->precision != WEIR_PRECISION_FAST;
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
	h->batch = 1;
}

/* The most splits of the positions. */
static int64_t most_splits(const struct weir__heads *h)
{
	int64_t each = h->invariant ? SPLIT : WEIR__TILE;

	return (h->positions + each - 1) / each;
}

/*
 * With few tokens, the units of several heads are computed together, and the
 * positions are split so that all threads have a part. Returns the number of splits;
 * 1: a thread computes all positions of a unit.
 */
static uint32_t split(struct weir__heads *h, unsigned threads)
{
	int64_t want = threads > 1 ? 2 * (int64_t)threads : 1, most, n;

	if (!h->units || !h->rows || h->tiles > 1)
		return 1;
	most = most_splits(h);
	h->batch = at_most(h->heads_k, QUERIES / h->rows);
	while (h->batch > 1 && h->units / h->batch * most < want)
		h->batch = (h->batch + 1) / 2;
	h->batch = h->batch > 1 ? h->batch : 1;
	n = (want + h->units / h->batch - 1) / (h->units / h->batch);
	n = at_most(n, most);
	if (h->invariant && n > 1)
		n = most <= UINT16_MAX ? most : 1;
	return n > 1 ? (uint32_t)n : 1;
}

static int64_t batches(const struct weir__heads *h)
{
	return (h->units + h->batch - 1) / h->batch;
}

static int attention_supports(const struct weir_backend_node *node)
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

/* In ns, about. */
static uint64_t cost_of(const struct weir_backend_node *node,
			const struct weir__heads *h)
{
	uint64_t pairs;

	if (__builtin_mul_overflow((uint64_t)weir__rows(&node->src[0]),
				   (uint64_t)h->positions, &pairs) ||
	    __builtin_mul_overflow(pairs, (uint64_t)(h->d + h->dv), &pairs))
		pairs = UINT64_MAX;
	return pairs / 20;
}

static void attention_plan(const struct weir_backend_node *node,
			   unsigned threads, struct weir__kernel_plan *ret)
{
	struct weir__heads h;

	/* Dimensions beside one that is 0 may be too large to be multiplied. */
	if (weir__elements(&node->dst) == 0)
		return;
	heads_of(node, &h);
	ret->variant = split(&h, threads);
	ret->scratch = weir__attention_scratch(&h) * sizeof(float);
	ret->cost = cost_of(node, &h);
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)batches(&h) * ret->variant, threads);
	ret->phases = ret->variant > 1 ? 2 : 1;
	if (ret->variant > 1)
		ret->shared = (size_t)h.units * ret->variant *
			      weir__kept_floats(&h) * sizeof(float);
	ret->variant |= (uint32_t)h.batch << 16;
}

/* The result of head @head and token @token; @b: outer dimensions. */
static float *result_at(const struct weir_backend_node *node,
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

static void unit_store(const struct weir_backend_node *node,
		       const struct weir__heads *h, int64_t unit,
		       const struct weir__attention_partial *kept)
{
	int64_t b = unit / (h->tiles * h->heads_k), head, token;
	int64_t rows = h->group * weir__attention_tokens(h, unit);

	for (int64_t row = 0; row < rows; row++) {
		weir__attention_query(h, unit, row, &head, &token);
		result_store(result_at(node, h, b, head, token),
			     kept->sum + row * h->dv_room, kept->weight[row],
			     h->dv);
	}
}

/* Add to row @row of @to that of @from, which is of later positions. */
static void kept_add(const struct weir__heads *h, float *to, float *from,
		     int64_t row)
{
	struct weir__attention_partial a = weir__kept_at(h, to),
				       b = weir__kept_at(h, from);
	float *sum = a.sum + row * h->dv_room, most = a.most[row], less, x, y;

	/* No position counts: bits stay as they are. */
	if (b.most[row] == -INFINITY && b.weight[row] == 0)
		return;
	most = b.most[row] > most ? b.most[row] : most;
	less = most == -INFINITY ? 0 : most;
	x = expf(a.most[row] - less);
	y = expf(b.most[row] - less);
	a.most[row] = most;
	a.weight[row] = x * a.weight[row] + y * b.weight[row];
	weir__vec()->scale(sum, sum, x, 0, (size_t)h->dv);
	weir__vec()->add_scaled(sum, y, b.sum + row * h->dv_room,
				(size_t)h->dv);
}

static void unit_add(const struct weir__heads *h, int64_t unit, float *to,
		     float *from)
{
	int64_t rows = h->group * weir__attention_tokens(h, unit);

	for (int64_t row = 0; row < rows; row++)
		kept_add(h, to, from, row);
}

/* Compute all positions of some units, SPLIT at a time, each added to the first. */
static void units_in_turn(const struct weir_backend_node *node,
			  const struct weir__heads *h,
			  const struct weir__attention *a, int64_t unit,
			  int64_t end)
{
	struct weir__attention later = *a;
	int64_t apart;

	later.kept = a->later;
	apart = (int64_t)a->kept_apart;
	weir__attention_units(node, h, a, unit, end, 0,
			      at_most(SPLIT, h->positions));
	for (int64_t at = SPLIT; at < h->positions; at += SPLIT) {
		weir__attention_units(node, h, &later, unit, end, at,
				      at_most(at + SPLIT, h->positions));
		for (int64_t k = unit; k < end; k++)
			unit_add(h, k, a->kept + (k - unit) * apart,
				 later.kept + (k - unit) * apart);
	}
}

/* Split @i of @splits of some units. */
static void units_split(const struct weir_backend_node *node,
			const struct weir__heads *h,
			const struct weir__attention *a, int64_t unit,
			int64_t end, int64_t i, int64_t splits)
{
	int64_t tiles = (h->positions + WEIR__TILE - 1) / WEIR__TILE;
	int64_t from = tiles * i / splits * WEIR__TILE;
	int64_t to = tiles * (i + 1) / splits * WEIR__TILE;

	if (h->invariant) {
		from = i * SPLIT;
		to = from + SPLIT;
	}
	weir__attention_units(node, h, a, unit, end, from,
			      at_most(to, h->positions));
}

/* Of the units [@unit, @end): split @i of @splits. */
static void units_run(const struct weir__kernel_run *run,
		      const struct weir__heads *h, int64_t unit, int64_t end,
		      int64_t i, int64_t splits)
{
	struct weir__attention a;

	weir__attention_lay_out(&a, h, run->scratch);
	if (splits > 1) {
		a.kept = (float *)run->shared +
			 (size_t)(unit * splits + i) * weir__kept_floats(h);
		a.kept_apart = (size_t)splits * weir__kept_floats(h);
	}
	if (h->invariant && splits == 1)
		units_in_turn(run->node, h, &a, unit, end);
	else
		units_split(run->node, h, &a, unit, end, i, splits);
	for (int64_t k = unit; k < end && splits == 1; k++) {
		struct weir__attention_partial kept = weir__kept_at(
			h, a.kept + (size_t)(k - unit) * a.kept_apart);

		unit_store(run->node, h, k, &kept);
	}
}

/* The first phase: a range of (batch of units, split). */
static void phase_units(const struct weir__kernel_run *run,
			const struct weir__heads *h, int64_t splits)
{
	int64_t i, end;

	weir__kernel_range(run, batches(h) * splits, &i, &end);
	for (; i < end; i++) {
		int64_t unit = i / splits * h->batch;

		units_run(run, h, unit, at_most(unit + h->batch, h->units),
			  i % splits, splits);
	}
}

/* Row @row of the splits at @kept, to @d. */
static void add_splits(const struct weir__heads *h, float *kept, int64_t row,
		       int64_t splits, float *d)
{
	struct weir__attention_partial sum = weir__kept_at(h, kept);

	for (int64_t i = 1; i < splits; i++)
		kept_add(h, kept, kept + (size_t)i * weir__kept_floats(h), row);
	result_store(d, sum.sum + row * h->dv_room, sum.weight[row], h->dv);
}

/* The second phase: a range of queries. */
static void phase_splits(const struct weir__kernel_run *run,
			 const struct weir__heads *h, int64_t splits)
{
	int64_t i, end, head, token;

	weir__kernel_range(run, h->units * h->rows, &i, &end);
	for (; i < end; i++) {
		int64_t unit = i / h->rows, b = unit / (h->tiles * h->heads_k);
		float *kept = (float *)run->shared +
			      (size_t)(unit * splits) * weir__kept_floats(h);

		weir__attention_query(h, unit, i % h->rows, &head, &token);
		add_splits(h, kept, i % h->rows, splits,
			   result_at(run->node, h, b, head, token));
	}
}

static int attention_run(const struct weir__kernel_run *run)
{
	int64_t splits = run->plan->variant & 0xffff;
	struct weir__heads h;

	if (weir__elements(&run->node->dst) == 0)
		return 0;
	heads_of(run->node, &h);
	h.batch = run->plan->variant >> 16;
	if (run->phase == 0)
		phase_units(run, &h, splits);
	else
		phase_splits(run, &h, splits);
	return 0;
}

const struct weir__kernel weir__kernel_attention = {
	.op = WEIR_OP_ATTENTION,
	.name = "attention",
	.supports = attention_supports,
	.plan = attention_plan,
	.run = attention_run,
};
