/* SPDX-License-Identifier: MIT */
/*
 * A team of threads that compute together: the thread that starts a run, and
 * threads of the library, started when they are needed first; or those of a
 * function of the program (struct weir_threads). The threads of a run are its
 * members.
 */
#ifndef WEIR__TEAM_H
#define WEIR__TEAM_H

#include <weir/backend.h>

#define WEIR__TEAM_MAX 1024u /* threads */

struct weir__team;

/* What a member does: number @index of @count members. */
typedef void weir__team_fn(void *arg, unsigned index, unsigned count);

/* Part number @part of @parts equal parts. */
struct weir__share {
	unsigned part, parts;
};
/* Return how many of @all things are in this part, at least 1. */
unsigned weir__share_of(struct weir__share share, unsigned all);

/*
 * Make a team. @share says which part of the CPUs is its own, since several
 * teams divide them. @weir is for lines of its log. Fails with -ENOMEM and a
 * sentence.
 */
int weir__team_new(struct weir *weir, const struct weir_threads *threads,
		   struct weir__share share, struct weir__team **ret);
/*
 * End the threads and free the team. No run may be under way. NULL is allowed.
 */
void weir__team_free(struct weir__team *team);
/*
 * Use other threads from the next run on, as weir_dev_set_threads() says. Waits
 * for the runs that have begun. Fails with -EINVAL or -ENOMEM and a sentence.
 */
int weir__team_set(struct weir__team *team, const struct weir_threads *threads);
/* Return the most members that a run may have now. */
unsigned weir__team_size(struct weir__team *team);
/*
 * Run @fn on all members at once, at most @most of them (0 is any number), and
 * return when all have returned. The calling thread may be one of them. There
 * are fewer members, at least one, if threads cannot be started or the
 * program's function does not run them at once. Only one run is under way at a
 * time: others wait.
 */
void weir__team_run(struct weir__team *team, unsigned most, weir__team_fn *fn,
		    void *arg);
/*
 * Each member calls it from @fn: wait until all members have arrived. What they
 * wrote before is then visible to all.
 */
void weir__team_barrier(struct weir__team *team);

#endif
