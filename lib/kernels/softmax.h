/* SPDX-License-Identifier: MIT */
/* Slopes and sinks of heads, for soft_max and attention. */
#ifndef WEIR__SOFTMAX_H
#define WEIR__SOFTMAX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <weir/backend.h>

/*
 * Return the slope of ALiBi, the factor of the mask, for head @h of @heads; 1
 * if @max_bias is 0. It is never 0: so -infinity times it is -infinity.
 */
static inline float weir__slope(float max_bias, int64_t h, int64_t heads)
{
	const float least = 0x1p-126f;
	int64_t n = 1;

	if (max_bias == 0)
		return 1;
	while (n <= heads / 2)
		n *= 2;
	if (h < n)
		return fmaxf(exp2f(-max_bias * ((float)(h + 1) / (float)n)),
			     least);
	return fmaxf(exp2f(-max_bias / 2 * (float)(2 * (h - n) + 1) / (float)n),
		     least);
}

/*
 * Return the sink of head @h, of source @i, which is contiguous, at any
 * address; or -infinity, which adds nothing, if the source was left out.
 */
static inline float weir__sink(const struct weir_backend_node *node, unsigned i,
			       int64_t h)
{
	const unsigned char *sinks = i < node->n_src ? node->src[i].data : NULL;
	float sink = -INFINITY;

	if (sinks)
		memcpy(&sink, sinks + (size_t)h * sizeof(sink), sizeof(sink));
	return sink;
}

#endif
