/* SPDX-License-Identifier: MIT */
/* ALiBi: the mask's factor of a head, for soft_max and attention. */
#ifndef WEIR__SLOPE_H
#define WEIR__SLOPE_H

#include <math.h>
#include <stdint.h>

/* Of head @h of @heads; 1 if @max_bias is 0. */
static inline float weir__slope(float max_bias, int64_t h, int64_t heads)
{
	int64_t n = 1;

	if (max_bias == 0)
		return 1;
	while (n <= heads / 2)
		n *= 2;
	if (h < n)
		return exp2f(-max_bias * (float)(h + 1) / (float)n);
	return exp2f(-max_bias / 2 * (float)(2 * (h - n) + 1) / (float)n);
}

#endif
