/* SPDX-License-Identifier: MIT */
/*
 * Order: what may run beside what, and who moves an operation. README.md has
 * the states. Everything static here is called with the stream's lock held.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/access.h"
#include "stream/stream.h"

int weir__stream_op_new(struct weir_stream *s, const char *what,
			struct weir__stream_op **ret_op)
{
	struct weir__stream_op *op;

	pthread_mutex_lock(&s->lock);
	op = s->spare;
	if (op) {
		s->spare = op->next;
		s->n_spare--;
	}
	pthread_mutex_unlock(&s->lock);
	if (op)
		memset(op, 0, offsetof(struct weir__stream_op, mem));
	else
		op = weir__calloc(1, sizeof(*op));
	if (!op)
		return weir__fail(-ENOMEM,
				  "%s: no memory for an operation of %zu bytes",
				  s->label, sizeof(*op));
	op->stream = s;
	op->what = what;
	weir__ranges_init(&op->mem);
	op->access = op->few_access;
	op->access_cap = WEIR__STREAM_ACCESSES;
	*ret_op = op;
	return 0;
}

/* For use again; the lock is held. Returns it if it is one too many. */
static struct weir__stream_op *keep(struct weir_stream *s,
				    struct weir__stream_op *op)
{
	if (s->n_spare >= WEIR__STREAM_SPARE)
		return op;
	op->next = s->spare;
	s->spare = op;
	s->n_spare++;
	return NULL;
}

/* What it holds, but for the operation itself. The lock is not held. */
static void let_go(struct weir__stream_op *op)
{
	if (op->release)
		op->release(op);
	for (size_t i = 0; i < op->n_access; i++) {
		if (op->number)
			weir__access_del(&op->access[i]);
		weir_buf_free(op->access[i].buf);
	}
	if (op->access != op->few_access)
		weir__free(op->access);
	weir__ranges_fini(&op->mem);
	if (op->file)
		weir__file_put(op->file);
}

void weir__stream_op_drop(struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;

	let_go(op);
	pthread_mutex_lock(&s->lock);
	op = keep(s, op);
	pthread_mutex_unlock(&s->lock);
	weir__free(op);
}

/*
 * By whole pages: a block that goes to the disk directly must not pass one of
 * the same page that goes through the page cache.
 */
static bool files_meet(const struct weir__stream_op *a,
		       const struct weir__stream_op *b)
{
	struct weir__range x = a->file_range, y = b->file_range;

	if (!a->file || !b->file || a->file->id.ino != b->file->id.ino ||
	    a->file->id.dev != b->file->id.dev)
		return false;
	/* With the ends at pages it does not matter where in one they begin. */
	x.hi = weir__up(x.hi, WEIR__PAGE);
	y.hi = weir__up(y.hi, WEIR__PAGE);
	return weir__ranges_meet(&x, &y);
}

/* Is it queued with the backend, which keeps the order among these by itself? */
static bool plain(const struct weir__stream_op *op)
{
	return !op->start && !op->alone;
}

/* The newest issued operation that @op may not run beside; NULL: none. */
static struct weir__stream_op *conflict(struct weir_stream *s,
					const struct weir__stream_op *op)
{
	struct weir__stream_op *other;

	if (s->native)
		return NULL;
	if (op->alone)
		return s->out[1] ? s->out[1] : s->out[0];
	for (other = s->out[1]; other; other = other->older)
		if (other->alone ||
		    weir__ranges_conflict(&op->mem, &other->mem) ||
		    files_meet(op, other))
			return other;
	if (plain(op))
		return NULL;
	for (other = s->out[0]; other; other = other->older)
		if (other->barrier ||
		    weir__ranges_conflict(&op->mem, &other->mem))
			return other;
	return NULL;
}

uint64_t weir__stream_file_ahead(const struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;
	const struct weir__stream_op *other;
	uint64_t number = 0;
	unsigned files = 0;

	pthread_mutex_lock(&s->lock);
	for (other = s->out[1]; other; other = other->older) {
		files += other->file != NULL;
		if (other->number > number &&
		    (files_meet(op, other) || files == WEIR__STREAM_FILES))
			number = other->number;
	}
	pthread_mutex_unlock(&s->lock);
	return number;
}

/*
 * May the oldest held operation go? What it conflicted with is remembered, so
 * that the lists are looked through again only when that one has finished.
 */
static bool ready(struct weir_stream *s, const struct weir__stream_op *op)
{
	if (s->blocker ||
	    (op->file && s->n_files >= WEIR__STREAM_FILES && !s->native))
		return false;
	s->blocker = conflict(s, op);
	return !s->blocker;
}

static void put_out(struct weir_stream *s, struct weir__stream_op *op)
{
	struct weir__stream_op **list = &s->out[!plain(op)];

	op->state = WEIR__STREAM_ISSUED;
	op->older = *list;
	op->newer = NULL;
	if (*list)
		(*list)->newer = op;
	*list = op;
	s->n_files += op->file != NULL;
	weir__stream_trace_issued(s, op);
}

static void mark_finished(struct weir_stream *s, struct weir__stream_op *op,
			  int err)
{
	assert(op->state == WEIR__STREAM_ISSUED);
	op->state = WEIR__STREAM_FINISHED;
	op->err = err;
	weir__stream_trace_finished(s, op);
	if (op->older)
		op->older->newer = op->newer;
	if (op->newer)
		op->newer->older = op->older;
	else
		s->out[!plain(op)] = op->older;
	s->n_files -= op->file != NULL;
	if (s->blocker == op)
		s->blocker = NULL;
}

/* Of several that fail, the lowest number is the cause. */
static void note_failure(struct weir_stream *s,
			 const struct weir__stream_op *op,
			 const struct weir_failure *f)
{
	if (s->failed || (s->stopped && s->failure.number < op->number))
		return;
	s->stopped = true;
	s->failure = *f;
	s->failure.number = op->number;
}

int weir__stream_submit(struct weir_stream *s, struct weir__work *work)
{
	int r;

	if (s->native) {
		pthread_mutex_unlock(&s->lock);
		pthread_mutex_lock(&s->submit_lock);
	}
	r = weir__dev_result(s->dev, "queue->submit",
			     s->ops->submit(s->queue, work));
	if (s->native) {
		pthread_mutex_unlock(&s->submit_lock);
		pthread_mutex_lock(&s->lock);
	}
	if (r == 0 && s->ops->poll)
		weir__streams_watch(s);
	return r;
}

static void submit(struct weir_stream *s, struct weir__stream_op *op)
{
	struct weir_failure f;
	char reason[64];
	int r = weir__stream_submit(s, &op->work);

	if (r == 0)
		return;
	weir__failure_set(&f, r, 0, op->number,
			  "%s: operation %llu (%s) was refused: %s", s->label,
			  (unsigned long long)op->number, op->what,
			  strerror_r(-r, reason, sizeof(reason)));
	mark_finished(s, op, r);
	note_failure(s, op, &f);
}

/*
 * Issue held operations, oldest first, as long as they are ready. Another
 * thread that comes here while start() runs without the lock leaves its work
 * to this one, which looks again under the lock.
 */
static void issue(struct weir_stream *s)
{
	struct weir__stream_op *op;

	/* Of a native stream all is ready, and gone when its call returns. */
	if (s->issuing && !s->native)
		return;
	s->issuing = true;
	while (!s->stopped && (op = s->first_pending) && ready(s, op)) {
		s->first_pending = op->next;
		/* Point of no return: from here it finishes, and is retired. */
		put_out(s, op);
		if (op->start) {
			pthread_mutex_unlock(&s->lock);
			op->start(op);
			pthread_mutex_lock(&s->lock);
		} else {
			submit(s, op);
		}
	}
	s->issuing = false;
}

/* Numbers from @lo on have failed. */
static void declare(struct weir_stream *s, uint64_t lo, bool all)
{
	s->failed = true;
	pthread_mutex_lock(&s->fail_lock);
	s->now.lo = lo;
	s->now.hi = UINT64_MAX;
	s->now.all = all;
	s->now.cause = s->failure;
	pthread_mutex_unlock(&s->fail_lock);
	atomic_store(&s->ever_failed, true);
}

/* Take what can be retired off the open list, as a chain by next. */
static struct weir__stream_op *pop_finished(struct weir_stream *s,
					    uint64_t *ret_last)
{
	struct weir__stream_op *chain = s->open, **end = &s->open, *op;

	for (; (op = *end); end = &op->next) {
		if (op->state == WEIR__STREAM_ISSUED ||
		    (op->state == WEIR__STREAM_PENDING && !s->failed))
			break;
		if (op->err && !s->failed)
			declare(s, op->number, false);
		if (op == s->first_pending)
			s->first_pending = op->next;
		*ret_last = op->number;
	}
	if (end == &s->open)
		return NULL;
	s->open = op;
	*end = NULL;
	return chain;
}

/*
 * Retire what is finished, in order, one thread at a time: what the operations
 * held is let go of before their numbers are done, so that who waited for them
 * has the last reference to his buffers. Returns how many references the open
 * list held that it does not any more.
 */
static unsigned retire(struct weir_stream *s)
{
	struct weir__stream_op *chain, *op;
	unsigned idle = 0;
	uint64_t last = 0;

	if (s->retiring)
		return 0;
	s->retiring = true;
	while ((chain = pop_finished(s, &last))) {
		idle += s->open == NULL;
		pthread_mutex_unlock(&s->lock);
		for (op = chain; op; op = op->next)
			let_go(op);
		pthread_mutex_lock(&s->lock);
		while ((op = chain)) {
			chain = op->next;
			weir__free(keep(s, op));
		}
		atomic_store(&s->done, last);
	}
	s->retiring = false;
	return idle;
}

/* Move what can be moved. Releases the lock, and then wakes who waits. */
static void move(struct weir_stream *s)
{
	unsigned idle;

	issue(s);
	idle = retire(s);
	pthread_mutex_unlock(&s->lock);
	weir__source_complete(&s->src, atomic_load(&s->done));
	while (idle--)
		weir__source_put(&s->src);
}

/* The lock is held, and released. */
static int refuse(struct weir_stream *s, struct weir__stream_op *op)
{
	bool failed = s->failed;

	pthread_mutex_unlock(&s->lock);
	weir__stream_op_drop(op);
	return failed ? weir__stream_check(s)
		      : weir__fail(-ESHUTDOWN, "the root has been closed");
}

int weir__stream_op_queue(struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;

	weir__ranges_sort(&op->mem);
	pthread_mutex_lock(&s->lock);
	if (s->failed || s->closed)
		return refuse(s, op);
	op->number = ++s->tail;
	for (size_t i = 0; i < op->n_access; i++) {
		op->access[i].src = &s->src;
		op->access[i].number = op->number;
		weir__access_add(&op->access[i]);
	}
	if (s->open) {
		s->newest->next = op;
	} else {
		/* The open list holds the stream until it is empty. */
		weir__source_ref(&s->src);
		s->open = op;
	}
	s->newest = op;
	if (!s->first_pending)
		s->first_pending = op;
	move(s);
	return 0;
}

void weir__stream_op_finish(struct weir__stream_op *op,
			    const struct weir_failure *f)
{
	struct weir_stream *s = op->stream;

	/* Another thread may retire op, and the stream with it. */
	weir__source_ref(&s->src);
	pthread_mutex_lock(&s->lock);
	mark_finished(s, op, f ? f->err : 0);
	if (f)
		note_failure(s, op, f);
	move(s);
	weir__source_put(&s->src);
}

void weir__stream_op_fail(struct weir__stream_op *op, int err, int32_t native,
			  const char *fmt, ...)
{
	char why[WEIR__ERROR_MAX];
	struct weir_failure f;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	weir__failure_set(&f, err, native, op->number,
			  "%s: operation %llu (%s): %s", op->stream->label,
			  (unsigned long long)op->number, op->what, why);
	weir__stream_op_finish(op, &f);
}

bool weir__stream_abandon(struct weir_stream *s)
{
	bool open;

	pthread_mutex_lock(&s->lock);
	open = s->open != NULL;
	if (open && !s->failed) {
		s->stopped = true;
		weir__failure_set(
			&s->failure, -ESHUTDOWN, 0, s->open->number,
			"%s: operations %llu to %llu were still out when the root was closed",
			s->label, (unsigned long long)s->open->number,
			(unsigned long long)s->tail);
		declare(s, s->open->number, true);
	}
	atomic_store(&s->abandoned, open);
	pthread_mutex_unlock(&s->lock);
	if (open)
		weir__source_complete(&s->src, UINT64_MAX);
	return open;
}
