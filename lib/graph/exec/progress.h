/* SPDX-License-Identifier: MIT */
/*
 * A timeline whose numbers are completed in their order by one thread at a
 * time: the steps that a lane of a run has computed, or the ends of a run. It
 * fails once, with all numbers that are not done; after that nothing more is
 * done.
 */
#ifndef WEIR__GRAPH_PROGRESS_H
#define WEIR__GRAPH_PROGRESS_H

#include "core/timeline.h"

struct weir__progress {
	struct weir__timeline timeline; /* first member */
	_Atomic uint64_t done;
	_Atomic bool failed;
	struct weir_failure failure; /* written before @failed */
};

/*
 * One reference, to @tl. For the race checker it is an actor, "the run on @on",
 * whose numbers are each a @unit; NULL: none. -ENOMEM.
 */
int weir__progress_new(struct weir *weir, const char *on, const char *unit,
		       struct weir__progress **ret);
/* Numbers up to @number are done. No effect if higher ones are. Any thread. */
void weir__progress_to(struct weir__progress *p, uint64_t number);
/* All others have failed. Only the first failure counts. */
void weir__progress_fail(struct weir__progress *p,
			 const struct weir_failure *f);

#endif
