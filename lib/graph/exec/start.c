/* SPDX-License-Identifier: MIT */
/*
 * Starting a run: one operation of a stream for each lane, and the copies
 * between lanes.
 */
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/refs.h"
#include "graph/exec/exec_races.h"
#include "graph/exec/run.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "races/races.h"
#include "stream/event.h"

/* Check the run before anything of it is changed. */
static int start_check(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;
	int r = weir__root_enter(run->exec->sched->weir);

	if (r < 0)
		return r;
	if (atomic_load(&run->running))
		return weir__fail(-EBUSY, "the run has not ended");
	if (run->end_timeline)
		weir__races_host_knows(run->end_timeline, run->end_number);
	/* The failure of a stream may have lost inputs. */
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		if (run->lane[l].own)
			r = weir__run_lane_own_stream(&run->lane[l]);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < cg->n_ports; i++) {
		const struct weir__port *port = &cg->port[i];

		if (port->flags & WEIR__PORT_INPUT &&
		    port->flags & WEIR__PORT_NEEDED &&
		    run->input[i] == WEIR__INPUT_UNSET)
			return weir__fail(
				-EINVAL,
				"input %s is not set: it was never set, or a copy of it failed",
				weir__tensor_describe(&port->t, port->node));
	}
	return 0;
}

/* Declare the bytes that the lane's operation accesses. */
static int start_access(const struct weir__run_lane *lane,
			struct weir__stream_op *op)
{
	const struct weir_tensor t = { .name = "memory of the graph" };
	const struct weir_run *run = lane->run;
	int r = 0;

	weir__stream_op_lend(op, lane->access, lane->range, lane->room);
	for (size_t i = 0; i < lane->n_accessed && !r; i++) {
		const struct weir__accessed *b = &lane->accessed[i];

		r = weir__stream_op_access_buf(op, &t, b->buf, b->lo,
					       b->hi - b->lo, b->write);
	}
	if (r == 0 && run->exec->import_src && lane->of->prefetch_list)
		r = weir__prefetch_hold(
			lane->of->prefetch_list,
			weir__exec_import_src(
				run->exec,
				(uint32_t)(lane->of - run->compiled->lane)),
			op);
	return r;
}

/*
 * Let the lane wait for @number of @tl at its sync point @i, unless it is done
 * already. Takes over the reference to @tl.
 */
static void pending_set(struct weir__run_lane *lane, uint32_t i,
			struct weir__timeline *tl, uint64_t number)
{
	struct weir__pending *p = &lane->pending[i];

	if (tl->ops->state(tl, number, NULL) == 1) {
		if (weir__races_on(tl->weir))
			weir__run_lane_races_knows(lane, tl, number);
		weir__timeline_put(tl);
		return;
	}
	p->timeline = tl;
	p->number = number;
}

/* Set the lane's waits for the events of leaves, as they are recorded now. */
static int start_events(struct weir__run_lane *lane)
{
	const struct weir_run *run = lane->run;
	struct weir *weir = run->exec->sched->weir;
	struct weir_event **event =
		&run->exec->event[lane->of->point - run->compiled->point];
	/* Most leaves have been there for many runs. */
	int (*get)(struct weir_event *, struct weir *, struct weir__timeline **,
		   uint64_t *) = weir__races_on(weir) ? weir__event_get
						      : weir__event_get_pending;
	int r = 0;

	for (uint32_t i = 0; run->exec->waits && i < lane->of->n_points && !r;
	     i++) {
		struct weir__timeline *tl = NULL;
		uint64_t number;

		if (!event[i])
			continue;
		r = get(event[i], weir, &tl, &number);
		if (r == 0 && tl)
			pending_set(lane, i, tl, number);
	}
	return r;
}

/* Set the lane's waits for steps of other lanes, copies and imports. */
static void start_points(struct weir__run_lane *lane)
{
	const struct weir_run *run = lane->run;

	for (uint32_t i = 0; i < lane->of->n_points; i++) {
		const struct weir__sync_point *point = &lane->of->point[i];

		if (point->kind == WEIR__SYNC_LANE) {
			const struct weir__run_lane *other =
				&run->lane[point->of];

			pending_set(
				lane, i,
				weir__timeline_ref(&other->progress->timeline),
				other->base + point->until);
		} else if (point->kind == WEIR__SYNC_TRANSFER) {
			uint32_t c =
				run->compiled->device_copy[point->of].copier;

			pending_set(
				lane, i,
				weir__timeline_ref(&run->copier[c]->timeline),
				run->copied[point->of]);
		} else if (point->kind == WEIR__SYNC_IMPORT) {
			uint32_t entry =
				run->compiled->device_copy[point->of].entry;

			pending_set(lane, i,
				    weir__timeline_ref(
					    &lane->prefetch.arrivals->timeline),
				    lane->prefetch.first + entry);
		}
	}
}

/*
 * Set the lane's waits for the copies of inputs that are queued in the lanes'
 * own streams.
 */
static void start_inputs(struct weir__run_lane *lane)
{
	const struct weir_run *run = lane->run;

	for (uint32_t l = 0; run->queued && l < run->compiled->n_lanes; l++) {
		struct weir_stream *own = run->lane[l].own;

		if (own)
			pending_set(lane, lane->of->n_points + l,
				    weir__timeline_ref(&own->timeline),
				    weir__stream_tail(own));
	}
}

/*
 * True if the sync point comes after all nodes before @end, whose steps are
 * those before @until. The sync point of a leaf that is only observed has the
 * number of the next step.
 */
static bool point_is_after(const struct weir__graph_lane *of, uint32_t i,
			   uint32_t end, uint32_t until)
{
	const struct weir__sync_point *point = &of->point[i];

	if (point->kind == WEIR__SYNC_OBSERVE)
		return point->of >= end;
	if (point->step != until)
		return point->step > until;
	return i + 1 == of->n_points || point[1].kind != WEIR__SYNC_OBSERVE ||
	       point[1].of >= end;
}

/*
 * Set the steps and sync points of the nodes [first, end), in one lane. The
 * sync points of leaves before @first belong to them as well.
 */
static void start_part(struct weir__run_lane *lane, uint32_t first,
		       uint32_t end)
{
	const struct weir__compiled *cg = lane->run->compiled;
	const struct weir__graph_lane *of = lane->of;

	lane->point = 0;
	lane->points = of->n_points;
	lane->step = 0;
	lane->until = of->n_steps;
	if (first)
		lane->step = first < cg->n ? cg->at[first].step : of->n_steps;
	/* Imports that only earlier steps read are not prefetched again. */
	weir__progress_to(lane->progress, lane->base + lane->step);
	if (end == cg->n)
		return;
	lane->until = cg->at[end].step;
	lane->points = 0;
	while (lane->points < of->n_points &&
	       !point_is_after(of, lane->points, end, lane->until))
		lane->points++;
}

/* Replace the progress of @lane or, if @lane is NULL, of the run's end. */
static int progress_renew(struct weir_run *run, struct weir__run_lane *lane)
{
	struct weir__progress **progress = lane ? &lane->progress : &run->end;
	struct weir__progress *fresh;
	int r = lane ? weir__run_lane_progress_new(lane, &fresh)
		     : weir__run_end_progress_new(run, &fresh);

	if (r < 0)
		return r;
	weir__timeline_put(&(*progress)->timeline);
	*progress = fresh;
	return 0;
}

/*
 * A timeline that has failed is replaced: its numbers keep their failure, and
 * the thread that has ended the run may still be about to complete them.
 */
static int start_progress(struct weir_run *run)
{
	bool failed;
	int r = 0;

	pthread_mutex_lock(&run->lock);
	failed = run->failure.err != 0;
	pthread_mutex_unlock(&run->lock);
	if (failed)
		r = progress_renew(run, NULL);
	for (uint32_t l = 0; l < run->compiled->n_lanes && !r; l++) {
		struct weir__run_lane *lane = &run->lane[l];

		if (failed)
			r = progress_renew(run, lane);
		lane->base = atomic_load(&lane->progress->done);
	}
	return r;
}

/* Forget the outcome and the report of the previous start. */
static void start_reset(struct weir_run *run)
{
	int64_t now = weir__now();

	__atomic_store_n(&run->stop, 0, __ATOMIC_SEQ_CST);
	run->queued = false;
	for (uint32_t i = 0; i < run->compiled->n_ports; i++)
		run->queued |= run->input[i] == WEIR__INPUT_QUEUED;
	pthread_mutex_lock(&run->lock);
	memset(&run->report, 0, sizeof(run->report));
	memset(&run->failure, 0, sizeof(run->failure));
	run->started_at = now;
	run->ended_at = 0;
	pthread_mutex_unlock(&run->lock);
	for (uint32_t l = 0; l < run->compiled->n_lanes; l++) {
		run->lane[l].begun = now;
		run->lane[l].ended = false;
		run->lane[l].prefetch.bytes = 0;
	}
}

/* Set the end that the program waits for. Takes over the reference to @tl. */
static void end_set(struct weir_run *run, struct weir__timeline *tl,
		    uint64_t number)
{
	if (run->end_timeline)
		weir__timeline_put(run->end_timeline);
	run->end_timeline = tl;
	run->end_number = number;
	run->started++;
}

/*
 * Transfers are copies of results and leaves into memory of the lanes that read
 * them. A run has one stream for each device and direction. In it each copy
 * waits for the progress of the lanes that write its source, and the reader
 * waits for the copy. Copies are queued in the order of the nodes that they
 * come after, so none waits for a lane that waits for a later copy.
 *
 * This gives the run a stream for transfers that has not failed.
 */
static int copier_own_stream(struct weir_run *run, uint32_t c)
{
	struct weir__compiled *cg = run->compiled;

	if (run->copier[c] && !weir__stream_has_failed(run->copier[c]))
		return 0;
	if (run->copier[c])
		weir__timeline_put(&run->copier[c]->timeline);
	run->copier[c] = NULL;
	return weir__sched_stream_get(run->exec->sched, cg->copier[c].on,
				      &run->copier[c]);
}

/*
 * Let @s wait until the operation of the newest run in lane @of has ended, well
 * or not. sched->start_lock is held.
 */
static int wait_for_last(struct weir_stream *s,
			 const struct weir__graph_lane *of)
{
	struct weir__timeline *last = of->last;

	if (!last || last == &s->timeline)
		return 0;
	if (last->ops->state(last, of->last_number, NULL) != 0) {
		weir__races_next_knows(&s->timeline, last, of->last_number);
		return 0;
	}
	return weir__stream_wait_ended(s, last, of->last_number);
}

/* Let transfers wait for earlier runs, which may write the copied leaves. */
static int copier_wait(struct weir_run *run, uint32_t c)
{
	struct weir__compiled *cg = run->compiled;
	int r = copier_own_stream(run, c);

	for (uint32_t l = 0; cg->shared && l < cg->n_lanes && !r; l++)
		r = wait_for_last(run->copier[c], &cg->lane[l]);
	return r;
}

static int transfer_wait(struct weir_run *run, uint32_t k,
			 struct weir_stream *s)
{
	const struct weir__compiled *cg = run->compiled;
	struct weir_event *event = run->exec->event[cg->n_points + k];
	int r = event ? weir__stream_wait_event(s, event) : 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		const struct weir__run_lane *lane = &run->lane[l];
		uint32_t steps = cg->wait[k * cg->n_lanes + l];

		if (!steps)
			continue;
		r = weir__stream_wait_timeline(
			s, weir__timeline_ref(&lane->progress->timeline),
			lane->base + steps);
	}
	return r;
}

/* The bytes of a whole class, as a tensor. */
static struct weir_tensor class_bytes(const struct weir_run *run,
				      const struct weir__location *location)
{
	return weir__flat_tensor(weir__location_buf(run->compiled, location,
						    run->copy),
				 location->offset, location->bytes);
}

static int transfer_queue(struct weir_run *run, uint32_t k)
{
	const struct weir__placed_copy *device_copy =
		&run->compiled->device_copy[k];
	struct weir_stream *s = run->copier[device_copy->copier];
	struct weir_tensor from = class_bytes(run, &device_copy->from);
	struct weir_tensor to = class_bytes(run, &device_copy->to);
	int r = transfer_wait(run, k, s);

	if (device_copy->from.where == WEIR_NODE_LEAF) {
		from.buf = run->exec->device_copy[k].buf;
		from.offset = run->exec->device_copy[k].offset;
	}
	if (r == 0 && device_copy->from.bytes)
		r = weir__stream_copy(s, &to, &from);
	run->copied[k] = weir__stream_tail(s);
	return r;
}

static int transfers_queue(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;
	int r = 0;

	for (uint32_t c = 0; c < cg->n_copiers && !r; c++)
		r = copier_wait(run, c);
	for (uint32_t i = 0; i < cg->n_transfers && !r; i++)
		r = transfer_queue(run, cg->transfer[i]);
	return r;
}

/*
 * Let the lane's operation wait for the run of this compiled graph that was
 * queued last, well or not, because both write the lane's results.
 */
static int lane_wait_last(struct weir__run_lane *lane)
{
	struct weir__compiled *cg = lane->run->compiled;
	struct weir_stream *s = lane->op->stream;
	int r = 0;

	if (!cg->shared)
		return wait_for_last(s, lane->of);
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = wait_for_last(s, &cg->lane[l]);
	return r;
}

/* Start the prefetches of all lanes. sched->start_lock is held. */
static int run_prefetch_start(struct weir_run *run)
{
	int r = 0;

	for (uint32_t l = 0; l < run->compiled->n_lanes && !r; l++) {
		struct weir__run_lane *lane = &run->lane[l];

		if (!lane->of->prefetch_list)
			continue;
		lane->prefetch.list = lane->of->prefetch_list;
		lane->prefetch.src = weir__exec_import_src(run->exec, l);
		lane->prefetch.progress = &lane->progress->timeline;
		lane->prefetch.base = lane->base;
		r = weir__prefetch_start(&lane->prefetch);
	}
	return r;
}

/*
 * Queue the lane's operation, which owns what it needs of the run.
 * sched->start_lock is held.
 */
static int lane_queue(struct weir__run_lane *lane)
{
	struct weir__stream_op *op = lane->op;
	struct weir_stream *s = op->stream;
	struct weir__graph_lane *of = lane->of;
	uint64_t number = 0;
	int r;

	op->ret_number = &number;
	/* The stream may be gone with the run, if the run ends at once. */
	weir__timeline_ref(&s->timeline);
	r = weir__stream_op_queue(op);
	if (r < 0) {
		weir__timeline_put(&s->timeline);
		return r;
	}
	if (lane->stream)
		weir__timeline_put(&lane->stream->timeline);
	lane->stream = s;
	lane->number = number;
	if (of->last)
		weir__timeline_put(of->last);
	of->last = weir__timeline_ref(&s->timeline);
	of->last_number = number;
	return 0;
}

/* Queue everything. From here on the operations end the run in any case. */
static int start_queue(struct weir_run *run)
{
	uint32_t n = run->compiled->n_lanes;
	int r = 0;

	weir__refs_add(&run->refs, n + (n > 1));
	atomic_store(&run->running, n + (n > 1));
	for (uint32_t l = 0; l < n; l++) {
		struct weir__stream_op *op = run->lane[l].op;

		op->start = weir__run_lane_begin;
		op->owner = &run->lane[l];
		op->gone = weir__run_lane_gone;
	}
	if (n > 1)
		end_set(run, weir__timeline_ref(&run->end->timeline),
			run->started + 1);
	if (run->compiled->n_copiers)
		r = transfers_queue(run);
	/*
	 * All lanes wait for the earlier run first, because lane_queue() makes
	 * this run the newest one of its lane.
	 */
	for (uint32_t l = 0; l < n && !r; l++)
		r = lane_wait_last(&run->lane[l]);
	if (r == 0)
		r = run_prefetch_start(run);
	for (uint32_t l = 0; l < n && !r; l++)
		start_points(&run->lane[l]);
	for (uint32_t l = 0; l < n; l++)
		if (r == 0)
			r = lane_queue(&run->lane[l]);
		else
			weir__stream_op_drop(run->lane[l].op);
	return r;
}

static int lane_prepare(struct weir__run_lane *lane, struct weir_stream *s)
{
	int r = weir__stream_op_begin(s, "compute", WEIR_WORK_COMPUTE,
				      &lane->op);

	if (r < 0)
		return r;
	r = start_access(lane, lane->op);
	if (r == 0)
		r = start_events(lane);
	if (r == 0)
		return 0;
	weir__run_lane_drop_pending(lane);
	weir__stream_op_drop(lane->op);
	return r;
}

/*
 * Start the run in @s, a stream of the program, if it has one lane; NULL: each
 * lane has a stream of its own.
 */
static int start_lanes(struct weir_run *run, struct weir_stream *s,
		       uint32_t first, uint32_t end)
{
	struct weir_sched *sched = run->exec->sched;
	uint32_t n = 0;
	int r = start_progress(run);

	for (; n < run->compiled->n_lanes && !r; n++) {
		struct weir__run_lane *lane = &run->lane[n];

		if (!s)
			r = weir__run_lane_own_stream(lane);
		if (r == 0)
			r = lane_prepare(lane, s ? s : lane->own);
		if (r < 0)
			break;
	}
	while (r < 0 && n-- > 0) {
		weir__run_lane_drop_pending(&run->lane[n]);
		weir__stream_op_drop(run->lane[n].op);
	}
	if (r < 0)
		return r;
	start_reset(run);
	run->first = first;
	for (uint32_t l = 0; l < run->compiled->n_lanes; l++) {
		start_part(&run->lane[l], first, end);
		start_inputs(&run->lane[l]);
	}
	pthread_mutex_lock(&sched->start_lock);
	r = start_queue(run);
	pthread_mutex_unlock(&sched->start_lock);
	if (run->compiled->n_lanes > 1)
		weir__run_await_streams(run);
	else if (r == 0)
		end_set(run, weir__timeline_ref(&run->lane[0].stream->timeline),
			run->lane[0].number);
	return r;
}

/* -EOPNOTSUPP unless the graph has one lane. @what is what needs that. */
static int check_one_lane(const struct weir__compiled *cg, const char *what)
{
	return cg->n_lanes == 1
		       ? 0
		       : weir__fail(
				 -EOPNOTSUPP,
				 "the executable graph computes on %u devices: %s needs one that computes on one",
				 cg->n_lanes, what);
}

static int run_start(struct weir_run *run, uint64_t first, uint64_t n)
{
	uint32_t nodes = run->compiled->n;
	int r = start_check(run);

	if (r == 0 && (first > nodes || n > nodes - first))
		r = weir__fail(-EINVAL,
			       "%llu nodes from node %llu on: the graph has %u",
			       (unsigned long long)n, (unsigned long long)first,
			       nodes);
	if (r == 0 && n < nodes)
		r = check_one_lane(run->compiled, "a part of a run");
	return r < 0 ? r
		     : start_lanes(run, NULL, (uint32_t)first,
				   (uint32_t)(first + n));
}

int weir_run_start_part(struct weir_run *run, uint64_t first, uint64_t n)
{
	WEIR__ENTER();
	return run_start(run, first, n);
}

int weir_run_start(struct weir_run *run)
{
	WEIR__ENTER();
	return run_start(run, 0, run->compiled->n);
}

int weir_stream_compute(struct weir_stream *stream, struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;
	const struct weir_dev *dev = cg->lane[0].on->dev;
	int r;

	WEIR__ENTER();
	r = start_check(run);
	if (r == 0)
		r = check_one_lane(cg, "an operation of a stream");
	if (r < 0)
		return r;
	if (stream->dev != dev)
		return weir__fail(-EINVAL,
				  "%s is of %s, the executable graph is for %s",
				  stream->label, stream->dev->desc.name,
				  dev->desc.name);
	if (stream->mode != &weir__stream_managed)
		return weir__fail(-EOPNOTSUPP,
				  "%s is native: no run can be queued in it",
				  stream->label);
	return start_lanes(run, stream, 0, cg->n);
}
