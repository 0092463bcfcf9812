/* SPDX-License-Identifier: MIT */
/*
 * The prefetcher of a device brings constant leaves into the device's memory.
 * Some are kept there. The others are prefetched: each run reads them again, in
 * the order of use and ahead of the steps that need them, into a buffer whose
 * bytes they share. README.md describes the objects, threads and locks.
 */
#ifndef WEIR__GRAPH_PREFETCHER_H
#define WEIR__GRAPH_PREFETCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/stream.h>

#include "core/timeline.h"
#include <weir/backend.h>
#include "graph/prefetch/imports.h"
#include "io/file.h"
#include "mem/buf.h"

struct weir__stream_op;

/*
 * Reads and copies of a prefetcher that are in flight at the same time, at
 * most.
 */
#define WEIR__PREFETCH_OPS 32u
#define WEIR__PREFETCH_BUCKETS 256u

/* A constant leaf that a device needs in its own memory. */
struct weir__import {
	uint64_t bytes;
	/*
	 * Not 0: if the leaf is prefetched, its only reader gets this many
	 * bytes of it, some of its rows, and the leaf has no place in the
	 * buffer.
	 */
	uint64_t by_rows;
	uint32_t first, last;   /* the first and last step that read it */
	struct weir_file *file; /* NULL: the leaf is placed in memory */
	uint64_t at;            /* offset in the file, or address */
};

/*
 * Where the bytes of a placed import come from. It belongs to an executable
 * graph.
 */
struct weir__import_src {
	struct weir_tensor t;     /* the bytes, as U8 */
	struct weir_event *event; /* after which they are valid, or NULL */
};

/*
 * A copy of a leaf that stays in the device's memory and that all lists share.
 */
struct weir__kept_leaf {
	struct weir__kept_leaf *next; /* in the same bucket */
	struct weir_file *file;       /* referenced, or NULL: placed */
	uint64_t at, bytes;
	struct weir_buf *buf;
	uint64_t offset; /* offset of the copy in @buf */
	uint64_t need;   /* bytes that count towards the limit */
	uint32_t refs;   /* lists that have it */
	uint32_t users;  /* lists that executable graphs use */
	uint64_t list;   /* number of the newest list that has it */

	/* Under prefetcher->lock. */
	bool loaded;      /* the copy is complete */
	bool stale;       /* the copy that is in flight is out of date */
	uint64_t loading; /* number of the read in flight; 0: none */

	/* Under prefetcher->check_lock, for a leaf in a file. */
	bool ready;   /* it was loaded when the last check of its file began */
	bool checked; /* its file had not changed when it was loaded */
};

/* The memory into which leaves are prefetched. */
struct weir__prefetch_buffer {
	uint32_t refs; /* lists; the prefetcher references the newest one */
	uint64_t bytes;
	struct weir_buf *buf;
};

/* The address of a leaf that has no memory. It is well aligned. */
#define WEIR__NOWHERE ((uintptr_t)1 << 20)

/* Reads a prefetched leaf from its file for the only node that needs it. */
struct weir__entry_reader {
	struct weir_backend_reader of; /* first member */
	struct weir_file *file;        /* referenced by the list */
	bool nowait;   /* threads may try to read from the page cache first */
	uint64_t at;   /* offset of the leaf in the file */
	uint32_t node; /* number of the leaf, for sentences */
	bool aligned;  /* a mapping of the file is aligned as the node needs */
};

/* An import in a list. It does not change after the list was made. */
struct weir__prefetch_entry {
	struct weir__import import;   /* its file is referenced */
	struct weir__kept_leaf *kept; /* NULL: it is prefetched */
	/* Memory of @kept or the prefetch buffer; NULL: it is read by rows. */
	struct weir_buf *buf;
	uint64_t offset;                   /* in @buf */
	struct weir__entry_reader *reader; /* NULL: always read into @buf */
};

/* The imports of one lane of a compiled graph, in the order of first use. */
struct weir__prefetch_list {
	struct weir__prefetcher *prefetcher;
	struct weir__prefetch_buffer *buffer; /* NULL: no entry needs one */
	uint64_t kept_bytes, prefetched_bytes;
	uint32_t users; /* executable graphs; under prefetcher->store_lock */
	_Atomic bool checked; /* all are kept, and no file had changed */
	uint32_t n;
	struct weir__entry_reader *reader; /* n; NULL: all are kept */
	struct weir__prefetch_entry entry[];
};

/*
 * The prefetch of a list for one run. The run owns the struct; the prefetcher
 * uses it from weir__prefetch_start() to weir__prefetch_end(). Number first + k
 * of @arrivals is done when entry k has arrived. The entry is released when
 * number base + last step + 1 of @progress is done or has failed.
 */
struct weir__prefetch {
	struct weir__arrivals *arrivals; /* referenced */
	const struct weir__prefetch_list *list;
	const struct weir__import_src *src; /* n; NULL: all are in files */
	struct weir__timeline *progress;    /* timeline of the run's lane */
	uint64_t base, first;
	uint64_t parks; /* weir->parks.n when it began */

	/* Under the prefetcher's lock. */
	struct weir__prefetch *next;
	uint32_t queued;   /* entries before this one are queued or skipped */
	uint32_t released; /* entries before this one are released */
	uint64_t bytes;    /* prefetched so far */
	uint32_t reads;    /* entries that were read into the buffer so far */
	uint64_t seen;     /* the highest number of @progress seen done */
};

/* A read or copy in flight. */
struct weir__prefetch_op {
	uint64_t number;              /* its number in the timeline */
	uint64_t op;                  /* its number in the stream */
	struct weir__kept_leaf *kept; /* NULL: it goes into a buffer */
	const unsigned char *place;   /* the bytes that it writes */
	uint64_t bytes;
};

/*
 * A timeline of entries, and the stream whose reads complete its numbers in
 * order. When a read fails, its number and all later ones fail, and the
 * prefetcher makes a new timeline for the next run.
 */
struct weir__arrivals {
	struct weir__timeline timeline; /* first member */
	_Atomic uint64_t done;
	_Atomic bool failed; /* numbers after @done have failed with @cause */
	struct weir_failure cause;
	struct weir_stream *stream;
	/*
	 * The number of @stream at which the reads of an earlier timeline have
	 * ended; 0: there were none.
	 */
	uint64_t after;
};

/* A wait of the prefetcher for a number of a timeline. */
struct weir__prefetch_wait {
	struct weir__waiter waiter;          /* first member */
	struct weir__prefetcher *prefetcher; /* referenced while it waits */
	struct weir__timeline *timeline;     /* referenced; NULL: it does not
						wait */
};

struct weir__prefetcher {
	_Atomic uint32_t refs; /* the owner's, and one for each wait */
	struct weir_dev *dev;
	struct weir_buft *buft;
	uint64_t limit; /* bytes of copies and buffers; UINT64_MAX: no limit */

	/* Held while a list is made or freed. @lock is taken inside. */
	pthread_mutex_t store_lock;
	struct weir__kept_leaf *kept[WEIR__PREFETCH_BUCKETS];
	struct weir__prefetch_buffer *buffer; /* the newest, or NULL */
	uint64_t held;                        /* bytes of copies and buffers */
	uint64_t lists;                       /* number of the newest list */

	pthread_mutex_t check_lock; /* held while files are checked */

	pthread_mutex_t lock;
	bool moving;                     /* a thread advances the prefetcher */
	bool again;                      /* the same thread has to look again */
	bool closed;                     /* nothing is queued any more */
	struct weir__arrivals *arrivals; /* referenced, or NULL */
	uint64_t number;                 /* the next free one of @arrivals */
	struct weir__prefetch *prefetches; /* those of @arrivals, as started */
	uint32_t n_old; /* prefetches of earlier timelines that have not
			   ended */
	struct weir__prefetch ahead; /* the next run's; list NULL: none */
	struct weir__prefetch_op out[WEIR__PREFETCH_OPS]; /* a circular queue */
	uint32_t first_out, n_out;
	struct weir__prefetch_wait arrival; /* waits for the oldest read */
	struct weir__prefetch_wait room; /* waits for the release of an entry */
};

/* store.c: @limit 0: no limit. -ENOMEM. */
int weir__prefetcher_new(struct weir_dev *dev, struct weir_buft *buft,
			 uint64_t limit,
			 struct weir__prefetcher **ret_prefetcher);
void weir__prefetcher_put(struct weir__prefetcher *prefetcher);

/*
 * Decide which imports are kept and which are prefetched, and allocate memory
 * for them. Nothing is read yet. No step may need two imports with the same
 * bytes. The list references the files. May block. -ENOMEM with both numbers.
 */
int weir__prefetch_list_new(struct weir__prefetcher *prefetcher,
			    const struct weir__import *imports, uint32_t n,
			    struct weir__prefetch_list **ret_list);
/* No prefetch may use the list. NULL is allowed. */
void weir__prefetch_list_free(struct weir__prefetch_list *list);
/*
 * Set ret_same[i] to the first import with the same bytes as import @i, which
 * may be @i itself. -ENOMEM.
 */
int weir__imports_same(const struct weir__import *imports, uint32_t n,
		       uint32_t *ret_same);

struct weir__prefetch_sizes {
	uint64_t kept, prefetched, buffer;
};
struct weir__prefetch_sizes
weir__prefetch_list_sizes(const struct weir__prefetch_list *list);
/* The sizes of a list that a prefetcher without any other list would make. */
int weir__prefetch_measure(const struct weir__prefetcher *prefetcher,
			   const struct weir__import *imports, uint32_t n,
			   struct weir__prefetch_sizes *ret);
/*
 * An executable graph begins or ends to use the list. Copies of placed leaves
 * are valid while one uses it; afterwards the program may change the leaves.
 */
void weir__prefetch_list_use(struct weir__prefetch_list *list);
void weir__prefetch_list_unuse(struct weir__prefetch_list *list,
			       const struct weir__import_src *src);

/*
 * prefetcher.c: free it after all lists were freed. What is in flight keeps
 * what it needs. Never blocks. NULL is allowed.
 */
void weir__prefetcher_free(struct weir__prefetcher *prefetcher);
/*
 * Let the operation @op of a run that is being started hold the placed leaves
 * that are copied for it, so that their memory is not released before the run
 * has ended. -ENODATA: one is parked. -ENOMEM.
 */
int weir__prefetch_hold(const struct weir__prefetch_list *list,
			const struct weir__import_src *src,
			struct weir__stream_op *op);
/*
 * Start a prefetch; the caller has filled in the members from @list to @base.
 * The prefetches of a prefetcher are served in the order of their starts.
 * -ENOMEM.
 */
int weir__prefetch_start(struct weir__prefetch *prefetch);
/*
 * The run has ended and reads no entry any more. Entries that are not queued
 * yet will not be.
 */
void weir__prefetch_end(struct weir__prefetch *prefetch);
uint64_t weir__prefetch_bytes(struct weir__prefetch *prefetch);
/* Drop what was read ahead for @list. */
void weir__prefetcher_forget(struct weir__prefetcher *prefetcher,
			     const struct weir__prefetch_list *list);
/*
 * A run that used @list has computed its last step. -ESTALE with a sentence: a
 * file that it read has changed since it was opened. May block as fstat(2)
 * does.
 */
int weir__prefetch_list_check_files(struct weir__prefetch_list *list);

/*
 * entry_reader.c: make a reader of entry @k for the only node that needs it,
 * before the first prefetch. @node: number of the leaf. NULL: the entry cannot
 * be read by a node.
 */
struct weir_backend_reader *
weir__prefetch_list_reader(struct weir__prefetch_list *list, uint32_t k,
			   uint32_t node);
/*
 * True if the node may read the entry itself now: the file is in the page
 * cache, and nothing in flight writes to the entry's place. prefetcher->lock is
 * held.
 */
bool weir__entry_may_read_through(const struct weir__prefetcher *prefetcher,
				  const struct weir__prefetch_entry *entry);
/*
 * True if the entry is prefetched by rows, which its node always reads itself.
 */
static inline bool weir__entry_by_rows(const struct weir__prefetch_entry *entry)
{
	return !entry->kept && entry->import.by_rows;
}
/* Let the node read the entry itself in the coming run, or not. */
void weir__entry_set_read_through(const struct weir__prefetch_entry *entry,
				  bool read_through);
bool weir__entry_reads_through(const struct weir__prefetch_entry *entry);

#endif
