/* SPDX-License-Identifier: MIT */
/*
 * Each thread that contends for the heap's lock gets a shard of its own, which
 * takes spans from the root shard: large blocks, which it divides under its own
 * lock.
 *
 * A span is a block of the root shard that is not free. In its record `left` is
 * the first of the blocks that it is divided into, and `after` the next span of
 * the shard. Only the blocks of one span are neighbours, so they do not merge
 * with others.
 *
 * A call that needs all memory (it finds none, or describes all of it)
 * consolidates: the blocks of all spans become blocks of the root shard, and
 * the shards are closed until the threads contend again. Used blocks and caches
 * do not change. To consolidate takes constant time for each block, and each
 * block is the result of an earlier call, so the total is small.
 */
#include "core/error.h"
#include "core/sys.h"
#include "heap/heap.h"

/*
 * A thread gets a shard when it has found the lock taken CONTENDED times, with
 * at most CONTENDED_GAP calls of all threads between two of them.
 */
#define CONTENDED 16u
#define CONTENDED_GAP 256u

/*
 * The bytes of a span: this part of the most that was in use, between two
 * limits, and at most this part of the buffers. It has at least SPAN_UNITS
 * units.
 */
#define SPAN_PART 64u
#define SPAN_LEAST ((uint64_t)1 << 20)
#define SPAN_MOST ((uint64_t)32 << 20)
#define SPAN_UNITS 64u
/* A span of this part of the usual bytes is better than one of new memory. */
#define LEAST_PART 8u
/* The largest block of a shard is this part of a span. */
#define BLOCK_PART 4u

/*
 * Records that a shard gets at a time; the root shard needs two to split a
 * block.
 */
#define RECORDS 64u
#define CUT 2u

/* From now on the thread uses a shard. */
static void shard_begin(struct weir_heap *h, struct weir__caches *t)
{
	t->contended = CONTENDED;
	atomic_store_explicit(&h->sharded, true, memory_order_relaxed);
}

void weir__heap_contended(struct weir_heap *h)
{
	struct weir__caches *t = weir__caches_own(h);

	if (!t || t->contended >= CONTENDED)
		return;
	if (h->locked - t->locked > CONTENDED_GAP)
		t->contended = 0;
	t->locked = h->locked;
	if (++t->contended >= CONTENDED)
		shard_begin(h, t);
}

int weir__shard_want(struct weir_heap *h)
{
	struct weir__caches *t;

	weir__lock(&h->root.lock);
	t = weir__caches_make(h);
	if (t)
		shard_begin(h, t);
	weir__heap_unlock(h);
	return t ? 0
		 : weir__fail(-ENOMEM, "no memory for a shard of %s", h->label);
}

/* The thread's shard with this index. */
static struct weir__shard *shard_at(struct weir_heap *h, unsigned index)
{
	return weir__caches_at(h, index - 1)->shard;
}

static struct weir__shard *shard_new(struct weir_heap *h, unsigned index)
{
	struct weir__shard *s = weir__calloc_aligned(1, sizeof(*s));

	if (!s)
		return NULL;
	s->lock.membarrier = h->membarrier;
	s->heap = h;
	s->index = (uint16_t)index;
	return s;
}

void weir__shards_free(struct weir_heap *h)
{
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);

		if (!t || !t->shard)
			continue;
		weir__stream_bins_free(t->shard);
		weir__free(t->shard);
	}
}

static uint64_t span_bytes(const struct weir_heap *h)
{
	uint64_t bytes = h->root.taken_peak / SPAN_PART;

	if (bytes < SPAN_LEAST)
		bytes = SPAN_LEAST;
	if (bytes > SPAN_MOST)
		bytes = SPAN_MOST;
	if (bytes > h->reserved / SPAN_PART)
		bytes = h->reserved / SPAN_PART;
	return weir__down(bytes, 1ull << h->blocks.shift);
}

/*
 * Give the shard stream bins and records. False: no memory. Both locks are
 * held.
 */
static bool shard_open(struct weir_heap *h, struct weir__shard *s,
		       const struct weir__stream_bin *bin)
{
	bool was_open = s->n_bins, ready;

	ready = weir__stream_bin_share(s, h->root.bin[0]) &&
		weir__stream_bin_share(s, bin);
	if (s->n_bins && !was_open)
		h->n_open++;
	if (!ready || weir__block_table_reserve(&h->blocks, &h->root.spares,
						RECORDS + 2 * CUT) < 0)
		return false;
	if (s->spares.n <= CUT)
		weir__spares_move(&h->blocks, &h->root.spares, &s->spares,
				  RECORDS);
	return true;
}

/* Make the span one free block of the shard. */
static void span_add(struct weir__shard *s, struct weir__block *span)
{
	struct weir__block *b = weir__block_new(&s->heap->blocks, &s->spares);

	b->addr = span->addr;
	b->bytes = span->bytes;
	b->region = span->region;
	b->bin = span->bin;
	b->number = weir__free_event_now(s->bin[b->bin]);
	weir__block_set_shard(b, s->index);
	weir__shard_add(s, b);
	span->left = b->self;
	span->after = s->spans;
	s->spans = span->self;
	s->bytes += span->bytes;
}

/* Take a span of memory that the stream of @block may use, with room for it. */
static bool span_take(struct weir_heap *h, struct weir__shard *s,
		      const struct weir__want *block)
{
	struct weir__want w = { .bytes = span_bytes(h),
				.align = 1ull << h->blocks.shift,
				.bin = block->bin };
	struct weir__block *span;
	uint64_t least;

	least = w.bytes / LEAST_PART;
	if (least < block->bytes + block->align)
		least = block->bytes + block->align;
	span = weir__shard_take_span(&h->root, &w, least);
	if (span)
		span_add(s, span);
	return span;
}

/* The shard that this thread should use, or NULL. The heap's lock is held. */
static struct weir__shard *shard_due(struct weir_heap *h)
{
	struct weir__caches *t = weir__heap_sharded(h) ? weir__caches_own(h)
						       : NULL;

	if (!t || t->contended < CONTENDED || weir__heap_is_recorded(h) ||
	    span_bytes(h) >> h->blocks.shift < SPAN_UNITS)
		return NULL;
	if (!t->shard)
		t->shard = shard_new(h, t->index + 1u);
	return t->shard;
}

/* Take memory of the shard, or return NULL. */
static struct weir__block *shard_take(struct weir__shard *s,
				      const struct weir__want *w,
				      const struct weir_stream *stream)
{
	struct weir__want own = { .bytes = w->bytes, .align = w->align };

	own.bin = weir__stream_bin_find(s, stream);
	if (!own.bin || s->spares.n < CUT || w->bytes > s->most ||
	    w->align > s->most)
		return NULL;
	return weir__shard_take(s, &own, WEIR__TAKE_BEST);
}

struct weir__shard *weir__shard_take_own(struct weir_heap *h,
					 struct weir__caches *own,
					 const struct weir__want *w,
					 struct weir_stream *stream,
					 struct weir__block **ret_block)
{
	struct weir__shard *s = own ? own->shard : NULL;

	if (!s || !weir__cache_has_stream(h, own, stream))
		return NULL;
	weir__lock(&s->lock);
	*ret_block = shard_take(s, w, stream);
	if (*ret_block)
		return s;
	weir__unlock(&s->lock);
	return NULL;
}

struct weir__block *weir__shard_take_new(struct weir_heap *h,
					 const struct weir__want *w)
{
	struct weir__shard *s = shard_due(h);
	struct weir__block *b = NULL;

	if (!s)
		return NULL;
	weir__lock(&s->lock);
	s->most = span_bytes(h) / BLOCK_PART;
	if (w->bytes <= s->most && w->align <= s->most &&
	    shard_open(h, s, w->bin)) {
		b = shard_take(s, w, w->bin->stream);
		if (!b && span_take(h, s, w))
			b = shard_take(s, w, w->bin->stream);
	}
	weir__unlock(&s->lock);
	return b;
}

struct weir__shard *weir__shard_lock(struct weir_heap *h,
				     const struct weir__block *b)
{
	unsigned index = weir__block_shard(b);
	struct weir__shard *s;

	if (!index)
		return NULL;
	s = shard_at(h, index);
	weir__lock(&s->lock);
	if (weir__block_shard(b) == index)
		return s;
	/* Its span was dissolved meanwhile. */
	weir__unlock(&s->lock);
	return NULL;
}

/* A span that is one free block, if the shard has as much other free memory. */
static struct weir__block *span_idle(struct weir__shard *s)
{
	struct weir__block *b = weir__heap_block(s->heap, s->whole);

	if (!s->whole || weir__block_shard(b) != s->index ||
	    !weir__block_is_free(b) || b->prev || b->next ||
	    s->bytes - s->taken < 2 * b->bytes)
		return NULL;
	return b;
}

/* Give the span that is the free block @b back. Both locks are held. */
static void span_give(struct weir_heap *h, struct weir__shard *s,
		      struct weir__block *b)
{
	struct weir__block *span = NULL;
	uint32_t *link = &s->spans;

	for (; *link; link = &span->after) {
		span = weir__heap_block(h, *link);
		if (span->left == b->self)
			break;
	}
	*link = span->after;
	s->bytes -= span->bytes;
	weir__shard_del(s, b);
	weir__block_drop(&s->spares, b);
	weir__shard_give(&h->root, span, h->root.bin[b->bin]);
}

void weir__shard_unlock(struct weir__shard *s)
{
	bool idle = span_idle(s);
	struct weir_heap *h = s->heap;
	struct weir__block *b;

	weir__unlock(&s->lock);
	if (!idle)
		return;
	/* Look again, with both locks, taken in their order. */
	weir__lock(&h->root.lock);
	weir__lock(&s->lock);
	b = span_idle(s);
	if (b)
		span_give(h, s, b);
	weir__unlock(&s->lock);
	weir__heap_unlock(h);
}

/* Replace the span by its blocks, among the blocks of the root shard. */
static void span_link(struct weir_heap *h, struct weir__block *span,
		      struct weir__block *first, struct weir__block *last)
{
	first->prev = span->prev;
	last->next = span->next;
	if (first->prev)
		weir__heap_block(h, first->prev)->next = first->self;
	else
		h->region[span->region]->first = first->self;
	if (last->next)
		weir__heap_block(h, last->next)->prev = last->self;
}

/*
 * Move the blocks of the span to the root shard. The free event of free ones
 * becomes the present, since each stream bin of a native stream counts its own
 * frees.
 */
static void span_dissolve(struct weir_heap *h, struct weir__shard *s,
			  struct weir__block *span)
{
	struct weir__block *b = NULL;
	uint32_t free = 0;

	for (uint32_t i = span->left; i; i = b->next) {
		b = weir__heap_block(h, i);
		weir__block_set_shard(b, 0);
		if (!weir__block_is_free(b))
			continue;
		weir__shard_del(s, b);
		b->left = free;
		free = b->self;
	}
	span_link(h, span, weir__heap_block(h, span->left), b);
	weir__block_drop(&h->root.spares, span);
	while (free) {
		b = weir__heap_block(h, free);
		free = b->left;
		weir__shard_give(&h->root, b, h->root.bin[b->bin]);
	}
}

/* Give all spans back. Both locks are held. */
static void shard_close(struct weir_heap *h, struct weir__shard *s)
{
	struct weir__tally *sum = &h->root.tally;

	while (s->spans) {
		struct weir__block *span = weir__heap_block(h, s->spans);

		s->spans = span->after;
		span_dissolve(h, s, span);
	}
	weir__stream_bins_free(s);
	sum->bytes += s->tally.bytes;
	sum->blocks += s->tally.blocks;
	sum->allocs += s->tally.allocs;
	sum->frees += s->tally.frees;
	s->tally = (struct weir__tally){ 0 };
	s->bytes = s->taken = s->taken_peak = 0;
	s->whole = 0;
}

static void consolidate(struct weir_heap *h)
{
	if (!h->n_open)
		return;
	for (unsigned i = 0; i < WEIR__THREADS; i++) {
		struct weir__caches *t = weir__caches_at(h, i);

		if (!t)
			continue;
		t->contended = 0;
		if (!t->shard)
			continue;
		weir__lock(&t->shard->lock);
		shard_close(h, t->shard);
		weir__unlock(&t->shard->lock);
	}
	h->n_open = 0;
	atomic_store_explicit(&h->sharded, false, memory_order_relaxed);
}

void weir__heap_lock_all(struct weir_heap *h)
{
	weir__heap_lock(h);
	consolidate(h);
}

void weir__shards_give(struct weir_heap *h, struct weir__block *b,
		       struct weir__stream_bin *bin)
{
	struct weir__shard *s = weir__shard_lock(h, b);
	struct weir__stream_bin *own = s ? weir__stream_bin_share(s, bin)
					 : NULL;

	if (own)
		weir__shard_give(s, b, own);
	if (s)
		weir__unlock(&s->lock);
	if (own)
		return;
	/*
	 * Without memory for a stream bin there, the root shard gets the block.
	 */
	if (s)
		consolidate(h);
	weir__shard_give(&h->root, b, bin);
}
