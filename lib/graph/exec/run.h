/* SPDX-License-Identifier: MIT */
/*
 * Runs from the inside. One thread at a time calls the functions of run.c and
 * start.c; once a run is started, advance.c moves its lanes on threads of the
 * library, each lane by one thread at a time.
 */
#ifndef WEIR__GRAPH_RUN_H
#define WEIR__GRAPH_RUN_H

#include "core/timeline.h"
#include "graph/exec/progress.h"
#include "graph/exec/sched.h"
#include "stream/stream.h"

struct weir__pending { /* what a lane waits for before a sync point */
	struct weir__timeline *timeline; /* referenced; NULL: nothing */
	uint64_t number;
};

enum weir__input_state {
	WEIR__INPUT_UNSET,
	WEIR__INPUT_SET,   /* its bytes were copied */
	WEIR__INPUT_QUEUED /* copies are queued in the lanes' own streams */
};

/* The part of a run on one device. */
struct weir__run_lane {
	struct weir_run *run;
	struct weir__graph_lane *of;
	struct weir_stream *own;    /* a stream of the scheduler's, or NULL */
	struct weir_stream *stream; /* referenced: where it was started last */
	uint64_t number;            /* of its operation there */

	/* What its operation accesses, by address; and memory lent to it. */
	struct weir__accessed *accessed;
	struct weir__access *access;
	struct weir__range *range;
	size_t n_accessed;

	/* Number @base + s: s steps are computed. Replaced after a failure. */
	struct weir__progress *progress; /* referenced */
	uint64_t base;
	struct weir__prefetch prefetch; /* timeline NULL: not started */

	/* From start to end of the thread that moves the lane. */
	struct weir__stream_op *op;
	struct weir_backend_compute compute;
	uint32_t until;     /* step after the part that is run */
	uint32_t points;    /* number of sync points before its end */
	uint32_t step, end; /* of the range; after it */
	uint32_t point;     /* the next one */
	/*
	 * Of each sync point, then of the copies of inputs in each lane's
	 * stream.
	 */
	struct weir__pending *pending;
	struct weir__waiter waiter;
	int64_t begun; /* of what it does now */
	bool ended;    /* by itself: its operation is finished */

	struct weir__pending *waiting; /* @waiter is on its list; NULL; under
					  the run's lock */
};

/* A stream whose work a run of several lanes waits for at its end. */
struct weir__run_stream {
	struct weir__waiter waiter;
	struct weir_run *run;
	struct weir__timeline *timeline; /* referenced */
	uint64_t number;
};

/*
 * new ----> started ----> ended
 *              ^------------'
 * started: weir_run_start() or weir_stream_compute() has queued an operation
 * for each lane. ended: all operations are gone (weir__run_lane_gone): each has
 * been computed, has failed, was cancelled, or never began because its stream
 * had failed. With several lanes the copies between them have ended too.
 */
struct weir_run {
	_Atomic uint32_t refs;  /* the program's, and those of operations */
	struct weir_exec *exec; /* referenced */
	struct weir__compiled *compiled;
	uint32_t copy;
	struct weir__run_lane *lane; /* n_lanes of the compiled graph */
	uint32_t started;            /* how often */
	uint32_t first;              /* node with which its part begins */
	uint8_t *input;              /* of each port: enum weir__input_state */
	bool queued; /* copies of inputs were queued when it was started */
	_Atomic uint32_t running; /* operations, and the end, that are open */
	uint32_t stop;            /* atomic: 1: begin nothing any more */

	/*
	 * Where its newest end is recorded: that of its only operation, or
	 * @end.
	 */
	struct weir__timeline
		*end_timeline; /* referenced; NULL: never started */
	uint64_t end_number;

	/* Of several lanes. */
	struct weir__progress *end; /* referenced; its numbers are starts */
	struct weir_stream *
		*copier;  /* of each of the compiled graph's; NULL: not yet */
	uint64_t *copied; /* of each device copy: number of its copy */
	struct weir__run_stream *awaited; /* lanes, then copiers */
	_Atomic uint32_t open_streams;    /* that have not ended */

	pthread_mutex_t lock; /* guards what follows; timeline->lock inside */
	struct weir_failure failure; /* the first one of this start */
	int64_t started_at;
	int64_t ended_at; /* of the last part that has ended; see running */
	struct weir_run_report report;
};

/*
 * advance.c: start() of the lane's operation. The thread that calls it moves
 * the lane.
 */
void weir__run_lane_begin(struct weir__stream_op *op);
/* gone() of the lane's operation. @lane is a struct weir__run_lane. */
void weir__run_lane_gone(void *lane);
/* Begin no further operation, and end all waits of lanes. */
void weir__run_stop(struct weir_run *run);
/*
 * Let the run of several lanes end when all its operations and copies have
 * ended.
 */
void weir__run_await_streams(struct weir_run *run);

/* run.c */
void weir__run_put(struct weir_run *run);
/* Make the timeline of a lane's steps, and that of a run's ends. */
int weir__run_lane_progress_new(struct weir__run_lane *lane,
				struct weir__progress **ret);
int weir__run_end_progress_new(struct weir_run *run,
			       struct weir__progress **ret);
/* Drop what the lane waits for. */
void weir__run_lane_drop_pending(struct weir__run_lane *lane);
/* Set the state of the inputs whose copies were queued to @now. */
void weir__run_set_queued_inputs(struct weir_run *run,
				 enum weir__input_state now);
/* Give the lane a stream of its own that has not failed. */
int weir__run_lane_own_stream(struct weir__run_lane *lane);
/* The tensor of port @i in the run's memory. */
struct weir_tensor weir__run_port(const struct weir_run *run, uint32_t i);

#endif
