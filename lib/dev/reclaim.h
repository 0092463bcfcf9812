/* SPDX-License-Identifier: MIT */
/*
 * Memory that is freed later, by a thread of its device. To free memory of a
 * GPU, or to unlock pages of the host, waits for all work of the device, also
 * for work of the program that the library knows nothing of: so it must not
 * happen on a thread that others wait for.
 */
#ifndef WEIR__RECLAIM_H
#define WEIR__RECLAIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time in ns that freeing gets to end, even if weir_close() has less left. */
#define WEIR__RECLAIM_NS 1000000000

struct weir;
struct weir_dev;

/* Memory to be freed; a member of the object that has the memory. */
struct weir__reclaimed {
	struct weir__reclaimed *next;
	size_t bytes; /* 0: a leak of it is not reported */
	/*
	 * Free the memory. May block until the device has done its work; calls
	 * nothing that waits for another thread of the program.
	 */
	void (*free)(struct weir__reclaimed *x);
	/*
	 * Called when the memory is freed: the rest of the work. It may free
	 * @x.
	 */
	void (*after)(struct weir__reclaimed *x);
};

/*
 * One for each device. The thread is started by the first memory, and ends in
 * weir_close().
 *
 *	(in use) --> on first --> freed --> on freed_first --> after was called
 *		 weir__reclaim  the thread,		     the thread
 *				or weir__reclaim_now
 */
struct weir__reclaim {
	_Atomic unsigned n_freed; /* calls of free() that have returned */
	pthread_mutex_t lock;     /* guards what follows; taken last */
	pthread_cond_t changed;   /* signalled at each change of what follows */
	struct weir__reclaimed *first, **end;
	struct weir__reclaimed *freed_first, **freed_end;
	unsigned n_freeing;    /* calls of free() that run now */
	unsigned n_unfinished; /* memory for which after() has not returned */
	size_t bytes;          /* memory for which free() has not returned */
	bool started;          /* the thread was started */
	bool stopped;          /* the thread has ended: callers free memory */
	bool abandoned;        /* nothing is freed any more */
	pthread_t thread;
};

void weir__reclaim_init(struct weir__reclaim *rc);
/* The thread has ended, or never started. */
void weir__reclaim_fini(struct weir__reclaim *rc);

/*
 * Free @x on the thread of @dev. Any thread; does not block, except where no
 * thread can be started, and after weir_close(): then @x is freed at once. If
 * weir_close() has given up freeing, @x is leaked.
 */
void weir__reclaim(struct weir_dev *dev, struct weir__reclaimed *x);

/*
 * Memory that was freed may still wait for its device. So an allocation that
 * fails is repeated after weir__reclaim_now():
 *
 *	unsigned before = weir__reclaim_count(weir);
 *
 *	r = allocate();
 *	if (r == -ENOMEM && weir__reclaim_now(weir, of, before))
 *		r = allocate();
 *
 * weir__reclaim_now() frees, on the calling thread, the memory that waits: of
 * the GPU of @of; or of all devices if @of is NULL, when host memory is short.
 * It blocks until that memory is free. It returns false if nothing was freed
 * since @before: then it is useless to allocate again. The caller may hold
 * locks that no free() takes.
 */
unsigned weir__reclaim_count(const struct weir *weir);
bool weir__reclaim_now(struct weir *weir, const struct weir_dev *of,
		       unsigned before);

/*
 * Wait until all memory of @dev is freed, or give up at @deadline: what is left
 * is then leaked, with a line to the log. -ETIMEDOUT: it was given up, now or
 * earlier.
 */
int weir__reclaim_wait(struct weir_dev *dev, int64_t deadline);
/* Wait in the same way, and end the thread. */
int weir__reclaim_close(struct weir_dev *dev, int64_t deadline);

#endif
