/* SPDX-License-Identifier: MIT */
/* Computes the offsets of rectangles, by both planners, in several buffers. */
#ifndef WEIR__PLACE_PLANNER_H
#define WEIR__PLACE_PLANNER_H

#include "place/rects.h"

struct weir__planner_result {
	uint64_t height; /* where the highest rectangle ends */
	uint64_t bound;  /* no placement is lower */
	uint64_t nodes;  /* nodes that the exact search visited */
};

struct weir__planner_opts {
	uint64_t enough;   /* the search ends when they fit it; 0: none */
	uint64_t capacity; /* it also ends when they cannot fit this; 0: none */
	uint64_t max;      /* largest buffer; 0: none */
	int64_t deadline;  /* time of weir__now(); 0: no exact search */
	unsigned threads;
};

/*
 * Set the offset of each rectangle. None may be larger than the largest buffer.
 * If the height exceeds that buffer, no rectangle crosses a multiple of
 * p->stride.
 * -ENOMEM.
 */
int weir__rects_place(struct weir__rects *p,
		      const struct weir__planner_opts *opts,
		      struct weir__planner_result *ret);

#endif
