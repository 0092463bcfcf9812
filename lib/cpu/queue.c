/* SPDX-License-Identifier: MIT */
/*
 * The queue of a CPU stream: a list that is pushed to, and one worker thread
 * that takes all of it at once and runs it in order. The worker sleeps in one
 * futex; who pushes makes a system call only if it does.
 */
#include "cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"

enum {
	AWAKE,  /* the worker; set by who wakes it */
	ASLEEP, /* by the worker, which then looks at the list again */
	CLOSED  /* by close: the worker frees the queue and ends */
};

struct queue {
	_Atomic(struct weir__work *) pushed; /* newest first */
	_Atomic uint32_t state;              /* the futex */
	bool started;                        /* submit is serialised */
	char name[16];
};

static int cpu_queue_open(struct weir_dev *dev, unsigned flags,
			  const char *name, void **ret_queue)
{
	struct queue *q;

	(void)dev;
	if (flags)
		return weir__fail(
			-EOPNOTSUPP,
			"flags %#x: a stream of the CPU has no native handle",
			flags);
	q = weir__calloc(1, sizeof(*q));
	if (!q)
		return weir__fail(-ENOMEM, "no memory for a queue");
	snprintf(q->name, sizeof(q->name), "weir/%.10s", name ? name : "cpu");
	*ret_queue = q;
	return 0;
}

/*
 * The worker frees the queue: it may be the one that closes it. It may do so
 * as soon as it sees the state, and a wake of freed memory wakes nobody.
 */
static void cpu_queue_close(void *queue)
{
	struct queue *q = queue;

	if (!q->started)
		weir__free(q);
	else if (atomic_exchange(&q->state, CLOSED) == ASLEEP)
		weir__futex_wake(&q->state, 1);
}

static void run_rows(const struct weir__work *w)
{
	for (size_t i = 0; i < w->rows; i++)
		memmove(w->dst + i * w->dst_pitch, w->src + i * w->src_pitch,
			w->width);
}

static void run_pieces(const struct weir__work *w)
{
	for (size_t i = 0; i < w->n_segments; i++)
		memcpy(w->segment[i].dst, w->segment[i].src,
		       w->segment[i].bytes);
}

static void run(struct weir__work *w)
{
	int res = 0;

	switch (w->kind) {
	case WEIR__WORK_SET:
	case WEIR__WORK_GET:
	case WEIR__WORK_COPY:
		if (w->n_segments)
			run_pieces(w);
		else
			run_rows(w);
		break;
	case WEIR__WORK_FILL:
		for (size_t i = 0; i < w->rows; i++)
			memset(w->dst + i * w->dst_pitch, w->byte, w->width);
		break;
	case WEIR__WORK_CALL:
		res = w->call(w->arg);
		break;
	case WEIR__WORK_WAIT: /* not given to queues without handed() */
	case WEIR__WORK_MARK:
		break;
	}
	w->done(w, res < 0 ? res : 0, 0);
}

/* All that was pushed, oldest first. */
static struct weir__work *take_all(struct queue *q)
{
	struct weir__work *w = atomic_exchange(&q->pushed, NULL);
	struct weir__work *oldest = NULL, *next;

	for (; w; w = next) {
		next = w->next;
		w->next = oldest;
		oldest = w;
	}
	return oldest;
}

/* Sleep until there is work. False: the queue was closed. */
static bool wait_for_work(struct queue *q)
{
	uint32_t state = AWAKE;

	if (!atomic_compare_exchange_strong(&q->state, &state, ASLEEP))
		return false;
	state = ASLEEP;
	if (atomic_load(&q->pushed))
		atomic_compare_exchange_strong(&q->state, &state, AWAKE);
	while ((state = atomic_load(&q->state)) == ASLEEP)
		weir__futex_wait(&q->state, ASLEEP, INT64_MAX);
	return state != CLOSED;
}

static void *work(void *arg)
{
	struct queue *q = arg;
	struct weir__work *w, *next;

	do {
		for (w = take_all(q); w; w = next) {
			next = w->next;
			run(w);
		}
	} while (atomic_load(&q->pushed) || wait_for_work(q));
	weir__free(q);
	return NULL;
}

static int start(struct queue *q)
{
	pthread_t thread;
	int r = weir__thread_start(&thread, q->name, work, q);

	if (r < 0)
		return weir__fail_sys(r, "cannot start the worker of a stream");
	pthread_detach(thread);
	q->started = true;
	return 0;
}

static int cpu_queue_submit(void *queue, struct weir__work *w)
{
	struct queue *q = queue;
	uint32_t state = ASLEEP;
	int r = q->started ? 0 : start(q);

	if (r < 0)
		return r;
	w->next = atomic_load(&q->pushed);
	while (!atomic_compare_exchange_weak(&q->pushed, &w->next, w))
		;
	if (atomic_compare_exchange_strong(&q->state, &state, AWAKE))
		weir__futex_wake(&q->state, 1);
	return 0;
}

const struct weir__queue_ops weir__cpu_queue_ops = {
	.size = sizeof(weir__cpu_queue_ops),
	.open = cpu_queue_open,
	.close = cpu_queue_close,
	.submit = cpu_queue_submit,
};
