/* SPDX-License-Identifier: MIT */
/*
 * The root object: what every other object hangs on.
 *
 * The root holds one slot for each part of the library (struct weir__part);
 * a part is made by the first call that needs it and closed by weir_close in
 * the order of the enum, so that nothing is closed before its users. lib/core
 * knows the slots, not the parts: dev, alloc, io and stream put theirs in.
 *
 * Lifetime: the public handle and every object made from the root hold a
 * reference. weir_close() closes the parts and drops the handle's reference;
 * memory goes with the last one. After weir_close, and in a child after
 * fork(2), weir__root_enter() refuses.
 */
#ifndef WEIR__ROOT_H
#define WEIR__ROOT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/base.h>

enum weir__part_id {       /* in the order of closing */
	WEIR__PART_STREAM, /* the watcher, streams that are left */
	WEIR__PART_IO,     /* reactors, copiers, slots */
	WEIR__PART_ALLOC,  /* kept arenas */
	WEIR__PART_DEV,    /* backends, devices, modules */
	WEIR__PARTS
};

struct weir__part {
	/*
	 * Drain until @deadline (CLOCK_MONOTONIC ns), then stop. Optional. 0,
	 * or -ETIMEDOUT: something was leaked, and the log says what.
	 */
	int (*close)(struct weir__part *part, int64_t deadline);
	/* Free cached memory down to @keep bytes; returns what is kept. Optional. */
	size_t (*trim)(struct weir__part *part, size_t keep);
	/* The last reference to the root is gone: free the part. Required. */
	void (*free)(struct weir__part *part);
};

struct weir {
	_Atomic uint32_t refs;
	_Atomic bool closed;
	struct weir_opts opts; /* as given, defaults filled in */
	char *module_path;
	char *debug;             /* WEIR_DEBUG, or NULL: debug.h */
	_Atomic uint32_t *alive; /* a page that fork wipes to 0 */
	pid_t owner_pid;         /* where no page can be: asked instead */

	/* Recursive: a part may need another while it is made. Guards part[],
	 * closing, and devices being added. */
	pthread_mutex_t lock;
	_Atomic(struct weir__part *) part[WEIR__PARTS];

	_Atomic(struct weir__trace *) trace;
	uint32_t traces; /* begun so far */
	/* Read: noting spans; write: beginning, ending, and traces. */
	pthread_rwlock_t trace_lock;
};

/*
 * A root with the caller's options, checked and filled in, and without parts.
 * weir_open() is the only caller. -EINVAL, -ENOMEM with a sentence.
 */
int weir__root_new(const struct weir_opts *opts, struct weir **ret_weir);

struct weir *weir__root_ref(struct weir *weir);
void weir__root_put(struct weir *weir);

/* 0; -ESHUTDOWN after weir_close; -EPERM in a child after fork. */
int weir__root_enter(struct weir *weir);
/* The same for what only reads: allowed after weir_close. */
int weir__root_read(struct weir *weir);
/*
 * False in a child after fork: nothing of the root is touched there, since
 * threads that are not there may hold its locks, and nothing is released. What
 * has no errno to return asks this before anything else.
 */
bool weir__root_is_ours(const struct weir *weir);

/*
 * The part @id, made by @make if it is not there yet (under weir->lock, once).
 */
int weir__root_part(struct weir *weir, enum weir__part_id id,
		    int (*make)(struct weir *weir, struct weir__part **ret),
		    struct weir__part **ret_part);

/* One line to the log sink; nothing without one. */
void weir__log(struct weir *weir, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
