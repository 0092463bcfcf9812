/* SPDX-License-Identifier: MIT */
/*
 * The part of a reactor that any thread may use: its inbox, its owner, and how
 * its thread is woken. Members that only the owner may access are in struct
 * weir__loop (loop.h), which is included only by files that run as owner.
 */
#ifndef WEIR__IO_REACTOR_H
#define WEIR__IO_REACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dev/reclaim.h"
#include "io/engine.h"
#include "io/owner.h"
#include "io/wakefd.h"

struct weir__engine;
struct weir__slots;

#define WEIR__MAX_QUEUES 16u

struct weir__copy_queue { /* from one reactor to one device */
	struct weir_dev *dev;
	void *queue;                  /* submit and poll: the reactor's owner */
	struct weir__slots *pinned;   /* the device has locked them, or NULL */
	struct weir__reclaimed unpin; /* when the engine closes: queues.c */
	_Atomic uint32_t out;         /* works submitted and not done */
};

struct weir__reactor {
	/* Constant. */
	struct weir__engine *eng;
	unsigned index;
	struct weir__slots *slots; /* slots.h says which calls need the owner */

	/* Used by the thread that starts and closes the engine. */
	pthread_t thread;
	bool started;

	_Alignas(64) struct weir__owner owner;
	_Atomic(struct weir__msg *) inbox; /* a stack, newest first */
	struct weir__wakefd wakefd;
	_Atomic bool trim; /* a request: give the pages of free slots back */

	/* Added by queues.c; an entry is complete before n_queues counts it. */
	_Alignas(64) struct weir__copy_queue queue[WEIR__MAX_QUEUES];
	_Atomic unsigned n_queues;

	/* Read by weir_io_info, written by the owner. */
	_Atomic uint32_t io;       /* enum weir_io */
	_Atomic uint32_t features; /* WEIR_IO_HAS_* */
	_Atomic uint64_t enters;   /* how often the ring was entered */
};

/*
 * loop.c. Make a reactor whose thread does not run yet. -errno with a sentence.
 */
int weir__reactor_new(struct weir__engine *eng, unsigned index,
		      struct weir__reactor **ret_reactor);
int weir__reactor_start(struct weir__reactor *r);
/* Free a reactor whose thread has ended, or was never started. Takes NULL. */
void weir__reactor_free(struct weir__reactor *r);

/* Pass @msg to the owner's next iteration. Any thread; never blocks. */
void weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg);
/*
 * The same. Returns true if nobody owned the reactor and the caller is now its
 * borrower, which must run the loop until weir__owner_give_back() accepts it.
 */
bool weir__reactor_post_or_borrow(struct weir__reactor *r,
				  struct weir__msg *msg);
/* Make the owner examine deferred chunks again. Any thread; never blocks. */
void weir__reactor_wake(struct weir__reactor *r);
void weir__reactors_wake(struct weir__engine *eng); /* all of them */

/* Returns NULL if no queue to @dev has been opened. */
static inline struct weir__copy_queue *
weir__reactor_queue(struct weir__reactor *r, const struct weir_dev *dev)
{
	unsigned n = atomic_load_explicit(&r->n_queues, memory_order_acquire);

	for (struct weir__copy_queue *q = r->queue; q < r->queue + n; q++)
		if (q->dev == dev)
			return q;
	return NULL;
}

/* Take all messages since the last call, oldest first. Owner only. */
struct weir__msg *weir__reactor_take_messages(struct weir__reactor *r);
/*
 * The thread calls it before it sleeps. True if the reactor has a new eventfd,
 * so that a queued read of the old one is useless.
 */
bool weir__reactor_check_wakefd(struct weir__reactor *r);
/*
 * How long the thread may sleep, ns. It then checks whether a wakeup was lost.
 */
int64_t weir__reactor_max_sleep(struct weir__reactor *r);

#endif
