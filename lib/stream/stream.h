/* SPDX-License-Identifier: MIT */
/*
 * A stream and its operations, as the files of this folder see them. README.md
 * has the states, which thread moves an operation, and the order of the locks.
 */
#ifndef WEIR__STREAM_H
#define WEIR__STREAM_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/stream.h>

#include "core/timeline.h"
#include <weir/backend.h>
#include "io/file.h"
#include "mem/access.h"
#include "mem/buf.h"
#include "stream/mode.h"
#include "stream/stream_races.h"
#include "stream/range.h"

/* File operations of one stream that are issued at the same time. */
#define WEIR__STREAM_FILES 128u
/* Operations kept for use again by one stream. */
#define WEIR__STREAM_SPARE 1024u
/* Jobs of file operations kept for use again by one stream. */
#define WEIR__STREAM_SPARE_IO 64u
/* Accesses to buffers that an operation stores without allocating. */
#define WEIR__STREAM_ACCESSES 2u

enum weir__stream_op_state {
	/*
	 * Queued in the stream: set by weir__stream_op_queue() on the caller's
	 * thread. Then it is issued or, if the stream has failed, retired.
	 */
	WEIR__STREAM_PENDING,
	/*
	 * Given to the backend, the engine, or the timeline that it waits for:
	 * set by weir__stream_issue_first() under the lock, before it is given
	 * away.
	 */
	WEIR__STREAM_ISSUED,
	/*
	 * Its effect is visible, or it failed: set by weir__stream_op_finish()
	 * on the thread that completed it. It is retired when all operations
	 * before it are.
	 */
	WEIR__STREAM_FINISHED
};

struct weir__stream_op {
	struct weir__stream_op *next; /* the next newer open one; spare list */
	struct weir__stream_op *older, *newer; /* issued and not finished */
	struct weir_stream *stream;
	uint64_t number;
	enum weir__stream_op_state state;
	const char *what; /* "set": for sentences */
	bool exclusive;   /* conflicts with everything: a call, a wait */
	/*
	 * A wait that the device makes: the device itself orders later work of
	 * its queue after it; other operations conflict with it.
	 */
	bool barrier;
	/* A marker: where the errno goes if the queue refuses it. */
	int *ret_refused;
	/*
	 * A marker: it is refused with -EAGAIN if another thread holds the
	 * submit lock for longer than this, ns. 0: no limit.
	 */
	int64_t within;
	/* A wait that succeeds even if what it waits for fails. */
	bool any_end;
	/* A file operation whose copies go through queues of the I/O engine. */
	bool engine_copies;
	/* A read that the thread which queues it may not make itself. */
	bool by_engine;
	int err;                /* once finished */
	uint64_t bytes;         /* size of the first range that is not empty */
	struct weir_file *file; /* referenced; NULL: no file operation */
	struct weir__range file_range;
	/*
	 * Start it, without the lock; op may be freed on return. NULL: it is
	 * device work, for queue->submit.
	 */
	void (*start)(struct weir__stream_op *op);
	/* Drop its references except buffers and file; NULL: it has none. */
	void (*release)(struct weir__stream_op *op);
	/*
	 * What the backend gets. The library allocates works, a module never
	 * does, and struct weir_backend_work grows only at its end: a module
	 * need not know the members after those that it was built with.
	 */
	struct weir_backend_work work;
	struct weir__fileio *io; /* state of a file operation */
	/*
	 * A file operation: bytes whose copies are not submitted to the driver;
	 * under the lock.
	 */
	uint64_t unsubmitted;
	struct weir__timeline *timeline; /* that of the event waited for,
					    referenced */
	int64_t begun;                   /* if a trace runs, else 0 */
	unsigned track;                  /* in the trace */
	struct weir__waiter waiter;
	/*
	 * Called last, when nothing uses the arrays of @owner; NULL: no owner.
	 */
	void (*gone)(void *owner);
	void *owner;
	/* Set to the number when it is queued; NULL: not wanted. */
	uint64_t *ret_number;
	/* Any number of each, by weir__stream_op_access before it is queued. */
	struct weir__access *access; /* each references its buffer */
	size_t n_access, access_cap;
	bool lent; /* weir__stream_op_lend */
	/* weir__stream_op_new does not clear the members from here on. */
	struct weir__access_ranges mem;
	struct weir__access few_access[WEIR__STREAM_ACCESSES];
	struct weir__op_races races;
};

/* Numbers [lo, hi] that failed: lo with the cause, the others cancelled. */
struct weir__failed_range {
	struct weir__failed_range *next;
	uint64_t lo, hi; /* lo UINT64_MAX: none */
	bool all;        /* each with the cause: the stream was abandoned */
	struct weir_failure cause;
};

/*
 * References the stream, and is called when the program has freed it: see
 * weir__stream_keep().
 */
struct weir__stream_keeper {
	struct weir__stream_keeper *next, **link; /* NULL: on no list */
	/* Called one after the other; the first under the stream's lock. */
	void (*hold)(struct weir__stream_keeper *keeper);
	void (*freed)(struct weir__stream_keeper *keeper);
};

struct weir_stream {
	struct weir__timeline timeline; /* first member */
	struct weir_dev *dev;
	const struct weir_backend_queue_ops *ops;
	const struct weir__stream_mode *mode;
	void *queue;
	char label[64]; /* "stream 'copy'": for sentences, and traces */
	unsigned id;    /* in traces */
	struct weir__streams *part;
	struct weir_stream *next, **link; /* list of the part, under its lock */
	bool watched; /* on a list of the watcher's, under its lock */
	struct weir_stream *next_watched;

	/*
	 * Native: serialises queue->submit, which may block. Taken with no
	 * other lock held.
	 */
	pthread_mutex_t submit_lock;
	bool owns_queue; /* the queue is the library's, not the program's */
	/*
	 * Native. @freed: the program has freed the stream, so its queue may
	 * have been destroyed (changes under submit_lock and lock). @unmarked:
	 * the queue refused the last marker, so the end of the program's work
	 * there is not known.
	 */
	_Atomic bool freed, unmarked;

	pthread_mutex_t lock;  /* guards all members down to fail_lock */
	_Atomic uint64_t tail; /* newest number given out; written under lock */
	struct weir__stream_op *open, *newest; /* not retired, by number */
	struct weir__stream_op *first_pending; /* the oldest, or NULL */
	/* ISSUED, newest first: [0] device work, [1] files, calls, waits. */
	struct weir__stream_op *out[2];
	/* The issued one that first_pending conflicts with, or NULL. */
	struct weir__stream_op *blocker;
	unsigned n_files; /* in out[1] */
	struct weir__stream_op *spare;
	unsigned n_spare;
	struct weir__fileio *spare_io; /* each with one extent */
	unsigned n_spare_io;
	struct weir__stream_keeper *keepers;
	/* Native: for weir_stream_free(), if a heap uses the stream. */
	struct weir__stream_op *last_marker;
	/* Native: waiters for the next marker that the queue takes. */
	struct weir__waiter *owed;
	uint64_t tracks[WEIR__STREAM_FILES / 64]; /* in use by traced files */
	int64_t queue_end; /* end of the last traced operation of track 0 */
	uint32_t named;    /* in which trace; weir__trace_name */
	bool issuing, retiring; /* by one thread, which unlocks meanwhile */
	bool stopped;           /* an operation failed: issue nothing */
	bool failed; /* the failure is declared: all before it is retired */
	bool closed; /* with the root: nothing is queued any more */
	struct weir_failure failure; /* if stopped: lowest number so far */

	/* Guards failed_now and failed_past; taken last. */
	pthread_mutex_t fail_lock;
	struct weir__failed_range failed_now;   /* the failure not reset */
	struct weir__failed_range *failed_past; /* those that were reset */
	_Atomic bool ever_failed; /* else no number is in a failed range */
	_Atomic bool abandoned;   /* the root closed while work was open */
	_Atomic uint64_t done;    /* all up to it are retired */
};

static inline struct weir_stream *weir__stream_of(struct weir__timeline *tl)
{
	return (struct weir_stream *)(void *)tl;
}

/*
 * True if the backend's queue runs it, in the order in which works are
 * submitted.
 */
static inline bool
weir__stream_op_is_device_work(const struct weir__stream_op *op)
{
	return !op->start && !op->exclusive;
}

/* order.c. Make a zeroed operation. */
int weir__stream_op_new(struct weir_stream *s, const char *what,
			struct weir__stream_op **ret_op);
/* Free an operation that was not queued. */
void weir__stream_op_drop(struct weir__stream_op *op);
/*
 * Queue it. The stream owns it from here on, even if this fails. -ECANCELED:
 * the stream has failed.
 */
int weir__stream_op_queue(struct weir__stream_op *op);
/*
 * Issue first_pending, for a mode. s->lock is held, and released meanwhile.
 */
void weir__stream_issue_first(struct weir_stream *s);
/*
 * Note that @op has ended, with failure @f if that is not NULL. Called once, on
 * any thread, with no lock held; op may be freed on return.
 */
void weir__stream_op_finish(struct weir__stream_op *op,
			    const struct weir_failure *f);
/* The same, with a sentence that follows "stream 'x': operation 7 (set): ". */
void weir__stream_op_fail(struct weir__stream_op *op, int err, int32_t native,
			  const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Set only @f, for a caller that finishes the operation later. */
void weir__stream_op_failure(const struct weir__stream_op *op,
			     struct weir_failure *f, int err, int32_t native,
			     const char *fmt, va_list ap)
	__attribute__((format(printf, 5, 0)));
/*
 * Make the stream's numbers above done fail with -ESHUTDOWN. Returns false if
 * no operation is open.
 */
bool weir__stream_abandon(struct weir_stream *s);

/*
 * stream_ops.c. Begin a public call: check that the stream takes work, and make
 * an operation of @kind (which is not used if op->start is set).
 */
int weir__stream_op_begin(struct weir_stream *s, const char *what,
			  enum weir_backend_work_kind kind,
			  struct weir__stream_op **ret_op);
/*
 * Queue @op if @r, the result of filling it in, is 0. Otherwise, or if it
 * accesses no bytes, drop it.
 */
int weir__stream_op_end(struct weir__stream_op *op, int r);
/*
 * Check that the stream may access @n bytes at @off of @t, and add the access
 * to @op, with a reference to the buffer: any number of times before @op is
 * queued. -EINVAL, -EROFS, -ENOMEM.
 */
int weir__stream_op_access(struct weir__stream_op *op,
			   const struct weir_tensor *t, uint64_t off,
			   uint64_t n, bool write, unsigned char **ret_addr);
/* The same for bytes of @buf that belong to @t. */
int weir__stream_op_access_buf(struct weir__stream_op *op,
			       const struct weir_tensor *t,
			       struct weir_buf *buf, uint64_t off, uint64_t n,
			       bool write);
/*
 * Let blocking calls that write to the first @n bytes of @t, or release them,
 * wait for @op, because other work reads them for it. The stream does not order
 * @op by them. -EINVAL, -ENODATA, -ENOMEM.
 */
int weir__stream_op_hold(struct weir__stream_op *op,
			 const struct weir_tensor *t, uint64_t n);

/*
 * Let @op, which has no access yet, store up to @n accesses in arrays of its
 * owner instead of allocating. The arrays are used until op->gone is called.
 */
void weir__stream_op_lend(struct weir__stream_op *op,
			  struct weir__access *access,
			  struct weir__range *range, size_t n);
/*
 * Submit op->work to the queue of @op's stream, which is managed. start() calls
 * it. The work's done() may submit it again, or finish @op. < 0: the queue did
 * not take it.
 */
int weir__stream_op_submit(struct weir__stream_op *op);

/*
 * stream.c. Set @f to the failure that follows from @cause: -ECANCELED. Its
 * sentence names the first cause, however many streams waited for each other.
 */
void weir__cancelled(struct weir_failure *f, const struct weir_failure *cause);
/* Returns 0, or -ECANCELED with the first cause if the stream has failed. */
int weir__stream_check(struct weir_stream *s);
/* True if the stream has failed. Sets no sentence. */
bool weir__stream_has_failed(struct weir_stream *s);
/*
 * As weir__stream_check(), but fails as soon as an operation has failed, even
 * if earlier ones have not ended: later ones are not issued.
 */
int weir__stream_check_issued(struct weir_stream *s);
/* Make a stream for a queue of the backend of @dev; the stream then owns it. */
int weir__stream_around(struct weir_dev *dev, void *queue,
			const struct weir__stream_mode *mode, const char *name,
			struct weir_stream **ret_stream);
/* As weir_stream_new(), for use inside the library; all @flags are known. */
int weir__stream_new(struct weir_dev *dev, unsigned flags, const char *name,
		     struct weir_stream **ret_stream);
/* Returns the device if @tl is a stream, else NULL. */
struct weir_dev *weir__timeline_dev(struct weir__timeline *tl);

/*
 * fileio.c. Read all bytes of @dst on a thread of the engine, for callers whose
 * thread must not spend time on copies.
 */
int weir__stream_read(struct weir_stream *stream, struct weir_file *file,
		      uint64_t file_off, const struct weir_tensor *dst);
/* stream_ops.c. As weir_stream_copy(), for use inside the library. */
int weir__stream_copy(struct weir_stream *stream, const struct weir_tensor *dst,
		      const struct weir_tensor *src);

/*
 * wait.c. Waits, for the modes: on the host, or by the device for what @queue,
 * of the stream's backend, has submitted. Both take over the reference to @tl.
 */
int weir__stream_wait_on_host(struct weir_stream *s, struct weir__timeline *tl,
			      uint64_t number);
int weir__stream_wait_on_queue(struct weir_stream *s, struct weir__timeline *tl,
			       uint64_t number, void *queue);
/* Returns the native stream for which @op waits on the device, or NULL. */
struct weir_stream *weir__stream_waits_for(const struct weir__stream_op *op);
/* Turn a pending wait of the device into one on the host. The lock is held. */
void weir__stream_wait_to_host(struct weir__stream_op *op);
/*
 * Returns the stream @tl if all its operations up to @number are submitted to
 * the driver, where the queue of @s can wait for them; else NULL. *ret_copies
 * is set to true if some of them are copies of files, which are submitted too,
 * but by queues of the I/O engine.
 */
struct weir_stream *weir__stream_submitted(const struct weir_stream *s,
					   struct weir__timeline *tl,
					   uint64_t number, bool *ret_copies);
/*
 * Make work that is queued from now on wait for @number of @tl, unless that is
 * done already. Takes over the reference to @tl. Errors of weir_stream_wait().
 */
int weir__stream_wait_timeline(struct weir_stream *s, struct weir__timeline *tl,
			       uint64_t number);
/* The same for what @event has recorded; no wait if it was never recorded. */
int weir__stream_wait_event(struct weir_stream *s, struct weir_event *event);
/*
 * Make work that is queued from now on wait until @number of @tl has ended,
 * successfully or not, as heaps, runs and prefetchers need it. Never blocks.
 * -EAGAIN, without a sentence: a native stream could wait only by blocking the
 * caller.
 */
int weir__stream_wait_ended(struct weir_stream *s, struct weir__timeline *tl,
			    uint64_t number);
/*
 * stream.c. Reference the stream, and call @keeper when the program has freed
 * it. If the stream is native, weir_stream_free() queues a marker from now on.
 * -ENOMEM.
 */
int weir__stream_keep(struct weir_stream *s,
		      struct weir__stream_keeper *keeper);
/* From now on @keeper is not called. The stream stays referenced. */
void weir__stream_unkeep(struct weir_stream *s,
			 struct weir__stream_keeper *keeper);
/*
 * mode_native.c. Allocate the marker that weir__stream_leave() queues, so that
 * it cannot fail for lack of memory.
 */
int weir__stream_reserve_marker(struct weir_stream *s);
/*
 * As mode->tail, for callers that may not block. -EAGAIN, without a sentence:
 * another thread, which may be blocked in the driver, holds the submit lock of
 * the native stream for longer than @ns > 0.
 */
int weir__stream_tail_within(struct weir_stream *s, int64_t ns,
			     uint64_t *ret_tail);
/*
 * Wake @waiter when all work that is now in the queue has ended, including the
 * program's own work in a native queue. Returns as weir__timeline_wait(). Never
 * blocks: if a native queue takes no marker now, @waiter waits for the next
 * marker, which is queued after the next operation or by weir_stream_free(). No
 * lock is held; the caller references the stream until the wake.
 */
int weir__stream_await(struct weir_stream *s, struct weir__waiter *waiter);
/*
 * The program frees its native stream, and may then destroy the queue: submit
 * nothing to it any more.
 */
void weir__stream_leave(struct weir_stream *s);

/* Returns the newest number that the library has given out. Takes no lock. */
static inline uint64_t weir__stream_tail(struct weir_stream *s)
{
	return atomic_load_explicit(&s->tail, memory_order_acquire);
}
/* True if all work up to @number is done or has failed. Takes no lock. */
static inline bool weir__stream_ended(const struct weir_stream *s,
				      uint64_t number)
{
	return number <= atomic_load(&s->done) || atomic_load(&s->abandoned);
}
/* Give out the next number. The stream's lock is held. */
static inline uint64_t weir__stream_number(struct weir_stream *s)
{
	uint64_t number =
		atomic_load_explicit(&s->tail, memory_order_relaxed) + 1;

	atomic_store_explicit(&s->tail, number, memory_order_release);
	return number;
}
/*
 * Fail @op if the device's part of it, a wait or a marker, has failed with
 * @res. Returns true if so.
 */
bool weir__stream_wait_failed(struct weir__stream_op *op, int res,
			      int32_t native);

/* streams.c */
int weir__streams_add(struct weir_stream *s);
void weir__streams_del(struct weir_stream *s);
/* Work was submitted to its queue. s->lock is held. */
void weir__streams_watch(struct weir_stream *s);

#endif
