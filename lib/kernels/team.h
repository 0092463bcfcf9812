/* SPDX-License-Identifier: MIT */
/*
 * A team of threads that compute together: the thread that runs it, and threads
 * of the library, started when they are needed first; or those of a function of
 * the program (struct weir_threads).
 */
#ifndef WEIR__TEAM_H
#define WEIR__TEAM_H

#include <weir/backend.h>

#define WEIR__TEAM_MAX 1024u /* threads */

struct weir__team;

/* The part of a member: @index of @count, which is the same for all. */
typedef void weir__team_fn(void *arg, unsigned index, unsigned count);

/* One of several equal parts. */
struct weir__share {
	unsigned part, parts;
};
/* Its part of @all, at least 1. */
unsigned weir__share_of(struct weir__share share, unsigned all);

/*
 * @share: of the CPUs, which several teams divide. @weir is for lines of its
 * log. -ENOMEM with a sentence.
 */
int weir__team_new(struct weir *weir, const struct weir_threads *threads,
		   struct weir__share share, struct weir__team **ret);
/* Ends the threads. No run is under way. NULL is allowed. */
void weir__team_free(struct weir__team *team);
/*
 * As weir_dev_set_threads(): other threads from the next run on. Waits for the
 * runs that have begun. -EINVAL, -ENOMEM with a sentence.
 */
int weir__team_set(struct weir__team *team, const struct weir_threads *threads);
/* The most members that a run has now. */
unsigned weir__team_size(struct weir__team *team);
/*
 * Run @fn on all members at once, at most @most of them (0: any number), and
 * return when all have returned. The calling thread may be one of them. There
 * are fewer, at least one, if threads cannot be started or the program's
 * function does not run them at once. One run at a time: others wait.
 */
void weir__team_run(struct weir__team *team, unsigned most, weir__team_fn *fn,
		    void *arg);
/*
 * From @fn, by each member: wait until all members have arrived. What they wrote
 * before is then visible to all.
 */
void weir__team_barrier(struct weir__team *team);

#endif
