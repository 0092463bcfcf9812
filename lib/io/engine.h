/* SPDX-License-Identifier: MIT */
/*
 * The I/O engine as the layers above see it: jobs of extents, which are cut
 * into chunks, and a function that is called for each chunk when its bytes are
 * in place.
 *
 * A job belongs to its caller until weir__job_start(), and again from the call
 * of job->done() on, which is made once and last. In between every chunk is
 * reported exactly once, after a cancel as well.
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
#include "io/reads.h"
#include "mem/buf.h"

#define WEIR__MAX_REACTORS 16u

struct weir_backend_convert;
struct weir__engine;
struct weir__job;
struct weir__refusal;
struct weir__prefault;
struct weir_backend_work;

/*
 * Bytes of one file and their place in memory: host memory, or memory of @dev.
 * They are contiguous, or rows with gaps between them. @prefault, if set, must have
 * passed an address before a direct read writes to it in place.
 */
struct weir__extent {
	struct weir_file *file; /* referenced by the job's caller */
	uint64_t off;
	uint64_t len; /* > 0 */
	unsigned char *addr;
	struct weir_dev *dev; /* NULL: host memory */
	/*
	 * Memory between two extents that follow each other in the job and
	 * have the same gap group may be overwritten. NULL: no group.
	 */
	const void *gap_group;
	struct weir__prefault
		*prefault;     /* NULL: memory is prefaulted already */
	size_t prefault_range; /* of it */
	bool buffered;         /* through the page cache */
	/*
	 * rows > 1: row k is @width bytes at off + k * file_pitch, and goes to
	 * addr + k * mem_pitch. @len is from the first byte in the file to the
	 * last. A row and the blocks around it must fit a chunk. Neither rows
	 * in the file nor in memory overlap. 0 or 1: the extent is contiguous.
	 *
	 * The gaps in the file may be read, so rows that are far apart are
	 * better an extent each. Bytes in the gaps in memory are not written.
	 */
	uint64_t rows, width, file_pitch, mem_pitch;
	/*
	 * The elements are converted on the way to memory: @len, @width and
	 * @file_pitch are bytes of the file, @mem_pitch is of memory. A row, or
	 * a contiguous extent, is whole elements. NULL: they are not.
	 *
	 * Extents with rows or a conversion can only be read.
	 */
	const struct weir_backend_convert *convert;
	/* Set by weir__job_start: */
	/*
	 * 1: not merged. More: so many extents from this one on are one chunk:
	 * a scatter copy to the device, or unpacked to host memory. 0: merged
	 * into an earlier extent's.
	 */
	uint32_t n_merged;
	bool unpack;    /* its chunks are unpacked: see unpack.h */
	uint64_t block; /* in place: unit of offsets; 0: all staged */
	uint64_t first; /* number of its first chunk in the job */
};

struct weir__msg { /* an entry of a reactor's inbox */
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
	const struct weir__extent *extent; /* of the last chunk */
	uint64_t deferred;      /* a chunk taken and not started, or -1 */
	struct weir_file *file; /* fixed was asked for this; or NULL */
	int fixed;              /* entry in the ring's table of files, or -1 */
};

/* How the bytes of a chunk came to their place. */
enum weir__chunk_way {
	WEIR__CHUNK_IN_PLACE, /* read there */
	WEIR__CHUNK_STAGED,   /* read to a slot, and copied */
	WEIR__CHUNK_BUFFERED  /* copied out of the page cache */
};

struct weir__job {
	/* Set by the caller: */
	struct weir__extent *ext;
	size_t n_ext;
	bool write;
	uint32_t depth; /* chunks in flight at most, 0: engine's */
	bool held;      /* may start while the root is closing: the caller has
			   called weir__engine_hold */
	/* When it is true, chunks end as after weir__job_cancel. NULL: none. */
	const _Atomic bool *stopped;
	/*
	 * Shared with the caller's jobs that end together with this one, which
	 * must not outlive it. NULL: the job's own.
	 */
	struct weir__reads *reads;
	struct weir__reads own_reads; /* only whole is the caller's to set */
	/*
	 * Bytes [lo, hi) of extent @ext have arrived, or failed as @outcome
	 * says. They count in the file from its offset on, gaps between rows
	 * included: rows begin at lo and at hi, and a chunk has whole elements.
	 * On a thread of the engine; must not block.
	 */
	void (*chunk_done)(struct weir__job *job, size_t ext, uint64_t lo,
			   uint64_t hi, const struct weir__outcome *outcome,
			   enum weir__chunk_way way);
	void (*done)(struct weir__job *job);
	/*
	 * The copy of these bytes to a device is in the driver; the chunk is
	 * completed later. Optional; not called for every chunk. Otherwise as
	 * chunk_done.
	 */
	void (*chunk_submitted)(struct weir__job *job, size_t ext, uint64_t lo,
				uint64_t hi);
	/*
	 * Submit the copy of a chunk between its slot and a device to a queue
	 * of the caller, which must call work->done. NULL: the engine's queue
	 * gets it. On a thread of the engine; must not block.
	 */
	void (*submit_copy)(struct weir__job *job,
			    struct weir_backend_work *work);
	void *arg;

	/*
	 * Set by the engine before done: the kernel or a device may still
	 * write to the job's memory.
	 */
	_Atomic bool leaked;

	_Atomic bool cancelled; /* weir__job_cancel */

	/* For the engine only: */
	struct weir__engine *eng;
	struct weir_backend_copy *copy; /* of merged extents; NULL: none */
	struct weir__job *next_unready;
	struct weir__refusal *refusals; /* devices that have no queue */
	uint64_t n_chunks;
	_Atomic uint64_t cursor;    /* next chunk to dispatch */
	_Atomic uint64_t remaining; /* chunks and links not finished */
	_Atomic uint32_t out;       /* chunks in flight */
	struct weir__job_link link[WEIR__MAX_REACTORS];

	/* For reports; read after done: */
	_Atomic uint64_t over_read; /* bytes: parts of blocks, and gaps */
	_Atomic uint64_t retries;
	_Atomic uint32_t fallbacks;
};

/* The root's engine, started at the first call. */
int weir__engine_get(struct weir *weir, struct weir__engine **ret_eng);
void weir__engine_info(struct weir__engine *eng, struct weir_io_info *ret_info);
uint64_t weir__engine_chunk_bytes(const struct weir__engine *eng);
/*
 * Are the rows of @e, which has all that its job's caller sets, better one
 * extent than an extent for each? False: a row does not fit a chunk, or direct
 * reads would read large gaps.
 */
bool weir__engine_joins_rows(const struct weir__engine *eng,
			     const struct weir__extent *e);

/*
 * Cut the extents and dispatch the chunks. After 0 the job belongs to the
 * engine; job->chunk_done and job->done may be called before it returns.
 * -EBADF: a write to a file opened for reading. -EINVAL: a write of rows, or a
 * row that does not fit a chunk. -ESHUTDOWN: the root is being closed.
 */
int weir__job_start(struct weir__engine *eng, struct weir__job *job);
/* Any thread. Chunks that have not started end as cancelled. */
void weir__job_cancel(struct weir__job *job);
/* Any thread: something that deferred chunks waited for has changed. */
void weir__job_wake(struct weir__job *job);

/*
 * Call @fn for each of the engine's queues whose functions are @ops, until it
 * returns < 0. They are not closed meanwhile. @fn may block: other calls of
 * this and the opening of queues go on.
 */
int weir__engine_queues(struct weir__engine *eng,
			const struct weir_backend_queue_ops *ops,
			int (*fn)(void *arg, void *queue), void *arg);

/*
 * Closing waits, as for a job, until weir__engine_release() has been called; the
 * caller may start jobs with held set meanwhile. It references the root.
 * -ESHUTDOWN: the root is being closed. Any thread.
 */
int weir__engine_hold(struct weir__engine *eng);
void weir__engine_release(struct weir__engine *eng);

/* Any thread: run @task on a thread that may block. */
void weir__engine_task(struct weir__engine *eng, struct weir__task *task);

#endif
