/* SPDX-License-Identifier: MIT */
/*
 * The queue of a CUDA stream: a CUstream, and an event after each work, which
 * poll queries. Work that would block the caller, and all work after it, goes
 * to the queue's helper first (helper.c).
 */
#include "cuda/queue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/stream.h>

#define drv weir__cuda_drv

/*
 * A host function on a native stream: the driver calls it, in order with the
 * work that the program queues there. On a lost device the driver may never
 * call, or call after the work has ended: so flight and driver each have a
 * reference.
 */
struct weir__cuda_call {
	_Atomic unsigned refs;
	int (*fn)(void *arg);
	void *arg;
	_Atomic int res;
};

static void call_put(struct weir__cuda_call *call)
{
	if (atomic_fetch_sub(&call->refs, 1) == 1)
		weir__cuda_host.free(call);
}

static void CUDA_CB call_run(void *arg)
{
	struct weir__cuda_call *call = arg;

	atomic_store(&call->res, call->fn(call->arg));
	call_put(call);
}

/* Let the driver call the function of @w. A context is current. */
static CUresult call_launch(struct weir__cuda_queue *q,
			    const struct weir_backend_work *w,
			    struct weir__cuda_call **ret_call)
{
	struct weir__cuda_call *call = weir__cuda_host.calloc(1, sizeof(*call));
	CUresult r;

	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_init(&call->refs, 2);
	call->fn = w->call;
	call->arg = w->arg;
	r = drv.cuLaunchHostFunc(q->stream, call_run, call);
	if (r)
		weir__cuda_host.free(call);
	else
		*ret_call = call;
	return r;
}

/* The flight has ended: the function's result if that is < 0, else 0. */
static int call_end(struct weir__cuda_call *call)
{
	int res = atomic_load(&call->res);

	call_put(call);
	return res < 0 ? res : 0;
}

static int new_queue(struct weir_dev *dev, const char *name,
		     struct weir__cuda_queue **ret_queue)
{
	struct weir__cuda_queue *q = weir__cuda_host.calloc(1, sizeof(*q));

	if (!q)
		return weir__cuda_host.fail(-ENOMEM, "no memory for a queue");
	q->c = weir__cuda_of(dev);
	q->last = &q->first;
	q->todo_end = &q->todo;
	snprintf(q->name, sizeof(q->name), "weir/%.10s", name ? name : "cuda");
	pthread_mutex_init(&q->tail_lock, NULL);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
	*ret_queue = q;
	return 0;
}

static int cuda_queue_open(struct weir_dev *dev, unsigned flags,
			   const char *name, void **ret_queue)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	struct weir__cuda_queue *q;
	CUresult r;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	ret = new_queue(dev, name, &q);
	r = ret < 0 ? CUDA_SUCCESS
		    : drv.cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING);
	weir__cuda_leave();
	if (ret < 0)
		return ret;
	if (r) {
		weir__cuda_host.free(q);
		return weir__cuda_fail(c, r, "cuStreamCreate");
	}
	q->owns_stream = true;
	q->native = flags & WEIR_STREAM_NATIVE;
	*ret_queue = q;
	return 0;
}

/*
 * Work that is queued on a stream in capture does not run, and its events
 * cannot be queried. A context is current.
 */
static CUresult check_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = CUDA_SUCCESS;

	if (drv.cuStreamIsCapturing)
		r = drv.cuStreamIsCapturing(stream, &status);
	return r || status == CU_STREAM_CAPTURE_STATUS_NONE
		       ? r
		       : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static int check_wrapped(struct weir__cuda *c, CUstream stream)
{
	CUresult r;
	int ret;

	if (stream == CU_STREAM_PER_THREAD)
		return weir__cuda_host.fail(
			-EINVAL,
			"CU_STREAM_PER_THREAD is another stream on each thread: wrap one of cuStreamCreate");
	ret = weir__cuda_enter(c);
	if (ret < 0)
		return ret;
	r = check_capturing(stream);
	weir__cuda_leave();
	if (weir__cuda_is_capture(r))
		return weir__cuda_host.fail(
			-EBUSY,
			"the stream is being captured into a graph: wrap it afterwards");
	return r ? weir__cuda_fail(c, r, "cuStreamIsCapturing") : 0;
}

int weir__cuda_queue_wrap(struct weir_dev *dev, void *stream, void **ret_queue)
{
	struct weir__cuda_queue *q;
	int r = check_wrapped(weir__cuda_of(dev), stream);

	if (r >= 0)
		r = new_queue(dev, "wrapped", &q);
	if (r < 0)
		return r;
	q->stream = stream;
	q->native = true;
	*ret_queue = q;
	return 0;
}

int weir__cuda_queue_native(void *queue, void **ret_stream)
{
	struct weir__cuda_queue *q = queue;

	if (!q->native)
		return weir__cuda_host.fail(
			-EOPNOTSUPP,
			"the stream was made without WEIR_STREAM_NATIVE: its pending operations would be overtaken by work on the handle");
	*ret_stream = q->stream;
	return 0;
}

static void free_flights(struct weir__cuda_queue *q, bool driver)
{
	struct weir__cuda_flight *f;

	while ((f = q->spare)) {
		q->spare = f->next;
		if (f->event && driver)
			weir__cuda_note(q->c, drv.cuEventDestroy(f->event));
		weir__cuda_host.free(f);
	}
}

/*
 * On a lost device the driver is not called. If there is a helper, it frees the
 * queue when it sees that it is closed: this thread may be the helper itself.
 */
static void cuda_queue_close(void *queue)
{
	struct weir__cuda_queue *q = queue;
	bool driver = weir__cuda_push(q->c) == CUDA_SUCCESS;

	free_flights(q, driver);
	if (driver) {
		weir__cuda_helper_close(q);
		if (q->tail_event)
			weir__cuda_note(q->c,
					drv.cuEventDestroy(q->tail_event));
		if (q->owns_stream)
			weir__cuda_note(q->c, drv.cuStreamDestroy(q->stream));
		weir__cuda_leave();
	}
	pthread_mutex_lock(&q->lock);
	if (q->started) {
		q->closed = true;
		pthread_cond_signal(&q->more);
		pthread_mutex_unlock(&q->lock);
		return;
	}
	pthread_mutex_unlock(&q->lock);
	weir__cuda_host.free(q);
}

/* Record the event after all work in @on. Its tail_lock is held. */
static CUresult record_tail(struct weir__cuda_queue *on)
{
	CUresult r = weir__cuda_push(on->c);

	if (r)
		return r;
	if (!on->tail_event)
		r = drv.cuEventCreate(&on->tail_event, CU_EVENT_DISABLE_TIMING);
	/* A stream that waits for a captured event joins the capture. */
	if (!r && on->native)
		r = check_capturing(on->stream);
	if (!r)
		r = drv.cuEventRecord(on->tail_event, on->stream);
	weir__cuda_leave();
	weir__cuda_note(on->c, r);
	return r;
}

/*
 * The newest flight of @on up to the number @until, or NULL: they have ended.
 * Later work, also that of the program, may depend on this wait, so the call
 * does not wait for it.
 * Copies of a file's chunks have no number: they may be of any operation. The
 * tail_lock of @on is held.
 */
static struct weir__cuda_flight *flight_until(struct weir__cuda_queue *on,
					      uint64_t until)
{
	struct weir__cuda_flight *f, *last = NULL;

	for (f = on->first; f; f = f->next)
		if (f->number <= until)
			last = f;
	return last;
}

/*
 * The event belongs to the other queue, as to its context. A wait refers to the
 * last record before it, so the event can be recorded again at once.
 */
static CUresult queue_wait(struct weir__cuda_queue *q,
			   struct weir__cuda_queue *on, uint64_t until)
{
	struct weir__cuda_flight *f;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&on->tail_lock);
	f = flight_until(on, until);
	if (f && f->recorded) {
		r = drv.cuStreamWaitEvent(q->stream, f->event, 0);
	} else if (f || !until) {
		r = record_tail(on);
		if (!r)
			r = drv.cuStreamWaitEvent(q->stream, on->tail_event, 0);
	}
	pthread_mutex_unlock(&on->tail_lock);
	/*
	 * If only the other device is lost, this one is not: the layer above
	 * asks how the other stream ended when this wait is done.
	 */
	return atomic_load(&on->c->lost) && on->c != q->c ? CUDA_SUCCESS : r;
}

static CUresult issue_fill(struct weir__cuda_queue *q,
			   struct weir_backend_work *w)
{
	CUdeviceptr dst = (CUdeviceptr)(uintptr_t)w->dst;

	if (w->rows == 1)
		return drv.cuMemsetD8Async(dst, w->byte, w->width, q->stream);
	return drv.cuMemsetD2D8Async(dst, w->dst_pitch, w->byte, w->width,
				     w->rows, q->stream);
}

CUresult weir__cuda_issue(struct weir__cuda_queue *q,
			  struct weir_backend_work *w)
{
	switch (w->kind) {
	case WEIR_WORK_SET:
	case WEIR_WORK_GET:
	case WEIR_WORK_COPY:
		return weir__cuda_copy(q, w);
	case WEIR_WORK_FILL:
		return issue_fill(q, w);
	case WEIR_WORK_WAIT:
		return queue_wait(q, w->arg, w->until);
	case WEIR_WORK_MARK:
	case WEIR_WORK_CALL:
	case WEIR_WORK_COMPUTE: /* by weir__cuda_compute() */
		break;
	}
	return CUDA_SUCCESS;
}

/* NULL: no memory. q->lock is held. */
static struct weir__cuda_flight *new_flight(struct weir__cuda_queue *q)
{
	struct weir__cuda_flight *f = q->spare;

	if (f)
		q->spare = f->next;
	else
		f = weir__cuda_host.calloc(1, sizeof(*f));
	if (!f) {
		weir__cuda_host.fail(-ENOMEM, "no memory to track a work");
		return NULL;
	}
	f->next = NULL;
	f->call = NULL;
	f->computed = (struct weir__cuda_computed){ 0 };
	f->unknown_errors = atomic_load(&q->c->unknown_errors);
	return f;
}

/* Record the event after the work of @f; a context is current. */
static void flight_record(struct weir__cuda_queue *q,
			  struct weir__cuda_flight *f)
{
	CUresult r = CUDA_SUCCESS;

	if (!f->event)
		r = drv.cuEventCreate(&f->event, CU_EVENT_DISABLE_TIMING);
	if (!r)
		r = drv.cuEventRecord(f->event, q->stream);
	f->recorded = !r;
	weir__cuda_note(q->c, r);
	if (r && !f->err)
		f->err = r;
}

/* Append @f to the flights that are polled. */
static void flight_track(struct weir__cuda_queue *q,
			 struct weir__cuda_flight *f,
			 struct weir_backend_work *w, bool submitted,
			 CUresult err)
{
	f->work = w;
	f->number = w->number;
	f->submitted = submitted;
	f->recorded = false;
	f->err = err;
	weir__cuda_note(q->c, err);
	if (submitted)
		flight_record(q, f);
	pthread_mutex_lock(&q->tail_lock);
	*q->last = f;
	q->last = &f->next;
	pthread_mutex_unlock(&q->tail_lock);
}

int weir__cuda_track(struct weir__cuda_queue *q, struct weir_backend_work *w,
		     unsigned unknown_errors, bool submitted, CUresult err,
		     const struct weir__cuda_computed *computed)
{
	struct weir__cuda_flight *f = new_flight(q);

	if (!f)
		return -ENOMEM;
	f->unknown_errors = unknown_errors;
	f->computed = *computed;
	flight_track(q, f, w, submitted, err);
	return 0;
}

/*
 * Give @w to the driver, as the newest flight. q->lock is held. -ENOMEM: the
 * work was not taken. Work that the driver refuses is taken, and is done with
 * the driver's result. @computed: of COMPUTE, as is_short has made it.
 */
static int submit(struct weir__cuda_queue *q, struct weir_backend_work *w,
		  struct weir__cuda_computed *computed)
{
	/* Get it first: submitted work must have a flight. */
	struct weir__cuda_flight *f = new_flight(q);
	CUresult r;

	if (!f) {
		if (computed->range)
			weir__cuda_computed(q->c, w, computed, false);
		return -ENOMEM;
	}
	f->computed = *computed;
	r = weir__cuda_push(q->c);
	if (r) {
		flight_track(q, f, w, false, r);
		return 0;
	}
	r = w->kind == WEIR_WORK_COMPUTE
		    ? weir__cuda_compute(q, w, &f->computed)
		    : weir__cuda_issue(q, w);
	/* The driver may have a part of work that it refused. */
	flight_track(q, f, w, true, r);
	weir__cuda_leave();
	return 0;
}

/*
 * On a native stream nothing goes to the helper: a call that blocks, blocks the
 * caller. Moves inside host memory wait for the stream first; host functions
 * are submitted to the driver.
 */
static CUresult issue_native(struct weir__cuda_queue *q,
			     struct weir_backend_work *w,
			     struct weir__cuda_flight *f)
{
	CUresult r;

	if (w->kind == WEIR_WORK_CALL)
		return call_launch(q, w, &f->call);
	if (w->kind == WEIR_WORK_COMPUTE)
		return weir__cuda_compute(q, w, &f->computed);
	if (!weir__cuda_on_host(w))
		return weir__cuda_issue(q, w);
	r = drv.cuStreamSynchronize(q->stream);
	if (!r)
		weir__cuda_run_on_host(w);
	return r;
}

/*
 * True if the queue refused the work and submit must fail: the program queues
 * work there itself, which must not run without the wait.
 */
static bool is_refused(const struct weir_backend_work *w, CUresult r)
{
	if (w->kind == WEIR_WORK_MARK)
		return weir__cuda_is_capture(r);
	return r && w->kind == WEIR_WORK_WAIT;
}

/* q->lock is released around the driver calls, so that poll does not block. */
static int submit_native(struct weir__cuda_queue *q,
			 struct weir_backend_work *w)
{
	struct weir__cuda_flight *f;
	bool entered, issued;
	CUresult r;

	pthread_mutex_lock(&q->lock);
	f = new_flight(q);
	pthread_mutex_unlock(&q->lock);
	if (!f)
		return -ENOMEM;
	r = weir__cuda_push(q->c);
	entered = !r;
	if (entered)
		r = check_capturing(q->stream);
	issued = !r;
	if (issued)
		r = issue_native(q, w, f);
	if (is_refused(w, r)) {
		if (entered)
			weir__cuda_leave();
		pthread_mutex_lock(&q->lock);
		f->next = q->spare;
		q->spare = f;
		pthread_mutex_unlock(&q->lock);
		return weir__cuda_fail(q->c, r, "%s",
				       w->kind == WEIR_WORK_MARK
					       ? "the event of a marker"
					       : "a wait for another stream");
	}
	pthread_mutex_lock(&q->lock);
	q->out++;
	flight_track(q, f, w, issued && !weir__cuda_on_host(w), r);
	pthread_mutex_unlock(&q->lock);
	if (entered)
		weir__cuda_leave();
	return 0;
}

static bool needs_help(struct weir__cuda_queue *q,
		       const struct weir_backend_work *w,
		       struct weir__cuda_computed *computed)
{
	bool blocks;

	if (w->kind == WEIR_WORK_CALL || q->n_with_helper)
		return true;
	if (w->kind == WEIR_WORK_COMPUTE)
		return !weir__cuda_compute_is_short(w, computed);
	if (weir__cuda_push(q->c))
		return false;
	blocks = weir__cuda_blocks(q->c, w);
	weir__cuda_leave();
	return blocks;
}

static int cuda_queue_submit(void *queue, struct weir_backend_work *w)
{
	struct weir__cuda_queue *q = queue;
	struct weir__cuda_computed computed = { 0 };
	bool counted = w->kind != WEIR_WORK_CALL;
	int r;

	if (q->native)
		return submit_native(q, w);
	pthread_mutex_lock(&q->lock);
	q->out += counted;
	if (needs_help(q, w, &computed))
		r = weir__cuda_to_helper(q, w);
	else
		r = submit(q, w, &computed);
	if (r < 0)
		q->out -= counted;
	pthread_mutex_unlock(&q->lock);
	return r;
}

/*
 * If the stream cannot be queried either, nothing can show that its work has
 * ended. If it is the library's own stream, the device is treated as lost, and
 * the memory of the work is leaked.
 */
static CUresult ask_stream(struct weir__cuda_queue *q)
{
	CUresult r = drv.cuStreamQuery(q->stream);

	if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
		return r;
	if (weir__cuda_is_capture(r))
		return CUDA_ERROR_NOT_READY;
	weir__cuda_note(q->c, r);
	if (q->owns_stream)
		weir__cuda_lose(q->c, r);
	return r;
}

/*
 * True if the work of @f has ended. If its event cannot be queried, the whole
 * stream must be idle: memory that the device may still write to is not freed.
 * q->lock is held, and a context is current.
 */
static bool flight_ended(struct weir__cuda_queue *q,
			 struct weir__cuda_flight *f)
{
	CUresult r = CUDA_ERROR_UNKNOWN;

	if (!f->submitted)
		return true;
	if (f->recorded) {
		r = drv.cuEventQuery(f->event);
		if (r == CUDA_ERROR_NOT_READY ||
		    (weir__cuda_is_capture(r) &&
		     r != CUDA_ERROR_CAPTURED_EVENT))
			return false;
		/* A capture began before the record: the work never runs. */
		if (r == CUDA_ERROR_CAPTURED_EVENT && !f->err)
			f->err = r;
		weir__cuda_note(q->c, r);
		f->recorded = !r;
	}
	if (r)
		r = ask_stream(q);
	if (r == CUDA_ERROR_NOT_READY)
		return false;
	if (!r && weir__cuda_unknown_error_since(q->c, f->unknown_errors))
		r = CUDA_ERROR_UNKNOWN;
	if (!f->err)
		f->err = r;
	return true;
}

/* True if the work of @f has ended, or the device was lost. */
static bool flight_is_over(struct weir__cuda_queue *q,
			   struct weir__cuda_flight *f)
{
	int lost;

	if (!atomic_load(&q->c->lost)) {
		if (!flight_ended(q, f))
			return false;
		if (!f->err)
			return true;
	}
	lost = atomic_load(&q->c->lost);
	if (!lost)
		return true;
	if (!f->err)
		f->err = (CUresult)lost;
	f->work->leaked = f->submitted;
	return true;
}

/* Remove the flights that have ended, as a chain. q->lock is held. */
static struct weir__cuda_flight *pop_ended(struct weir__cuda_queue *q)
{
	struct weir__cuda_flight *chain = q->first, **end = &q->first, *f;
	CUresult r = chain ? weir__cuda_push(q->c) : CUDA_SUCCESS;

	if (!chain || (r && !atomic_load(&q->c->lost)))
		return NULL;
	pthread_mutex_lock(&q->tail_lock);
	for (; (f = *end) && flight_is_over(q, f); end = &f->next)
		q->out--;
	if (end == &q->first) {
		chain = NULL;
	} else {
		*end = NULL;
		q->first = f;
		if (!f)
			q->last = &q->first;
	}
	pthread_mutex_unlock(&q->tail_lock);
	if (!r)
		weir__cuda_leave();
	return chain;
}

/* The result of what the driver does not know of. */
static int flight_end(struct weir__cuda_queue *q, struct weir__cuda_flight *f)
{
	if (f->work->kind == WEIR_WORK_COMPUTE)
		return weir__cuda_computed(q->c, f->work, &f->computed,
					   f->work->leaked);
	return f->call ? call_end(f->call) : 0;
}

static int cuda_queue_poll(void *queue)
{
	struct weir__cuda_queue *q = queue;
	struct weir__cuda_flight *chain, *f, *last = NULL;
	int out;

	pthread_mutex_lock(&q->lock);
	chain = pop_ended(q);
	out = (int)q->out;
	pthread_mutex_unlock(&q->lock);
	for (f = chain; f; f = f->next) {
		int res = flight_end(q, f);

		/* What the work says of itself is more than that. */
		if (res && f->err == CUDA_ERROR_UNKNOWN && !f->work->leaked)
			f->err = CUDA_SUCCESS;
		f->work->done(f->work,
			      f->err ? weir__cuda_result(q->c, f->err) : res,
			      (int32_t)f->err);
		last = f;
	}
	if (!last)
		return out;
	pthread_mutex_lock(&q->lock);
	last->next = q->spare;
	q->spare = chain;
	pthread_mutex_unlock(&q->lock);
	return out;
}

static bool cuda_queue_all_submitted(void *queue)
{
	struct weir__cuda_queue *q = queue;
	bool all;

	pthread_mutex_lock(&q->lock);
	all = !q->n_with_helper;
	pthread_mutex_unlock(&q->lock);
	return all;
}

const struct weir_backend_queue_ops weir__cuda_queue_ops = {
	.size = sizeof(weir__cuda_queue_ops),
	.open = cuda_queue_open,
	.close = cuda_queue_close,
	.submit = cuda_queue_submit,
	.poll = cuda_queue_poll,
	.all_submitted = cuda_queue_all_submitted,
};
