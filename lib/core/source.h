/* SPDX-License-Identifier: MIT */
/*
 * Sources of events, and who waits for them.
 *
 * An event is (source, number). A source is a stream (numbers of operations,
 * completed in order) or a load (numbers of tensors, in any order). It answers
 * whether a number is done, and wakes waiters when one stops being "not yet".
 *
 * A waiter hangs on its source's list from weir__source_wait() until it is
 * woken or taken back. Waking calls waiter->wake once, on the thread that
 * completed the number, with no lock of ours held; wakes that follow from a
 * wake are queued on that thread and run after it returns, so chains of
 * streams do not nest. A wake may not block.
 */
#ifndef WEIR__SOURCE_H
#define WEIR__SOURCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/base.h>

struct weir__queue_ops;
struct weir__source;

struct weir__source_ops {
	size_t size;
	/*
	 * 1: done, 0: not yet, < 0: failed, and then *@cause if not NULL.
	 * Required. Never blocks; any thread; never called with src->lock held.
	 */
	int (*state)(struct weir__source *src, uint64_t number,
		     struct weir_failure *cause);
	/* The last reference is gone. Required. May not block. */
	void (*free)(struct weir__source *src);
	/*
	 * The backend whose queues, those of the I/O engine, have been given
	 * every copy that @number needs; NULL: not yet, or other work too.
	 * Optional. Never blocks.
	 */
	const struct weir__queue_ops *(*copies_in_driver)(
		struct weir__source *src, uint64_t number);
};

struct weir__waiter {
	struct weir__waiter *next;  /* by number, or to wake; first member */
	struct weir__waiter **link; /* NULL: on no list */
	uint64_t number;
	uint64_t ticket; /* of its turn on the list */
	void (*wake)(struct weir__waiter *waiter);
};

struct weir__source {
	const struct weir__source_ops *ops;
	struct weir *weir; /* held from init to fini */
	_Atomic uint32_t refs;
	pthread_mutex_t lock;         /* guards waiters, tail, tickets */
	struct weir__waiter *waiters; /* sorted by number */
	struct weir__waiter **tail;   /* next of the last one */
	uint64_t tickets;             /* given out */
	_Atomic uint64_t first; /* lowest number waited for, or UINT64_MAX */
	_Atomic uint32_t
		change_waiters; /* threads that look at it at each change */
	_Atomic uint32_t
		changes; /* a futex; counts if there are change_waiters */
};

void weir__source_init(struct weir__source *src,
		       const struct weir__source_ops *ops, struct weir *weir);
void weir__source_fini(struct weir__source *src);
struct weir__source *weir__source_ref(struct weir__source *src);
void weir__source_put(struct weir__source *src);

/*
 * Put @waiter on the list. 1 or < 0: the number was no longer "not yet", and
 * the waiter is not on the list and will not be woken; 0: it will be, or has
 * been, and is not touched any more. The source stays during the call, also if
 * the waiter that is woken meanwhile held its last reference; so this may free
 * it, and no lock is held that ops->free takes.
 */
int weir__source_wait(struct weir__source *src, struct weir__waiter *waiter);
/* Take it back. False: it is being woken, or has been. */
bool weir__source_unwait(struct weir__source *src, struct weir__waiter *waiter);

/*
 * Wake all waiters whose number is at most @number (a stream). The new state
 * has been published by a sequentially consistent store, or under a lock that
 * ops->state takes too: so no waiter is missed. No lock is held.
 */
void weir__source_complete(struct weir__source *src, uint64_t number);
/* Wake the waiters of exactly @number (a tensor of a load). */
void weir__source_complete_one(struct weir__source *src, uint64_t number);

/*
 * For a thread that waits for more than a number: it is a looker from begin to
 * end, and sleeps by weir__futex_wait(&src->changes) on the value that it read
 * before it looked. Whatever completes is a change; others are told of here.
 */
void weir__source_changed(struct weir__source *src);

/*
 * Block this thread until @number is done or failed. 0, -ETIMEDOUT, or the
 * failure's errno, which becomes this thread's error. @timeout_ns as in
 * weir_event_wait.
 */
int weir__source_block(struct weir__source *src, uint64_t number,
		       int64_t timeout_ns);

#endif
