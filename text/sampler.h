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

/* Set by sampler_init(), and then not by the caller. */
struct sampler {
	uint64_t state, step; /* of PCG32 */
	float temperature;
};

/*
 * @temperature 0: always the token with the greatest score, and of several the
 * one with the lowest id. Above 0: at random, token i with a probability
 * proportional to exp(score[i] / temperature). Equal seeds and scores give equal
 * choices on every machine whose exp(3) is the same.
 *
 * -EINVAL: the temperature is negative or not a number.
 */
int sampler_init(struct sampler *s, float temperature, uint64_t seed);
/*
 * Choose one of @n tokens. -EINVAL: @n is 0 or above 2^31 - 1. -EDOM: a score is
 * not a number.
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
