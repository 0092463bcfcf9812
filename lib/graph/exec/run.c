/* SPDX-License-Identifier: MIT */
/* Runs: made, given their inputs, waited for, read, freed. */
#include "graph/exec/run.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "graph/exec/exec_races.h"
#include "core/refs.h"
#include "core/sys.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "stream/event.h"

typedef unsigned long long ull;

/* Take a copy of the inputs that no other run has. */
static int copy_take(struct weir__compiled *cg, uint32_t *ret_copy)
{
	uint32_t c = 0;

	pthread_mutex_lock(&cg->compiler->lock);
	while (c < cg->n_copies && cg->taken[c])
		c++;
	if (c < cg->n_copies)
		cg->taken[c] = true;
	pthread_mutex_unlock(&cg->compiler->lock);
	if (c == cg->n_copies)
		return weir__fail(
			-EAGAIN,
			"all %u copies of the executable graph's inputs are taken by runs",
			cg->n_copies);
	*ret_copy = c;
	return 0;
}

static void copy_give(struct weir__compiled *cg, uint32_t copy)
{
	pthread_mutex_lock(&cg->compiler->lock);
	cg->taken[copy] = false;
	pthread_mutex_unlock(&cg->compiler->lock);
}

static size_t members_of(const struct weir_buf *buf)
{
	return buf && buf->member ? buf->n_members : buf != NULL;
}

/* Add all bytes of a buffer of planned memory, which only runs write. */
static void access_planned(struct weir__run_lane *lane, struct weir_buf *buf,
			   bool write)
{
	for (size_t i = 0; i < members_of(buf); i++) {
		struct weir_buf *member = buf->member ? buf->member[i] : buf;

		lane->accessed[lane->n_accessed++] = (struct weir__accessed){
			.buf = member, .hi = member->bytes, .write = write
		};
	}
}

static int accessed_cmp(const void *a, const void *b)
{
	const struct weir__accessed *x = a, *y = b;
	uint64_t p = (uintptr_t)x->buf->mem.base + x->lo;
	uint64_t q = (uintptr_t)y->buf->mem.base + y->lo;

	return (p > q) - (p < q);
}

/* True if the lane reads results that are in the copy of lane @l. */
static bool lane_reads(const struct weir__graph_lane *of, uint32_t l)
{
	return of->reads >> l & 1;
}

static void lane_set_accessed(struct weir__run_lane *lane,
			      const struct weir__accessed *leaves)
{
	const struct weir__compiled *cg = lane->run->compiled;
	const struct weir__graph_lane *of = lane->of;

	for (uint32_t i = 0; i < of->n_leaves; i++)
		lane->accessed[lane->n_accessed++] = leaves[i];
	access_planned(lane, of->results, true);
	access_planned(lane, of->workspace, true);
	for (uint32_t l = 0; l < cg->n_lanes; l++)
		if (&cg->lane[l] == of || lane_reads(of, l))
			access_planned(lane,
				       cg->lane[l].copy[lane->run->copy].buf,
				       &cg->lane[l] == of);
	qsort(lane->accessed, lane->n_accessed, sizeof(*lane->accessed),
	      accessed_cmp);
}

static void lane_drop(struct weir__run_lane *lane)
{
	weir__free(lane->accessed);
	weir__free(lane->access);
	weir__free(lane->range);
	weir__free(lane->pending);
	if (lane->progress)
		weir__timeline_put(&lane->progress->timeline);
}

static void run_drop(struct weir_run *run)
{
	for (uint32_t l = 0; run->lane && l < run->compiled->n_lanes; l++)
		lane_drop(&run->lane[l]);
	if (run->end)
		weir__timeline_put(&run->end->timeline);
	weir__free(run->lane);
	weir__free(run->input);
	weir__free(run->copier);
	weir__free(run->copied);
	weir__free(run->awaited);
	weir__free(run);
}

int weir__run_lane_progress_new(struct weir__run_lane *lane,
				struct weir__progress **ret)
{
	const struct weir_dev *dev = lane->of->on->dev;

	return weir__progress_new(dev->weir, dev->desc.name, "step", ret);
}

static int lane_alloc(struct weir_run *run, uint32_t l)
{
	const struct weir__compiled *cg = run->compiled;
	const struct weir__graph_lane *of = &cg->lane[l];
	struct weir__run_lane *lane = &run->lane[l];
	size_t n = 1 + of->n_leaves + members_of(of->results) +
		   members_of(of->workspace);

	for (uint32_t k = 0; k < cg->n_lanes; k++)
		n += members_of(cg->lane[k].copy[0].buf);
	if (run->exec->import_src && of->prefetch_list)
		n += of->prefetch_list->n;
	lane->room = n;
	lane->run = run;
	lane->of = &run->compiled->lane[l];
	lane->accessed = weir__calloc(n, sizeof(*lane->accessed));
	lane->access = weir__calloc(n, sizeof(*lane->access));
	lane->range = weir__calloc(n, sizeof(*lane->range));
	lane->pending = weir__calloc((size_t)of->n_points + cg->n_lanes,
				     sizeof(*lane->pending));
	if (!lane->accessed || !lane->access || !lane->range || !lane->pending)
		return weir__fail(-ENOMEM, "no memory for a run");
	return weir__run_lane_progress_new(lane, &lane->progress);
}

int weir__run_end_progress_new(struct weir_run *run,
			       struct weir__progress **ret)
{
	return weir__progress_new(run->exec->sched->weir,
				  run->compiled->n_lanes > 1 ? "several devices"
							     : NULL,
				  "start", ret);
}

static int run_alloc(struct weir_exec *exec, struct weir_run **ret_run)
{
	struct weir__compiled *cg = exec->compiled;
	size_t ports = (size_t)cg->n_ports + 1,
	       device_copies = (size_t)cg->n_device_copies + 1;
	struct weir_run *run = weir__calloc(1, sizeof(*run));
	int r = -ENOMEM;

	if (!run)
		return weir__fail(-ENOMEM, "no memory for a run");
	run->exec = exec;
	run->compiled = cg;
	run->lane = weir__calloc(cg->n_lanes, sizeof(*run->lane));
	run->input = weir__calloc(ports, sizeof(*run->input));
	run->copier = weir__calloc((size_t)cg->n_copiers + 1,
				   sizeof(struct weir_stream *));
	run->copied = weir__calloc(device_copies, sizeof(*run->copied));
	run->awaited = weir__calloc((size_t)cg->n_lanes + cg->n_copiers,
				    sizeof(*run->awaited));
	if (run->lane && run->input && run->copier && run->copied &&
	    run->awaited)
		r = weir__run_end_progress_new(run, &run->end);
	else
		weir__fail(r, "no memory for a run");
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = lane_alloc(run, l);
	if (r < 0)
		run_drop(run);
	else
		*ret_run = run;
	return r;
}

int weir_run_new(struct weir_exec *exec, struct weir_run **ret_run)
{
	struct weir__compiled *cg = exec->compiled;
	const struct weir__accessed *leaves = exec->accessed;
	struct weir_run *run = NULL;
	uint32_t copy = 0;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(exec->sched->weir);
	if (r == 0)
		r = copy_take(cg, &copy);
	if (r < 0)
		return r;
	r = run_alloc(exec, &run);
	if (r < 0) {
		copy_give(cg, copy);
		return r;
	}
	atomic_init(&run->refs, 1);
	pthread_mutex_init(&run->lock, NULL);
	weir__refs_add(&exec->refs, 1);
	run->copy = copy;
	for (uint32_t l = 0; l < cg->n_lanes; l++) {
		lane_set_accessed(&run->lane[l], leaves);
		leaves += cg->lane[l].n_leaves;
	}
	*ret_run = run;
	return 0;
}

/*
 * The last reference is often that of an operation: then the thread is one of
 * the library's.
 */
void weir__run_put(struct weir_run *run)
{
	struct weir_exec *exec = run->exec; /* has the compiled graph */
	struct weir__compiled *cg = run->compiled;

	if (!weir__refs_drop(&run->refs))
		return;
	for (uint32_t l = 0; l < cg->n_lanes; l++) {
		struct weir__run_lane *lane = &run->lane[l];

		if (lane->own)
			weir__sched_stream_put(exec->sched, lane->of->on,
					       lane->own);
		if (lane->stream)
			weir__timeline_put(&lane->stream->timeline);
	}
	for (uint32_t c = 0; c < cg->n_copiers; c++)
		if (run->copier[c])
			weir__sched_stream_put(exec->sched, cg->copier[c].on,
					       run->copier[c]);
	/* The next run may get the same copy, and use it in other lanes. */
	if (cg->n_lanes > 1 && run->end_timeline)
		weir__races_host_knows(run->end_timeline, run->end_number);
	if (run->end_timeline)
		weir__timeline_put(run->end_timeline);
	copy_give(cg, run->copy);
	pthread_mutex_destroy(&run->lock);
	run_drop(run);
	weir__exec_put(exec);
}

void weir__run_lane_drop_pending(struct weir__run_lane *lane)
{
	for (uint32_t i = 0;
	     i < lane->of->n_points + lane->run->compiled->n_lanes; i++) {
		if (!lane->pending[i].timeline)
			continue;
		weir__timeline_put(lane->pending[i].timeline);
		lane->pending[i].timeline = NULL;
	}
}

void weir_run_free(struct weir_run *run)
{
	if (!run || !weir__root_is_ours(run->exec->sched->weir))
		return;
	if (atomic_load(&run->running))
		weir__run_stop(run);
	weir__run_put(run);
}

int weir_run_cancel(struct weir_run *run)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(run->exec->sched->weir);
	if (r == 0 && atomic_load(&run->running))
		weir__run_stop(run);
	return r;
}

struct weir_tensor weir__run_port(const struct weir_run *run, uint32_t i)
{
	const struct weir__compiled *cg = run->compiled;
	struct weir__location location =
		weir__result_location(cg, cg->port[i].node);
	struct weir_tensor t = run->exec->port[i];

	if (location.where == WEIR_NODE_LEAF)
		return t;
	t.buf = weir__location_buf(cg, &location, run->copy);
	t.offset = location.offset;
	return t;
}

/*
 * The next place of input @i: the input itself (*@k is 0), then its device
 * copies. False: there is no more.
 */
static bool input_place(const struct weir_run *run, uint32_t i, uint32_t *k,
			struct weir_tensor *t, uint32_t *ret_lane)
{
	const struct weir__compiled *cg = run->compiled;
	uint32_t node = cg->port[i].node;
	const struct weir__placed_copy *device_copy;

	*t = weir__run_port(run, i);
	*ret_lane = cg->at[node].lane;
	if (*k == 0) {
		*k = 1;
		return true;
	}
	while (*k <= cg->n_device_copies) {
		device_copy = &cg->device_copy[(*k)++ - 1];
		if (device_copy->of.node != node)
			continue;
		t->buf = weir__location_buf(cg, &device_copy->to, run->copy);
		t->offset = device_copy->to.offset;
		*ret_lane = device_copy->of.lane;
		return true;
	}
	return false;
}

/* The port of a node that has the flag, which is called @what. */
static int port_of(const struct weir_run *run, const struct weir_node *node,
		   uint8_t flag, const char *what, uint32_t *ret_i)
{
	const struct weir__compiled *cg = run->compiled;
	const struct weir__port *port = weir__port_find(cg, node->index);

	if (!port || !(port->flags & flag))
		return weir__fail(-EINVAL,
				  "node %u is no %s of the executable graph",
				  node->index, what);
	*ret_i = (uint32_t)(port - cg->port);
	return 0;
}

static int input_begin(const struct weir_run *run, const struct weir_node *node,
		       uint32_t *ret_i, struct weir_tensor *ret_t)
{
	int r = weir__root_enter(run->exec->sched->weir);

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
	uint32_t i = 0, k = 0, lane;
	struct weir_tensor t;
	uint64_t want;
	int r;

	WEIR__ENTER();
	r = input_begin(run, node, &i, &t);
	if (r == 0)
		r = weir__tensor_bytes(&t, &want);
	if (r < 0)
		return r;
	if (bytes != want)
		return weir__fail(-EINVAL, "input %s has %llu bytes, not %zu",
				  weir__tensor_describe(&t, node->index),
				  (ull)want, bytes);
	if (bytes && !data)
		return weir__fail(-EINVAL, "%zu bytes from NULL", bytes);
	/* If a copy fails, the places have parts of two values. */
	run->input[i] = WEIR__INPUT_UNSET;
	while (r == 0 && bytes && input_place(run, i, &k, &t, &lane))
		r = weir__tensor_set(&t, 0, data, bytes);
	if (r == 0)
		run->input[i] = WEIR__INPUT_SET;
	return r;
}

void weir__run_set_queued_inputs(struct weir_run *run)
{
	for (uint32_t i = 0; i < run->compiled->n_ports; i++)
		if (run->input[i] == WEIR__INPUT_QUEUED)
			run->input[i] = WEIR__INPUT_SET;
}

/* True if input @i, or a device copy of it, is copied in the lane's stream. */
static bool input_is_in(const struct weir__run_lane *lane, uint32_t i)
{
	struct weir_tensor t;
	uint32_t k = 0, l;

	while (input_place(lane->run, i, &k, &t, &l))
		if (&lane->run->lane[l] == lane)
			return true;
	return false;
}

/* The lane's stream has failed: what was queued there may have been lost. */
static void lane_lose_inputs(struct weir__run_lane *lane)
{
	struct weir_run *run = lane->run;

	for (uint32_t i = 0; i < run->compiled->n_ports; i++)
		if (run->input[i] == WEIR__INPUT_QUEUED && input_is_in(lane, i))
			run->input[i] = WEIR__INPUT_UNSET;
}

int weir__run_lane_own_stream(struct weir__run_lane *lane)
{
	struct weir_run *run = lane->run;

	if (lane->own && !weir__stream_has_failed(lane->own))
		return 0;
	if (lane->own) {
		lane_lose_inputs(lane);
		weir__timeline_put(&lane->own->timeline);
		lane->own = NULL;
	}
	return weir__sched_stream_get(run->exec->sched, lane->of->on,
				      &lane->own);
}

/*
 * Queue the copy of an input in the lane's stream. *@changed becomes true if
 * the copy or a part of it was queued, or if the event has failed, which fails
 * the stream.
 */
static int input_copy(struct weir__run_lane *lane, const struct weir_tensor *to,
		      const struct weir_tensor *t, struct weir_event *event,
		      bool *changed)
{
	int r = weir__run_lane_own_stream(lane);
	uint64_t tail;

	if (r == 0 && event)
		r = weir__stream_wait_event(lane->own, event);
	if (r == 0) {
		tail = weir__stream_tail(lane->own);
		r = weir__stream_copy(lane->own, to, t);
		*changed |= weir__stream_tail(lane->own) != tail;
	}
	*changed |= r == -ECANCELED;
	return r;
}

int weir_run_input_tensor(struct weir_run *run, const struct weir_node *node,
			  const struct weir_tensor *t, struct weir_event *event)
{
	uint32_t i = 0, k = 0, lane;
	struct weir_tensor to;
	bool changed = false;
	uint64_t bytes;
	int r;

	WEIR__ENTER();
	r = input_begin(run, node, &i, &to);
	if (r == 0)
		r = weir__tensor_bytes(t, &bytes);
	if (r == 0)
		r = weir__tensor_same(&to, t);
	if (r < 0)
		return r;
	while (r == 0 && input_place(run, i, &k, &to, &lane))
		r = input_copy(&run->lane[lane], &to, t, event, &changed);
	if (r == 0)
		run->input[i] = WEIR__INPUT_QUEUED;
	else if (changed)
		run->input[i] = WEIR__INPUT_UNSET;
	return r;
}

int weir_run_output(struct weir_run *run, const struct weir_node *node,
		    struct weir_tensor *ret_tensor)
{
	uint32_t i = 0;
	int r;

	WEIR__ENTER();
	r = weir__root_read(run->exec->sched->weir);
	if (r == 0)
		r = port_of(run, node, WEIR__PORT_OUTPUT, "output", &i);
	if (r == 0)
		*ret_tensor = weir__run_port(run, i);
	return r;
}

static int check_started(const struct weir_run *run)
{
	int r = weir__root_read(run->exec->sched->weir);

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
		     : weir__event_record(event, run->end_timeline,
					  run->end_number);
}

int weir_run_wait(struct weir_run *run, int64_t timeout_ns)
{
	int r;

	WEIR__ENTER();
	r = check_started(run);
	return r < 0 ? r
		     : weir__timeline_block(run->end_timeline, run->end_number,
					    timeout_ns);
}

/* Fill in the bytes of imports. */
static void report_imports(struct weir_run *run, struct weir_run_report *report)
{
	for (uint32_t l = 0; l < run->compiled->n_lanes; l++) {
		struct weir__run_lane *lane = &run->lane[l];

		if (!lane->of->prefetch_list)
			continue;
		report->kept += lane->of->prefetch_list->kept_bytes;
		/*
		 * The first start may have failed before it began to prefetch.
		 */
		if (lane->prefetch.list)
			report->prefetched +=
				weir__prefetch_bytes(&lane->prefetch);
	}
}

int weir_run_report(struct weir_run *run, struct weir_run_report *ret_report)
{
	struct weir_run_report report;
	int64_t end;
	int r;

	WEIR__ENTER();
	r = weir__root_read(run->exec->sched->weir);
	if (r < 0)
		return r;
	pthread_mutex_lock(&run->lock);
	report = run->report;
	report.running = atomic_load(&run->running) != 0;
	end = report.running ? weir__now() : run->ended_at;
	report.total_ns = end - run->started_at;
	pthread_mutex_unlock(&run->lock);
	report_imports(run, &report);
	report.size = sizeof(report);
	report.started = run->started;
	if (run->end_timeline && !atomic_load(&run->running))
		weir__races_host_knows(run->end_timeline, run->end_number);
	return weir__info_out(ret_report, &report, sizeof(report));
}
