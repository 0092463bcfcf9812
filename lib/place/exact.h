/* SPDX-License-Identifier: MIT */
/*
 * Exact placement of buffers whose lifetimes are known: it finds the offsets
 * that make the memory as small as possible, or that fit into a capacity.
 *
 * The search is any-time: it begins with the caller's placement, keeps the best
 * that it finds, and can be ended at any moment. README.md has the algorithm.
 */
#ifndef WEIR__EXACT_H
#define WEIR__EXACT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * More items whose lifetimes are connected are not searched: they keep the
 * caller's placement. This bounds the table of overlaps (2 MiB) and the depth
 * of the recursion (less than 1 MiB of stack).
 */
#define WEIR__EXACT_ITEMS 4096

struct weir__exact_item {
	int64_t lower, upper; /* alive in [lower, upper); lower < upper */
	uint64_t bytes;       /* 0: takes no place, its offset is left alone */
	uint64_t align;       /* alignment of the offset, any number; 0 is 1 */
	/*
	 * 1 + the item that takes its place, or 0. That one comes later in the
	 * list, begins where this one ends, and has no more bytes and the same
	 * alignment; neither has 0 bytes.
	 */
	size_t next;
};

struct weir__exact_opts {
	uint64_t capacity; /* the height to reach; 0: minimise */
	int64_t deadline;  /* time of weir__now(); INT64_MAX: none */
	unsigned threads;  /* 0 is 1; the caller's thread is one of them */
	const _Atomic bool *stop; /* true ends the search; or NULL */
};

struct weir__exact_result {
	uint64_t height; /* height of the placement in @offsets */
	uint64_t bound;  /* no placement is lower than this */
	bool proved;     /* height == bound, or: bound is over the capacity */
	uint64_t nodes;  /* nodes that all threads visited together */
};

/*
 * Search for a lower placement. @offsets is a valid placement when this is
 * called, for instance that of the greedy planner, and the best known placement
 * when it returns. Blocks until the height is proved, the capacity is reached
 * or proved too small, the deadline has passed or @stop is true. The search
 * checks the last two every few microseconds.
 *
 * -EINVAL: an item's lifetime is empty. -EOVERFLOW: items alive together have
 * 2^62 bytes or more. -ENOMEM. @offsets is then unchanged.
 */
int weir__exact_place(const struct weir__exact_item *items, size_t n,
		      const struct weir__exact_opts *opts, uint64_t *offsets,
		      struct weir__exact_result *ret);

#endif
