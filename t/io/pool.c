/* SPDX-License-Identifier: MIT */
/* Pools of threads: every task is run once, whatever is refused. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/pool.h"
#include "core/root.h"
#include "core/sys.h"
#include "tap.h"
#include "core/clock.h"

#define TASKS 20000
#define PUSHERS 4

struct counted {
	struct weir__task task; /* first member */
	_Atomic unsigned runs;
};

static _Atomic unsigned total, inside, most;
static _Atomic bool released;

static void count(struct weir__task *task)
{
	atomic_fetch_add(&((struct counted *)task)->runs, 1);
	atomic_fetch_add(&total, 1);
}

/* Wait until @released is set, and note how many tasks wait at once. */
static void wait_for_release(struct weir__task *task)
{
	unsigned n = atomic_fetch_add(&inside, 1) + 1;

	if (n > atomic_load(&most))
		atomic_store(&most, n);
	while (!atomic_load(&released))
		usleep(100);
	atomic_fetch_sub(&inside, 1);
	count(task);
}

static struct weir__pool *make(unsigned threads, unsigned bound)
{
	struct weir__pool *p;

	if (weir__pool_new("t", threads, bound, &p) < 0)
		bail("no memory");
	total = inside = most = 0;
	released = false;
	return p;
}

static unsigned not_once(const struct counted *c, unsigned n)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < n; i++)
		wrong += c[i].runs != 1;
	return wrong;
}

struct pusher {
	struct weir__pool *pool;
	struct counted *c;
};

static void *push_all(void *arg)
{
	struct pusher *p = arg;

	for (unsigned i = 0; i < TASKS; i++)
		weir__pool_push(p->pool, &p->c[i].task);
	return NULL;
}

static void crowd(void)
{
	struct weir__pool *pool = make(3, 64);
	struct counted *c = calloc(PUSHERS * TASKS, sizeof(*c));
	struct pusher p[PUSHERS];
	pthread_t thread[PUSHERS];

	for (unsigned i = 0; i < PUSHERS * TASKS; i++)
		c[i].task.run = count;
	for (unsigned i = 0; i < PUSHERS; i++) {
		p[i] = (struct pusher){ pool, c + i * TASKS };
		pthread_create(&thread[i], NULL, push_all, &p[i]);
	}
	for (unsigned i = 0; i < PUSHERS; i++)
		pthread_join(thread[i], NULL);
	weir__pool_free(pool);
	is_int(total, PUSHERS * TASKS,
	       "all that is queued is run before the end");
	is_int(not_once(c, PUSHERS * TASKS), 0, "each task is run once");
	free(c);
}

static void together(void)
{
	struct weir__pool *pool = make(4, 16);
	struct counted c[4] = { 0 };

	for (int i = 0; i < 4; i++) {
		c[i].task.run = wait_for_release;
		weir__pool_push(pool, &c[i].task);
	}
	for (int i = 0; i < 30000 && atomic_load(&inside) < 4; i++)
		usleep(1000);
	is_int(atomic_load(&inside), 4,
	       "tasks that wait for each other all run: there are threads for them");
	atomic_store(&released, true);
	weir__pool_free(pool);
	is_int(total, 4, "tasks that waited for each other all end");
}

/* Two tasks at an idle thread, the first of which never ends by itself. */
static void behind(void)
{
	unsigned stuck = 0;

	for (int round = 0; round < 300; round++) {
		struct weir__pool *pool = make(2, 16);
		struct counted c[3] = { 0 };

		c[0].task.run = count;
		weir__pool_push(pool, &c[0].task);
		while (!atomic_load(&total))
			;
		c[1].task.run = wait_for_release;
		c[2].task.run = count;
		weir__pool_push(pool, &c[1].task);
		weir__pool_push(pool, &c[2].task);
		for (int i = 0; i < 300000 && atomic_load(&total) < 2; i++)
			usleep(100);
		stuck += atomic_load(&total) < 2;
		atomic_store(&released, true);
		weir__pool_free(pool);
	}
	is_int(stuck, 0,
	       "no task waits for one that blocks while a thread is idle");
}

static void full(void)
{
	struct weir__pool *pool = make(1, 2);
	struct counted c[4] = { 0 };

	for (int i = 0; i < 4; i++)
		c[i].task.run = i ? count : wait_for_release;
	weir__pool_push(pool, &c[0].task);
	while (!atomic_load(&inside))
		usleep(100);
	for (int i = 1; i < 4; i++)
		weir__pool_push(pool, &c[i].task);
	is_int(total, 1,
	       "a task that does not fit the queue runs inside the push");
	atomic_store(&released, true);
	weir__pool_free(pool);
	is_int(not_once(c, 4), 0,
	       "each task is run once although the queue was full");
}

/* As where RLIMIT_NPROC lets none be made. */
static void no_threads(void)
{
	struct counted c = { .task.run = count };
	struct weir__pool *pool = make(0, 16);

	weir__pool_push(pool, &c.task);
	is_int(c.runs, 1, "where there is no thread the caller runs the task");
	weir__pool_free(pool);
}

/* Threads that hang are not waited for; what is queued is run all the same. */
static void hanging(void)
{
	struct weir__pool *pool = make(1, 16);
	static struct counted c[3];
	static struct weir__pool *volatile stuck;

	c[0].task.run = wait_for_release;
	c[1].task.run = c[2].task.run = count;
	weir__pool_push(pool, &c[0].task);
	while (!atomic_load(&inside))
		usleep(100);
	weir__pool_push(pool, &c[1].task);
	weir__pool_more(pool);
	for (int i = 0; i < 50000 && !atomic_load(&total); i++)
		usleep(100);
	is_int(total, 1,
	       "one more thread runs the task queued after one that hangs");
	atomic_store(&released, true);
	weir__pool_free(pool);

	/* Never freed, and kept where a tool finds it. */
	stuck = make(1, 16);
	pool = stuck;
	weir__pool_push(pool, &c[0].task);
	while (!atomic_load(&inside))
		usleep(100);
	weir__pool_push(pool, &c[2].task);
	ok(!weir__pool_stop(pool, weir__deadline(20000000)),
	   "a pool that stops does not wait for a thread that hangs");
	is_int(total, 1, "a pool that stops has run what was queued");
	atomic_store(&released, true);
	while (atomic_load(&total) < 2)
		usleep(100);
}

int main(void)
{
	plan(11);
	crowd();
	together();
	behind();
	full();
	no_threads();
	hanging();
	return done_testing();
}
