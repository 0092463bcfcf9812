/* SPDX-License-Identifier: MIT */
/*
 * The ownership of an object that has a thread of its own: one word says which
 * thread owns the object, and whether the owner has been notified of changes.
 * Only the owner may access the object's private members. The thread owns the
 * object while it is awake, and releases it to sleep. Then another thread may
 * wake it, or become the owner itself for a short time: a borrower, which does
 * the thread's work and saves two switches between threads.
 *
 *	THREAD -> NONE		release: the thread is about to sleep; only if
 *				it is not notified
 *	NONE -> THREAD		acquire: the thread has woken by itself; or
 *				notify: the caller must wake it
 *	NONE -> BORROWER	notify_or_borrow
 *	BORROWER -> NONE	give_back; only if it is not notified
 *	BORROWER -> WANTED	acquire: the thread has woken, and waits
 *	BORROWER, WANTED -> THREAD
 *				give_back: the thread waits for it, or the
 *				borrower leaves it something to do
 *
 * NOTIFIED is a flag beside the state. Notifying sets it; the owner clears it
 * before it examines the changes that other threads have published. With the
 * state NONE it is set only until a thread, which may be the one that set it,
 * has become the owner.
 *
 * Why one word. With the state in one word and the changes (a list, a counter)
 * in another, this order loses a wakeup:
 *
 *	the thread				another thread
 *	finds the list empty
 *						adds to the list
 *						finds the thread awake: does
 *						not wake it
 *	state = NONE, sleeps
 *
 * Each side writes one word and then reads the other, so both would need
 * sequentially consistent operations, and the thread would have to examine the
 * list again after the release. With one word the release is a compare-and-swap
 * from THREAD without NOTIFIED. It fails if the other thread set NOTIFIED
 * before it; if it succeeds, the other thread's change comes later and finds
 * NONE.
 *
 * Memory order. Every change of the word is an atomic read-modify-write, so
 * each continues the release sequence of the ones before it.
 *  - Notifying is a release, take_notifications an acquire: the owner that
 *    clears the flag sees what was written before it was set. A notification
 *    that comes later sets it again, and release and give_back refuse.
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
	WEIR__OWNER_THREAD, /* a zeroed word: owned by the thread, not
			       notified */
	WEIR__OWNER_NONE,
	WEIR__OWNER_BORROWER,
	WEIR__OWNER_WANTED,    /* a borrower owns it, the thread waits */
	WEIR__OWNER_STATE = 3, /* mask */
	WEIR__OWNER_NOTIFIED = 4
};

struct weir__owner {
	_Atomic uint32_t word; /* also a futex: the thread waits in WANTED */
};

/*
 * Called by any thread after it has published a change. Returns true if nobody
 * owned the object: the owner is now @if_none, THREAD or BORROWER.
 */
static inline bool weir__owner_notify_for(struct weir__owner *o,
					  uint32_t if_none)
{
	uint32_t none = WEIR__OWNER_NONE | WEIR__OWNER_NOTIFIED;

	atomic_fetch_or_explicit(&o->word, WEIR__OWNER_NOTIFIED,
				 memory_order_release);
	/* The load reads that word or, if a thread was faster, a later one. */
	return atomic_load_explicit(&o->word, memory_order_relaxed) == none &&
	       atomic_compare_exchange_strong_explicit(
		       &o->word, &none, if_none | WEIR__OWNER_NOTIFIED,
		       memory_order_acq_rel, memory_order_relaxed);
}

/* Returns true if the thread sleeps, and now owns the object: wake it. */
static inline bool weir__owner_notify(struct weir__owner *o)
{
	return weir__owner_notify_for(o, WEIR__OWNER_THREAD);
}

/*
 * Returns true if the caller is now the borrower, and must give the object
 * back.
 */
static inline bool weir__owner_notify_or_borrow(struct weir__owner *o)
{
	return weir__owner_notify_for(o, WEIR__OWNER_BORROWER);
}

/*
 * The owner calls it before it examines published changes. False: it was not
 * notified.
 */
bool weir__owner_take_notifications(struct weir__owner *o);
static inline bool weir__owner_is_notified(const struct weir__owner *o)
{
	return atomic_load_explicit(&o->word, memory_order_relaxed) &
	       WEIR__OWNER_NOTIFIED;
}
/* True if the owner, which calls this, is a borrower. */
static inline bool weir__owner_is_borrowed(const struct weir__owner *o)
{
	return (atomic_load_explicit(&o->word, memory_order_relaxed) &
		WEIR__OWNER_STATE) != WEIR__OWNER_THREAD;
}

/*
 * The thread calls it before it sleeps. False: it was notified, and still owns
 * the object.
 */
bool weir__owner_release(struct weir__owner *o);
/*
 * The thread calls it after it has slept. Blocks while a borrower owns the
 * object.
 */
void weir__owner_acquire(struct weir__owner *o);

enum weir__owner_given {
	WEIR__OWNER_KEPT,  /* it was notified: the borrower still owns it */
	WEIR__OWNER_GIVEN, /* nobody owns it, or the thread that waited does */
	WEIR__OWNER_WAKE   /* the thread owns it, and sleeps: wake it */
};
/* The borrower calls it. @to_thread: some work only the thread may do. */
enum weir__owner_given weir__owner_give_back(struct weir__owner *o,
					     bool to_thread);

#endif
