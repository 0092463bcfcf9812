/* SPDX-License-Identifier: MIT */
#include "dev/reclaim.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/sys.h"
#include "dev/dev.h"
#include "dev/registry.h"

void weir__reclaim_init(struct weir__reclaim *rc)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&rc->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&rc->lock, NULL);
	rc->end = &rc->first;
	rc->freed_end = &rc->freed_first;
}

void weir__reclaim_fini(struct weir__reclaim *rc)
{
	pthread_cond_destroy(&rc->changed);
	pthread_mutex_destroy(&rc->lock);
}

/* The lock is held. */
static struct weir__reclaimed *list_take(struct weir__reclaimed **first,
					 struct weir__reclaimed ***end)
{
	struct weir__reclaimed *x = *first;

	if (!x)
		return NULL;
	*first = x->next;
	if (!*first)
		*end = first;
	return x;
}

/* The lock is held. */
static void list_add(struct weir__reclaimed ***end, struct weir__reclaimed *x)
{
	x->next = NULL;
	**end = x;
	*end = &x->next;
}

/*
 * Free the first memory that waits. Returns false if there is none. The lock is
 * held, and released while the memory is freed.
 */
static bool free_first(struct weir__reclaim *rc)
{
	struct weir__reclaimed *x = list_take(&rc->first, &rc->end);

	if (!x)
		return false;
	rc->n_freeing++;
	pthread_mutex_unlock(&rc->lock);
	x->free(x);
	atomic_fetch_add(&rc->n_moved, 1);
	pthread_mutex_lock(&rc->lock);
	rc->n_freeing--;
	rc->bytes -= x->bytes;
	list_add(&rc->freed_end, x);
	pthread_cond_broadcast(&rc->changed);
	return true;
}

/* Call after() for the first memory that was freed. */
static bool finish_first(struct weir__reclaim *rc)
{
	struct weir__reclaimed *x = list_take(&rc->freed_first, &rc->freed_end);

	if (!x)
		return false;
	pthread_mutex_unlock(&rc->lock);
	x->after(x);
	pthread_mutex_lock(&rc->lock);
	rc->n_unfinished--;
	pthread_cond_broadcast(&rc->changed);
	return true;
}

/* The root lives: weir_close() waits for this thread, or leaks the root. */
static void *reclaim_main(void *arg)
{
	struct weir__reclaim *rc = arg;

	pthread_mutex_lock(&rc->lock);
	while (!rc->abandoned && !rc->stopped)
		if (!finish_first(rc) && !free_first(rc))
			pthread_cond_wait(&rc->changed, &rc->lock);
	pthread_mutex_unlock(&rc->lock);
	return NULL;
}

/* Returns false if the caller has to free the memory. The lock is held. */
static bool thread_runs(struct weir__reclaim *rc)
{
	if (rc->stopped)
		return false;
	if (!rc->started)
		rc->started = !weir__thread_start(&rc->thread, "weir-free",
						  reclaim_main, rc);
	return rc->started;
}

void weir__reclaim(struct weir_dev *dev, struct weir__reclaimed *x)
{
	struct weir__reclaim *rc = &dev->reclaim;
	bool leak, later;

	pthread_mutex_lock(&rc->lock);
	leak = rc->abandoned;
	later = leak || thread_runs(rc);
	if (later) {
		list_add(&rc->end, x);
		rc->n_unfinished++;
		rc->bytes += x->bytes;
		pthread_cond_broadcast(&rc->changed);
	}
	pthread_mutex_unlock(&rc->lock);
	if (leak && x->bytes)
		weir__log(
			dev->weir,
			"%s: %zu bytes are leaked, since the device did not finish its work before weir_close ended",
			dev->desc.name, x->bytes);
	if (later)
		return;
	x->free(x);
	x->after(x);
}

/*
 * The memory that another thread frees at this moment is waited for, but not
 * what follows: that may wait for a lock that the caller holds.
 */
static void dev_reclaim_now(struct weir_dev *dev)
{
	struct weir__reclaim *rc = &dev->reclaim;

	pthread_mutex_lock(&rc->lock);
	while (!rc->abandoned && (rc->first || rc->n_freeing))
		if (!free_first(rc))
			pthread_cond_wait(&rc->changed, &rc->lock);
	pthread_mutex_unlock(&rc->lock);
}

/* Virtual devices share the memory of one GPU. */
static bool shares_memory(const struct weir_dev *a, const struct weir_dev *b)
{
	return a->backend == b->backend && !strcmp(a->desc.pci, b->desc.pci);
}

enum {
	MOST_ROUNDS = 64
};

static unsigned n_devs(const struct weir__registry *registry)
{
	return atomic_load_explicit(&registry->n_devs, memory_order_acquire);
}

/* NULL: host memory, which any device may have locked. */
static const struct weir_dev *dev_of(const struct weir_buft *buft)
{
	return buft && !(buft->desc.flags & WEIR_BUFT_HOST) ? buft->dev : NULL;
}

bool weir__buft_shares(const struct weir_buft *buft,
		       const struct weir_buft *other)
{
	const struct weir_dev *a = dev_of(buft), *b = dev_of(other);

	return a && b ? shares_memory(a, b) : a == b;
}

void weir__memory_moved(struct weir_dev *dev)
{
	atomic_fetch_add(&dev->reclaim.n_moved, 1);
}

static unsigned moved_so_far(const struct weir *weir)
{
	struct weir__registry *registry = weir__registry(weir);
	unsigned n = n_devs(registry), count = 0;

	for (unsigned i = 0; i < n; i++)
		count += atomic_load(&registry->dev[i]->reclaim.n_moved);
	return count;
}

void weir__shortage_begin(struct weir__shortage *s, struct weir *weir,
			  const struct weir_buft *buft, uint64_t bytes)
{
	s->weir = weir;
	s->buft = buft;
	s->bytes = bytes;
	s->before = moved_so_far(weir);
	s->rounds = 0;
	s->next = WEIR__SHORTAGE_FREED;
	weir__error_save(&s->saved);
}

/* Free, on this thread, what waits. True if any has moved since s->before. */
static bool free_waiting(struct weir__shortage *s)
{
	struct weir__registry *registry = weir__registry(s->weir);
	const struct weir_dev *of = dev_of(s->buft);
	unsigned n = n_devs(registry), count;
	bool any;

	for (unsigned i = 0; i < n; i++)
		if (!of || shares_memory(of, registry->dev[i]))
			dev_reclaim_now(registry->dev[i]);
	count = moved_so_far(s->weir);
	any = count != s->before;
	s->before = count;
	return any;
}

/*
 * Buffers of heaps that were given back may wait for their devices. If nothing
 * was given back, and nothing has moved since before the last attempt, all the
 * memory was in use. Others may move memory forever, so the rounds end.
 */
static bool free_unused(struct weir__shortage *s, uint64_t bytes)
{
	uint64_t given = weir__root_relieve(s->weir, s->buft, bytes);
	bool any = free_waiting(s);

	s->next = WEIR__SHORTAGE_ALL;
	return (given || any) && s->rounds++ < MOST_ROUNDS;
}

bool weir__shortage_again(struct weir__shortage *s, int r)
{
	if (r >= 0 && s->next != WEIR__SHORTAGE_FREED)
		weir__error_restore(&s->saved);
	if (r != -ENOMEM)
		return false;
	if (s->next == WEIR__SHORTAGE_FREED) {
		s->next = WEIR__SHORTAGE_UNUSED;
		if (free_waiting(s))
			return true;
	}
	if (s->next == WEIR__SHORTAGE_UNUSED)
		return free_unused(s, s->bytes);
	return free_unused(s, UINT64_MAX);
}

/* Returns false at @deadline, which may be INT64_MAX. The lock is held. */
static bool wait_until(struct weir__reclaim *rc, int64_t deadline)
{
	struct timespec at = { .tv_sec = deadline / 1000000000,
			       .tv_nsec = deadline % 1000000000 };

	while (rc->n_unfinished && !rc->abandoned)
		if (pthread_cond_timedwait(&rc->changed, &rc->lock, &at) ==
			    ETIMEDOUT &&
		    rc->n_unfinished)
			return false;
	return !rc->abandoned;
}

static void abandon(struct weir_dev *dev, unsigned n, size_t bytes)
{
	/* The thread may still use the device, and what it frees the root. */
	weir__root_ref(dev->weir);
	weir__log(
		dev->weir,
		"weir_close: %s: %u allocations of %zu bytes in all are leaked: the device has not finished its work, or the release function of a buffer has not returned",
		dev->desc.name, n, bytes);
}

static int reclaim_end(struct weir_dev *dev, int64_t deadline, bool stop)
{
	struct weir__reclaim *rc = &dev->reclaim;
	bool was_abandoned, done, join;
	size_t bytes;
	unsigned n;

	pthread_mutex_lock(&rc->lock);
	was_abandoned = rc->abandoned;
	done = wait_until(rc, deadline);
	rc->abandoned = !done;
	rc->stopped |= done && stop;
	join = done && stop && rc->started;
	bytes = rc->bytes;
	n = rc->n_unfinished;
	pthread_cond_broadcast(&rc->changed);
	if (!done && !was_abandoned)
		pthread_detach(rc->thread);
	pthread_mutex_unlock(&rc->lock);
	if (!done && !was_abandoned)
		abandon(dev, n, bytes);
	if (join)
		pthread_join(rc->thread, NULL);
	return done ? 0 : -ETIMEDOUT;
}

int weir__reclaim_wait(struct weir_dev *dev, int64_t deadline)
{
	return reclaim_end(dev, deadline, false);
}

int weir__reclaim_close(struct weir_dev *dev, int64_t deadline)
{
	return reclaim_end(dev, deadline, true);
}
