/* SPDX-License-Identifier: MIT */
/*
 * Items of one memory as the planners see them: rectangles in the plane of time
 * and addresses. Items that take one another's place are one rectangle as long
 * as their sizes are equal. A smaller one begins a new rectangle, which is
 * linked by next and has the same offset.
 */
#ifndef WEIR__PLACE_RECTS_H
#define WEIR__PLACE_RECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/placement.h>

#include "core/util.h"

#define WEIR__NO_RECT UINT32_MAX

struct weir__rect {
	int64_t lower, upper;
	uint64_t bytes, align; /* > 0; bytes is a multiple of the unit */
	uint64_t offset;       /* the result */
	uint32_t next;         /* begins where this one ends, not larger */
	uint32_t index; /* place in its section, set by the greedy planner */
	bool follows;   /* it is the next of another rectangle */
};

struct weir__rects {
	struct weir__rect *rect;
	size_t n;
	uint64_t unit;     /* the least alignment: divides all sizes */
	uint64_t align;    /* the greatest alignment */
	uint64_t stride;   /* no rectangle crosses a multiple of it; 0: may */
	uint64_t n_items;  /* items of this memory, those without bytes too */
	uint64_t in_place; /* items that took another's place */
	uint64_t scan_budget; /* rectangles that scans may still examine */
};

/*
 * Check items and memories: -EINVAL, -ENOSPC or -EOVERFLOW with a sentence that
 * has the item's index. -ENOMEM.
 */
int weir__rects_check(const struct weir_lifetime *items, size_t n,
		      const struct weir_place_memory *memory,
		      unsigned n_memories);
/*
 * Make the rectangles of each memory, in ret_rects[0..n_memories), and find the
 * rectangle of each item (WEIR__NO_RECT: it has no bytes). The items were
 * checked.
 * -ENOMEM. weir__rects_free() frees the rectangles, after a failure too.
 */
int weir__rects_make(const struct weir_lifetime *items, size_t n,
		     const struct weir_place_memory *memory,
		     unsigned n_memories, struct weir__rects *ret_rects,
		     uint32_t *ret_rect_of);
void weir__rects_free(struct weir__rects *rects, unsigned n_memories);

/*
 * The lowest aligned offset from @at on at which @bytes cross no multiple of
 * p->stride.
 */
static inline uint64_t weir__rects_fit(const struct weir__rects *p, uint64_t at,
				       uint64_t bytes, uint64_t align)
{
	at = weir__up(at, align);
	if (p->stride && at / p->stride != (at + bytes - 1) / p->stride)
		at = (at / p->stride + 1) * p->stride;
	return at;
}

#endif
