/* SPDX-License-Identifier: MIT */
/*
 * The queues by which reactors copy to and from devices: each reactor has one
 * for each device that a job needed. Opening one may block for long: it makes
 * the device's context and page-locks the slots. So a job for a new device is
 * put on a list; a reader thread opens its queues, then the reactors get it.
 *
 *	new --> on eng->unready --> posted to the reactors
 *		(weir__job_start)	(queues_open_task, or as a cancelled job
 *					 by weir__queues_abandon)
 *
 * The thread that takes a job off the list, under open_lock, posts it. Queues
 * are added by one thread at a time, and removed only after the reactors have
 * ended: so a reactor reads its own without a lock.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc/prefault.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "alloc/slots.h"
#include "dev/dev.h"
#include "io/engine_state.h"
#include "io/job.h"
#include "io/queues.h"
#include "io/reactor.h"

/* Queues are opened in the order of the reactors. */
static bool is_open(struct weir__engine *eng, const struct weir_dev *dev)
{
	return weir__reactor_queue(eng->reactor[eng->n_reactors - 1], dev) !=
	       NULL;
}

/*
 * True if a device of the same backend has page-locked the slots, which is
 * enough.
 */
static bool pinned_before(struct weir__reactor *r, const struct weir_dev *dev)
{
	for (unsigned i = 0; i < r->n_queues; i++)
		if (r->queue[i].dev->backend == dev->backend &&
		    r->queue[i].pinned)
			return true;
	return false;
}

/*
 * Page-lock the slots for the device, once: then copies run at the rate of the
 * bus, and do not block the host. If that fails they are slower, and
 * weir_io_info has the reason.
 */
static void pin_slots(struct weir__reactor *r, struct weir__copy_queue *q)
{
	const struct weir_backend_mem_ops *mem = q->dev->backend->mem;
	size_t bytes;
	void *addr;

	if (!mem->pin || !weir__slots_count(r->slots) ||
	    pinned_before(r, q->dev))
		return;
	weir__slots_pinned(r->slots, true);
	weir__slots_range(r->slots, &addr, &bytes);
	/* Otherwise the driver would fault the pages in one by one. */
	weir__prefault_all(r->eng->weir, addr, bytes, NULL);
	if (mem->pin(q->dev, addr, bytes) == 0) {
		q->pinned = r->slots;
		return;
	}
	weir__slots_pinned(r->slots, false);
	weir__engine_explain(r->eng, false, "page-locked slots for %s: %.180s",
			     q->dev->desc.name, weir_error());
}

static void unpin_slots(struct weir__reclaimed *x)
{
	struct weir__copy_queue *q =
		weir__container(x, struct weir__copy_queue, unpin);
	size_t bytes;
	void *addr;

	weir__slots_range(q->pinned, &addr, &bytes);
	/* On failure they stay locked, and are never unmapped. */
	if (q->dev->backend->mem->unpin(q->dev, addr, bytes) == 0)
		weir__slots_pinned(q->pinned, false);
}

static void unpinned(struct weir__reclaimed *x)
{
	(void)x;
}

/*
 * Unlocking may wait for the device, so the thread that frees memory does it.
 */
static void queue_close(struct weir__reactor *r, struct weir__copy_queue *q)
{
	size_t bytes;
	void *addr;

	q->dev->backend->queue->close(q->queue);
	if (!q->pinned)
		return;
	weir__slots_range(r->slots, &addr, &bytes);
	q->unpin.bytes = bytes;
	q->unpin.free = unpin_slots;
	q->unpin.after = unpinned;
	weir__reclaim(q->dev, &q->unpin);
}

/* Returns false if slots are still locked: then the engine is never freed. */
static bool slots_unpinned(struct weir__engine *eng)
{
	int64_t deadline = weir__deadline(WEIR__RECLAIM_NS);
	bool all = true;

	if (deadline < eng->deadline)
		deadline = eng->deadline;
	for (unsigned i = 0; i < eng->n_reactors; i++) {
		struct weir__reactor *r = eng->reactor[i];

		for (unsigned k = 0; k < r->n_queues; k++)
			if (r->queue[k].pinned &&
			    weir__reclaim_wait(r->queue[k].dev, deadline) < 0)
				all = false;
	}
	return all;
}

static int open_queue(struct weir__reactor *r, struct weir_dev *dev)
{
	struct weir__copy_queue *q = &r->queue[r->n_queues];
	int err;

	if (weir__reactor_queue(r, dev))
		return 0;
	if (r->n_queues == WEIR__MAX_QUEUES)
		return weir__fail(
			-EMFILE,
			"%s: the I/O engine copies to %u devices already, its maximum",
			dev->desc.name, WEIR__MAX_QUEUES);
	err = weir__dev_result(dev, "queue->open",
			       dev->backend->queue->open(dev, 0, "io",
							 &q->queue));
	if (err < 0)
		return err;
	q->dev = dev;
	pin_slots(r, q);
	atomic_fetch_add(&r->n_queues, 1);
	return 0;
}

/* Called by one thread at a time. May block. */
static int open_queues(struct weir__engine *eng, struct weir_dev *dev)
{
	int err = weir__dev_use(dev);

	for (unsigned i = 0; i < eng->n_reactors && err >= 0; i++)
		err = open_queue(eng->reactor[i], dev);
	return err < 0 ? err : 0;
}

/*
 * The first device of the job for which no queue is open: that of an extent, or
 * one of job->devs. *i is the number of the extent, and then of the device, to
 * begin with, and gets that of the device that was found.
 */
static struct weir_dev *next_new(struct weir__engine *eng,
				 const struct weir__job *job, size_t *i)
{
	const size_t n = job->n_ext + job->n_devs;
	struct weir_dev *last = NULL;

	for (; *i < n; ++*i) {
		struct weir_dev *dev = *i < job->n_ext
					       ? job->ext[*i].dev
					       : job->devs[*i - job->n_ext];

		if (dev == last)
			continue;
		last = dev;
		if (last && !is_open(eng, last) &&
		    !weir__job_is_refused(job, last))
			return last;
	}
	return NULL;
}

static struct weir__job *first_unready(struct weir__engine *eng)
{
	struct weir__job *job;

	pthread_mutex_lock(&eng->open_lock);
	job = eng->unready;
	if (!job)
		eng->opening = false;
	pthread_mutex_unlock(&eng->open_lock);
	return job;
}

/* Returns false if the closing thread has taken all jobs off the list. */
static bool unready_take(struct weir__engine *eng, struct weir__job *job)
{
	bool mine;

	pthread_mutex_lock(&eng->open_lock);
	mine = eng->unready == job;
	if (mine)
		eng->unready = job->next_unready;
	pthread_mutex_unlock(&eng->open_lock);
	return mine;
}

/*
 * On a reader thread. A job stays on the list until its queues are open; a job
 * that is abandoned meanwhile is leaked, since this thread may still read it.
 */
static void queues_open_task(struct weir__task *task)
{
	struct weir__engine *eng =
		weir__container(task, struct weir__engine, open_task);
	struct weir__job *job;

	while ((job = first_unready(eng))) {
		struct weir_dev *dev;
		size_t i = 0;

		while ((dev = next_new(eng, job, &i))) {
			int err = open_queues(eng, dev);

			if (err < 0)
				weir__job_note_refusal(job, dev, err);
			i++;
		}
		if (unready_take(eng, job))
			weir__job_post(job);
	}
}

/* open_lock is held. */
static void unready_append(struct weir__engine *eng, struct weir__job *job)
{
	struct weir__job **end = &eng->unready;

	while (*end)
		end = &(*end)->next_unready;
	job->next_unready = NULL;
	*end = job;
}

bool weir__queues_prepare(struct weir__engine *eng, struct weir__job *job)
{
	bool start = false, listed;
	size_t i = 0;

	if (!next_new(eng, job, &i))
		return false;
	pthread_mutex_lock(&eng->open_lock);
	/* Once weir__queues_abandon has the list, nobody would post the job. */
	listed = !atomic_load(&eng->abort);
	if (listed) {
		unready_append(eng, job);
		start = !eng->opening;
		eng->opening = true;
	}
	pthread_mutex_unlock(&eng->open_lock);
	if (start) {
		eng->open_task.run = queues_open_task;
		weir__pool_push(eng->readers, &eng->open_task);
	}
	return listed;
}

void weir__queues_abandon(struct weir__engine *eng)
{
	struct weir__job *job, *next;

	pthread_mutex_lock(&eng->open_lock);
	job = eng->unready;
	eng->unready = NULL;
	pthread_mutex_unlock(&eng->open_lock);
	for (; job; job = next) {
		next = job->next_unready;
		/* The thread that opens its queues may still read it. */
		atomic_store(&job->leaked, true);
		atomic_store(&job->cancelled, true);
		weir__job_post(job);
	}
}

int weir__engine_queues(struct weir__engine *eng,
			const struct weir_backend_queue_ops *ops,
			int (*fn)(void *arg, void *queue), void *arg)
{
	int ret = 0;

	/*
	 * Either this call sees queues_closed, or the closing thread waits for
	 * it.
	 */
	atomic_fetch_add(&eng->queue_users, 1);
	for (unsigned i = 0;
	     i < eng->n_reactors && !atomic_load(&eng->queues_closed); i++) {
		struct weir__reactor *r = eng->reactor[i];

		for (unsigned k = 0; k < r->n_queues && ret >= 0; k++)
			if (r->queue[k].dev->backend->queue == ops)
				ret = fn(arg, r->queue[k].queue);
	}
	if (atomic_fetch_sub(&eng->queue_users, 1) == 1)
		weir__futex_wake(&eng->queue_users, 1);
	return ret < 0 ? ret : 0;
}

/* Returns false if a device still blocks a caller at the deadline. */
static bool drain_queue_users(struct weir__engine *eng)
{
	uint32_t n;

	atomic_store(&eng->queues_closed, true);
	while ((n = atomic_load(&eng->queue_users)))
		if (weir__futex_wait(&eng->queue_users, n, eng->deadline) ==
		    -ETIMEDOUT)
			return false;
	return true;
}

void weir__queues_close(struct weir__engine *eng)
{
	if (!drain_queue_users(eng)) {
		weir__log(
			eng->weir,
			"weir_close: a caller is blocked by a native stream; the queues that it waits for are leaked");
		atomic_store(&eng->leaked, true);
		return;
	}
	for (unsigned i = 0; i < eng->n_reactors; i++) {
		struct weir__reactor *r = eng->reactor[i];

		for (unsigned k = 0; k < r->n_queues; k++)
			queue_close(r, &r->queue[k]);
	}
	if (!slots_unpinned(eng))
		atomic_store(&eng->leaked, true);
}
