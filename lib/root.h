/* SPDX-License-Identifier: MIT */
/*
 * The root object: what every other object hangs on.
 *
 * The root holds one slot for each part of the library (struct weir__part);
 * a part is made by the first call that needs it and closed by weir_close in
 * the order of the enum, so that nothing is closed before its users. lib/
 * knows the slots, not the parts: lib/io and lib/stream put theirs in.
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

#include "backend.h"

enum weir__part_id {       /* in the order of closing */
	WEIR__PART_STREAM, /* the watcher, streams that are left */
	WEIR__PART_IO,     /* reactors, copiers, slots */
	WEIR__PART_ALLOC,  /* kept arenas */
	WEIR__PARTS
};

struct weir__part {
	/*
	 * Drain until @deadline (CLOCK_MONOTONIC ns), then stop. Required. 0,
	 * or -ETIMEDOUT: something was leaked, and the log told.
	 */
	int (*close)(struct weir__part *part, int64_t deadline);
	/* Give memory back until at most @keep stays; returns what is kept. */
	size_t (*trim)(struct weir__part *part, size_t keep);
	/* The last reference to the root is gone: free the part. Required. */
	void (*free)(struct weir__part *part);
};

struct weir_buft {
	struct weir_dev *dev;
	struct weir__buft_desc desc;
};

struct weir_dev {
	struct weir *weir;
	const struct weir__backend *backend;
	const char *module; /* path, or NULL */
	unsigned index;     /* among the backend's devices */
	struct weir__dev_desc desc;
	struct weir_buft buft[WEIR__MAX_BUFTS];
	pthread_mutex_t lock;  /* guards state and params */
	_Atomic(void *) state; /* the backend's, from dev_open */
	bool opened;
	char params[256];
};

struct weir {
	_Atomic uint32_t refs;
	_Atomic bool closed;
	struct weir_opts opts; /* as given, defaults filled in */
	char *module_path;
	char *debug; /* WEIR_DEBUG, or NULL: debug.h */
	struct weir__host host;
	_Atomic uint32_t *alive; /* a page that fork wipes to 0 */
	pid_t owner;             /* where no page can be: asked instead */

	/* Recursive: a part may need another while it is made. Guards part[],
	 * closing, and devices being added. */
	pthread_mutex_t lock;
	_Atomic(struct weir__part *) part[WEIR__PARTS];

	_Atomic unsigned n_devs; /* dev[0..n) do not change any more */
	struct weir_dev *dev[4 * WEIR__MAX_DEVS];
	pthread_mutex_t module_lock;   /* guards what follows */
	bool scanned;                  /* the directories have been searched */
	struct weir__module *modules;  /* loaded, newest first */
	struct weir__refused *refused; /* by the search, in its order */
	_Atomic(struct weir__trace *) trace;
	uint32_t traces; /* begun so far */
	/* Read: noting spans; write: beginning, ending, and traces. */
	pthread_rwlock_t trace_lock;
};

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

/* Open the device's state if that has not happened (lazily). */
int weir__dev_use(struct weir_dev *dev);
/*
 * What a call of the backend gave, as the library passes it on: a number that
 * is neither 0 nor an errno becomes -EIO. @what names the call in a sentence.
 */
int weir__dev_result(const struct weir_dev *dev, const char *what, int r);
/*
 * Can copies of @dev have an end in memory of @other? 1: yes; 0: its backend
 * does not do that; < 0 with a sentence.
 */
int weir__dev_reach(struct weir_dev *dev, struct weir_dev *other);
/* " (the device's own words)" for @native, or ""; a ring of buffers. */
const char *weir__dev_words(const struct weir_dev *dev, int32_t native);
/* host.c: what struct weir__host says of devices and host memory. */
struct weir *weir__dev_root(struct weir_dev *dev);
void *weir__dev_state(struct weir_dev *dev);
const char *weir__dev_name(struct weir_dev *dev);
int weir__host_take(struct weir *weir, size_t bytes,
		    const struct weir_buf_opts *opts, struct weir__mem *mem);
void weir__host_give(struct weir *weir, size_t bytes, struct weir__mem *mem);
void weir__host_leak(struct weir *weir, struct weir__mem *mem);

/* @timeout_ns (-1: for ever) from now; INT64_MAX for ever. */
int64_t weir__deadline(int64_t timeout_ns);

/* The built-in backend, and adding one. */
extern const struct weir__backend weir__cpu_backend;
int weir__registry_add(struct weir *weir, const struct weir__backend *backend,
		       const char *module);
/* One device of @beside's backend more: struct weir__host. */
int weir__registry_beside(struct weir_dev *beside,
			  const struct weir__dev_desc *desc, unsigned i);
/* -EPROTO, -EBADMSG with a sentence: its tables cannot be used. */
int weir__backend_check(const struct weir__backend *backend);
/*
 * Search the directories for modules, once for each root: at the first call
 * that asks for more than the built-in devices. A module that fails tells the
 * log, and weir_module_refused.
 */
void weir__modules_scan(struct weir *weir);
/* "; weir-x.so was left out: why", for each that the search has refused. */
void weir__modules_why(struct weir *weir, char *text, size_t room);
void weir__modules_free(struct weir *weir);

#endif
