/* SPDX-License-Identifier: MIT */
/*
 * Caches: the fast path. Each thread has its own, which it uses without a lock
 * and without an atomic instruction, since one alone takes as long as all the
 * rest. Another thread that needs them (before the heap grows, say) revokes
 * them meanwhile:
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
#include <sched.h>

#include "core/root.h"
#include "core/sys.h"
#include "heap/heap.h"

/*
 * The limits of one cache: blocks; bytes, as a part of what is in use; the
 * least limit in bytes; the part of the limit for blocks of one size.
 */
#define KEPT_BLOCKS 8192u
#define KEPT_PART 192u
#define KEPT_BYTES ((uint64_t)256 << 10)
#define SIZE_PART 32u

/* Between two misses a cache may have this part more than its limit. */
#define OVER_PART 8u

/* A cache answers with a block that is at most this part larger. */
#define FIT_PART 16u

/* Misses after which a cache that has blocks of another stream changes. */
#define MISSES 16u

static inline unsigned hash_of(const void *p, unsigned bits)
{
	return (unsigned)((uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u >>
			  (64 - bits));
}

/* This thread's caches, or NULL. */
static inline struct weir__caches *caches_own(struct weir_heap *h)
{
	return weir__own_place
		       ? weir__caches_at(h, (unsigned)weir__own_place - 1)
		       : NULL;
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

/* By the owner. False: revoked, use the heap's lock. */
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
	uint64_t n = ((size - 1) >> h->pieces.shift) + 1;

	if (n >= 128 && n < WEIR__CACHE_UNITS)
		n = weir__up(n, 1ull << (57 - __builtin_clzll(n)));
	return n;
}

static inline size_t bin_index(uint64_t units)
{
	struct weir__bin at = weir__bin_of(units);

	return at.level * 64 + at.bin;
}

uint64_t weir__cache_bytes(const struct weir_heap *h, size_t size)
{
	return units_of(h, size) << h->pieces.shift;
}

/* False: no cache keeps blocks of @bytes. 0 bytes: false. */
static inline bool caches_keep(const struct weir_heap *h, uint64_t bytes)
{
	return bytes - 1 <
	       atomic_load_explicit(&h->kept_most, memory_order_relaxed);
}

static inline void block_fill(const struct weir_heap *h,
			      const struct weir__piece *c, uint32_t tag,
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
			       struct weir__piece *c,
			       struct weir_block *ret_block)
{
	weir__piece_set(c, WEIR__PIECE_LIVE);
	tally->bytes += c->bytes;
	tally->blocks++;
	tally->allocs++;
	block_fill(h, c, weir__piece_tag(c), ret_block);
}

static inline struct weir__piece *
cache_pop(struct weir_heap *h, struct weir__cache *cache, size_t bin)
{
	struct weir__piece *c = weir__heap_piece(h, cache->bin[bin]);

	cache->bin[bin] = c->left;
	if (!c->left)
		cache->used[bin / 64] &= ~(1ull << bin % 64);
	cache->n--;
	cache->count[bin]--;
	cache->kept -= c->bytes;
	return c;
}

static inline void cache_push(struct weir__cache *cache, struct weir__piece *c,
			      size_t bin)
{
	c->left = cache->bin[bin];
	cache->bin[bin] = c->self;
	cache->used[bin / 64] |= 1ull << bin % 64;
	cache->n++;
	cache->count[bin]++;
	cache->kept += c->bytes;
}

/* May the cache keep one more block of this bin? */
static inline bool cache_wants(const struct weir__cache *cache, size_t bin,
			       uint64_t bytes)
{
	return (cache->count[bin] + 1) * bytes <= cache->limit / SIZE_PART;
}

/*
 * The first bin with blocks of *bin and those up to 1/FIT_PART larger. False:
 * all are empty.
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

	if (!caches_keep(h, size))
		return false;
	units = units_of(h, size);
	bin = bin_index(units);
	t = caches_own(h);
	if (!t || units >= WEIR__CACHE_UNITS || !caches_enter(h, t))
		return false;
	cache = cache_of(t, stream);
	found = cache->stream == stream && cache_fit(cache, &bin, units);
	if (found) {
		struct weir__piece *c = cache_pop(h, cache, bin);

		atomic_store_explicit(&c->home, t->index, memory_order_relaxed);
		block_begin(h, &t->tally, c, ret_block);
	}
	caches_leave(t);
	return found;
}

void weir__block_begin(struct weir__shard *s, const struct weir__caches *own,
		       struct weir__piece *c, struct weir_block *ret_block)
{
	atomic_store_explicit(&c->home, own ? own->index : WEIR__THREADS,
			      memory_order_relaxed);
	weir__index_add(s->heap, c);
	block_begin(s->heap, &s->tally, c, ret_block);
}

bool weir__block_get(const struct weir_heap *h, const struct weir__piece *c,
		     struct weir_block *ret_block)
{
	uint32_t tag = weir__piece_tag(c);

	if ((tag & 3) != WEIR__PIECE_LIVE)
		return false;
	block_fill(h, c, tag, ret_block);
	return true;
}

static inline struct weir__piece *block_piece(struct weir_heap *h,
					      const struct weir_block *block)
{
	uint32_t number = (uint32_t)block->id, tag = block->id >> 32;
	struct weir__piece *c;

	if (!number || (tag & 3) != WEIR__PIECE_LIVE ||
	    number >=
		    atomic_load_explicit(&h->pieces.made, memory_order_acquire))
		return NULL;
	c = weir__heap_piece(h, number);
	return weir__piece_tag(c) == tag && c->addr == block->addr ? c : NULL;
}

struct weir__piece *weir__block_piece(struct weir_heap *h,
				      const struct weir_block *block)
{
	return block_piece(h, block);
}

/* Several threads may try to end a block: one succeeds. */
static bool block_claim(struct weir__piece *c, const struct weir_block *block)
{
	uint32_t tag = block->id >> 32;

	return atomic_compare_exchange_strong(&c->tag, &tag,
					      (tag & ~3u) | WEIR__PIECE_KEPT);
}

static inline void block_count(struct weir__tally *tally,
			       const struct weir__piece *c)
{
	tally->bytes -= c->bytes;
	tally->blocks--;
	tally->frees++;
}
struct weir__piece *weir__block_end(struct weir__shard *s,
				    const struct weir_block *block)
{
	struct weir__piece *c = block_piece(s->heap, block);

	if (!c || !block_claim(c, block))
		return NULL;
	block_count(&s->tally, c);
	return c;
}

/* The first bin from @bin on that has blocks, after the last the first. */
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

/* A block of each size in turn, so that the cache follows the sizes in use. */
static struct weir__piece *cache_evict(struct weir_heap *h,
				       struct weir__cache *cache)
{
	size_t victim = bin_with_blocks(cache, cache->hand);

	cache->hand = (uint32_t)(victim + 1) % WEIR__CACHE_BINS;
	return cache_pop(h, cache, victim);
}

/*
 * Must the cache give a block back at once? Without shards it may exceed its limit by
 * a part: the next miss takes the heap's lock and gives the excess back. With shards
 * the next miss may take another lock.
 */
static inline bool cache_is_over(const struct weir_heap *h,
				 const struct weir__cache *cache)
{
	uint64_t most = cache->limit;

	if (!weir__heap_sharded(h))
		most += most / OVER_PART;
	return cache->n > KEPT_BLOCKS || cache->kept > most;
}

/*
 * The thread that allocated the block needs no atomic instruction to end it:
 * only two threads that free the same block at the same time go unnoticed.
 */
static inline bool block_take(struct weir__caches *t, struct weir__piece *c,
			      const struct weir_block *block)
{
	if (atomic_load_explicit(&c->home, memory_order_relaxed) != t->index)
		return block_claim(c, block);
	weir__piece_set(c, WEIR__PIECE_KEPT);
	return true;
}

bool weir__cache_put(struct weir_heap *h, const struct weir_block *block,
		     struct weir_stream *stream,
		     struct weir__piece **ret_evicted)
{
	struct weir__piece *c;
	struct weir__caches *t;
	struct weir__cache *cache;
	uint64_t units;
	size_t bin;
	bool kept;

	if (!caches_keep(h, block->bytes))
		return false;
	c = block_piece(h, block);
	t = c ? caches_own(h) : NULL;
	if (!t || !caches_enter(h, t))
		return false;
	cache = cache_of(t, stream);
	units = c->bytes >> h->pieces.shift;
	bin = bin_index(units);
	/* A record has the calls in the order in which bins change. */
	kept = units < WEIR__CACHE_UNITS && cache->stream == stream &&
	       !atomic_load_explicit(&h->record, memory_order_relaxed) &&
	       cache_wants(cache, bin, c->bytes) && block_take(t, c, block);
	if (kept) {
		block_count(&t->tally, c);
		cache_push(cache, c, bin);
		*ret_evicted = cache_is_over(h, cache) ? cache_evict(h, cache)
						       : NULL;
	}
	caches_leave(t);
	return kept;
}

/*
 * Give all blocks of a cache back. The heap's lock is held, and the caches are
 * revoked or entered.
 */
static void cache_flush(struct weir_heap *h, struct weir__cache *cache)
{
	struct weir__lane *lane;
	struct weir__piece *c;

	/* The lane exists as long as a cache has the stream. */
	lane = weir__lane_find(&h->root, cache->stream);
	for (size_t i = 0; i < WEIR__CACHE_BINS / 64; i++)
		while (cache->used[i]) {
			c = cache_pop(h, cache,
				      i * 64 + (size_t)__builtin_ctzll(
						       cache->used[i]));
			weir__index_del(h, c);
			weir__piece_give(h, c, lane);
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

	if (!weir__own_place && !weir__place_take())
		return NULL;
	t = caches_own(h);
	if (t)
		return t;
	t = weir__calloc_aligned(1, sizeof(*t));
	if (!t)
		return NULL;
	t->index = (uint16_t)(weir__own_place - 1);
	atomic_store_explicit(&h->thread[t->index], t, memory_order_release);
	return t;
}

bool weir__cache_stays(const struct weir_heap *h, struct weir__caches *t,
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
 * Give back the blocks that a cache keeps beyond its limit. Its owner calls this with
 * the heap's lock held.
 */
static void cache_shed(struct weir_heap *h, struct weir__cache *cache,
		       struct weir__lane *lane)
{
	while (cache->kept > cache->limit) {
		struct weir__piece *c = cache_evict(h, cache);

		weir__index_del(h, c);
		weir__piece_give(h, c, lane);
	}
}

struct weir__caches *weir__cache_adopt(struct weir_heap *h,
				       struct weir__lane *lane)
{
	struct weir_stream *stream = lane->stream;
	struct weir__caches *t = caches_own(h);
	struct weir__cache *cache;

	/* Only the owner, and others under the lock, write to it. */
	if (!t)
		t = weir__caches_make(h);
	if (!t)
		return NULL;
	cache = cache_of(t, stream);
	cache->limit = h->root.taken / KEPT_PART > KEPT_BYTES
			       ? h->root.taken / KEPT_PART
			       : KEPT_BYTES;
	atomic_store_explicit(&h->kept_most, cache->limit / SIZE_PART,
			      memory_order_relaxed);
	if (cache->stream == stream) {
		cache_shed(h, cache, lane);
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

void weir__caches_forget(struct weir_heap *h, const struct weir_stream *stream)
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
	s->live += t->bytes;
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
			s->kept += t->cache[j].kept;
	}
	weir__caches_restore(h);
}

void weir__caches_free(struct weir_heap *h)
{
	for (unsigned i = 0; i < WEIR__THREADS; i++)
		weir__free(weir__caches_at(h, i));
}
