/* SPDX-License-Identifier: MIT */
/*
 * Scalings of RoPE in config.json, as transformers computes them. Each becomes
 * a divisor for the frequency of each pair; weir_rope() gets them as factors.
 */
#include <math.h>

#include "llama.h"

/* The frequency of pair @i is 1 / turn, in radians for a position. */
static double turn_of(const struct llama_config *c, double i)
{
	return pow(c->rope.base, 2 * i / c->rope.n_dims);
}

static double limited(double x)
{
	return fmin(fmax(x, 0), 1);
}

/* Llama 3: long waves are stretched, short ones are not. */
static double llama3_divisor(const struct llama_config *c, int64_t i)
{
	const struct llama_scaling *s = &c->scaling;
	double waves = s->context / (2 * M_PI * turn_of(c, (double)i));
	double share = limited((waves - s->low) / (s->high - s->low));

	return 1 / ((1 - share) / s->factor + share);
}

/* Return the pair, as a real number, that turns @turns times in the context. */
static double pair_of(const struct llama_config *c, double turns)
{
	return c->rope.n_dims * log(c->scaling.context / (turns * 2 * M_PI)) /
	       (2 * log(c->rope.base));
}

/* YaRN: from pair low to pair high more and more is interpolated. */
static double yarn_divisor(const struct llama_config *c, int64_t i)
{
	const struct llama_scaling *s = &c->scaling;
	double low = pair_of(c, s->fast), high = pair_of(c, s->slow), share;

	if (s->truncate) {
		low = floor(low);
		high = ceil(high);
	}
	low = fmax(low, 0);
	high = fmin(high, c->rope.n_dims - 1);
	if (low == high)
		high += 0.001;
	share = limited(((double)i - low) / (high - low));
	return 1 / (share / s->factor + 1 - share);
}

double llama_yarn_magnitude(double factor, double mscale)
{
	return factor > 1 ? 1 + 0.1 * mscale * log(factor) : 1;
}

double llama_rope_divisor(const struct llama_config *c, int64_t i)
{
	if (c->scaling.type == LLAMA_SCALING_LLAMA3)
		return llama3_divisor(c, i);
	return yarn_divisor(c, i);
}
