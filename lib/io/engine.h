/* SPDX-License-Identifier: MIT */
/*
 * The I/O engine as the layers above see it: jobs of extents, which are cut
 * into chunks, and a function that is called for each chunk when its bytes are
 * in place.
 *
 * A job belongs to its caller until weir__job_start(), and again from the call
 * of job->done() on, which is made once and last. In between every chunk is
 * reported exactly once, also after the job was cancelled.
 */
#ifndef WEIR__IO_ENGINE_H
#define WEIR__IO_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/outcome.h"
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
 * They are contiguous, or rows with gaps between them. @prefault, if set, must
 * have passed an address before a direct read writes to it in place.
 */
struct weir__extent {
	struct weir_file *file; /* referenced by the job's caller */
	uint64_t off;
	uint64_t len; /* > 0 */
	unsigned char *addr;
	struct weir_dev *dev; /* NULL: host memory */
	/*
	 * If two extents follow each other in the job and have the same gap
	 * group, the memory between them may be overwritten. NULL: no group.
	 */
	const void *gap_group;
	struct weir__prefault
		*prefault;     /* NULL: memory is prefaulted already */
	size_t prefault_range; /* number of the range there */
	bool buffered;         /* through the page cache */
	/*
	 * rows > 1: row k is @width bytes at off + k * file_pitch, and goes to
	 * addr + k * mem_pitch. @len counts from the first byte in the file to
	 * the last. A row and the blocks around it must fit a chunk. Rows
	 * overlap neither in the file nor in memory. 0 or 1: the extent is
	 * contiguous.
	 *
	 * The gaps in the file may be read, so rows that are far apart are
	 * read faster as an extent each. Gaps in memory are not written.
	 */
	uint64_t rows, width, file_pitch, mem_pitch;
	/*
	 * How elements are converted on the way to memory; NULL: they are
	 * copied. @len, @width and @file_pitch are bytes of the file,
	 * @mem_pitch is bytes of memory. A row, or a contiguous extent, has
	 * whole elements.
	 *
	 * Extents with rows or a conversion can only be read.
	 */
	const struct weir_backend_convert *convert;
	/* Set by weir__job_start: */
	/*
	 * 1: not merged. n > 1: this and the n - 1 extents after it are one
	 * chunk, which is copied to the device by a scatter copy, or unpacked
	 * to host memory. 0: it is part of an earlier extent's chunk.
	 */
	uint32_t n_merged;
	bool unpack;    /* its chunks are unpacked: see op_task.c */
	uint64_t block; /* read in place in such blocks; 0: all is staged */
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
	const struct weir__extent *extent; /* extent of the last chunk */
	uint64_t deferred;      /* a chunk taken and not started, or -1 */
	struct weir_file *file; /* the file of @fixed, or NULL */
	int fixed;              /* entry in the ring's table of files, or -1 */
};

/* How the bytes of a chunk are moved to their place. */
enum weir__chunk_way {
	WEIR__CHUNK_IN_PLACE, /* read there */
	WEIR__CHUNK_STAGED,   /* read to a slot, and copied */
	WEIR__CHUNK_BUFFERED  /* copied out of the page cache */
};

/* A chunk whose bytes have been read, and are checked by job->check. */
struct weir__check {
	struct weir__task *task; /* the engine's */
	/* Used by the caller while it keeps the check: */
	struct weir__check *next;
	uint64_t at;
};

struct weir__job {
	/* Set by the caller: */
	struct weir__extent *ext;
	size_t n_ext;
	bool write;
	uint32_t depth; /* chunks in flight at most; 0: the engine's limit */
	bool held;      /* it may start while the root is closing, since the
			   caller has called weir__engine_hold */
	/* Once it is true, chunks end as after weir__job_cancel. NULL: none. */
	const _Atomic bool *stopped;
	/*
	 * Shared by the caller's jobs that end together; it must outlive them.
	 * NULL: own_reads, of which the caller sets only @whole.
	 */
	struct weir__reads *reads;
	struct weir__reads own_reads;
	/*
	 * Devices whose memory @fill reads, beside those of extents: they lock
	 * the slots before the job starts. NULL: none.
	 */
	struct weir_dev *const *devs;
	size_t n_devs;
	/*
	 * Called when bytes [lo, hi) of extent @ext have arrived, or failed as
	 * @outcome says. They are counted in the file from the extent's offset
	 * on, gaps between rows included: a row begins at lo and at hi, and a
	 * chunk has whole elements. On a thread of the engine; must not block.
	 */
	void (*chunk_done)(struct weir__job *job, size_t ext, uint64_t lo,
			   uint64_t hi, const struct weir__outcome *outcome,
			   enum weir__chunk_way way);
	void (*done)(struct weir__job *job);
	/*
	 * Produce bytes [lo, hi) of extent @ext of a write whose extents have
	 * no memory (addr and dev are NULL). It writes them to @room, or
	 * sets *ret_bytes, which is @room, to host memory that has them until
	 * the chunk is completed. Returns 0 or -errno. On a thread of the
	 * engine; may block. The file is written directly in whole blocks, with
	 * zeros after the extent's last byte; the caller sets its size
	 * afterwards. NULL: extents have memory.
	 */
	int (*fill)(struct weir__job *job, size_t ext, uint64_t lo, uint64_t hi,
		    unsigned char *room, unsigned char **ret_bytes);
	/*
	 * Called by reads for bytes [lo, hi) of extent @ext when they have
	 * been read, before they are converted or copied to a device; if
	 * extents are merged, hi is the end of the last one, from the offset of
	 * @ext. @bytes has them as in the file, gaps included. Returns true if
	 * the chunk goes on. False: the caller keeps @check until an earlier
	 * chunk of the job has been checked or has failed, and then calls
	 * weir__check_again(); then this is called again. If @check is NULL it
	 * keeps nothing, and this is called again later. On a thread of the
	 * engine; may compute, and must not wait. NULL: nothing is checked.
	 */
	bool (*check)(struct weir__job *job, size_t ext, uint64_t lo,
		      uint64_t hi, const unsigned char *bytes,
		      struct weir__check *check);
	/*
	 * Called when the copy of these bytes is submitted to the device's
	 * driver; the chunk is completed later. Optional; not called for every
	 * chunk. Otherwise as chunk_done.
	 */
	void (*chunk_submitted)(struct weir__job *job, size_t ext, uint64_t lo,
				uint64_t hi);
	/*
	 * Submit the copy of a chunk between its slot and a device to a queue
	 * of the caller, which must call work->done. NULL: it is submitted to
	 * the engine's own queue. On a thread of the engine; must not block.
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

	/* Used by the engine only: */
	struct weir__engine *eng;
	struct weir_backend_copy *copy; /* merged extents; NULL: none */
	struct weir__job *next_unready;
	struct weir__refusal *refusals; /* devices that have no queue */
	uint64_t n_chunks;
	_Atomic uint64_t cursor; /* next chunk to dispatch */
	/*
	 * With check, chunks start in their order, so that a chunk that keeps
	 * its op and its slot waits only for chunks that have theirs, too: the
	 * next chunk to start, and whether a reactor waits for an earlier one.
	 */
	_Atomic uint64_t in_order;
	_Atomic bool order_waits;
	_Atomic uint64_t remaining; /* chunks and links not finished */
	_Atomic uint32_t out;       /* chunks in flight */
	struct weir__job_link link[WEIR__MAX_REACTORS];

	/* Counted for reports; read after done: */
	_Atomic uint64_t over_read; /* bytes: parts of blocks, and gaps */
	_Atomic uint64_t retries;
	_Atomic uint64_t cached; /* bytes that the root's cache had */
	_Atomic uint32_t fallbacks;
};

/* Return the root's engine, which the first call starts. */
int weir__engine_get(struct weir *weir, struct weir__engine **ret_eng);
void weir__engine_info(struct weir__engine *eng, struct weir_io_info *ret_info);
uint64_t weir__engine_chunk_bytes(const struct weir__engine *eng);
/*
 * True if the rows of @e are read faster as one extent than as an extent each.
 * False: a row does not fit a chunk, or direct reads would read large gaps. The
 * caller has set all members of @e that a job's caller sets.
 */
bool weir__engine_joins_rows(const struct weir__engine *eng,
			     const struct weir__extent *e);

/*
 * Divide the extents into chunks and dispatch them. If this returns 0 the job
 * belongs to the engine; job->chunk_done and job->done may be called earlier.
 * -EBADF: a write to a file opened for reading. -EINVAL: a write of rows, or a
 * row that does not fit a chunk. Extents that @job->fill produces begin at a
 * multiple of a block. -ESHUTDOWN: the root is being closed.
 */
int weir__job_start(struct weir__engine *eng, struct weir__job *job);
/* Let chunks that have not started end as cancelled. Any thread. */
void weir__job_cancel(struct weir__job *job);
/* Something that deferred chunks waited for has changed. Any thread. */
void weir__job_wake(struct weir__job *job);
/* Call job->check again for a chunk that the caller has kept. Any thread. */
void weir__check_again(struct weir__engine *eng, struct weir__check *check);

/*
 * Call @fn for each of the engine's queues with the functions @ops, until it
 * returns < 0. The queues are not closed meanwhile. @fn may block: other calls
 * of this function and the opening of queues are not delayed.
 */
int weir__engine_queues(struct weir__engine *eng,
			const struct weir_backend_queue_ops *ops,
			int (*fn)(void *arg, void *queue), void *arg);

/*
 * Make closing wait, as for a job, until weir__engine_release() has been
 * called. The caller, which references the root, may start jobs with @held set
 * meanwhile. -ESHUTDOWN: the root is being closed. Any thread.
 */
int weir__engine_hold(struct weir__engine *eng);
void weir__engine_release(struct weir__engine *eng);

/* Run @task on a thread that may block. Any thread. */
void weir__engine_task(struct weir__engine *eng, struct weir__task *task);
/* The same for a task that may take long, such as fsync(2). */
void weir__engine_long_task(struct weir__engine *eng, struct weir__task *task);

#endif
