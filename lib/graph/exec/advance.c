/* SPDX-License-Identifier: MIT */
/*
 * A lane of a started run moves from sync point to sync point. It is one
 * operation of its stream. At any time it has one work in the device's queue,
 * or waits for one event, or is held by one thread: the one that issued the
 * operation, completed the work, or woke the waiter. So the thread that holds a
 * lane needs a lock only for what the run's other lanes and the program read.
 */
#include <stdarg.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/exec/exec_races.h"
#include "graph/exec/run.h"
#include "races/races.h"

/* Says if the calling thread still holds the lane. */
enum lane_hold {
	LANE_HELD,    /* it does, and looks at the lane again */
	LANE_RELEASED /* another thread holds the lane now, or it is gone */
};

/* Add the time since the last call to @sum, a time of the report. */
static void lane_add_time(struct weir__run_lane *lane, int64_t *sum)
{
	int64_t now = weir__now();

	pthread_mutex_lock(&lane->run->lock);
	*sum += now - lane->begun;
	pthread_mutex_unlock(&lane->run->lock);
	lane->begun = now;
}

static bool lane_races_on(const struct weir__run_lane *lane)
{
	return weir__races_on(lane->run->exec->sched->weir);
}

static void lane_stop_waiting(struct weir__run_lane *lane);

void weir__run_stop(struct weir_run *run)
{
	__atomic_store_n(&run->stop, 1, __ATOMIC_SEQ_CST);
	for (uint32_t l = 0; l < run->compiled->n_lanes; l++)
		lane_stop_waiting(&run->lane[l]);
}

/* Keep the failure if it is the first one. */
static bool failure_keep(struct weir_run *run, const struct weir_failure *f)
{
	bool first;

	pthread_mutex_lock(&run->lock);
	first = !run->failure.err;
	if (first)
		run->failure = *f;
	pthread_mutex_unlock(&run->lock);
	return first;
}

/*
 * Complete the lane's progress, or fail it with @f; NULL: all went well. The
 * lane's operation is about to end.
 */
static void lane_set_outcome(struct weir__run_lane *lane,
			     const struct weir_failure *f)
{
	lane->ended = true;
	if (!f) {
		weir__progress_to(lane->progress,
				  lane->base + lane->of->n_steps);
		return;
	}
	if (failure_keep(lane->run, f))
		weir__run_stop(lane->run);
	weir__progress_fail(lane->progress, f);
}

/* The run may be gone on return. */
static enum lane_hold lane_end(struct weir__run_lane *lane,
			       const struct weir_failure *f)
{
	if (lane_races_on(lane))
		weir__run_lane_races_end(lane);
	lane_set_outcome(lane, f);
	weir__stream_op_finish(lane->op, f);
	return LANE_RELEASED;
}

static enum lane_hold lane_fail(struct weir__run_lane *lane, int err,
				int32_t native, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static enum lane_hold lane_fail(struct weir__run_lane *lane, int err,
				int32_t native, const char *fmt, ...)
{
	struct weir_failure f;
	va_list ap;

	va_start(ap, fmt);
	weir__stream_op_failure(lane->op, &f, err, native, fmt, ap);
	va_end(ap);
	return lane_end(lane, &f);
}

/* End the lane, which the program or a failure elsewhere has stopped. */
static enum lane_hold lane_end_stopped(struct weir__run_lane *lane)
{
	struct weir_failure cause, f;

	pthread_mutex_lock(&lane->run->lock);
	cause = lane->run->failure;
	pthread_mutex_unlock(&lane->run->lock);
	if (!cause.err)
		return lane_fail(lane, -ECANCELED, 0,
				 "the run was cancelled before step %u of %u",
				 lane->step, lane->until);
	weir__cancelled(&f, &cause);
	return lane_end(lane, &f);
}

/*
 * End the lane, whose steps are all computed. It fails if a file of its weights
 * has changed meanwhile.
 */
static enum lane_hold lane_end_computed(struct weir__run_lane *lane)
{
	struct weir__error_saved saved;
	enum lane_hold next;
	int r;

	if (!lane->prefetch.arrivals)
		return lane_end(lane, NULL);
	/* This may be the thread that starts the run, whose call succeeds. */
	weir__error_save(&saved);
	r = weir__prefetch_list_check_files(lane->of->prefetch_list);
	next = r < 0 ? lane_fail(lane, r, 0, "%s", weir__error_text())
		     : lane_end(lane, NULL);
	weir__error_restore(&saved);
	return next;
}

static bool lane_must_stop(const struct weir__run_lane *lane)
{
	return __atomic_load_n(&lane->run->stop, __ATOMIC_SEQ_CST) ||
	       atomic_load(&lane->op->stream->abandoned);
}

static enum lane_hold lane_submit(struct weir__run_lane *lane)
{
	struct weir_run *run = lane->run;
	unsigned sentences = weir__error_count();
	struct weir__error_saved saved;
	enum lane_hold next;
	int r;

	pthread_mutex_lock(&run->lock);
	run->report.works++;
	pthread_mutex_unlock(&run->lock);
	/* The call that starts the run succeeds, as in lane_end_computed(). */
	weir__error_save(&saved);
	r = weir__stream_op_submit(lane->op);
	if (r >= 0)
		return LANE_RELEASED;
	next = lane_fail(lane, r, 0, "step %u was refused: %s", lane->step,
			 weir__error_since(sentences, r));
	weir__error_restore(&saved);
	return next;
}

static void lane_move(struct weir__run_lane *lane);

static void range_failed(struct weir__run_lane *lane, int err, int32_t native)
{
	const struct weir_backend_compute *c = &lane->compute;
	const struct weir_dev *dev = lane->op->stream->dev;
	const struct weir_backend_node *const *list =
		lane->of->copy[lane->run->copy].list;
	char text[WEIR__NODE_DESCRIBE_MAX];

	if (c->failed < lane->of->n_steps)
		lane_fail(lane, err, native, "%s: %s%s",
			  weir__node_describe(list[c->failed], text),
			  c->why[0] ? c->why : weir__errno_describe(-err),
			  weir__dev_describe_error(dev, native));
	else
		lane_fail(lane, err, native, "steps %u to %u: %s%s", lane->step,
			  lane->end - 1, weir__errno_describe(-err),
			  weir__dev_describe_error(dev, native));
}

/* True if the observer is called before anything else. */
static bool observer_next(const struct weir__run_lane *lane)
{
	const struct weir__sync_point *point = &lane->of->point[lane->point];
	const struct weir__sync_point *end = &lane->of->point[lane->points];

	while (point < end && point->kind == WEIR__SYNC_RELEASE &&
	       point->step == lane->step)
		point++;
	return point < end && point->kind == WEIR__SYNC_OBSERVE &&
	       point->step == lane->step && point->of >= lane->run->first &&
	       lane->run->exec->sched->opts.observe;
}

/*
 * Let other lanes use what is computed. If the observer gets it first, it may
 * end the run, so they have to wait for it.
 */
static void lane_publish(struct weir__run_lane *lane)
{
	if (!observer_next(lane))
		weir__progress_to(lane->progress, lane->base + lane->step);
}

/* A thread of the backend calls this when the steps are computed. */
static void range_done(struct weir_backend_work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);
	struct weir__run_lane *lane = op->owner;
	struct weir_run *run = lane->run;
	int err = weir__dev_result(op->stream->dev, "work", res);

	lane_add_time(lane, &run->report.compute_ns);
	if (err == -ECANCELED && lane_must_stop(lane)) {
		lane_end_stopped(lane);
		return;
	}
	if (err) {
		range_failed(lane, err, native);
		return;
	}
	pthread_mutex_lock(&run->lock);
	run->report.nodes += lane->end - lane->step;
	pthread_mutex_unlock(&run->lock);
	if (lane_races_on(lane))
		weir__run_lane_races_computed(lane);
	lane->step = lane->end;
	lane_publish(lane);
	lane_move(lane);
}

static enum lane_hold lane_compute(struct weir__run_lane *lane, uint32_t end)
{
	const struct weir__graph_lane *of = lane->of;
	struct weir_backend_work *work = &lane->op->work;

	lane->end = end;
	lane->compute = (struct weir_backend_compute){
		.size = sizeof(lane->compute),
		.prepared = of->copy[lane->run->copy].prepared,
		.workspace = of->workspace ? of->workspace->mem.base : NULL,
		.first = lane->step,
		.n = end - lane->step,
		.stop = &lane->run->stop,
		.failed = SIZE_MAX
	};
	work->kind = WEIR_WORK_COMPUTE;
	work->arg = &lane->compute;
	work->done = range_done;
	return lane_submit(lane);
}

/*
 * Call the observer. The result is computed, because works of one stream follow
 * each other.
 */
static int observer_call(void *arg)
{
	struct weir__run_lane *lane = arg;
	struct weir_run *run = lane->run;
	const struct weir__compiled *cg = run->compiled;
	uint32_t node = lane->of->point[lane->point].of;
	const struct weir__port *port = weir__port_find(cg, node);
	struct weir_tensor t = weir__run_port(run, (uint32_t)(port - cg->port));
	const struct weir_sched_opts *o = &run->exec->sched->opts;
	int r;

	if (lane_races_on(lane))
		weir__run_lane_races_call(lane, false);
	r = o->observe(o->observe_arg, run, node, &t);
	if (lane_races_on(lane))
		weir__run_lane_races_call(lane, true);
	return r;
}

static void observer_done(struct weir_backend_work *work, int res,
			  int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);
	struct weir__run_lane *lane = op->owner;
	int err = weir__dev_result(op->stream->dev, "work", res);

	lane_add_time(lane, &lane->run->report.observe_ns);
	if (err) {
		lane_fail(lane, err, native,
			  "the observer returned %d for node %u%s", res,
			  lane->of->point[lane->point].of,
			  weir__dev_describe_error(op->stream->dev, native));
		return;
	}
	lane->point++;
	lane_publish(lane);
	lane_move(lane);
}

static enum lane_hold lane_observe(struct weir__run_lane *lane)
{
	struct weir_backend_work *work = &lane->op->work;

	work->kind = WEIR_WORK_CALL;
	work->call = observer_call;
	work->arg = lane;
	work->done = observer_done;
	return lane_submit(lane);
}

/* Forget @p, which is done. */
static void pending_drop(struct weir__run_lane *lane, struct weir__pending *p)
{
	if (lane_races_on(lane))
		weir__run_lane_races_knows(lane, p->timeline, p->number);
	weir__timeline_put(p->timeline);
	p->timeline = NULL;
}

/* Add the time that the lane has waited to the report. */
static void lane_waited(struct weir__run_lane *lane)
{
	struct weir_run_report *report = &lane->run->report;
	bool import = lane->point < lane->points &&
		      lane->of->point[lane->point].kind == WEIR__SYNC_IMPORT;

	lane_add_time(lane,
		      import ? &report->prefetch_wait_ns : &report->wait_ns);
}

static void lane_woken(struct weir__waiter *waiter)
{
	struct weir__run_lane *lane =
		weir__container(waiter, struct weir__run_lane, waiter);

	pthread_mutex_lock(&lane->run->lock);
	lane->waiting = NULL;
	pthread_mutex_unlock(&lane->run->lock);
	lane_waited(lane);
	lane_move(lane);
}

/*
 * Wait for @p. The wait is entered under the lock, so that a stop either comes
 * before it or finds it.
 */
static enum lane_hold lane_wait(struct weir__run_lane *lane,
				struct weir__pending *p)
{
	struct weir_run *run = lane->run;
	enum lane_hold hold = LANE_HELD;

	pthread_mutex_lock(&run->lock);
	if (!lane_must_stop(lane)) {
		lane->waiting = p;
		lane->waiter.number = p->number;
		lane->waiter.wake = lane_woken;
		run->report.waits++;
		if (weir__timeline_wait(p->timeline, &lane->waiter) == 0)
			hold = LANE_RELEASED;
		else
			lane->waiting = NULL;
	}
	pthread_mutex_unlock(&run->lock);
	return hold;
}

/* End the lane if it waits at a sync point, because the run is stopped. */
static void lane_stop_waiting(struct weir__run_lane *lane)
{
	struct weir_run *run = lane->run;
	bool mine = false;

	pthread_mutex_lock(&run->lock);
	if (lane->waiting &&
	    weir__timeline_unwait(lane->waiting->timeline, &lane->waiter)) {
		lane->waiting = NULL;
		mine = true;
	}
	pthread_mutex_unlock(&run->lock);
	if (!mine)
		return;
	lane_waited(lane);
	lane_move(lane);
}

/* End the lane: a device copy, or what it waits for, has failed. */
static enum lane_hold device_copy_failed(struct weir__run_lane *lane,
					 uint32_t device_copy,
					 const struct weir_failure *cause)
{
	return lane_fail(lane, cause->err, cause->native, "node %u for %s: %s",
			 lane->run->compiled->device_copy[device_copy].of.node,
			 lane->of->on->dev->desc.name, cause->text);
}

/* Wait for @p, or end the lane if @p has failed. @point: NULL for an input. */
static enum lane_hold lane_await(struct weir__run_lane *lane,
				 struct weir__pending *p,
				 const struct weir__sync_point *point)
{
	struct weir_failure cause, f;
	int state = p->timeline->ops->state(p->timeline, p->number, &cause);

	if (state == 0)
		return lane_wait(lane, p);
	if (state > 0) {
		pending_drop(lane, p);
		return LANE_HELD;
	}
	if (lane_must_stop(lane))
		return lane_end_stopped(lane);
	if (point && (point->kind == WEIR__SYNC_TRANSFER ||
		      point->kind == WEIR__SYNC_IMPORT))
		return device_copy_failed(lane, point->of, &cause);
	weir__cancelled(&f, &cause);
	return lane_end(lane, &f);
}

/*
 * True if the lane has to stop at the sync point. What it waits for may be done
 * by now.
 */
static bool point_stops(struct weir__run_lane *lane, uint32_t i)
{
	const struct weir__sync_point *point = &lane->of->point[i];
	struct weir__pending *p = &lane->pending[i];
	const struct weir_run *run = lane->run;

	if (point->kind == WEIR__SYNC_OBSERVE)
		return run->exec->sched->opts.observe != NULL &&
		       point->of >= run->first;
	if (point->kind == WEIR__SYNC_RELEASE)
		return point->step > lane->step;
	if (p->timeline &&
	    p->timeline->ops->state(p->timeline, p->number, NULL) == 1)
		pending_drop(lane, p);
	return p->timeline != NULL;
}

/* The copies of inputs that were queued in any lane's stream; NULL: none. */
static struct weir__pending *input_pending(struct weir__run_lane *lane)
{
	struct weir__pending *p = &lane->pending[lane->of->n_points];

	for (uint32_t l = 0; l < lane->run->compiled->n_lanes; l++)
		if (p[l].timeline)
			return &p[l];
	return NULL;
}

/* Compute up to the next sync point that stops, or act on it. */
static enum lane_hold lane_next(struct weir__run_lane *lane)
{
	struct weir__pending *inputs = input_pending(lane);
	const struct weir__sync_point *point;

	if (lane_must_stop(lane))
		return lane_end_stopped(lane);
	if (inputs)
		return lane_await(lane, inputs, NULL);
	if (lane == lane->run->lane && lane->run->queued) {
		weir__run_set_queued_inputs(lane->run);
		lane->run->queued = false;
	}
	while (lane->point < lane->points && !point_stops(lane, lane->point))
		lane->point++;
	point = &lane->of->point[lane->point];
	if (lane->point == lane->points && lane->step == lane->until)
		return lane_end_computed(lane);
	if (lane->point == lane->points)
		return lane_compute(lane, lane->until);
	if (point->step > lane->step)
		return lane_compute(lane, point->step);
	return point->kind == WEIR__SYNC_OBSERVE
		       ? lane_observe(lane)
		       : lane_await(lane, &lane->pending[lane->point], point);
}

static void lane_move(struct weir__run_lane *lane)
{
	while (lane_next(lane) == LANE_HELD)
		;
}

void weir__run_lane_begin(struct weir__stream_op *op)
{
	struct weir__run_lane *lane = op->owner;
	struct weir_run *run = lane->run;
	int64_t now = weir__now();

	/* The first lane to begin ends the time in the queue. */
	pthread_mutex_lock(&run->lock);
	if (!run->report.queued_ns)
		run->report.queued_ns = now - lane->begun;
	pthread_mutex_unlock(&run->lock);
	lane->begun = now;
	if (lane_races_on(lane))
		weir__run_lane_races_begin(lane);
	lane_move(lane);
}

/*
 * Set the outcome of a lane whose operation was never issued, because its
 * stream has failed or has refused it.
 */
static void lane_never_began(struct weir__run_lane *lane)
{
	struct weir__timeline *tl = &lane->op->stream->timeline;
	uint64_t number = lane->op->number;
	struct weir_failure cause, f;

	if (!number)
		number = weir__stream_tail(lane->op->stream);
	if (tl->ops->state(tl, number, &cause) < 0)
		weir__cancelled(&f, &cause);
	else
		weir__failure_set(&f, -ECANCELED, 0, 0,
				  "%s: the run was not started",
				  lane->op->stream->label);
	lane_set_outcome(lane, &f);
}

void weir__run_lane_gone(void *arg)
{
	struct weir__run_lane *lane = arg;
	struct weir_run *run = lane->run;

	if (!lane->ended)
		lane_never_began(lane);
	weir__run_lane_drop_pending(lane);
	if (lane->prefetch.arrivals)
		weir__prefetch_end(&lane->prefetch);
	pthread_mutex_lock(&run->lock);
	run->ended_at = weir__now();
	pthread_mutex_unlock(&run->lock);
	atomic_fetch_sub(&run->running, 1);
	weir__run_put(run);
}

/*
 * Forget the stream, and keep its failure if no lane has noticed it: it was
 * abandoned, or a copy failed for which no step waits.
 */
static void run_stream_drop(struct weir__run_stream *awaited)
{
	struct weir_failure cause;

	if (weir__races_on(awaited->timeline->weir))
		weir__races_waited(&awaited->run->end->timeline,
				   awaited->run->end_number, awaited->timeline,
				   awaited->number);
	if (awaited->timeline->ops->state(awaited->timeline, awaited->number,
					  &cause) < 0)
		failure_keep(awaited->run, &cause);
	weir__timeline_put(awaited->timeline);
}

/*
 * End the run: all its streams have ended. The program may start it again once
 * it is not running.
 */
static void run_streams_ended(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;
	uint64_t number = run->end_number;
	struct weir__progress *end = run->end;
	struct weir_failure f;

	for (uint32_t i = 0; i < cg->n_lanes + cg->n_copiers; i++)
		if (run->awaited[i].timeline)
			run_stream_drop(&run->awaited[i]);
	weir__timeline_ref(&end->timeline);
	pthread_mutex_lock(&run->lock);
	f = run->failure;
	run->ended_at = weir__now();
	pthread_mutex_unlock(&run->lock);
	atomic_fetch_sub(&run->running, 1);
	/*
	 * The earlier starts with this timeline ended well, or it would have
	 * been replaced. The thread that ended the last of them may not have
	 * completed its number yet.
	 */
	weir__progress_to(end, f.err ? number - 1 : number);
	if (f.err)
		weir__progress_fail(end, &f);
	weir__timeline_put(&end->timeline);
	weir__run_put(run);
}

static void run_stream_ended(struct weir_run *run)
{
	if (atomic_fetch_sub(&run->open_streams, 1) == 1)
		run_streams_ended(run);
}

static void run_stream_woken(struct weir__waiter *waiter)
{
	run_stream_ended(
		weir__container(waiter, struct weir__run_stream, waiter)->run);
}

static void run_stream_await(struct weir_run *run, uint32_t i,
			     struct weir_stream *s, uint64_t number)
{
	struct weir__run_stream *awaited = &run->awaited[i];

	*awaited = (struct weir__run_stream){ .run = run,
					      .timeline = weir__timeline_ref(
						      &s->timeline),
					      .number = number };
	awaited->waiter.number = number;
	awaited->waiter.wake = run_stream_woken;
	atomic_fetch_add(&run->open_streams, 1);
	if (weir__timeline_wait(awaited->timeline, &awaited->waiter) != 0)
		run_stream_ended(run);
}

void weir__run_await_streams(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;

	for (uint32_t i = 0; i < cg->n_lanes + cg->n_copiers; i++)
		run->awaited[i].timeline = NULL;
	/* The call is counted, too, so that no stream ends the run yet. */
	atomic_store(&run->open_streams, 1);
	for (uint32_t l = 0; l < cg->n_lanes; l++)
		if (run->lane[l].stream)
			run_stream_await(run, l, run->lane[l].stream,
					 run->lane[l].number);
	for (uint32_t c = 0; c < cg->n_copiers; c++)
		if (run->copier[c])
			run_stream_await(run, cg->n_lanes + c, run->copier[c],
					 weir__stream_tail(run->copier[c]));
	run_stream_ended(run);
}
