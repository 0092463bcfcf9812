/* SPDX-License-Identifier: MIT */
/*
 * The reads of one or more jobs that end together, such as the jobs of a load:
 * how many are running, when bytes last arrived, and why no more are started.
 *
 * If some bytes cannot be read, as those of a bad block, their chunk fails, and
 * the other chunks are still read. The reads *end*, which means that no more
 * are started, if the next one would fail in the same way, perhaps after a long
 * time:
 *  - no byte arrived for read_timeout although reads were running;
 *  - the kernel says that the file or its device is gone, or cannot be read now
 *    (it was asked several times);
 *  - many reads have failed and none has succeeded since.
 *
 * Any thread, without a lock.
 */
#ifndef WEIR__IO_READS_H
#define WEIR__IO_READS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/outcome.h"

struct weir_file;

struct weir__reads {
	bool whole; /* one failure ends them: the other bytes would be
		       useless */

	_Atomic uint32_t running;
	_Atomic uint32_t failed; /* since bytes last arrived */
	/*
	 * The latest of: bytes arrived; a read began while none was running;
	 * the process went on after it had been stopped.
	 */
	_Atomic int64_t moved;

	/* The thread that sets @claimed writes the cause, then sets @ended. */
	_Atomic bool claimed, ended;
	struct weir__outcome cause;
	char why[240]; /* the cause's sentence, if it has one of its own */
	const struct weir_file *file; /* the one that could not be read */
};

/*
 * A read begins; bytes have arrived; a read ends. Times are those of the
 * reactor's clock, which may be max_sleep behind.
 */
void weir__reads_begin(struct weir__reads *r, int64_t now);
void weir__reads_moved(struct weir__reads *r, int64_t now);
static inline void weir__reads_end(struct weir__reads *r)
{
	atomic_fetch_sub_explicit(&r->running, 1, memory_order_relaxed);
}

/* Do not count the time until @now, in which the process was stopped. */
void weir__reads_wait_anew(struct weir__reads *r, int64_t now);

/* True if reads have been running for @limit ns and no byte has arrived. */
bool weir__reads_are_late(const struct weir__reads *r, int64_t now,
			  int64_t limit);

/*
 * A read has failed with @err. Returns true if the reads should therefore end.
 */
bool weir__reads_failed(struct weir__reads *r, int err);

/* End the reads: start no more. Returns false if they had ended already. */
bool weir__reads_stop(struct weir__reads *r, const struct weir_file *file,
		      const struct weir__outcome *cause);

static inline bool weir__reads_ended(const struct weir__reads *r)
{
	return atomic_load_explicit(&r->ended, memory_order_acquire);
}
/* Once they have ended: the outcome of a chunk that was not started. */
struct weir__outcome weir__reads_outcome(const struct weir__reads *r);

#endif
