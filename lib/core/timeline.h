/* SPDX-License-Identifier: MIT */
/*
 * Timelines, and their waiters.
 *
 * An event is (timeline, number). A timeline belongs to a stream (numbers of
 * operations, completed in order) or a load (numbers of tensors, in any order).
 * It knows the state of each number (not yet, done or failed) and wakes the
 * waiters of a number when it is done or failed.
 *
 * A waiter is on its timeline's list from weir__timeline_wait() until it is
 * woken or removed. The thread that completes the number calls waiter->wake
 * once, with no lock of the library held. If a wake completes another number,
 * the wakes of that number are queued on the same thread and run after the
 * first one returns: a chain of streams does not recurse. A wake may not block.
 */
#ifndef WEIR__TIMELINE_H
#define WEIR__TIMELINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/base.h>

struct weir_backend_queue_ops;
struct weir__timeline;

struct weir__timeline_ops {
	size_t size;
	/*
	 * 1: done, 0: not yet, < 0: failed, with the reason in *@cause if that
	 * is not NULL. Required. Never blocks; any thread; never called with
	 * tl->lock held.
	 */
	int (*state)(struct weir__timeline *tl, uint64_t number,
		     struct weir_failure *cause);
	/* The last reference is gone. Required. May not block. */
	void (*free)(struct weir__timeline *tl);
	/*
	 * The queue table of a backend, if all that @number still needs is
	 * copies in queues of the I/O engine that are in that backend's driver
	 * already; NULL: something else is still to do. Optional. Never blocks.
	 */
	const struct weir_backend_queue_ops *(*copies_submitted)(
		struct weir__timeline *tl, uint64_t number);
};

struct weir__waiter {
	/*
	 * Next on the list, which is sorted by number, or in the chain of those
	 * that are woken. The first member.
	 */
	struct weir__waiter *next;
	struct weir__waiter **link; /* NULL: on no list */
	uint64_t number;
	/*
	 * Differs each time the waiter is added: a later one may have its
	 * address.
	 */
	uint64_t ticket;
	void (*wake)(struct weir__waiter *waiter);
};

struct weir__timeline {
	const struct weir__timeline_ops *ops;
	struct weir *weir; /* referenced from init to fini */
	_Atomic uint32_t refs;
	uint16_t actor;               /* number in the race checker; 0: none */
	pthread_mutex_t lock;         /* guards waiters, tail, tickets */
	struct weir__waiter *waiters; /* sorted by number */
	struct weir__waiter **tail;   /* next of the last one */
	uint64_t tickets;             /* ticket of the newest waiter */
	_Atomic uint64_t first; /* lowest number waited for, or UINT64_MAX */
	/* Threads that wait for any change, and a futex that counts changes
	 * while there are such threads. */
	_Atomic uint32_t change_waiters;
	_Atomic uint32_t changes;
};

/*
 * The functions by which lib/core informs the race checker, a layer above: the
 * observer of the root's timelines. All are required; any thread calls them;
 * none blocks.
 */
struct weir__timeline_observer {
	/* The program has waited for @number. The caller holds no lock. */
	void (*waited)(struct weir__timeline *tl, uint64_t number);
	/* @tl is being freed. */
	void (*gone)(struct weir__timeline *tl);
	/* The root is being freed. */
	void (*free)(struct weir *weir);
};

/*
 * Bytes that this thread has read for streams and loads by itself
 * (io/caller_read.h) since it last waited or asked for an event.
 */
extern _Thread_local uint64_t weir__unwaited;

void weir__timeline_init(struct weir__timeline *tl,
			 const struct weir__timeline_ops *ops,
			 struct weir *weir);
void weir__timeline_fini(struct weir__timeline *tl);
struct weir__timeline *weir__timeline_ref(struct weir__timeline *tl);
void weir__timeline_put(struct weir__timeline *tl);

/*
 * Put @waiter on the list. 0: it will be woken, or has been, and may be gone
 * when this returns. 1 or < 0, the state of the number: it is not on the list
 * and will not be woken.
 *
 * The call references the timeline meanwhile, since a waiter that is woken may
 * drop the last other reference. So it may call ops->free: the caller holds no
 * lock that ops->free takes.
 */
int weir__timeline_wait(struct weir__timeline *tl, struct weir__waiter *waiter);
/* Remove @waiter. False: it has been woken, or is being woken. */
bool weir__timeline_unwait(struct weir__timeline *tl,
			   struct weir__waiter *waiter);

/*
 * Wake all waiters whose number is at most @number (a stream). The caller has
 * published the new state, by a sequentially consistent store or under a lock
 * that ops->state takes too, and holds no lock.
 */
void weir__timeline_complete(struct weir__timeline *tl, uint64_t number);
/* Wake the waiters of @number only (a tensor of a load). */
void weir__timeline_complete_one(struct weir__timeline *tl, uint64_t number);

/*
 * Wake the threads that wait for any change of the timeline, not for a number.
 * A thread adds itself to tl->change_waiters, reads tl->changes, examines the
 * timeline, and sleeps by weir__futex_wait() on the value that it has read.
 * Each completion is a change; this announces the others.
 */
void weir__timeline_changed(struct weir__timeline *tl);

/*
 * Block this thread until @number is done or failed. 0, -ETIMEDOUT, or the
 * failure's errno, which becomes this thread's error. @timeout_ns as in
 * weir_event_wait.
 */
int weir__timeline_block(struct weir__timeline *tl, uint64_t number,
			 int64_t timeout_ns);

#endif
