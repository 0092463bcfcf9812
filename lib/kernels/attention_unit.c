/* SPDX-License-Identifier: MIT */
/* Attention of units; attention.c has the whole. */
#include <math.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/floats.h"
#include "kernels/softmax.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

/*
 * Up to here scores are products of rows: turning k is not worth it. They are added
 * in another order.
 */
#define FEW 3
#define FETCH 8 /* rows ahead */

size_t weir__attention_scratch(const struct weir__heads *h)
{
	int64_t wide = h->d > h->dv_room ? h->d : h->dv_room;

	return (size_t)(h->rows * (h->batch * h->d + 2 * WEIR__TILE) +
			WEIR__TILE * (1 + wide + h->d)) +
	       (size_t)(h->invariant ? 2 : 1) * (size_t)h->batch *
		       weir__kept_floats(h);
}

void weir__attention_lay_out(struct weir__attention *a,
			     const struct weir__heads *h, float *scratch)
{
	int64_t wide = h->d > h->dv_room ? h->d : h->dv_room;

	a->k_turned = scratch;
	a->score = a->k_turned + h->d * WEIR__TILE;
	a->bias = a->score + h->rows * WEIR__TILE;
	a->live = a->bias + h->rows * WEIR__TILE;
	a->k = a->live + WEIR__TILE;
	a->q = a->k + wide * WEIR__TILE;
	a->kept = a->q + h->batch * h->rows * h->d;
	a->kept_apart = weir__kept_floats(h);
	a->later = a->kept + (size_t)h->batch * a->kept_apart;
}

/* The unit under work. */
struct unit {
	const struct weir_backend_node *node;
	const struct weir__heads *h;
	const struct weir__attention *a;
	const struct weir__vec *vec;
	struct weir__attention_partial kept;
	float *q;
	const struct weir_operand *mask; /* or NULL */
	int64_t unit, rows;              /* its number and queries */
	int64_t masks; /* rows of bias; those of queries are these, repeated */
	int64_t at, n; /* positions of this tile */
};

/* The heads of k and v count through the outer dimensions. */
static int64_t head_k_of(const struct unit *u)
{
	return u->unit / u->h->tiles;
}

/* The place of a query in q, and, repeated, in the mask. */
static void query_index(const struct unit *u, int64_t row, struct weir__walk *w)
{
	const struct weir__heads *h = u->h;
	int64_t head, token, b = head_k_of(u) / h->heads_k;

	weir__attention_query(h, u->unit, row, &head, &token);
	weir__walk_start(w, &u->node->src[0],
			 (b * h->heads + head) * h->tokens + token);
}

/* A sink is a score without a position: it counts in the first split. */
static void load_queries(const struct unit *u)
{
	const struct weir_op_attention *p = u->node->params;
	const struct weir_operand *q = &u->node->src[0];
	size_t d = (size_t)u->h->d;
	struct weir__walk w;
	float sink;

	for (int64_t row = 0; row < u->rows; row++) {
		float *to = u->q + (size_t)row * d;

		query_index(u, row, &w);
		weir__floats_row(q->dtype, to, weir__walk_at(&w, q), d);
		u->vec->scale(to, to, p->scale, 0, d);
		sink = u->at ? -INFINITY : weir__sink(u->node, 4, w.index[2]);
		u->kept.most[row] = sink;
		/* 1, or NaN if the sink is +infinity or NaN. */
		u->kept.weight[row] = sink == -INFINITY ? 0 : expf(sink - sink);
	}
	memset(u->kept.sum, 0,
	       (size_t)(u->rows * u->h->dv_room) * sizeof(float));
}

/* The mask of this tile as bias; false: no query counts any of the positions. */
static bool load_mask(const struct unit *u)
{
	const struct weir_op_attention *p = u->node->params;
	const struct weir_operand *mask = u->mask;
	size_t n = (size_t)u->n;
	struct weir__walk w;

	for (size_t i = 0; i < WEIR__TILE; i++)
		u->a->live[i] = i < n && !mask ? 0 : -INFINITY;
	for (int64_t row = 0; row < u->masks && mask; row++) {
		float *bias = u->a->bias + row * WEIR__TILE, tmp[WEIR__TILE];
		const unsigned char *m;

		query_index(u, row, &w);
		m = weir__walk_at(&w, mask) + u->at * weir__stride(mask, 0);
		u->vec->scale(bias,
			      weir__floats_in(mask->dtype, m,
					      weir__stride(mask, 0), n, tmp),
			      weir__slope(p->max_bias, w.index[2], u->h->heads),
			      0, n);
		u->vec->maxes(u->a->live, bias, n);
	}
	for (size_t i = 0; i < n; i++)
		if (u->a->live[i] != -INFINITY)
			return true;
	return false;
}

/*
 * Rows of a cache are often far apart, so the CPU does not fetch them by itself.
 * The address may be after the end of the tensor.
 */
static void fetch_row(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(p + i);
}

/* Rows of the tile of @t, k or v, that count, as F32; the others are 0. */
static void load_tile(const struct unit *u, const struct weir_operand *t,
		      size_t columns, size_t room)
{
	const struct weir_backend_convert *convert = weir__to_f32(t->dtype);
	size_t bytes = convert ? columns / convert->block * convert->src_bytes
			       : columns * sizeof(float);
	int64_t stride = weir__stride(t, 1);
	struct weir__walk w;
	const unsigned char *p;

	weir__walk_start(&w, t, head_k_of(u) * u->h->positions + u->at);
	p = weir__walk_at(&w, t);
	for (int64_t i = 0; i < u->n; i++, p += stride) {
		float *to = u->a->k + (size_t)i * room;

		fetch_row(p + FETCH * stride, bytes);
		if (u->a->live[i] == -INFINITY) {
			memset(to, 0, room * sizeof(*to));
			continue;
		}
		weir__floats_row(t->dtype, to, p, columns);
		memset(to + columns, 0, (room - columns) * sizeof(*to));
	}
}

static const float *bias_of(const struct unit *u, int64_t row)
{
	return u->a->bias + row % u->masks * WEIR__TILE;
}

static void scores_of_few(const struct unit *u)
{
	size_t d = (size_t)u->h->d;

	for (int64_t row = 0; row < u->rows; row++)
		for (int64_t i = 0; i < u->n; i++)
			u->a->score[row * WEIR__TILE + i] =
				u->vec->dot(u->q + (size_t)row * d,
					    u->a->k + (size_t)i * d, d);
}

static void scores_of_many(const struct unit *u)
{
	size_t d = (size_t)u->h->d;

	memset(u->a->k + (size_t)u->n * d, 0,
	       (size_t)(WEIR__TILE - u->n) * d * sizeof(float));
	u->vec->transpose(u->a->k_turned, WEIR__TILE, u->a->k, d, WEIR__TILE,
			  d);
	memset(u->a->score, 0, (size_t)(u->rows * WEIR__TILE) * sizeof(float));
	u->vec->product(u->a->score, WEIR__TILE, u->q, d, u->a->k_turned,
			WEIR__TILE, (size_t)u->rows, WEIR__TILE, d);
}

/*
 * From the scores of a query to exp(score - the greatest so far), 0 where it does
 * not count. What it has so far becomes relative to the new greatest one.
 */
static void weigh_scores(const struct unit *u, int64_t row)
{
	const struct weir_op_attention *p = u->node->params;
	float *score = u->a->score + row * WEIR__TILE;
	float *sum = u->kept.sum + row * u->h->dv_room;
	float *most = &u->kept.most[row], *weight = &u->kept.weight[row];
	size_t n = (size_t)u->n;
	float max, less, factor;

	if (p->softcap > 0)
		u->vec->softcap(score, p->softcap, n);
	if (u->mask)
		u->vec->bias(score, bias_of(u, row), n);
	/* Whole tiles: so the order of a sum does not depend on their number. */
	for (size_t i = n; i < WEIR__TILE; i++)
		score[i] = -INFINITY;
	max = u->vec->max(score, WEIR__TILE);
	if (max > *most) {
		factor = expf(*most - max);
		*most = max;
		*weight *= factor;
		u->vec->scale(sum, sum, factor, 0, (size_t)u->h->dv_room);
	}
	less = *most == -INFINITY ? 0 : *most;
	*weight += (float)u->vec->exp_sum(score, score, less, WEIR__TILE);
}

/* v has an infinity or NaN, which queries that do not count it may not get. */
static void add_values_apart(const struct unit *u)
{
	size_t room = (size_t)u->h->dv_room;

	for (int64_t row = 0; row < u->rows; row++)
		for (int64_t i = 0; i < u->n; i++)
			if (!u->mask || bias_of(u, row)[i] != -INFINITY)
				u->vec->add_scaled(
					u->kept.sum + (size_t)row * room,
					u->a->score[row * WEIR__TILE + i],
					u->a->k + (size_t)i * room, room);
}

static void add_values(const struct unit *u)
{
	size_t room = (size_t)u->h->dv_room;

	if (!u->vec->finite(u->a->k, (size_t)u->n * room)) {
		add_values_apart(u);
		return;
	}
	u->vec->product(u->kept.sum, room, u->a->score, WEIR__TILE, u->a->k,
			room, (size_t)u->rows, room, (size_t)u->n);
}

static void tile_run(const struct unit *u)
{
	if (!load_mask(u))
		return;
	load_tile(u, &u->node->src[1], (size_t)u->h->d, (size_t)u->h->d);
	if (u->rows <= FEW && !u->h->invariant)
		scores_of_few(u);
	else
		scores_of_many(u);
	for (int64_t row = 0; row < u->rows; row++)
		weigh_scores(u, row);
	load_tile(u, &u->node->src[2], (size_t)u->h->dv, (size_t)u->h->dv_room);
	add_values(u);
}

/* Are the rows of the mask the same for all heads of a group? */
static bool one_mask(const struct unit *u)
{
	const struct weir_op_attention *p = u->node->params;

	return p->max_bias == 0 && u->mask && weir__dim(u->mask, 2) == 1;
}

/* Unit number @i of those that are computed together. */
static void unit_start(struct unit *u, int64_t i)
{
	u->q = u->a->q + i * u->h->rows * u->h->d;
	u->kept =
		weir__kept_at(u->h, u->a->kept + (size_t)i * u->a->kept_apart);
	u->masks = weir__attention_tokens(u->h, u->unit);
	u->rows = u->h->group * u->masks;
	if (!one_mask(u))
		u->masks = u->rows;
}

void weir__attention_units(const struct weir_backend_node *node,
			   const struct weir__heads *h,
			   const struct weir__attention *a, int64_t unit,
			   int64_t end, int64_t from, int64_t to)
{
	struct unit u = {
		.node = node, .h = h, .a = a, .vec = weir__vec(), .at = from
	};

	if (node->n_src > 3 && node->src[3].data)
		u.mask = &node->src[3];
	for (u.unit = unit; u.unit < end; u.unit++) {
		unit_start(&u, u.unit - unit);
		load_queries(&u);
	}
	for (; u.at < to; u.at += u.n) {
		u.n = to - u.at < WEIR__TILE ? to - u.at : WEIR__TILE;
		for (u.unit = unit; u.unit < end; u.unit++) {
			unit_start(&u, u.unit - unit);
			tile_run(&u);
		}
	}
}
