/* SPDX-License-Identifier: MIT */
/*
 * The inside of the engine: reactors, the reads they have out, and the two
 * methods by which a read reaches the kernel.
 *
 * All members of struct weir__reactor are its owner's (owner.h), except inbox, owner
 * and wakefd, by which other threads reach it.
 */
#ifndef WEIR__IO_REACTOR_H
#define WEIR__IO_REACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/slots.h"
#include "io/engine.h"
#include "io/owner.h"
#include "io/pool.h"
#include "io/wakefd.h"

struct weir__reactor;

/*
 * One chunk on its way: a read or write of a file, and for a staged chunk the
 * copy out of its slot.
 *
 *	FREE -> QUEUED		by the reactor: a chunk was dealt
 *	FREE -> FETCHING	the same, to be written from a device's memory,
 *				which copies it to a slot
 *	FETCHING -> QUEUED	it is there, and written from there
 *	QUEUED -> QUEUED	short, interrupted or refused: the rest again
 *	QUEUED -> COPYING	read into a slot; a copier moves it
 *	QUEUED, FETCHING, COPYING -> FREE	the job was told
 *	any -> LOST		the root closed and could wait no longer: the
 *				job was told, the kernel may still write; it
 *				never becomes FREE
 */
enum weir__op_state {
	WEIR__OP_FREE,
	WEIR__OP_FETCHING,
	WEIR__OP_QUEUED,
	WEIR__OP_COPYING,
	WEIR__OP_ORPHANED
};

struct weir__op {
	struct weir__msg msg;
	struct weir__task task; /* a pool's while it runs the op */
	struct weir__reactor *reactor;
	struct weir__op *next_free, *next_all;
	unsigned lane;                      /* its row in a trace */
	bool in_ring;                       /* the method's: the ring has it */
	_Atomic(enum weir__op_state) state; /* the reactor's */
	struct weir__job *job;
	size_t ext;
	uint64_t lo, hi; /* bytes of the extent that it is for */
	bool write, direct;
	uint8_t tries;     /* repeated without progress */
	int fixed;         /* entry in the ring's table of files, or -1 */
	uint64_t off, end; /* in the file: next byte, and where lo..hi ends */
	unsigned char *buf;
	uint32_t len; /* bytes to ask for: end - off, or rounded up */
	struct weir__slot *slot;        /* NULL: in place */
	unsigned char *payload;         /* lo, in the slot */
	struct weir__slot *repack_slot; /* pieces.c's */
	struct weir__work work;         /* a device's while it copies */
	int64_t res;                    /* of the last call: bytes or -errno */
	int32_t native;                 /* the device's own code for it */
	int64_t begun, copying;         /* for traces: dealt; read */
	int64_t dispatched;             /* when it was dealt, by r->clock */
};

/* How ops reach the kernel. All on the reactor's thread, in its own turn. */
struct weir__method_ops {
	size_t size;
	uint32_t io; /* enum weir_io */
	const char *name;
	/*
	 * Make what the method needs. Required. < 0 with a sentence in
	 * r->eng->why: it does not work here.
	 */
	int (*open)(struct weir__reactor *r);
	/* Nothing is out. Required. */
	void (*close)(struct weir__reactor *r);
	/* Take one op. Required. Never blocks or fails: at most n_ops are out. */
	void (*submit)(struct weir__reactor *r, struct weir__op *op);
	/*
	 * Hand over what was submitted and call weir__op_advance() for what
	 * has come back. Sleep until something does or a message comes, for
	 * @limit ns at most (-1: weir__reactor_max_sleep, 0: not at all), with the
	 * turn freed meanwhile. Required.
	 */
	void (*wait)(struct weir__reactor *r, int64_t limit);
	/* A slot is about to be used for the first time. Optional. */
	void (*slot)(struct weir__reactor *r, struct weir__slot *slot);
	/* Entry of a file in the ring's table, or -1; and giving it back. */
	int (*file_get)(struct weir__reactor *r, struct weir_file *file);
	void (*file_put)(struct weir__reactor *r, int fixed);
};

extern const struct weir__method_ops weir__method_uring;
extern const struct weir__method_ops weir__method_sync;

#define WEIR__MAX_QUEUES 16u

struct weir__copy_queue { /* of one reactor to one device */
	struct weir_dev *dev;
	void *queue;
	bool pinned;          /* the slots, by this device */
	_Atomic uint32_t out; /* works that are not done */
};

struct weir__reactor {
	struct weir__engine *eng;
	unsigned index;
	pthread_t thread;
	bool started;

	_Alignas(64) _Atomic(struct weir__msg *) inbox;
	struct weir__owner owner;
	struct weir__wakefd wakefd;

	/* Taken from the inbox, but only the thread may do it. */
	_Alignas(64) struct weir__msg *for_thread, **for_thread_end;
	bool thread_needed; /* there is something that only the thread may do */
	bool polling; /* it sleeps no longer than copies may be left alone */

	/* Served in turn: the first is looked at, and goes to the end. */
	struct weir__job_link *jobs, **jobs_end;
	unsigned n_jobs;
	struct weir__op *ops; /* all */
	unsigned n_lanes;
	_Atomic uint32_t features; /* WEIR_IO_HAS_* */
	unsigned n_ops, n_out;     /* n_out: not FREE and not LOST */
	struct weir__op *free;
	uint64_t bytes_out;
	struct weir__slots *slots;
	/* To devices: queues.c. Only added to, in full before n_queues counts. */
	struct weir__copy_queue queue[WEIR__MAX_QUEUES];
	_Atomic unsigned n_queues;
	int64_t pause; /* until they are looked at again, ns */
	int64_t clock; /* of the thread's last round: up to a max_sleep behind */
	int64_t late_checked;     /* for reads that are out too long: when */
	unsigned n_caller_copies; /* out, and copied by their job's own queue */
	_Atomic(const struct weir__method_ops *) method_ops;
	void *method; /* its own */
	_Atomic uint64_t enters;
	_Atomic bool trim; /* give pages of free slots back */
};

struct weir__engine {
	struct weir__part part;
	struct weir *weir;
	uint32_t wanted; /* enum weir_io, of the options */
	bool only_ring;  /* WEIR_IO_URING was asked for */
	const struct weir__method_ops *only_method; /* a bench's, or NULL */
	pthread_mutex_t lock;                       /* guards why */
	char why[240];
	pthread_mutex_t open_lock; /* guards unready, opening */
	struct weir__job *unready; /* wait for queues to be opened */
	bool opening;              /* open_task is queued or runs */
	struct weir__task open_task;
	_Atomic bool queues_closed;
	_Atomic uint32_t
		queue_users; /* threads in weir__engine_queues; a futex */
	uint64_t chunk_bytes;
	uint64_t window;         /* bytes in flight for each reactor */
	uint64_t network_window; /* the same, of network file systems */
	unsigned n_reactors, n_started, n_copiers, n_readers;
	struct weir__reactor *reactor;
	struct weir__pool *copiers;    /* page cache and slots to memory */
	struct weir__pool *readers;    /* blocking direct reads */
	_Atomic uint32_t next_reactor; /* next reactor for a short job */
	_Atomic uint32_t jobs;         /* not done; a futex for closing */
	_Atomic uint32_t ready;        /* reactors that have started; a futex */
	_Atomic int start_err;
	int64_t max_sleep;   /* how long reactors sleep at most, ns */
	char late[64];       /* why a read is given up, in words */
	int64_t deadline;    /* of closing; before stop is set */
	_Atomic bool closed; /* no job starts any more */
	_Atomic bool leaked; /* the kernel may still write: never freed */
	_Atomic bool stop;   /* reactors: leave when nothing is out */
	_Atomic bool
		abort; /* reactors: lose what is out, leave after the jobs */
};

/* engine.c. One chunk or link of the job is finished; the last one ends it. */
void weir__job_item_done(struct weir__job *job);

/* chunk.c: which bytes a chunk is */
struct weir__chunk {
	size_t ext;
	uint64_t lo, hi; /* bytes of the extent, and on if some go together */
	bool in_place;   /* no slot needed */
};
int weir__job_cut(struct weir__engine *eng, struct weir__job *job);
void weir__job_chunk(const struct weir__job *job, uint64_t chunk_bytes,
		     uint64_t number, size_t *hint, struct weir__chunk *ret);

/* pieces.c: the work of an op whose chunk has several extents. */
void weir__scatter_make(struct weir__op *op);
/* Of a chunk of several extents: their bytes; and telling the job of each. */
uint64_t weir__chunk_sum(const struct weir__extent *e);
void weir__chunk_complete_each(struct weir__job *job, size_t ext,
			       const struct weir__outcome *outcome,
			       enum weir__chunk_way way);
/* Its copy is with the driver; job->chunk_in_driver is there. */
void weir__chunk_in_driver(struct weir__job *job, size_t ext, uint64_t lo,
			   uint64_t hi);
/* The job is told of a chunk, and then it may be gone. */
static inline void weir__chunk_complete(struct weir__job *job, size_t ext,
					uint64_t lo, uint64_t hi,
					const struct weir__outcome *outcome,
					enum weir__chunk_way way)
{
	if (job->ext[ext].n_merged == 1)
		job->chunk_done(job, ext, lo, hi, outcome, way);
	else
		weir__chunk_complete_each(job, ext, outcome, way);
	weir__job_item_done(job);
}
/* Reads to slots begin and end at multiples of this. */
static inline uint64_t weir__slot_unit(const struct weir_file *file)
{
	return file->off_align > 4096 ? file->off_align : 4096;
}

/*
 * Make an engine with @method (NULL: as the root's options say): for benches
 * that put a source of their own in place of the disk.
 */
int weir__engine_make(struct weir *weir, const struct weir__method_ops *method,
		      struct weir__part **ret_part);

/* engine.c */
/* Give it to the reactors. */
void weir__job_post(struct weir__engine *eng, struct weir__job *job);
/* One of the job's chunks is no longer in flight. */
void weir__job_out_dec(struct weir__job *job);
/*
 * Why the ring or the slots do not work, or not in full: see weir_io_info.
 * Reasons add up, unless one is given @instead.
 */
void weir__engine_explain(struct weir__engine *eng, bool instead,
			  const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* reactor.c */
int weir__reactor_start(struct weir__reactor *r);
/*
 * Do what there is to do, in a turn that is lent; r->needed: the thread has to
 * do the rest.
 */
void weir__reactor_iterate(struct weir__reactor *r);

/* Any thread. */
void weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg);
/* Post it, and if the thread sleeps do its work: for those who may be held up. */
void weir__reactor_post_or_borrow(struct weir__reactor *r,
				  struct weir__msg *msg);
/* Look again at what was held back. */
void weir__reactor_wake(struct weir__reactor *r);

/*
 * The thread, before it sleeps. True: it has a new eventfd, and a pending read
 * of the old one is useless.
 */
bool weir__reactor_check_wakefd(struct weir__reactor *r);
/* How long the thread may sleep, ns: then it looks whether a wake was lost. */
static inline int64_t weir__reactor_max_sleep(struct weir__reactor *r)
{
	return weir__wakefd_is_lost(&r->wakefd) ? 10000000 : r->eng->max_sleep;
}

/* op.c: for who has the turn */
struct weir__op *weir__op_get(struct weir__reactor *r);
/* False: no slot is free; the op has been given back. */
bool weir__op_start(struct weir__op *op, struct weir__job *job,
		    const struct weir__chunk *chunk, bool fixed);
void weir__op_advance(struct weir__op *op, int64_t res);
/* A read of the page cache by threads: nothing of it is the ring's. */
bool weir__op_is_cached(const struct weir__op *op);
/* The same of all reads of @e. Once true it stays so. */
static inline bool weir__extent_is_cached(const struct weir__extent *e)
{
	return e->buffered ||
	       !atomic_load_explicit(&e->file->direct_ok, memory_order_relaxed);
}
void weir__op_finish(struct weir__op *op, const struct weir__outcome *outcome);
void weir__op_orphan(struct weir__op *op, const struct weir__outcome *outcome);
bool weir__op_add(struct weir__reactor *r);

/* queues.c */
/*
 * True: a device of the job has no queue yet. A reader thread opens it and
 * posts the job then, if need be with a refusal. False: the caller posts it.
 */
bool weir__queues_prepare(struct weir__engine *eng, struct weir__job *job);
/* The root waits no longer for queues to be opened: post the jobs as they are. */
void weir__queues_abandon(struct weir__engine *eng);
/* The reactors have ended. */
void weir__queues_close(struct weir__engine *eng);
struct weir__copy_queue *weir__queue_of(struct weir__reactor *r,
					const struct weir_dev *dev);
/* Why there is none: an errno with a sentence. */
int weir__queue_refused(const struct weir__job *job,
			const struct weir_dev *dev);
void weir__queues_forget(struct weir__job *job);

/*
 * copy.c: between slots and devices. A copy that has ended posts its op to the
 * reactor.
 */
int weir__copy_start(struct weir__op *op);
/* Look for ends, where a device does not tell. True: some are out. */
bool weir__copy_poll(struct weir__reactor *r);

#endif
