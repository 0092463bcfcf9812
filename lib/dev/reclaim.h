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

#include "core/error.h"

/* Time in ns that freeing gets to end, even if weir_close() has less left. */
#define WEIR__RECLAIM_NS 1000000000

struct weir;
struct weir_buft;
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
 *				or weir__shortage_again
 */
struct weir__reclaim {
	_Atomic unsigned n_moved; /* memory was freed, or a heap has grown */
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

/* Memory of @dev was freed, or has become a part of a heap. */
void weir__memory_moved(struct weir_dev *dev);

/*
 * An allocation that fails may succeed later: memory that was freed may still
 * wait for its device, and heaps may have memory that is not in use.
 *
 *	struct weir__shortage s;
 *
 *	weir__shortage_begin(&s, weir, buft, bytes);
 *	do
 *		r = allocate();
 *	while (weir__shortage_again(&s, r));
 *
 * @buft is the kind of memory, or NULL: host memory that is of no kind.
 * weir__shortage_again() returns true if allocate() failed with -ENOMEM and
 * memory was freed since: by others; or by this call, which first frees what
 * waits for its device, then what heaps do not use, @bytes, and then all of
 * that. It blocks until the memory is free. It does the last again while memory
 * is freed and heaps grow meanwhile: a heap may have grown into what was freed,
 * and have left what it used before. The caller may hold locks that
 * nobody takes who frees memory. If allocate() succeeds after a failure,
 * weir_error() is as it was.
 */
struct weir__shortage {
	struct weir *weir;
	const struct weir_buft *buft;
	uint64_t bytes;
	unsigned before; /* n_moved of all devices */
	unsigned rounds; /* attempts after all that is not in use was freed */
	enum {
		WEIR__SHORTAGE_FREED,  /* next: free what waits */
		WEIR__SHORTAGE_UNUSED, /* next: memory that is not in use */
		WEIR__SHORTAGE_ALL     /* next: all of that */
	} next;
	struct weir__error_saved saved;
};
void weir__shortage_begin(struct weir__shortage *s, struct weir *weir,
			  const struct weir_buft *buft, uint64_t bytes);
bool weir__shortage_again(struct weir__shortage *s, int r);
/*
 * True if @buft is memory of the same device as @other, or both are host
 * memory. NULL: host memory.
 */
bool weir__buft_shares(const struct weir_buft *buft,
		       const struct weir_buft *other);

/*
 * Wait until all memory of @dev is freed, or give up at @deadline: what is left
 * is then leaked, with a line to the log. -ETIMEDOUT: it was given up, now or
 * earlier.
 */
int weir__reclaim_wait(struct weir_dev *dev, int64_t deadline);
/* Wait in the same way, and end the thread. */
int weir__reclaim_close(struct weir_dev *dev, int64_t deadline);

#endif
