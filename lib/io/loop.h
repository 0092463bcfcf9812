/* SPDX-License-Identifier: MIT */
/*
 * The part of a reactor that only its owner may use: the state of its loop.
 * Only the thread that owns the reactor (owner.h) may access it or call a
 * function that takes it. So a function with a struct weir__loop runs as owner,
 * and one that has only a struct weir__reactor may run on any thread.
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
	bool thread_needed; /* there is work that only the thread may do */
	bool polling;       /* the thread sleeps only until copies have to be
			       polled */

	/* A circular list, served round robin: last_job->next is first. */
	struct weir__job_link *last_job;
	unsigned n_jobs;

	struct weir__op *ops;     /* all */
	struct weir__op *free;    /* all that are FREE */
	unsigned n_ops;           /* the most; the method may lower it */
	unsigned n_tracks;        /* tracks of a trace */
	unsigned n_out;           /* ops that are neither FREE nor ORPHANED */
	unsigned n_caller_copies; /* in flight, of jobs with submit_copy */
	unsigned n_at_source;     /* at sources, orphaned ones too */
	uint64_t bytes_out;       /* being read or written, not by sources */

	/* Of reads that sources have and that are not orphaned. */
	unsigned n_remote, n_remote_slots;
	uint64_t bytes_remote;

	const struct weir__method_ops *method_ops;
	void *method; /* the method's state */

	int64_t pause;        /* until devices are polled again, ns */
	int64_t clock;        /* the time, at most max_sleep ago */
	int64_t late_checked; /* when late reads were last looked for */
};

#endif
