/* SPDX-License-Identifier: MIT */
/*
 * Free ranges of addresses, by address: a treap in which each node has the
 * longest gap of its subtree. All calls take logarithmic time.
 */
#ifndef WEIR__PLACE_GAPS_H
#define WEIR__PLACE_GAPS_H

#include <stddef.h>
#include <stdint.h>

struct weir__gap {
	uint64_t at, end;
	uint64_t longest; /* of its subtree */
	uint32_t left, right, rank;
};

struct weir__gaps {
	struct weir__gap *gap; /* 0 is no gap */
	uint32_t root, unused; /* unused ones are linked by right */
	uint64_t chunk;        /* no gap crosses a multiple; 0: may */
	uint64_t top;          /* gaps are below */
};

/*
 * All from @base on is free, for at most @n ranges in use at a time. -ENOMEM
 * without a sentence.
 */
int weir__gaps_init(struct weir__gaps *g, size_t n, uint64_t base,
		    uint64_t chunk);
void weir__gaps_free(struct weir__gaps *g);
/*
 * Take @bytes from the lowest gap that has room for them wherever it begins: a
 * multiple of @unit, as all sizes are.
 */
uint64_t weir__gaps_take(struct weir__gaps *g, uint64_t bytes, uint64_t align,
			 uint64_t unit);
/* Give back what was taken. */
void weir__gaps_give(struct weir__gaps *g, uint64_t at, uint64_t end);

#endif
