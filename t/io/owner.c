/* SPDX-License-Identifier: MIT */
/*
 * Ownership alone, without a reactor: each transition, and then a thread and
 * borrowers that work on the same plain memory. ThreadSanitizer reports a race
 * if two own it at once, or if an owner does not see the writes of the last.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/sys.h"
#include "io/owner.h"
#include "tap.h"

#define SENDERS 3u
#define ROUNDS 200000u
#define LIMIT INT64_C(120000000000)

static struct weir__owner owner_in(uint32_t word)
{
	struct weir__owner o;

	atomic_init(&o.word, word);
	return o;
}

static void releases(void)
{
	struct weir__owner o = owner_in(WEIR__OWNER_THREAD);

	ok(!weir__owner_is_borrowed(&o), "a new object is its thread's");
	ok(weir__owner_release(&o) && o.word == WEIR__OWNER_NONE,
	   "the thread releases an object that was not notified");
	weir__owner_acquire(&o);
	is_int(o.word, WEIR__OWNER_THREAD,
	       "the thread acquires an object that nobody owns");
	ok(!weir__owner_notify(&o), "a thread that is awake is not woken");
	ok(!weir__owner_release(&o) && !weir__owner_is_borrowed(&o),
	   "the thread keeps an object that was notified");
	ok(weir__owner_take_notifications(&o) &&
		   !weir__owner_take_notifications(&o),
	   "a notification is taken once");
	ok(weir__owner_release(&o),
	   "the thread releases an object after it took the notification");
}

static void notifies(void)
{
	struct weir__owner o = owner_in(WEIR__OWNER_NONE);

	ok(weir__owner_notify(&o) && !weir__owner_notify(&o),
	   "of two notifications of a sleeping thread the first wakes it");
	weir__owner_acquire(&o);
	ok(weir__owner_take_notifications(&o),
	   "the thread that was woken finds the notification");
}

static void borrows(void)
{
	struct weir__owner o = owner_in(WEIR__OWNER_NONE);

	ok(weir__owner_notify_or_borrow(&o) && weir__owner_is_borrowed(&o),
	   "an object that nobody owns is borrowed");
	ok(!weir__owner_notify_or_borrow(&o),
	   "an object that is borrowed is not borrowed again");
	is_int(weir__owner_give_back(&o, false), WEIR__OWNER_KEPT,
	       "a borrower keeps an object that was notified");
	weir__owner_take_notifications(&o);
	ok(weir__owner_give_back(&o, false) == WEIR__OWNER_GIVEN &&
		   o.word == WEIR__OWNER_NONE,
	   "a borrower gives back an object that was not notified to nobody");
	weir__owner_notify_or_borrow(&o);
	ok(weir__owner_give_back(&o, true) == WEIR__OWNER_WAKE &&
		   o.word == (WEIR__OWNER_THREAD | WEIR__OWNER_NOTIFIED),
	   "a borrower that leaves work wakes the thread, and leaves the notification");
}

static void *acquire_it(void *arg)
{
	weir__owner_acquire(arg);
	return NULL;
}

static void wants(void)
{
	struct weir__owner o = owner_in(WEIR__OWNER_BORROWER);
	pthread_t thread;

	if (pthread_create(&thread, NULL, acquire_it, &o))
		bail("no thread");
	while (atomic_load(&o.word) != WEIR__OWNER_WANTED)
		weir__sleep(100000);
	ok(!weir__owner_notify_or_borrow(&o),
	   "an object that its thread waits for is not borrowed");
	is_int(weir__owner_give_back(&o, false), WEIR__OWNER_GIVEN,
	       "a borrower gives the object to the thread that waits");
	pthread_join(thread, NULL);
	is_int(o.word, WEIR__OWNER_THREAD | WEIR__OWNER_NOTIFIED,
	       "the thread that waited owns the object, with its notification");
}

/* An object with a thread, which counts what senders add. */
static struct object {
	struct weir__owner owner;
	_Atomic uint32_t sent;   /* what is published */
	_Atomic uint32_t signal; /* a futex: in place of an eventfd */
	/* The owner's, plain on purpose. */
	unsigned inside, overlaps;
	uint32_t seen;
	uint64_t by_thread, by_borrowers;
	_Atomic bool late; /* the thread slept although it was notified */
} object;

static void wake_thread(void)
{
	atomic_fetch_add(&object.signal, 1);
	weir__futex_wake(&object.signal, 1);
}

/* The owner: one iteration. */
static void work(uint64_t *count)
{
	object.overlaps += object.inside++ != 0;
	if (weir__owner_take_notifications(&object.owner)) {
		object.seen = atomic_load_explicit(&object.sent,
						   memory_order_relaxed);
		++*count;
	}
	object.inside--;
}

/* The thread. LIMIT is so long that reaching it means a lost wakeup. */
static void *thread_main(void *arg)
{
	(void)arg;
	do {
		uint32_t signal = atomic_load(&object.signal);

		work(&object.by_thread);
		if (object.seen == SENDERS * ROUNDS ||
		    !weir__owner_release(&object.owner))
			continue;
		if (weir__futex_wait(&object.signal, signal,
				     weir__deadline(LIMIT)) == -ETIMEDOUT)
			atomic_store(&object.late, true);
		weir__owner_acquire(&object.owner);
	} while (object.seen < SENDERS * ROUNDS && !atomic_load(&object.late));
	return NULL;
}

static void borrow(unsigned i)
{
	enum weir__owner_given given;

	do {
		work(&object.by_borrowers);
		/*
		 * The last round, and now and then another, needs the thread.
		 */
		given = weir__owner_give_back(&object.owner,
					      object.seen == SENDERS * ROUNDS ||
						      i % 64 == 0);
	} while (given == WEIR__OWNER_KEPT);
	if (given == WEIR__OWNER_WAKE)
		wake_thread();
}

/* Sender 0 only notifies, the others borrow; each pauses now and then. */
static void *sender_main(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	unsigned random = number + 1;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		atomic_fetch_add_explicit(&object.sent, 1,
					  memory_order_relaxed);
		if (number && weir__owner_notify_or_borrow(&object.owner))
			borrow(i);
		else if (!number && weir__owner_notify(&object.owner))
			wake_thread();
		random = random * 1664525 + 1013904223;
		if (random >> 27 == 0)
			weir__sleep(random >> 12 & 0xffff);
	}
	return NULL;
}

static void crowd(void)
{
	pthread_t thread, sender[SENDERS];

	if (pthread_create(&thread, NULL, thread_main, NULL))
		bail("no thread");
	for (uintptr_t i = 0; i < SENDERS; i++)
		if (pthread_create(&sender[i], NULL, sender_main, (void *)i))
			bail("no thread");
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(sender[i], NULL);
	pthread_join(thread, NULL);
	is_int(object.overlaps, 0, "no two threads own an object at once");
	ok(!object.late, "the thread never sleeps after a notification");
	is_int(object.seen, SENDERS * ROUNDS,
	       "the last notification of each sender is seen");
	ok(object.by_thread && object.by_borrowers,
	   "the thread and borrowers both worked: %llu and %llu times",
	   (unsigned long long)object.by_thread,
	   (unsigned long long)object.by_borrowers);
}

int main(void)
{
	plan(21);
	releases();
	notifies();
	borrows();
	wants();
	crowd();
	return done_testing();
}
