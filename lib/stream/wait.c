/* SPDX-License-Identifier: MIT */
/*
 * Recording the tail of a stream in an event, and streams that wait for an
 * event.
 *
 * A wait has two forms. On the host (weir__stream_wait_on_host) the operation
 * is a waiter of the event's timeline: it is exclusive, so what follows stays
 * pending until the timeline wakes it. On the device
 * (weir__stream_wait_on_queue) it is WEIR_WORK_WAIT: the driver makes the
 * stream's queue wait for the work of another queue of the same backend up to
 * that number, and device work that follows is submitted at once. Two
 * properties of the second form are not obvious.
 *
 * Its completion does not say how the other work ended. Stream B waits for a
 * copy of stream A, which fails; the device goes on with B's work. The watcher
 * may poll B first: if B's operation finished there, an event of B would be
 * done, its waiter would use bytes that never came, and only then would the
 * watcher find that A had failed. So when the device has passed the wait, the
 * operation becomes a waiter of A's number, and finishes or fails with it.
 *
 * It is allowed only if all operations up to the number are submitted to the
 * driver. If one operation of A were still pending (for a host function, say),
 * the driver's wait would end without it. What A, or the program in A's native
 * stream, submits after that number is not waited for: it may itself depend on
 * this wait. So devices cannot wait for each other in a circle. (A queue of the
 * I/O engine has no such numbers: a wait for it is for all that it has by
 * then.)
 */
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "stream/event.h"
#include "stream/stream.h"

/* The awaited number is done or has failed. No lock is held. */
static void wait_end(struct weir__stream_op *op)
{
	struct weir_failure cause, f;

	if (weir__races_on(op->stream->timeline.weir))
		weir__op_races_waited(op);
	if (op->timeline->ops->state(op->timeline, op->waiter.number, &cause) >=
		    0 ||
	    op->any_end) {
		weir__stream_op_finish(op, NULL);
		return;
	}
	weir__cancelled(&f, &cause);
	weir__stream_op_finish(op, &f);
}

static void wait_woken(struct weir__waiter *waiter)
{
	wait_end(weir__container(waiter, struct weir__stream_op, waiter));
}

static void wait_start(struct weir__stream_op *op)
{
	/* 0: it is on the list, or was woken and may already be freed. */
	if (weir__timeline_wait(op->timeline, &op->waiter) != 0)
		wait_end(op);
}

static void wait_release(struct weir__stream_op *op)
{
	weir__timeline_put(op->timeline);
}

/* Takes over the reference to @tl. */
static int wait_op(struct weir_stream *s, struct weir__timeline *tl,
		   uint64_t number, struct weir__stream_op **ret_op)
{
	int r = weir__stream_op_new(s, "wait", ret_op);

	if (r < 0) {
		weir__timeline_put(tl);
		return r;
	}
	(*ret_op)->timeline = tl;
	(*ret_op)->waiter.number = number;
	(*ret_op)->waiter.wake = wait_woken;
	(*ret_op)->release = wait_release;
	return 0;
}

/* Takes over the reference to @tl; @any_end as in weir__stream_op. */
static int wait_on_host(struct weir_stream *s, struct weir__timeline *tl,
			uint64_t number, bool any_end)
{
	struct weir__stream_op *op;
	int r = wait_op(s, tl, number, &op);

	if (r < 0)
		return r;
	op->any_end = any_end;
	op->exclusive = true;
	op->start = wait_start;
	return weir__stream_op_queue(op);
}

int weir__stream_wait_on_host(struct weir_stream *s, struct weir__timeline *tl,
			      uint64_t number)
{
	return wait_on_host(s, tl, number, false);
}

bool weir__stream_wait_failed(struct weir__stream_op *op, int res,
			      int32_t native)
{
	struct weir_dev *dev = op->stream->dev;

	if (res >= 0)
		return false;
	weir__stream_op_fail(op, weir__dev_result(dev, "work", res), native,
			     "%s%s", weir__errno_describe(-res),
			     weir__dev_describe_error(dev, native));
	return true;
}

/* The device has passed the wait: ask the timeline how its number ended. */
static void device_waited(struct weir_backend_work *work, int res,
			  int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);

	if (!weir__stream_wait_failed(op, res, native))
		wait_start(op);
}

static int wait_on_queue(struct weir_stream *s, struct weir__timeline *tl,
			 uint64_t number, void *queue, bool any_end)
{
	struct weir__stream_op *op;
	int r = wait_op(s, tl, number, &op);

	if (r < 0)
		return r;
	op->any_end = any_end;
	op->barrier = true;
	op->work.kind = WEIR_WORK_WAIT;
	op->work.arg = queue;
	/* Queues of the engine do not have the numbers of the timeline. */
	if (weir__timeline_dev(tl) && weir__stream_of(tl)->queue == queue)
		op->work.until = number;
	op->work.rows = 1;
	op->work.done = device_waited;
	r = weir__stream_op_queue(op);
	/*
	 * The program queues work in a native stream itself, so it needs the
	 * errno.
	 */
	return r < 0 || s->mode != &weir__stream_native
		       ? r
		       : weir__stream_check_issued(s);
}

int weir__stream_wait_on_queue(struct weir_stream *s, struct weir__timeline *tl,
			       uint64_t number, void *queue)
{
	return wait_on_queue(s, tl, number, queue, false);
}

struct weir_stream *weir__stream_waits_for(const struct weir__stream_op *op)
{
	struct weir_stream *other;

	if (op->start || op->work.kind != WEIR_WORK_WAIT ||
	    !weir__timeline_dev(op->timeline))
		return NULL;
	other = weir__stream_of(op->timeline);
	return other->mode == &weir__stream_native &&
			       other->queue == op->work.arg
		       ? other
		       : NULL;
}

void weir__stream_wait_to_host(struct weir__stream_op *op)
{
	op->barrier = false;
	op->exclusive = true;
	op->start = wait_start;
}

/*
 * True if @op, which is in out[1], is a file operation whose copies are all
 * submitted. Host functions and waits on the host never are. The lock is held.
 */
static bool op_submitted(const struct weir__stream_op *op, bool *ret_copies)
{
	if (!op->file || op->unsubmitted)
		return false;
	*ret_copies |= op->engine_copies;
	return true;
}

struct weir_stream *weir__stream_submitted(const struct weir_stream *s,
					   struct weir__timeline *tl,
					   uint64_t number, bool *ret_copies)
{
	struct weir_stream *other = weir__timeline_dev(tl) ? weir__stream_of(tl)
							   : NULL;
	const struct weir__stream_op *op;
	bool all;

	*ret_copies = false;
	if (!other || other == s || other->ops != s->ops ||
	    atomic_load(&other->freed) || !other->ops->all_submitted)
		return NULL;
	pthread_mutex_lock(&other->lock);
	all = !other->stopped &&
	      (!other->first_pending || other->first_pending->number > number);
	for (op = other->out[1]; op && all; op = op->older)
		all = op->number > number || op_submitted(op, ret_copies);
	pthread_mutex_unlock(&other->lock);
	if (all && other->ops->all_submitted(other->queue))
		return other;
	*ret_copies = false;
	return NULL;
}

int weir__stream_wait_ended(struct weir_stream *s, struct weir__timeline *tl,
			    uint64_t number)
{
	bool native = s->mode == &weir__stream_native, copies;
	struct weir_stream *other =
		weir__stream_submitted(s, tl, number, &copies);

	if (other && !copies)
		return wait_on_queue(s, weir__timeline_ref(tl), number,
				     other->queue, true);
	if (native)
		return -EAGAIN;
	return wait_on_host(s, weir__timeline_ref(tl), number, true);
}

int weir_stream_record(struct weir_stream *stream, struct weir_event *event)
{
	struct weir_failure f = { 0 };
	uint64_t tail;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(stream->timeline.weir);
	if (r < 0 || (r = stream->mode->tail(stream, &tail)) < 0)
		return r;
	pthread_mutex_lock(&stream->lock);
	if (stream->failed)
		f = stream->failure;
	pthread_mutex_unlock(&stream->lock);
	r = weir__event_record(event, &stream->timeline, tail);
	return r == 0 && f.err ? weir__fail_with(&f) : r;
}

int weir__stream_wait_timeline(struct weir_stream *s, struct weir__timeline *tl,
			       uint64_t number)
{
	if (tl->ops->state(tl, number, NULL) != 1)
		return s->mode->wait(s, tl, number);
	weir__races_next_knows(&s->timeline, tl, number);
	weir__timeline_put(tl);
	return weir__stream_check(s);
}

int weir__stream_wait_event(struct weir_stream *s, struct weir_event *event)
{
	struct weir__timeline *tl;
	uint64_t number;
	int r = weir__event_get(event, s->timeline.weir, &tl, &number);

	if (r < 0)
		return r;
	return tl ? weir__stream_wait_timeline(s, tl, number)
		  : weir__stream_check(s);
}

int weir_stream_wait(struct weir_stream *stream, struct weir_event *event)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(stream->timeline.weir);
	return r < 0 ? r : weir__stream_wait_event(stream, event);
}
