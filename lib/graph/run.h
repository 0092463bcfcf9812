/* SPDX-License-Identifier: MIT */
/*
 * Runs from the inside. One thread at a time calls the functions of run.c and
 * start.c; once a run is started, advance.c moves it on threads of the library.
 */
#ifndef WEIR__GRAPH_RUN_H
#define WEIR__GRAPH_RUN_H

#include "core/source.h"
#include "graph/sched.h"
#include "stream/stream.h"

/*
 * new ----> started ----> ended
 *              ^------------'
 * started: weir_run_start() and weir_stream_compute() queue its operation in a
 * stream. ended: that operation is gone (run_gone), well or not: it was
 * computed, failed, was cancelled, or never began since the stream had failed.
 */
struct weir__pending {            /* what a run waits for before a gate */
	struct weir__source *src; /* referenced; NULL: nothing */
	uint64_t number;
};

enum weir__input_state {
	WEIR__INPUT_UNSET,
	WEIR__INPUT_SET,   /* its bytes were copied */
	WEIR__INPUT_QUEUED /* its copy is queued in the run's own stream */
};

struct weir_run {
	_Atomic uint32_t refs; /* the program's, and that of its operation */
	struct weir_schedule *schedule; /* referenced */
	struct weir__graph_plan *plan;
	uint32_t copy;
	struct weir_stream *own;    /* a stream of the scheduler's, or NULL */
	struct weir_stream *stream; /* referenced: where it was started last */
	uint64_t number;            /* of its operation there */
	uint32_t started;           /* how often */
	uint8_t *input;             /* of each port: enum weir__input_state */
	_Atomic uint32_t running;   /* 1: started and not ended */
	_Atomic uint32_t stop;      /* 1: begin nothing any more */

	/* What its operation accesses, by address; and memory lent to it. */
	struct weir__touched *touched;
	struct weir__access *access;
	struct weir__range *range;
	size_t n_touched;

	/* From start to end of the thread that moves the run. */
	struct weir__stream_op *op;
	struct weir__compute compute;
	uint32_t first;                /* node with which its part begins */
	uint32_t until;                /* step after its part */
	uint32_t gates;                /* number of gates before its end */
	uint32_t step, end;            /* of the range; after it */
	uint32_t gate;                 /* the next one */
	struct weir__pending *pending; /* of each gate, then of the inputs */
	bool queued; /* copies of inputs were queued when it was started */
	struct weir__waiter waiter;
	int64_t begun; /* of what it does now */

	pthread_mutex_t lock; /* guards what follows; source->lock inside */
	struct weir__pending *waiting; /* @waiter is on its list; NULL */
	int64_t started_at, ended_at;
	struct weir_run_report report;
};

/* advance.c: start() of its operation; the thread that calls it moves the run. */
void weir__run_begin(struct weir__stream_op *op);
/* If the run waits for an event, end it now: it is stopped. */
void weir__run_stop_waiting(struct weir_run *run);

/* run.c */
void weir__run_put(struct weir_run *run);
/* Forget what it waits for. */
void weir__run_forget(struct weir_run *run);
/* Its operation is gone; @run is a struct weir_run. */
void weir__run_gone(void *run);
/* The copies of inputs that were queued: @now is their state. */
void weir__run_inputs(struct weir_run *run, enum weir__input_state now);
/* Make sure that it has a stream of its own, which has not failed. */
int weir__run_own(struct weir_run *run);
/* The tensor of port @i, placed in the run's memory. */
struct weir_tensor weir__run_port(const struct weir_run *run, uint32_t i);

#endif
