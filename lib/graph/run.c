/* SPDX-License-Identifier: MIT */
/* Runs: made, given their inputs, waited for, read, freed. */
#include "graph/run.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "stream/event.h"

typedef unsigned long long ull;

static int copy_take(struct weir__graph_plan *p, uint32_t *ret_copy)
{
	uint32_t c = 0;

	pthread_mutex_lock(&p->sched->lock);
	while (c < p->n_copies && p->copy[c].taken)
		c++;
	if (c < p->n_copies)
		p->copy[c].taken = true;
	pthread_mutex_unlock(&p->sched->lock);
	if (c == p->n_copies)
		return weir__fail(
			-EAGAIN,
			"all %u copies of the schedule's inputs are taken by runs",
			p->n_copies);
	*ret_copy = c;
	return 0;
}

static void copy_give(struct weir__graph_plan *p, uint32_t copy)
{
	pthread_mutex_lock(&p->sched->lock);
	p->copy[copy].taken = false;
	pthread_mutex_unlock(&p->sched->lock);
}

static size_t members_of(const struct weir_buf *buf)
{
	return buf && buf->member ? buf->n_members : buf != NULL;
}

/* All of planned memory, which only runs write. */
static void touch_planned(struct weir_run *run, struct weir_buf *buf)
{
	for (size_t i = 0; i < members_of(buf); i++) {
		struct weir_buf *member = buf->member ? buf->member[i] : buf;

		run->touched[run->n_touched++] = (struct weir__touched){
			.buf = member, .hi = member->bytes, .write = true
		};
	}
}

static int touched_cmp(const void *a, const void *b)
{
	const struct weir__touched *x = a, *y = b;
	uint64_t p = (uintptr_t)x->buf->mem.base + x->lo;
	uint64_t q = (uintptr_t)y->buf->mem.base + y->lo;

	return (p > q) - (p < q);
}

static void run_touch(struct weir_run *run)
{
	const struct weir_schedule *s = run->schedule;

	for (uint32_t i = 0; i < s->n_touched; i++)
		run->touched[run->n_touched++] = s->touched[i];
	touch_planned(run, run->plan->results);
	touch_planned(run, run->plan->copy[run->copy].buf);
	touch_planned(run, run->plan->workspace);
	qsort(run->touched, run->n_touched, sizeof(*run->touched), touched_cmp);
}

static void run_drop(struct weir_run *run)
{
	weir__free(run->touched);
	weir__free(run->access);
	weir__free(run->range);
	weir__free(run->pending);
	weir__free(run->input);
	weir__free(run);
}

static struct weir_run *run_alloc(const struct weir_schedule *s)
{
	const struct weir__graph_plan *p = s->plan;
	size_t n = s->n_touched + members_of(p->results) +
		   members_of(p->copy[0].buf) + members_of(p->workspace);
	struct weir_run *run = weir__calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->touched = weir__calloc(n + !n, sizeof(*run->touched));
	run->access = weir__calloc(n + !n, sizeof(*run->access));
	run->range = weir__calloc(n + !n, sizeof(*run->range));
	run->pending =
		weir__calloc((size_t)p->n_gates + 1, sizeof(*run->pending));
	run->input = weir__calloc((size_t)p->n_ports + 1, sizeof(*run->input));
	if (run->touched && run->access && run->range && run->pending &&
	    run->input)
		return run;
	run_drop(run);
	return NULL;
}

int weir_run_new(struct weir_schedule *schedule, struct weir_run **ret_run)
{
	struct weir__graph_plan *p = schedule->plan;
	struct weir_run *run;
	uint32_t copy = 0;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(p->sched->weir);
	if (r == 0)
		r = copy_take(p, &copy);
	if (r < 0)
		return r;
	run = run_alloc(schedule);
	if (!run) {
		copy_give(p, copy);
		return weir__fail(-ENOMEM, "no memory for a run");
	}
	atomic_init(&run->refs, 1);
	pthread_mutex_init(&run->lock, NULL);
	atomic_fetch_add(&schedule->refs, 1);
	run->schedule = schedule;
	run->plan = p;
	run->copy = copy;
	run_touch(run);
	*ret_run = run;
	return 0;
}

/* Perhaps on a thread of the library, when its operation is gone. */
void weir__run_put(struct weir_run *run)
{
	struct weir__graph_plan *p = run->plan;

	if (atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (run->own)
		weir__sched_stream_back(p->sched, run->own);
	if (run->stream)
		weir__source_put(&run->stream->src);
	copy_give(p, run->copy);
	weir__schedule_put(run->schedule);
	pthread_mutex_destroy(&run->lock);
	run_drop(run);
}

void weir__run_forget(struct weir_run *run)
{
	for (uint32_t i = 0; i <= run->plan->n_gates; i++) {
		if (!run->pending[i].src)
			continue;
		weir__source_put(run->pending[i].src);
		run->pending[i].src = NULL;
	}
}

void weir__run_gone(void *arg)
{
	struct weir_run *run = arg;

	weir__run_forget(run);
	pthread_mutex_lock(&run->lock);
	run->ended_at = weir__now();
	pthread_mutex_unlock(&run->lock);
	atomic_store(&run->running, 0);
	weir__run_put(run);
}

static void run_stop(struct weir_run *run)
{
	if (!atomic_load(&run->running))
		return;
	atomic_store(&run->stop, 1);
	weir__run_stop_waiting(run);
}

void weir_run_free(struct weir_run *run)
{
	if (!run || !weir__root_is_ours(run->plan->sched->weir))
		return;
	run_stop(run);
	weir__run_put(run);
}

int weir_run_cancel(struct weir_run *run)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(run->plan->sched->weir);
	if (r == 0)
		run_stop(run);
	return r;
}

struct weir_tensor weir__run_port(const struct weir_run *run, uint32_t i)
{
	const struct weir__graph_plan *p = run->plan;
	const struct weir__node_at *at = &p->at[p->port[i].node];
	struct weir_tensor t = run->schedule->port[i];

	if (at->where == WEIR_NODE_LEAF)
		return t;
	t.buf = at->where == WEIR_NODE_INPUTS ? p->copy[run->copy].buf
					      : p->results;
	t.offset = at->offset;
	return t;
}

/* The port of a node that has the flag, which is called @what. */
static int port_of(const struct weir_run *run, const struct weir_node *node,
		   uint8_t flag, const char *what, uint32_t *ret_i)
{
	const struct weir__graph_plan *p = run->plan;
	const struct weir__port *port = weir__port_find(p, node->index);

	if (!port || !(port->flags & flag))
		return weir__fail(-EINVAL, "node %u is no %s of the schedule",
				  node->index, what);
	*ret_i = (uint32_t)(port - p->port);
	return 0;
}

static int input_begin(const struct weir_run *run, const struct weir_node *node,
		       uint32_t *ret_i, struct weir_tensor *ret_t)
{
	int r = weir__root_enter(run->plan->sched->weir);

	if (r == 0 && atomic_load(&run->running))
		r = weir__fail(-EBUSY, "the run has not ended");
	if (r == 0)
		r = port_of(run, node, WEIR__PORT_INPUT, "input", ret_i);
	if (r == 0)
		*ret_t = weir__run_port(run, *ret_i);
	return r;
}

int weir_run_input(struct weir_run *run, const struct weir_node *node,
		   const void *data, size_t bytes)
{
	struct weir_tensor t;
	uint64_t want;
	uint32_t i = 0;
	int r;

	WEIR__ENTER();
	r = input_begin(run, node, &i, &t);
	if (r == 0)
		r = weir__tensor_bytes(&t, &want);
	if (r < 0)
		return r;
	if (bytes != want)
		return weir__fail(-EINVAL, "input %s has %llu bytes, not %zu",
				  weir__tensor_words(&t, node->index),
				  (ull)want, bytes);
	if (bytes)
		r = weir__tensor_set(&t, 0, data, bytes);
	if (r == 0)
		run->input[i] = WEIR__INPUT_SET;
	return r;
}

void weir__run_inputs(struct weir_run *run, enum weir__input_state now)
{
	for (uint32_t i = 0; i < run->plan->n_ports; i++)
		if (run->input[i] == WEIR__INPUT_QUEUED)
			run->input[i] = now;
}

int weir__run_own(struct weir_run *run)
{
	if (run->own && weir__stream_check(run->own) == 0)
		return 0;
	if (run->own) {
		weir__run_inputs(run, WEIR__INPUT_UNSET);
		weir__source_put(&run->own->src);
		run->own = NULL;
	}
	return weir__sched_stream(run->plan->sched, &run->own);
}

static int event_wait(struct weir_stream *s, struct weir_event *event)
{
	struct weir__source *src;
	uint64_t number;
	int r = weir__event_get(event, s->src.weir, &src, &number);

	if (r < 0 || !src)
		return r;
	if (src->ops->state(src, number, NULL) != 1)
		return s->mode->wait(s, src, number);
	weir__source_put(src);
	return 0;
}

int weir_run_input_tensor(struct weir_run *run, const struct weir_node *node,
			  const struct weir_tensor *t, struct weir_event *event)
{
	struct weir_tensor to;
	uint64_t bytes;
	uint32_t i = 0;
	int r;

	WEIR__ENTER();
	r = input_begin(run, node, &i, &to);
	if (r == 0)
		r = weir__tensor_bytes(t, &bytes);
	if (r == 0)
		r = weir__tensor_same(&to, t);
	if (r < 0)
		return r;
	run->input[i] = WEIR__INPUT_UNSET;
	r = weir__run_own(run);
	if (r == 0 && event)
		r = event_wait(run->own, event);
	if (r == 0)
		r = weir__stream_copy(run->own, &to, t);
	if (r == 0)
		run->input[i] = WEIR__INPUT_QUEUED;
	return r;
}

int weir_run_output(struct weir_run *run, const struct weir_node *node,
		    struct weir_tensor *ret_tensor)
{
	uint32_t i = 0;
	int r;

	WEIR__ENTER();
	r = weir__root_read(run->plan->sched->weir);
	if (r == 0)
		r = port_of(run, node, WEIR__PORT_OUTPUT, "output", &i);
	if (r == 0)
		*ret_tensor = weir__run_port(run, i);
	return r;
}

static int check_started(const struct weir_run *run)
{
	int r = weir__root_read(run->plan->sched->weir);

	if (r == 0 && !run->started)
		r = weir__fail(-EINVAL, "the run was never started");
	return r;
}

int weir_run_record(struct weir_run *run, struct weir_event *event)
{
	int r;

	WEIR__ENTER();
	r = check_started(run);
	return r < 0 ? r
		     : weir__event_record(event, &run->stream->src,
					  run->number);
}

int weir_run_wait(struct weir_run *run, int64_t timeout_ns)
{
	int r;

	WEIR__ENTER();
	r = check_started(run);
	return r < 0 ? r
		     : weir__source_block(&run->stream->src, run->number,
					  timeout_ns);
}

int weir_run_report(struct weir_run *run, struct weir_run_report *ret_report)
{
	struct weir_run_report report;
	int64_t end;
	int r;

	WEIR__ENTER();
	r = weir__root_read(run->plan->sched->weir);
	if (r < 0)
		return r;
	pthread_mutex_lock(&run->lock);
	report = run->report;
	end = run->ended_at;
	report.running = run->started_at && !end;
	report.total_ns =
		(report.running ? weir__now() : end) - run->started_at;
	pthread_mutex_unlock(&run->lock);
	report.size = sizeof(report);
	report.started = run->started;
	return weir__info_out(ret_report, &report, sizeof(report));
}
