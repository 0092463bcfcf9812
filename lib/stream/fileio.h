/* SPDX-License-Identifier: MIT */
/*
 * A file operation of a stream: one job, which fileio.c makes and the modes
 * queue. It has one extent, or one for each row of a rectangle. A small read
 * that the calling thread makes itself has no job.
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
	bool begun; /* passed to the engine; for the caller's thread */
	_Atomic bool stopped; /* an earlier operation failed: start no reads */
	/* The first bytes that failed; under the stream's lock. */
	uint64_t lo, hi;
	struct weir__outcome outcome; /* outcome of these bytes; DONE: none has
					 failed */
	char why[200];                /* its sentence */

	/* Used if the caller submits the copies itself (mode_native.c). */
	_Atomic(struct weir_backend_work *) todo; /* newest first */
	_Atomic bool over;                        /* no more will be added */
	_Atomic bool caller_waits;                /* may sleep on the futex */
	_Atomic uint32_t wakes; /* a futex: counts changes of todo and over */

	struct weir__extent ext[]; /* job.n_ext */
};

/* Wake the caller if it waits: @io->todo or @io->over has changed. */
void weir__fileio_wake(struct weir__fileio *io);
void weir__fileio_put(struct weir__fileio *io);
/*
 * How many bytes [lo, hi) of @e are, as the engine reports them, without gaps.
 */
uint64_t weir__fileio_bytes(const struct weir__extent *e, uint64_t lo,
			    uint64_t hi);
/*
 * Make the job of @op. Its accesses and its range of the file are set, and in
 * op->work its rows: dst_pitch in memory, src_pitch in the file. Starts the
 * engine if it does not run. -ENOMEM and others, with a sentence.
 */
int weir__fileio_make(struct weir__stream_op *op);
/*
 * True if the two may not run at the same time, because they access the same
 * pages of a file: a block that is written directly must not overtake one of
 * the same page that goes through the page cache.
 */
bool weir__fileio_conflict(const struct weir__stream_op *a,
			   const struct weir__stream_op *b);

/*
 * True if the calling thread may make the read @op itself, without waiting: it
 * can be issued at once, is to host memory, small, and probably in the page
 * cache.
 */
bool weir__fileio_may_nowait(const struct weir__stream_op *op);
/*
 * As weir__stream_op_queue(), and try to read at once. If the bytes are not in
 * the page cache after all, the engine reads them.
 */
int weir__fileio_queue_nowait(struct weir__stream_op *op);

#endif
