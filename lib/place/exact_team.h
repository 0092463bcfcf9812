/* SPDX-License-Identifier: MIT */
/*
 * The threads of one exact placement: each takes the next try, a height and a
 * strategy, and searches on its own; what it finds is shared.
 */
#ifndef WEIR__EXACT_TEAM_H
#define WEIR__EXACT_TEAM_H

#include <pthread.h>

#include "place/exact_search.h"

/* The results for one part so far, in units. */
struct weir__exact_side {
	int64_t lower;  /* proved: no placement is lower */
	int64_t height; /* of the best placement */
	int64_t *off;   /* of each item in it; or NULL: the caller's offsets */
};

struct weir__exact_team {
	const struct weir__exact_opts *opts;
	struct weir__exact_parts parts;
	int64_t enough; /* units: the capacity, if there is one */
	atomic_bool over;

	pthread_mutex_t lock;          /* for the members below */
	struct weir__exact_side *side; /* of each part */
	int64_t step;                  /* from the height to the next goal */
	uint64_t tries[2];             /* at the end, and at goals */
	uint64_t nodes;
};

/* The largest bound of all parts. */
int64_t weir__exact_lower(const struct weir__exact_team *team);

/*
 * Search, in opts->threads threads, until the result is known or the search has
 * to end. -ENOMEM: nothing could be searched.
 */
int weir__exact_team_run(struct weir__exact_team *team);

#endif
