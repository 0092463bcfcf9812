/* SPDX-License-Identifier: MIT */
/*
 * The grids of GGML's IQ1, IQ2 and IQ3 dtypes, in the packed form of
 * quants_grids.c.
 */
#ifndef WEIR__QUANTS_GRIDS_H
#define WEIR__QUANTS_GRIDS_H

#include <stdint.h>

extern const uint16_t weir__grid_iq2_xxs[256], weir__grid_iq2_xs[512],
	weir__grid_iq2_s[1024], weir__grid_iq1[2048], weir__grid_iq3_xxs[256],
	weir__grid_iq3_s[512];

#endif
