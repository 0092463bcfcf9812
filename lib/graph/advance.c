/* SPDX-License-Identifier: MIT */
/*
 * A started run moves from gate to gate. It is one operation of its stream, and
 * at any time has one work in the device's queue, or waits for one event, or is
 * moved by one thread: that which issued the operation, completed the work, or
 * woke the waiter. So the thread that moves a run needs no lock for it, except
 * for what weir_run_cancel() and weir_run_report() look at.
 */
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/run.h"

typedef unsigned long long ull;

enum move {
	MOVE_ON,  /* look again */
	MOVE_AWAY /* another thread has the run now, or it is gone */
};

/* The time since the last call, to one of the report's. */
static void run_note(struct weir_run *run, int64_t *sum)
{
	int64_t now = weir__now();

	pthread_mutex_lock(&run->lock);
	*sum += now - run->begun;
	pthread_mutex_unlock(&run->lock);
	run->begun = now;
}

/* The run may be gone on return. */
static enum move run_end(struct weir_run *run, const struct weir_failure *f)
{
	weir__stream_op_finish(run->op, f);
	return MOVE_AWAY;
}

static enum move run_end_cancelled(struct weir_run *run)
{
	weir__stream_op_fail(run->op, -ECANCELED, 0,
			     "the run was cancelled before step %u of %u",
			     run->step, run->until);
	return MOVE_AWAY;
}

static bool run_stops(const struct weir_run *run)
{
	return atomic_load(&run->stop) ||
	       atomic_load(&run->op->stream->abandoned);
}

static enum move run_submit(struct weir_run *run)
{
	struct weir__stream_op *op = run->op;
	int r;

	pthread_mutex_lock(&run->lock);
	run->report.works++;
	pthread_mutex_unlock(&run->lock);
	r = weir__stream_op_submit(op);
	if (r < 0)
		weir__stream_op_fail(op, r, 0, "step %u was refused: %s",
				     run->step, weir__errno_words(-r));
	return MOVE_AWAY;
}

static void run_move(struct weir_run *run);

/* On a thread of the backend. */
static void range_done(struct weir__work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);
	struct weir_run *run = op->owner;
	const struct weir__compute *c = &run->compute;
	const struct weir__copy *copy = &run->plan->copy[run->copy];
	int err = weir__dev_result(op->stream->dev, "work", res);
	char words[WEIR__NODE_WORDS];

	run_note(run, &run->report.compute_ns);
	if (!err) {
		pthread_mutex_lock(&run->lock);
		run->report.nodes += run->end - run->step;
		pthread_mutex_unlock(&run->lock);
		run->step = run->end;
		run_move(run);
	} else if (err == -ECANCELED && run_stops(run)) {
		run_end_cancelled(run);
	} else if (c->failed < run->plan->n_steps) {
		weir__stream_op_fail(
			op, err, native, "%s: %s%s",
			weir__node_words(copy->list[c->failed], words),
			c->why[0] ? c->why : weir__errno_words(-err),
			weir__dev_words(op->stream->dev, native));
	} else {
		weir__stream_op_fail(op, err, native, "steps %u to %u: %s%s",
				     run->step, run->end - 1,
				     weir__errno_words(-err),
				     weir__dev_words(op->stream->dev, native));
	}
}

static enum move run_compute(struct weir_run *run, uint32_t end)
{
	struct weir__graph_plan *p = run->plan;
	struct weir__work *work = &run->op->work;

	run->end = end;
	run->compute = (struct weir__compute){
		.size = sizeof(run->compute),
		.prepared = p->copy[run->copy].prepared,
		.workspace = p->workspace ? p->workspace->mem.base : NULL,
		.first = run->step,
		.n = end - run->step,
		.stop = &run->stop,
		.failed = SIZE_MAX
	};
	work->kind = WEIR__WORK_COMPUTE;
	work->arg = &run->compute;
	work->done = range_done;
	return run_submit(run);
}

/* Works of one stream follow each other, so the result is there. */
static int observer_call(void *arg)
{
	struct weir_run *run = arg;
	const struct weir__graph_plan *p = run->plan;
	uint32_t node = p->gate[run->gate].node;
	const struct weir__port *port = weir__port_find(p, node);
	struct weir_tensor t = weir__run_port(run, (uint32_t)(port - p->port));
	const struct weir_sched_opts *o = &p->sched->opts;

	return o->observe(o->observe_arg, run, node, &t);
}

static void observer_done(struct weir__work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);
	struct weir_run *run = op->owner;
	int err = weir__dev_result(op->stream->dev, "work", res);

	run_note(run, &run->report.observe_ns);
	if (err) {
		weir__stream_op_fail(op, err, native,
				     "the observer returned %d for node %u%s",
				     res, run->plan->gate[run->gate].node,
				     weir__dev_words(op->stream->dev, native));
		return;
	}
	run->gate++;
	run_move(run);
}

static enum move run_observe(struct weir_run *run)
{
	struct weir__work *work = &run->op->work;

	work->kind = WEIR__WORK_CALL;
	work->call = observer_call;
	work->arg = run;
	work->done = observer_done;
	return run_submit(run);
}

static void pending_drop(struct weir__pending *p)
{
	weir__source_put(p->src);
	p->src = NULL;
}

static void run_woken(struct weir__waiter *waiter)
{
	struct weir_run *run = weir__container(waiter, struct weir_run, waiter);

	pthread_mutex_lock(&run->lock);
	run->waiting = NULL;
	pthread_mutex_unlock(&run->lock);
	run_note(run, &run->report.wait_ns);
	run_move(run);
}

/* Under the lock, so that a stop comes before the wait or finds it. */
static enum move run_wait(struct weir_run *run, struct weir__pending *p)
{
	enum move move = MOVE_ON;

	pthread_mutex_lock(&run->lock);
	if (!run_stops(run)) {
		run->waiting = p;
		run->waiter.number = p->number;
		run->waiter.wake = run_woken;
		run->report.waits++;
		if (weir__source_wait(p->src, &run->waiter) == 0)
			move = MOVE_AWAY;
		else
			run->waiting = NULL;
	}
	pthread_mutex_unlock(&run->lock);
	return move;
}

void weir__run_stop_waiting(struct weir_run *run)
{
	bool mine = false;

	pthread_mutex_lock(&run->lock);
	if (run->waiting &&
	    weir__source_unwait(run->waiting->src, &run->waiter)) {
		run->waiting = NULL;
		mine = true;
	}
	pthread_mutex_unlock(&run->lock);
	if (!mine)
		return;
	run_note(run, &run->report.wait_ns);
	run_move(run);
}

/* Until what @p stands for is there. The run's failure, if it will not be. */
static enum move run_await(struct weir_run *run, struct weir__pending *p)
{
	struct weir_failure cause, f;
	int state = p->src->ops->state(p->src, p->number, &cause);

	if (state == 0)
		return run_wait(run, p);
	if (state > 0) {
		pending_drop(p);
		return MOVE_ON;
	}
	weir__cancelled(&f, &cause);
	return run_end(run, &f);
}

/* Does the run have to stop at the gate? An event may be done by now. */
static bool gate_stops(struct weir_run *run, uint32_t i)
{
	struct weir__pending *p = &run->pending[i];

	if (run->plan->gate[i].observe)
		return run->plan->sched->opts.observe != NULL &&
		       run->plan->gate[i].node >= run->first;
	if (p->src && p->src->ops->state(p->src, p->number, NULL) == 1)
		pending_drop(p);
	return p->src != NULL;
}

/* Compute up to the next gate that stops, or act on it. */
static enum move run_next(struct weir_run *run)
{
	const struct weir__graph_plan *p = run->plan;
	struct weir__pending *inputs = &run->pending[p->n_gates];
	const struct weir__gate *gate;

	if (run_stops(run))
		return run_end_cancelled(run);
	if (inputs->src)
		return run_await(run, inputs);
	if (run->queued)
		weir__run_inputs(run, WEIR__INPUT_SET);
	run->queued = false;
	while (run->gate < run->gates && !gate_stops(run, run->gate))
		run->gate++;
	gate = &p->gate[run->gate];
	if (run->gate == run->gates && run->step == run->until)
		return run_end(run, NULL);
	if (run->gate == run->gates || gate->step > run->step)
		return run_compute(run, run->gate == run->gates ? run->until
								: gate->step);
	return gate->observe ? run_observe(run)
			     : run_await(run, &run->pending[run->gate]);
}

static void run_move(struct weir_run *run)
{
	while (run_next(run) == MOVE_ON)
		;
}

void weir__run_begin(struct weir__stream_op *op)
{
	struct weir_run *run = op->owner;

	run_note(run, &run->report.queued_ns);
	run_move(run);
}
