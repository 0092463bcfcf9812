/* SPDX-License-Identifier: MIT */
/*
 * The queue of a CPU stream: a list to which submit pushes without a lock, and
 * one worker thread that takes the whole list at once and runs it in order. The
 * worker sleeps on one futex; submit makes a system call only if it sleeps.
 */
#include "cpu/cpu.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define lib weir__cpu_host

enum {
	AWAKE,  /* set by the thread that wakes the worker */
	ASLEEP, /* set by the worker, which then examines the list again */
	CLOSED  /* set by close: the worker frees the queue and ends */
};

struct queue {
	_Atomic(struct weir_backend_work *) pushed; /* newest first */
	_Atomic uint32_t state;                     /* the futex */
	bool started; /* the worker; only submit and close use it */
	char name[16];
};

static int cpu_queue_open(struct weir_dev *dev, unsigned flags,
			  const char *name, void **ret_queue)
{
	struct queue *q;

	(void)dev;
	if (flags)
		return lib->fail(
			-EOPNOTSUPP,
			"flags %#x: a stream of the CPU has no native handle",
			flags);
	q = lib->calloc(1, sizeof(*q));
	if (!q)
		return lib->fail(-ENOMEM, "no memory for a queue");
	snprintf(q->name, sizeof(q->name), "weir/%.10s", name ? name : "cpu");
	*ret_queue = q;
	return 0;
}

/*
 * The worker frees the queue, since the worker may be the thread that closes
 * it. It may do so as soon as it sees CLOSED: the address that is woken here
 * may be freed memory, where no thread sleeps.
 */
static void cpu_queue_close(void *queue)
{
	struct queue *q = queue;

	if (!q->started)
		lib->free(q);
	else if (atomic_exchange(&q->state, CLOSED) == ASLEEP)
		lib->futex_wake(&q->state, 1);
}

static void run_rows(const struct weir_backend_work *w)
{
	for (size_t i = 0; i < w->rows; i++)
		memmove(w->dst + i * w->dst_pitch, w->src + i * w->src_pitch,
			w->width);
}

static void run_scatter(const struct weir_backend_work *w)
{
	for (size_t i = 0; i < w->n_copies; i++)
		memcpy(w->copy[i].dst, w->copy[i].src, w->copy[i].bytes);
}

static void work_run(struct weir_backend_work *w)
{
	int res = 0;

	switch (w->kind) {
	case WEIR_WORK_SET:
	case WEIR_WORK_GET:
	case WEIR_WORK_COPY:
		if (w->n_copies)
			run_scatter(w);
		else
			run_rows(w);
		break;
	case WEIR_WORK_FILL:
		for (size_t i = 0; i < w->rows; i++)
			memset(w->dst + i * w->dst_pitch, w->byte, w->width);
		break;
	case WEIR_WORK_CALL:
		res = w->call(w->arg);
		break;
	case WEIR_WORK_WAIT: /* not submitted without all_submitted */
	case WEIR_WORK_MARK:
		break;
	case WEIR_WORK_COMPUTE:
		res = weir__segment_run(w->arg);
		break;
	}
	w->done(w, res < 0 ? res : 0, 0);
}

/* Take all work that was pushed, oldest first. */
static struct weir_backend_work *queue_take_all(struct queue *q)
{
	struct weir_backend_work *w = atomic_exchange(&q->pushed, NULL);
	struct weir_backend_work *oldest = NULL, *next;

	for (; w; w = next) {
		next = w->next;
		w->next = oldest;
		oldest = w;
	}
	return oldest;
}

/* Sleep until there is work. Returns false if the queue was closed. */
static bool worker_wait(struct queue *q)
{
	uint32_t state = AWAKE;

	if (!atomic_compare_exchange_strong(&q->state, &state, ASLEEP))
		return false;
	state = ASLEEP;
	if (atomic_load(&q->pushed))
		atomic_compare_exchange_strong(&q->state, &state, AWAKE);
	while ((state = atomic_load(&q->state)) == ASLEEP)
		lib->futex_wait(&q->state, ASLEEP, INT64_MAX);
	return state != CLOSED;
}

static void *worker_main(void *arg)
{
	struct queue *q = arg;
	struct weir_backend_work *w, *next;

	do {
		for (w = queue_take_all(q); w; w = next) {
			next = w->next;
			work_run(w);
		}
	} while (atomic_load(&q->pushed) || worker_wait(q));
	lib->free(q);
	return NULL;
}

static int worker_start(struct queue *q)
{
	pthread_t thread;
	int r = lib->thread(&thread, q->name, worker_main, q);

	if (r < 0)
		return r;
	pthread_detach(thread);
	q->started = true;
	return 0;
}

static int cpu_queue_submit(void *queue, struct weir_backend_work *w)
{
	struct queue *q = queue;
	uint32_t state = ASLEEP;
	int r = q->started ? 0 : worker_start(q);

	if (r < 0)
		return r;
	w->next = atomic_load(&q->pushed);
	while (!atomic_compare_exchange_weak(&q->pushed, &w->next, w))
		;
	if (atomic_compare_exchange_strong(&q->state, &state, AWAKE))
		lib->futex_wake(&q->state, 1);
	return 0;
}

const struct weir_backend_queue_ops weir__cpu_queue_ops = {
	.size = sizeof(weir__cpu_queue_ops),
	.open = cpu_queue_open,
	.close = cpu_queue_close,
	.submit = cpu_queue_submit,
};
