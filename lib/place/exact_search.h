/* SPDX-License-Identifier: MIT */
/*
 * One thread's search for a placement of a component below a height. README.md
 * has the algorithm.
 */
#ifndef WEIR__EXACT_SEARCH_H
#define WEIR__EXACT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "place/exact_component.h"

/* The number of strategies that choose the next item. */
#define WEIR__EXACT_STRATEGIES 4

enum weir__exact_outcome {
	WEIR__EXACT_FOUND, /* every item has its offset */
	WEIR__EXACT_NEVER, /* proved: no placement is that low */
	WEIR__EXACT_ENDED, /* the budget, the time or the memory is used up */
};

/* The parameters of one call of the search. */
struct weir__exact_try {
	int64_t cap;       /* units: the height that is allowed */
	uint64_t budget;   /* nodes */
	unsigned strategy; /* < WEIR__EXACT_STRATEGIES */
};

/* The search of one thread in one component. */
struct weir__exact_search;

/* @ended is asked at each node whether the search has to end. */
int weir__exact_search_new(const struct weir__exact_component *component,
			   bool (*ended)(void *arg), void *arg,
			   struct weir__exact_search **ret);
/* NULL is allowed. */
void weir__exact_search_free(struct weir__exact_search *s);
/*
 * Search once, with the weights and nogoods that earlier calls have learned.
 * *ret_nodes is the number of nodes that were visited.
 */
enum weir__exact_outcome
weir__exact_search_run(struct weir__exact_search *s,
		       const struct weir__exact_try *try, uint64_t *ret_nodes);
/* The offset of each item, after FOUND. Valid until the next call. */
const int64_t *weir__exact_search_offsets(const struct weir__exact_search *s);

#endif
