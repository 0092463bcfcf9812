/* SPDX-License-Identifier: MIT */
/*
 * The threads of a cache, and what they have to do: bytes that are written,
 * reads of the folder, and reads of the source by which the cache itself
 * completes blocks.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cache/cache.h"
#include "core/clock.h"
#include "core/sys.h"
#include "core/util.h"

#define WAITING (UINT64_C(64) << 20) /* bytes that wait for the disk */
/* Reads of the cache's own while the root is closed: till they are cancelled,
 * and then till they are given up. */
#define FILL_NS INT64_C(5000000000)
#define CANCEL_NS INT64_C(2000000000)

/* Threads. */

bool weir__copies_stops(struct weir__copies *cache)
{
	bool stop;

	pthread_mutex_lock(&cache->lock);
	stop = cache->stop && weir__now() >= cache->until;
	pthread_mutex_unlock(&cache->lock);
	return stop;
}

/* The lock is held. */
static void cancel_fills(struct weir__copies *c)
{
	struct weir__copies_write *w = c->fill;

	while (w) {
		if (w->cancelled) {
			w = w->next;
			continue;
		}
		w->cancelled = true;
		pthread_mutex_unlock(&c->lock);
		/* If it has ended it is queued, and so it is valid. */
		w->cached->ops.cancel(w->cached->object, &w->read);
		pthread_mutex_lock(&c->lock);
		w = c->fill;
	}
}

static void wait_until(struct weir__copies *c, int64_t when)
{
	const struct timespec at = { when / 1000000000, when % 1000000000 };

	pthread_cond_timedwait(&c->cond, &c->lock, &at);
}

/* The lock is held. False: the thread that writes has nothing more to do. */
static bool wait_for_write(struct weir__copies *c)
{
	while (!c->write && !c->stop)
		pthread_cond_wait(&c->cond, &c->lock);
	while (!c->write && c->fill) {
		int64_t now = weir__now();

		if (now >= c->fill_until)
			cancel_fills(c);
		if (c->write || !c->fill)
			break;
		if (now - CANCEL_NS >= c->fill_until)
			return false; /* their memory stays, and the root's */
		wait_until(c, now < c->fill_until ? c->fill_until
						  : c->fill_until + CANCEL_NS);
	}
	return c->write;
}

/* Writes that are queued are done before the thread ends. */
static void *write_all(void *arg)
{
	struct weir__copies *c = arg;
	struct weir__copies_write *w;

	pthread_mutex_lock(&c->lock);
	while (wait_for_write(c)) {
		w = c->write;
		c->write = w->next;
		if (!c->write)
			c->write_end = &c->write;
		pthread_mutex_unlock(&c->lock);
		weir__cached_write(w->cached, w);
		weir__cached_put(w->cached);
		pthread_mutex_lock(&c->lock);
		c->waiting -= w->len;
		if (w->read.size)
			weir__root_put(c->weir);
		weir__free(w);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static void *read_all(void *arg)
{
	struct weir__copies *c = arg;
	struct weir__copies_read *r;

	pthread_mutex_lock(&c->lock);
	while (c->read || !c->stop) {
		r = c->read;
		if (!r) {
			pthread_cond_wait(&c->cond, &c->lock);
			continue;
		}
		c->read = r->next;
		if (!c->read)
			c->read_end = &c->read;
		pthread_mutex_unlock(&c->lock);
		r->run(r);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* The lock is held. */
static bool start_all(struct weir__copies *c)
{
	static void *(*const run[])(void *) = { write_all, read_all, read_all };

	if (c->stop)
		return false;
	while (c->n_threads < sizeof(run) / sizeof(run[0])) {
		int r = weir__thread_start(&c->thread[c->n_threads],
					   "weir-cache", run[c->n_threads], c);

		if (r < 0)
			return false;
		c->n_threads++;
	}
	return true;
}

bool weir__copies_start(struct weir__copies *cache)
{
	bool runs;

	pthread_mutex_lock(&cache->lock);
	runs = start_all(cache);
	pthread_mutex_unlock(&cache->lock);
	return runs;
}

void weir__copies_end(struct weir__copies *c, int64_t deadline)
{
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	c->until = deadline;
	c->fill_until = weir__now() + FILL_NS;
	if (c->fill_until > deadline)
		c->fill_until = deadline;
	pthread_cond_broadcast(&c->cond);
	pthread_mutex_unlock(&c->lock);
	while (c->n_threads)
		weir__thread_join(c->thread[--c->n_threads], INT64_MAX);
}

bool weir__copies_queue(struct weir__copies *cache,
			struct weir__copies_read *read)
{
	bool queued;

	pthread_mutex_lock(&cache->lock);
	queued = !cache->stop;
	if (queued) {
		read->next = NULL;
		*cache->read_end = read;
		cache->read_end = &read->next;
		pthread_cond_broadcast(&cache->cond);
	}
	pthread_mutex_unlock(&cache->lock);
	return queued;
}

static bool take_room(struct weir__copies *c, uint64_t len)
{
	bool room;

	pthread_mutex_lock(&c->lock);
	room = c->waiting + len <= WAITING;
	if (room)
		c->waiting += len;
	pthread_mutex_unlock(&c->lock);
	return room;
}

static void give_room(struct weir__copies *c, uint64_t len)
{
	pthread_mutex_lock(&c->lock);
	c->waiting -= len;
	pthread_mutex_unlock(&c->lock);
}

/* NULL: too many bytes wait, or there is no memory. */
static struct weir__copies_write *new_write(struct weir__cached *cached,
					    uint64_t off, uint64_t len)
{
	struct weir__copies_write *w;

	if (!take_room(cached->cache, len))
		return NULL;
	w = weir__malloc(sizeof(*w) + len);
	if (!w) {
		give_room(cached->cache, len);
		return NULL;
	}
	*w = (struct weir__copies_write){ .cached = cached,
					  .off = off,
					  .len = len };
	weir__cached_ref(cached);
	return w;
}

/* The lock is held. */
static void queue_write(struct weir__copies *c, struct weir__copies_write *w)
{
	w->next = NULL;
	*c->write_end = w;
	c->write_end = &w->next;
	pthread_cond_broadcast(&c->cond);
}

/* Queue it, unless the threads end: they do not see it then. */
static void add_write(struct weir__copies *c, struct weir__copies_write *w)
{
	bool ends;

	pthread_mutex_lock(&c->lock);
	ends = c->stop;
	if (ends)
		c->waiting -= w->len;
	else
		queue_write(c, w);
	pthread_mutex_unlock(&c->lock);
	if (!ends)
		return;
	weir__cached_put(w->cached);
	weir__free(w);
}

void weir__copies_keep(struct weir__cached *cached, uint64_t off, uint64_t len,
		       const void *bytes)
{
	struct weir__copies_write *w = new_write(cached, off, len);

	if (!w)
		return;
	if (len)
		memcpy(w->bytes, bytes, len);
	add_write(cached->cache, w);
}

void weir__copies_closed(struct weir__cached *cached)
{
	struct weir__copies_write *w = new_write(cached, 0, 0);

	if (!w)
		return;
	w->closed = true;
	add_write(cached->cache, w);
}

static void on_filling(struct weir_source_read *read, uint64_t bytes)
{
	(void)read;
	(void)bytes;
}

static void on_filled(struct weir_source_read *read, int err, const char *why)
{
	struct weir__copies_write *w =
		weir__container(read, struct weir__copies_write, read);
	struct weir__copies *c = w->cached->cache;
	struct weir__copies_write **at = &c->fill;

	(void)why;
	pthread_mutex_lock(&c->lock);
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	if (err) {
		c->waiting -= w->len;
		w->len = 0;
	}
	queue_write(c, w);
	pthread_mutex_unlock(&c->lock);
}

/* A source that cannot cancel might not end a read at all. */
void weir__copies_fill(struct weir__cached *cached, uint64_t off, uint64_t len)
{
	struct weir__copies *c = cached->cache;
	struct weir__copies_write *w =
		cached->ops.cancel ? new_write(cached, off, len) : NULL;

	if (!w)
		return;
	w->read = (struct weir_source_read){ .size = sizeof(w->read),
					     .off = off,
					     .len = len,
					     .buf = w->bytes,
					     .arrived = on_filling,
					     .done = on_filled };
	weir__root_ref(c->weir);
	pthread_mutex_lock(&c->lock);
	w->next = c->fill;
	c->fill = w;
	pthread_mutex_unlock(&c->lock);
	cached->ops.read(cached->object, &w->read);
}
