/* SPDX-License-Identifier: MIT */
/* Computes the offsets of pieces: sections, both planners, several buffers. */
#ifndef WEIR__PLACE_PLANNER_H
#define WEIR__PLACE_PLANNER_H

#include "place/pieces.h"

struct weir__planned {
	uint64_t height; /* where the highest piece ends */
	uint64_t bound;  /* no placement is lower */
	uint64_t nodes;  /* that the exact search visited */
};

struct weir__planning {
	uint64_t enough;   /* the search ends when they fit it; 0: none */
	uint64_t capacity; /* it also ends when they cannot fit this; 0: none */
	uint64_t max;      /* largest buffer; 0: none */
	int64_t deadline;  /* of weir__now(); 0: no exact search */
	unsigned threads;
};

/*
 * Set the offset of each piece. If the height exceeds the largest buffer, no
 * piece crosses a multiple of p->chunk. -ENOMEM. A piece may not be larger than
 * the largest buffer.
 */
int weir__pieces_plan(struct weir__pieces *p, const struct weir__planning *how,
		      struct weir__planned *ret_planned);

#endif
