/* SPDX-License-Identifier: MIT */
/*
 * The end of a run. Its first failure, of any lane, is kept, and stops the
 * other lanes. A run of one lane has ended when its operation has; a run of
 * several lanes when all its operations and copies have ended in their streams.
 */
#include "core/clock.h"
#include "core/error.h"
#include "races/races.h"
#include "core/util.h"
#include "graph/exec/run.h"

void weir__run_stop(struct weir_run *run)
{
	__atomic_store_n(&run->stop, 1, __ATOMIC_SEQ_CST);
	for (uint32_t l = 0; l < run->compiled->n_lanes; l++)
		weir__run_lane_stop_waiting(&run->lane[l]);
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

void weir__run_lane_ended(struct weir__run_lane *lane,
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

/* Its operation was not issued: its stream has failed, or did not take it. */
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
	weir__run_lane_ended(lane, &f);
}

void weir__run_lane_gone(void *arg)
{
	struct weir__run_lane *lane = arg;
	struct weir_run *run = lane->run;

	if (!lane->ended)
		lane_never_began(lane);
	weir__run_lane_forget(lane);
	if (lane->prefetch.arrivals)
		weir__prefetch_end(&lane->prefetch);
	pthread_mutex_lock(&run->lock);
	run->ended_at = weir__now();
	pthread_mutex_unlock(&run->lock);
	atomic_fetch_sub(&run->running, 1);
	weir__run_put(run);
}

/*
 * Keep a failure that no lane has noticed: a stream was abandoned, or a copy
 * failed for which no step waits.
 */
static void part_drop(struct weir__run_part *part)
{
	struct weir_failure cause;

	if (weir__races_on(part->timeline->weir))
		weir__races_waited(&part->run->end->timeline,
				   part->run->end_number, part->timeline,
				   part->number);
	if (part->timeline->ops->state(part->timeline, part->number, &cause) <
	    0)
		failure_keep(part->run, &cause);
	weir__timeline_put(part->timeline);
}

/* The program may start the run again once it is not running. */
static void parts_ended(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;
	uint64_t number = run->end_number;
	struct weir__progress *end = run->end;
	struct weir_failure f;

	for (uint32_t i = 0; i < cg->n_lanes + cg->n_copiers; i++)
		if (run->part[i].timeline)
			part_drop(&run->part[i]);
	weir__timeline_ref(&end->timeline);
	pthread_mutex_lock(&run->lock);
	f = run->failure;
	run->ended_at = weir__now();
	pthread_mutex_unlock(&run->lock);
	atomic_fetch_sub(&run->running, 1);
	/*
	 * The earlier starts with this timeline ended well, or it would have been
	 * replaced. The thread that ends the last of them may not have said so yet.
	 */
	weir__progress_to(end, f.err ? number - 1 : number);
	if (f.err)
		weir__progress_fail(end, &f);
	weir__timeline_put(&end->timeline);
	weir__run_put(run);
}

static void part_ended(struct weir_run *run)
{
	if (atomic_fetch_sub(&run->parts, 1) == 1)
		parts_ended(run);
}

static void part_woken(struct weir__waiter *waiter)
{
	part_ended(weir__container(waiter, struct weir__run_part, waiter)->run);
}

static void part_add(struct weir_run *run, uint32_t i, struct weir_stream *s,
		     uint64_t number)
{
	struct weir__run_part *part = &run->part[i];

	*part = (struct weir__run_part){ .run = run,
					 .timeline = weir__timeline_ref(
						 &s->timeline),
					 .number = number };
	part->waiter.number = number;
	part->waiter.wake = part_woken;
	atomic_fetch_add(&run->parts, 1);
	if (weir__timeline_wait(part->timeline, &part->waiter) != 0)
		part_ended(run);
}

void weir__run_ends(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;

	for (uint32_t i = 0; i < cg->n_lanes + cg->n_copiers; i++)
		run->part[i].timeline = NULL;
	/* One for this call, so that the parts do not end the run meanwhile. */
	atomic_store(&run->parts, 1);
	for (uint32_t l = 0; l < cg->n_lanes; l++)
		if (run->lane[l].stream)
			part_add(run, l, run->lane[l].stream,
				 run->lane[l].number);
	for (uint32_t c = 0; c < cg->n_copiers; c++)
		if (run->copier[c])
			part_add(run, cg->n_lanes + c, run->copier[c],
				 weir__stream_tail(run->copier[c]));
	part_ended(run);
}
