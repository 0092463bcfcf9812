/* SPDX-License-Identifier: MIT */
/*
 * The choice of the next token from the scores (logits) that a model gives to
 * all of them. A sampler belongs to one thread at a time; nothing blocks.
 */
#ifndef TEXT_SAMPLER_H
#define TEXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/*
 * The steps of a choice, in this order; each looks at the tokens that the step
 * before it has left.
 */
struct sampler_opts {
	/*
	 * The scores of repeated tokens are divided by this, or multiplied if
	 * they are below 0 (sampler_repeat). 1: they are not changed.
	 */
	float repeat;
	/*
	 * Keep this many tokens, those with the greatest scores. 0: keep all.
	 */
	uint32_t top_k;
	/*
	 * Keep the fewest of the likeliest tokens whose probabilities, which
	 * are proportional to exp(score), add up to at least this. 1: keep all.
	 */
	float top_p;
	/*
	 * Keep the tokens whose probability is at least this part of that of
	 * the likeliest one. 0: keep all.
	 */
	float min_p;
	/*
	 * Choose one of the tokens at random, with probabilities proportional
	 * to exp(score / temperature). 0: choose the one with the greatest
	 * score, and the lowest id if there are several.
	 */
	float temperature;
	uint64_t seed;
};
/* The defaults of llama.cpp. */
#define SAMPLER_OPTS_INIT                                                 \
	{                                                                 \
		.repeat = 1, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, \
		.temperature = 0.8f,                                      \
	}

/* sampler_init() sets these members, and the caller does not change them. */
struct sampler {
	struct sampler_opts opts;
	uint64_t state, step; /* the state of PCG32 */
	uint32_t *kept;       /* ids of the tokens that are left */
	size_t n, room;
};

/*
 * Equal options and scores give equal choices on every machine whose exp(3) is
 * the same.
 *
 * -EINVAL: an option is not in its range, or not a number.
 */
int sampler_init(struct sampler *s, const struct sampler_opts *opts);
void sampler_fini(struct sampler *s);

/*
 * Change the scores of @count tokens at @last, each once. Others are ignored.
 */
void sampler_repeat(const struct sampler *s, const int32_t *last, size_t count,
		    float *score, size_t n);
/*
 * Choose one of @n tokens; takes time in the order of n log top_k. -EINVAL: @n
 * is 0 or above 2^31 - 1. -EDOM: a score is not a number. -ENOMEM.
 */
int sampler_choose(struct sampler *s, const float *score, size_t n,
		   int32_t *ret_id);

/*
 * PCG-XSH-RR 64/32 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient
 * Statistically Good Algorithms for Random Number Generation", 2014). @stream
 * selects one of 2^63 sequences; the sampler uses 0.
 */
void sampler_seed(struct sampler *s, uint64_t seed, uint64_t stream);
uint32_t sampler_random(struct sampler *s);

#endif
