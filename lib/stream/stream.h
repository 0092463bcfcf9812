/* SPDX-License-Identifier: MIT */
/*
 * A stream and its operations, as the files of this folder see them. README.md
 * has the states, who moves an operation, and the order of the locks.
 */
#ifndef WEIR__STREAM_H
#define WEIR__STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/stream.h>

#include "core/source.h"
#include "dev/backend.h"
#include "io/file.h"
#include "mem/access.h"
#include "mem/buf.h"
#include "stream/range.h"

/* File operations of one stream that are issued at the same time. */
#define WEIR__STREAM_FILES 128u
/* Operations kept for use again by one stream. */
#define WEIR__STREAM_SPARE 1024u

enum weir__stream_op_state {
	/*
	 * Queued by weir__stream_op_queue (the caller's thread). Leaves by issue(),
	 * or straight to retirement once the stream has failed.
	 */
	WEIR__STREAM_PENDING,
	/*
	 * With the backend, the engine, or on the list of the source that it
	 * waits for. Set by issue() under the lock, before it is given away.
	 */
	WEIR__STREAM_ISSUED,
	/*
	 * Its effect is visible, or it failed. Set by weir__stream_op_finish() on the
	 * thread that knows. Leaves, and is free, when all before it have.
	 */
	WEIR__STREAM_FINISHED
};

/* Accesses to buffers that an operation has without allocating. */
#define WEIR__STREAM_ACCESSES 2u

struct weir__stream_op {
	struct weir__stream_op *next; /* newer one that is open; or free */
	struct weir__stream_op *older, *newer; /* issued and not finished */
	struct weir_stream *stream;
	uint64_t number;
	enum weir__stream_op_state state;
	const char *what; /* "set": for sentences */
	bool alone;       /* conflicts with everything: CALL, a wait */
	/*
	 * A wait that the device keeps: with its own work it is in order by
	 * itself; what is not device work waits for it.
	 */
	bool barrier;
	int err;        /* once finished */
	uint64_t bytes; /* of the first range that is not empty: for traces */
	struct weir_file *file; /* referenced; NULL: no file operation */
	struct weir__range file_range;
	/*
	 * Set it going, without the lock; op may be gone on return. NULL: it
	 * is device work, given to queue->submit.
	 */
	void (*start)(struct weir__stream_op *op);
	/* Let go of what it holds besides buffers and file; NULL: nothing. */
	void (*release)(struct weir__stream_op *op);
	struct weir__work work;
	void *io;          /* fileio.c's */
	uint64_t unhanded; /* file: bytes not with the device; the lock */
	struct weir__source *src; /* of the event waited for, held */
	int64_t begun;            /* if a trace runs, else 0 */
	unsigned lane;            /* in it */
	struct weir__waiter waiter;
	/* Any number of each, by weir__stream_op_access before it is queued. */
	struct weir__access *access; /* each references its buffer */
	size_t n_access, access_cap;
	/* From here on weir__stream_op_new does not clear it. */
	struct weir__ranges mem;
	struct weir__access few_access[WEIR__STREAM_ACCESSES];
};

/* Numbers [lo, hi] that failed: lo with the cause, the others cancelled. */
struct weir__failed_range {
	struct weir__failed_range *next;
	uint64_t lo, hi; /* lo UINT64_MAX: none */
	bool all;        /* every one with the cause: abandoned */
	struct weir_failure cause;
};

struct weir_stream {
	struct weir__source src; /* first member */
	struct weir_dev *dev;
	const struct weir__queue_ops *ops;
	void *queue;
	char label[64]; /* "stream 'copy'": for sentences, and traces */
	unsigned id;    /* in traces */
	struct weir__streams *part;
	struct weir_stream *next, **link; /* of the part, under its lock */
	/*
	 * The native handle is known outside, where work is queued that we do
	 * not see: nothing may be held back here.
	 */
	bool native;
	bool watched; /* on a list of the watcher's, under its lock */
	struct weir_stream *next_watched;

	/* Native: serialises submit, which may block; taken with none held. */
	pthread_mutex_t submit_lock;

	pthread_mutex_t lock; /* guards all down to fail_lock */
	uint64_t tail;        /* newest number given out */
	struct weir__stream_op *open, *newest; /* not retired, by number */
	struct weir__stream_op *first_pending; /* oldest of them that is HELD */
	/* ISSUED, newest first: [0] device work, [1] files, calls, waits. */
	struct weir__stream_op *out[2];
	struct weir__stream_op *blocker; /* what held conflicts with, or NULL */
	unsigned n_files;                /* in out[1] */
	struct weir__stream_op *spare;
	unsigned n_spare;
	uint64_t lanes[WEIR__STREAM_FILES / 64]; /* in use by traced files */
	int64_t queue_end;      /* of the last traced operation of lane 0 */
	uint32_t named;         /* in which trace; weir__trace_name */
	bool issuing, retiring; /* by one thread, which unlocks meanwhile */
	bool stopped;           /* something failed: issue nothing */
	bool failed; /* failure is declared: all before it is retired */
	bool closed; /* with the root: what was not queued by then is not */
	struct weir_failure failure; /* if stopped: lowest number so far */

	pthread_mutex_t fail_lock;        /* guards spans; taken last */
	struct weir__failed_range now;    /* of the failure that is not reset */
	struct weir__failed_range *spans; /* of those that were */
	_Atomic bool ever_failed;         /* else no number is in a span */
	_Atomic bool abandoned; /* the root closed while work was open */
	_Atomic uint64_t done;  /* all up to it are retired */
};

static inline struct weir_stream *weir__stream_of(struct weir__source *src)
{
	return (struct weir_stream *)(void *)src;
}

/* order.c. An operation of zeroes, and giving it back before it is queued. */
int weir__stream_op_new(struct weir_stream *s, const char *what,
			struct weir__stream_op **ret_op);
void weir__stream_op_drop(struct weir__stream_op *op);
/*
 * Queue it; it is the stream's from here on, also if that fails. -ECANCELED:
 * the stream has failed.
 */
int weir__stream_op_queue(struct weir__stream_op *op);
/*
 * It has finished; with a failure if @f is not NULL. Called once, on any
 * thread, with no lock held; op may be gone on return.
 */
void weir__stream_op_finish(struct weir__stream_op *op,
			    const struct weir_failure *f);
/* The same with a sentence to come behind "stream 'x': operation 7 (set): ". */
void weir__stream_op_fail(struct weir__stream_op *op, int err, int32_t native,
			  const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The stream's numbers above done fail with -ESHUTDOWN. False: none is open. */
bool weir__stream_abandon(struct weir_stream *s);
/*
 * Give @work, which is of one of its operations, to its queue. s->lock is held;
 * of a native stream it is let go of meanwhile.
 */
int weir__stream_submit(struct weir_stream *s, struct weir__work *work);
/*
 * The newest operation that @op, on files, may not be beside, or 0: of a native
 * stream, which holds nothing back.
 */
uint64_t weir__stream_file_ahead(const struct weir__stream_op *op);
/*
 * ops.c. Begin a public operation: may it be called now, and an op of @kind
 * (which does not matter if op->start is set).
 */
int weir__stream_op_begin(struct weir_stream *s, const char *what,
			  enum weir__work_kind kind,
			  struct weir__stream_op **ret_op);
/*
 * Queue @op if @r, from filling it in, is 0; else drop it, as is done if it
 * touches no bytes.
 */
int weir__stream_op_end(struct weir__stream_op *op, int r);
/*
 * May its stream access @n bytes at @off of @t? If so, add the access to @op,
 * with a reference to the buffer: any number of times before @op is queued.
 * -EINVAL, -EROFS, -ENOMEM.
 */
int weir__stream_op_access(struct weir__stream_op *op,
			   const struct weir_tensor *t, uint64_t off,
			   uint64_t n, bool write, unsigned char **ret_addr);
/*
 * stream.c: what follows from the failure @cause, -ECANCELED. Sentences do not
 * grow along a chain: the first cause is what is told.
 */
void weir__cancelled(struct weir_failure *f, const struct weir_failure *cause);
/* 0; -ECANCELED with the first cause if the stream has failed. */
int weir__stream_check(struct weir_stream *s);
/* A stream of @dev around a queue of its backend, which it then owns. */
int weir__stream_around(struct weir_dev *dev, void *queue, bool native,
			const char *name, struct weir_stream **ret_stream);
/*
 * wait.c. The newest number. On a native stream, where others queue too, a mark
 * of ours is put behind all of it before.
 */
uint64_t weir__stream_tail(struct weir_stream *s);
/* The device if @src is a stream, else NULL. */
struct weir_dev *weir__source_dev(struct weir__source *src);
/* The same for bytes of a buffer that belong to @t. */
int weir__stream_op_access_buf(struct weir__stream_op *op,
			       const struct weir_tensor *t,
			       struct weir_buf *buf, uint64_t off, uint64_t n,
			       bool write);

/* trace.c; the lock is held. */
void weir__stream_trace_issued(struct weir_stream *s,
			       struct weir__stream_op *op);
void weir__stream_trace_finished(struct weir_stream *s,
				 struct weir__stream_op *op);

/* part.c */
int weir__streams_add(struct weir_stream *s);
void weir__streams_del(struct weir_stream *s);
/* Work was given to its queue. s->lock is held. */
void weir__streams_watch(struct weir_stream *s);

#endif
