/* SPDX-License-Identifier: MIT */
/*
 * The completion queue of a load: its tensors, in the order in which they
 * arrive or fail. The threads that complete tensors add them, and those in
 * weir_load_next() take them.
 *
 * Entry k is the tensor that has ended after k others. A thread that completes
 * a tensor reserves the next entry, then writes the number into it. After the n
 * tensors comes entry n, the end of the load. Entries are taken in order, each
 * once: the thread that advances n_taken from k has taken entry k. The end is
 * not taken: it stays. No thread takes a lock.
 *
 * Threads sleep on @waiting, a futex. Its lowest bits say what an entry has to
 * wake, the others count wakes:
 *
 *	the taker	sets a bit of @waiting, then examines the next entry
 *	the completer	writes the entry, then examines @waiting
 *
 * All four accesses are sequentially consistent, so at least one of the two
 * sees what the other has written. The first completer that wakes clears
 * WAKE_SLEEPER, so one system call wakes for all entries until a thread sleeps
 * again. The count makes a thread that is about to sleep notice that.
 */
#ifndef WEIR__MODEL_COMPLETIONS_H
#define WEIR__MODEL_COMPLETIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/wakefd.h"

struct weir__completions {
	size_t n;              /* tensors of the load */
	_Atomic size_t *entry; /* n + 1; NOT_WRITTEN at first */
	/* Makes the descriptor, and sets and clears its readability. */
	pthread_mutex_t lock;
	struct weir__wakefd fd;
	_Atomic bool has_fd; /* written under the lock */
	bool readable;       /* guarded by the lock */
	/* Each in a line of the cache of its own: */
	char apart[64];
	_Atomic size_t n_ended; /* entries reserved; completers write it */
	char apart_too[64];
	_Atomic size_t n_taken; /* the next entry to take; takers write it */
	_Atomic uint32_t waiting;
};

/* @entry: room for @n + 1 entries, which belongs to the caller. */
void weir__completions_init(struct weir__completions *e, _Atomic size_t *entry,
			    size_t n);
void weir__completions_fini(struct weir__completions *e);

/*
 * Return how many tensors have ended. The caller sees what their completers did
 * before.
 */
static inline size_t weir__completions_count(struct weir__completions *e)
{
	return atomic_load(&e->n_ended);
}

/*
 * Add tensor @i, which has arrived or failed. Called once for each tensor, by
 * any thread.
 */
void weir__completions_add(struct weir__completions *e, size_t i);
/*
 * End the queue: all tensors have been added, and the load has ended. Called
 * once.
 */
void weir__completions_end(struct weir__completions *e);
/*
 * Take the next entry. 1: it is *@ret_i; 0: the load has ended; -ETIMEDOUT.
 * @timeout_ns as in weir_event_wait. Any thread; blocks.
 */
int weir__completions_take(struct weir__completions *e, int64_t timeout_ns,
			   size_t *ret_i);

/*
 * Return the descriptor, which the first call makes. It is readable while
 * weir__completions_take would not block. -EMFILE, -ENFILE, -ENOMEM. Any
 * thread.
 */
int weir__completions_fd(struct weir__completions *e);
/* Close the descriptor. Nobody asks for it any more. */
void weir__completions_close_fd(struct weir__completions *e);

#endif
