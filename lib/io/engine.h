/* SPDX-License-Identifier: MIT */
/*
 * The I/O engine as the layers above see it: jobs of extents, cut into chunks,
 * and a function that is called for each chunk when its bytes are in place.
 *
 * A job belongs to its caller until weir__job_start() and again from
 * job->done() on, which is called exactly once and last. In between every
 * chunk is reported exactly once, also after a cancel.
 */
#ifndef WEIR__IO_ENGINE_H
#define WEIR__IO_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/outcome.h"
#include "io/file.h"
#include "io/pool.h"
#include "mem/buf.h"

#define WEIR__MAX_REACTORS 16u

struct weir__engine;
struct weir__job;
struct weir__refusal;
struct weir__touch;
struct weir__work;

/*
 * Bytes of one file that lie side by side in the file and in memory: host
 * memory, or that of @dev. @touch, if set, must have reached an address before
 * it is read to.
 */
struct weir__extent {
	struct weir_file *file; /* held by the job's owner */
	uint64_t off;
	uint64_t len; /* > 0 */
	unsigned char *addr;
	struct weir_dev *dev; /* NULL: host memory */
	/*
	 * Between two extents of the same room that follow each other in the
	 * job is memory of nobody's, which may be written. NULL: of none.
	 */
	const void *gap_group;
	struct weir__touch *touch; /* NULL: memory is touched already */
	bool buffered;             /* through the page cache */
	/* Set by weir__job_start: */
	/*
	 * If it is not 1: so many extents from this one on are one chunk, which
	 * goes to its device in pieces. 0: it is in such a chunk of another's.
	 */
	uint32_t n_merged;
	uint64_t block; /* in place: unit of offsets; 0: all staged */
	uint64_t first; /* number of its first chunk in the job */
};

struct weir__msg { /* what lies in a reactor's inbox */
	struct weir__msg *next;
	enum weir__msg_kind {
		WEIR__MSG_JOB, /* a struct weir__job_link: a new job */
		WEIR__MSG_OP   /* a struct weir__op that a pool has run */
	} kind;
};

struct weir__job_link { /* a job on one reactor's list */
	struct weir__msg msg;
	struct weir__job_link *next;
	struct weir__job *job;
	size_t ext;             /* where the last chunk was found */
	uint64_t deferred;      /* a chunk taken but not dealt, or -1 */
	struct weir_file *file; /* it is at, if fixed was asked for */
	int fixed;              /* its entry in the ring's table, or -1 */
};

/* How the bytes of a chunk came to where they are. */
enum weir__chunk_way {
	WEIR__CHUNK_IN_PLACE, /* read there */
	WEIR__CHUNK_STAGED,   /* read to a slot, copied */
	WEIR__CHUNK_BUFFERED  /* copied out of the page cache */
};

struct weir__job {
	/* Set by the caller: */
	struct weir__extent *ext;
	size_t n_ext;
	bool write;
	uint32_t depth; /* chunks in flight at most, 0: engine's */
	/*
	 * Bytes [lo, hi) of extent @ext have arrived, or failed as @outcome
	 * says. On a thread of the engine; short.
	 */
	void (*chunk_done)(struct weir__job *job, size_t ext, uint64_t lo,
			   uint64_t hi, const struct weir__outcome *outcome,
			   enum weir__chunk_way way);
	void (*done)(struct weir__job *job);
	/*
	 * The copy of these bytes to a device is with its driver; the chunk is
	 * told later. Optional; it is not called for each. As chunk otherwise.
	 */
	void (*chunk_in_driver)(struct weir__job *job, size_t ext, uint64_t lo,
				uint64_t hi);
	/*
	 * Take the copy of a chunk between its slot and a device, for a queue
	 * of the caller's: work->done is called there. Optional: NULL, it goes
	 * to the engine's. On a thread of the engine; may not block.
	 */
	void (*submit_copy)(struct weir__job *job, struct weir__work *work);
	void *arg;

	/* Set by the engine before done: the kernel may still write. */
	_Atomic bool leaked;

	/* Set by anybody, at any time: */
	_Atomic bool cancelled;

	/* The engine's: */
	struct weir__engine *eng;
	struct weir__segment
		*segment; /* for each extent; NULL: none together */
	struct weir__job *next_unready;
	struct weir__refusal *refusals; /* devices that have no queue */
	uint64_t n_chunks;
	_Atomic uint64_t cursor;    /* next chunk to be dealt */
	_Atomic uint64_t remaining; /* chunks and links not finished */
	_Atomic uint32_t out;       /* chunks in flight */
	_Atomic int64_t
		moved; /* when bytes of it came last, by a reactor's clock */
	struct weir__job_link link[WEIR__MAX_REACTORS];

	/* What happened, for reports; read after done: */
	_Atomic uint64_t over_read; /* to fill whole blocks */
	_Atomic uint64_t retries;
	_Atomic uint32_t fallbacks;
};

/* The root's engine, started at the first call. */
int weir__engine_get(struct weir *weir, struct weir__engine **ret_eng);
void weir__engine_info(struct weir__engine *eng, struct weir_io_info *ret_info);
uint64_t weir__engine_chunk_bytes(const struct weir__engine *eng);

/*
 * Cut the extents and deal them. After 0 the job is the engine's, and
 * job->chunk and job->done may have been called before it returns. -EBADF:
 * written to a file opened for reading. -ESHUTDOWN: the root is being closed.
 */
int weir__job_start(struct weir__engine *eng, struct weir__job *job);
void weir__job_cancel(struct weir__job *job);
/* The touching thread got further: look at held chunks again. */
void weir__job_wake(struct weir__job *job);

/*
 * Call @fn for each queue of backend @ops by which the engine copies, until it
 * returns < 0. They are not closed meanwhile. @fn may block: who opens one, or
 * calls this, goes on.
 */
int weir__engine_queues(struct weir__engine *eng,
			const struct weir__queue_ops *ops,
			int (*fn)(void *arg, void *queue), void *arg);

/* Run @task on a thread that may block. */
void weir__engine_task(struct weir__engine *eng, struct weir__task *task);

#endif
