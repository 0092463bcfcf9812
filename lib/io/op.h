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

struct weir__chunk;
struct weir__loop;
struct weir__reactor;
struct weir__slot;

#define WEIR__OP_MAX_TRIES 16 /* without progress */

/*
 * Changed by the reactor's owner.
 *
 *	FREE -> QUEUED		a chunk was dispatched
 *	FREE -> FETCHING	the same, of a write from a device's memory: it
 *				is copied to a slot first
 *	FETCHING -> QUEUED	the copy has ended: it is written from the slot
 *	QUEUED -> QUEUED	short, interrupted or refused: the rest again
 *	QUEUED -> COPYING	it was read into a slot, and is copied out
 *	QUEUED -> CONVERTING	it was read into a slot, and is for a device: it
 *				is converted in the slot first
 *	CONVERTING -> COPYING	the result is copied to the device
 *	all but ORPHANED -> FREE	the chunk was completed
 *	all but FREE -> ORPHANED	the chunk was completed as failed, although
 *				the kernel, a device or a pool's thread may
 *				still write to its memory: the op and its slot
 *				are never used again
 */
enum weir__op_state {
	WEIR__OP_FREE,
	WEIR__OP_FETCHING,
	WEIR__OP_QUEUED,
	WEIR__OP_CONVERTING,
	WEIR__OP_COPYING,
	WEIR__OP_ORPHANED
};

/* For the owner, except while a pool has its task, or a device its work. */
struct weir__op {
	struct weir__msg msg;
	struct weir__task task;
	struct weir__reactor *reactor;
	struct weir__op *next_free, *next_all;
	unsigned lane;       /* its row in a trace */
	bool in_ring;        /* method_uring.c: the ring has it */
	uint64_t sqe_number; /* method_uring.c: of its submission entry */
	_Atomic(enum weir__op_state) state;

	struct weir__job *job;
	const struct weir__extent *extent; /* the first, if some are merged */
	uint64_t lo, hi;                   /* bytes of it */
	bool write, direct;
	bool counted;      /* in job->reads->running */
	bool skipped;      /* no thread has read it: job->reads ended before */
	bool fetched;      /* what the page cache lacked of it was requested */
	bool missed;       /* ... by the last call, which left it out */
	uint8_t tries;     /* repeated without progress */
	int fixed;         /* entry in the ring's table of files, or -1 */
	uint64_t off, end; /* in the file: next byte, and where lo..hi ends */
	unsigned char *buf;
	uint32_t len; /* bytes to ask for: end - off, or rounded up */

	struct weir__slot *slot;        /* NULL: in place, or not taken yet */
	unsigned char *payload;         /* address of byte lo in the slot */
	struct weir__slot *repack_slot; /* scatter.c */
	/* To a device, e->unpack: payload has the rows as unpack.c packs them. */
	bool packed;
	struct weir_backend_work work; /* the copy to or from a device */

	int64_t res;            /* of the last call: bytes or -errno */
	int32_t native;         /* the device's own code for it */
	int64_t begun, copying; /* for traces: when dispatched; when read */
};

/*
 * Add an op to the reactor; without memory it goes on with fewer. @run is
 * called on a pool's thread: it executes the op and posts it back.
 */
bool weir__op_add(struct weir__loop *loop, void (*run)(struct weir__task *));
/*
 * Start a free op (there must be one) for the chunk. @fixed: by the ring's
 * table of files. False: no slot is free, and nothing was started.
 */
bool weir__op_start(struct weir__loop *loop, struct weir__job *job,
		    const struct weir__chunk *chunk, bool fixed);
/* Its read, write or copy has ended with @res: take the next step. */
void weir__op_advance(struct weir__loop *loop, struct weir__op *op,
		      int64_t res);
/* Complete its chunk and free it. */
void weir__op_finish(struct weir__loop *loop, struct weir__op *op,
		     const struct weir__outcome *outcome);
/* Complete its chunk as failed, without waiting for its read, write or copy. */
void weir__op_orphan(struct weir__loop *loop, struct weir__op *op,
		     const struct weir__outcome *outcome);

/*
 * op_task.c: read, write or copy, blocking; the result is in op->res. On a
 * pool's thread, or on the owner's for a small copy. False: it was orphaned
 * before a thread ran it, and must not be posted.
 */
bool weir__op_execute(struct weir__op *op);
/* A read of the page cache by threads: it needs nothing of the ring. */
bool weir__op_is_cached(const struct weir__op *op);
/*
 * Its extent is unpacked, and the copier that reads it from the page cache does
 * that too: it needs a slot only for a device.
 */
bool weir__op_unpacks_cached(const struct weir__op *op);
/* Bytes of the slot that is reserved for a cached read to a device. */
uint64_t weir__op_reserves(const struct weir__op *op);

#endif
