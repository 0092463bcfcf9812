/* SPDX-License-Identifier: MIT */
/*
 * The feeder of a device: it brings constant leaves into the device's memory,
 * where some are kept and the others are fed, in the order in which runs need
 * them, through a ring. FEED.md describes its objects, threads and locks.
 */
#ifndef WEIR__GRAPH_FEED_H
#define WEIR__GRAPH_FEED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/stream.h>

#include "core/timeline.h"
#include <weir/backend.h>
#include "graph/compile/imports.h"
#include "io/file.h"
#include "mem/buf.h"

/* Reads and copies that are queued at the same time. */
#define WEIR__FEED_OUT 32u
#define WEIR__FEED_BUCKETS 256u

/* A constant leaf that a device needs in its own memory. */
struct weir__import {
	uint64_t bytes;
	/*
	 * If it is fed, the only node that reads it gets so many bytes of it, some
	 * of its rows; they go to no place. 0: it is read as a whole.
	 */
	uint64_t by_rows;
	uint32_t first, last;   /* the steps of its lane that read it */
	struct weir_file *file; /* NULL: it is placed */
	uint64_t at;            /* offset in the file, or address */
};

/* Where the bytes of a placed import come from: of the schedule. */
struct weir__import_src {
	struct weir_tensor t;     /* its bytes, as U8 */
	struct weir_event *event; /* they are there; NULL: they are */
};

/* A leaf that is kept in the device's memory, for all lists. */
struct weir__kept {
	struct weir__kept *next; /* of the same bucket */
	struct weir_file *file;  /* referenced; NULL: it is placed */
	uint64_t at, bytes;
	struct weir_buf *buf;
	uint64_t offset; /* in buf */
	uint64_t need;   /* bytes of the limit */
	uint32_t refs;   /* lists */
	uint32_t users;  /* lists that schedules use */
	uint64_t list;   /* number of the list that was made last with it */

	/* Under feeder->lock. */
	bool loaded;      /* its bytes are there */
	bool stale;       /* what is loading is out of date */
	uint64_t loading; /* number that brings them; 0: none does */

	/* Under feeder->check_lock: of one in a file. */
	bool ready;   /* it was loaded when the file was asked last */
	bool checked; /* the file had not changed when it was loaded */
};

struct weir__ring {
	uint32_t refs; /* lists; and the feeder, of the newest */
	uint64_t bytes;
	struct weir_buf *buf;
};

/* The address of what is in no memory, well aligned. */
#define WEIR__NOWHERE ((uintptr_t)1 << 20)

/* A fed leaf that the node that needs it can read from the file. */
struct weir__fed_provider {
	struct weir_backend_provider of; /* first member */
	struct weir_file *file;          /* of the list */
	bool nowait; /* this thread may try to read from the page cache */
	uint64_t at;
	uint32_t node; /* the leaf's, for sentences */
	bool aligned;  /* a mapping of the file is, as the place */
};

/* An import in a list: never changes after the compiled graph was made. */
struct weir__fed {
	struct weir__import import; /* its file is referenced */
	struct weir__kept *kept;    /* NULL: it is fed */
	struct weir_buf *buf; /* of @kept, or of the ring; NULL: by rows */
	uint64_t offset;      /* in it */
	struct weir__fed_provider
		*provider; /* NULL: it is always read to its place */
};

/* The imports of one lane of a compiled graph, in the order of first use. */
struct weir__feed_list {
	struct weir__feeder *feeder;
	struct weir__ring *ring; /* NULL: none is fed to a place */
	uint64_t kept_bytes, fed_bytes;
	uint32_t users;       /* schedules; under feeder->store_lock */
	_Atomic bool checked; /* all are kept, and their files were asked */
	uint32_t n;
	struct weir__fed_provider
		*provider; /* one for each; NULL: all are kept */
	struct weir__fed fed[];
};

/*
 * One pass over a list, for one run. The run owns the struct, the feeder uses it
 * from weir__pass_start() to weir__pass_end(). Entry k has number first + k of the
 * the timeline of @feed; it is released when number base + its last step + 1 of @progress is
 * done or failed.
 */
struct weir__pass {
	struct weir__feed *feed; /* referenced */
	const struct weir__feed_list *list;
	const struct weir__import_src *src; /* of each import; NULL: in files */
	struct weir__timeline *progress;
	uint64_t base, first;

	/* Under the feeder's lock. */
	struct weir__pass *next;
	uint32_t queued;   /* entries: the next one to be queued */
	uint32_t released; /* entries before it are released */
	uint64_t bytes;    /* that were fed for it so far */
	uint32_t reads;    /* entries that were queued to be read to the ring */
	uint64_t seen;     /* of progress: done, as the feeder has seen */
};

/* A read or copy that was queued, oldest first. */
struct weir__fed_out {
	uint64_t number, op;        /* of the feed; of its stream */
	struct weir__kept *kept;    /* NULL: in a ring */
	const unsigned char *place; /* the bytes that it writes */
	uint64_t bytes;
};

/*
 * A timeline, and the stream that makes them done, in order. When one
 * fails, it and all later ones have failed, and the feeder makes a new feed.
 */
struct weir__feed {
	struct weir__timeline timeline; /* first member */
	_Atomic uint64_t done;
	_Atomic bool failed; /* numbers over @done, with @cause */
	struct weir_failure cause;
	struct weir_stream *stream;
	/* Of the stream: when the reads of a feed that failed are over; 0: no feed. */
	uint64_t after;
};

struct weir__feed_wait {
	struct weir__waiter waiter;  /* first member */
	struct weir__feeder *feeder; /* referenced meanwhile */
	struct weir__timeline
		*timeline; /* referenced; NULL: it waits for nothing */
};

struct weir__feeder {
	_Atomic uint32_t refs; /* the owner's, and those of waiters on lists */
	struct weir_dev *dev;
	struct weir_buft *buft;
	uint64_t limit; /* bytes of kept leaves and rings; UINT64_MAX: none */

	/* Lists are made and freed by one thread at a time: before @lock. */
	pthread_mutex_t store_lock;
	struct weir__kept *kept[WEIR__FEED_BUCKETS];
	struct weir__ring *ring; /* the newest; NULL: none */
	uint64_t held;           /* bytes of all kept leaves and rings */
	uint64_t lists;          /* number of the newest list */

	pthread_mutex_t
		check_lock; /* files are asked by one thread at a time */

	pthread_mutex_t lock;
	bool moving, again;        /* one thread moves; it shall look again */
	bool closed;               /* queue nothing any more */
	struct weir__feed *feed;   /* referenced; NULL: none yet */
	uint64_t number;           /* the next one that is not given out */
	struct weir__pass *passes; /* of feed, in the order of starts */
	uint32_t n_old;            /* passes of feeds that have failed */
	struct weir__pass
		ahead; /* for the run that may come; list NULL: none */
	struct weir__fed_out out[WEIR__FEED_OUT]; /* a ring of its own */
	uint32_t first_out, n_out;
	struct weir__feed_wait arrival; /* in the stream of the feed */
	struct weir__feed_wait room;    /* in the progress of a run */
};

/* store.c. @limit 0: none. -ENOMEM. */
int weir__feeder_new(struct weir_dev *dev, struct weir_buft *buft,
		     uint64_t limit, struct weir__feeder **ret_feeder);
/* All lists were freed. Reads in flight keep what they need. Never blocks. */
void weir__feeder_free(struct weir__feeder *feeder);
void weir__feeder_put(struct weir__feeder *feeder);

/*
 * Decide which imports are kept and which are fed, and allocate memory for them;
 * nothing is read yet. References files. No step needs two with the same bytes. May
 * block. -ENOMEM with numbers.
 */
int weir__feed_list_new(struct weir__feeder *feeder,
			const struct weir__import *imports, uint32_t n,
			struct weir__feed_list **ret_list);
/* No pass uses it. NULL is allowed. */
void weir__feed_list_free(struct weir__feed_list *list);
/*
 * Set ret_same[i] to the first import with the bytes of import @i: i, if there is no
 * earlier one. -ENOMEM.
 */
int weir__imports_same(const struct weir__import *imports, uint32_t n,
		       uint32_t *ret_same);
/* What a feeder that has nothing yet would decide. */
struct weir__feed_sizes {
	uint64_t kept, fed, ring;
};
int weir__feed_measure(const struct weir__feeder *feeder,
		       const struct weir__import *imports, uint32_t n,
		       struct weir__feed_sizes *ret);
struct weir__feed_sizes
weir__feed_list_sizes(const struct weir__feed_list *list);
/*
 * A schedule begins or ends to use the list. Copies of placed leaves are valid
 * while schedules use them: in between the program may change the leaves.
 */
void weir__feed_list_use(struct weir__feed_list *list);
void weir__feed_list_unuse(struct weir__feed_list *list,
			   const struct weir__import_src *src);

/*
 * feed.c. Append a pass over @list; the caller has filled in @pass from list to
 * base. All passes of a feeder are used in this order. -ENOMEM.
 */
int weir__pass_start(struct weir__pass *pass);
/*
 * Its run has ended: nothing reads its entries any more. Those that are not queued
 * never will be.
 */
void weir__pass_end(struct weir__pass *pass);
/*
 * unchanged.c. A run over @list has read what it needs. -ESTALE with a sentence: a
 * file that it read has changed since it was opened. May block as fstat(2) does.
 */
int weir__feed_list_unchanged(struct weir__feed_list *list);
/* Queue what has become possible. No lock is held. */
void weir__feeder_move(struct weir__feeder *feeder);
/* Drop what was read ahead for @list. */
void weir__feeder_forget(struct weir__feeder *feeder,
			 const struct weir__feed_list *list);
uint64_t weir__pass_bytes(struct weir__pass *pass);

/*
 * provider.c. Make a provider for the only node that reads entry @k of the list; the
 * leaf is node @node. NULL: it cannot. Before the first pass.
 */
struct weir_backend_provider *weir__feed_provider(struct weir__feed_list *list,
						  uint32_t k, uint32_t node);
/*
 * May @fed be left to its node now? It may if it is in the page cache, and nothing
 * that is in flight writes to its place. feeder->lock is held.
 */
bool weir__fed_may_leave(const struct weir__feeder *feeder,
			 const struct weir__fed *fed);
/* Is it fed, and read by rows? Then it is always left to its node. */
static inline bool weir__fed_by_rows(const struct weir__fed *fed)
{
	return !fed->kept && fed->import.by_rows;
}
/*
 * Its turn has come, and no node that is computed meanwhile needs what the answer
 * was before.
 */
void weir__fed_leave(const struct weir__fed *fed, bool leave);
bool weir__fed_is_left(const struct weir__fed *fed);

/*
 * feed_source.c. After @before, if that is not NULL: its reads may still be in
 * flight. -ENOMEM, and errors of weir__stream_new().
 */
int weir__feed_new(struct weir__feeder *feeder, struct weir__feed *before,
		   struct weir__feed **ret_feed);

#endif
