/* SPDX-License-Identifier: MIT */
/*
 * The entries of lists are queued in the order of the runs, as far ahead as the
 * buffer has room. One thread at a time advances a prefetcher. Another thread
 * for which something has changed sets a flag, so that the first looks again.
 */
#include "graph/prefetch/prefetcher.h"

#include <string.h>

#include "core/error.h"
#include "races/races.h"
#include "core/refs.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/tensor.h"
#include "stream/event.h"
#include "stream/stream.h"

static int arrivals_state(struct weir__timeline *tl, uint64_t number,
			  struct weir_failure *cause)
{
	struct weir__arrivals *arrivals = (struct weir__arrivals *)tl;
	bool failed = atomic_load(&arrivals->failed);

	if (number <= atomic_load(&arrivals->done))
		return 1;
	if (!failed)
		return 0;
	if (cause)
		*cause = arrivals->cause;
	return arrivals->cause.err;
}

static void arrivals_free(struct weir__timeline *tl)
{
	struct weir__arrivals *arrivals = (struct weir__arrivals *)tl;

	weir__timeline_put(&arrivals->stream->timeline);
	weir__timeline_fini(tl);
	weir__free(arrivals);
}

static const struct weir__timeline_ops arrivals_ops = {
	.size = sizeof(arrivals_ops),
	.state = arrivals_state,
	.free = arrivals_free,
};

/*
 * Make a timeline whose reads begin when those of @before (or NULL) have ended.
 * -ENOMEM, and errors of weir__stream_new().
 */
static int arrivals_new(struct weir__prefetcher *p,
			struct weir__arrivals *before,
			struct weir__arrivals **ret)
{
	struct weir__arrivals *arrivals = weir__calloc(1, sizeof(*arrivals));
	int r;

	if (!arrivals)
		return weir__fail(-ENOMEM, "no memory to prefetch for %s",
				  p->dev->desc.name);
	r = weir__stream_new(p->dev, 0, "prefetch", &arrivals->stream);
	if (r < 0) {
		weir__free(arrivals);
		return r;
	}
	weir__timeline_init(&arrivals->timeline, &arrivals_ops, p->dev->weir);
	if (before)
		r = weir__stream_wait_ended(arrivals->stream,
					    &before->stream->timeline,
					    weir__stream_tail(before->stream));
	arrivals->after = weir__stream_tail(arrivals->stream);
	if (r < 0)
		weir__timeline_put(&arrivals->timeline);
	else
		*ret = arrivals;
	return r;
}

/* A read or copy to be queued. It has references, so that no lock is needed. */
struct next_read {
	struct weir_tensor dst, src; /* src.buf NULL: it is read from @file */
	struct weir_file *file;
	struct weir__timeline *wait; /* what a copy waits for, or NULL */
	int wait_err;                /* why its event cannot be waited for */
	uint64_t wait_number, at, number;
	uint64_t parks; /* as of the prefetch */
	struct weir__kept_leaf *kept;
};

/* The lock is held, as in all functions from here to prefetcher_serve(). */
static bool arrivals_works(const struct weir__prefetcher *p)
{
	return p->arrivals && !atomic_load(&p->arrivals->failed);
}

static struct weir__prefetch_op *out_first(struct weir__prefetcher *p)
{
	return &p->out[p->first_out];
}

static void out_pop(struct weir__prefetcher *p, bool arrived)
{
	const struct weir__prefetch_op *out = out_first(p);
	struct weir__kept_leaf *kept = out->kept;

	if (kept && kept->loading == out->number) {
		kept->loading = 0;
		kept->loaded = arrived && !kept->stale;
		kept->stale = false;
	}
	p->first_out = (p->first_out + 1) % WEIR__PREFETCH_OPS;
	p->n_out--;
}

static void arrivals_fail(struct weir__prefetcher *p,
			  const struct weir_failure *cause)
{
	struct weir__prefetch *prefetch;

	/* All numbers before that of the oldest read have arrived. */
	if (p->n_out && out_first(p)->number > atomic_load(&p->arrivals->done))
		atomic_store(&p->arrivals->done, out_first(p)->number - 1);
	while (p->n_out)
		out_pop(p, false);
	p->arrivals->cause = *cause;
	atomic_store(&p->arrivals->failed, true);
	for (prefetch = p->prefetches; prefetch; prefetch = prefetch->next)
		p->n_old++;
	p->prefetches = NULL;
	p->ahead.list = NULL;
}

static void prefetcher_advance(struct weir__prefetcher *p);

static void wait_woken(struct weir__waiter *waiter)
{
	struct weir__prefetch_wait *wait = (struct weir__prefetch_wait *)waiter;
	struct weir__prefetcher *p = wait->prefetcher;
	struct weir__timeline *tl;

	pthread_mutex_lock(&p->lock);
	tl = wait->timeline;
	wait->timeline = NULL;
	pthread_mutex_unlock(&p->lock);
	weir__timeline_put(tl);
	prefetcher_advance(p);
	weir__prefetcher_put(p);
}

/*
 * Advance the prefetcher again when the number is done or has failed. False:
 * that is so already, and nothing waits.
 */
static bool prefetcher_await(struct weir__prefetcher *p,
			     struct weir__prefetch_wait *wait,
			     struct weir__timeline *tl, uint64_t number)
{
	if (wait->timeline)
		return true;
	wait->waiter.number = number;
	wait->waiter.wake = wait_woken;
	wait->prefetcher = p;
	wait->timeline = weir__timeline_ref(tl);
	weir__refs_add(&p->refs, 1);
	if (weir__timeline_wait(tl, &wait->waiter) == 0)
		return true;
	wait->timeline = NULL;
	/* The caller has references to both. */
	weir__timeline_put(tl);
	weir__refs_drop(&p->refs);
	return false;
}

/* Take what has arrived off the queue, oldest first. */
static void prefetcher_collect(struct weir__prefetcher *p)
{
	struct weir_failure cause;

	while (p->n_out) {
		struct weir__timeline *tl = &p->arrivals->stream->timeline;
		uint64_t op = out_first(p)->op;
		int state = tl->ops->state(tl, op, &cause);

		if (state > 0)
			out_pop(p, true);
		else if (state < 0)
			arrivals_fail(p, &cause);
		else if (prefetcher_await(p, &p->arrival, tl, op))
			return;
	}
}

static bool is_released(struct weir__prefetch *prefetch, uint32_t k)
{
	struct weir__timeline *tl = prefetch->progress;
	uint64_t number =
		prefetch->base + prefetch->list->entry[k].import.last + 1;

	if (!tl || tl->ops->state(tl, number, NULL) == 0)
		return false;
	if (number > prefetch->seen)
		prefetch->seen = number;
	return true;
}

/* True if entry @k keeps no bytes of the buffer from being overwritten. */
static bool is_over(struct weir__prefetch *prefetch, uint32_t k)
{
	return prefetch->list->entry[k].kept || is_released(prefetch, k);
}

static bool overlap(const struct weir__prefetch_entry *a,
		    const struct weir__prefetch_entry *b)
{
	return a->buf == b->buf && a->offset < b->offset + b->import.bytes &&
	       b->offset < a->offset + a->import.bytes;
}

/*
 * The first entry of @prefetch whose bytes in the buffer @entry would overwrite
 * too early, or n. With @read_through the node of @entry reads it itself. Then
 * entries that their nodes read themselves do not block it: the nodes of a lane
 * are computed one after the other, and none needs what another has read to the
 * place.
 */
static uint32_t prefetch_blocker(struct weir__prefetch *prefetch,
				 const struct weir__prefetch_entry *entry,
				 bool read_through)
{
	uint32_t k;

	if (read_through && !prefetch->reads)
		return prefetch->list->n;
	while (prefetch->released < prefetch->queued &&
	       is_over(prefetch, prefetch->released))
		prefetch->released++;
	for (k = prefetch->released; k < prefetch->queued; k++)
		if (!prefetch->list->entry[k].kept &&
		    !(read_through &&
		      weir__entry_reads_through(&prefetch->list->entry[k])) &&
		    overlap(&prefetch->list->entry[k], entry) &&
		    !is_released(prefetch, k))
			return k;
	return prefetch->list->n;
}

/* True if no run needs the bytes of the place; otherwise, wait for that. */
static bool has_place(struct weir__prefetcher *p,
		      const struct weir__prefetch_entry *entry,
		      bool read_through)
{
	struct weir__prefetch *prefetch = p->prefetches;
	uint32_t k;

	while (prefetch) {
		k = prefetch_blocker(prefetch, entry, read_through);
		if (k == prefetch->list->n)
			prefetch = prefetch->next;
		else if (prefetcher_await(
				 p, &p->room, prefetch->progress,
				 prefetch->base +
					 prefetch->list->entry[k].import.last +
					 1))
			return false;
	}
	return !p->ahead.list ||
	       prefetch_blocker(&p->ahead, entry, read_through) ==
		       p->ahead.list->n;
}

/*
 * True if memory was parked since the prefetch began. What is read ahead is of
 * no use then: its leaves may have been on their way back.
 */
static bool parked_since(const struct weir__prefetcher *p, uint64_t parks)
{
	return atomic_load(&p->dev->weir->parks.n) != parks;
}

/* The prefetch whose entries are queued next; @ahead comes last. */
static struct weir__prefetch *prefetch_next(struct weir__prefetcher *p)
{
	struct weir__prefetch *prefetch = p->prefetches;

	while (prefetch && prefetch->queued == prefetch->list->n)
		prefetch = prefetch->next;
	if (prefetch || !p->ahead.list || parked_since(p, p->ahead.parks))
		return prefetch;
	return p->ahead.queued < p->ahead.list->n ? &p->ahead : NULL;
}

/*
 * Reference the bytes of a placed leaf, because the executable graph that has
 * them may be freed before they are copied.
 */
static void next_read_source(struct next_read *next, struct weir *weir,
			     const struct weir__import_src *src)
{
	next->src = src->t;
	weir_buf_ref(src->t.buf);
	if (src->event)
		next->wait_err = weir__event_get(src->event, weir, &next->wait,
						 &next->wait_number);
}

static void next_read_set(struct next_read *next,
			  const struct weir__prefetch *prefetch, uint32_t k)
{
	const struct weir__prefetch_entry *entry = &prefetch->list->entry[k];

	memset(next, 0, sizeof(*next));
	next->number = prefetch->first + k;
	next->parks = prefetch->parks;
	next->kept = entry->kept;
	next->at = entry->import.at;
	next->dst = weir__flat_tensor(weir_buf_ref(entry->buf), entry->offset,
				      entry->import.bytes);
	next->dst.name = "prefetched weights";
	if (entry->import.file)
		next->file = weir__file_ref(entry->import.file);
	else
		next_read_source(next, prefetch->list->prefetcher->dev->weir,
				 &prefetch->src[k]);
}

/*
 * Find the next entry that has to be queued, and skip those that need not be.
 * False: there is none now.
 */
static bool prefetcher_next(struct weir__prefetcher *p, struct next_read *next)
{
	struct weir__prefetch *prefetch;

	while (!p->closed && !p->n_old && p->n_out < WEIR__PREFETCH_OPS &&
	       (prefetch = prefetch_next(p))) {
		uint32_t k = prefetch->queued;
		const struct weir__prefetch_entry *entry =
			&prefetch->list->entry[k];
		struct weir__kept_leaf *kept = entry->kept;
		/* A part of a run skips what only earlier steps read. */
		bool over = is_released(prefetch, k), read_through;

		if (weir__entry_by_rows(entry)) {
			prefetch->queued++;
			prefetch->bytes += over ? 0 : entry->import.by_rows;
			continue;
		}
		read_through = !over && !kept &&
			       weir__entry_may_read_through(p, entry);

		/* This is decided for the next run when it is started. */
		if (read_through && prefetch == &p->ahead)
			return false;
		if (!over && !kept && !has_place(p, entry, read_through))
			return false;
		prefetch->queued++;
		if (over ||
		    (kept && (kept->loaded || (kept->loading && !kept->stale))))
			continue;
		if (!kept) {
			prefetch->bytes += entry->import.bytes;
			weir__entry_set_read_through(entry, read_through);
			if (read_through)
				continue;
			prefetch->reads++;
		}
		next_read_set(next, prefetch, k);
		if (kept) {
			kept->loading = next->number;
			kept->stale = false;
		}
		return true;
	}
	return false;
}

/* The last number before the first one that has not arrived. */
static uint64_t arrived_number(struct weir__prefetcher *p)
{
	const struct weir__prefetch *prefetch = p->prefetches;

	if (p->n_out)
		return out_first(p)->number - 1;
	while (prefetch && prefetch->queued == prefetch->list->n)
		prefetch = prefetch->next;
	if (prefetch)
		return prefetch->first + prefetch->queued - 1;
	return p->ahead.list ? p->ahead.first + p->ahead.queued - 1
			     : p->number - 1;
}

/*
 * Copy a placed leaf. Its memory may be parked at any time: no run needs what
 * is read ahead, or what a run needed that has ended.
 */
static int copy_queue(struct weir_stream *s, const struct next_read *next)
{
	struct weir__parks *parks = &s->timeline.weir->parks;
	int r;

	pthread_rwlock_rdlock(&parks->lock);
	r = weir__stream_copy(s, &next->dst, &next->src);
	pthread_rwlock_unlock(&parks->lock);
	return r;
}

/*
 * Queue a read or copy. Takes over the reference to next->wait. The lock is not
 * held.
 */
static int next_read_queue(struct weir_stream *s, const struct next_read *next)
{
	int r = next->wait_err;

	if (r == 0)
		r = weir__root_enter(s->timeline.weir);
	if (next->wait && r == 0)
		r = weir__stream_wait_timeline(s, next->wait,
					       next->wait_number);
	else if (next->wait)
		weir__timeline_put(next->wait);
	if (r < 0)
		return r;
	if (next->file)
		return weir__stream_read(s, next->file, next->at, &next->dst);
	return copy_queue(s, next);
}

static void next_read_drop(struct next_read *next)
{
	weir__buf_put(next->dst.buf);
	weir__buf_put(next->src.buf);
	if (next->file)
		weir__file_put(next->file);
}

/*
 * Tell the race checker which steps this thread has seen done, because the next
 * read overwrites bytes that they have read.
 */
static void prefetcher_knows(const struct weir__prefetcher *p,
			     struct weir_stream *s)
{
	const struct weir__prefetch *prefetch;

	for (prefetch = p->prefetches; prefetch; prefetch = prefetch->next)
		weir__races_next_knows(&s->timeline, prefetch->progress,
				       prefetch->seen);
}

static void drop_ahead(struct weir__prefetcher *p)
{
	p->number = p->ahead.first + p->ahead.queued;
	p->ahead.list = NULL;
}

/*
 * The leaf of @next is parked. False if a run needs it; otherwise, forget it
 * and what was read ahead with it.
 */
static bool forget_parked(struct weir__prefetcher *p,
			  const struct next_read *next)
{
	struct weir__prefetch *prefetch;

	for (prefetch = p->prefetches; prefetch; prefetch = prefetch->next) {
		uint64_t k = next->number - prefetch->first;

		if (next->number >= prefetch->first && k < prefetch->list->n &&
		    !is_released(prefetch, (uint32_t)k))
			return false;
	}
	if (p->ahead.list && next->number >= p->ahead.first)
		drop_ahead(p);
	if (next->kept && next->kept->loading == next->number)
		next->kept->loading = 0;
	return true;
}

/*
 * Queue a read, and note that it is in flight. A stream that has failed refuses
 * it; the read that failed reports the cause when its outcome is collected. The
 * lock is released meanwhile.
 */
static void prefetcher_queue(struct weir__prefetcher *p, struct next_read *next)
{
	struct weir_stream *s = p->arrivals->stream;
	struct weir__error_saved saved;
	struct weir_failure cause;
	bool failed = false;
	struct weir__prefetch_op *out =
		&p->out[(p->first_out + p->n_out) % WEIR__PREFETCH_OPS];
	int r;

	out->place = next->dst.buf->mem.base + next->dst.offset;
	out->bytes = (uint64_t)next->dst.shape[0];
	if (weir__races_on(p->dev->weir))
		prefetcher_knows(p, s);
	pthread_mutex_unlock(&p->lock);
	/* The program's call on this thread does not fail because of this. */
	weir__error_save(&saved);
	r = next_read_queue(s, next);
	if (r < 0) {
		weir__failure_set(&cause, r, 0, next->number, "%s: %s",
				  s->label, weir__error_text());
		failed = !weir__stream_has_failed(s);
	}
	weir__error_restore(&saved);
	next_read_drop(next);
	pthread_mutex_lock(&p->lock);
	if (r == -ENODATA && forget_parked(p, next))
		return;
	/* Perhaps the copy is of a leaf that was on its way back. */
	if (next->kept && !next->file && parked_since(p, next->parks))
		next->kept->stale = true;
	out->number = next->number;
	out->op = weir__stream_tail(s);
	out->kept = next->kept;
	p->n_out++;
	if (failed)
		arrivals_fail(p, &cause);
}

/*
 * Queue what can be queued, and complete what has arrived. The lock is released
 * while reads are queued and waiters are woken.
 */
static void prefetcher_serve(struct weir__prefetcher *p)
{
	struct weir__arrivals *arrivals = p->arrivals;
	struct next_read next;
	uint64_t done;
	bool failed;

	p->again = false;
	prefetcher_collect(p);
	while (arrivals_works(p) && prefetcher_next(p, &next)) {
		prefetcher_queue(p, &next);
		prefetcher_collect(p);
	}
	failed = atomic_load(&arrivals->failed);
	done = failed ? atomic_load(&arrivals->done) : arrived_number(p);
	if (!failed && done <= atomic_load(&arrivals->done))
		return;
	atomic_store(&arrivals->done, done);
	weir__timeline_ref(&arrivals->timeline);
	pthread_mutex_unlock(&p->lock);
	weir__timeline_complete(&arrivals->timeline,
				failed ? UINT64_MAX : done);
	weir__timeline_put(&arrivals->timeline);
	pthread_mutex_lock(&p->lock);
}

/* Queue what can be queued now. The caller holds no lock. */
static void prefetcher_advance(struct weir__prefetcher *p)
{
	pthread_mutex_lock(&p->lock);
	p->again = true;
	while (p->again && !p->moving && p->arrivals) {
		p->moving = true;
		prefetcher_serve(p);
		p->moving = false;
	}
	pthread_mutex_unlock(&p->lock);
}

/*
 * Give numbers to the entries of a prefetch. It takes over what was read ahead
 * for its list. The lock is held.
 */
static void prefetch_number(struct weir__prefetcher *p,
			    struct weir__prefetch *prefetch)
{
	struct weir__prefetch *ahead = &p->ahead;

	prefetch->queued = prefetch->released = 0;
	prefetch->bytes = 0;
	prefetch->reads = 0;
	prefetch->seen = prefetch->base;
	prefetch->first = p->number;
	prefetch->parks = atomic_load(&p->dev->weir->parks.n);
	if (ahead->list == prefetch->list && ahead->src == prefetch->src &&
	    ahead->parks == prefetch->parks) {
		prefetch->first = ahead->first;
		prefetch->queued = ahead->queued;
		prefetch->bytes = ahead->bytes;
		prefetch->reads = ahead->reads;
	} else if (ahead->list) {
		prefetch->first = ahead->first + ahead->queued;
	}
	p->number = prefetch->first + prefetch->list->n;
	/* From here on entries are read ahead for the next run. */
	*ahead = (struct weir__prefetch){ .list = prefetch->list,
					  .src = prefetch->src,
					  .first = p->number,
					  .parks = prefetch->parks };
}

static void prefetch_append(struct weir__prefetcher *p,
			    struct weir__prefetch *prefetch)
{
	struct weir__prefetch **end = &p->prefetches;

	while (*end)
		end = &(*end)->next;
	prefetch->next = NULL;
	*end = prefetch;
	prefetch->arrivals = p->arrivals;
	weir__timeline_ref(&prefetch->arrivals->timeline);
}

/*
 * Replace a timeline that has failed. store_lock is held, so only one thread
 * makes one. lock is held, and released while the timeline is made. The caller
 * appends a prefetch before it unlocks: a timeline fails under the lock, so the
 * timeline of a prefetch worked when the prefetch joined it. *ret_old: a
 * timeline to be dropped after the unlock, or NULL.
 */
static int arrivals_renew(struct weir__prefetcher *p,
			  struct weir__arrivals **ret_old)
{
	struct weir__arrivals *arrivals = NULL, *old = p->arrivals;
	int r;

	if (arrivals_works(p))
		return 0;
	pthread_mutex_unlock(&p->lock);
	r = arrivals_new(p, old, &arrivals);
	pthread_mutex_lock(&p->lock);
	if (r < 0)
		return r;
	p->arrivals = arrivals;
	p->number = 1;
	*ret_old = old;
	return 0;
}

int weir__prefetch_hold(const struct weir__prefetch_list *list,
			const struct weir__import_src *src,
			struct weir__stream_op *op)
{
	struct weir__prefetcher *p = list->prefetcher;
	int r = 0;

	pthread_mutex_lock(&p->lock);
	for (uint32_t k = 0; k < list->n && r == 0; k++) {
		const struct weir__prefetch_entry *entry = &list->entry[k];

		if (!entry->import.file &&
		    !(entry->kept && entry->kept->loaded))
			r = weir__stream_op_hold(op, &src[k].t,
						 entry->import.bytes);
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

int weir__prefetch_start(struct weir__prefetch *prefetch)
{
	struct weir__prefetcher *p = prefetch->list->prefetcher;
	struct weir__arrivals *old = NULL;
	int r;

	pthread_mutex_lock(&p->store_lock);
	pthread_mutex_lock(&p->lock);
	r = arrivals_renew(p, &old);
	if (r == 0) {
		prefetch_number(p, prefetch);
		prefetch_append(p, prefetch);
	}
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_unlock(&p->store_lock);
	if (old)
		weir__timeline_put(&old->timeline);
	if (r == 0)
		prefetcher_advance(p);
	return r;
}

/* The number of the run's progress after which the run reads no entry. */
static uint64_t prefetch_last(const struct weir__prefetch *prefetch)
{
	uint64_t last = 0;

	for (uint32_t k = 0; k < prefetch->list->n; k++)
		if (prefetch->list->entry[k].import.last > last)
			last = prefetch->list->entry[k].import.last;
	return prefetch->base + last + 1;
}

void weir__prefetch_end(struct weir__prefetch *prefetch)
{
	struct weir__prefetcher *p = prefetch->list->prefetcher;
	struct weir__arrivals *arrivals = prefetch->arrivals;
	struct weir__prefetch **at = &p->prefetches;

	pthread_mutex_lock(&p->lock);
	while (*at && *at != prefetch)
		at = &(*at)->next;
	if (*at)
		*at = prefetch->next;
	else
		p->n_old--;
	if (weir__races_on(p->dev->weir))
		weir__races_next_knows(&p->arrivals->stream->timeline,
				       prefetch->progress,
				       prefetch_last(prefetch));
	/* The last run was cancelled, so perhaps no run follows it. */
	if (arrivals == p->arrivals && !prefetch->next &&
	    prefetch->queued < prefetch->list->n)
		p->ahead.list = NULL;
	prefetch->arrivals = NULL;
	pthread_mutex_unlock(&p->lock);
	weir__timeline_put(&arrivals->timeline);
	prefetcher_advance(p);
}

/*
 * Cancel a wait, and return its timeline. The caller drops it, and a reference
 * to the prefetcher, after it has unlocked. NULL: it does not wait. The lock is
 * held.
 */
static struct weir__timeline *wait_cancel(struct weir__prefetch_wait *wait)
{
	struct weir__timeline *tl = wait->timeline;

	if (!tl || !weir__timeline_unwait(tl, &wait->waiter))
		return NULL;
	wait->timeline = NULL;
	return tl;
}

void weir__prefetcher_free(struct weir__prefetcher *p)
{
	struct weir__timeline *tl[2];

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->closed = true;
	p->ahead.list = NULL;
	tl[0] = wait_cancel(&p->arrival);
	tl[1] = wait_cancel(&p->room);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < 2; i++)
		if (tl[i]) {
			weir__timeline_put(tl[i]);
			weir__prefetcher_put(p);
		}
	weir__prefetcher_put(p);
}

void weir__prefetcher_forget(struct weir__prefetcher *p,
			     const struct weir__prefetch_list *list)
{
	pthread_mutex_lock(&p->lock);
	if (p->ahead.list == list)
		drop_ahead(p);
	pthread_mutex_unlock(&p->lock);
}

uint64_t weir__prefetch_bytes(struct weir__prefetch *prefetch)
{
	struct weir__prefetcher *p = prefetch->list->prefetcher;
	uint64_t bytes;

	pthread_mutex_lock(&p->lock);
	bytes = prefetch->bytes;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

/*
 * Remember which leaves are loaded before their files are checked. check_lock
 * is held, as in the next three functions.
 */
static void kept_mark(struct weir__prefetch_list *list)
{
	struct weir__prefetcher *p = list->prefetcher;

	pthread_mutex_lock(&p->lock);
	for (uint32_t k = 0; k < list->n; k++)
		if (list->entry[k].kept)
			list->entry[k].kept->ready =
				list->entry[k].kept->loaded;
	pthread_mutex_unlock(&p->lock);
}

static bool is_checked(const struct weir__prefetch_entry *entry)
{
	return !entry->import.file || (entry->kept && entry->kept->checked);
}

static int files_unchanged(const struct weir__prefetch_list *list)
{
	struct weir_file *last = NULL;
	int r = 0;

	for (uint32_t k = 0; k < list->n && r == 0; k++) {
		const struct weir__prefetch_entry *entry = &list->entry[k];

		if (is_checked(entry) || entry->import.file == last)
			continue;
		last = entry->import.file;
		r = weir__file_unchanged(last);
	}
	return r;
}

static bool kept_checked(const struct weir__prefetch_list *list)
{
	bool all = true;

	for (uint32_t k = 0; k < list->n; k++) {
		const struct weir__prefetch_entry *entry = &list->entry[k];

		if (entry->kept && entry->kept->ready)
			entry->kept->checked = true;
		all = is_checked(entry) && all;
	}
	return all;
}

/*
 * A run must not succeed with weights of two versions of a file. Prefetched
 * leaves are read again in each run, so each run checks their files. A kept
 * leaf is checked once, after it was loaded: its copy stays right, whatever
 * becomes of the file.
 */
int weir__prefetch_list_check_files(struct weir__prefetch_list *list)
{
	struct weir__prefetcher *p = list->prefetcher;
	int r;

	if (atomic_load(&list->checked))
		return 0;
	pthread_mutex_lock(&p->check_lock);
	kept_mark(list);
	r = files_unchanged(list);
	if (r == 0)
		atomic_store(&list->checked, kept_checked(list));
	pthread_mutex_unlock(&p->check_lock);
	return r;
}
