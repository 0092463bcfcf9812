/* SPDX-License-Identifier: MIT */
/*
 * Streams and events: recording the tail of a stream, and streams that wait.
 */
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/engine.h"
#include "stream/event.h"
#include "stream/stream.h"

/* What was waited for is done or has failed. No lock is held. */
static void wait_over(struct weir__stream_op *op)
{
	struct weir_failure cause, f;

	if (op->src->ops->state(op->src, op->waiter.number, &cause) >= 0) {
		weir__stream_op_finish(op, NULL);
		return;
	}
	weir__cancelled(&f, &cause);
	weir__stream_op_finish(op, &f);
}

static void wait_woken(struct weir__waiter *waiter)
{
	wait_over(weir__container(waiter, struct weir__stream_op, waiter));
}

static void wait_start(struct weir__stream_op *op)
{
	/* If it is on the list, op may be gone by now. */
	if (weir__source_wait(op->src, &op->waiter) != 0)
		wait_over(op);
}

static void wait_release(struct weir__stream_op *op)
{
	weir__source_put(op->src);
}

static int wait_op(struct weir_stream *stream, struct weir__source *src,
		   uint64_t number, struct weir__stream_op **ret_op)
{
	int r = weir__stream_op_new(stream, "wait", ret_op);

	if (r < 0) {
		weir__source_put(src);
		return r;
	}
	(*ret_op)->src = src;
	(*ret_op)->waiter.number = number;
	(*ret_op)->waiter.wake = wait_woken;
	(*ret_op)->release = wait_release;
	return 0;
}

/* Hold @stream back until @number of @src is done; takes the reference. */
static int wait_on_host(struct weir_stream *stream, struct weir__source *src,
			uint64_t number)
{
	struct weir__stream_op *op;
	int r = wait_op(stream, src, number, &op);

	if (r < 0)
		return r;
	op->alone = true;
	op->start = wait_start;
	return weir__stream_op_queue(op);
}

/* Did the device's part of it fail? Then so has the operation. */
static bool failed(struct weir__stream_op *op, int res, int32_t native)
{
	struct weir_dev *dev = op->stream->dev;

	if (res >= 0)
		return false;
	weir__stream_op_fail(op, weir__dev_result(dev, "work", res), native,
			     "%s%s", weir__errno_words(-res),
			     weir__dev_words(dev, native));
	return true;
}

/*
 * The device has seen what was waited for; now it is for the other stream to
 * say how that ended, at once or as soon as it is polled.
 */
static void device_waited(struct weir__work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);

	if (!failed(op, res, native))
		wait_start(op);
}

/* Have the device itself wait for what @queue has; takes the reference. */
static int wait_on_queue(struct weir_stream *stream, struct weir__source *src,
			 uint64_t number, void *queue)
{
	struct weir__stream_op *op;
	int r = wait_op(stream, src, number, &op);

	if (r < 0)
		return r;
	op->barrier = true;
	op->work.kind = WEIR__WORK_WAIT;
	op->work.arg = queue;
	op->work.rows = 1;
	op->work.done = device_waited;
	return weir__stream_op_queue(op);
}

/* Is it with the device, or are at least its copies? The lock is held. */
static bool op_handed(const struct weir__stream_op *op, bool *ret_copies)
{
	if (!op->file || op->unhanded)
		return false;
	/* A native stream has them itself. */
	*ret_copies = !op->stream->native;
	return true;
}

/*
 * Does the device of both have all up to @number of @src? Functions of the
 * host and what they hold back are not its own. *ret_copies: so are files,
 * but some copies of them are in queues of the I/O engine's.
 */
static struct weir_stream *on_device(const struct weir_stream *stream,
				     struct weir__source *src, uint64_t number,
				     bool *ret_copies)
{
	struct weir_stream *other = weir__source_dev(src) ? weir__stream_of(src)
							  : NULL;
	const struct weir__stream_op *op;
	bool has;

	*ret_copies = false;
	if (!other || other == stream || other->ops != stream->ops ||
	    !other->ops->all_in_driver)
		return NULL;
	pthread_mutex_lock(&other->lock);
	has = !other->stopped &&
	      (!other->first_pending || other->first_pending->number > number);
	for (op = other->out[1]; op && has; op = op->older)
		has = op->number > number || op_handed(op, ret_copies);
	pthread_mutex_unlock(&other->lock);
	if (has && other->ops->all_in_driver(other->queue))
		return other;
	*ret_copies = false;
	return NULL;
}

/* A wait on a native stream. */
struct waiting {
	struct weir_stream *stream;
	struct weir__source *src;
	uint64_t number;
};

static int wait_on_copies(void *arg, void *queue)
{
	struct waiting *w = arg;

	return wait_on_queue(w->stream, weir__source_ref(w->src), w->number,
			     queue);
}

/*
 * If all that is waited for is with the driver, have it wait. 1: it does; 0:
 * not yet.
 */
static int hand_over(struct waiting *w)
{
	const struct weir__source_ops *ops = w->src->ops;
	struct weir__engine *eng;
	struct weir_stream *other;
	bool copies;
	int r = 0;

	other = on_device(w->stream, w->src, w->number, &copies);
	if (!other && ops->copies_in_driver)
		copies = ops->copies_in_driver(w->src, w->number) ==
			 w->stream->ops;
	if (!other && !copies)
		return 0;
	if (other)
		r = wait_on_copies(w, other->queue);
	if (r == 0 && copies)
		r = weir__engine_get(w->stream->src.weir, &eng);
	if (r == 0 && copies)
		r = weir__engine_queues(eng, w->stream->ops, wait_on_copies, w);
	return r < 0 ? r : 1;
}

/*
 * Nothing of a native stream can be held back: hold its caller, until all
 * that is waited for is with the driver or over.
 */
static int wait_native(struct weir_stream *stream, struct weir__source *src,
		       uint64_t number)
{
	struct waiting w = { stream, src, number };
	uint32_t seen;
	int r = 0, state;

	atomic_fetch_add(&src->change_waiters, 1);
	for (;;) {
		seen = atomic_load(&src->changes);
		state = src->ops->state(src, number, NULL);
		if (state == 0)
			r = hand_over(&w);
		if (state || r)
			break;
		weir__futex_wait(&src->changes, seen, INT64_MAX);
	}
	atomic_fetch_sub(&src->change_waiters, 1);
	/* What has failed fails the stream. */
	if (state < 0)
		return wait_on_host(stream, src, number);
	weir__source_put(src);
	return r < 0 ? r : weir__stream_check(stream);
}

static void mark_done(struct weir__work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);

	if (!failed(op, res, native))
		weir__stream_op_finish(op, NULL);
}

static void mark(struct weir_stream *s)
{
	struct weir__error_saved saved;
	struct weir__stream_op *op;

	/* If it cannot be had, the tail is that of our own work. */
	weir__error_save(&saved);
	if (weir__stream_op_new(s, "mark", &op) == 0) {
		op->work.kind = WEIR__WORK_MARK;
		op->work.rows = 1;
		op->work.done = mark_done;
		weir__stream_op_queue(op);
	}
	weir__error_restore(&saved);
}

uint64_t weir__stream_tail(struct weir_stream *s)
{
	uint64_t tail;

	if (s->native)
		mark(s);
	pthread_mutex_lock(&s->lock);
	tail = s->tail;
	pthread_mutex_unlock(&s->lock);
	return tail;
}

int weir_stream_record(struct weir_stream *stream, struct weir_event *event)
{
	struct weir_failure f = { 0 };
	uint64_t tail;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(stream->src.weir);
	if (r < 0)
		return r;
	tail = weir__stream_tail(stream);
	pthread_mutex_lock(&stream->lock);
	if (stream->failed)
		f = stream->failure;
	pthread_mutex_unlock(&stream->lock);
	r = weir__event_record(event, &stream->src, tail);
	return r == 0 && f.err ? weir__fail_with(&f) : r;
}

int weir_stream_wait(struct weir_stream *stream, struct weir_event *event)
{
	struct weir_stream *other;
	struct weir__source *src;
	uint64_t number;
	bool copies;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(stream->src.weir);
	if (r == 0)
		r = weir__event_get(event, stream->src.weir, &src, &number);
	if (r < 0)
		return r;
	if (!src)
		return weir__stream_check(stream);
	if (src->ops->state(src, number, NULL) == 1) {
		/* Done: do not make the stream stop for it. */
		weir__source_put(src);
		return weir__stream_check(stream);
	}
	if (stream->native && src != &stream->src)
		return wait_native(stream, src, number);
	other = on_device(stream, src, number, &copies);
	if (other && !copies)
		return wait_on_queue(stream, src, number, other->queue);
	if (!stream->native)
		return wait_on_host(stream, src, number);
	/* What comes later on it is behind that anyway. */
	weir__source_put(src);
	return weir__stream_check(stream);
}
