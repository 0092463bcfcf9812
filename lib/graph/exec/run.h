/* SPDX-License-Identifier: MIT */
/*
 * Runs from the inside. One thread at a time calls the functions of run.c and
 * start.c. Once a run is started, advance.c moves its lanes on threads of the
 * library; one thread at a time holds a lane.
 */
#ifndef WEIR__GRAPH_RUN_H
#define WEIR__GRAPH_RUN_H

#include "core/timeline.h"
#include "graph/exec/progress.h"
#include "graph/exec/sched.h"
#include "stream/stream.h"

/* A wait of a lane at a sync point. */
struct weir__pending {
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
	struct weir_stream *own;    /* from the scheduler; NULL: none yet */
	struct weir_stream *stream; /* referenced: where it was started last */
	uint64_t number;            /* number of its operation there */

	/*
	 * The bytes that its operation accesses, sorted by address; and memory
	 * that is lent to the operation.
	 */
	struct weir__accessed *accessed;
	struct weir__access *access;
	struct weir__range *range;
	size_t n_accessed;
	size_t room; /* of each array: for placed imports too */

	/* Number @base + s is done when s steps are computed. */
	struct weir__progress *progress; /* referenced; renewed if it fails */
	uint64_t base;
	struct weir__prefetch prefetch; /* arrivals NULL: not started */

	/* From start to end these belong to the thread that holds the lane. */
	struct weir__stream_op *op;
	struct weir_backend_compute compute;
	uint32_t until;     /* the step after the last that is run */
	uint32_t points;    /* the sync point after the last that is run */
	uint32_t step, end; /* the steps [step, end) are computed now */
	uint32_t point;     /* the next sync point */
	/*
	 * What each sync point waits for, and then the copies of inputs that
	 * are queued in each lane's own stream.
	 */
	struct weir__pending *pending;
	struct weir__waiter waiter;
	int64_t begun; /* the time at which it began what it does now */
	bool ended;    /* it has an outcome */

	/* Under the run's lock: what @waiter waits for; NULL: nothing. */
	struct weir__pending *waiting;
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
	uint32_t copy;               /* which copy of the inputs it has */
	struct weir__run_lane *lane; /* n_lanes of the compiled graph */
	uint32_t started;            /* how many times */
	uint32_t first; /* the first node of the part that is run */
	uint8_t *input; /* enum weir__input_state of each port */
	bool queued;    /* copies of inputs were queued when it was started */
	/* Operations that have not finished; the end of several counts too. */
	_Atomic uint32_t running;
	uint32_t stop; /* atomic; 1: lanes begin nothing any more */

	/*
	 * The newest end is done or failed at this number: of the stream of the
	 * only lane, or of @end. The timeline is referenced; NULL: the run was
	 * never started.
	 */
	struct weir__timeline *end_timeline;
	uint64_t end_number;

	/* If there are several lanes. */
	struct weir__progress *end;  /* referenced; its numbers are starts */
	struct weir_stream **copier; /* stream of each copier; NULL: not yet */
	uint64_t *copied; /* number of each device copy in the stream */
	struct weir__run_stream *awaited; /* lanes, then copiers */
	_Atomic uint32_t open_streams;    /* how many of these have not ended */

	pthread_mutex_t lock; /* guards what follows; timeline->lock inside */
	struct weir_failure failure; /* the first one of this start */
	int64_t started_at;
	int64_t ended_at; /* when the last lane or stream ended; see running */
	struct weir_run_report report;
};

/*
 * advance.c: start() of the lane's operation. The thread that calls it holds
 * the lane.
 */
void weir__run_lane_begin(struct weir__stream_op *op);
/* gone() of the lane's operation. @lane is a struct weir__run_lane. */
void weir__run_lane_gone(void *lane);
/* Let lanes begin no further work, and end their waits. */
void weir__run_stop(struct weir_run *run);
/*
 * Let the run, which has several lanes, end when all its operations and copies
 * have ended.
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
/* The copies of inputs that were queued have ended. */
void weir__run_set_queued_inputs(struct weir_run *run);
/* Give the lane a stream of its own that has not failed. */
int weir__run_lane_own_stream(struct weir__run_lane *lane);
/* The tensor of port @i in the run's memory. */
struct weir_tensor weir__run_port(const struct weir_run *run, uint32_t i);

#endif
