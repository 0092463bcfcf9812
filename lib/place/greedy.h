/* SPDX-License-Identifier: MIT */
/*
 * The greedy planner. It places the pieces of a section one after another, in
 * several orders, until the height is the lower bound or its steps are used up.
 */
#ifndef WEIR__PLACE_GREEDY_H
#define WEIR__PLACE_GREEDY_H

#include "core/util.h"
#include "place/pieces.h"

/*
 * Pieces that are connected in time: a gap in which no piece lives separates
 * sections. The pieces that live as long as a whole section are placed below
 * it, and what remains is separated again.
 */
struct weir__section {
	uint32_t *piece; /* n numbers of pieces, by lower; linked ones too */
	size_t n;
	uint64_t base;   /* where the section begins */
	uint64_t height; /* where its highest piece ends: absolute */
	uint64_t bound;  /* no placement is lower: absolute */
	bool searched;   /* by the exact planner, as long as it could */
};

/*
 * Place the pieces of the section from its base on: sets their offsets, and its
 * height. Stops as soon as the height is at most @enough. -ENOMEM.
 */
int weir__greedy_place(struct weir__pieces *p, struct weir__section *s,
		       uint64_t enough);

/*
 * The lowest aligned offset from @at on at which @bytes cross no multiple of
 * p->chunk.
 */
static inline uint64_t weir__pieces_fit(const struct weir__pieces *p,
					uint64_t at, uint64_t bytes,
					uint64_t align)
{
	at = weir__up(at, align);
	if (p->chunk && at / p->chunk != (at + bytes - 1) / p->chunk)
		at = (at / p->chunk + 1) * p->chunk;
	return at;
}

#endif
