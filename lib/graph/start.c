/* SPDX-License-Identifier: MIT */
/* Starting a run: as one operation of a stream. */
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "graph/run.h"
#include "mem/buf.h"
#include "stream/event.h"

/* Before anything of the run has changed. */
static int start_check(struct weir_run *run)
{
	const struct weir__graph_plan *p = run->plan;
	int r = weir__root_enter(p->sched->weir);

	if (r < 0)
		return r;
	if (atomic_load(&run->running))
		return weir__fail(-EBUSY, "the run has not ended");
	/* Its failure may have lost inputs. */
	r = run->own ? weir__run_own(run) : 0;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->n_ports; i++) {
		const struct weir__port *port = &p->port[i];

		if (port->flags & WEIR__PORT_INPUT &&
		    port->flags & WEIR__PORT_NEEDED &&
		    run->input[i] == WEIR__INPUT_UNSET)
			return weir__fail(-EINVAL, "input %s was never set",
					  weir__tensor_words(&port->t,
							     port->node));
	}
	return 0;
}

static int start_access(const struct weir_run *run, struct weir__stream_op *op)
{
	const struct weir_tensor t = { .name = "memory of the graph" };
	int r = 0;

	weir__stream_op_lend(op, run->access, run->range, run->n_touched);
	for (size_t i = 0; i < run->n_touched && !r; i++) {
		const struct weir__touched *b = &run->touched[i];

		r = weir__stream_op_access_buf(op, &t, b->buf, b->lo,
					       b->hi - b->lo, b->write);
	}
	return r;
}

/* The events of leaves, as they are recorded now. Those that are done are out. */
static int start_events(struct weir_run *run)
{
	const struct weir_schedule *s = run->schedule;
	struct weir *weir = run->plan->sched->weir;
	int r = 0;

	for (uint32_t i = 0; s->waits && i < run->plan->n_gates && !r; i++) {
		struct weir__pending *p = &run->pending[i];

		if (!s->event[i])
			continue;
		r = weir__event_get(s->event[i], weir, &p->src, &p->number);
		if (r == 0 && p->src &&
		    p->src->ops->state(p->src, p->number, NULL) == 1) {
			weir__source_put(p->src);
			p->src = NULL;
		}
	}
	return r;
}

/* The copies of inputs that are queued in the run's own stream. */
static void start_inputs(struct weir_run *run)
{
	struct weir__pending *p = &run->pending[run->plan->n_gates];

	run->queued = false;
	for (uint32_t i = 0; i < run->plan->n_ports; i++)
		run->queued |= run->input[i] == WEIR__INPUT_QUEUED;
	if (!run->queued)
		return;
	p->src = weir__source_ref(&run->own->src);
	p->number = weir__stream_tail(run->own);
}

/*
 * Is the gate after all nodes before @end, whose steps are those before @until?
 * That of a leaf which is only observed has the step that comes next.
 */
static bool gate_is_after(const struct weir__graph_plan *p, uint32_t i,
			  uint32_t end, uint32_t until)
{
	const struct weir__gate *gate = &p->gate[i];

	if (gate->observe)
		return gate->node >= end;
	if (gate->step != until)
		return gate->step > until;
	return i + 1 == p->n_gates || !gate[1].observe || gate[1].node >= end;
}

/* The nodes [first, end). Gates of leaves count also if they come before. */
static void start_part(struct weir_run *run, uint32_t first, uint32_t end)
{
	const struct weir__graph_plan *p = run->plan;

	run->first = first;
	run->step = first < p->n ? p->at[first].step : p->n_steps;
	run->until = end < p->n ? p->at[end].step : p->n_steps;
	run->gate = 0;
	run->gates = 0;
	while (run->gates < p->n_gates &&
	       !gate_is_after(p, run->gates, end, run->until))
		run->gates++;
}

static void start_reset(struct weir_run *run)
{
	run->begun = weir__now();
	atomic_store(&run->stop, 0);
	pthread_mutex_lock(&run->lock);
	memset(&run->report, 0, sizeof(run->report));
	run->started_at = run->begun;
	run->ended_at = 0;
	pthread_mutex_unlock(&run->lock);
}

/*
 * After the run of this schedule that was queued last in another stream, well or
 * not: both write the results.
 */
static int start_after_last(const struct weir__graph_plan *p,
			    struct weir_stream *s)
{
	if (!p->last || p->last == &s->src ||
	    p->last->ops->state(p->last, p->last_number, NULL) != 0)
		return 0;
	return weir__stream_wait_ended(s, p->last, p->last_number);
}

/* From here on the operation owns what it needs of the run, also if it fails. */
static int start_queue(struct weir_run *run, struct weir_stream *s,
		       struct weir__stream_op *op)
{
	struct weir__graph_plan *p = run->plan;
	struct weir__source *before = run->stream ? &run->stream->src : NULL;
	uint64_t number = 0;
	int r;

	atomic_fetch_add(&run->refs, 1);
	atomic_store(&run->running, 1);
	run->op = op;
	op->start = weir__run_begin;
	op->owner = run;
	op->gone = weir__run_gone;
	op->ret_number = &number;
	pthread_mutex_lock(&p->run_lock);
	r = start_after_last(p, s);
	if (r < 0)
		weir__stream_op_drop(op);
	else
		r = weir__stream_op_queue(op);
	if (r == 0) {
		struct weir__source *last = p->last;

		p->last = weir__source_ref(&s->src);
		p->last_number = number;
		pthread_mutex_unlock(&p->run_lock);
		if (last)
			weir__source_put(last);
		run->stream = weir__stream_of(weir__source_ref(&s->src));
		run->number = number;
		run->started++;
		if (before)
			weir__source_put(before);
		return 0;
	}
	pthread_mutex_unlock(&p->run_lock);
	return r;
}

static int start_in(struct weir_run *run, struct weir_stream *s, uint32_t first,
		    uint32_t end)
{
	struct weir__stream_op *op;
	int r = weir__stream_op_begin(s, "compute", WEIR__WORK_COMPUTE, &op);

	if (r < 0)
		return r;
	start_reset(run);
	start_part(run, first, end);
	r = start_access(run, op);
	if (r == 0)
		r = start_events(run);
	if (r < 0) {
		weir__run_forget(run);
		weir__stream_op_drop(op);
		return r;
	}
	start_inputs(run);
	return start_queue(run, s, op);
}

int weir_run_start_part(struct weir_run *run, uint64_t first, uint64_t n)
{
	uint32_t nodes = run->plan->n;
	int r;

	WEIR__ENTER();
	r = start_check(run);
	if (r == 0 && (first > nodes || n > nodes - first))
		r = weir__fail(-EINVAL,
			       "%llu nodes from node %llu on: the graph has %u",
			       (unsigned long long)n, (unsigned long long)first,
			       nodes);
	if (r == 0)
		r = weir__run_own(run);
	return r < 0 ? r
		     : start_in(run, run->own, (uint32_t)first,
				(uint32_t)(first + n));
}

int weir_run_start(struct weir_run *run)
{
	return weir_run_start_part(run, 0, run->plan->n);
}

int weir_stream_compute(struct weir_stream *stream, struct weir_run *run)
{
	const struct weir_sched *sched = run->plan->sched;
	int r;

	WEIR__ENTER();
	r = start_check(run);
	if (r < 0)
		return r;
	if (stream->dev != sched->dev)
		return weir__fail(-EINVAL,
				  "%s is of %s, the schedule is for %s",
				  stream->label, stream->dev->desc.name,
				  sched->dev->desc.name);
	if (stream->mode != &weir__stream_managed)
		return weir__fail(-EOPNOTSUPP,
				  "%s is native: no run can be queued in it",
				  stream->label);
	return start_in(run, stream, 0, run->plan->n);
}
