/* SPDX-License-Identifier: MIT */
/*
 * Passes of a feeder: what they need is queued in their order, as far ahead as the
 * ring has room. One thread at a time moves a feeder; others leave a note.
 */
#include "graph/prefetch/feed.h"

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

/* What to queue, with references, so that it can be done without the lock. */
struct todo {
	struct weir_tensor dst, src; /* src.buf NULL: from the file */
	struct weir_file *file;
	struct weir__timeline *wait; /* before a copy; NULL: for nothing */
	int wait_err;                /* its event cannot be waited for */
	uint64_t wait_number, at, number;
	struct weir__kept *kept;
};

/* The lock is held, as in all functions from here to feeder_look(). */
static bool feed_works(const struct weir__feeder *f)
{
	return f->feed && !atomic_load(&f->feed->failed);
}

static struct weir__fed_out *out_first(struct weir__feeder *f)
{
	return &f->out[f->first_out];
}

static void out_pop(struct weir__feeder *f, bool arrived)
{
	const struct weir__fed_out *out = out_first(f);
	struct weir__kept *kept = out->kept;

	if (kept && kept->loading == out->number) {
		kept->loading = 0;
		kept->loaded = arrived && !kept->stale;
		kept->stale = false;
	}
	f->first_out = (f->first_out + 1) % WEIR__FEED_OUT;
	f->n_out--;
}

static void feeder_fail(struct weir__feeder *f,
			const struct weir_failure *cause)
{
	struct weir__pass *pass;

	/* All before the oldest have arrived. */
	if (f->n_out && out_first(f)->number > atomic_load(&f->feed->done))
		atomic_store(&f->feed->done, out_first(f)->number - 1);
	while (f->n_out)
		out_pop(f, false);
	f->feed->cause = *cause;
	atomic_store(&f->feed->failed, true);
	for (pass = f->passes; pass; pass = pass->next)
		f->n_old++;
	f->passes = NULL;
	f->ahead.list = NULL;
}

static void feed_woken(struct weir__waiter *waiter)
{
	struct weir__feed_wait *wait = (struct weir__feed_wait *)waiter;
	struct weir__feeder *f = wait->feeder;
	struct weir__timeline *tl;

	pthread_mutex_lock(&f->lock);
	tl = wait->timeline;
	wait->timeline = NULL;
	pthread_mutex_unlock(&f->lock);
	weir__timeline_put(tl);
	weir__feeder_move(f);
	weir__feeder_put(f);
}

/* False: the number is done or failed already. True: it will be looked at again. */
static bool feeder_await(struct weir__feeder *f, struct weir__feed_wait *wait,
			 struct weir__timeline *tl, uint64_t number)
{
	if (wait->timeline)
		return true;
	wait->waiter.number = number;
	wait->waiter.wake = feed_woken;
	wait->feeder = f;
	wait->timeline = weir__timeline_ref(tl);
	weir__refs_add(&f->refs, 1);
	if (weir__timeline_wait(tl, &wait->waiter) == 0)
		return true;
	wait->timeline = NULL;
	/* Neither is the last reference: the caller has one. */
	weir__timeline_put(tl);
	weir__refs_drop(&f->refs);
	return false;
}

/* What has arrived, oldest first. */
static void feeder_arrivals(struct weir__feeder *f)
{
	struct weir_failure cause;

	while (f->n_out) {
		struct weir__timeline *tl = &f->feed->stream->timeline;
		uint64_t op = out_first(f)->op;
		int state = tl->ops->state(tl, op, &cause);

		if (state > 0)
			out_pop(f, true);
		else if (state < 0)
			feeder_fail(f, &cause);
		else if (feeder_await(f, &f->arrival, tl, op))
			return;
	}
}

static bool is_released(struct weir__pass *pass, uint32_t k)
{
	struct weir__timeline *tl = pass->progress;
	uint64_t number = pass->base + pass->list->fed[k].import.last + 1;

	if (!tl || tl->ops->state(tl, number, NULL) == 0)
		return false;
	if (number > pass->seen)
		pass->seen = number;
	return true;
}

/* Is entry @k kept, or released? Then it blocks nothing. */
static bool is_over(struct weir__pass *pass, uint32_t k)
{
	return pass->list->fed[k].kept || is_released(pass, k);
}

static bool overlap(const struct weir__fed *a, const struct weir__fed *b)
{
	return a->buf == b->buf && a->offset < b->offset + b->import.bytes &&
	       b->offset < a->offset + a->import.bytes;
}

/*
 * The first queued entry of @pass that is in the place of @fed, or n. If @fed is
 * left to its node, others that are left do not count: nodes of a lane are computed
 * one after the other, and what one has read to the place no other needs.
 */
static uint32_t pass_blocker(struct weir__pass *pass,
			     const struct weir__fed *fed, bool leave)
{
	uint32_t k;

	if (leave && !pass->reads)
		return pass->list->n;
	while (pass->released < pass->queued && is_over(pass, pass->released))
		pass->released++;
	for (k = pass->released; k < pass->queued; k++)
		if (!pass->list->fed[k].kept &&
		    !(leave && weir__fed_is_left(&pass->list->fed[k])) &&
		    overlap(&pass->list->fed[k], fed) && !is_released(pass, k))
			return k;
	return pass->list->n;
}

/* Is the place free of what runs still read? If not, wait for that. */
static bool has_place(struct weir__feeder *f, const struct weir__fed *fed,
		      bool leave)
{
	struct weir__pass *pass = f->passes;
	uint32_t k;

	while (pass) {
		k = pass_blocker(pass, fed, leave);
		if (k == pass->list->n)
			pass = pass->next;
		else if (feeder_await(f, &f->room, pass->progress,
				      pass->base +
					      pass->list->fed[k].import.last +
					      1))
			return false;
	}
	return !f->ahead.list ||
	       pass_blocker(&f->ahead, fed, leave) == f->ahead.list->n;
}

/* The pass whose entries come next; the one for the run that may come is last. */
static struct weir__pass *pass_next(struct weir__feeder *f)
{
	struct weir__pass *pass = f->passes;

	while (pass && pass->queued == pass->list->n)
		pass = pass->next;
	if (pass || !f->ahead.list)
		return pass;
	return f->ahead.queued < f->ahead.list->n ? &f->ahead : NULL;
}

/* The bytes of a placed leaf. The schedule that has them may end afterwards. */
static void todo_source(struct todo *todo, struct weir *weir,
			const struct weir__import_src *src)
{
	todo->src = src->t;
	weir_buf_ref(src->t.buf);
	if (src->event)
		todo->wait_err = weir__event_get(src->event, weir, &todo->wait,
						 &todo->wait_number);
}

static void todo_set(struct todo *todo, const struct weir__pass *pass,
		     uint32_t k)
{
	const struct weir__fed *fed = &pass->list->fed[k];

	memset(todo, 0, sizeof(*todo));
	todo->number = pass->first + k;
	todo->kept = fed->kept;
	todo->at = fed->import.at;
	todo->dst = weir__flat_tensor(weir_buf_ref(fed->buf), fed->offset,
				      fed->import.bytes);
	todo->dst.name = "memory of a feed";
	if (fed->import.file)
		todo->file = weir__file_ref(fed->import.file);
	else
		todo_source(todo, pass->list->feeder->dev->weir, &pass->src[k]);
}

/* Entries that need not be queued are skipped. False: nothing to queue now. */
static bool feeder_next(struct weir__feeder *f, struct todo *todo)
{
	struct weir__pass *pass;

	while (!f->closed && !f->n_old && f->n_out < WEIR__FEED_OUT &&
	       (pass = pass_next(f))) {
		uint32_t k = pass->queued;
		const struct weir__fed *fed = &pass->list->fed[k];
		struct weir__kept *kept = fed->kept;
		/* A part of a run does not need what only earlier steps read. */
		bool over = is_released(pass, k), leave;

		if (weir__fed_by_rows(fed)) {
			pass->queued++;
			pass->bytes += over ? 0 : fed->import.by_rows;
			continue;
		}
		leave = !over && !kept && weir__fed_may_leave(f, fed);

		/* It is too early to say for a run that may come. */
		if (leave && pass == &f->ahead)
			return false;
		if (!over && !kept && !has_place(f, fed, leave))
			return false;
		pass->queued++;
		if (over ||
		    (kept && (kept->loaded || (kept->loading && !kept->stale))))
			continue;
		if (!kept) {
			pass->bytes += fed->import.bytes;
			weir__fed_leave(fed, leave);
			if (leave)
				continue;
			pass->reads++;
		}
		todo_set(todo, pass, k);
		if (kept) {
			kept->loading = todo->number;
			kept->stale = false;
		}
		return true;
	}
	return false;
}

/* Numbers before the first one that has not arrived are done. */
static uint64_t feeder_done(struct weir__feeder *f)
{
	const struct weir__pass *pass = f->passes;

	if (f->n_out)
		return out_first(f)->number - 1;
	while (pass && pass->queued == pass->list->n)
		pass = pass->next;
	if (pass)
		return pass->first + pass->queued - 1;
	return f->ahead.list ? f->ahead.first + f->ahead.queued - 1
			     : f->number - 1;
}

/* Without the lock. Takes over the reference to todo->wait. */
static int todo_queue(struct weir_stream *s, const struct todo *todo)
{
	int r = todo->wait_err;

	if (r == 0)
		r = weir__root_enter(s->timeline.weir);
	if (todo->wait && r == 0)
		r = weir__stream_wait_timeline(s, todo->wait,
					       todo->wait_number);
	else if (todo->wait)
		weir__timeline_put(todo->wait);
	if (r < 0)
		return r;
	if (todo->file)
		return weir__stream_read(s, todo->file, todo->at, &todo->dst);
	return weir__stream_copy(s, &todo->dst, &todo->src);
}

static void todo_drop(struct todo *todo)
{
	weir__buf_put(todo->dst.buf);
	weir__buf_put(todo->src.buf);
	if (todo->file)
		weir__file_put(todo->file);
}

/*
 * The next operation overwrites bytes of the ring after the runs have read them:
 * the race checker learns the steps that this thread has seen done.
 */
static void feeder_knows(const struct weir__feeder *f, struct weir_stream *s)
{
	const struct weir__pass *pass;

	for (pass = f->passes; pass; pass = pass->next)
		weir__races_next_knows(&s->timeline, pass->progress,
				       pass->seen);
}

/*
 * The lock is held, and released while the operation is queued. If the stream has
 * failed, it refuses the operation: the one that failed reports why when it arrives.
 */
static void feeder_queue(struct weir__feeder *f, struct todo *todo)
{
	struct weir_stream *s = f->feed->stream;
	struct weir__error_saved saved;
	struct weir_failure cause;
	bool failed = false;
	struct weir__fed_out *out =
		&f->out[(f->first_out + f->n_out) % WEIR__FEED_OUT];
	int r;

	out->place = todo->dst.buf->mem.base + todo->dst.offset;
	out->bytes = (uint64_t)todo->dst.shape[0];
	if (weir__races_on(f->dev->weir))
		feeder_knows(f, s);
	pthread_mutex_unlock(&f->lock);
	/* The call of this thread, if it is the program's, does not fail. */
	weir__error_save(&saved);
	r = todo_queue(s, todo);
	if (r < 0) {
		weir__failure_set(&cause, r, 0, todo->number, "%s: %s",
				  s->label, weir__error_text());
		failed = !weir__stream_has_failed(s);
	}
	weir__error_restore(&saved);
	todo_drop(todo);
	pthread_mutex_lock(&f->lock);
	out->number = todo->number;
	out->op = weir__stream_tail(s);
	out->kept = todo->kept;
	f->n_out++;
	if (failed)
		feeder_fail(f, &cause);
}

/* The lock is held, and released while operations are queued and waiters woken. */
static void feeder_look(struct weir__feeder *f)
{
	struct weir__feed *feed = f->feed;
	struct todo todo;
	uint64_t done;
	bool failed;

	f->again = false;
	feeder_arrivals(f);
	while (feed_works(f) && feeder_next(f, &todo)) {
		feeder_queue(f, &todo);
		feeder_arrivals(f);
	}
	failed = atomic_load(&feed->failed);
	done = failed ? atomic_load(&feed->done) : feeder_done(f);
	if (!failed && done <= atomic_load(&feed->done))
		return;
	atomic_store(&feed->done, done);
	weir__timeline_ref(&feed->timeline);
	pthread_mutex_unlock(&f->lock);
	weir__timeline_complete(&feed->timeline, failed ? UINT64_MAX : done);
	weir__timeline_put(&feed->timeline);
	pthread_mutex_lock(&f->lock);
}

void weir__feeder_move(struct weir__feeder *f)
{
	pthread_mutex_lock(&f->lock);
	f->again = true;
	while (f->again && !f->moving && f->feed) {
		f->moving = true;
		feeder_look(f);
		f->moving = false;
	}
	pthread_mutex_unlock(&f->lock);
}

/* The lock is held. Numbers of entries that were read ahead are taken over. */
static void pass_number(struct weir__feeder *f, struct weir__pass *pass)
{
	struct weir__pass *ahead = &f->ahead;

	pass->queued = pass->released = 0;
	pass->bytes = 0;
	pass->reads = 0;
	pass->seen = pass->base;
	pass->first = f->number;
	if (ahead->list == pass->list && ahead->src == pass->src) {
		pass->first = ahead->first;
		pass->queued = ahead->queued;
		pass->bytes = ahead->bytes;
		pass->reads = ahead->reads;
	} else if (ahead->list) {
		pass->first = ahead->first + ahead->queued;
	}
	f->number = pass->first + pass->list->n;
	/* The next one reads ahead again. */
	*ahead = (struct weir__pass){ .list = pass->list,
				      .src = pass->src,
				      .first = f->number };
}

static void pass_append(struct weir__feeder *f, struct weir__pass *pass)
{
	struct weir__pass **end = &f->passes;

	while (*end)
		end = &(*end)->next;
	pass->next = NULL;
	*end = pass;
	pass->feed = f->feed;
	weir__timeline_ref(&pass->feed->timeline);
}

/*
 * Make sure that there is a feed which works. store_lock is held, so no other thread
 * makes one; lock is held, and released while the feed is made. The caller appends a
 * pass before it unlocks: a feed fails under the lock, so the pass is of a feed that
 * worked when it joined. *@ret_old: a feed to drop without the lock, or NULL.
 */
static int feed_renew(struct weir__feeder *f, struct weir__feed **ret_old)
{
	struct weir__feed *feed = NULL, *old = f->feed;
	int r;

	if (feed_works(f))
		return 0;
	pthread_mutex_unlock(&f->lock);
	r = weir__feed_new(f, old, &feed);
	pthread_mutex_lock(&f->lock);
	if (r < 0)
		return r;
	f->feed = feed;
	f->number = 1;
	*ret_old = old;
	return 0;
}

int weir__pass_start(struct weir__pass *pass)
{
	struct weir__feeder *f = pass->list->feeder;
	struct weir__feed *old = NULL;
	int r;

	pthread_mutex_lock(&f->store_lock);
	pthread_mutex_lock(&f->lock);
	r = feed_renew(f, &old);
	if (r == 0) {
		pass_number(f, pass);
		pass_append(f, pass);
	}
	pthread_mutex_unlock(&f->lock);
	pthread_mutex_unlock(&f->store_lock);
	if (old)
		weir__timeline_put(&old->timeline);
	if (r == 0)
		weir__feeder_move(f);
	return r;
}

/* The number of its run's progress after which nothing reads its entries. */
static uint64_t pass_last(const struct weir__pass *pass)
{
	uint64_t last = 0;

	for (uint32_t k = 0; k < pass->list->n; k++)
		if (pass->list->fed[k].import.last > last)
			last = pass->list->fed[k].import.last;
	return pass->base + last + 1;
}

void weir__pass_end(struct weir__pass *pass)
{
	struct weir__feeder *f = pass->list->feeder;
	struct weir__feed *feed = pass->feed;
	struct weir__pass **at = &f->passes;

	pthread_mutex_lock(&f->lock);
	while (*at && *at != pass)
		at = &(*at)->next;
	if (*at)
		*at = pass->next;
	else
		f->n_old--;
	if (weir__races_on(f->dev->weir))
		weir__races_next_knows(&f->feed->stream->timeline,
				       pass->progress, pass_last(pass));
	/* The last run was cancelled: perhaps no other follows. */
	if (feed == f->feed && !pass->next && pass->queued < pass->list->n)
		f->ahead.list = NULL;
	pass->feed = NULL;
	pthread_mutex_unlock(&f->lock);
	weir__timeline_put(&feed->timeline);
	weir__feeder_move(f);
}

/* The lock is held. The timeline and the feeder have to be dropped without it. */
static struct weir__timeline *feeder_unwait(struct weir__feed_wait *wait)
{
	struct weir__timeline *tl = wait->timeline;

	if (!tl || !weir__timeline_unwait(tl, &wait->waiter))
		return NULL;
	wait->timeline = NULL;
	return tl;
}

void weir__feeder_free(struct weir__feeder *f)
{
	struct weir__timeline *tl[2];

	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->closed = true;
	f->ahead.list = NULL;
	tl[0] = feeder_unwait(&f->arrival);
	tl[1] = feeder_unwait(&f->room);
	pthread_mutex_unlock(&f->lock);
	for (int i = 0; i < 2; i++)
		if (tl[i]) {
			weir__timeline_put(tl[i]);
			weir__feeder_put(f);
		}
	weir__feeder_put(f);
}

void weir__feeder_forget(struct weir__feeder *f,
			 const struct weir__feed_list *list)
{
	pthread_mutex_lock(&f->lock);
	if (f->ahead.list == list) {
		f->number = f->ahead.first + f->ahead.queued;
		f->ahead.list = NULL;
	}
	pthread_mutex_unlock(&f->lock);
}

uint64_t weir__pass_bytes(struct weir__pass *pass)
{
	struct weir__feeder *f = pass->list->feeder;
	uint64_t bytes;

	pthread_mutex_lock(&f->lock);
	bytes = pass->bytes;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}
