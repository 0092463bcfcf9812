/* SPDX-License-Identifier: MIT */
/*
 * The root object, which every other object references.
 *
 * The root has one entry for each part of the library (struct weir__part). A
 * part is made by the first call that needs it, and weir_close() closes the
 * parts in the order of the enum: each before those that it uses. lib/core does
 * not know the parts; dev, alloc, io and stream make them.
 *
 * The public handle and every object made from the root reference it.
 * weir_close() closes the parts and drops the reference of the handle; the last
 * reference frees the parts and the root. After weir_close(), and in a child of
 * fork(2), weir__root_enter() fails.
 */
#ifndef WEIR__ROOT_H
#define WEIR__ROOT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <weir/base.h>

#include "core/cpus.h"

enum weir__part_id {       /* in the order of closing */
	WEIR__PART_HEAP,   /* which heaps there are */
	WEIR__PART_STREAM, /* the watcher, streams that are left */
	WEIR__PART_IO,     /* reactors, copiers, slots */
	WEIR__PART_COPIES, /* copies of objects, and threads for them */
	WEIR__PART_SOURCE, /* sources of bytes, and their modules */
	WEIR__PART_ALLOC,  /* kept arenas */
	WEIR__PART_DEV,    /* backends, devices, modules */
	WEIR__PARTS
};

struct weir__races;
struct weir__timeline_observer;
struct weir_buft;

struct weir__part {
	/*
	 * Drain until @deadline (CLOCK_MONOTONIC ns), then stop. Optional. What
	 * has not ended by then is leaked, and the log says so.
	 */
	void (*close)(struct weir__part *part, int64_t deadline);
	/*
	 * Free kept memory down to @keep bytes; return how many are left.
	 * Optional.
	 */
	size_t (*trim)(struct weir__part *part, size_t keep);
	/*
	 * An allocation of @bytes failed, in the kind of memory @buft or, if
	 * that is NULL, in host memory: give back memory that is not in use
	 * and counts there, at least @bytes if there is that much. Returns how
	 * many bytes were given back. May block, but calls no function of the
	 * program. Optional.
	 */
	uint64_t (*relieve)(struct weir__part *part,
			    const struct weir_buft *buft, uint64_t bytes);
	/* The last reference to the root is gone: free the part. Required. */
	void (*free)(struct weir__part *part);
};

struct weir {
	_Atomic uint32_t refs;
	_Atomic bool closed;
	struct weir_opts opts;        /* as given, defaults filled in */
	struct weir__cpu_set io_cpus; /* CPUs of the threads that move bytes */
	char *module_path;
	char *cache;             /* opts.cache, or WEIR_CACHE */
	char *debug;             /* the words of WEIR_DEBUG, or NULL */
	_Atomic uint32_t *alive; /* 1, and 0 in a child: fork wipes its page */
	pid_t owner_pid; /* compared where no page can be wiped; else 0 */

	/* Recursive: making a part may make another. Guards changes of part[],
	 * of closed, and of the list of devices. */
	pthread_mutex_t lock;
	_Atomic(struct weir__part *) part[WEIR__PARTS];

	_Atomic(struct weir__trace *) trace;
	uint32_t traces; /* how many were started */
	/*
	 * Work that writes to many buffers (mem/access.h). The lock guards
	 * first.
	 */
	struct weir__accesses_list {
		pthread_mutex_t lock;
		struct weir__accesses *first;
		_Atomic unsigned n;
	} accesses;
	/*
	 * How many times a buffer was parked (weir__buf_park). The lock is held
	 * for writing to mark a buffer as parked, and for reading while the
	 * library itself queues a copy that the program does not know of.
	 */
	struct weir__parks {
		pthread_rwlock_t lock;
		_Atomic uint64_t n;
	} parks;
	/*
	 * The race checker, and its functions. weir_open() sets both; NULL:
	 * off.
	 */
	struct weir__races *races;
	const struct weir__timeline_observer *observer;
	/*
	 * Locked for reading to record a span, for writing to start and stop.
	 */
	pthread_rwlock_t trace_lock;
};

/*
 * A root with the caller's options, checked and filled in, and without parts.
 * weir_open() is the only caller. -EINVAL, -ENOMEM with a sentence.
 */
int weir__root_new(const struct weir_opts *opts, struct weir **ret_weir);

struct weir *weir__root_ref(struct weir *weir);
void weir__root_put(struct weir *weir);

/*
 * False in a child after fork. There a call does nothing: the locks of the root
 * may be held by threads that the child does not have, and nothing is freed. A
 * call that cannot return an errno checks this before anything else.
 */
static inline bool weir__root_is_ours(const struct weir *weir)
{
	if (weir->owner_pid)
		return weir->owner_pid == getpid();
	return atomic_load_explicit(weir->alive, memory_order_relaxed);
}

/*
 * 0, or -EPERM in a child after fork. Calls that are allowed after weir_close()
 * begin with it.
 */
int weir__root_read(struct weir *weir);
/*
 * True if weir__root_enter() would return 0. False: weir__root_enter() knows,
 * and may still return 0.
 */
static inline bool weir__root_is_open(const struct weir *weir)
{
	return !weir->owner_pid &&
	       atomic_load_explicit(weir->alive, memory_order_relaxed) &&
	       !atomic_load_explicit(&weir->closed, memory_order_relaxed);
}

/* The part of weir__root_enter() for a root that may have to refuse. */
int weir__root_refuse(struct weir *weir) __attribute__((cold));
/* 0; -ESHUTDOWN after weir_close; -EPERM in a child after fork. */
static inline int weir__root_enter(struct weir *weir)
{
	return weir__root_is_open(weir) ? 0 : weir__root_refuse(weir);
}

/* Returns the part @id. The first call makes it by @make, under weir->lock. */
int weir__root_part(struct weir *weir, enum weir__part_id id,
		    int (*make)(struct weir *weir, struct weir__part **ret),
		    struct weir__part **ret_part);

/*
 * The environment variable WEIR_DEBUG: words, separated by commas, that change
 * how roots work, as in "io=sync,log". weir_open() reads it once; weir(7) lists
 * the words. Programs that run as set-user-ID ignore it (secure_getenv(3)).
 *
 * weir__debug_has() returns true if @word, such as "io=sync", is among them.
 * weir__debug_find() is for a root that has words.
 */
bool weir__debug_find(const struct weir *weir, const char *word);
static inline bool weir__debug_has(const struct weir *weir, const char *word)
{
	return weir->debug && weir__debug_find(weir, word);
}

/*
 * Call relieve() of all parts. The caller may hold locks that nobody takes who
 * frees memory.
 */
uint64_t weir__root_relieve(struct weir *weir, const struct weir_buft *buft,
			    uint64_t bytes);

/* Pass one line to weir_opts.log, if that is set. Any thread. */
void weir__log(struct weir *weir, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
