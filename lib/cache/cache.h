/* SPDX-License-Identifier: MIT */
/*
 * The cache of a root: a folder with copies of objects that were opened by
 * URLs. An object that is whole there is opened as a file of this machine. Any
 * other is read through the cache: blocks that are there come from the folder,
 * the others from the source, and are written to the folder later, by a thread
 * of the cache.
 *
 * Nothing that fails here is a failure of a read: the object is then read from
 * its source, and the log has a line.
 */
#ifndef WEIR__COPIES_H
#define WEIR__COPIES_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/source.h>

#include "cache/partial.h"
#include "core/root.h"

enum weir__copies_way {
	WEIR__COPIES_NONE,  /* the cache does not have it, and will not */
	WEIR__COPIES_FILE,  /* it is whole: open ret->path */
	WEIR__COPIES_OBJECT /* it is read through ret->object */
};

struct weir__copies_found {
	char path[PATH_MAX];
	/* The object, which has that of the source, and its functions. */
	void *object;
	struct weir_source ops;
};

/*
 * Look for an object that @source has opened. With WEIR__COPIES_OBJECT the
 * cache has @object from then on. Blocks for the disk.
 */
enum weir__copies_way weir__copies_find(struct weir *weir,
					const struct weir_source *source,
					void *object,
					const struct weir_source_info *info,
					struct weir__copies_found *ret);

/*
 * How many bytes of a read of an object that has ended came from the cache.
 * @ops: the object's functions, of any source.
 */
uint64_t weir__copies_found(const struct weir_source *ops,
			    const struct weir_source_read *read);

/* The rest is for the files of this folder. */

#define WEIR__COPIES_NAME 80u /* bytes of a name without its suffix */

/*
 * The files of an object. KEY follows from its description, WHOLE from its
 * SHA-256 or, without one, its description, too: a file that was compared with
 * its SHA-256 is found by any name.
 */
struct weir__copies_names {
	char whole[WEIR__COPIES_NAME]; /* the file, when it is whole */
	char used[WEIR__COPIES_NAME];  /* empty; its time: last used */
	char part[WEIR__COPIES_NAME], state[WEIR__COPIES_NAME];
};

struct weir__cached;

/* Bytes that were read from a source, and are to be written. */
struct weir__copies_write {
	struct weir__copies_write *next;
	struct weir__cached *cached; /* referenced */
	uint64_t off, len;
	bool closed; /* no bytes: the object was closed */
	/* Of a read of the cache's own. */
	struct weir_source_read read;
	bool cancelled;
	size_t room;          /* bytes of this memory */
	unsigned char *bytes; /* in a page as in the file: for O_DIRECT */
};

/* A read of bytes that are in the folder; priv[] of a struct that has it. */
struct weir__copies_read {
	struct weir__copies_read *next;
	void (*run)(struct weir__copies_read *read);
};

/*
 * A read of a source that has its bytes, and ends when there is room for a copy
 * of them in the queue of writes; priv[] of a struct that has it.
 */
struct weir__copies_held {
	struct weir__copies_held *next;
	struct weir__cached *cached;
	uint64_t off, len;
	const void *bytes;
	/* End the read. The struct may be gone then. */
	void (*end)(struct weir__copies_held *held);
	int64_t until; /* it ends then, and its bytes are not written */
	/* The lock of the cache guards both. */
	bool is_held, cancelled;
};

#define WEIR__COPIES_READERS 2u

struct weir__copies {
	struct weir__part part;
	struct weir *weir;
	char *path;
	int dir;
	uint64_t limit;       /* bytes of the folder; 0: none */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t cond;
	struct weir__copies_write *write, **write_end;
	struct weir__copies_read *read, **read_end;
	struct weir__copies_held *held, **held_end; /* in order of until */
	struct weir__copies_write *fill; /* reads of its own, not ended */
	uint64_t waiting; /* bytes of writes that are queued, and of fills */
	/* Memory of writes that were done, until an object is closed. */
	struct weir__copies_write *spare;
	uint64_t spare_bytes;
	bool slow;          /* a read was held too long: none is held until
			       all that waits is written */
	bool stop;          /* no thread starts any more; those that run end */
	int64_t until;      /* and whole files are not compared after this */
	int64_t fill_until; /* fills are cancelled then */
	bool started;
	unsigned n_threads;
	pthread_t thread[1 + WEIR__COPIES_READERS];
};

/*
 * cached_object.c. Make an object that is read through the cache. It has
 * @object and @partial from then on. NULL: no memory.
 */
struct weir__cached *weir__cached_new(struct weir__copies *cache,
				      const struct weir_source *source,
				      void *object,
				      const struct weir_source_info *info,
				      struct weir__partial *partial,
				      const struct weir__copies_names *names,
				      struct weir_source *ret_ops);
void weir__cached_ref(struct weir__cached *cached);
/* Drop a reference. The last one closes the source's object. */
void weir__cached_put(struct weir__cached *cached);

/* cached_write.c: the thread that writes. */
/* Write bytes that were read; look whether the object is whole. */
void weir__cached_write(struct weir__cached *cached,
			const struct weir__copies_write *write);

/* cache_work.c */
/* Start the threads. False: not all run, or they have ended. */
bool weir__copies_start(struct weir__copies *cache);
/*
 * Write what is queued, and end the threads. Reads of the cache's own that have
 * not ended some seconds later are cancelled.
 */
void weir__copies_end(struct weir__copies *cache, int64_t deadline);
/* Let the thread that writes look whether an object is whole. */
void weir__copies_look(struct weir__cached *cached);
/*
 * Queue a copy of the bytes of a read. True: too many wait, and the read is
 * held: its function end is called later, by another thread. Does not block.
 */
bool weir__copies_keep(struct weir__copies_held *held);
/*
 * Hold the read no longer, and not if it is to be held later. True: it was
 * held, and the caller has to end it.
 */
bool weir__copies_let_go(struct weir__copies_held *held);
/* Queue that the library has closed the object. Does not block. */
void weir__copies_closed(struct weir__cached *cached);
/*
 * Read bytes from the source, unless too many wait, and queue them. For the
 * thread that writes.
 */
void weir__copies_fill(struct weir__cached *cached, uint64_t off, uint64_t len);
/* Queue a read. False: the threads have ended. */
bool weir__copies_queue(struct weir__copies *cache,
			struct weir__copies_read *read);
/* Threads should end soon. */
bool weir__copies_stops(struct weir__copies *cache);
/* cache.c. Note that a whole file is used now. */
void weir__copies_touch(struct weir__copies *cache, const char *used);

/*
 * cache_room.c. Remove what was used least recently and is not in use, until
 * there is room for @bytes more; -ENOSPC: there is not. *ret_lock is then a
 * lock of the folder, which the caller closes when its new file has its size:
 * until then no other process counts the files. Without a limit it is not set.
 */
int weir__copies_make_room(struct weir__copies *cache, uint64_t bytes,
			   int *ret_lock);

/* An object that is read through the cache. */
struct weir__cached {
	struct weir__copies *cache;
	_Atomic uint32_t refs; /* the library's, and one of each write */
	struct weir_source ops;
	void *object;
	struct weir__partial *partial;
	struct weir__copies_names names;
	char name[512], sha256[72];
	uint64_t bytes, request_bytes;
	pthread_mutex_t lock; /* guards priv[0] of reads: cancel and done */
	_Atomic bool broken;  /* nothing is written any more */
	/* Of the thread that writes. */
	bool ended;    /* it is whole, or somebody else makes it whole */
	uint32_t next; /* blocks before it are there */
	struct weir__cached_edge *edge; /* blocks of which a part is there */
	unsigned n_edges;
};

#endif
