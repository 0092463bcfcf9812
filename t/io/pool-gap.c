/* SPDX-License-Identifier: MIT */
/*
 * The queue of a pool while a pusher has reserved a position and not published
 * its task. The pool is compiled into this test, which makes the two steps of a
 * push one by one.
 */
#include "../../lib/io/pool.c"

#include <unistd.h>

#include "tap.h"

static _Atomic unsigned begun, ended;
static _Atomic bool released;

static void count(struct weir__task *task)
{
	(void)task;
	atomic_fetch_add(&begun, 1);
	atomic_fetch_add(&ended, 1);
}

static void wait_for_release(struct weir__task *task)
{
	(void)task;
	atomic_fetch_add(&begun, 1);
	while (!atomic_load(&released))
		usleep(100);
	atomic_fetch_add(&ended, 1);
}

static bool becomes(_Atomic unsigned *word, unsigned n)
{
	for (int i = 0; i < 100000 && atomic_load(word) != n; i++)
		usleep(100);
	return atomic_load(word) == n;
}

/* Two threads that sleep. */
static struct weir__pool *make_idle(void)
{
	struct weir__task task[2] = { { wait_for_release },
				      { wait_for_release } };
	struct weir__pool *p;

	if (weir__pool_new("t", 2, 16, &p) < 0)
		bail("no memory");
	weir__pool_push(p, &task[0]);
	weir__pool_push(p, &task[1]);
	if (!becomes(&begun, 2))
		bail("there are no two threads");
	atomic_store(&released, true);
	if (!becomes(&ended, 2) || !becomes(&p->idle, 2))
		bail("tasks do not end");
	atomic_store(&released, false);
	return p;
}

/* The threads look at the queue again after each push; then they sleep. */
static void let_them_sleep(void)
{
	usleep(50000);
}

static void after_a_gap(unsigned n)
{
	struct weir__task first = { wait_for_release }, later[4];
	struct weir__pool *p = make_idle();
	uint64_t at;

	if (!queue_reserve(p, &at))
		bail("the queue is full");
	for (unsigned i = 0; i < n; i++) {
		later[i].run = count;
		weir__pool_push(p, &later[i]);
		let_them_sleep();
	}
	queue_publish(p, at, &first);
	wake_threads(p, at);
	ok(becomes(&ended, 2 + n),
	   "an idle thread runs %u tasks published before the one in front of them",
	   n);
	atomic_store(&released, true);
	weir__pool_free(p);
	is_int(ended, 3 + n,
	       "the task published last, in front of %u others, is run as well",
	       n);
	begun = ended = 0;
	released = false;
}

int main(void)
{
	plan(4);
	after_a_gap(1);
	after_a_gap(3);
	return done_testing();
}
