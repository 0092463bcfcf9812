/* SPDX-License-Identifier: MIT */
/*
 * How far ahead of their use the rows of a matrix are prefetched by instructions.
 * On some CPUs that is faster, on others the hardware's own prefetchers are better
 * alone. The first products of the process measure it on the weights that they
 * multiply: each compares two halves of some rows, one of them prefetched, and the
 * faster half gets a vote. Opening a device costs nothing, and results do not
 * depend on the outcome. Rows are prefetched if nearly all votes are for it: at the
 * begin of a half the hardware's prefetchers have not started yet, so halves favour
 * the instructions.
 */
#ifndef WEIR__AHEAD_H
#define WEIR__AHEAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__AHEAD 2048u                     /* bytes; the alternative is 0 */
#define WEIR__AHEAD_VOTES 255u                /* decide */
#define WEIR__AHEAD_ENOUGH 240u               /* of them */
#define WEIR__AHEAD_LEAST ((size_t)16u << 10) /* bytes of rows to compare */

/* A measurement; a new one is zeroed. Any thread may call. */
struct weir__ahead {
	_Atomic uint32_t votes; /* all of them */
	_Atomic uint32_t
		prefetched; /* those for the half that was prefetched */
};

/* Whether votes are still counted. */
static inline bool weir__ahead_measures(struct weir__ahead *a)
{
	return atomic_load_explicit(&a->votes, memory_order_relaxed) <
	       WEIR__AHEAD_VOTES;
}

/* Whether the first half is the one to prefetch: every other time. */
static inline bool weir__ahead_first(struct weir__ahead *a)
{
	return atomic_load_explicit(&a->votes, memory_order_relaxed) % 2;
}

static inline void weir__ahead_vote(struct weir__ahead *a, bool prefetched)
{
	/* In this order: whoever sees all votes sees whom they were for. */
	if (prefetched)
		atomic_fetch_add_explicit(&a->prefetched, 1,
					  memory_order_relaxed);
	atomic_fetch_add_explicit(&a->votes, 1, memory_order_release);
}

/* The bytes to prefetch ahead: 0 while votes are counted. */
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
