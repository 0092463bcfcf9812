/* SPDX-License-Identifier: MIT */
/*
 * The greedy planner. It places the rectangles of a section one after another,
 * in several orders, until the height is the lower bound or its steps are used
 * up.
 */
#ifndef WEIR__PLACE_GREEDY_H
#define WEIR__PLACE_GREEDY_H

#include "place/rects.h"

/*
 * Rectangles that are connected in time: between two sections there is a moment
 * at which none lives. The rectangles that live as long as a whole section are
 * placed below it, and the others are separated again.
 */
struct weir__section {
	uint32_t *rect; /* indices of n rectangles, by lower; linked ones too */
	size_t n;
	uint64_t base;   /* where the section begins */
	uint64_t height; /* where its highest rectangle ends: absolute */
	uint64_t bound;  /* no placement is lower: absolute */
	bool searched;   /* the exact planner has minimised it */
};

/*
 * Place the rectangles of the section from its base on: set their offsets, and
 * the height of the section. Stops as soon as the height is at most @enough.
 * -ENOMEM.
 */
int weir__greedy_place(struct weir__rects *p, struct weir__section *s,
		       uint64_t enough);

#endif
