/* SPDX-License-Identifier: MIT */
/*
 * One chunk in flight: a read or write of a file, and for a staged chunk the
 * copy out of its slot or into it.
 */
#ifndef WEIR__IO_OP_H
#define WEIR__IO_OP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/backend.h>
#include "io/engine.h"
#include "io/pool.h"
#include "io/source.h"

struct weir__chunk;
struct weir__loop;
struct weir__reactor;
struct weir__slot;

#define WEIR__OP_MAX_TRIES 16 /* without progress */

/*
 * The reactor's owner changes the state.
 *
 *	FREE -> QUEUED		a chunk was dispatched
 *	FREE -> FETCHING	a write from a device's memory was dispatched:
 *				its bytes are copied to a slot first
 *	FETCHING -> QUEUED	that copy has ended: it is written from the slot
 *	FREE -> FILLING		a write that the job fills was dispatched: a
 *				pool's thread calls job->fill
 *	FILLING -> QUEUED	it is written from the slot, or from the memory
 *				that the job has named
 *	QUEUED -> QUEUED	the read or write was short, interrupted or
 *				refused: the rest is requested again
 *	QUEUED -> CHECKING	it was read, and job->check looks at its bytes,
 *				perhaps after those of an earlier chunk
 *	QUEUED, CHECKING -> COPYING	it was read into a slot, and is copied
 *				out
 *	QUEUED, CHECKING -> CONVERTING	it was read into a slot, is for a
 *				device, and is converted in the slot first
 *	CONVERTING -> COPYING	the result is copied to the device
 *	all but ORPHANED -> FREE
 *				the chunk was completed
 *	all but FREE -> ORPHANED
 *				the chunk was completed as failed, although
 *				the kernel, a device or a pool's thread may
 *				still write to its memory: the op and its slot
 *				are never used again
 */
enum weir__op_state {
	WEIR__OP_FREE,
	WEIR__OP_FETCHING,
	WEIR__OP_FILLING,
	WEIR__OP_QUEUED,
	WEIR__OP_CHECKING,
	WEIR__OP_CONVERTING,
	WEIR__OP_COPYING,
	WEIR__OP_ORPHANED
};

/* The owner uses it, except while a pool runs its task or a device its work. */
struct weir__op {
	struct weir__msg msg;
	struct weir__task task;
	struct weir__reactor *reactor;
	struct weir__op *next_free, *next_all;
	unsigned track;      /* in a trace */
	bool in_ring;        /* method_uring.c: the ring has it */
	uint64_t sqe_number; /* method_uring.c: of its submission entry */
	_Atomic(enum weir__op_state) state;

	struct weir__job *job;
	const struct weir__extent *extent; /* the first, if some are merged */
	uint64_t lo, hi;                   /* bytes of the extent */
	bool write, direct;
	bool counted; /* in job->reads->running */
	bool skipped; /* the thread did not read: job->reads had ended */
	/*
	 * Read from the page cache. @requested: the kernel was asked to read
	 * the missing pages. @missed: the last call found pages missing, and
	 * only asked for them.
	 */
	bool requested, missed;
	bool in_window;    /* counted in the loop's bytes_out */
	bool checked;      /* by job->check */
	bool placed;       /* copied from the slot to host memory */
	uint8_t tries;     /* repeated without progress */
	int fixed;         /* entry in the ring's table of files, or -1 */
	uint64_t off, end; /* in the file: next byte; where lo..hi ends */
	unsigned char *buf;
	uint32_t len; /* bytes to ask for: end - off, or rounded up */

	struct weir__slot *slot; /* NULL: in place, or not taken yet */
	unsigned char *payload;  /* address of byte lo in the slot, or where
				   job->fill has it */
	struct weir__slot *repack_slot; /* device_copy.c */
	/*
	 * True if an unpacked extent goes to a device, and payload has its rows
	 * one after another.
	 */
	bool packed;
	struct weir_backend_work work; /* the copy to or from a device */
	struct weir__check check;

	/*
	 * By all calls together: with gaps, the ends of blocks, and what was
	 * read again.
	 */
	uint64_t bytes_read;
	int64_t res;            /* result of the last call: bytes or -errno */
	int32_t native;         /* the device's own code for it */
	int64_t begun, copying; /* times for traces: dispatched, read */

	/* A read of an object: source_op.c. */
	struct weir_source_read read;
	_Atomic bool at_source; /* its source has it */
	_Atomic int64_t moved;  /* when bytes arrived since the loop
				   looked; 0: none did */
	int64_t hurried;        /* when it was cancelled; 0: it was not */
	char *why;              /* its failure, or NULL; set by the source */
	struct weir_file *kept; /* orphaned: its file, until the source ends
				   it */
};

/*
 * Add an op to the reactor. Returns false without memory: the reactor goes on
 * with fewer. A pool's thread calls @run, which executes the op and posts it
 * back.
 */
bool weir__op_add(struct weir__loop *loop, void (*run)(struct weir__task *));
/*
 * Start an op for the chunk; one must be free. @fixed: use the ring's table of
 * files. Returns false, and starts nothing, if no slot is free.
 */
bool weir__op_start(struct weir__loop *loop, struct weir__job *job,
		    const struct weir__chunk *chunk, bool fixed);
/* Take the next step: the op's read, write or copy has ended with @res. */
void weir__op_advance(struct weir__loop *loop, struct weir__op *op,
		      int64_t res);
/* All bytes of the op's chunk have been read: go on with them. */
void weir__op_arrived(struct weir__loop *loop, struct weir__op *op);
/* Complete the op's chunk and free the op. */
void weir__op_finish(struct weir__loop *loop, struct weir__op *op,
		     const struct weir__outcome *outcome);
/*
 * Complete the op's chunk as failed, without waiting for its read, write or
 * copy.
 */
void weir__op_orphan(struct weir__loop *loop, struct weir__op *op,
		     const struct weir__outcome *outcome);

/*
 * op_task.c. Read, write, copy or check, blocking; the result is in op->res.
 * Runs on a pool's thread or, for a small copy or check, on the owner's.
 * Returns false if the op must not be used further: it was orphaned before a
 * thread ran it, or its check is made later, by a thread that may have begun
 * already.
 */
bool weir__op_execute(struct weir__op *op);
/*
 * True if threads read it from the page cache, so that it does not need the
 * ring.
 */
bool weir__op_is_cached(const struct weir__op *op);
/*
 * True if a chunk that is unpacked is first read as a whole to a slot, also
 * from the page cache.
 */
bool weir__op_reads_whole(const struct weir__op *op);
/*
 * True if the copier that reads the op's extent from the page cache also
 * unpacks it: it needs a slot only for a device.
 */
bool weir__op_unpacks_cached(const struct weir__op *op);
/* Bytes of the slot that a cached read to a device reserves. */
uint64_t weir__op_slot_bytes(const struct weir__op *op);
/* Bytes that were read beyond those of the chunk's extents, each once. */
uint64_t weir__op_over_read(const struct weir__op *op);

#endif
