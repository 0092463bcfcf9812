/* SPDX-License-Identifier: MIT */
/*
 * A reactor as its owner sees it: the state of its loop. Only the thread that
 * owns the reactor (owner.h) may access it or call a function that takes it. So
 * a function that has a struct weir__loop runs as owner, and one that has only
 * a struct weir__reactor may run on any thread.
 */
#ifndef WEIR__IO_LOOP_H
#define WEIR__IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "io/reactor.h"

struct weir__method_ops;
struct weir__op;

struct weir__loop {
	struct weir__reactor reactor; /* the shared part; first member */

	/* Found in the inbox by a borrower; only the thread may handle them. */
	struct weir__msg *for_thread, **for_thread_end;
	bool thread_needed; /* there is something that only the thread may do */
	bool polling; /* the thread sleeps no longer than copies may wait */

	/* A circular list, served round robin: last_job->next is first. */
	struct weir__job_link *last_job;
	unsigned n_jobs;

	struct weir__op *ops;     /* all */
	struct weir__op *free;    /* those that are FREE */
	unsigned n_ops;           /* at most; the method may lower it */
	unsigned n_tracks;        /* rows of a trace */
	unsigned n_out;           /* ops that are neither FREE nor ORPHANED */
	unsigned n_caller_copies; /* in flight, of jobs with submit_copy */
	uint64_t bytes_out;       /* being read or written */

	const struct weir__method_ops *method_ops;
	void *method; /* the method's state */

	int64_t pause;        /* until devices are polled again, ns */
	int64_t clock;        /* now, at most a max_sleep ago */
	int64_t late_checked; /* when late reads were looked for last */
};

#endif
