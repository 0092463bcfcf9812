/* SPDX-License-Identifier: MIT */
/*
 * One word that says which thread owns an object (which has a thread of its
 * own), and whether there is news for the owner. Only the owner may access the
 * object's private members. The thread owns the object while it is awake, and
 * releases it to sleep. Then another thread may wake it, or become the owner
 * itself for a short time: a borrower, which does the work of the thread and
 * saves two switches between threads.
 *
 *	THREAD -> NONE		release: it is about to sleep; not with news
 *	NONE -> THREAD		acquire: it has woken by itself; or notify:
 *				the caller must wake it
 *	NONE -> BORROWER	notify_or_borrow
 *	BORROWER -> NONE	give_back; not with news
 *	BORROWER -> WANTED	acquire: the thread has woken, and waits
 *	BORROWER, WANTED -> THREAD	give_back: the thread wants it, or the
 *				borrower leaves it something to do
 *
 * NEWS is a flag beside the state. Notifying sets it, the owner clears it
 * before it looks at the changes that others have published. NONE has it only
 * until the thread that set it, or another, has made some thread the owner.
 *
 * Why one word. With the state in one word and the news (a list, a counter) in
 * another, this order loses a wakeup:
 *
 *	the thread				another thread
 *	finds the list empty
 *						adds to the list
 *						finds the thread awake: does
 *						not wake it
 *	state = NONE, sleeps
 *
 * Each side writes one word and then reads the other, so both would need
 * sequentially consistent operations, and the thread a second look after it
 * has released. With one word the thread's release is a compare-and-swap from
 * THREAD without NEWS. It fails if the other thread set NEWS before it; if it
 * succeeds, the other thread's change comes later and finds NONE.
 *
 * Memory order. Every change of the word is an atomic read-modify-write, so
 * each continues the release sequence of the ones before it.
 *  - Notifying is a release, take_news an acquire: the owner that clears a
 *    notification sees what was written before it. A notification that comes
 *    after take_news sets NEWS again, and release and give_back refuse.
 *  - release and give_back are releases; acquire, and becoming a borrower, are
 *    acquires: each owner sees all that earlier owners wrote.
 *  - A notification that makes the thread the owner is both: what it read from
 *    the last owner reaches the thread through the same word.
 */
#ifndef WEIR__IO_OWNER_H
#define WEIR__IO_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum weir__owner_state {
	WEIR__OWNER_THREAD, /* a zeroed word: owned by the thread, no news */
	WEIR__OWNER_NONE,
	WEIR__OWNER_BORROWER,
	WEIR__OWNER_WANTED,    /* a borrower owns it, the thread waits */
	WEIR__OWNER_STATE = 3, /* mask */
	WEIR__OWNER_NEWS = 4
};

struct weir__owner {
	_Atomic uint32_t word; /* also a futex: the thread waits in WANTED */
};

/*
 * Any thread, after it has published something. True: nobody owned the object,
 * and @if_none, THREAD or BORROWER, does now.
 */
static inline bool weir__owner_notify_for(struct weir__owner *o,
					  uint32_t if_none)
{
	uint32_t none = WEIR__OWNER_NONE | WEIR__OWNER_NEWS;

	atomic_fetch_or_explicit(&o->word, WEIR__OWNER_NEWS,
				 memory_order_release);
	/* Reads that word or a later one. Another thread may be faster. */
	return atomic_load_explicit(&o->word, memory_order_relaxed) == none &&
	       atomic_compare_exchange_strong_explicit(
		       &o->word, &none, if_none | WEIR__OWNER_NEWS,
		       memory_order_acq_rel, memory_order_relaxed);
}

/* True: the thread sleeps, and owns the object: the caller must wake it. */
static inline bool weir__owner_notify(struct weir__owner *o)
{
	return weir__owner_notify_for(o, WEIR__OWNER_THREAD);
}

/* True: the caller is the borrower now, and must give the object back. */
static inline bool weir__owner_notify_or_borrow(struct weir__owner *o)
{
	return weir__owner_notify_for(o, WEIR__OWNER_BORROWER);
}

/* The owner, before it looks at published changes. False: no news. */
bool weir__owner_take_news(struct weir__owner *o);
static inline bool weir__owner_has_news(const struct weir__owner *o)
{
	return atomic_load_explicit(&o->word, memory_order_relaxed) &
	       WEIR__OWNER_NEWS;
}
/* The owner: is it a borrower? */
static inline bool weir__owner_is_borrowed(const struct weir__owner *o)
{
	return (atomic_load_explicit(&o->word, memory_order_relaxed) &
		WEIR__OWNER_STATE) != WEIR__OWNER_THREAD;
}

/* The thread, before it sleeps. False: there is news, and it still owns it. */
bool weir__owner_release(struct weir__owner *o);
/* The thread, after it has slept. Blocks while a borrower owns the object. */
void weir__owner_acquire(struct weir__owner *o);

enum weir__owner_given {
	WEIR__OWNER_KEPT,  /* there is news: the borrower still owns it */
	WEIR__OWNER_GIVEN, /* nobody owns it, or the thread that waited */
	WEIR__OWNER_WAKE   /* the thread, which sleeps: wake it */
};
/* The borrower. @to_thread: there is work that only the thread may do. */
enum weir__owner_given weir__owner_give_back(struct weir__owner *o,
					     bool to_thread);

#endif
