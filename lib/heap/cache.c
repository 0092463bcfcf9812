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
#define KEPT_BLOCKS 256u
#define KEPT_BYTES ((uint64_t)1 << 20)

#define SPINS 100u

static bool cache_trylock(struct weir__cache *cache)
{
	return !atomic_exchange_explicit(&cache->locked, 1,
					 memory_order_acquire);
}

static void cache_lock(struct weir__cache *cache)
{
	unsigned n = 0;

	while (!cache_trylock(cache))
		while (atomic_load_explicit(&cache->locked,
					    memory_order_relaxed))
			if (++n > SPINS)
				sched_yield();
}

static void cache_unlock(struct weir__cache *cache)
{
	atomic_store_explicit(&cache->locked, 0, memory_order_release);
}

static struct weir__cache *cache_of(struct weir_heap *h,
				    const struct weir_stream *stream)
{
	uint64_t key = (uint64_t)(uintptr_t)pthread_self() ^
		       (uint64_t)(uintptr_t)stream;

	return &h->cache[key * 0x9e3779b97f4a7c15u >> 58];
}

static struct weir_stream *stream_of(const struct weir__cache *cache)
{
	return atomic_load_explicit(&cache->stream, memory_order_relaxed);
}

/* The chunk becomes a block of the cache, whose lock is held. */
static void block_begin(struct weir_heap *h, struct weir__cache *cache,
			struct weir__chunk *c, struct weir_block *ret_block)
{
	const struct weir__region *region = h->region[c->region];

	weir__chunk_set(c, WEIR__CHUNK_LIVE);
	cache->live += c->bytes;
	cache->blocks++;
	cache->allocs++;
	*ret_block = (struct weir_block){
		.heap = h,
		.buf = region->buf,
		.offset = c->addr - region->base,
		.addr = c->addr,
		.bytes = c->bytes,
		.id = (uint64_t)weir__chunk_tag(c) << 32 | c->self,
	};
}

static struct weir__chunk *cache_pop(struct weir_heap *h,
				     struct weir__cache *cache, size_t bin)
{
	struct weir__chunk *c = weir__heap_chunk(h, cache->bin[bin]);

	cache->bin[bin] = c->older;
	if (!c->older)
		cache->used[bin / 64] &= ~(1ull << bin % 64);
	cache->n--;
	cache->kept -= c->bytes;
	return c;
}

static void cache_push(struct weir__cache *cache, struct weir__chunk *c,
		       size_t bin)
{
	c->older = cache->bin[bin];
	cache->bin[bin] = c->self;
	cache->used[bin / 64] |= 1ull << bin % 64;
	cache->n++;
	cache->kept += c->bytes;
}

static bool is_fast(struct weir_heap *h)
{
	return !atomic_load_explicit(&h->record, memory_order_relaxed) &&
	       weir__root_is_ours(h->weir) &&
	       !atomic_load_explicit(&h->weir->closed, memory_order_relaxed);
}

bool weir__cache_take(struct weir_heap *h, size_t size,
		      struct weir_stream *stream, struct weir_block *ret_block)
{
	struct weir__cache *cache = cache_of(h, stream);
	size_t bin = (size - 1) >> h->tlsf.shift; /* size 0: too large */
	bool found;

	if (bin >= WEIR__CACHE_BINS || !is_fast(h) || !cache_trylock(cache))
		return false;
	found = cache->bin[bin] && stream_of(cache) == stream;
	if (found)
		block_begin(h, cache, cache_pop(h, cache, bin), ret_block);
	cache_unlock(cache);
	return found;
}

void weir__cache_enter(struct weir_heap *h, struct weir__chunk *c,
		       struct weir_stream *stream, struct weir_block *ret_block)
{
	struct weir__cache *cache = cache_of(h, stream);

	/* A thread now uses the cache for another stream. */
	if (stream_of(cache) != stream)
		weir__cache_flush(h, cache);
	cache_lock(cache);
	if (!cache->n)
		atomic_store_explicit(&cache->stream, stream,
				      memory_order_relaxed);
	atomic_store_explicit(&c->home, (uint16_t)(cache - h->cache),
			      memory_order_relaxed);
	block_begin(h, cache, c, ret_block);
	cache_unlock(cache);
}

/*
 * The chunk of a block, with the lock of its home; NULL: there is no such live
 * block. The chunk may be anything until the lock is held.
 */
static struct weir__chunk *block_lock(struct weir_heap *h,
				      const struct weir_block *block,
				      struct weir__cache **ret_cache)
{
	uint32_t number = (uint32_t)block->id;
	struct weir__cache *cache;
	struct weir__chunk *c;
	uint16_t home;

	if (!number ||
	    number >= atomic_load_explicit(&h->tlsf.made, memory_order_acquire))
		return NULL;
	c = weir__heap_chunk(h, number);
	home = atomic_load_explicit(&c->home, memory_order_relaxed);
	cache = &h->cache[home];
	cache_lock(cache);
	if (weir__chunk_tag(c) == block->id >> 32 &&
	    (weir__chunk_tag(c) & 3) == WEIR__CHUNK_LIVE &&
	    atomic_load_explicit(&c->home, memory_order_relaxed) == home &&
	    c->addr == block->addr) {
		*ret_cache = cache;
		return c;
	}
	cache_unlock(cache);
	return NULL;
}

enum weir__claim weir__cache_claim(struct weir_heap *h,
				   const struct weir_block *block,
				   struct weir_stream *stream)
{
	struct weir__cache *cache;
	struct weir__chunk *c = block_lock(h, block, &cache);
	enum weir__claim claim = WEIR__CLAIM_TAKEN;
	size_t bin;

	if (!c)
		return WEIR__CLAIM_NONE;
	bin = (c->bytes - 1) >> h->tlsf.shift;
	weir__chunk_set(c, WEIR__CHUNK_KEPT);
	cache->live -= c->bytes;
	cache->blocks--;
	cache->frees++;
	if (bin < WEIR__CACHE_BINS && stream_of(cache) == stream &&
	    is_fast(h)) {
		claim = WEIR__CLAIM_FULL;
		if (cache->n < KEPT_BLOCKS && cache->kept < KEPT_BYTES) {
			cache_push(cache, c, bin);
			claim = WEIR__CLAIM_KEPT;
		}
	}
	cache_unlock(cache);
	return claim;
}

void weir__cache_unclaim(struct weir_heap *h, const struct weir_block *block)
{
	struct weir__chunk *c = weir__heap_chunk(h, (uint32_t)block->id);
	struct weir__cache *cache = &h->cache[atomic_load(&c->home)];

	cache_lock(cache);
	atomic_store_explicit(&c->tag, (uint32_t)(block->id >> 32),
			      memory_order_relaxed);
	cache->live += c->bytes;
	cache->blocks++;
	cache->frees--;
	cache_unlock(cache);
}

bool weir__cache_block(struct weir_heap *h, struct weir__chunk *c,
		       struct weir_block *ret_block)
{
	const struct weir__region *region = h->region[c->region];
	uint32_t tag = weir__chunk_tag(c);

	if ((tag & 3) != WEIR__CHUNK_LIVE)
		return false;
	*ret_block = (struct weir_block){
		.heap = h,
		.buf = region->buf,
		.offset = c->addr - region->base,
		.addr = c->addr,
		.bytes = c->bytes,
		.id = (uint64_t)tag << 32 | c->self,
	};
	return true;
}

/* Take all blocks out of the cache, as a chain by older. The lock is held. */
static uint32_t cache_empty(struct weir_heap *h, struct weir__cache *cache)
{
	uint32_t chain = 0;

	for (size_t i = 0; i < WEIR__CACHE_BINS / 64; i++)
		while (cache->used[i]) {
			size_t bin = i * 64 +
				     (size_t)__builtin_ctzll(cache->used[i]);
			struct weir__chunk *c = cache_pop(h, cache, bin);

			c->older = chain;
			chain = c->self;
		}
	return chain;
}

bool weir__cache_flush(struct weir_heap *h, struct weir__cache *cache)
{
	struct weir__lane *lane;
	struct weir__chunk *c;
	uint32_t chain, i;

	pthread_mutex_lock(&h->lock);
	cache_lock(cache);
	chain = cache_empty(h, cache);
	/* The lane exists as long as a cache has the stream. */
	lane = weir__lane_find(h, stream_of(cache));
	cache_unlock(cache);
	for (i = chain; i;) {
		c = weir__heap_chunk(h, i);
		i = c->older;
		weir__heap_give(h, c, lane);
	}
	pthread_mutex_unlock(&h->lock);
	return chain;
}

bool weir__caches_flush(struct weir_heap *h)
{
	bool any = false;

	for (unsigned i = 0; i < WEIR__CACHES; i++)
		any |= weir__cache_flush(h, &h->cache[i]);
	return any;
}

void weir__cache_flush_own(struct weir_heap *h,
			   const struct weir_stream *stream)
{
	weir__cache_flush(h, cache_of(h, stream));
}

bool weir__caches_forget(struct weir_heap *h, const struct weir_stream *stream)
{
	bool free = true;

	for (unsigned i = 0; i < WEIR__CACHES; i++) {
		struct weir__cache *cache = &h->cache[i];

		if (stream_of(cache) != stream)
			continue;
		cache_lock(cache);
		if (cache->n)
			free = false;
		else if (stream_of(cache) == stream)
			atomic_store_explicit(&cache->stream, NULL,
					      memory_order_relaxed);
		cache_unlock(cache);
	}
	return free;
}

void weir__caches_add_stats(struct weir_heap *h, struct weir_heap_stats *s)
{
	for (unsigned i = 0; i < WEIR__CACHES; i++) {
		struct weir__cache *cache = &h->cache[i];

		cache_lock(cache);
		s->live += cache->live;
		s->kept += cache->kept;
		s->blocks += cache->blocks;
		s->allocs += cache->allocs;
		s->frees += cache->frees;
		cache_unlock(cache);
	}
}
