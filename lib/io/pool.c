/* SPDX-License-Identifier: MIT */
#include "io/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/cpus.h"
#include "core/sys.h"

/*
 * The queue is D. Vyukov's bounded one: a cell's seq says whether the cell is
 * empty or full in the lap of a position.
 * https://www.1024cores.net/home/lock-free-algorithms/queues/bounded-mpmc-queue
 */
struct cell {
	_Atomic uint64_t seq;
	struct weir__task *task;
};

struct weir__pool {
	struct cell *cell;
	uint64_t mask;
	_Alignas(64) _Atomic uint64_t head;   /* next to pop */
	_Alignas(64) _Atomic uint64_t tail;   /* next to push */
	_Alignas(64) _Atomic uint32_t pushes; /* idle threads sleep on it */
	_Atomic uint32_t idle;                /* threads without a task */
	_Atomic bool stop;
	_Atomic int start_err; /* errno of a thread that could not be started */
	pthread_mutex_t lock;  /* guards the start of threads */
	_Atomic unsigned n_threads;
	_Atomic unsigned max_threads;
	pthread_t *thread;
	char name[12];
	const struct weir__cpu_set *cpus; /* NULL: all */
};

static bool queue_pop(struct weir__pool *p, struct weir__task **ret_task)
{
	uint64_t at = atomic_load_explicit(&p->head, memory_order_relaxed);

	for (;;) {
		struct cell *c = &p->cell[at & p->mask];
		int64_t ahead =
			(int64_t)(atomic_load_explicit(&c->seq,
						       memory_order_acquire) -
				  (at + 1));

		if (ahead < 0)
			return false;
		if (ahead > 0) {
			at = atomic_load_explicit(&p->head,
						  memory_order_relaxed);
			continue;
		}
		if (!atomic_compare_exchange_weak_explicit(
			    &p->head, &at, at + 1, memory_order_relaxed,
			    memory_order_relaxed))
			continue;
		*ret_task = c->task;
		atomic_store_explicit(&c->seq, at + p->mask + 1,
				      memory_order_release);
		return true;
	}
}

/* Reserve a position, whose cell stays empty until queue_publish fills it. */
static bool queue_reserve(struct weir__pool *p, uint64_t *ret_at)
{
	uint64_t at = atomic_load_explicit(&p->tail, memory_order_relaxed);

	for (;;) {
		struct cell *c = &p->cell[at & p->mask];
		int64_t ahead =
			(int64_t)(atomic_load_explicit(&c->seq,
						       memory_order_acquire) -
				  at);

		if (ahead < 0)
			return false;
		if (ahead > 0) {
			at = atomic_load_explicit(&p->tail,
						  memory_order_relaxed);
			continue;
		}
		if (!atomic_compare_exchange_weak_explicit(
			    &p->tail, &at, at + 1, memory_order_seq_cst,
			    memory_order_relaxed))
			continue;
		*ret_at = at;
		return true;
	}
}

static void queue_publish(struct weir__pool *p, uint64_t at,
			  struct weir__task *task)
{
	struct cell *c = &p->cell[at & p->mask];

	c->task = task;
	atomic_store_explicit(&c->seq, at + 1, memory_order_release);
	atomic_fetch_add(&p->pushes, 1);
}

/*
 * Returns how many threads to wake for the task at @at: one, and one for each
 * task at a later position that was published earlier. This order of events
 * needs it:
 *
 *	pusher A		pusher B		a thread
 *	reserves position 0
 *				reserves position 1
 *				publishes, wakes
 *							finds position 0
 *							empty, sleeps
 *	publishes: must wake threads for both
 *
 * No task is missed. A thread sleeps on a value of pushes that it read before
 * it found @at empty; so A's increment came after that value, or the thread
 * would have seen the task. B's task, for which it was woken, was counted at
 * that value or before. So B's increment precedes A's, which reads from it
 * (both are acquire and release), and the loop below sees B's task.
 */
static int count_to_wake(struct weir__pool *p, uint64_t at)
{
	int n = 1;

	while (atomic_load_explicit(&p->cell[(at + n) & p->mask].seq,
				    memory_order_acquire) ==
		       at + (unsigned)n + 1 &&
	       (uint64_t)n <= p->mask)
		n++;
	return n;
}

static uint64_t queue_length(struct weir__pool *p)
{
	uint64_t head = atomic_load(&p->head);

	return atomic_load(&p->tail) - head;
}

static void *pool_thread_main(void *arg);

static void start_thread(struct weir__pool *p)
{
	char name[16];
	unsigned n;
	int r;

	pthread_mutex_lock(&p->lock);
	n = atomic_load(&p->n_threads);
	if (n < p->max_threads && !atomic_load(&p->stop)) {
		snprintf(name, sizeof(name), "%s%u", p->name, n % 100);
		atomic_fetch_add(&p->idle, 1);
		r = weir__thread_start(&p->thread[n], name, pool_thread_main,
				       p);
		if (!r) {
			atomic_store(&p->n_threads, n + 1);
		} else {
			atomic_fetch_sub(&p->idle, 1);
			atomic_store(&p->start_err, r);
		}
	}
	pthread_mutex_unlock(&p->lock);
}

/*
 * Start a thread if more tasks are queued than threads are idle. A pusher calls
 * it after it has published, a thread after it has stopped being idle: if both
 * counts change at once, at least one of the two callers sees both changes.
 */
static void add_thread(struct weir__pool *p)
{
	if (queue_length(p) > atomic_load(&p->idle) &&
	    atomic_load(&p->n_threads) < p->max_threads)
		start_thread(p);
}

/* Start or wake threads for the task at @at, which is published. */
static void wake_threads(struct weir__pool *p, uint64_t at)
{
	add_thread(p);
	if (atomic_load(&p->idle))
		weir__futex_wake(&p->pushes, count_to_wake(p, at));
}

static void *pool_thread_main(void *arg)
{
	struct weir__pool *p = arg;
	struct weir__task *task;

	if (p->cpus)
		weir__cpus_enter(p->cpus);
	for (;;) {
		uint32_t seen = atomic_load(&p->pushes);

		if (queue_pop(p, &task)) {
			atomic_fetch_sub(&p->idle, 1);
			add_thread(p);
			task->run(task);
			atomic_fetch_add(&p->idle, 1);
			continue;
		}
		if (atomic_load(&p->stop))
			return NULL;
		weir__futex_wait(&p->pushes, seen, INT64_MAX);
	}
}

void weir__pool_push(struct weir__pool *pool, struct weir__task *task)
{
	uint64_t at;

	if (!atomic_load(&pool->n_threads))
		start_thread(pool);
	if (!atomic_load(&pool->n_threads) || !queue_reserve(pool, &at)) {
		task->run(task);
		return;
	}
	queue_publish(pool, at, task);
	wake_threads(pool, at);
}

int weir__pool_new(const char *name, unsigned threads, unsigned bound,
		   struct weir__pool **ret_pool)
{
	struct weir__pool *p = weir__calloc(1, sizeof(*p));
	uint64_t n = 2;

	while (n < bound)
		n *= 2;
	if (!p)
		return -ENOMEM;
	p->cell = weir__calloc(n, sizeof(*p->cell));
	p->thread = weir__calloc(threads, sizeof(*p->thread));
	if (!p->cell || !p->thread) {
		weir__free(p->cell);
		weir__free(p->thread);
		weir__free(p);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < n; i++)
		atomic_init(&p->cell[i].seq, i);
	p->mask = n - 1;
	p->max_threads = threads;
	pthread_mutex_init(&p->lock, NULL);
	snprintf(p->name, sizeof(p->name), "%s", name);
	*ret_pool = p;
	return 0;
}

void weir__pool_place(struct weir__pool *pool, const struct weir__cpu_set *cpus)
{
	pool->cpus = cpus;
}

int weir__pool_start_error(struct weir__pool *pool)
{
	return atomic_load(&pool->start_err);
}

void weir__pool_more(struct weir__pool *pool)
{
	pthread_t *more;
	unsigned n;

	pthread_mutex_lock(&pool->lock);
	n = atomic_load(&pool->max_threads) + 1;
	more = weir__realloc(pool->thread, n, sizeof(*more));
	if (more) {
		pool->thread = more;
		atomic_store(&pool->max_threads, n);
	}
	pthread_mutex_unlock(&pool->lock);
	if (more)
		add_thread(pool);
}

bool weir__pool_stop(struct weir__pool *pool, int64_t deadline)
{
	struct weir__task *task;
	bool ended = true;
	unsigned n;

	/* No thread is started from here on. */
	pthread_mutex_lock(&pool->lock);
	atomic_store(&pool->stop, true);
	pthread_mutex_unlock(&pool->lock);
	atomic_fetch_add(&pool->pushes, 1);
	n = atomic_load(&pool->n_threads);
	weir__futex_wake(&pool->pushes, (int)n);
	for (unsigned i = 0; i < n; i++)
		if (weir__thread_join(pool->thread[i], deadline) < 0)
			ended = false;
	atomic_store(&pool->max_threads, 0);
	atomic_store(&pool->n_threads, 0);
	while (!ended && queue_pop(pool, &task))
		task->run(task);
	return ended;
}

void weir__pool_free(struct weir__pool *pool)
{
	if (!pool)
		return;
	weir__pool_stop(pool, INT64_MAX);
	pthread_mutex_destroy(&pool->lock);
	weir__free(pool->cell);
	weir__free(pool->thread);
	weir__free(pool);
}
