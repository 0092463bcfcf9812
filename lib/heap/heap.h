/* SPDX-License-Identifier: MIT */
/*
 * The structs and the functions that the files of this folder share. README.md
 * has the states of a block and the order of the locks.
 */
#ifndef WEIR__HEAP_H
#define WEIR__HEAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/heap.h>

#include "core/timeline.h"
#include "heap/bins.h"
#include "heap/lock.h"
#include "stream/stream.h"

#define WEIR__THREADS 128u        /* threads that have caches at a time */
#define WEIR__HEAP_REGIONS 16384u /* buffers of one heap */
#define WEIR__STREAM_BINS 65535u
#define WEIR__HEAP_MAX ((uint64_t)1 << 47) /* largest size and alignment */

/* From this size on a block is taken only after caches were flushed. */
#define WEIR__VERY_LARGE ((uint64_t)16 << 20)

#define WEIR__DEPS 8u       /* streams that one allocation waits for */
#define WEIR__CACHE_BITS 2u /* log2 of the caches of one thread */
/* A cache keeps blocks of less than this many units. */
#define WEIR__CACHE_UNITS 1024u
#define WEIR__CACHE_BINS 320u

/* One buffer of a heap. */
struct weir__region {
	struct weir_buf *buf; /* referenced */
	uint64_t base;        /* address of the buffer */
	uint64_t lo, bytes;   /* the part that is divided into blocks */
	uint64_t top;         /* highest end of a used block so far */
	uint32_t first; /* lowest block; only a consolidation replaces it */
	uint16_t index; /* in h->region */
	bool given;     /* it is opts.buf: never given back */
	size_t granule; /* of reserved addresses (holes.c); else 0 */
};

/*
 * Free blocks of a shard whose free events are in one stream. Stream bin 0 has
 * no stream: any stream may use its blocks. The lock of the shard guards all
 * members.
 */
struct weir__stream_bin {
	struct weir__size_bins bins;
	uint64_t bytes;          /* in the bins */
	uint32_t oldest, newest; /* queue of the blocks, by free event */
	uint16_t index;          /* in shard->bin */
	struct weir_heap *heap;
	/* The stream bin of the root shard references the stream's source. */
	struct weir_stream *stream;
	struct weir__stream_bin *next; /* in the list of the same hash */
	/*
	 * In a managed stream a free event is a number of the stream. In a
	 * native stream the program queues work that has no number: there a
	 * free event is a count of frees, and a marker in the stream stands for
	 * the events up to `marked`.
	 */
	bool native;
	uint64_t frees;          /* so far */
	uint64_t ended;          /* free events up to this one are done */
	uint64_t marked, marker; /* marker: its number in the stream; 0: none */
	uint64_t ended_marker; /* the marker that showed that `ended` is done */
	/* Neighbours in shard->busy, the list of stream bins with memory. */
	struct weir__stream_bin *busy_prev, *busy_next;
	/* Only stream bins of the root shard use the rest: stream_bins.c. */
	struct weir__stream_keeper keeper;
	struct weir__waiter on_stream_end; /* after the stream was freed */
	struct weir__waiter on_heap_end;
	unsigned users;    /* calls that use the stream bin without the lock */
	bool stream_freed; /* by the program */
	bool awaited;      /* on_stream_end waits, or is about to */
};

/*
 * Used bytes and blocks, and calls so far. A block may be allocated in one
 * tally and freed in another, so only the sum of all tallies is right, modulo
 * 2^64.
 */
struct weir__tally {
	uint64_t bytes, blocks, allocs, frees;
};

/*
 * Memory that is divided under one lock. The root shard has the buffers.
 * Threads that contend for its lock get shards of their own, which divide large
 * blocks of the root shard (spans): shards.c.
 */
struct weir__shard {
	struct weir__lock lock; /* guards all members */
	struct weir_heap *heap;
	uint16_t index; /* 0: the root shard; else 1 + the thread's place */
	struct weir__spares spares;
	/* A stream has the same index in all shards; NULL: no stream bin. */
	struct weir__stream_bin **bin;
	size_t n_bins, cap_bins, used_bins;
	/* Only of the root shard: indices of stream bins that were freed. */
	uint16_t *holes;
	size_t n_holes, cap_holes;
	/* A hash table by stream, of 1 << stream_bits lists; NULL: none yet. */
	struct weir__stream_bin **by_stream;
	unsigned stream_bits;
	struct weir__stream_bin *busy, *busy_last; /* stream bins with memory */
	uint64_t taken, taken_peak; /* bytes that are in no bin */
	struct weir__tally tally;
	/* Only of a thread's shard. */
	uint64_t bytes; /* bytes of its spans */
	uint64_t most;  /* bytes of the largest block that it allocates */
	uint32_t spans; /* newest span: the number of its block in the root
			   shard */
	uint32_t whole; /* a block that is, or was, a whole span and free */
};

/* Free blocks of one stream, which a thread keeps to allocate them again. */
struct weir__cache {
	struct weir_stream *stream; /* in which all of them were freed */
	uint32_t n;                 /* blocks */
	uint32_t misses;            /* calls with another stream, in a row */
	uint64_t bytes, limit;      /* bytes */
	uint32_t hand; /* bin from which the next block is evicted */
	uint64_t used[WEIR__CACHE_BINS /
		      64];              /* one bit for each bin with blocks */
	uint32_t bin[WEIR__CACHE_BINS]; /* newest block of each size */
	uint16_t count[WEIR__CACHE_BINS];
};

/*
 * The caches of one thread, their owner. The owner accesses them while they are
 * busy and not revoked, or under the heap's lock. Another thread accesses them
 * under the heap's lock while they are revoked and not busy: thread_cache.c.
 */
struct weir__caches {
	_Alignas(64) _Atomic uint32_t busy;
	_Atomic uint32_t revoked;
	uint16_t index; /* in h->thread: the thread's place */
	/*
	 * Guarded by the heap's lock: how often another thread had that lock;
	 * h->locked at the last time; the thread's shard, which is set once.
	 */
	unsigned contended;
	uint64_t locked;
	struct weir__shard *shard;
	struct weir__tally tally;
	struct weir__cache cache[1u << WEIR__CACHE_BITS]; /* by stream */
};

struct weir__block_index;
struct weir__call_record;

struct weir_heap {
	_Atomic uint32_t refs; /* the caller's, and one of each waiter */
	/* How often memory that it did not use was taken from this heap. */
	_Atomic uint32_t n_given;
	struct weir *weir; /* referenced */
	struct weir_buft *buft;
	uint64_t grow, limit;
	uint32_t flags, reuse;
	int (*on_full)(void *arg, uint64_t bytes);
	void *on_full_arg;
	char label[64]; /* "a heap of CPU", in error sentences */

	/* While calls are recorded, caches keep nothing. */
	_Atomic(struct weir__call_record *) record;
	bool membarrier;              /* membarrier(2) works */
	_Atomic uint64_t cached_most; /* bytes of the largest block in caches */
	_Atomic bool sharded; /* a thread uses a shard; set under the lock */
	/*
	 * Used blocks by address; NULL: no index. Set once, after a
	 * consolidation.
	 */
	_Atomic(struct weir__block_index *) index;
	struct weir__block_table blocks;
	/* Each is set once, under the lock. */
	_Atomic(struct weir__caches *) thread[WEIR__THREADS];
	struct weir__region **region; /* WEIR__HEAP_REGIONS; NULL: unused */
	struct weir__region *holes;   /* reserved addresses; NULL: none */

	_Alignas(64) pthread_mutex_t grow_lock; /* held to allocate a buffer */
	/*
	 * Its lock, "the heap's lock", also guards the entries of region, and:
	 */
	struct weir__shard root;
	unsigned n_regions, end_regions;
	uint64_t reserved, reserved_peak;
	uint64_t span; /* sum over buffers that were given back */
	uint64_t failures, waits, grown;
	unsigned n_open; /* shards of threads that may have memory */
	uint64_t locked; /* calls that took the lock */
	bool ended;      /* weir_heap_destroy() was called */
	/* Guarded by the lock of the list of heaps (unused.c). */
	struct weir_heap *heaps_prev, *heaps_next;
	unsigned visitors; /* calls that visit the heap now */
	bool delisted;     /* not visited any more */
};

/* What a call of weir_heap_alloc() needs, and the free events it waits for. */
struct weir__want {
	uint64_t bytes, align;
	struct weir__stream_bin *bin; /* bin of the call's stream */
	/*
	 * Free events whose memory the stream may use. It waits for the first
	 * n_queued already. Each counts as one of the users of its stream bin.
	 */
	struct weir__dep {
		struct weir__stream_bin *bin;
		uint64_t number;
	} dep[WEIR__DEPS];
	unsigned n_deps, n_queued;
	/* Indices of stream bins for which it cannot wait without blocking. */
	uint16_t refused[WEIR__DEPS];
	unsigned n_refused;
};

/*
 * blocks.c. The caller holds the lock of the shard that has the block. These
 * put a block into the bins of its stream bin, or remove it.
 */
void weir__shard_add(struct weir__shard *s, struct weir__block *b);
void weir__shard_del(struct weir__shard *s, struct weir__block *b);
/*
 * Merge a block that is in no bin with its free neighbours, and add the result.
 */
void weir__shard_merge(struct weir__shard *s, struct weir__block *b);
/*
 * Free a block that is in no bin. Its free event is now; it is merged with its
 * neighbours in @bin.
 */
void weir__shard_give(struct weir__shard *s, struct weir__block *b,
		      struct weir__stream_bin *bin);

/* True if the stream may use the free block @b, after the waits in w->dep. */
static inline bool weir__want_allows(const struct weir__want *w,
				     const struct weir__block *b)
{
	if (!b->bin || b->bin == w->bin->index)
		return true;
	for (unsigned i = 0; i < w->n_deps; i++)
		if (w->dep[i].bin->index == b->bin)
			return b->number <= w->dep[i].number;
	return false;
}

/* How hard an allocation looks for memory. */
enum weir__effort {
	WEIR__TAKE_BEST, /* the best fit */
	/* The best fit, unless a flush of caches may save memory. */
	WEIR__TAKE_FIRST,
	/*
	 * Any memory that was used before; neighbours are joined, which takes
	 * linear time. A small block may also get memory that is new.
	 */
	WEIR__TAKE_USED,
	/* As before, and new memory too. */
	WEIR__TAKE_ANY
};
/*
 * Take memory that the stream may use now, or after the waits in w->dep. NULL:
 * there is none. The caller has reserved two block records.
 */
struct weir__block *weir__shard_take(struct weir__shard *s,
				     const struct weir__want *w,
				     enum weir__effort effort);
/*
 * Take a span of w->bytes. If only memory that was never used has a block of
 * this size, a smaller span of used memory is preferred, but not under @least
 * bytes. w->align is the heap's unit.
 */
struct weir__block *weir__shard_take_span(struct weir__shard *s,
					  struct weir__want *w, uint64_t least);
/*
 * Find free memory that the stream may use after waits, and add the free events
 * to w->dep. @several: look for several neighbours, not for one block. False:
 * there is none. Takes linear time.
 */
bool weir__shard_after_waits(struct weir__shard *s, struct weir__want *w,
			     bool several);

/* shards.c. This thread has waited for the heap's lock, and has it now. */
void weir__heap_contended(struct weir_heap *h);
/* Take the heap's lock, and note whether another thread had it. */
static inline void weir__heap_lock(struct weir_heap *h)
{
	bool contended = weir__lock(&h->root.lock);

	h->locked++;
	if (contended)
		weir__heap_contended(h);
}

static inline void weir__heap_unlock(struct weir_heap *h)
{
	weir__unlock(&h->root.lock);
}

/*
 * Take the heap's lock and consolidate. Until the lock is released only the
 * root shard has memory.
 */
void weir__heap_lock_all(struct weir_heap *h);
/*
 * Give a block that is in no bin, nor in the index, back to its shard. The
 * heap's lock is held; @bin is of the root shard.
 */
void weir__shards_give(struct weir_heap *h, struct weir__block *b,
		       struct weir__stream_bin *bin);
static inline void weir__block_give(struct weir_heap *h, struct weir__block *b,
				    struct weir__stream_bin *bin)
{
	if (h->n_open)
		weir__shards_give(h, b, bin);
	else
		weir__shard_give(&h->root, b, bin);
}
/*
 * Lock the thread's shard that has the block, which is not free. NULL: the root
 * shard has it, or will have it when the heap's lock is taken.
 */
struct weir__shard *weir__shard_lock(struct weir_heap *h,
				     const struct weir__block *b);
/* May also give a span back, for which it takes the heap's lock. */
void weir__shard_unlock(struct weir__shard *s);
/*
 * Take memory of this thread's shard, and return with the shard locked. NULL:
 * the shard has no such memory, and nothing is locked. The caller holds no
 * lock. @own are the thread's caches, or NULL.
 */
struct weir__shard *weir__shard_take_own(struct weir_heap *h,
					 struct weir__caches *own,
					 const struct weir__want *w,
					 struct weir_stream *stream,
					 struct weir__block **ret_block);
/*
 * If this thread contends for the heap's lock, take memory of its shard, which
 * gets another span if need be. NULL: take memory of the root shard. The heap's
 * lock is held; w->bin is of the root shard.
 */
struct weir__block *weir__shard_take_new(struct weir_heap *h,
					 const struct weir__want *w);
/* Make this thread use a shard until the next consolidation. Only for tests. */
int weir__shard_want(struct weir_heap *h);
void weir__shards_free(struct weir_heap *h);

/*
 * stream_bins.c. The caller holds the lock of the shard, unless a comment says
 * otherwise. Find the stream bin of @stream; NULL: there is none.
 */
struct weir__stream_bin *
weir__stream_bin_find(struct weir__shard *s, const struct weir_stream *stream);
/* Find or make the stream bin of @stream in the root shard. -ENOMEM. */
int weir__stream_bin_get(struct weir_heap *h, struct weir_stream *stream,
			 struct weir__stream_bin **ret_bin);
/*
 * Find or make the stream bin of a thread's shard for the stream of @of, which
 * is of the root shard. NULL: no memory. The heap's lock is held too.
 */
struct weir__stream_bin *
weir__stream_bin_share(struct weir__shard *s,
		       const struct weir__stream_bin *of);
/* Free all stream bins of a shard, which are empty. */
void weir__stream_bins_free(struct weir__shard *s);
/*
 * Link a stream bin into shard->busy when it gets its first memory, or unlink
 * it.
 */
void weir__stream_bin_filled(struct weir__shard *s,
			     struct weir__stream_bin *bin);
void weir__stream_bin_emptied(struct weir__shard *s,
			      struct weir__stream_bin *bin);
/* Decrement bin->users, which may free the stream bin. No lock is held. */
void weir__stream_bin_release(struct weir__stream_bin *bin);
/*
 * End the heap: drop the caller's reference, and keep one for each stream until
 * its work has ended. No lock is held.
 */
void weir__stream_bins_end(struct weir_heap *h);
void weir__heap_put(struct weir_heap *h);
/* The same, but calls no function of the program. */
void weir__heap_put_quietly(struct weir_heap *h);

/*
 * free_events.c. The caller holds the lock of the shard, unless a comment says
 * otherwise. The free event of a block that is freed now.
 */
uint64_t weir__free_event_now(struct weir__stream_bin *bin);
/*
 * True if all work before the free event has ended: any stream may use the
 * block.
 */
bool weir__free_event_done(struct weir__stream_bin *bin, uint64_t number);
/* Move at most @most blocks whose free events are done to stream bin 0. */
void weir__stream_bin_drain(struct weir__shard *s, struct weir__stream_bin *bin,
			    unsigned most);
/*
 * Drain all stream bins, and queue markers in native streams: some, or as many
 * as are needed (@all). No lock is held.
 */
void weir__free_events_poll(struct weir_heap *h, bool all);
/* Drain all stream bins, without markers. No lock is held. */
void weir__free_events_drain(struct weir_heap *h);
/*
 * Make the stream wait for the new events in w->dep. False: it cannot wait for
 * one of them, whose stream bin is now in w->refused. No lock is held.
 */
bool weir__free_events_wait(struct weir_heap *h, struct weir__want *w);
/* Drop the events in w->dep from number @n on. No lock is held. */
void weir__want_forget(struct weir__want *w, unsigned n);

/*
 * region.c. Take over the reference to @buf. @granule: it has reserved
 * addresses, which are one hole; else 0. The heap's lock is held.
 */
int weir__region_add(struct weir_heap *h, struct weir_buf *buf, bool given,
		     size_t granule);
/* Allocate a buffer for @w, or commit memory. Only h->grow_lock is held. */
int weir__heap_grow(struct weir_heap *h, const struct weir__want *w);
/* Bytes of a buffer that has room for @w, whatever the buffer's address. */
uint64_t weir__heap_need(const struct weir_heap *h, const struct weir__want *w);
/*
 * Give empty buffers and free granules back, until @keep bytes are left.
 * Returns how many bytes were given back. No lock is held.
 */
uint64_t weir__regions_trim(struct weir_heap *h, uint64_t keep);
/* The bytes of all of them. The heap's lock is held, after a consolidation. */
uint64_t weir__regions_empty(struct weir_heap *h);
/* Free all buffers at the heap's end. */
void weir__regions_free(struct weir_heap *h, bool quietly);

/*
 * holes.c. Reserve @bytes of addresses, in which the heap grows from now on. No
 * lock is held. -EOPNOTSUPP: the memory cannot be committed in parts.
 */
int weir__holes_make(struct weir_heap *h, uint64_t bytes);
/*
 * Commit memory for @w where that takes the fewest bytes. Only h->grow_lock is
 * held. -ENOMEM: nothing has changed.
 */
int weir__holes_grow(struct weir_heap *h, const struct weir__want *w);
/* As weir__regions_empty() and weir__regions_trim(), for granules. */
uint64_t weir__holes_possible(struct weir_heap *h);
uint64_t weir__holes_give_back(struct weir_heap *h, uint64_t keep);

/*
 * unused.c. Add a new heap to the list of those that give back what they do not
 * use, and take it off. No lock is held. -ENOMEM.
 */
int weir__heap_list(struct weir_heap *h);
void weir__heap_delist(struct weir_heap *h);
/*
 * Give empty buffers and free granules back until @keep bytes are left; returns
 * the bytes. No lock of the heap is held. Others that need memory wait for it.
 */
uint64_t weir__heap_give_back(struct weir_heap *h, uint64_t keep);
/*
 * This thread is about to allocate memory for @h, @less_would_do: more than is
 * needed; or NULL: it has ended that.
 */
void weir__heap_growing(const struct weir_heap *h, bool less_would_do);

/*
 * thread_cache.c. The bytes of a block for @size: a multiple of the unit,
 * rounded up to a size of the caches if they keep such blocks.
 */
uint64_t weir__cache_bytes(const struct weir_heap *h, size_t size);
/*
 * Allocate a block that this thread's cache keeps. False: it keeps no such
 * block.
 */
bool weir__cache_take(struct weir_heap *h, size_t size,
		      struct weir_stream *stream, struct weir_block *ret_block);
/*
 * Hand a block that was taken out of bins to the program. The lock of @s is
 * held, whose tally counts it. @own are this thread's caches, or NULL.
 */
void weir__block_hand_out(struct weir__shard *s, const struct weir__caches *own,
			  struct weir__block *b, struct weir_block *ret_block);
/* Find the program's block. NULL: it is not in use. */
struct weir__block *weir__block_of(struct weir_heap *h,
				   const struct weir_block *block);
/* Describe a block that is in the index. False: it is not in use. */
bool weir__block_describe(const struct weir_heap *h,
			  const struct weir__block *b,
			  struct weir_block *ret_block);
/*
 * Take the program's block back; NULL: it is not in use. The caller then frees
 * it. The lock of @s is held, whose tally counts it.
 */
struct weir__block *weir__block_take_back(struct weir__shard *s,
					  const struct weir_block *block);
/*
 * Take the program's block back and keep it in a cache. False: the cache does
 * not keep it. The caller has to free *ret_evicted, unless it is NULL.
 */
bool weir__cache_keep(struct weir_heap *h, const struct weir_block *block,
		      struct weir_stream *stream,
		      struct weir__block **ret_evicted);
/* This thread's caches, or NULL. */
struct weir__caches *weir__caches_own(struct weir_heap *h);
/* Make them if need be. NULL: no memory. The heap's lock is held. */
struct weir__caches *weir__caches_make(struct weir_heap *h);
/*
 * After a miss: true if this thread's cache need not change to the stream now.
 * No lock is held.
 */
bool weir__cache_has_stream(const struct weir_heap *h, struct weir__caches *own,
			    const struct weir_stream *stream);
/*
 * After a miss: let this thread's cache keep blocks that are freed in the
 * stream of @bin, which is of the root shard, and give back what it keeps over
 * its limit. The heap's lock is held. Returns the thread's caches, or NULL.
 */
struct weir__caches *weir__cache_adopt(struct weir_heap *h,
				       struct weir__stream_bin *bin);
/*
 * Give back what this thread's caches keep, or those of all. No lock is held.
 */
void weir__cache_flush_own(struct weir_heap *h);
void weir__caches_flush(struct weir_heap *h);
/*
 * Keep the owners out of all caches, until weir__caches_restore(). The heap's
 * lock is held all the time.
 */
void weir__caches_revoke(struct weir_heap *h);
void weir__caches_restore(struct weir_heap *h);
/*
 * Meanwhile: give back what caches keep of a stream, whose stream bin will be
 * freed.
 */
void weir__caches_drop_stream(struct weir_heap *h,
			      const struct weir_stream *stream);
void weir__caches_free(struct weir_heap *h);
void weir__caches_add_stats(struct weir_heap *h, struct weir_heap_stats *s);

/* heap.c. The heap's lock is held, after a consolidation. */
void weir__heap_describe(struct weir_heap *h, struct weir_heap_stats *s);

/*
 * block_index.c. Called by weir__block_index_add() and _del() if the heap has
 * an index. The lock of the shard that has the block is held.
 */
void weir__block_index_insert(struct weir_heap *h, struct weir__block *b);
void weir__block_index_remove(struct weir_heap *h, struct weir__block *b);
/*
 * Describe the used block that begins at @addr. False: there is none. The heap
 * has an index; no lock is held.
 */
bool weir__block_index_find(struct weir_heap *h, uint64_t addr,
			    struct weir_block *ret_block);
/* Make the index. The heap's lock is held, after a consolidation. -ENOMEM. */
int weir__block_index_make(struct weir_heap *h);
void weir__block_index_free(struct weir_heap *h);

/* record.c. The heap's lock is held. Block 0 records a call that failed. */
void weir__record_alloc(struct weir_heap *h, uint32_t block, size_t size,
			size_t align, const struct weir_stream *stream);
void weir__record_free(struct weir_heap *h, uint32_t block,
		       const struct weir_stream *stream);
int weir__record_end(struct weir_heap *h);

static inline struct weir__caches *weir__caches_at(struct weir_heap *h,
						   unsigned i)
{
	return atomic_load_explicit(&h->thread[i], memory_order_acquire);
}

static inline struct weir__block_index *
weir__heap_index(const struct weir_heap *h)
{
	return atomic_load_explicit(&h->index, memory_order_acquire);
}

/*
 * Add a block that leaves the bins to the index, or remove it before it
 * returns.
 */
static inline void weir__block_index_add(struct weir_heap *h,
					 struct weir__block *b)
{
	if (weir__heap_index(h))
		weir__block_index_insert(h, b);
}

static inline void weir__block_index_del(struct weir_heap *h,
					 struct weir__block *b)
{
	if (weir__heap_index(h))
		weir__block_index_remove(h, b);
}

/* True if calls are recorded. The heap's lock is held. */
static inline bool weir__heap_is_recorded(const struct weir_heap *h)
{
	return atomic_load_explicit(&h->record, memory_order_relaxed);
}

static inline bool weir__heap_sharded(const struct weir_heap *h)
{
	return atomic_load_explicit(&h->sharded, memory_order_relaxed);
}

static inline struct weir__block *weir__heap_block(const struct weir_heap *h,
						   uint32_t number)
{
	return weir__block_at(&h->blocks, number);
}

#endif
