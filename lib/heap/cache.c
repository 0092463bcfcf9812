/* SPDX-License-Identifier: MIT */
/*
 * Caches: the fast path. A cache is chosen by thread and stream, so a thread
 * usually has one of its own, and a pair of weir_heap_alloc() and
 * weir_heap_free() of a small block costs two uncontended locks.
 *
 * The critical sections are a few loads and stores, so a thread that finds the
 * lock taken spins, and yields in case the owner was preempted.
 */
#include <sched.h>

#include "core/root.h"
#include "heap/heap.h"

/* What one cache keeps at most. */
#define KEPT_BLOCKS 512u
#define KEPT_BYTES ((uint64_t)2 << 20)

#define SPINS 100u

static inline bool cache_trylock(struct weir__cache *cache)
{
	return !atomic_exchange_explicit(&cache->locked, 1,
					 memory_order_acquire);
}

static void cache_spin(struct weir__cache *cache)
{
	unsigned n = 0;

	do
		while (atomic_load_explicit(&cache->locked,
					    memory_order_relaxed))
			if (++n > SPINS)
				sched_yield();
	while (!cache_trylock(cache));
}

static inline void cache_lock(struct weir__cache *cache)
{
	if (!cache_trylock(cache))
		cache_spin(cache);
}

static inline void cache_unlock(struct weir__cache *cache)
{
	atomic_store_explicit(&cache->locked, 0, memory_order_release);
}

static inline struct weir__cache *cache_of(struct weir_heap *h,
					   const struct weir_stream *stream)
{
	uint64_t key = (uint64_t)(uintptr_t)pthread_self() ^
		       (uint64_t)(uintptr_t)stream;

	return &h->cache[key * 0x9e3779b97f4a7c15u >> 58];
}

static inline struct weir_stream *stream_of(const struct weir__cache *cache)
{
	return atomic_load_explicit(&cache->stream, memory_order_relaxed);
}

/*
 * The units of a block of @size > 0 bytes. From 128 units on they are rounded
 * up to a size that has a bin for itself, which adds at most 1/64.
 */
static inline uint64_t units_of(const struct weir_heap *h, size_t size)
{
	uint64_t n = ((size - 1) >> h->tlsf.shift) + 1;

	if (n >= 128 && n < WEIR__CACHE_UNITS)
		n = weir__up(n, 1ull << (57 - __builtin_clzll(n)));
	return n;
}

static inline size_t bin_index(uint64_t units)
{
	struct weir__bin at = weir__bin_of(units);

	return at.row * 64 + at.bin;
}

uint64_t weir__cache_bytes(const struct weir_heap *h, size_t size)
{
	return units_of(h, size) << h->tlsf.shift;
}

static inline void block_fill(const struct weir_heap *h,
			      const struct weir__chunk *c, uint32_t tag,
			      struct weir_block *ret_block)
{
	const struct weir__region *region = h->region[c->region];

	ret_block->heap = (struct weir_heap *)(uintptr_t)h;
	ret_block->buf = region->buf;
	ret_block->offset = c->addr - region->base;
	ret_block->addr = c->addr;
	ret_block->bytes = c->bytes;
	ret_block->id = (uint64_t)tag << 32 | c->self;
}

static inline void block_begin(struct weir_heap *h, struct weir__tally *tally,
			       struct weir__chunk *c,
			       struct weir_block *ret_block)
{
	weir__chunk_set(c, WEIR__CHUNK_LIVE);
	tally->bytes += c->bytes;
	tally->blocks++;
	tally->allocs++;
	block_fill(h, c, weir__chunk_tag(c), ret_block);
}

static inline struct weir__chunk *
cache_pop(struct weir_heap *h, struct weir__cache *cache, size_t bin)
{
	struct weir__chunk *c = weir__heap_chunk(h, cache->bin[bin]);

	cache->bin[bin] = c->older;
	if (!c->older)
		cache->used[bin / 64] &= ~(1ull << bin % 64);
	cache->n--;
	cache->kept -= c->bytes;
	return c;
}

static inline void cache_push(struct weir__cache *cache, struct weir__chunk *c,
			      size_t bin)
{
	c->older = cache->bin[bin];
	cache->bin[bin] = c->self;
	cache->used[bin / 64] |= 1ull << bin % 64;
	cache->n++;
	cache->kept += c->bytes;
}

bool weir__cache_take(struct weir_heap *h, size_t size,
		      struct weir_stream *stream, struct weir_block *ret_block)
{
	struct weir__cache *cache = cache_of(h, stream);
	uint64_t units;
	size_t bin;
	bool found;

	/* This is also true of size 0. */
	if ((size - 1) >> h->tlsf.shift >= WEIR__CACHE_UNITS - 1)
		return false;
	units = units_of(h, size);
	bin = bin_index(units);
	if (units >= WEIR__CACHE_UNITS || !weir__root_is_open(h->weir) ||
	    !cache_trylock(cache))
		return false;
	found = cache->bin[bin] && stream_of(cache) == stream;
	if (found)
		block_begin(h, &cache->tally, cache_pop(h, cache, bin),
			    ret_block);
	cache_unlock(cache);
	return found;
}

void weir__block_begin(struct weir_heap *h, struct weir__chunk *c,
		       const struct weir_stream *stream,
		       struct weir_block *ret_block)
{
	uint16_t home = (uint16_t)(cache_of(h, stream) - h->cache);

	atomic_store_explicit(&c->home, home, memory_order_relaxed);
	block_begin(h, &h->tally, c, ret_block);
}

bool weir__block_get(const struct weir_heap *h, const struct weir__chunk *c,
		     struct weir_block *ret_block)
{
	uint32_t tag = weir__chunk_tag(c);

	if ((tag & 3) != WEIR__CHUNK_LIVE)
		return false;
	block_fill(h, c, tag, ret_block);
	return true;
}

/*
 * The chunk of a block, with the lock of its home; NULL: there is no such live
 * block. The chunk may be anything until the lock is held.
 */
static inline struct weir__chunk *block_lock(struct weir_heap *h,
					     const struct weir_block *block,
					     struct weir__cache **ret_cache)
{
	uint32_t number = (uint32_t)block->id, tag = block->id >> 32;
	struct weir__cache *cache;
	struct weir__chunk *c;
	uint16_t home;

	if (!number || (tag & 3) != WEIR__CHUNK_LIVE ||
	    number >= atomic_load_explicit(&h->tlsf.made, memory_order_acquire))
		return NULL;
	c = weir__heap_chunk(h, number);
	home = atomic_load_explicit(&c->home, memory_order_relaxed);
	cache = &h->cache[home];
	cache_lock(cache);
	if (weir__chunk_tag(c) == tag && c->addr == block->addr &&
	    atomic_load_explicit(&c->home, memory_order_relaxed) == home) {
		*ret_cache = cache;
		return c;
	}
	cache_unlock(cache);
	return NULL;
}

/* A block of some size, so that the cache follows the sizes in use. */
static struct weir__chunk *cache_evict(struct weir_heap *h,
				       struct weir__cache *cache)
{
	size_t i = cache->hand;

	while (!cache->used[i])
		i = (i + 1) % (WEIR__CACHE_BINS / 64);
	cache->hand = (i + 1) % (WEIR__CACHE_BINS / 64);
	return cache_pop(h, cache,
			 i * 64 + (size_t)__builtin_ctzll(cache->used[i]));
}

bool weir__block_end(struct weir_heap *h, const struct weir_block *block,
		     const struct weir_stream *stream,
		     struct weir__chunk **ret_chunk)
{
	struct weir__cache *cache;
	struct weir__chunk *c = block_lock(h, block, &cache);
	uint64_t units;

	if (!c)
		return false;
	units = c->bytes >> h->tlsf.shift;
	weir__chunk_set(c, WEIR__CHUNK_KEPT);
	cache->tally.bytes -= c->bytes;
	cache->tally.blocks--;
	cache->tally.frees++;
	*ret_chunk = c;
	/* A record has the calls in the order in which bins change. */
	if (units < WEIR__CACHE_UNITS && stream_of(cache) == stream &&
	    !atomic_load_explicit(&h->record, memory_order_relaxed)) {
		cache_push(cache, c, bin_index(units));
		*ret_chunk = cache->n > KEPT_BLOCKS || cache->kept > KEPT_BYTES
				     ? cache_evict(h, cache)
				     : NULL;
	}
	cache_unlock(cache);
	return true;
}

void weir__block_revive(struct weir_heap *h, const struct weir_block *block)
{
	struct weir__chunk *c = weir__heap_chunk(h, (uint32_t)block->id);
	struct weir__cache *cache = &h->cache[atomic_load(&c->home)];

	cache_lock(cache);
	atomic_store_explicit(&c->tag, (uint32_t)(block->id >> 32),
			      memory_order_relaxed);
	cache->tally.bytes += c->bytes;
	cache->tally.blocks++;
	cache->tally.frees--;
	cache_unlock(cache);
}

/* Take all blocks out of the cache, as a chain by older. The lock is held. */
static uint32_t cache_empty(struct weir_heap *h, struct weir__cache *cache)
{
	uint32_t chain = 0;

	for (size_t i = 0; i < WEIR__CACHE_BINS / 64; i++)
		while (cache->used[i]) {
			size_t bin = (size_t)__builtin_ctzll(cache->used[i]);
			struct weir__chunk *c =
				cache_pop(h, cache, i * 64 + bin);

			c->older = chain;
			chain = c->self;
		}
	return chain;
}

/* Give its blocks back. The heap's lock is held, and the cache's on return. */
static void cache_flush(struct weir_heap *h, struct weir__cache *cache)
{
	struct weir__lane *lane;
	struct weir__chunk *c;
	uint32_t i;

	cache_lock(cache);
	i = cache_empty(h, cache);
	/* The lane exists as long as a cache has the stream. */
	lane = weir__lane_find(h, stream_of(cache));
	while (i) {
		c = weir__heap_chunk(h, i);
		i = c->older;
		weir__index_del(h, c);
		weir__heap_give(h, c, lane);
	}
}

void weir__cache_adopt(struct weir_heap *h, struct weir_stream *stream)
{
	struct weir__cache *cache = cache_of(h, stream);

	if (stream_of(cache) == stream)
		return;
	pthread_mutex_lock(&h->lock);
	cache_flush(h, cache);
	atomic_store_explicit(&cache->stream, stream, memory_order_relaxed);
	cache_unlock(cache);
	pthread_mutex_unlock(&h->lock);
}

void weir__caches_flush(struct weir_heap *h)
{
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < WEIR__CACHES; i++) {
		cache_flush(h, &h->cache[i]);
		cache_unlock(&h->cache[i]);
	}
	pthread_mutex_unlock(&h->lock);
}

bool weir__caches_forget(struct weir_heap *h, const struct weir_stream *stream)
{
	bool gone = true;

	for (unsigned i = 0; i < WEIR__CACHES; i++) {
		struct weir__cache *cache = &h->cache[i];

		cache_lock(cache);
		if (stream_of(cache) == stream && cache->n)
			gone = false;
		else if (stream_of(cache) == stream)
			atomic_store_explicit(&cache->stream, NULL,
					      memory_order_relaxed);
		cache_unlock(cache);
	}
	return gone;
}

static void tally_add(struct weir_heap_stats *s, const struct weir__tally *t)
{
	s->live += t->bytes;
	s->blocks += t->blocks;
	s->allocs += t->allocs;
	s->frees += t->frees;
}

void weir__caches_add_stats(struct weir_heap *h, struct weir_heap_stats *s)
{
	tally_add(s, &h->tally);
	for (unsigned i = 0; i < WEIR__CACHES; i++) {
		struct weir__cache *cache = &h->cache[i];

		cache_lock(cache);
		tally_add(s, &cache->tally);
		s->kept += cache->kept;
		cache_unlock(cache);
	}
}
