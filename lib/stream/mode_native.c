/* SPDX-License-Identifier: MIT */
/*
 * The native mode: no operation stays pending. Work that the device orders is
 * submitted to its queue at once; for other work the caller blocks, with no
 * lock held.
 */
#include <sched.h>

#include "core/clock.h"
#include "core/error.h"
#include "races/races.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "stream/fileio.h"

/* Each operation is issued by the thread that queued it, under one lock. */
static void native_issue(struct weir_stream *s)
{
	while (!s->stopped && s->first_pending)
		weir__stream_issue_first(s);
}

/* The submit lock is held. */
static int submit_locked(struct weir_stream *s, struct weir_backend_work *work)
{
	if (atomic_load(&s->freed))
		return -ESHUTDOWN;
	return weir__dev_result(s->dev, "queue->submit",
				s->ops->submit(s->queue, work));
}

/*
 * Take the submit lock, which a caller that is blocked in the driver may hold.
 * Returns false after @within ns.
 */
static bool lock_submit(struct weir_stream *s, int64_t within)
{
	int64_t end = weir__now() + within;

	while (pthread_mutex_trylock(&s->submit_lock) != 0) {
		if (weir__now() >= end)
			return false;
		sched_yield();
	}
	return true;
}

static int submit_work(struct weir_stream *s, struct weir_backend_work *work,
		       int64_t within)
{
	int r;

	if (!within)
		pthread_mutex_lock(&s->submit_lock);
	else if (!lock_submit(s, within))
		return -EAGAIN;
	r = submit_locked(s, work);
	pthread_mutex_unlock(&s->submit_lock);
	return r;
}

/* Two streams may wait for each other, so the lower address is locked first. */
static void lock_submits(struct weir_stream *a, struct weir_stream *b)
{
	pthread_mutex_lock(a < b ? &a->submit_lock : &b->submit_lock);
	pthread_mutex_lock(a < b ? &b->submit_lock : &a->submit_lock);
}

/*
 * The program may free @other and then destroy its queue at any time, so its
 * submit lock is held. If it was freed already, the caller waits for its last
 * work.
 */
static int submit_wait(struct weir_stream *s, struct weir__stream_op *op,
		       struct weir_stream *other)
{
	bool freed;
	int r = 0;

	lock_submits(s, other);
	freed = atomic_load(&other->freed);
	if (!freed)
		r = submit_locked(s, &op->work);
	pthread_mutex_unlock(&s->submit_lock);
	pthread_mutex_unlock(&other->submit_lock);
	if (freed) {
		weir__timeline_block(op->timeline, op->waiter.number, -1);
		op->work.done(&op->work, 0, 0);
	}
	return r;
}

static int queue_marker(struct weir_stream *s, int64_t within);

/* Queue a marker for waiters that have none yet. No lock is held. */
static void settle_owed(struct weir_stream *s)
{
	struct weir__error_saved saved;

	weir__error_save(&saved);
	queue_marker(s, 0);
	weir__error_restore(&saved);
}

/* The driver may block, for instance for memory that is not page-locked. */
static int native_submit(struct weir_stream *s, struct weir_backend_work *work)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);
	struct weir_stream *other;
	int r;

	pthread_mutex_unlock(&s->lock);
	/*
	 * A copy of a file has no operation around it, but is no wait either.
	 */
	other = work->kind == WEIR_WORK_WAIT ? weir__stream_waits_for(op)
					     : NULL;
	if (other)
		r = submit_wait(s, op, other);
	else
		r = submit_work(s, work,
				work->kind == WEIR_WORK_MARK ? op->within : 0);
	/* The caller of tail() gets the error, and the stream does not fail. */
	if (r < 0 && work->kind == WEIR_WORK_MARK) {
		*op->ret_refused = r;
		work->done(work, 0, 0);
		r = 0;
	}
	pthread_mutex_lock(&s->lock);
	if (r == 0 && s->ops->poll)
		weir__streams_watch(s);
	if (r == 0 && s->owed && work->kind != WEIR_WORK_MARK) {
		pthread_mutex_unlock(&s->lock);
		settle_owed(s);
		pthread_mutex_lock(&s->lock);
	}
	return r;
}

static void marker_done(struct weir_backend_work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);

	if (!weir__stream_wait_failed(op, res, native))
		weir__stream_op_finish(op, NULL);
}

/* Make an operation that is done when all work now in the queue is done. */
static int marker_new(struct weir_stream *s, struct weir__stream_op **ret_op)
{
	int r = weir__stream_op_new(s, "marker", ret_op);

	if (r < 0)
		return r;
	(*ret_op)->work.kind = WEIR_WORK_MARK;
	(*ret_op)->work.rows = 1;
	(*ret_op)->work.done = marker_done;
	return 0;
}

/* Let the waiters that have no marker yet wait for @number. */
static void give_owed(struct weir_stream *s, uint64_t number)
{
	struct weir__waiter *list, *w;

	pthread_mutex_lock(&s->lock);
	list = s->owed;
	s->owed = NULL;
	pthread_mutex_unlock(&s->lock);
	while ((w = list)) {
		list = w->next;
		w->number = number;
		if (weir__timeline_wait(&s->timeline, w) != 0)
			w->wake(w);
	}
}

/* Queue a marker. < 0: the queue has refused it. */
static int marker_queue(struct weir_stream *s, struct weir__stream_op *op)
{
	struct weir__error_saved saved;
	int refused = 0;

	weir__error_save(&saved);
	op->ret_refused = &refused;
	weir__stream_op_queue(op);
	if (refused)
		return refused;
	weir__error_restore(&saved);
	give_owed(s, weir__stream_tail(s));
	return 0;
}

static int queue_marker(struct weir_stream *s, int64_t within)
{
	struct weir__stream_op *op;
	int r = marker_new(s, &op);

	if (r < 0)
		return r;
	op->within = within;
	return marker_queue(s, op);
}

static int tail_by_marker(struct weir_stream *s, int64_t within,
			  uint64_t *ret_tail)
{
	int r = 0;

	if (!atomic_load(&s->freed))
		r = queue_marker(s, within);
	else if (atomic_load(&s->unmarked))
		r = weir__fail(
			-EBUSY,
			"%s was freed while its queue took no marker, so the end of its work is not known",
			s->label);
	if (r == 0)
		*ret_tail = weir__stream_tail(s);
	return r;
}

static int native_tail(struct weir_stream *s, uint64_t *ret_tail)
{
	return tail_by_marker(s, 0, ret_tail);
}

int weir__stream_tail_within(struct weir_stream *s, int64_t ns,
			     uint64_t *ret_tail)
{
	if (s->mode == &weir__stream_native)
		return tail_by_marker(s, ns, ret_tail);
	return s->mode->tail(s, ret_tail);
}

int weir__stream_await(struct weir_stream *s, struct weir__waiter *waiter)
{
	uint64_t number;

	if (weir__stream_tail_within(s, 1, &waiter->number) == 0)
		return weir__timeline_wait(&s->timeline, waiter);
	pthread_mutex_lock(&s->lock);
	waiter->next = s->owed;
	s->owed = waiter;
	pthread_mutex_unlock(&s->lock);
	/*
	 * Another thread may have queued a marker meanwhile, perhaps the last
	 * one, without finding the waiter: so queue one more.
	 */
	if (weir__stream_tail_within(s, 1, &number) == 0)
		give_owed(s, number);
	return 0;
}

/* Queue the marker that was reserved. */
static int queue_last_marker(struct weir_stream *s)
{
	struct weir__error_saved saved;
	struct weir__stream_op *op;
	int r;

	pthread_mutex_lock(&s->lock);
	op = s->last_marker;
	s->last_marker = NULL;
	pthread_mutex_unlock(&s->lock);
	if (!op)
		return 0;
	weir__error_save(&saved);
	r = marker_queue(s, op);
	weir__error_restore(&saved);
	return r;
}

/*
 * From here on native_submit() refuses work, also from calls that have begun,
 * and no managed stream submits a wait for this one. A queue that is being
 * captured takes no marker. The library's own queue takes one later, since it
 * exists as long as a heap references the stream. That of the program may be
 * destroyed as soon as this returns: the end of its work stays unknown.
 */
void weir__stream_leave(struct weir_stream *s)
{
	int r = queue_last_marker(s);

	if (r < 0 && s->owns_queue)
		return;
	pthread_mutex_lock(&s->submit_lock);
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->unmarked, r < 0);
	atomic_store(&s->freed, true);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->submit_lock);
}

int weir__stream_reserve_marker(struct weir_stream *s)
{
	struct weir__stream_op *op;
	int r = marker_new(s, &op);

	if (r < 0)
		return r;
	pthread_mutex_lock(&s->lock);
	if (!s->last_marker) {
		s->last_marker = op;
		op = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	if (op)
		weir__stream_op_drop(op);
	return 0;
}

/* The driver calls the function, in the order of the queue. */
static int native_queue_call(struct weir__stream_op *op)
{
	return weir__stream_op_queue(op);
}

/*
 * Returns the number of the newest file operation that has to end before @op is
 * issued, or 0: it accesses the same bytes of a file, or as many as allowed are
 * issued until it ends.
 */
static uint64_t file_before(const struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;
	const struct weir__stream_op *other;
	uint64_t number = 0;
	unsigned files = 0;

	pthread_mutex_lock(&s->lock);
	for (other = s->out[1]; other; other = other->older) {
		files += other->file != NULL;
		if (other->number > number &&
		    (weir__fileio_conflict(op, other) ||
		     files == WEIR__STREAM_FILES))
			number = other->number;
	}
	pthread_mutex_unlock(&s->lock);
	return number;
}

/*
 * Called on a thread of the engine: pass the copy to the caller, which submits
 * it to the stream's queue.
 */
static void native_submit_copy(struct weir__job *job,
			       struct weir_backend_work *work)
{
	struct weir__fileio *io = job->arg;

	work->next = atomic_load(&io->todo);
	while (!atomic_compare_exchange_weak(&io->todo, &work->next, work))
		;
	weir__fileio_wake(io);
}

/*
 * Submit the copies that are ready. Returns their bytes. The operation exists
 * until the last copy is done, unless the root abandoned it: then the other
 * copies are leaked, with their slots.
 */
static uint64_t submit_copies(struct weir_stream *s, struct weir__fileio *io)
{
	struct weir_backend_work *work,
		*next = atomic_exchange(&io->todo, NULL);
	uint64_t n = 0, bytes;
	int r;

	while ((work = next)) {
		next = work->next;
		bytes = work->width * work->rows;
		n += bytes;
		pthread_mutex_lock(&s->lock);
		if (io->op && !io->job.write)
			io->op->unsubmitted -= bytes;
		r = io->op ? native_submit(s, work) : 0;
		pthread_mutex_unlock(&s->lock);
		if (r < 0)
			work->done(work, r, 0);
	}
	return n;
}

/*
 * Submit copies until all @left bytes of them are submitted or, with host
 * memory, all bytes are moved. @wakes is read before the list is taken: a copy
 * that is added later changes it, and the futex does not sleep.
 */
static void submit_until_done(struct weir_stream *s, struct weir__fileio *io,
			      uint64_t left)
{
	uint32_t seen;

	atomic_store(&io->caller_waits, true);
	for (;;) {
		seen = atomic_load(&io->wakes);
		left -= submit_copies(s, io);
		if (!left || atomic_load(&io->over))
			return;
		weir__futex_wait(&io->wakes, seen, INT64_MAX);
	}
}

/*
 * The driver orders the copies with its other work. It orders neither accesses
 * to files nor accesses of the host to host memory: the caller waits for those
 * first.
 */
static int native_queue_file(struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;
	struct weir__fileio *io;
	uint64_t before, number, bytes = op->unsubmitted;
	int r = weir__fileio_make(op);

	if (r < 0)
		return weir__stream_op_end(op, r);
	io = op->io;
	before = file_before(op);
	if (io->ext->dev)
		io->job.submit_copy = native_submit_copy;
	else
		r = native_tail(s, &before);
	if (r < 0)
		return weir__stream_op_end(op, r);
	if (before)
		weir__timeline_block(&s->timeline, before, -1);
	weir__refs_add(&io->refs, 1);
	op->ret_number = &number;
	r = weir__stream_op_queue(op);
	/* If the stream has just failed, the job will never be begun. */
	if (r == 0 && io->begun) {
		submit_until_done(s, io, bytes);
		if (!io->ext->dev)
			weir__races_host_knows(&s->timeline, number);
	}
	weir__fileio_put(io);
	return r;
}

/* What a blocked caller waits for. */
struct native_wait {
	struct weir_stream *stream;
	struct weir__timeline *timeline;
	uint64_t number;
};

static int wait_on_copies(void *arg, void *queue)
{
	struct native_wait *w = arg;

	return weir__stream_wait_on_queue(
		w->stream, weir__timeline_ref(w->timeline), w->number, queue);
}

/*
 * If all awaited work is submitted to the driver, queue waits of the device for
 * it. Returns 1 if they are queued, 0 if some work is not submitted yet.
 */
static int wait_on_device(struct native_wait *w)
{
	const struct weir__timeline_ops *ops = w->timeline->ops;
	struct weir__engine *eng;
	struct weir_stream *other;
	bool copies;
	int r = 0;

	other = weir__stream_submitted(w->stream, w->timeline, w->number,
				       &copies);
	if (!other && ops->copies_submitted)
		copies = ops->copies_submitted(w->timeline, w->number) ==
			 w->stream->ops;
	if (!other && !copies)
		return 0;
	if (other)
		r = wait_on_copies(w, other->queue);
	if (r == 0 && copies)
		r = weir__engine_get(w->stream->timeline.weir, &eng);
	if (r == 0 && copies)
		r = weir__engine_queues(eng, w->stream->ops, wait_on_copies, w);
	return r < 0 ? r : 1;
}

/*
 * Block until all awaited work is submitted or has ended. @changes is read
 * before the state: otherwise the last chunk could be submitted, which changes
 * it, after this thread has tested the state and before it sleeps. The thread
 * would then sleep until the copy is done, which may depend on what it queues
 * next. Changes are counted only while change_waiters is not 0, so that is
 * incremented first.
 */
static int block_until_submitted(struct native_wait *w, int *ret_state)
{
	struct weir__timeline *tl = w->timeline;
	uint32_t seen;
	int r = 0;

	atomic_fetch_add(&tl->change_waiters, 1);
	for (;;) {
		seen = atomic_load(&tl->changes);
		*ret_state = tl->ops->state(tl, w->number, NULL);
		if (*ret_state == 0)
			r = wait_on_device(w);
		if (*ret_state || r)
			break;
		weir__futex_wait(&tl->changes, seen, INT64_MAX);
	}
	atomic_fetch_sub(&tl->change_waiters, 1);
	return r;
}

static int native_wait(struct weir_stream *s, struct weir__timeline *tl,
		       uint64_t number)
{
	struct native_wait w = { s, tl, number };
	int r = 0, state = 1;

	/* The queue orders its own work by itself. */
	if (tl != &s->timeline)
		r = block_until_submitted(&w, &state);
	/* If the number has failed, the stream fails. */
	if (state < 0)
		return weir__stream_wait_on_host(s, tl, number);
	if (state > 0)
		weir__races_next_knows(&s->timeline, tl, number);
	weir__timeline_put(tl);
	return r < 0 ? r : weir__stream_check(s);
}

const struct weir__stream_mode weir__stream_native = {
	.size = sizeof(weir__stream_native),
	.issue = native_issue,
	.submit = native_submit,
	.tail = native_tail,
	.queue_call = native_queue_call,
	.queue_file = native_queue_file,
	.wait = native_wait,
};
