/* SPDX-License-Identifier: MIT */
/* Branch and bound: does a part fit below a height? README.md has the idea. */
#ifndef WEIR__EXACT_SEARCH_H
#define WEIR__EXACT_SEARCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "place/exact_part.h"

/* An item's bounds, or its placement (est is then EXACT_PLACED), to undo. */
struct weir__exact_undo {
	uint32_t item;
	bool placed;
	int64_t est, sky;
};

#define WEIR__EXACT_STRATEGIES 6

/* What an item is sorted by; greater numbers come first. */
struct weir__exact_key {
	double key[3];
	uint32_t item;
};

enum weir__exact_outcome {
	WEIR__EXACT_FOUND, /* every item has its offset in @off */
	WEIR__EXACT_NEVER, /* proved: no placement has this height */
	WEIR__EXACT_ENDED, /* the budget or time is used up */
};

/*
 * The state of one thread's search in one part. Numbers are units.
 *
 * An item that is not placed yet is open. Its sky is the lowest offset above
 * all placed items that it overlaps. Its est, the earliest start, is the lowest
 * offset that it can have: sky, or more if it is late, that is if the search
 * has decided, or has proved, that another open item comes below it.
 */
struct weir__exact_search {
	const struct weir__exact_part *part;
	int64_t cap;
	int64_t *est, *sky, *off;
	int64_t *total;  /* of each section: size of its open items */
	uint32_t *cut;   /* open items that are in sections s - 1 and s */
	uint64_t *open;  /* set of items */
	uint64_t *late;  /* set of items */
	uint64_t *wake;  /* late items whose bounds may rise */
	uint64_t *dirty; /* sections to be examined */
	uint32_t *rank;  /* of each item: low ones are placed first */
	struct weir__exact_key *key; /* to compute @rank */
	double *weight;              /* of each section: how often it failed */
	double step;
	uint32_t *scratch;
	int64_t *scratch_est, *scratch_top;
	struct weir__exact_undo *undo;
	size_t n_undo, cap_undo;
	uint64_t nodes, budget;
	bool lost; /* no memory to undo the last steps */
	int mode;
	bool (*ended)(void *arg);
	void *arg;
};

int weir__exact_search_new(const struct weir__exact_part *part,
			   struct weir__exact_search *ret);
void weir__exact_search_free(struct weir__exact_search *s);
enum weir__exact_outcome weir__exact_search_run(struct weir__exact_search *s,
						unsigned strategy, int64_t cap,
						uint64_t budget);

/* exact_bounds.c */
void weir__exact_raise(struct weir__exact_search *s, uint32_t i, int64_t est);
void weir__exact_put(struct weir__exact_search *s, uint32_t i);
bool weir__exact_settle(struct weir__exact_search *s);
void weir__exact_undo_to(struct weir__exact_search *s, size_t mark);
#endif
