/* SPDX-License-Identifier: MIT */
/*
 * The life of an operation: queued, issued, finished, retired. README.md has
 * the states; the stream's mode decides when one is issued. Static functions
 * are called with the stream's lock held unless they say otherwise.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/trace.h"
#include "mem/access.h"
#include "stream/stream.h"

/*
 * In a trace a stream has track 0 for its queue, where one operation follows
 * another, and tracks for the file operations that run beside it: returns the
 * lowest of these that is not in use.
 */
static unsigned track_get(struct weir_stream *s)
{
	for (unsigned i = 0; i < WEIR__STREAM_FILES; i++) {
		uint64_t bit = 1ull << i % 64;

		if (s->tracks[i / 64] & bit)
			continue;
		s->tracks[i / 64] |= bit;
		return i + 1;
	}
	return 0;
}

static void trace_issued(struct weir_stream *s, struct weir__stream_op *op)
{
	op->begun = weir__trace_now(s->timeline.weir);
	if (op->begun && op->file)
		op->track = track_get(s);
}

static void trace_finished(struct weir_stream *s, struct weir__stream_op *op)
{
	if (!op->begun)
		return;
	weir__trace_name(s->timeline.weir, WEIR__TRACK_STREAM, s->id, s->label,
			 &s->named);
	if (op->track)
		s->tracks[(op->track - 1) / 64] &=
			~(1ull << (op->track - 1) % 64);
	else if (op->begun < s->queue_end)
		/*
		 * It was issued earlier, but began when its predecessor ended.
		 */
		op->begun = s->queue_end;
	weir__trace_span(s->timeline.weir, WEIR__TRACK_STREAM, s->id, op->track,
			 op->what, op->begun, op->file_range.lo, op->bytes);
	if (!op->track)
		s->queue_end = weir__now();
}

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
	if (weir__races_on(s->timeline.weir))
		weir__op_races_init(op);
	*ret_op = op;
	return 0;
}

/* Put @op on the spare list. If that is full, return @op, to be freed. */
static struct weir__stream_op *op_keep(struct weir_stream *s,
				       struct weir__stream_op *op)
{
	if (s->n_spare >= WEIR__STREAM_SPARE)
		return op;
	op->next = s->spare;
	s->spare = op;
	s->n_spare++;
	return NULL;
}

/* Drop its accesses and references, but do not free it. No lock is held. */
static void drop_references(struct weir__stream_op *op)
{
	if (weir__races_on(op->stream->timeline.weir))
		weir__op_races_drop(op);
	if (op->release)
		op->release(op);
	for (size_t i = 0; i < op->n_access; i++) {
		if (op->number)
			weir__access_del(&op->access[i]);
		weir__buf_put(op->access[i].buf);
	}
	if (op->access != op->few_access && !op->lent)
		weir__free(op->access);
	if (!op->lent)
		weir__ranges_fini(&op->mem);
	if (op->file)
		weir__file_put(op->file);
	if (op->gone)
		op->gone(op->owner);
}

void weir__stream_op_drop(struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;

	drop_references(op);
	pthread_mutex_lock(&s->lock);
	op = op_keep(s, op);
	pthread_mutex_unlock(&s->lock);
	weir__free(op);
}

static struct weir__stream_op **out_list(struct weir_stream *s,
					 const struct weir__stream_op *op)
{
	return &s->out[!weir__stream_op_is_device_work(op)];
}

static void mark_issued(struct weir_stream *s, struct weir__stream_op *op)
{
	struct weir__stream_op **list = out_list(s, op);

	op->state = WEIR__STREAM_ISSUED;
	op->work.number = op->number;
	op->older = *list;
	op->newer = NULL;
	if (*list)
		(*list)->newer = op;
	*list = op;
	s->n_files += op->file != NULL;
	trace_issued(s, op);
	if (weir__races_on(s->timeline.weir))
		weir__op_races_issued(op);
}

static void mark_finished(struct weir_stream *s, struct weir__stream_op *op,
			  int err)
{
	assert(op->state == WEIR__STREAM_ISSUED);
	op->state = WEIR__STREAM_FINISHED;
	op->err = err;
	trace_finished(s, op);
	if (op->older)
		op->older->newer = op->newer;
	if (op->newer)
		op->newer->older = op->older;
	else
		*out_list(s, op) = op->older;
	s->n_files -= op->file != NULL;
	if (s->blocker == op)
		s->blocker = NULL;
}

/* If several operations fail, the lowest number is the cause. */
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

static void op_submit(struct weir_stream *s, struct weir__stream_op *op)
{
	unsigned sentences = weir__error_count();
	struct weir_failure f;
	int r = s->mode->submit(s, &op->work);

	if (r == 0)
		return;
	weir__failure_set(&f, r, 0, op->number,
			  "%s: operation %llu (%s) was refused: %s", s->label,
			  (unsigned long long)op->number, op->what,
			  weir__error_since(sentences, r));
	mark_finished(s, op, r);
	note_failure(s, op, &f);
}

int weir__stream_op_submit(struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;
	int r;

	pthread_mutex_lock(&s->lock);
	r = s->mode->submit(s, &op->work);
	pthread_mutex_unlock(&s->lock);
	return r;
}

void weir__stream_issue_first(struct weir_stream *s)
{
	struct weir__stream_op *op = s->first_pending;

	s->first_pending = op->next;
	/* Point of no return: from here on it finishes, and is retired. */
	mark_issued(s, op);
	if (op->start) {
		pthread_mutex_unlock(&s->lock);
		op->start(op);
		pthread_mutex_lock(&s->lock);
	} else {
		op_submit(s, op);
	}
}

/* Numbers from @lo on have failed. */
static void declare_failed(struct weir_stream *s, uint64_t lo, bool all)
{
	s->failed = true;
	pthread_mutex_lock(&s->fail_lock);
	s->failed_now.lo = lo;
	s->failed_now.hi = UINT64_MAX;
	s->failed_now.all = all;
	s->failed_now.cause = s->failure;
	pthread_mutex_unlock(&s->fail_lock);
	atomic_store(&s->ever_failed, true);
}

/*
 * Take the operations that can be retired off the open list, and return them
 * linked by next. If the stream has failed, these include pending ones, which
 * are never issued.
 */
static struct weir__stream_op *pop_finished(struct weir_stream *s,
					    uint64_t *ret_last)
{
	struct weir__stream_op *chain = s->open, **end = &s->open, *op;

	for (; (op = *end); end = &op->next) {
		if (op->state == WEIR__STREAM_ISSUED ||
		    (op->state == WEIR__STREAM_PENDING && !s->failed))
			break;
		if (op->err && !s->failed)
			declare_failed(s, op->number, false);
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
 * Retire finished operations, in the order of numbers, one thread at a time.
 *
 * The references of an operation are dropped before its number is done, so that
 * a thread that waited for an event and then frees its buffer drops the last
 * reference. They are dropped without the lock, since the last one to a buffer
 * calls functions of the backend and of the caller.
 *
 * Two threads at once would break both. A takes operation 5 off the list and
 * unlocks; B finishes operation 6, takes it, drops its references and sets done
 * to 6 while A still drops those of 5. An event at 5 would be done too early,
 * and A would then set done back to 5. So B leaves 6 on the list if @retiring
 * is set, and A, which examines the list under the lock before it clears
 * @retiring, finds it there.
 *
 * The list of open operations references the stream unless it is empty. It may
 * become empty, and be filled again, several times while the lock is released:
 * returns how often it became empty. The caller drops as many references, with
 * no lock held, since the last one frees the stream with its lock.
 */
static unsigned stream_retire(struct weir_stream *s)
{
	struct weir__stream_op *chain, *op;
	unsigned emptied = 0;
	uint64_t last = 0;

	if (s->retiring)
		return 0;
	s->retiring = true;
	while ((chain = pop_finished(s, &last))) {
		emptied += s->open == NULL;
		pthread_mutex_unlock(&s->lock);
		for (op = chain; op; op = op->next)
			drop_references(op);
		pthread_mutex_lock(&s->lock);
		while ((op = chain)) {
			chain = op->next;
			weir__free(op_keep(s, op));
		}
		atomic_store(&s->done, last);
	}
	s->retiring = false;
	return emptied;
}

/* Issue and retire what is ready. Releases the lock, then wakes waiters. */
static void stream_advance(struct weir_stream *s)
{
	unsigned emptied;

	s->mode->issue(s);
	emptied = stream_retire(s);
	pthread_mutex_unlock(&s->lock);
	if (weir__races_on(s->timeline.weir))
		weir__races_flush(s->timeline.weir);
	weir__timeline_complete(&s->timeline, atomic_load(&s->done));
	while (emptied--)
		weir__timeline_put(&s->timeline);
}

/* Releases the lock. */
static int op_refuse(struct weir_stream *s, struct weir__stream_op *op)
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
		return op_refuse(s, op);
	op->number = weir__stream_number(s);
	if (op->ret_number)
		*op->ret_number = op->number;
	if (weir__races_on(s->timeline.weir))
		weir__op_races_queued(op);
	for (size_t i = 0; i < op->n_access; i++) {
		op->access[i].timeline = &s->timeline;
		op->access[i].number = op->number;
		weir__access_add(&op->access[i]);
	}
	if (s->open) {
		s->newest->next = op;
	} else {
		/* The list references the stream until it is empty. */
		weir__timeline_ref(&s->timeline);
		s->open = op;
	}
	s->newest = op;
	if (!s->first_pending)
		s->first_pending = op;
	stream_advance(s);
	return 0;
}

void weir__stream_op_finish(struct weir__stream_op *op,
			    const struct weir_failure *f)
{
	struct weir_stream *s = op->stream;

	/* Another thread may retire op, and with it the stream. */
	weir__timeline_ref(&s->timeline);
	pthread_mutex_lock(&s->lock);
	mark_finished(s, op, f ? f->err : 0);
	if (f)
		note_failure(s, op, f);
	stream_advance(s);
	weir__timeline_put(&s->timeline);
}

void weir__stream_op_failure(const struct weir__stream_op *op,
			     struct weir_failure *f, int err, int32_t native,
			     const char *fmt, va_list ap)
{
	char why[WEIR__ERROR_MAX];

	vsnprintf(why, sizeof(why), fmt, ap);
	weir__failure_set(f, err, native, op->number,
			  "%s: operation %llu (%s): %s", op->stream->label,
			  (unsigned long long)op->number, op->what, why);
}

void weir__stream_op_fail(struct weir__stream_op *op, int err, int32_t native,
			  const char *fmt, ...)
{
	struct weir_failure f;
	va_list ap;

	va_start(ap, fmt);
	weir__stream_op_failure(op, &f, err, native, fmt, ap);
	va_end(ap);
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
			"%s: operations %llu to %llu had not finished when the root was closed",
			s->label, (unsigned long long)s->open->number,
			(unsigned long long)s->tail);
		declare_failed(s, s->open->number, true);
	}
	atomic_store(&s->abandoned, open);
	pthread_mutex_unlock(&s->lock);
	if (open)
		weir__timeline_complete(&s->timeline, UINT64_MAX);
	return open;
}
