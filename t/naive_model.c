/* SPDX-License-Identifier: MIT */
/* Products, softmax, rope and attention. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "naive_ops.h"
#include "tap.h"

/* Matrix @outer of @b, counted over its outer dimensions, belongs to this one
 * of @a: in each dimension the index divided by how often a is repeated. */
static int64_t group_of(const struct array *a, const struct array *b,
			int64_t outer, int dims)
{
	int64_t matrix = 0, index[NAIVE_DIMS];

	for (int d = LAST - dims; d >= 0; d--) {
		index[d] = outer % b->shape[d];
		outer /= b->shape[d];
	}
	for (int d = 0; d <= LAST - dims; d++)
		matrix = matrix * a->shape[d] +
			 index[d] / (b->shape[d] / a->shape[d]);
	return matrix;
}

static double dot(const double *a, const double *b, int64_t k)
{
	double sum = 0;

	for (int64_t i = 0; i < k; i++)
		sum += a[i] * b[i];
	return sum;
}

int naive_mul_mat(const void *params, struct array *dst,
		  const struct array *src, unsigned n_src)
{
	const struct array *a = &src[0], *b = &src[1];
	int64_t m = a->shape[LAST - 1], k = a->shape[LAST];
	int64_t n = b->shape[LAST - 1];

	(void)params, (void)n_src;
	for (int64_t i = 0; i < dst->n; i++) {
		int64_t outer = i / (n * m);

		dst->v[i] = dot(row_of(a, group_of(a, b, outer, 2) * m + i % m),
				row_of(b, i / m), k);
	}
	return 0;
}

/* dst [T, n, M], as [E, M, K], b [T, n or a divisor, K], ids [T, n] */
int naive_mul_mat_id(const void *params, struct array *dst,
		     const struct array *src, unsigned n_src)
{
	const struct array *as = &src[0], *b = &src[1], *ids = &src[2];
	int64_t e = as->shape[LAST - 2], m = as->shape[LAST - 1];
	int64_t n = ids->shape[LAST], rows = b->shape[LAST - 1];

	(void)params, (void)n_src;
	for (int64_t i = 0; i < ids->n; i++) {
		int64_t t = i / n, id = (int64_t)ids->v[i];
		const double *x = row_of(b, t * rows + i % n % rows);

		if (id < 0 || id >= e)
			return -EINVAL;
		for (int64_t row = 0; row < m; row++)
			row_of(dst, i)[row] = dot(row_of(as, id * m + row), x,
						  as->shape[LAST]);
	}
	return 0;
}

/* The slope of head @h of @heads. */
static double slope_of(double max_bias, int64_t h, int64_t heads)
{
	int64_t n = 1;

	if (max_bias == 0)
		return 1;
	while (n * 2 <= heads)
		n *= 2;
	return h < n ? exp2(-max_bias * (double)(h + 1) / (double)n)
		     : exp2(-max_bias / 2 * (double)(2 * (h - n) + 1) /
			    (double)n);
}

/* The weights of a row: exp(w) / sum. A sink is part of the sum only. */
static void weigh(double *w, int64_t n, double sink)
{
	double most = sink, sum;
	bool odd = isnan(sink) || sink == INFINITY;

	for (int64_t i = 0; i < n; i++) {
		odd = odd || isnan(w[i]) || w[i] == INFINITY;
		most = fmax(most, w[i]);
	}
	sum = most == -INFINITY ? 0 : exp(sink - most);
	for (int64_t i = 0; i < n; i++) {
		w[i] = odd ? NAN : most == -INFINITY ? 0 : exp(w[i] - most);
		sum += w[i];
	}
	for (int64_t i = 0; i < n && sum != 0; i++)
		w[i] /= sum;
}

/* Source @i has the sinks of heads; -infinity: there are none. */
static double sink_of(const struct array *src, unsigned n, unsigned i,
		      int64_t head)
{
	return n > i && src[i].v ? src[i].v[head] : -INFINITY;
}

/* The index of row number @row of @of, whose column is 0. */
static void row_index(const struct array *of, int64_t row, int64_t *index)
{
	index[LAST] = 0;
	for (int d = LAST - 1; d >= 0; d--) {
		index[d] = row % of->shape[d];
		row /= of->shape[d];
	}
}

int naive_soft_max(const void *params, struct array *dst,
		   const struct array *src, unsigned n)
{
	const struct weir_op_soft_max *p = params;
	int64_t c = dst->shape[LAST], index[NAIVE_DIMS];

	for (int64_t row = 0; row < outer_of(dst, 1); row++) {
		double *w = row_of(dst, row), slope;

		row_index(dst, row, index);
		slope = slope_of((double)p->max_bias, index[LAST - 2],
				 dst->shape[LAST - 2]);
		for (int64_t i = 0; i < c; i++) {
			w[i] = (double)p->scale * row_of(&src[0], row)[i];
			index[LAST] = i;
			if (n > 1 && src[1].v)
				w[i] += slope * *element(&src[1], index);
		}
		weigh(w, c, sink_of(src, n, 2, index[LAST - 2]));
	}
	return 0;
}

/* Return the pair from which on, or up to which, YaRN mixes angles. */
static double corr(const struct weir_op_rope *p, double beta)
{
	return p->n_dims * log((double)p->context / (2 * M_PI * beta)) /
	       (2 * log((double)p->base));
}

/* How much of the angle without freq_scale pair @i has. */
static double mixture(const struct weir_op_rope *p, int64_t i)
{
	double low, high, y;

	if (p->ext_factor == 0)
		return 0;
	low = fmax(0, floor(corr(p, (double)p->beta_fast)));
	high = fmin((double)p->n_dims - 1, ceil(corr(p, (double)p->beta_slow)));
	y = ((double)i - low) / fmax(0.001, high - low);
	return (double)p->ext_factor * (1 - fmin(1, fmax(0, y)));
}

static void rotate(const struct weir_op_rope *p, double pos,
		   const struct array *factors, const double *from, double *to)
{
	double size = (double)p->attn_factor;

	if (p->ext_factor != 0)
		size *= 1 + 0.1 * log(1 / (double)p->freq_scale);
	for (int64_t i = 0; i < p->n_dims / 2; i++) {
		double plain = pos * pow((double)p->base,
					 -2.0 * (double)i / p->n_dims);
		double m = mixture(p, i), angle;
		int64_t x = i, y = i + p->n_dims / 2;

		if (p->mode == WEIR_ROPE_NORMAL) {
			x = 2 * i;
			y = x + 1;
		}
		if (factors->v)
			plain /= factors->v[i];
		angle = plain * (double)p->freq_scale * (1 - m) + plain * m;
		to[x] = size * (from[x] * cos(angle) - from[y] * sin(angle));
		to[y] = size * (from[x] * sin(angle) + from[y] * cos(angle));
	}
}

/* a [.., T, heads, D] */
int naive_rope(const void *params, struct array *dst, const struct array *src,
	       unsigned n)
{
	const struct weir_op_rope *p = params;
	const struct array none = { .v = NULL };
	int64_t heads = dst->shape[LAST - 1], tokens = dst->shape[LAST - 2];

	memcpy(dst->v, src[0].v, (size_t)dst->n * sizeof(*dst->v));
	for (int64_t row = 0; row < outer_of(dst, 1); row++)
		rotate(p, src[1].v[row / heads % tokens],
		       n > 2 ? &src[2] : &none, row_of(&src[0], row),
		       row_of(dst, row));
	return 0;
}

/* What a query's row computes with. */
struct query {
	const struct weir_op_attention *p;
	const struct array *k, *v, *mask;
	const double *q;
	int64_t matrix;            /* elements of k and v */
	int64_t index[NAIVE_DIMS]; /* in the mask, less the position */
	double slope, sink;
	int64_t from, to;    /* the positions to which it attends */
	const double *pages; /* of its sequence, or NULL */
};

/* The row of k and v with position @s. */
static int64_t row_at(const struct query *q, int64_t s)
{
	int64_t page = q->p->page;

	if (q->pages)
		s = (int64_t)q->pages[s / page] * page + s % page;
	return q->matrix * q->k->shape[LAST - 1] + s;
}

static double weight_of(const struct query *q, int64_t s)
{
	int64_t index[NAIVE_DIMS];
	double w, mask = 0;

	if (s < q->from || s >= q->to)
		return -INFINITY;
	memcpy(index, q->index, sizeof(index));
	index[LAST] = s;
	if (q->mask->v)
		mask = q->slope * *element(q->mask, index);
	if (mask == -INFINITY)
		return mask;
	w = (double)q->p->scale *
	    dot(q->q, row_of(q->k, row_at(q, s)), q->k->shape[LAST]);
	if (q->p->softcap > 0)
		w = (double)q->p->softcap * tanh(w / (double)q->p->softcap);
	return w + mask;
}

static void attend(const struct query *q, int64_t positions, double *w,
		   double *to)
{
	int64_t dv = q->v->shape[LAST];
	bool *counts = calloc((size_t)positions + 1, sizeof(*counts));

	if (!counts)
		bail("no memory for %lld positions", (long long)positions);
	for (int64_t s = 0; s < positions; s++) {
		w[s] = weight_of(q, s);
		counts[s] = w[s] != -INFINITY;
	}
	weigh(w, positions, q->sink);
	memset(to, 0, (size_t)dv * sizeof(*to));
	for (int64_t s = 0; s < positions; s++)
		for (int64_t i = 0; i < dv && counts[s]; i++)
			to[i] += w[s] * row_of(q->v, row_at(q, s))[i];
	free(counts);
}

/* Token @t of @tokens of a sequence with @length positions. */
static void set_attended(struct query *q, int64_t length, int64_t t,
			 int64_t tokens)
{
	int64_t at = length - tokens + t;

	q->from = q->p->window ? at - q->p->window + 1 : 0;
	q->to = q->p->causal ? at + 1 : length;
}

/* -EINVAL: a page that a token of the sequence needs is out of range. */
static int check_pages(const struct query *q, int64_t length, int64_t tokens)
{
	struct query all = *q;
	int64_t page = q->p->page, n = q->k->shape[LAST - 1] / page;

	set_attended(&all, length, 0, tokens);
	for (int64_t s = all.from > 0 ? all.from : 0; s < length; s++)
		if (q->pages[s / page] < 0 || q->pages[s / page] >= (double)n)
			return -EINVAL;
	return 0;
}

/* q [.., H, T, D], dst [.., T, H, Dv] */
int naive_attention(const void *params, struct array *dst,
		    const struct array *src, unsigned n)
{
	const struct array none = { .v = NULL };
	struct query q = { .p = params, .k = &src[1], .v = &src[2] };
	int64_t tokens = src[0].shape[LAST - 1], heads = src[0].shape[LAST - 2];
	const struct array *lengths = n > 5 ? &src[5] : &none;
	const struct array *pages = n > 6 ? &src[6] : &none;
	int64_t positions = pages->v ? pages->shape[LAST] * q.p->page
				     : q.k->shape[LAST - 1];
	double *w = calloc((size_t)positions + 1, sizeof(*w));
	int r = 0;

	if (!w)
		bail("no memory for a row of weights");
	q.mask = n > 3 ? &src[3] : &none;
	for (int64_t row = 0; row < outer_of(&src[0], 1) && !r; row++) {
		int64_t t = row % tokens, h = row / tokens % heads;
		int64_t outer = row / tokens / heads, length = positions;

		if (lengths->v)
			length = (int64_t)lengths->v[outer];
		if (length < 0 || length > positions)
			r = -EINVAL;
		if (pages->v) {
			q.pages = row_of(pages, outer);
			r = r ? r : check_pages(&q, length, tokens);
		}
		if (r)
			break;
		set_attended(&q, length, t, tokens);

		q.q = row_of(&src[0], row);
		q.matrix =
			pages->v ? h / (heads / q.k->shape[LAST - 2])
				 : group_of(q.k, &src[0], outer * heads + h, 2);
		q.slope = slope_of((double)q.p->max_bias, h, heads);
		q.sink = sink_of(src, n, 4, h);
		row_index(&src[0], row, q.index);
		attend(&q, positions, w,
		       row_of(dst, (outer * tokens + t) * heads + h));
	}
	free(w);
	return r;
}
