/* SPDX-License-Identifier: MIT */
/*
 * The lock of a shard alone. Threads add to plain memory under it: sums are
 * wrong, or ThreadSanitizer reports a race, if two hold it at once; the test
 * does not end if a thread is not woken. WEIR_T_STEPS turns of each thread (20
 * 000).
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "heap/lock.h"
#include "tap.h"

#define THREADS 4u

static struct weir__lock lock;
static unsigned long sum, contended;
static unsigned steps = 20000;

static void *adds(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < steps; i++) {
		bool waited = weir__lock(&lock);

		contended += waited;
		sum++;
		/* The others run meanwhile, and sleep. */
		if (i % 64 == 0)
			sched_yield();
		weir__unlock(&lock);
	}
	return NULL;
}

static void run(bool membarrier, const char *how)
{
	pthread_t thread[THREADS];

	lock = (struct weir__lock){ .membarrier = membarrier };
	sum = contended = 0;
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, adds, NULL))
			bail("cannot start a thread");
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	is_int(sum, THREADS * steps, "one thread at a time holds the lock, %s",
	       how);
	ok(contended > 0, "threads waited for each other, %s", how);
	is_int(atomic_load(&lock.sleepers), 0, "no thread sleeps any more, %s",
	       how);
	ok(weir__lock_try(&lock) && !weir__lock_try(&lock),
	   "a lock that is held is not taken, %s", how);
}

int main(void)
{
	const char *text = getenv("WEIR_T_STEPS");

	if (text)
		steps = (unsigned)strtoul(text, NULL, 10);
	plan(8);
	run(false, "with a barrier of the holder");
	if (weir__sys_membarrier_register() == 0)
		run(true, "with membarrier(2)");
	else
		skip(4, "membarrier(2) is refused");
	return done_testing();
}
