/* SPDX-License-Identifier: MIT */
#include "core/refs.h"
#include "core/timeline.h"

#include <assert.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"

/*
 * The waiters that this thread has still to wake. Only the outermost
 * weir__timeline_complete wakes them: one that is called by a wake appends and
 * returns, so the depth of the stack does not depend on the number of streams.
 */
static _Thread_local struct {
	struct weir__waiter *head, **tail;
	bool running;
} waking;

_Thread_local uint64_t weir__unwaited;

void weir__timeline_init(struct weir__timeline *tl,
			 const struct weir__timeline_ops *ops,
			 struct weir *weir)
{
	tl->ops = ops;
	tl->weir = weir__root_ref(weir);
	atomic_init(&tl->refs, 1);
	tl->actor = 0;
	pthread_mutex_init(&tl->lock, NULL);
	tl->waiters = NULL;
	tl->tail = &tl->waiters;
	atomic_init(&tl->first, UINT64_MAX);
}

void weir__timeline_fini(struct weir__timeline *tl)
{
	assert(!tl->waiters);
	if (tl->weir->observer)
		tl->weir->observer->gone(tl);
	pthread_mutex_destroy(&tl->lock);
	weir__root_put(tl->weir);
}

struct weir__timeline *weir__timeline_ref(struct weir__timeline *tl)
{
	weir__refs_add(&tl->refs, 1);
	return tl;
}

void weir__timeline_put(struct weir__timeline *tl)
{
	if (weir__refs_drop(&tl->refs))
		tl->ops->free(tl);
}

/* The lock is held. Most waiters wait for the newest number: try the tail. */
static void waiter_insert(struct weir__timeline *tl, struct weir__waiter *w)
{
	struct weir__waiter **at = &tl->waiters;

	if (tl->waiters) {
		/* next is the first member: the tail is the last waiter. */
		struct weir__waiter *last = (struct weir__waiter *)tl->tail;

		if (last->number <= w->number)
			at = tl->tail;
	}
	while (*at && (*at)->number <= w->number)
		at = &(*at)->next;
	w->next = *at;
	w->link = at;
	*at = w;
	if (w->next)
		w->next->link = &w->next;
	else
		tl->tail = &w->next;
}

/* The lock is held. */
static void waiter_remove(struct weir__timeline *tl, struct weir__waiter *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	else
		tl->tail = w->link;
	w->link = NULL;
}

/*
 * The lock is held. A waiter stores `first`, then loads the state; a completer
 * stores the state, then loads `first`. All four are sequentially consistent,
 * so at least one of the two threads sees the other's store: either the waiter
 * sees that the number is done, or the completer sees the waiter.
 */
static void note_first(struct weir__timeline *tl)
{
	atomic_store(&tl->first,
		     tl->waiters ? tl->waiters->number : UINT64_MAX);
}

/* The caller references the timeline: a wake may drop all other references. */
static int put_on_list(struct weir__timeline *tl, struct weir__waiter *waiter)
{
	uint64_t number = waiter->number, ticket;
	struct weir__waiter *w;
	int state;

	pthread_mutex_lock(&tl->lock);
	waiter_insert(tl, waiter);
	ticket = waiter->ticket = ++tl->tickets;
	note_first(tl);
	pthread_mutex_unlock(&tl->lock);
	/*
	 * Ask after the waiter is on the list: a completion in between finds
	 * it.
	 */
	state = tl->ops->state(tl, number, NULL);
	if (state == 0)
		return 0;
	/*
	 * It may have been woken meanwhile, freed, and its memory used for
	 * another waiter: it is still ours if it is on the list with our
	 * ticket.
	 */
	pthread_mutex_lock(&tl->lock);
	for (w = tl->waiters; w && w->number <= number; w = w->next)
		if (w == waiter && w->ticket == ticket)
			break;
	if (w && w->number <= number)
		waiter_remove(tl, w);
	else
		state = 0;
	note_first(tl);
	pthread_mutex_unlock(&tl->lock);
	return state;
}

int weir__timeline_wait(struct weir__timeline *tl, struct weir__waiter *waiter)
{
	int state;

	weir__timeline_ref(tl);
	state = put_on_list(tl, waiter);
	weir__timeline_put(tl);
	return state;
}

bool weir__timeline_unwait(struct weir__timeline *tl,
			   struct weir__waiter *waiter)
{
	bool mine;

	pthread_mutex_lock(&tl->lock);
	mine = waiter->link != NULL;
	if (mine) {
		waiter_remove(tl, waiter);
		note_first(tl);
	}
	pthread_mutex_unlock(&tl->lock);
	return mine;
}

/* Remove the waiters of numbers in [lo, hi]; returns them as a chain. */
static struct weir__waiter *waiters_detach(struct weir__timeline *tl,
					   uint64_t lo, uint64_t hi)
{
	struct weir__waiter *chain = NULL, **tail = &chain, *w, *next;

	pthread_mutex_lock(&tl->lock);
	for (w = tl->waiters; w && w->number <= hi; w = next) {
		next = w->next;
		if (w->number < lo)
			continue;
		waiter_remove(tl, w);
		w->next = NULL;
		*tail = w;
		tail = &w->next;
	}
	note_first(tl);
	pthread_mutex_unlock(&tl->lock);
	return chain;
}

static void run_wakes(struct weir__waiter *chain)
{
	struct weir__waiter *w;

	if (!chain)
		return;
	if (!waking.head)
		waking.tail = &waking.head;
	*waking.tail = chain;
	while (*waking.tail)
		waking.tail = &(*waking.tail)->next;
	if (waking.running)
		return;
	waking.running = true;
	while ((w = waking.head)) {
		/* The waiter may be gone when wake returns. */
		waking.head = w->next;
		if (!waking.head)
			waking.tail = &waking.head;
		w->wake(w);
	}
	waking.running = false;
}

void weir__timeline_changed(struct weir__timeline *tl)
{
	if (!atomic_load(&tl->change_waiters))
		return;
	atomic_fetch_add(&tl->changes, 1);
	weir__futex_wake(&tl->changes, INT32_MAX);
}

/* note_first() explains the order of memory accesses. */
void weir__timeline_complete(struct weir__timeline *tl, uint64_t number)
{
	weir__timeline_changed(tl);
	if (atomic_load(&tl->first) <= number)
		run_wakes(waiters_detach(tl, 0, number));
}

void weir__timeline_complete_one(struct weir__timeline *tl, uint64_t number)
{
	weir__timeline_changed(tl);
	if (atomic_load(&tl->first) <= number)
		run_wakes(waiters_detach(tl, number, number));
}

struct blocker {
	struct weir__waiter waiter;
	_Atomic uint32_t woken;
};

static void wake_blocker(struct weir__waiter *waiter)
{
	struct blocker *b = (struct blocker *)waiter;

	/* After the store the blocked thread may return and *b may be gone; a
	 * futex wake of an address that is no futex does no harm. */
	atomic_store(&b->woken, 1);
	weir__futex_wake(&b->woken, 1);
}

/* Returns the state of @number; a failure becomes this thread's error. */
static int number_state(struct weir__timeline *tl, uint64_t number)
{
	struct weir_failure cause;
	int state = tl->ops->state(tl, number, &cause);

	if (state < 0)
		return weir__fail_with(&cause);
	return state;
}

int weir__timeline_block(struct weir__timeline *tl, uint64_t number,
			 int64_t timeout_ns)
{
	struct blocker b = { .waiter = { .number = number,
					 .wake = wake_blocker } };
	int64_t deadline = weir__deadline(timeout_ns);
	int state = number_state(tl, number);

	weir__unwaited = 0;
	while (state == 0) {
		if (timeout_ns == 0 || weir__now() >= deadline)
			return weir__fail(-ETIMEDOUT, "not done within %lld ns",
					  (long long)timeout_ns);
		atomic_store(&b.woken, 0);
		if (weir__timeline_wait(tl, &b.waiter) == 0) {
			while (!atomic_load(&b.woken))
				if (weir__futex_wait(&b.woken, 0, deadline) ==
					    -ETIMEDOUT &&
				    weir__timeline_unwait(tl, &b.waiter))
					break;
		}
		state = number_state(tl, number);
	}
	if (tl->weir->observer)
		tl->weir->observer->waited(tl, number);
	return state < 0 ? state : 0;
}
