/* SPDX-License-Identifier: MIT */
/*
 * Boxes that were placed, by address. A gap is found by examining all of them,
 * which takes linear time, but needs no list of the pairs that conflict.
 */
#ifndef WEIR__PLACE_SCAN_H
#define WEIR__PLACE_SCAN_H

#include "place/field.h"

struct weir__scan_block;

struct weir__scan {
	struct weir__scan_block *block;
	uint32_t *order; /* of blocks, by address */
	size_t n_blocks;
	uint64_t examined; /* boxes, in all calls */
};

enum weir__fit {
	WEIR__FIT_FIRST, /* the lowest gap that is large enough */
	WEIR__FIT_BEST,  /* the one that leaves the least */
};

/* For at most @n boxes. -ENOMEM with a sentence. */
int weir__scan_init(struct weir__scan *s, size_t n);
void weir__scan_free(struct weir__scan *s);
void weir__scan_clear(struct weir__scan *s);
/* A place for @bytes during the life of box @b, from @lowest on. */
uint64_t weir__scan_gap(struct weir__scan *s, const struct weir__pieces *p,
			const struct weir__box *b, uint64_t bytes,
			uint64_t align, uint64_t lowest, enum weir__fit fit);
/* Box @b was placed at @at. */
void weir__scan_add(struct weir__scan *s, const struct weir__box *b,
		    uint64_t at);

#endif
