/* SPDX-License-Identifier: MIT */
/*
 * The eventfd that wakes a thread. The program may close it, as daemons close
 * all descriptors, and may since have opened another file under its number: so
 * each call checks the file of the number before it writes or reads. Another
 * eventfd under that number is not noticed, since all of them share one inode.
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
	 * The last signal may not have arrived. Until the thread has a new
	 * eventfd, it wakes by itself every few milliseconds.
	 */
	_Atomic bool wakeup_lost;
};

/* Make the eventfd. -errno of eventfd(2) or fstat(2). */
int weir__wakefd_open(struct weir__wakefd *w);
/*
 * Set the sentence of that -errno: "WHAT: eventfd", and the limit that was
 * reached. Returns weir__cause_errno(@err).
 */
int weir__wakefd_fail(int err, const char *what);
void weir__wakefd_close(struct weir__wakefd *w);
/* Make it readable. Any thread. Returns false if the signal is lost. */
bool weir__wakefd_signal(struct weir__wakefd *w);

/*
 * The other calls are for the thread that it wakes. Make it unreadable again.
 */
void weir__wakefd_drain(struct weir__wakefd *w);
/*
 * Note that a signal may have been lost, as when a failed ring still reads the
 * fd.
 */
void weir__wakefd_distrust(struct weir__wakefd *w);
static inline bool weir__wakefd_is_lost(struct weir__wakefd *w)
{
	return atomic_load(&w->wakeup_lost);
}

enum weir__wakefd_check {
	WEIR__WAKEFD_SAME,
	WEIR__WAKEFD_RENEWED, /* a signal may be lost: it is a new eventfd */
	WEIR__WAKEFD_REPLACED /* the program had closed it: it is a new one */
};
/*
 * Called before the thread sleeps. If there is a new eventfd, a queued read of
 * the old one is useless.
 */
enum weir__wakefd_check weir__wakefd_check(struct weir__wakefd *w);

#endif
