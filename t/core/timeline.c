/* SPDX-License-Identifier: MIT */
/* Timelines: which waiters are woken, when, and in which order; blocking. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "core/error.h"
#include "core/timeline.h"
#include "tap.h"

/*
 * A timeline whose state is set by hand: numbers up to @done are done, numbers
 * from @failed on have failed.
 */
struct hand {
	struct weir__timeline timeline;
	_Atomic uint64_t done, failed;
	int freed;
};

static int hand_state(struct weir__timeline *tl, uint64_t number,
		      struct weir_failure *cause)
{
	struct hand *h = (struct hand *)tl;

	if (number >= h->failed) {
		if (cause)
			weir__failure_set(cause, -EIO, 0, number, "by hand");
		return -EIO;
	}
	return number <= h->done;
}

static void hand_free(struct weir__timeline *tl)
{
	((struct hand *)tl)->freed++;
	weir__timeline_fini(tl);
}

static const struct weir__timeline_ops hand_ops = {
	.size = sizeof(hand_ops),
	.state = hand_state,
	.free = hand_free,
};

static struct weir *weir;

static void hand_init(struct hand *h)
{
	memset(h, 0, sizeof(*h));
	weir__timeline_init(&h->timeline, &hand_ops, weir);
	h->failed = UINT64_MAX;
}

static char woken[32];

struct letter {
	struct weir__waiter waiter;
	char name;
};

static void wake_letter(struct weir__waiter *w)
{
	char name[2] = { ((struct letter *)w)->name, '\0' };

	strcat(woken, name);
}

static struct letter letter(char name, uint64_t number)
{
	struct letter l = { .waiter = { .number = number, .wake = wake_letter },
			    .name = name };

	return l;
}

static void wakes(void)
{
	struct letter a = letter('a', 5), b = letter('b', 3),
		      c = letter('c', 5), d = letter('d', 4);
	struct hand h;

	hand_init(&h);
	h.done = 2;
	is_int(weir__timeline_wait(&h.timeline, &a.waiter), 0,
	       "a waiter for a number that is not yet done goes on the list");
	weir__timeline_wait(&h.timeline, &b.waiter);
	weir__timeline_wait(&h.timeline, &c.waiter);
	weir__timeline_wait(&h.timeline, &d.waiter);
	weir__timeline_complete(&h.timeline, 2);
	is_str(woken, "", "completing a lower number wakes no waiter");
	h.done = 4;
	weir__timeline_complete(&h.timeline, 4);
	is_str(woken, "bd",
	       "completing wakes the waiters of lower numbers first");
	ok(!weir__timeline_unwait(&h.timeline, &b.waiter),
	   "a waiter that was woken is not on the list");
	ok(weir__timeline_unwait(&h.timeline, &a.waiter),
	   "a waiter that was not woken can be taken off the list");
	weir__timeline_wait(&h.timeline, &a.waiter);
	h.done = 9;
	weir__timeline_complete(&h.timeline, 9);
	is_str(woken, "bdca",
	       "waiters of one number are woken in the order they came");
	weir__timeline_put(&h.timeline);
	is_int(h.freed, 1, "dropping the last reference frees the timeline");
}

static void ended_numbers(void)
{
	struct letter a = letter('a', 11), d = letter('d', 4);
	struct hand h;

	hand_init(&h);
	woken[0] = '\0';
	h.done = 9;
	is_int(weir__timeline_wait(&h.timeline, &d.waiter), 1,
	       "a waiter for a number that is done does not go on the list");
	h.failed = 10;
	is_int(weir__timeline_wait(&h.timeline, &a.waiter), -EIO,
	       "a waiter for a number that failed does not go on the list");
	weir__timeline_complete(&h.timeline, UINT64_MAX);
	is_str(woken, "", "a waiter that did not go on the list is not woken");
	weir__timeline_put(&h.timeline);
}

static void one_number(void)
{
	struct letter a = letter('a', 1), b = letter('b', 2),
		      c = letter('c', 3), e = letter('e', 2);
	struct hand h;

	hand_init(&h);
	woken[0] = '\0';
	weir__timeline_wait(&h.timeline, &c.waiter);
	weir__timeline_wait(&h.timeline, &b.waiter);
	weir__timeline_wait(&h.timeline, &a.waiter);
	weir__timeline_wait(&h.timeline, &e.waiter);
	weir__timeline_complete_one(&h.timeline, 2);
	is_str(woken, "be",
	       "completing one number wakes only the waiters of that number");
	weir__timeline_unwait(&h.timeline, &c.waiter);
	weir__timeline_wait(&h.timeline, &c.waiter);
	weir__timeline_complete_one(&h.timeline, 3);
	weir__timeline_complete_one(&h.timeline, 1);
	is_str(woken, "beca",
	       "numbers of a timeline may complete in any order");
	weir__timeline_put(&h.timeline);
}

/* Each wake completes the next timeline. */
#define LINKS 10000
struct chain {
	struct hand hand[LINKS + 1];
	struct chain_link {
		struct weir__waiter waiter;
		struct hand *next;
	} link[LINKS];
};

static unsigned depth, deepest;

static void wake_link(struct weir__waiter *w)
{
	struct chain_link *l = (struct chain_link *)w;

	if (++depth > deepest)
		deepest = depth;
	l->next->done = 1;
	weir__timeline_complete(&l->next->timeline, 1);
	depth--;
}

static void chains(void)
{
	static struct chain c;

	for (int i = 0; i <= LINKS; i++)
		hand_init(&c.hand[i]);
	for (int i = 0; i < LINKS; i++) {
		c.link[i].waiter.number = 1;
		c.link[i].waiter.wake = wake_link;
		c.link[i].next = &c.hand[i + 1];
		weir__timeline_wait(&c.hand[i].timeline, &c.link[i].waiter);
	}
	c.hand[0].done = 1;
	weir__timeline_complete(&c.hand[0].timeline, 1);
	is_int(c.hand[LINKS].done, 1,
	       "a chain of %d timelines, each completed by a wake, ends",
	       LINKS);
	is_int(deepest, 1, "wakes that complete other timelines do not nest");
	for (int i = 0; i <= LINKS; i++)
		weir__timeline_put(&c.hand[i].timeline);
}

static void *complete_later(void *arg)
{
	struct hand *h = arg;

	usleep(20000);
	h->done = 7;
	weir__timeline_complete(&h->timeline, 7);
	return NULL;
}

static void *fail_later(void *arg)
{
	struct hand *h = arg;

	usleep(20000);
	h->failed = 8;
	weir__timeline_complete(&h->timeline, UINT64_MAX);
	return NULL;
}

static void blocking(void)
{
	pthread_t thread;
	struct hand h;

	hand_init(&h);
	weir__enter("weir_event_wait");
	is_int(weir__timeline_block(&h.timeline, 0, -1), 0,
	       "blocking on a number that is done returns at once");
	is_err(weir__timeline_block(&h.timeline, 7, 0), -ETIMEDOUT, "not done",
	       "blocking with a timeout of 0 returns -ETIMEDOUT at once");
	is_err(weir__timeline_block(&h.timeline, 7, 1000000), -ETIMEDOUT,
	       "1000000", "blocking ends with -ETIMEDOUT after its timeout");
	pthread_create(&thread, NULL, complete_later, &h);
	is_int(weir__timeline_block(&h.timeline, 7, -1), 0,
	       "blocking ends when another thread completes the number");
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, fail_later, &h);
	is_err(weir__timeline_block(&h.timeline, 8, -1), -EIO, "by hand",
	       "blocking ends when the number fails, with the cause");
	pthread_join(thread, NULL);
	weir__timeline_put(&h.timeline);
}

/*
 * A timeline that only its waiter references, as when a stream waits. It
 * completes after the waiter went on the list and before its state is read.
 */
struct owned {
	struct weir__timeline timeline;
	bool asking;
};

static bool freed_while_asked;

struct owner {
	struct weir__waiter waiter;
	struct weir__timeline *tl;
};

static void wake_owner(struct weir__waiter *w)
{
	weir__timeline_put(((struct owner *)w)->tl);
}

static int owned_state(struct weir__timeline *tl, uint64_t number,
		       struct weir_failure *cause)
{
	struct owned *h = (struct owned *)tl;

	(void)cause;
	h->asking = true;
	weir__timeline_complete(tl, number);
	if (!freed_while_asked)
		h->asking = false;
	return 1;
}

static void owned_free(struct weir__timeline *tl)
{
	freed_while_asked = ((struct owned *)tl)->asking;
	weir__timeline_fini(tl);
	free(tl);
}

static const struct weir__timeline_ops owned_ops = {
	.size = sizeof(owned_ops),
	.state = owned_state,
	.free = owned_free,
};

static void last_reference(void)
{
	struct owned *h = calloc(1, sizeof(*h));
	struct owner m = { .waiter = { .number = 1, .wake = wake_owner },
			   .tl = &h->timeline };

	weir__timeline_init(&h->timeline, &owned_ops, weir);
	is_int(weir__timeline_wait(&h->timeline, &m.waiter), 0,
	       "a wait that ends while its waiter goes on the list returns 0");
	ok(!freed_while_asked,
	   "a timeline is not freed while a thread puts a waiter on it");
}

int main(void)
{
	plan(21);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	wakes();
	ended_numbers();
	one_number();
	chains();
	blocking();
	last_reference();
	weir_close(weir);
	return done_testing();
}
