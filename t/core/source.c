/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "core/error.h"
#include "core/source.h"
#include "tap.h"

/* A source whose state is set by hand: done up to a number, failed from one. */
struct hand {
	struct weir__source src;
	_Atomic uint64_t done, failed;
	int freed;
};

static int hand_state(struct weir__source *src, uint64_t number,
		      struct weir_failure *cause)
{
	struct hand *h = (struct hand *)src;

	if (number >= h->failed) {
		if (cause)
			weir__failure_set(cause, -EIO, 0, number, "by hand");
		return -EIO;
	}
	return number <= h->done;
}

static void hand_free(struct weir__source *src)
{
	((struct hand *)src)->freed++;
	weir__source_fini(src);
}

static const struct weir__source_ops hand_ops = {
	.size = sizeof(hand_ops),
	.state = hand_state,
	.free = hand_free,
};

static struct weir *weir;

static void hand_init(struct hand *h)
{
	memset(h, 0, sizeof(*h));
	weir__source_init(&h->src, &hand_ops, weir);
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
	is_int(weir__source_wait(&h.src, &a.waiter), 0,
	       "a waiter for a number that is not yet done goes on the list");
	weir__source_wait(&h.src, &b.waiter);
	weir__source_wait(&h.src, &c.waiter);
	weir__source_wait(&h.src, &d.waiter);
	weir__source_complete(&h.src, 2);
	is_str(woken, "", "completing a lower number wakes no waiter");
	h.done = 4;
	weir__source_complete(&h.src, 4);
	is_str(woken, "bd",
	       "completing wakes the waiters of lower numbers first");
	ok(!weir__source_unwait(&h.src, &b.waiter),
	   "a waiter that was woken is not on the list");
	ok(weir__source_unwait(&h.src, &a.waiter),
	   "a waiter that was not woken can be taken off the list");
	weir__source_wait(&h.src, &a.waiter);
	h.done = 9;
	weir__source_complete(&h.src, 9);
	is_str(woken, "bdca",
	       "waiters of one number are woken in the order they came");
	weir__source_put(&h.src);
	is_int(h.freed, 1, "dropping the last reference frees the source");
}

static void ended_numbers(void)
{
	struct letter a = letter('a', 11), d = letter('d', 4);
	struct hand h;

	hand_init(&h);
	woken[0] = '\0';
	h.done = 9;
	is_int(weir__source_wait(&h.src, &d.waiter), 1,
	       "a waiter for a number that is done does not go on the list");
	h.failed = 10;
	is_int(weir__source_wait(&h.src, &a.waiter), -EIO,
	       "a waiter for a number that failed does not go on the list");
	weir__source_complete(&h.src, UINT64_MAX);
	is_str(woken, "", "a waiter that did not go on the list is not woken");
	weir__source_put(&h.src);
}

static void one_number(void)
{
	struct letter a = letter('a', 1), b = letter('b', 2),
		      c = letter('c', 3), e = letter('e', 2);
	struct hand h;

	hand_init(&h);
	woken[0] = '\0';
	weir__source_wait(&h.src, &c.waiter);
	weir__source_wait(&h.src, &b.waiter);
	weir__source_wait(&h.src, &a.waiter);
	weir__source_wait(&h.src, &e.waiter);
	weir__source_complete_one(&h.src, 2);
	is_str(woken, "be",
	       "completing one number wakes only the waiters of that number");
	weir__source_unwait(&h.src, &c.waiter);
	weir__source_wait(&h.src, &c.waiter);
	weir__source_complete_one(&h.src, 3);
	weir__source_complete_one(&h.src, 1);
	is_str(woken, "beca", "numbers of a source may complete in any order");
	weir__source_put(&h.src);
}

/* Each wake completes the next source. */
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
	weir__source_complete(&l->next->src, 1);
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
		weir__source_wait(&c.hand[i].src, &c.link[i].waiter);
	}
	c.hand[0].done = 1;
	weir__source_complete(&c.hand[0].src, 1);
	is_int(c.hand[LINKS].done, 1,
	       "a chain of %d sources, each completed by a wake, ends", LINKS);
	is_int(deepest, 1, "wakes that complete other sources do not nest");
	for (int i = 0; i <= LINKS; i++)
		weir__source_put(&c.hand[i].src);
}

static void *complete_later(void *arg)
{
	struct hand *h = arg;

	usleep(20000);
	h->done = 7;
	weir__source_complete(&h->src, 7);
	return NULL;
}

static void *fail_later(void *arg)
{
	struct hand *h = arg;

	usleep(20000);
	h->failed = 8;
	weir__source_complete(&h->src, UINT64_MAX);
	return NULL;
}

static void blocking(void)
{
	pthread_t thread;
	struct hand h;

	hand_init(&h);
	weir__enter("weir_event_wait");
	is_int(weir__source_block(&h.src, 0, -1), 0,
	       "blocking on a number that is done returns at once");
	is_err(weir__source_block(&h.src, 7, 0), -ETIMEDOUT, "not done",
	       "blocking with a timeout of 0 returns -ETIMEDOUT at once");
	is_err(weir__source_block(&h.src, 7, 1000000), -ETIMEDOUT, "1000000",
	       "blocking ends with -ETIMEDOUT after its timeout");
	pthread_create(&thread, NULL, complete_later, &h);
	is_int(weir__source_block(&h.src, 7, -1), 0,
	       "blocking ends when another thread completes the number");
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, fail_later, &h);
	is_err(weir__source_block(&h.src, 8, -1), -EIO, "by hand",
	       "blocking ends when the number fails, with the cause");
	pthread_join(thread, NULL);
	weir__source_put(&h.src);
}

/*
 * A source that only its waiter references, as when a stream waits. It
 * completes after the waiter went on the list and before its state is read.
 */
struct owned {
	struct weir__source src;
	bool asking;
};

static bool freed_while_asked;

struct owner {
	struct weir__waiter waiter;
	struct weir__source *src;
};

static void wake_owner(struct weir__waiter *w)
{
	weir__source_put(((struct owner *)w)->src);
}

static int owned_state(struct weir__source *src, uint64_t number,
		       struct weir_failure *cause)
{
	struct owned *h = (struct owned *)src;

	(void)cause;
	h->asking = true;
	weir__source_complete(src, number);
	if (!freed_while_asked)
		h->asking = false;
	return 1;
}

static void owned_free(struct weir__source *src)
{
	freed_while_asked = ((struct owned *)src)->asking;
	weir__source_fini(src);
	free(src);
}

static const struct weir__source_ops owned_ops = {
	.size = sizeof(owned_ops),
	.state = owned_state,
	.free = owned_free,
};

static void last_reference(void)
{
	struct owned *h = calloc(1, sizeof(*h));
	struct owner m = { .waiter = { .number = 1, .wake = wake_owner },
			   .src = &h->src };

	weir__source_init(&h->src, &owned_ops, weir);
	is_int(weir__source_wait(&h->src, &m.waiter), 0,
	       "a wait that ends while its waiter goes on the list returns 0");
	ok(!freed_while_asked,
	   "a source is not freed while a thread puts a waiter on it");
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
