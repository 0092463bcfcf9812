/* SPDX-License-Identifier: MIT */
/* Placements, for tests. They bail out rather than fail. */
#ifndef T_PLACED_H
#define T_PLACED_H

#include <weir.h>

/* Place items in one memory; NULL: one without a capacity. */
struct weir_placement *placed(const struct weir_lifetime *items, size_t n,
			      const struct weir_place_memory *memory);
/* Facts about memory 0. */
struct weir_placement_info placed_info(const struct weir_placement *p);

#endif
