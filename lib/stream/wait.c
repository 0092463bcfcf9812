/* SPDX-License-Identifier: MIT */
/*
 * Streams and events: recording the tail of a stream, and streams that wait.
 */
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

/* Hold @stream back until @number of @src is done; takes the reference. */
static int wait_for(struct weir_stream *stream, struct weir__source *src,
		    uint64_t number)
{
	struct weir__stream_op *op;
	int r = weir__stream_op_new(stream, "wait", &op);

	if (r < 0) {
		weir__source_put(src);
		return r;
	}
	op->alone = true;
	op->src = src;
	op->waiter.number = number;
	op->waiter.wake = wait_woken;
	op->start = wait_start;
	op->release = wait_release;
	return weir__stream_op_queue(op);
}

int weir_stream_wait(struct weir_stream *stream, struct weir_event *event)
{
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
	return wait_for(stream, src, number);
}
