/* SPDX-License-Identifier: MIT */
/*
 * A file operation of a stream: one job, as fileio.c makes it and the modes
 * queue it. It has one extent, or one for each row of a rectangle. A small read
 * that the calling thread makes itself has no job (fileio_nowait.c).
 */
#ifndef WEIR__STREAM_FILEIO_H
#define WEIR__STREAM_FILEIO_H

#include "io/engine.h"
#include "stream/stream.h"

struct weir__fileio {
	_Atomic uint32_t refs; /* the operation's; its caller's, if native */
	struct weir__fileio *next; /* spare */
	struct weir__job job;
	struct weir__stream_op *op; /* NULL: released; the stream's lock */
	struct weir__engine *eng;
	bool begun;           /* passed to the engine; of the caller's thread */
	_Atomic bool stopped; /* an earlier operation fails: start no reads */
	/* The first bytes that failed; under the stream's lock. */
	uint64_t lo, hi;
	struct weir__outcome outcome; /* theirs; DONE: none has failed */
	char why[200];                /* in words */

	/* For a caller that submits the copies itself (mode_native.c). */
	_Atomic(struct weir_backend_work *) todo; /* newest first */
	_Atomic bool over;                        /* there will be no more */
	_Atomic bool caller_waits;                /* on the futex, perhaps */
	_Atomic uint32_t wakes; /* a futex: of todo and over */

	struct weir__extent ext[]; /* job.n_ext */
};

/* @io->todo or @io->over has changed: wake the caller, if it waits. */
void weir__fileio_wake(struct weir__fileio *io);
void weir__fileio_put(struct weir__fileio *io);
/* The address of the memory of @op. */
unsigned char *weir__fileio_addr(const struct weir__stream_op *op);
/* Bytes [lo, hi) of @e, as the engine reports them, without gaps. */
uint64_t weir__fileio_bytes(const struct weir__extent *e, uint64_t lo,
			    uint64_t hi);
/*
 * Make the job of @op, whose accesses and range of the file are set, and in
 * op->work its rows: dst_pitch in memory, src_pitch in the file. Starts the
 * engine if it does not run. -ENOMEM and others, with a sentence.
 */
int weir__fileio_make(struct weir__stream_op *op);
/*
 * May the two not run side by side, because they access the same bytes of a
 * file? By whole pages: a block that goes to the disk directly must not
 * overtake one of the same page that goes through the page cache.
 */
bool weir__fileio_conflict(const struct weir__stream_op *a,
			   const struct weir__stream_op *b);

/*
 * May the calling thread make the read @op itself, without waiting? It can be
 * issued at once, is to host memory, small, and probably in the page cache.
 */
bool weir__fileio_may_nowait(const struct weir__stream_op *op);
/*
 * Queue @op and try to read at once. If the bytes are not in the page cache
 * after all, the engine reads them. Otherwise as weir__stream_op_queue.
 */
int weir__fileio_queue_nowait(struct weir__stream_op *op);

#endif
