/* SPDX-License-Identifier: MIT */
#include "sampler.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define MULTIPLIER 6364136223846793005ull

uint32_t sampler_random(struct sampler *s)
{
	uint64_t old = s->state;
	uint32_t x = (uint32_t)((old >> 18 ^ old) >> 27);
	unsigned turn = (unsigned)(old >> 59);

	s->state = old * MULTIPLIER + s->step;
	return x >> turn | x << (-turn & 31);
}

void sampler_seed(struct sampler *s, uint64_t seed, uint64_t stream)
{
	s->state = 0;
	s->step = stream << 1 | 1;
	sampler_random(s);
	s->state += seed;
	sampler_random(s);
}

/* Return a random multiple of 2^-53 from 0 to below 1. */
static double sampler_fraction(struct sampler *s)
{
	uint64_t high = sampler_random(s) >> 5, low = sampler_random(s) >> 6;

	return (double)(high << 26 | low) * 0x1p-53;
}

static int bad_option(const char *what, float value, const char *range)
{
	return text_fail(-EINVAL, "%s is %g, not %s", what, (double)value,
			 range);
}

static int check_opts(const struct sampler_opts *o)
{
	if (!(o->repeat > 0) || isinf(o->repeat))
		return bad_option("the penalty of repetitions", o->repeat,
				  "a number greater than 0");
	if (!(o->top_p >= 0 && o->top_p <= 1))
		return bad_option("top-p", o->top_p, "a number of 0 to 1");
	if (!(o->min_p >= 0 && o->min_p <= 1))
		return bad_option("min-p", o->min_p, "a number of 0 to 1");
	if (!(o->temperature >= 0) || isinf(o->temperature))
		return bad_option("the temperature", o->temperature,
				  "a number of at least 0");
	return 0;
}

int sampler_init(struct sampler *s, const struct sampler_opts *opts)
{
	int r = check_opts(opts);

	if (r < 0)
		return r;
	*s = (struct sampler){ .opts = *opts };
	sampler_seed(s, opts->seed, 0);
	return 0;
}

void sampler_fini(struct sampler *s)
{
	free(s->kept);
}

static bool is_among(const int32_t *ids, size_t n, int32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

void sampler_repeat(const struct sampler *s, const int32_t *last, size_t count,
		    float *score, size_t n)
{
	float by = s->opts.repeat;

	for (size_t i = 0; by != 1 && i < count; i++) {
		int32_t id = last[i];

		if (id < 0 || (size_t)id >= n || is_among(last, i, id))
			continue;
		score[id] = score[id] > 0 ? score[id] / by : score[id] * by;
	}
}

static int greatest(const float *score, size_t n, size_t *ret_i)
{
	size_t best = 0;

	for (size_t i = 0; i < n; i++) {
		if (isnan(score[i]))
			return text_fail(-EDOM,
					 "the score of token %zu is not a "
					 "number",
					 i);
		if (score[i] > score[best])
			best = i;
	}
	*ret_i = best;
	return 0;
}

/* True if token @a is left out before token @b. */
static bool is_worse(const float *score, uint32_t a, uint32_t b)
{
	return score[a] < score[b] || (score[a] == score[b] && a > b);
}

/*
 * Move the token at the top of a heap of @n down; the worst token comes to the
 * top.
 */
static void heap_down(uint32_t *heap, size_t n, const float *score)
{
	uint32_t id = heap[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n &&
		    is_worse(score, heap[child + 1], heap[child]))
			child++;
		if (!is_worse(score, heap[child], id))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = id;
}

static void heap_add(uint32_t *heap, size_t n, uint32_t id, const float *score)
{
	size_t i = n;

	while (i && is_worse(score, id, heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = id;
}

/*
 * Keep the @k best of the tokens with a score of at least @least, the best
 * first.
 */
static int keep_best(struct sampler *s, const float *score, size_t n, size_t k,
		     double least)
{
	uint32_t *kept = s->kept;
	size_t found = 0;

	if (k > s->room) {
		kept = realloc(kept, k * sizeof(*kept));
		if (!kept)
			return text_fail(-ENOMEM, "no memory for %zu tokens",
					 k);
		s->kept = kept;
		s->room = k;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (score[i] < least)
			continue;
		if (found < k) {
			heap_add(kept, found++, i, score);
		} else if (score[i] > score[kept[0]]) {
			kept[0] = i;
			heap_down(kept, k, score);
		}
	}
	s->n = found;
	for (size_t left = found; left > 1;) {
		uint32_t worst = kept[0];

		kept[0] = kept[--left];
		heap_down(kept, left, score);
		kept[left] = worst;
	}
	return 0;
}

/*
 * Keep the fewest tokens whose exp(score - best) add up to the part opts.top_p
 * of @sum.
 */
static void keep_likely(struct sampler *s, const float *score, double sum)
{
	double best = score[s->kept[0]], so_far = 0;

	for (size_t i = 0; i < s->n; i++) {
		so_far += exp(score[s->kept[i]] - best);
		if (so_far >= s->opts.top_p * sum)
			s->n = i + 1;
	}
}

/*
 * Return the sum of exp(score - best) of the @n tokens, or of those with these
 * ids.
 */
static double sum_of(const float *score, const uint32_t *ids, size_t n,
		     double best)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += exp(score[ids ? ids[i] : i] - best);
	return sum;
}

/*
 * Keep the tokens that the steps before the last one leave. Min-p removes the
 * worst tokens, which need not be sorted if only top-p comes before it.
 */
static int keep(struct sampler *s, const float *score, size_t n, double best)
{
	double least = best + log(s->opts.min_p);
	bool all = !s->opts.top_k || s->opts.top_k >= n;
	int r = keep_best(s, score, n, all ? n : s->opts.top_k,
			  all ? least : -(double)INFINITY);

	if (r < 0)
		return r;
	if (s->opts.top_p < 1)
		keep_likely(s, score,
			    all ? sum_of(score, NULL, n, best)
				: sum_of(score, s->kept, s->n, best));
	while (score[s->kept[s->n - 1]] < least)
		s->n--;
	return 0;
}

/* Return the probability of a token, times a constant. */
static double weight(const struct sampler *s, float score, double best)
{
	return exp((score - best) / s->opts.temperature);
}

/*
 * Choose one of the tokens with the @n ids, or of the first @n: the one at
 * which the running sum of the weights passes a random part of the total.
 */
static uint32_t at_random(struct sampler *s, const float *score,
			  const uint32_t *ids, size_t n, double best)
{
	double sum = 0, left;
	uint32_t last = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += weight(s, score[ids ? ids[i] : i], best);
	left = sum * sampler_fraction(s);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = ids ? ids[i] : i;
		double w = weight(s, score[id], best);

		if (w <= 0)
			continue;
		if (left < w)
			return id;
		left -= w;
		last = id;
	}
	return last; /* rounding has left a remainder */
}

int sampler_choose(struct sampler *s, const float *score, size_t n,
		   int32_t *ret_id)
{
	const struct sampler_opts *o = &s->opts;
	size_t best = 0;
	int r;

	if (!n || n > INT32_MAX)
		return text_fail(-EINVAL, "%zu tokens, from 1 to %d", n,
				 INT32_MAX);
	r = greatest(score, n, &best);
	if (r < 0)
		return r;
	if (!(o->temperature > 0) || !isfinite(score[best])) {
		*ret_id = (int32_t)best;
		return 0;
	}
	if (!o->top_k && o->top_p >= 1 && o->min_p <= 0) {
		*ret_id = (int32_t)at_random(s, score, NULL, n, score[best]);
		return 0;
	}
	r = keep(s, score, n, score[best]);
	if (!r)
		*ret_id = (int32_t)at_random(s, score, s->kept, s->n,
					     score[best]);
	return r;
}
