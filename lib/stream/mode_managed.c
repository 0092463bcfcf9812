/* SPDX-License-Identifier: MIT */
/*
 * The managed mode: decides which operations of a stream may run at the same
 * time. One that conflicts with an issued operation stays pending until that
 * has finished.
 */
#include "core/error.h"
#include "dev/dev.h"
#include "stream/fileio.h"

/* Returns the newest issued operation that @op may not run beside, or NULL. */
static struct weir__stream_op *find_conflict(const struct weir_stream *s,
					     const struct weir__stream_op *op)
{
	struct weir__stream_op *other;

	if (op->exclusive)
		return s->out[1] ? s->out[1] : s->out[0];
	for (other = s->out[1]; other; other = other->older)
		if (other->exclusive ||
		    weir__ranges_conflict(&op->mem, &other->mem) ||
		    weir__fileio_conflict(op, other))
			return other;
	/* The backend orders device work by itself. */
	if (weir__stream_op_is_device_work(op))
		return NULL;
	for (other = s->out[0]; other; other = other->older)
		if (other->barrier ||
		    weir__ranges_conflict(&op->mem, &other->mem))
			return other;
	return NULL;
}

/*
 * True if the oldest pending operation may be issued. The operation that it
 * conflicts with is kept in s->blocker: the lists are searched again only when
 * that has finished.
 */
static bool may_issue(struct weir_stream *s, const struct weir__stream_op *op)
{
	if (s->blocker || (op->file && s->n_files >= WEIR__STREAM_FILES))
		return false;
	s->blocker = find_conflict(s, op);
	return !s->blocker;
}

/*
 * Issue a wait for a native stream. The program may free that stream and
 * destroy its queue at any time, so its lock is held meanwhile. If it was freed
 * already, the wait is not issued: it becomes one on the host.
 */
static void issue_wait(struct weir_stream *s, struct weir_stream *native)
{
	pthread_mutex_lock(&native->lock);
	if (atomic_load(&native->freed))
		weir__stream_wait_to_host(s->first_pending);
	else
		weir__stream_issue_first(s);
	pthread_mutex_unlock(&native->lock);
}

/*
 * One thread issues at a time. While it starts an operation with the lock
 * released, another thread that comes here leaves its work to the first, which
 * examines the list again under the lock.
 */
static void managed_issue(struct weir_stream *s)
{
	struct weir_stream *native;

	if (s->issuing)
		return;
	s->issuing = true;
	while (!s->stopped && s->first_pending &&
	       may_issue(s, s->first_pending)) {
		native = weir__stream_waits_for(s->first_pending);
		if (native)
			issue_wait(s, native);
		else
			weir__stream_issue_first(s);
	}
	s->issuing = false;
}

/* The backend does not block, so the lock stays held. */
static int managed_submit(struct weir_stream *s, struct weir_backend_work *work)
{
	int r = weir__dev_result(s->dev, "queue->submit",
				 s->ops->submit(s->queue, work));

	if (r == 0 && s->ops->poll)
		weir__streams_watch(s);
	return r;
}

/* A host function may access anything. */
static int managed_queue_call(struct weir__stream_op *op)
{
	op->exclusive = true;
	return weir__stream_op_queue(op);
}

static void managed_chunk_submitted(struct weir__job *job, size_t ext,
				    uint64_t lo, uint64_t hi)
{
	struct weir__stream_op *op = ((struct weir__fileio *)job->arg)->op;
	struct weir_stream *s = op->stream;
	bool all;

	pthread_mutex_lock(&s->lock);
	op->unsubmitted -= weir__fileio_bytes(&job->ext[ext], lo, hi);
	all = op->unsubmitted == 0;
	pthread_mutex_unlock(&s->lock);
	if (all)
		weir__timeline_changed(&s->timeline);
}

/*
 * A read to a device is copied by queues of the engine, where a native stream
 * can wait for the copies. A write ends on the host.
 */
static int managed_queue_file(struct weir__stream_op *op)
{
	struct weir__fileio *io;
	int r;

	if (weir__fileio_may_nowait(op))
		return weir__fileio_queue_nowait(op);
	r = weir__fileio_make(op);
	if (r < 0)
		return weir__stream_op_end(op, r);
	io = op->io;
	op->engine_copies = io->ext->dev && !io->job.write;
	if (op->engine_copies)
		io->job.chunk_submitted = managed_chunk_submitted;
	return weir__stream_op_queue(op);
}

/*
 * The device waits if it can; otherwise the stream issues nothing until
 * @number.
 */
static int managed_wait(struct weir_stream *s, struct weir__timeline *tl,
			uint64_t number)
{
	bool copies;
	struct weir_stream *other =
		weir__stream_submitted(s, tl, number, &copies);

	if (other && !copies)
		return weir__stream_wait_on_queue(s, tl, number, other->queue);
	return weir__stream_wait_on_host(s, tl, number);
}

static int managed_tail(struct weir_stream *s, uint64_t *ret_tail)
{
	*ret_tail = weir__stream_tail(s);
	return 0;
}

const struct weir__stream_mode weir__stream_managed = {
	.size = sizeof(weir__stream_managed),
	.issue = managed_issue,
	.submit = managed_submit,
	.tail = managed_tail,
	.queue_call = managed_queue_call,
	.queue_file = managed_queue_file,
	.wait = managed_wait,
};
