/* SPDX-License-Identifier: MIT */
#include "sampler.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

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

/* From 0 to below 1, in steps of 2^-53. */
static double sampler_fraction(struct sampler *s)
{
	uint64_t high = sampler_random(s) >> 5, low = sampler_random(s) >> 6;

	return (double)(high << 26 | low) * 0x1p-53;
}

int sampler_init(struct sampler *s, float temperature, uint64_t seed)
{
	if (!(temperature >= 0))
		return text_fail(-EINVAL, "the temperature is %g, at least 0",
				 (double)temperature);
	s->temperature = temperature;
	sampler_seed(s, seed, 0);
	return 0;
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

/* The probability of a token, times a constant. */
static double weight(const struct sampler *s, float score, float best)
{
	return exp(((double)score - best) / s->temperature);
}

/* The token at which the sum of the weights passes a random part of it. */
static size_t at_random(struct sampler *s, const float *score, size_t n,
			size_t best)
{
	double sum = 0, left;
	size_t last = best;

	for (size_t i = 0; i < n; i++)
		sum += weight(s, score[i], score[best]);
	left = sum * sampler_fraction(s);
	for (size_t i = 0; i < n; i++) {
		double w = weight(s, score[i], score[best]);

		if (w <= 0)
			continue;
		if (left < w)
			return i;
		left -= w;
		last = i;
	}
	return last; /* rounding has left a rest */
}

int sampler_choose(struct sampler *s, const float *score, size_t n,
		   int32_t *ret_id)
{
	size_t best = 0;
	int r;

	if (!n || n > INT32_MAX)
		return text_fail(-EINVAL, "%zu tokens, from 1 to %d", n,
				 INT32_MAX);
	r = greatest(score, n, &best);
	if (r < 0)
		return r;
	if (s->temperature > 0 && isfinite(score[best]))
		best = at_random(s, score, n, best);
	*ret_id = (int32_t)best;
	return 0;
}
