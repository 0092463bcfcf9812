/* SPDX-License-Identifier: MIT */
/*
 * Placing the rectangles of a section in the order of time, as an allocator
 * would: each one takes the lowest gap when it begins and gives it back when it
 * ends. It takes n log n steps, however many rectangles live at once.
 */
#ifndef WEIR__PLACE_SWEEP_H
#define WEIR__PLACE_SWEEP_H

#include "place/conflict_graph.h"

/*
 * Set the address ranges of all rectangles, from @base on. Linked rectangles
 * are treated as one of the size of the first. @backwards: from the last step
 * to the first. -ENOMEM.
 */
int weir__sweep(struct weir__conflict_graph *cg, const struct weir__rects *p,
		uint64_t base, bool backwards, uint64_t *ret_height);

#endif
