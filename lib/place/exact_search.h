/* SPDX-License-Identifier: MIT */
/*
 * One thread's search for a placement of a part under a height. README.md has
 * the algorithm.
 */
#ifndef WEIR__EXACT_SEARCH_H
#define WEIR__EXACT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "place/exact_part.h"

/* The est of a placed item: no rule applies to it. */
#define WEIR__EXACT_PLACED (INT64_MAX / 2)

/* The number of strategies that choose the next item: exact_order.c. */
#define WEIR__EXACT_STRATEGIES 4

enum weir__exact_outcome {
	WEIR__EXACT_FOUND, /* every item has its offset in @off */
	WEIR__EXACT_NEVER, /* proved: no placement is that low */
	WEIR__EXACT_ENDED, /* the budget, the time or the memory is used up */
};

/* The state of an item before a change. */
struct weir__exact_undo {
	uint32_t item;
	bool placed; /* the change was that it was placed */
	int64_t est, sky;
};

/* Two hashes of a state from which no placement was found. */
struct weir__exact_dead {
	uint64_t a, b;
};

/* Sort keys of an item; greater numbers come first. */
struct weir__exact_key {
	double key[3];
	uint32_t item;
};

/* The parameters of one call of the search. */
struct weir__exact_try {
	int64_t cap;       /* units: the height that is allowed */
	uint64_t budget;   /* nodes */
	unsigned strategy; /* < WEIR__EXACT_STRATEGIES */
};

/*
 * An item that is not placed yet is open. Its sky is the lowest offset above
 * all placed items that it overlaps. Its est, the earliest start, is the lowest
 * offset that it can have: its sky, or more if it is late, which means that
 * another open item will be placed below it: the search has decided so, or has
 * proved it.
 */
struct weir__exact_search {
	const struct weir__exact_part *part;
	int64_t cap;
	int64_t *est, *sky, *off; /* of each item */
	uint32_t *rank;           /* of each item; low ones come first */
	uint64_t *open, *late;    /* sets of items */
	uint64_t *wake;           /* late items whose est may rise */
	uint64_t *dirty;          /* cliques to be examined */
	int64_t *total;           /* of each clique: sizes of its open items */
	double *weight;           /* of each clique: how often it failed, */
	double *weights;          /* by strategy; @weight is one row of it */
	uint32_t *cut;            /* open items in both clique c - 1 and c */
	double step[WEIR__EXACT_STRATEGIES]; /* what a failure adds */
	unsigned strategy;
	bool lost;                /* the log is incomplete, or time is over */
	bool by_slack, by_height; /* the strategy; exact_order.c */

	struct weir__exact_undo *undo; /* a log, of n_undo changes */
	size_t n_undo, cap_undo;

	struct weir__exact_dead *dead; /* by hash */
	uint32_t dead_mask;

	/* For one clique or order at a time. */
	struct weir__exact_key *key;
	uint32_t *clique_item;
	int64_t *clique_est, *clique_top;

	uint64_t nodes, last_node; /* of all calls */
	bool (*ended)(void *arg);
	void *arg;
};

/* @ended is asked at each node whether the search has to end. */
int weir__exact_search_new(const struct weir__exact_part *part,
			   bool (*ended)(void *arg), void *arg,
			   struct weir__exact_search *ret);
void weir__exact_search_free(struct weir__exact_search *s);
/* Uses the weights and dead states that earlier calls have found. */
enum weir__exact_outcome
weir__exact_search_run(struct weir__exact_search *s,
		       const struct weir__exact_try *try);

/* exact_state.c: changes, and their log. */
void weir__exact_state_begin(struct weir__exact_search *s);
void weir__exact_raise(struct weir__exact_search *s, uint32_t i, int64_t est);
void weir__exact_put(struct weir__exact_search *s, uint32_t i);
void weir__exact_undo_to(struct weir__exact_search *s, size_t mark);

/*
 * exact_bounds.c: raise what must be raised after changes. False: the state
 * leads to no placement, or the search is lost.
 */
bool weir__exact_settle(struct weir__exact_search *s);

/* exact_order.c */
void weir__exact_order(struct weir__exact_search *s,
		       const struct weir__exact_try *try);
/*
 * The open item to place next in cliques [lo, hi), or WEIR__EXACT_NONE. No open
 * item fits below it, and it is not late.
 */
uint32_t weir__exact_choose(struct weir__exact_search *s, uint32_t lo,
			    uint32_t hi);

#endif
