/* SPDX-License-Identifier: MIT */
/*
 * Simulated allocators, which weir's heaps are compared with: they compute
 * where blocks would be, without memory.
 */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

#include <stdbool.h>
#include <stdint.h>

struct calls;

enum fit_rules {
	/*
	 * Exact best fit in one range: of the free blocks that are large
	 * enough the smallest is used, of equal ones the lowest. Sizes are
	 * rounded up to 256 bytes.
	 */
	FIT_BEST,
	/*
	 * The rules of PyTorch's caching allocator, with its default settings:
	 * see README.md.
	 */
	FIT_TORCH
};

struct fit_result {
	uint64_t height; /* FIT_BEST: end of the highest block; FIT_TORCH: most
			    bytes of segments at a time */
	bool fits;       /* false: a call found no memory */
};

/* Replay @c in @capacity bytes (UINT64_MAX: no limit). */
struct fit_result fit_replay(const struct calls *c, enum fit_rules rules,
			     uint64_t capacity);

/*
 * The fewest bytes in which @fits(@arg, bytes) is true, found by bisection
 * between @low and @high, to a thousandth of @low.
 */
uint64_t fit_least(bool (*fits)(void *arg, uint64_t bytes), void *arg,
		   uint64_t low, uint64_t high);

#endif
