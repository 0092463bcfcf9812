/* SPDX-License-Identifier: MIT */
/*
 * The threads of a cache, and what they have to do: bytes that are written,
 * reads of the folder, reads of the source that wait for room in the queue of
 * writes, and those by which the cache itself completes blocks.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cache/cache.h"
#include "core/clock.h"
#include "core/sys.h"
#include "core/util.h"

#define WAITING (UINT64_C(64) << 20) /* bytes that wait for the disk */
#define HELD_NS INT64_C(10000000000) /* how long a read is held, at most */
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

/* Keep the memory of a write that is done. The lock is held. */
static void put_spare(struct weir__copies *c, struct weir__copies_write *w)
{
	if (!w->len || c->spare_bytes + w->room > WAITING) {
		weir__free(w);
		return;
	}
	w->next = c->spare;
	c->spare = w;
	c->spare_bytes += w->room;
}

static void free_spare(struct weir__copies *c)
{
	struct weir__copies_write *w;

	while ((w = c->spare)) {
		c->spare = w->next;
		weir__free(w);
	}
	c->spare_bytes = 0;
}

/* Memory for a write, *ret_room bytes, at least @size. NULL: there is none. */
static void *take_memory(struct weir__copies *c, size_t size, size_t *ret_room)
{
	struct weir__copies_write **at = &c->spare, *w;

	pthread_mutex_lock(&c->lock);
	while (*at && (*at)->room < size)
		at = &(*at)->next;
	w = *at;
	if (w) {
		*at = w->next;
		size = w->room;
		c->spare_bytes -= size;
	}
	pthread_mutex_unlock(&c->lock);
	*ret_room = size;
	return w ? w : weir__malloc_pages(size);
}

/* Writes that are queued are done before the thread ends. */
static void *write_all(void *arg)
{
	struct weir__copies *c = arg;
	struct weir__copies_write *w;
	bool closed;

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
		if (!c->waiting)
			c->slow = false;
		if (c->held)
			pthread_cond_broadcast(&c->cond);
		if (w->read.size)
			weir__root_put(c->weir);
		closed = w->closed;
		put_spare(c, w);
		if (closed)
			free_spare(c);
	}
	free_spare(c);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* What is written. */

static void give_room(struct weir__copies *c, uint64_t len)
{
	pthread_mutex_lock(&c->lock);
	c->waiting -= len;
	if (c->held)
		pthread_cond_broadcast(&c->cond);
	pthread_mutex_unlock(&c->lock);
}

/* The bytes are counted as waiting. NULL: there is no memory. */
static struct weir__copies_write *new_write(struct weir__cached *cached,
					    uint64_t off, uint64_t len)
{
	const size_t front = WEIR__PAGE + off % WEIR__PAGE;
	size_t room = sizeof(struct weir__copies_write);
	struct weir__copies_write *w =
		len ? take_memory(cached->cache, front + len, &room)
		    : weir__malloc(room);

	if (!w) {
		give_room(cached->cache, len);
		return NULL;
	}
	*w = (struct weir__copies_write){ .cached = cached,
					  .off = off,
					  .len = len,
					  .room = room,
					  .bytes = (unsigned char *)w + front };
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

/* Queue a copy of what the read has. */
static void keep_copy(const struct weir__copies_held *held)
{
	struct weir__copies_write *w =
		new_write(held->cached, held->off, held->len);

	if (!w)
		return;
	memcpy(w->bytes, held->bytes, held->len);
	add_write(held->cached->cache, w);
}

/* Reads that are held. */

/* The lock is held. A copy that is larger than the queue waits for its end. */
static bool has_room(const struct weir__copies *c, uint64_t len)
{
	return !c->waiting || c->waiting + len <= WAITING;
}

/* The lock is held. False: the read ends without waiting. */
static bool hold(struct weir__copies *c, struct weir__copies_held *held)
{
	int64_t most = c->weir->opts.read_timeout / 2;

	if (c->slow || c->stop || held->cancelled)
		return false;
	/* A read that is held longer is late. */
	held->until =
		weir__now() + (most > 0 && most < HELD_NS ? most : HELD_NS);
	held->is_held = true;
	held->next = NULL;
	*c->held_end = held;
	c->held_end = &held->next;
	pthread_cond_broadcast(&c->cond);
	return true;
}

/* The lock is held. */
static void held_remove(struct weir__copies *c, struct weir__copies_held *held)
{
	struct weir__copies_held **at = &c->held;

	while (*at != held)
		at = &(*at)->next;
	*at = held->next;
	if (!*at)
		c->held_end = at;
	held->is_held = false;
}

bool weir__copies_let_go(struct weir__copies_held *held)
{
	struct weir__copies *c = held->cached->cache;
	bool was_held;

	pthread_mutex_lock(&c->lock);
	was_held = held->is_held;
	held->cancelled = true;
	if (was_held)
		held_remove(c, held);
	pthread_mutex_unlock(&c->lock);
	return was_held;
}

/* The lock is held. The first read, if it is held no longer. */
static struct weir__copies_held *take_held(struct weir__copies *c,
					   bool *ret_room, bool *ret_late)
{
	struct weir__copies_held *held = c->held;

	*ret_late = false;
	if (!held)
		return NULL;
	*ret_room = !c->stop && has_room(c, held->len);
	if (!*ret_room && !c->stop && !c->slow) {
		if (weir__now() < held->until)
			return NULL;
		*ret_late = c->slow = true;
	}
	if (*ret_room)
		c->waiting += held->len;
	held_remove(c, held);
	return held;
}

/* The lock is held, and not meanwhile. False: no read was held long enough. */
static bool end_held(struct weir__copies *c)
{
	bool room, late;
	struct weir__copies_held *held = take_held(c, &room, &late);

	if (!held)
		return false;
	pthread_mutex_unlock(&c->lock);
	if (late)
		weir__log(
			c->weir,
			"cache %s: its disk is too slow: not all of what is read is kept",
			c->path);
	if (room)
		keep_copy(held);
	held->end(held);
	pthread_mutex_lock(&c->lock);
	return true;
}

/* The lock is held, and not meanwhile. False: none is queued. */
static bool run_read(struct weir__copies *c)
{
	struct weir__copies_read *r = c->read;

	if (!r)
		return false;
	c->read = r->next;
	if (!c->read)
		c->read_end = &c->read;
	pthread_mutex_unlock(&c->lock);
	r->run(r);
	pthread_mutex_lock(&c->lock);
	return true;
}

static void *read_all(void *arg)
{
	struct weir__copies *c = arg;

	pthread_mutex_lock(&c->lock);
	while (c->read || c->held || !c->stop) {
		if (end_held(c) || run_read(c))
			continue;
		if (c->held)
			wait_until(c, c->held->until);
		else
			pthread_cond_wait(&c->cond, &c->lock);
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

bool weir__copies_keep(struct weir__copies_held *held)
{
	struct weir__copies *c = held->cached->cache;
	bool room, waits;

	pthread_mutex_lock(&c->lock);
	room = !c->held && has_room(c, held->len);
	if (room)
		c->waiting += held->len;
	waits = !room && hold(c, held);
	pthread_mutex_unlock(&c->lock);
	if (room)
		keep_copy(held);
	return waits;
}

static void look(struct weir__cached *cached, bool closed)
{
	struct weir__copies_write *w = new_write(cached, 0, 0);

	if (!w)
		return;
	w->closed = closed;
	add_write(cached->cache, w);
}

void weir__copies_look(struct weir__cached *cached)
{
	look(cached, false);
}

void weir__copies_closed(struct weir__cached *cached)
{
	look(cached, true);
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

/*
 * A block without its gap is worth little, so fills have room of their own.
 * The lock is not held.
 */
static bool take_room_to_fill(struct weir__copies *c, uint64_t len)
{
	bool room;

	pthread_mutex_lock(&c->lock);
	room = c->waiting + len <= 2 * WAITING;
	if (room)
		c->waiting += len;
	pthread_mutex_unlock(&c->lock);
	return room;
}

/* A source that cannot cancel might not end a read at all. */
void weir__copies_fill(struct weir__cached *cached, uint64_t off, uint64_t len)
{
	struct weir__copies *c = cached->cache;
	struct weir__copies_write *w = NULL;

	if (cached->ops.cancel && take_room_to_fill(c, len))
		w = new_write(cached, off, len);
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
