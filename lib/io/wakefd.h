/* SPDX-License-Identifier: MIT */
/*
 * The eventfd that wakes a thread. The program may close it, as daemons close
 * all descriptors, and may have opened another file under its number since: so
 * each call checks the number before it writes or reads. Another eventfd under
 * that number is not noticed, since all of them share one inode.
 */
#ifndef WEIR__IO_WAKEFD_H
#define WEIR__IO_WAKEFD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weir__wakefd {
	_Atomic int fd;
	_Atomic uint64_t file_id;
	/*
	 * The last signal may not have arrived. The thread looks for news by
	 * itself every few milliseconds, until it has a new eventfd.
	 */
	_Atomic bool wakeup_lost;
};

/* -errno of eventfd(2) or fstat(2). */
int weir__wakefd_open(struct weir__wakefd *w);
/*
 * A sentence for it: "WHAT: eventfd", and the limit that was reached. Returns
 * weir__cause_errno(@err).
 */
int weir__wakefd_fail(int err, const char *what);
void weir__wakefd_close(struct weir__wakefd *w);
/* Any thread: make it readable. False: the signal is lost. */
bool weir__wakefd_signal(struct weir__wakefd *w);

/* The rest is for the thread that it wakes. */
/* Make it unreadable again. */
void weir__wakefd_drain(struct weir__wakefd *w);
/* A signal may have been lost, as when a failed ring still reads the fd. */
void weir__wakefd_distrust(struct weir__wakefd *w);
static inline bool weir__wakefd_is_lost(struct weir__wakefd *w)
{
	return atomic_load(&w->wakeup_lost);
}

enum weir__wakefd_check {
	WEIR__WAKEFD_SAME,
	WEIR__WAKEFD_RENEWED, /* a signal may have been lost: a new eventfd */
	WEIR__WAKEFD_REPLACED /* the program had closed it: a new one, too */
};
/*
 * Before it sleeps. A queued read of the old eventfd is useless if there is a
 * new one.
 */
enum weir__wakefd_check weir__wakefd_check(struct weir__wakefd *w);

#endif
