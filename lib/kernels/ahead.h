/* SPDX-License-Identifier: MIT */
/*
 * Measures whether instructions should prefetch the rows of a matrix. On some
 * CPUs that is faster, on others the hardware's own prefetchers are better
 * alone. The first products of the process measure it on the weights that they
 * multiply: each compares two halves of some rows, one of them prefetched, and
 * the faster half gets a vote. So opening a device takes no time for it, and
 * results do not depend on the outcome. Rows are prefetched only if nearly all
 * votes are for it: at the beginning of a half the hardware's prefetchers have
 * not started yet, which favours the instructions.
 */
#ifndef WEIR__AHEAD_H
#define WEIR__AHEAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that rows are prefetched ahead of their use, if they are. */
#define WEIR__AHEAD 2048u
#define WEIR__AHEAD_VOTES 255u  /* the votes that decide */
#define WEIR__AHEAD_ENOUGH 240u /* the votes that prefetching needs */
#define WEIR__AHEAD_LEAST ((size_t)16u << 10) /* bytes of rows to compare */

/* A measurement, zeroed when it begins. Any thread may call these functions. */
struct weir__ahead {
	_Atomic uint32_t votes; /* all votes */
	_Atomic uint32_t
		prefetched; /* votes for the half that was prefetched */
};

/* True if votes are still counted. */
static inline bool weir__ahead_measures(struct weir__ahead *a)
{
	return atomic_load_explicit(&a->votes, memory_order_relaxed) <
	       WEIR__AHEAD_VOTES;
}

/* True if the first half is the one to prefetch: every other time. */
static inline bool weir__ahead_first(struct weir__ahead *a)
{
	return atomic_load_explicit(&a->votes, memory_order_relaxed) % 2;
}

static inline void weir__ahead_vote(struct weir__ahead *a, bool prefetched)
{
	/*
	 * In this order: a thread that sees all votes also sees all that were
	 * for it.
	 */
	if (prefetched)
		atomic_fetch_add_explicit(&a->prefetched, 1,
					  memory_order_relaxed);
	atomic_fetch_add_explicit(&a->votes, 1, memory_order_release);
}

/* Return how many bytes ahead to prefetch; 0 while votes are counted. */
static inline size_t weir__ahead_bytes(struct weir__ahead *a)
{
	uint32_t votes = atomic_load_explicit(&a->votes, memory_order_acquire);
	uint32_t for_it =
		atomic_load_explicit(&a->prefetched, memory_order_relaxed);

	return votes >= WEIR__AHEAD_VOTES && for_it >= WEIR__AHEAD_ENOUGH
		       ? WEIR__AHEAD
		       : 0;
}

#endif
