/* SPDX-License-Identifier: MIT */
/*
 * Placing a field in the order of time, as an allocator would: each box into
 * the lowest gap when it begins, and back when it ends. It takes n log n steps,
 * however many boxes live at once.
 */
#ifndef WEIR__PLACE_SWEEP_H
#define WEIR__PLACE_SWEEP_H

#include "place/field.h"

/*
 * Set the spans of all boxes, from @base on; linked boxes are one of the size
 * of the first. @backwards: from the last step to the first. -ENOMEM.
 */
int weir__sweep(struct weir__field *f, const struct weir__pieces *p,
		uint64_t base, bool backwards, uint64_t *ret_height);

#endif
