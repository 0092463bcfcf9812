/* SPDX-License-Identifier: MIT */
/* The options --slice and --rank. */
#ifndef TOOLS_SLICES_H
#define TOOLS_SLICES_H

#include <stdint.h>
#include <weir.h>
#include "args.h"

/*
 * Parse optarg, the value of --slice: GLOB:DIM, for which slice->n is < 0, or
 * GLOB:DIM:START+N. Leaves GLOB in optarg. Returns 0 or EXIT_USAGE.
 */
int slice_take(const struct args *args, struct weir_slice *slice);
/* Parse optarg, the value of --rank: R/N. Returns 0 or EXIT_USAGE. */
int rank_take(const struct args *args, uint32_t *ret_rank, uint32_t *ret_ranks);

#endif
