/* SPDX-License-Identifier: MIT */
/*
 * Streams and events: recording the tail of a stream, and streams that wait.
 */
#include <string.h>

#include "error.h"
#include "stream/event.h"
#include "stream/stream.h"

int weir_stream_record(struct weir_stream *stream, struct weir_event *event)
{
	struct weir_failure f = { 0 };
	uint64_t tail;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(stream->src.weir);
	if (r < 0)
		return r;
	weir__stream_mark(stream);
	pthread_mutex_lock(&stream->lock);
	tail = stream->tail;
	if (stream->failed)
		f = stream->failure;
	pthread_mutex_unlock(&stream->lock);
	r = weir__event_capture(event, &stream->src, tail);
	return r == 0 && f.err ? weir__fail_with(&f) : r;
}

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
			     "%s%s", strerrordesc_np(-res),
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

/* Have the device itself wait for what it has of @other. */
static int wait_on_device(struct weir_stream *stream, struct weir_stream *other,
			  uint64_t number)
{
	struct weir__stream_op *op;
	int r = wait_op(stream, &other->src, number, &op);

	if (r < 0)
		return r;
	op->barrier = true;
	op->work.kind = WEIR__WORK_WAIT;
	op->work.arg = other->queue;
	op->work.rows = 1;
	op->work.done = device_waited;
	return weir__stream_op_queue(op);
}

/*
 * Does the device of both have all up to @number of @src? Files, functions of
 * the host and what they hold back are not its own.
 */
static struct weir_stream *on_device(const struct weir_stream *stream,
				     struct weir__source *src, uint64_t number)
{
	struct weir_stream *other = weir__source_dev(src) ? weir__stream_of(src)
							  : NULL;
	const struct weir__stream_op *op;
	bool has;

	if (!other || other == stream || other->ops != stream->ops ||
	    !other->ops->handed)
		return NULL;
	pthread_mutex_lock(&other->lock);
	has = !other->stopped && (!other->held || other->held->number > number);
	for (op = other->out[1]; op && has; op = op->older)
		has = op->number > number;
	pthread_mutex_unlock(&other->lock);
	return has && other->ops->handed(other->queue) ? other : NULL;
}

static void mark_done(struct weir__work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);

	if (!failed(op, res, native))
		weir__stream_op_finish(op, NULL);
}

void weir__stream_mark(struct weir_stream *s)
{
	struct weir__error_saved saved;
	struct weir__stream_op *op;

	if (!s->native)
		return;
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

int weir_stream_wait(struct weir_stream *stream, struct weir_event *event)
{
	struct weir_stream *other;
	struct weir__source *src;
	uint64_t number;
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
	other = on_device(stream, src, number);
	if (other)
		return wait_on_device(stream, other, number);
	if (!stream->native)
		return wait_on_host(stream, src, number);
	/* Nothing of this stream can be held back: hold its caller. */
	if (src != &stream->src && weir__source_block(src, number, -1) < 0)
		return wait_on_host(stream, src, number);
	weir__source_put(src);
	return weir__stream_check(stream);
}
