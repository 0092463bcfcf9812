/* SPDX-License-Identifier: MIT */
/*
 * Caches are the fast path. Each thread has its own. It uses them without a
 * lock and without an atomic instruction, since one such instruction takes as
 * long as the rest of the call. Another thread that needs them, for example
 * before the heap grows, revokes them meanwhile:
 *
 *	owner: busy = 1; if (revoked) leave, and take the heap's lock instead;
 *	       ...; busy = 0
 *	other: (heap's lock) revoked = 1; membarrier(2); wait until !busy;
 *	       ...; revoked = 0
 *
 * The owner's store to busy may not be visible yet when it reads revoked.
 * membarrier(2) makes each thread of the process execute a full barrier: either
 * the store came before it, and the other thread waits, or the owner reads
 * revoked after it. Where the system refuses membarrier(2), the owner executes
 * the barrier itself.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "core/root.h"
#include "core/sys.h"
#include "heap/heap.h"

/*
 * The limits of one cache: its blocks; its bytes, as a part of those in use; a
 * lower bound of this limit; the part of it that blocks of one size may have.
 */
#define CACHE_BLOCKS 8192u
#define CACHE_PART 192u
#define CACHE_BYTES ((uint64_t)256 << 10)
#define SIZE_PART 32u

/* Between two misses a cache may exceed its limit by this part of it. */
#define OVER_PART 8u

/* A cache hands out a block that is up to this part larger than needed. */
#define FIT_PART 16u

/* After so many misses in a row a cache changes to another stream. */
#define MISSES 16u

/*
 * Places of threads. Each thread that uses a heap has one while it lives, the
 * same in all heaps: its caches are at h->thread[place]. The next thread that
 * gets the place also gets these caches, with the blocks in them.
 */
static _Atomic bool place_taken[WEIR__THREADS];
/*
 * Not initial-exec, which would need room for the library's thread-locals in
 * programs that open it by dlopen(3).
 */
static _Thread_local uintptr_t own_place;
static pthread_key_t place_key;
static bool place_key_made;

/* The thread ends. */
static void place_give(void *arg)
{
	own_place = 0;
	atomic_store_explicit(&place_taken[(uintptr_t)arg - 1], false,
			      memory_order_release);
}

static void place_init(void)
{
	place_key_made = pthread_key_create(&place_key, place_give) == 0;
}

static bool place_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uintptr_t i = 0;

	pthread_once(&once, place_init);
	while (i < WEIR__THREADS && atomic_exchange(&place_taken[i], true))
		i++;
	if (i == WEIR__THREADS)
		return false;
	if (!place_key_made ||
	    pthread_setspecific(place_key, (void *)(i + 1)) != 0) {
		atomic_store(&place_taken[i], false);
		return false;
	}
	own_place = i + 1;
	return true;
}

static inline unsigned hash_of(const void *p, unsigned bits)
{
	return (unsigned)((uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u >>
			  (64 - bits));
}

/* This thread's caches, or NULL. */
static inline struct weir__caches *caches_own(struct weir_heap *h)
{
	return own_place ? weir__caches_at(h, (unsigned)own_place - 1) : NULL;
}

struct weir__caches *weir__caches_own(struct weir_heap *h)
{
	return caches_own(h);
}

static inline struct weir__cache *cache_of(struct weir__caches *t,
					   const struct weir_stream *stream)
{
	return &t->cache[hash_of(stream, WEIR__CACHE_BITS)];
}

static inline void caches_leave(struct weir__caches *t)
{
	atomic_store_explicit(&t->busy, 0, memory_order_release);
}

/* The owner calls this. False: the caches are revoked; use the heap's lock. */
static inline bool caches_enter(const struct weir_heap *h,
				struct weir__caches *t)
{
	if (h->membarrier) {
		atomic_store_explicit(&t->busy, 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_store(&t->busy, 1);
	}
	if (!atomic_load(&t->revoked))
		return true;
	caches_leave(t);
	return false;
}

/* Revoke all threads' caches. The heap's lock is held. */
void weir__caches_revoke(struct weir_heap *h)
{
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);

		if (t)
			atomic_store(&t->revoked, 1);
	}
	if (h->membarrier)
		weir__sys_membarrier();
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);

		while (t && atomic_load(&t->busy))
			sched_yield();
	}
}

void weir__caches_restore(struct weir_heap *h)
{
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);

		if (t)
			atomic_store_explicit(&t->revoked, 0,
					      memory_order_release);
	}
}

/*
 * The units of a block of @size > 0 bytes. From 128 units on they are rounded
 * up to a size that has a bin for itself, which adds at most 1/64.
 */
static inline uint64_t units_of(const struct weir_heap *h, size_t size)
{
	uint64_t n = ((size - 1) >> h->blocks.shift) + 1;

	if (n >= 128 && n < WEIR__CACHE_UNITS)
		n = weir__up(n, 1ull << (57 - __builtin_clzll(n)));
	return n;
}

static inline size_t bin_index(uint64_t units)
{
	struct weir__size_bin at = weir__size_bin_of(units);

	return at.level * 64 + at.bin;
}

uint64_t weir__cache_bytes(const struct weir_heap *h, size_t size)
{
	return units_of(h, size) << h->blocks.shift;
}

/* True if caches keep blocks of @bytes; false for 0 bytes. */
static inline bool caches_take(const struct weir_heap *h, uint64_t bytes)
{
	return bytes - 1 <
	       atomic_load_explicit(&h->cached_most, memory_order_relaxed);
}

static inline void block_describe(const struct weir_heap *h,
				  const struct weir__block *b, uint32_t tag,
				  struct weir_block *ret_block)
{
	const struct weir__region *region = h->region[b->region];

	ret_block->heap = (struct weir_heap *)(uintptr_t)h;
	ret_block->buf = region->buf;
	ret_block->offset = b->addr - region->base;
	ret_block->addr = b->addr;
	ret_block->bytes = b->bytes;
	ret_block->id = (uint64_t)tag << 32 | b->self;
}

static inline void block_hand_out(struct weir_heap *h,
				  struct weir__tally *tally,
				  struct weir__block *b,
				  struct weir_block *ret_block)
{
	weir__block_set_state(b, WEIR__BLOCK_USED);
	tally->bytes += b->bytes;
	tally->blocks++;
	tally->allocs++;
	block_describe(h, b, weir__block_tag(b), ret_block);
}

static inline struct weir__block *
cache_pop(struct weir_heap *h, struct weir__cache *cache, size_t bin)
{
	struct weir__block *b = weir__heap_block(h, cache->bin[bin]);

	cache->bin[bin] = b->left;
	if (!b->left)
		cache->used[bin / 64] &= ~(1ull << bin % 64);
	cache->n--;
	cache->count[bin]--;
	cache->bytes -= b->bytes;
	return b;
}

static inline void cache_push(struct weir__cache *cache, struct weir__block *b,
			      size_t bin)
{
	b->left = cache->bin[bin];
	cache->bin[bin] = b->self;
	cache->used[bin / 64] |= 1ull << bin % 64;
	cache->n++;
	cache->count[bin]++;
	cache->bytes += b->bytes;
}

/* True if the cache may keep one more block of this bin. */
static inline bool cache_wants(const struct weir__cache *cache, size_t bin,
			       uint64_t bytes)
{
	return (cache->count[bin] + 1) * bytes <= cache->limit / SIZE_PART;
}

/*
 * Find the first bin with blocks, from *bin up to sizes that are 1/FIT_PART
 * larger. False: these bins are empty.
 */
static inline bool cache_fit(const struct weir__cache *cache, size_t *bin,
			     uint64_t units)
{
	size_t last = bin_index(units + units / FIT_PART);
	size_t word = *bin / 64;
	uint64_t bits = cache->used[word] & ~0ull << *bin % 64;

	if (!bits && word < last / 64 && word + 1 < WEIR__CACHE_BINS / 64)
		bits = cache->used[++word];
	if (!bits)
		return false;
	*bin = word * 64 + (size_t)__builtin_ctzll(bits);
	return *bin <= last;
}

bool weir__cache_take(struct weir_heap *h, size_t size,
		      struct weir_stream *stream, struct weir_block *ret_block)
{
	struct weir__caches *t;
	struct weir__cache *cache;
	uint64_t units;
	size_t bin;
	bool found;

	if (!caches_take(h, size))
		return false;
	units = units_of(h, size);
	bin = bin_index(units);
	t = caches_own(h);
	if (!t || units >= WEIR__CACHE_UNITS || !caches_enter(h, t))
		return false;
	cache = cache_of(t, stream);
	found = cache->stream == stream && cache_fit(cache, &bin, units);
	if (found) {
		struct weir__block *b = cache_pop(h, cache, bin);

		atomic_store_explicit(&b->home, t->index, memory_order_relaxed);
		block_hand_out(h, &t->tally, b, ret_block);
	}
	caches_leave(t);
	return found;
}

void weir__block_hand_out(struct weir__shard *s, const struct weir__caches *own,
			  struct weir__block *b, struct weir_block *ret_block)
{
	atomic_store_explicit(&b->home, own ? own->index : WEIR__THREADS,
			      memory_order_relaxed);
	weir__block_index_add(s->heap, b);
	block_hand_out(s->heap, &s->tally, b, ret_block);
}

bool weir__block_describe(const struct weir_heap *h,
			  const struct weir__block *b,
			  struct weir_block *ret_block)
{
	uint32_t tag = weir__block_tag(b);

	if ((tag & 3) != WEIR__BLOCK_USED)
		return false;
	block_describe(h, b, tag, ret_block);
	return true;
}

static inline struct weir__block *block_of(struct weir_heap *h,
					   const struct weir_block *block)
{
	uint32_t number = (uint32_t)block->id, tag = block->id >> 32;
	struct weir__block *b;

	if (!number || (tag & 3) != WEIR__BLOCK_USED ||
	    number >=
		    atomic_load_explicit(&h->blocks.made, memory_order_acquire))
		return NULL;
	b = weir__heap_block(h, number);
	return weir__block_tag(b) == tag && b->addr == block->addr ? b : NULL;
}

struct weir__block *weir__block_of(struct weir_heap *h,
				   const struct weir_block *block)
{
	return block_of(h, block);
}

/* Several threads may try to take a block back; one succeeds. */
static bool block_claim(struct weir__block *b, const struct weir_block *block)
{
	uint32_t tag = block->id >> 32;

	return atomic_compare_exchange_strong(&b->tag, &tag,
					      (tag & ~3u) | WEIR__BLOCK_CACHED);
}

static inline void block_count(struct weir__tally *tally,
			       const struct weir__block *b)
{
	tally->bytes -= b->bytes;
	tally->blocks--;
	tally->frees++;
}
struct weir__block *weir__block_take_back(struct weir__shard *s,
					  const struct weir_block *block)
{
	struct weir__block *b = block_of(s->heap, block);

	if (!b || !block_claim(b, block))
		return NULL;
	block_count(&s->tally, b);
	return b;
}

/*
 * The first bin from @bin on that has blocks; the first bin follows the last.
 */
static size_t bin_with_blocks(const struct weir__cache *cache, size_t bin)
{
	size_t word = bin / 64;
	uint64_t bits = cache->used[word] & ~0ull << bin % 64;

	while (!bits) {
		word = (word + 1) % (WEIR__CACHE_BINS / 64);
		bits = cache->used[word];
	}
	return word * 64 + (size_t)__builtin_ctzll(bits);
}

/*
 * Evict a block of each size in turn, so that the cache follows the sizes in
 * use.
 */
static struct weir__block *cache_evict(struct weir_heap *h,
				       struct weir__cache *cache)
{
	size_t victim = bin_with_blocks(cache, cache->hand);

	cache->hand = (uint32_t)(victim + 1) % WEIR__CACHE_BINS;
	return cache_pop(h, cache, victim);
}

/*
 * True if the cache must give a block back at once. Without shards it may
 * exceed its limit a little: the next miss takes the heap's lock and gives the
 * excess back. With shards the next miss may take another lock.
 */
static inline bool cache_is_over(const struct weir_heap *h,
				 const struct weir__cache *cache)
{
	uint64_t most = cache->limit;

	if (!weir__heap_sharded(h))
		most += most / OVER_PART;
	return cache->n > CACHE_BLOCKS || cache->bytes > most;
}

/*
 * The thread that allocated the block needs no atomic instruction to take it
 * back. So two threads that free the same block at the same time may go
 * unnoticed.
 */
static inline bool block_end_by(struct weir__caches *t, struct weir__block *b,
				const struct weir_block *block)
{
	if (atomic_load_explicit(&b->home, memory_order_relaxed) != t->index)
		return block_claim(b, block);
	weir__block_set_state(b, WEIR__BLOCK_CACHED);
	return true;
}

bool weir__cache_keep(struct weir_heap *h, const struct weir_block *block,
		      struct weir_stream *stream,
		      struct weir__block **ret_evicted)
{
	struct weir__block *b;
	struct weir__caches *t;
	struct weir__cache *cache;
	uint64_t units;
	size_t bin;
	bool kept;

	if (!caches_take(h, block->bytes))
		return false;
	b = block_of(h, block);
	t = b ? caches_own(h) : NULL;
	if (!t || !caches_enter(h, t))
		return false;
	cache = cache_of(t, stream);
	units = b->bytes >> h->blocks.shift;
	bin = bin_index(units);
	/* While calls are recorded, each changes the bins. */
	kept = units < WEIR__CACHE_UNITS && cache->stream == stream &&
	       !atomic_load_explicit(&h->record, memory_order_relaxed) &&
	       cache_wants(cache, bin, b->bytes) && block_end_by(t, b, block);
	if (kept) {
		block_count(&t->tally, b);
		cache_push(cache, b, bin);
		*ret_evicted = cache_is_over(h, cache) ? cache_evict(h, cache)
						       : NULL;
	}
	caches_leave(t);
	return kept;
}

/*
 * Give all blocks of a cache back. The heap's lock is held; the caches are
 * revoked, or their owner has entered them.
 */
static void cache_flush(struct weir_heap *h, struct weir__cache *cache)
{
	struct weir__stream_bin *bin;
	struct weir__block *b;

	/*
	 * The stream bin exists as long as a cache keeps blocks of the stream.
	 */
	bin = weir__stream_bin_find(&h->root, cache->stream);
	for (size_t i = 0; i < WEIR__CACHE_BINS / 64; i++)
		while (cache->used[i]) {
			b = cache_pop(h, cache,
				      i * 64 + (size_t)__builtin_ctzll(
						       cache->used[i]));
			weir__block_index_del(h, b);
			weir__block_give(h, b, bin);
		}
}

static void flush_all_of(struct weir_heap *h, struct weir__caches *t)
{
	for (unsigned i = 0; i < 1u << WEIR__CACHE_BITS; i++)
		cache_flush(h, &t->cache[i]);
}

struct weir__caches *weir__caches_make(struct weir_heap *h)
{
	struct weir__caches *t;

	if (!own_place && !place_take())
		return NULL;
	t = caches_own(h);
	if (t)
		return t;
	t = weir__calloc_aligned(1, sizeof(*t));
	if (!t)
		return NULL;
	t->index = (uint16_t)(own_place - 1);
	atomic_store_explicit(&h->thread[t->index], t, memory_order_release);
	return t;
}

bool weir__cache_has_stream(const struct weir_heap *h, struct weir__caches *t,
			    const struct weir_stream *stream)
{
	struct weir__cache *cache;
	bool stays;

	if (!caches_enter(h, t))
		return false;
	cache = cache_of(t, stream);
	stays = cache->limit && (cache->stream == stream ||
				 (cache->n && cache->misses + 1 < MISSES));
	if (stays && cache->stream != stream)
		cache->misses++;
	caches_leave(t);
	return stays;
}

/*
 * Give back the blocks that a cache keeps over its limit. The owner calls this,
 * with the heap's lock held.
 */
static void cache_shed(struct weir_heap *h, struct weir__cache *cache,
		       struct weir__stream_bin *bin)
{
	while (cache->bytes > cache->limit) {
		struct weir__block *b = cache_evict(h, cache);

		weir__block_index_del(h, b);
		weir__block_give(h, b, bin);
	}
}

struct weir__caches *weir__cache_adopt(struct weir_heap *h,
				       struct weir__stream_bin *bin)
{
	struct weir_stream *stream = bin->stream;
	struct weir__caches *t = caches_own(h);
	struct weir__cache *cache;

	/* Only the owner, and others under the lock, write to it. */
	if (!t)
		t = weir__caches_make(h);
	if (!t)
		return NULL;
	cache = cache_of(t, stream);
	cache->limit = h->root.taken / CACHE_PART > CACHE_BYTES
			       ? h->root.taken / CACHE_PART
			       : CACHE_BYTES;
	atomic_store_explicit(&h->cached_most, cache->limit / SIZE_PART,
			      memory_order_relaxed);
	if (cache->stream == stream) {
		cache_shed(h, cache, bin);
		return t;
	}
	if (cache->n && ++cache->misses < MISSES)
		return t;
	caches_enter(h, t);
	cache_flush(h, cache);
	cache->stream = stream;
	cache->misses = 0;
	caches_leave(t);
	return t;
}

void weir__cache_flush_own(struct weir_heap *h)
{
	struct weir__caches *t = caches_own(h);

	weir__heap_lock_all(h);
	if (t) {
		caches_enter(h, t);
		flush_all_of(h, t);
		caches_leave(t);
	}
	weir__heap_unlock(h);
}

void weir__caches_flush(struct weir_heap *h)
{
	weir__heap_lock_all(h);
	weir__caches_revoke(h);
	for (unsigned i = 0; i < WEIR__THREADS; i++)
		if (weir__caches_at(h, i))
			flush_all_of(h, weir__caches_at(h, i));
	weir__caches_restore(h);
	weir__heap_unlock(h);
}

void weir__caches_drop_stream(struct weir_heap *h,
			      const struct weir_stream *stream)
{
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);
		struct weir__cache *cache = t ? cache_of(t, stream) : NULL;

		if (!cache || cache->stream != stream)
			continue;
		cache_flush(h, cache);
		cache->stream = NULL;
	}
}

static void tally_add(struct weir_heap_stats *s, const struct weir__tally *t)
{
	s->used += t->bytes;
	s->blocks += t->blocks;
	s->allocs += t->allocs;
	s->frees += t->frees;
}

void weir__caches_add_stats(struct weir_heap *h, struct weir_heap_stats *s)
{
	tally_add(s, &h->root.tally);
	weir__caches_revoke(h);
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);

		if (!t)
			continue;
		tally_add(s, &t->tally);
		for (unsigned j = 0; j < 1u << WEIR__CACHE_BITS; j++)
			s->cached += t->cache[j].bytes;
	}
	weir__caches_restore(h);
}

void weir__caches_free(struct weir_heap *h)
{
	for (unsigned i = 0; i < WEIR__THREADS; i++)
		weir__free(weir__caches_at(h, i));
}
