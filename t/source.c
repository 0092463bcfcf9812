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

static void lists(void)
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
	is_str(woken, "", "completing a lower number wakes nobody");
	h.done = 4;
	weir__source_complete(&h.src, 4);
	is_str(woken, "bd", "completing wakes lower numbers first");
	ok(!weir__source_unwait(&h.src, &b.waiter),
	   "who was woken is not on the list any more");
	ok(weir__source_unwait(&h.src, &a.waiter),
	   "who was not can take himself back");
	weir__source_wait(&h.src, &a.waiter);
	h.done = 9;
	weir__source_complete(&h.src, 9);
	is_str(woken, "bdca",
	       "waiters of one number are woken in the order they came");
	is_int(weir__source_wait(&h.src, &d.waiter), 1,
	       "a number that is done is not waited for");
	h.failed = 10;
	a.waiter.number = 11;
	is_int(weir__source_wait(&h.src, &a.waiter), -EIO,
	       "neither is one that failed");
	weir__source_complete(&h.src, UINT64_MAX);
	is_str(woken, "bdca", "... and its waiter is not woken");
	weir__source_put(&h.src);
	is_int(h.freed, 1, "the last reference frees the source");
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
	is_str(woken, "be", "completing one number wakes its waiters only");
	weir__source_unwait(&h.src, &c.waiter);
	weir__source_wait(&h.src, &c.waiter);
	weir__source_complete_one(&h.src, 3);
	weir__source_complete_one(&h.src, 1);
	is_str(woken, "beca", "... in whatever order they complete");
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
	is_int(c.hand[LINKS].done, 1, "a chain of %d sources runs to its end",
	       LINKS);
	is_int(deepest, 1, "... and its wakes do not nest");
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
	       "a thread does not sleep for what is done");
	is_err(weir__source_block(&h.src, 7, 0), -ETIMEDOUT, "not done",
	       "a timeout of 0 asks");
	is_err(weir__source_block(&h.src, 7, 1000000), -ETIMEDOUT, "1000000",
	       "a timeout ends the wait");
	pthread_create(&thread, NULL, complete_later, &h);
	is_int(weir__source_block(&h.src, 7, -1), 0,
	       "another thread's completion ends it too");
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, fail_later, &h);
	is_err(weir__source_block(&h.src, 8, -1), -EIO, "by hand",
	       "... and so does a failure, with its cause");
	pthread_join(thread, NULL);
	weir__source_put(&h.src);
}

/*
 * A source whose only reference is its waiter's, as that of a stream which
 * waits: it is completed between the waiter's going on the list and the
 * question for its state.
 */
struct held {
	struct weir__source src;
	bool asking;
};

static bool freed_while_asked;

struct holder {
	struct weir__waiter waiter;
	struct weir__source *src;
};

static void wake_holder(struct weir__waiter *w)
{
	weir__source_put(((struct holder *)w)->src);
}

static int held_state(struct weir__source *src, uint64_t number,
		      struct weir_failure *cause)
{
	struct held *h = (struct held *)src;

	(void)cause;
	h->asking = true;
	weir__source_complete(src, number);
	if (!freed_while_asked)
		h->asking = false;
	return 1;
}

static void held_free(struct weir__source *src)
{
	freed_while_asked = ((struct held *)src)->asking;
	weir__source_fini(src);
	free(src);
}

static const struct weir__source_ops held_ops = {
	.size = sizeof(held_ops),
	.state = held_state,
	.free = held_free,
};

static void last_reference(void)
{
	struct held *h = calloc(1, sizeof(*h));
	struct holder m = { .waiter = { .number = 1, .wake = wake_holder },
			    .src = &h->src };

	weir__source_init(&h->src, &held_ops, weir);
	is_int(weir__source_wait(&h->src, &m.waiter), 0,
	       "a waiter that is woken while it is put on the list was on it");
	ok(!freed_while_asked,
	   "... and a source stays while a thread puts a waiter on it");
}

int main(void)
{
	plan(21);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	lists();
	one_number();
	chains();
	blocking();
	last_reference();
	weir_close(weir);
	return done_testing();
}
