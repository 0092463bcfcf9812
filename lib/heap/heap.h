/* SPDX-License-Identifier: MIT */
/*
 * A heap, as the files of this folder see it. README.md has the states of its
 * memory and the order of the locks.
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
#include "heap/threads.h"
#include "stream/stream.h"

#define WEIR__HEAP_REGIONS 16384u /* buffers of one heap */
#define WEIR__HEAP_LANES 65535u
#define WEIR__HEAP_MAX ((uint64_t)1 << 47) /* of a size, and an alignment */

/* Bytes of a block for which caches are always flushed first. */
#define WEIR__VERY_LARGE ((uint64_t)16 << 20)

#define WEIR__DEPS 8u
#define WEIR__CACHE_BITS 2u /* caches of one thread */
/* A cache keeps blocks of less than this many units. */
#define WEIR__CACHE_UNITS 1024u
#define WEIR__CACHE_BINS 320u

/* A buffer. */
struct weir__region {
	struct weir_buf *buf; /* referenced */
	uint64_t base;        /* address of the buffer */
	uint64_t lo, bytes;   /* the part of it that is in pieces */
	uint64_t top;         /* end of the highest block so far */
	uint32_t first;       /* the lowest piece: a gather replaces it only */
	uint16_t index;
	bool given; /* opts.buf: never given back */
};

/*
 * The free memory of a shard whose free points are in one stream; lane 0,
 * without a stream, has the memory that anybody may use. Guarded by the lock of
 * the shard.
 */
struct weir__lane {
	struct weir__bins bins;
	uint64_t bytes;          /* in the bins */
	uint32_t oldest, newest; /* queue of the pieces, by number */
	uint16_t index;
	struct weir_heap *heap;
	/* Its source is referenced by the lane of the root shard. */
	struct weir_stream *stream;
	struct weir__lane *next; /* of the same hash */
	/*
	 * Managed streams: a number is the stream's own. Native: others queue
	 * work that the library does not number, so a number counts frees, and
	 * a marker in the stream stands for those up to `marked`.
	 */
	bool native;
	uint64_t frees, ended;   /* so far; up to which work has ended */
	uint64_t marked, marker; /* its number in the stream; 0: no marker */
	uint64_t ended_marker;   /* that which stood for `ended` */
	/* In the list of lanes with memory: shard->busy. */
	struct weir__lane *busy_prev, *busy_next;
	/* Of the root shard's lanes: lanes.c. */
	struct weir__stream_keeper keeper;
	struct weir__waiter over; /* of the stream's end, once it was freed */
	struct weir__waiter last; /* of the heap's end */
	unsigned users;           /* who use the lane without the lock */
	bool gone;                /* the program has freed the stream */
	bool awaited;             /* over waits, or is about to */
};

/*
 * Live bytes and blocks, and calls so far. A block may be allocated in one
 * tally and freed in another: only the sum of all is right, modulo 2^64.
 */
struct weir__tally {
	uint64_t bytes, blocks, allocs, frees;
};

/*
 * Memory that is divided under one lock. The heap has the root shard, which has
 * the buffers. If threads contend for its lock, they get shards of their own,
 * which divide large pieces of the root shard: shards.c.
 */
struct weir__shard {
	struct weir__lock lock; /* guards all of it */
	struct weir_heap *heap;
	uint16_t index; /* 0: the root shard; else 1 + the thread's place */
	struct weir__spares spares;
	struct weir__lane **lane; /* a lane has the same index in all shards */
	size_t n_lanes, cap_lanes, used_lanes;
	uint16_t
		*holes; /* of the root shard: places of lanes that were freed */
	size_t n_holes, cap_holes;
	struct weir__lane **by_stream; /* 1 << stream_bits lists; NULL: none */
	unsigned stream_bits;
	struct weir__lane *busy, *busy_last; /* lanes with memory */
	uint64_t taken, taken_peak;          /* bytes not in bins */
	struct weir__tally tally;
	/* Of a thread's shard. */
	uint64_t bytes, most; /* of its spans; of a block that it allocates */
	uint32_t spans;       /* the newest: its piece in the root shard */
	uint32_t whole;       /* a span that is, or was, one free piece */
};

/* Free blocks, each kept for blocks of the same size. */
struct weir__cache {
	struct weir_stream *stream; /* in which all of them were freed */
	uint32_t n, misses;         /* blocks; calls with another stream */
	uint64_t kept, limit;       /* bytes */
	uint32_t hand;              /* the next bin to evict from */
	uint64_t used[WEIR__CACHE_BINS / 64]; /* which bins have blocks */
	uint32_t bin[WEIR__CACHE_BINS];       /* the newest piece */
	uint16_t count[WEIR__CACHE_BINS];
};

/*
 * The caches of one place. The thread that has the place is their owner. The
 * owner accesses them while they are busy and not revoked, or under the heap's
 * lock. Other threads access them under the lock while they are revoked and not
 * busy: cache.c.
 */
struct weir__caches {
	_Alignas(64) _Atomic uint32_t busy;
	_Atomic uint32_t revoked;
	uint16_t index; /* in h->thread */
	/*
	 * Under the heap's lock: how often another thread had that lock, and
	 * h->locked the last time; the thread's shard, set once.
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
	_Atomic uint32_t refs; /* the caller's, and waiters' of its end */
	struct weir *weir;     /* referenced */
	struct weir_buft *buft;
	uint64_t grow, limit;
	uint32_t usage, flags, reuse;
	int (*on_full)(void *arg, uint64_t bytes);
	void *on_full_arg;
	char label[64]; /* "a heap of CPU": for sentences */

	/* A record runs: caches keep nothing. */
	_Atomic(struct weir__call_record *) record;
	bool membarrier;
	_Atomic uint64_t
		kept_most;    /* bytes of a block: caches keep no larger */
	_Atomic bool sharded; /* a thread uses a shard; set under the lock */
	/* Blocks by address; NULL: none yet. Set once, after a gather. */
	_Atomic(struct weir__block_index *) index;
	struct weir__heap_pieces pieces;
	/* Set once each, under the lock. */
	_Atomic(struct weir__caches *) thread[WEIR__THREADS];
	struct weir__region **region; /* WEIR__HEAP_REGIONS; NULL: free */

	_Alignas(64) pthread_mutex_t grow_lock; /* to allocate a buffer */
	/* Its lock, "the heap's lock", also guards the entries of region, and: */
	struct weir__shard root;
	unsigned n_regions, end_regions;
	uint64_t reserved, reserved_peak;
	uint64_t span; /* of buffers that were given back */
	uint64_t failures, waits, grown;
	unsigned n_open; /* shards of threads that may have memory */
	uint64_t locked; /* calls that took the lock */
	bool ended;      /* by weir_heap_destroy() */
};

/* The memory that a call of weir_heap_alloc() needs, and the waits for it. */
struct weir__want {
	uint64_t bytes, align;
	struct weir__lane *lane; /* of the stream, or lane 0 */
	/*
	 * Free points for which the stream waits already, those from n_queued
	 * on excepted. The lanes are used.
	 */
	struct weir__dep {
		struct weir__lane *lane;
		uint64_t number;
	} dep[WEIR__DEPS];
	unsigned n_deps, n_queued;
	/* Lanes for which it cannot wait without blocking. */
	uint16_t refused[WEIR__DEPS];
	unsigned n_refused;
};

/*
 * pieces.c, under the lock of the shard that has the piece. Into the bins of
 * its lane, or out.
 */
void weir__shard_add(struct weir__shard *s, struct weir__piece *c);
void weir__shard_del(struct weir__shard *s, struct weir__piece *c);
/* Into the bins, together with free neighbours of its lane. */
void weir__shard_merge(struct weir__shard *s, struct weir__piece *c);
/*
 * Free a piece that is in no bins, with the present as its free point: it
 * becomes memory of @lane, and is merged with its neighbours there.
 */
void weir__shard_give(struct weir__shard *s, struct weir__piece *c,
		      struct weir__lane *lane);

/* How hard to look for memory: which piece is taken? */
enum weir__effort {
	WEIR__TAKE_BEST, /* the best fit */
	/* The same, unless a flush of caches may save memory. */
	WEIR__TAKE_FIRST,
	/*
	 * Any, and small ones are joined, which takes linear time; but no large
	 * block of memory that was never used.
	 */
	WEIR__TAKE_USED,
	WEIR__TAKE_ANY /* any */
};
/*
 * Take memory that the stream may use after the waits in w->dep or without any
 * wait. NULL: there is none. The caller has reserved two records.
 */
struct weir__piece *weir__shard_take(struct weir__shard *s,
				     const struct weir__want *w,
				     enum weir__effort effort);
/*
 * Take w->bytes, or, rather than memory that was never used before, a piece of
 * fewer, but of @least. w->align is the unit.
 */
struct weir__piece *weir__shard_take_span(struct weir__shard *s,
					  struct weir__want *w, uint64_t least);
/* May the stream use the free piece @c now? */
static inline bool weir__want_allows(const struct weir__want *w,
				     const struct weir__piece *c)
{
	if (!c->lane || c->lane == w->lane->index)
		return true;
	for (unsigned i = 0; i < w->n_deps; i++)
		if (w->dep[i].lane->index == c->lane)
			return c->number <= w->dep[i].number;
	return false;
}

/* Is there a place for the block in @bytes from the begin of @first on? */
static inline bool weir__want_fits(const struct weir__want *w,
				   const struct weir__piece *first,
				   uint64_t bytes)
{
	uint64_t pad = -first->addr & (w->align - 1);

	return bytes >= w->bytes && bytes - w->bytes >= pad;
}

static inline struct weir__piece *weir__piece_smaller(struct weir__piece *a,
						      struct weir__piece *b)
{
	return !b || (a && a->bytes <= b->bytes) ? a : b;
}

/*
 * after.c. Find free memory that the stream may use after waits, and add the free
 * points to w->dep. @several: several neighbours, else one piece. False: there is
 * none. Takes linear time.
 */
bool weir__shard_after_waits(struct weir__shard *s, struct weir__want *w,
			     bool several);

/* shards.c. Another thread had the heap's lock; now this one has it. */
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
 * Also gather: until the lock is released, only the root shard has memory.
 */
void weir__heap_lock_all(struct weir_heap *h);
/* Gather. The heap's lock is held. False: only the root shard had memory. */
bool weir__shards_gather(struct weir_heap *h);
/*
 * Give back a piece that is in no bins, nor in the index, to the shard that has
 * it. The heap's lock is held; @lane is of the root shard.
 */
void weir__shards_give(struct weir_heap *h, struct weir__piece *c,
		       struct weir__lane *lane);
static inline void weir__piece_give(struct weir_heap *h, struct weir__piece *c,
				    struct weir__lane *lane)
{
	if (h->n_open)
		weir__shards_give(h, c, lane);
	else
		weir__shard_give(&h->root, c, lane);
}
/*
 * Lock the shard of a thread that has the piece, which is not free; NULL: the
 * root shard has it, or will have it when the heap's lock is taken.
 */
struct weir__shard *weir__shard_lock(struct weir_heap *h,
				     const struct weir__piece *c);
/* May also give a span back, for which it takes the heap's lock. */
void weir__shard_unlock(struct weir__shard *s);
/*
 * Take memory out of this thread's shard, which is locked then. NULL: that is
 * not possible; nothing is locked. No lock is held. @own: its caches, or NULL.
 */
struct weir__shard *weir__shard_take_own(struct weir_heap *h,
					 struct weir__caches *own,
					 const struct weir__want *w,
					 struct weir_stream *stream,
					 struct weir__piece **ret_piece);
/*
 * Take memory out of this thread's shard, which may get more for it, if the
 * threads contend for the heap's lock. It is held; w->lane is of the root shard.
 * NULL: take it out of the root shard.
 */
struct weir__piece *weir__shard_take_new(struct weir_heap *h,
					 const struct weir__want *w);
/* From now on this thread uses a shard, until the next gather. For tests. */
int weir__shard_want(struct weir_heap *h);
void weir__shards_free(struct weir_heap *h);

/*
 * lanes.c, under the lock of the shard unless it says otherwise. The lane of
 * @stream, or NULL; the second makes that of the root shard if need be.
 */
struct weir__lane *weir__lane_find(struct weir__shard *s,
				   const struct weir_stream *stream);
int weir__lane_get(struct weir_heap *h, struct weir_stream *stream,
		   struct weir__lane **ret_lane);
/*
 * The lane of a thread's shard that corresponds to @of in the root shard; NULL:
 * no memory. The heap's lock is held too.
 */
struct weir__lane *weir__lane_share(struct weir__shard *s,
				    const struct weir__lane *of);
/* Free all lanes of a shard, which are empty. */
void weir__lanes_free(struct weir__shard *s);
/* The lane, which has a queue, gets its first memory; has lost its last. */
void weir__lane_busy(struct weir__shard *s, struct weir__lane *lane);
void weir__lane_rest(struct weir__shard *s, struct weir__lane *lane);
/* Count down lane->users. No lock is held. The lane may be gone then. */
void weir__lane_unuse(struct weir__lane *lane);
/*
 * Drop the caller's reference to the heap when all work in the streams has
 * ended.
 */
void weir__lanes_end(struct weir_heap *h);
void weir__heap_put(struct weir_heap *h);

/* order.c, under the lock of the shard unless it says otherwise. */
/* The free point of a piece that is freed now. */
uint64_t weir__lane_number(struct weir__lane *lane);
/* Has all work before the free point ended? Then any stream may use the piece. */
bool weir__lane_ended(struct weir__lane *lane, uint64_t number);
/* Move memory whose free points are done to lane 0; at most @most pieces. */
void weir__lane_drain(struct weir__shard *s, struct weir__lane *lane,
		      unsigned most);
/* The same for all lanes; queues some markers, or @all. No lock is held. */
void weir__lanes_poll(struct weir_heap *h, bool all);
/*
 * Let the stream wait for the new w->dep. No lock is held. False: it cannot
 * wait for one of them, which is now in w->refused.
 */
bool weir__lanes_wait(struct weir_heap *h, struct weir__want *w);
/* Drop w->dep from the first @n on. No lock is held. */
void weir__want_forget(struct weir__want *w, unsigned n);
/* region.c. Take over the reference to @buf. The heap's lock is held. */
int weir__region_add(struct weir_heap *h, struct weir_buf *buf, bool given);
/* Add a buffer for @w. h->grow_lock is held, and no other. */
int weir__heap_grow(struct weir_heap *h, const struct weir__want *w);
/* The bytes of a buffer in which @w has a place, wherever it begins. */
uint64_t weir__heap_need(const struct weir_heap *h, const struct weir__want *w);
/*
 * Give empty buffers back; false: there was none. No lock is held. The second
 * returns the bytes of all of them, under the heap's lock.
 */
bool weir__regions_trim(struct weir_heap *h, uint64_t keep);
uint64_t weir__regions_empty(struct weir_heap *h);
/* All buffers of a heap that ends. */
void weir__regions_free(struct weir_heap *h);

/*
 * cache.c. The bytes of a block of @size: a multiple of the unit, and for sizes
 * that caches keep, one of their sizes.
 */
uint64_t weir__cache_bytes(const struct weir_heap *h, size_t size);
/* A block of a cache. False: the cache has none of this size. */
bool weir__cache_take(struct weir_heap *h, size_t size,
		      struct weir_stream *stream, struct weir_block *ret_block);
/*
 * A piece taken from bins becomes a block. The lock of @s is held, whose tally
 * counts it. @own: this thread's caches, or NULL.
 */
void weir__block_begin(struct weir__shard *s, const struct weir__caches *own,
		       struct weir__piece *c, struct weir_block *ret_block);
/* The piece of a block; NULL: it is not live. */
struct weir__piece *weir__block_piece(struct weir_heap *h,
				      const struct weir_block *block);
/* Describe the block of @c, which is in the index. False: it is not live. */
bool weir__block_get(const struct weir_heap *h, const struct weir__piece *c,
		     struct weir_block *ret_block);
/*
 * End the life of a block; NULL: it is not live. The caller has to give the
 * piece back. The lock of @s is held, whose tally counts it.
 */
struct weir__piece *weir__block_end(struct weir__shard *s,
				    const struct weir_block *block);
/*
 * End the life of a block and keep it; false: that is not possible. If
 * *ret_evicted is set the caller has to give that back.
 */
bool weir__cache_put(struct weir_heap *h, const struct weir_block *block,
		     struct weir_stream *stream,
		     struct weir__piece **ret_evicted);
/* This thread's caches, or NULL; the second makes them, under the heap's lock. */
struct weir__caches *weir__caches_own(struct weir_heap *h);
struct weir__caches *weir__caches_make(struct weir_heap *h);
/*
 * After a miss: need this thread's cache not adopt the stream? No lock is held.
 */
bool weir__cache_stays(const struct weir_heap *h, struct weir__caches *own,
		       const struct weir_stream *stream);
/*
 * After a miss: from now on this thread keeps blocks that are freed in the stream
 * of @lane, of the root shard. What it keeps beyond its limit is given back. Returns
 * its caches, or NULL. The heap's lock is held.
 */
struct weir__caches *weir__cache_adopt(struct weir_heap *h,
				       struct weir__lane *lane);
/* Give back what this thread keeps, or what all keep. No lock is held. */
void weir__cache_flush_own(struct weir_heap *h);
void weir__caches_flush(struct weir_heap *h);
/*
 * Keep the owners out of all caches for a while. The heap's lock is held. The
 * second gives back what is kept for the stream, whose lane will be gone.
 */
void weir__caches_revoke(struct weir_heap *h);
void weir__caches_forget(struct weir_heap *h, const struct weir_stream *stream);
void weir__caches_restore(struct weir_heap *h);
void weir__caches_free(struct weir_heap *h);
void weir__caches_add_stats(struct weir_heap *h, struct weir_heap_stats *s);

/* heap.c. The shards were gathered, and the heap's lock is held. */
void weir__heap_describe(struct weir_heap *h, struct weir_heap_stats *s);

/*
 * index.c. A piece gets out of bins or into them: the lock of the shard that has it
 * is held. weir__index_add() and weir__index_del() call these if there is an index.
 */
void weir__index_insert(struct weir_heap *h, struct weir__piece *c);
void weir__index_remove(struct weir_heap *h, struct weir__piece *c);
/*
 * Describe the live block that begins at @addr. False: there is none. The heap has
 * an index; no lock is held.
 */
bool weir__index_find(struct weir_heap *h, uint64_t addr,
		      struct weir_block *ret_block);
/* The heap, which has no index, gets one. Its lock is held, after a gather. */
int weir__index_make(struct weir_heap *h);
void weir__index_free(struct weir_heap *h);

/* record.c, under the heap's lock. @piece 0: the call failed. */
void weir__record_alloc(struct weir_heap *h, uint32_t piece, size_t size,
			size_t align, const struct weir_stream *stream);
void weir__record_free(struct weir_heap *h, uint32_t piece,
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

static inline void weir__index_add(struct weir_heap *h, struct weir__piece *c)
{
	if (weir__heap_index(h))
		weir__index_insert(h, c);
}

static inline void weir__index_del(struct weir_heap *h, struct weir__piece *c)
{
	if (weir__heap_index(h))
		weir__index_remove(h, c);
}

/* Does a record run? The heap's lock is held. */
static inline bool weir__heap_is_recorded(const struct weir_heap *h)
{
	return atomic_load_explicit(&h->record, memory_order_relaxed);
}

static inline bool weir__heap_sharded(const struct weir_heap *h)
{
	return atomic_load_explicit(&h->sharded, memory_order_relaxed);
}

static inline struct weir__piece *weir__heap_piece(const struct weir_heap *h,
						   uint32_t number)
{
	return weir__piece(&h->pieces, number);
}

#endif
