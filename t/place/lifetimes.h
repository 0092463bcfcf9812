/* SPDX-License-Identifier: MIT */
/*
 * Lifetimes of several kinds, from a fixed seed, and the simple heuristics with
 * which the greedy planner is compared. One thread.
 */
#ifndef T_LIFETIMES_H
#define T_LIFETIMES_H

#include <stdbool.h>

#include <weir/placement.h>

enum lifetimes {
	LIVES_HALVES, /* half of them long, half of them short */
	LIVES_SHORT,
	LIVES_NESTED,
	LIVES_STAIRS, /* all equally long, one after another */
	LIVES_LAYERS, /* short, but one of a layer that lives to the end */
	LIVES_RANDOM,
	LIVES_POWERS, /* sizes are powers of two */
	LIVES_MIXED,  /* lengths of all orders of magnitude */
	LIVES_ENDS,   /* from the beginning, or to the end */
	N_LIVES,
};

const char *lifetimes_name(enum lifetimes kind);
/* Fill in @n items. */
void lifetimes_make(enum lifetimes kind, struct weir_lifetime *item, size_t n);

/* Orders in which items are placed: the greatest first. */
enum simple_order {
	SIMPLE_BYTES,
	SIMPLE_AREA,
	SIMPLE_TIME,
	N_SIMPLE,
};
/*
 * The height of a placement in that order, each item in the first gap that is
 * large enough, or in the @best. At most 20,000 items, whose alignment is 1.
 */
uint64_t simple_height(const struct weir_lifetime *item, size_t n,
		       enum simple_order order, bool best);
/* The height of weir's greedy planner, and its lower bound. Bails out. */
uint64_t greedy_height(const struct weir_lifetime *item, size_t n,
		       uint64_t *ret_bound);

#endif
