/* SPDX-License-Identifier: MIT */
/*
 * Shards: what threads do that contend for the heap's lock. Each gets a shard of
 * its own, which takes spans from the root shard: large pieces, which it divides
 * under its own lock.
 *
 * A span is a piece of the root shard that is not free. Its record has the
 * number of the first of the pieces that it is divided into (left) and the next
 * span of the shard (after). The pieces of a span are neighbours of each other
 * only, so they do not merge with those of another span.
 *
 * As soon as a call needs more than that (there is no memory, or the caller
 * wants to see all of it), it gathers: the pieces of all spans become pieces of
 * the root shard, and the shards are closed, until the threads contend again.
 * Live blocks and caches do not notice. A gather costs a little for each piece,
 * and each piece is the result of a call before, so gathers are cheap in total.
 */
#include "core/error.h"
#include "core/sys.h"
#include "heap/heap.h"

/*
 * A thread gets a shard when it found the lock taken so often, each time after
 * at most so many calls, of all threads, since the last time.
 */
#define CONTENDED 16u
#define CONTENDED_GAP 256u

/*
 * The bytes of a span: a part of the most that was in use, and of the buffers at
 * most; its limits; at least so many units.
 */
#define SPAN_PART 64u
#define SPAN_LEAST ((uint64_t)1 << 20)
#define SPAN_MOST ((uint64_t)32 << 20)
#define SPAN_UNITS 64u
/* Used memory is taken before fresh memory, if it is this part of a span. */
#define LEAST_PART 8u
/* A shard allocates blocks of up to this part of a span. */
#define BLOCK_PART 4u

/* Records that a shard gets at a time; the root shard needs two for a cut. */
#define RECORDS 64u
#define CUT 2u

/* From now on the thread is to use a shard. */
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

/* The shard @index of a thread. */
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
		weir__lanes_free(t->shard);
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
	return weir__down(bytes, 1ull << h->pieces.shift);
}

/* Lanes and records for the shard. False: no memory. Both locks are held. */
static bool shard_open(struct weir_heap *h, struct weir__shard *s,
		       const struct weir__lane *lane)
{
	bool was_open = s->n_lanes, ready;

	ready = weir__lane_share(s, h->root.lane[0]) &&
		weir__lane_share(s, lane);
	if (s->n_lanes && !was_open)
		h->n_open++;
	if (!ready || weir__heap_pieces_reserve(&h->pieces, &h->root.spares,
						RECORDS + 2 * CUT) < 0)
		return false;
	if (s->spares.n <= CUT)
		weir__spares_move(&h->pieces, &h->root.spares, &s->spares,
				  RECORDS);
	return true;
}

/* The span, whole, becomes free memory of the shard. */
static void span_add(struct weir__shard *s, struct weir__piece *span)
{
	struct weir__piece *c = weir__piece_new(&s->heap->pieces, &s->spares);

	c->addr = span->addr;
	c->bytes = span->bytes;
	c->region = span->region;
	c->lane = span->lane;
	c->number = weir__lane_number(s->lane[c->lane]);
	weir__piece_move(c, s->index);
	weir__shard_add(s, c);
	span->left = c->self;
	span->after = s->spans;
	s->spans = span->self;
	s->bytes += span->bytes;
}

/* A span with room for @block, of memory that its stream may use. */
static bool span_take(struct weir_heap *h, struct weir__shard *s,
		      const struct weir__want *block)
{
	struct weir__want w = { .bytes = span_bytes(h),
				.align = 1ull << h->pieces.shift,
				.lane = block->lane };
	struct weir__piece *span;
	uint64_t least;

	least = w.bytes / LEAST_PART;
	if (least < block->bytes + block->align)
		least = block->bytes + block->align;
	span = weir__shard_take_span(&h->root, &w, least);
	if (span)
		span_add(s, span);
	return span;
}

/* The shard that this thread is to use; NULL: none. The lock is held. */
static struct weir__shard *shard_due(struct weir_heap *h)
{
	struct weir__caches *t = weir__heap_sharded(h) ? weir__caches_own(h)
						       : NULL;

	if (!t || t->contended < CONTENDED || weir__heap_is_recorded(h) ||
	    span_bytes(h) >> h->pieces.shift < SPAN_UNITS)
		return NULL;
	if (!t->shard)
		t->shard = shard_new(h, t->index + 1u);
	return t->shard;
}

/* Memory of the shard for a block, or NULL. */
static struct weir__piece *shard_take(struct weir__shard *s,
				      const struct weir__want *w,
				      const struct weir_stream *stream)
{
	struct weir__want own = { .bytes = w->bytes, .align = w->align };

	own.lane = weir__lane_find(s, stream);
	if (!own.lane || s->spares.n < CUT || w->bytes > s->most ||
	    w->align > s->most)
		return NULL;
	return weir__shard_take(s, &own, WEIR__TAKE_BEST);
}

struct weir__shard *weir__shard_take_own(struct weir_heap *h,
					 struct weir__caches *own,
					 const struct weir__want *w,
					 struct weir_stream *stream,
					 struct weir__piece **ret_piece)
{
	struct weir__shard *s = own ? own->shard : NULL;

	if (!s || !weir__cache_stays(h, own, stream))
		return NULL;
	weir__lock(&s->lock);
	*ret_piece = shard_take(s, w, stream);
	if (*ret_piece)
		return s;
	weir__unlock(&s->lock);
	return NULL;
}

struct weir__piece *weir__shard_take_new(struct weir_heap *h,
					 const struct weir__want *w)
{
	struct weir__shard *s = shard_due(h);
	struct weir__piece *c = NULL;

	if (!s)
		return NULL;
	weir__lock(&s->lock);
	s->most = span_bytes(h) / BLOCK_PART;
	if (w->bytes <= s->most && w->align <= s->most &&
	    shard_open(h, s, w->lane)) {
		c = shard_take(s, w, w->lane->stream);
		if (!c && span_take(h, s, w))
			c = shard_take(s, w, w->lane->stream);
	}
	weir__unlock(&s->lock);
	return c;
}

struct weir__shard *weir__shard_lock(struct weir_heap *h,
				     const struct weir__piece *c)
{
	unsigned index = weir__piece_shard(c);
	struct weir__shard *s;

	if (!index)
		return NULL;
	s = shard_at(h, index);
	weir__lock(&s->lock);
	if (weir__piece_shard(c) == index)
		return s;
	/* Its span was dissolved meanwhile. */
	weir__unlock(&s->lock);
	return NULL;
}

/* A span that is one free piece, if the shard has as much free memory besides. */
static struct weir__piece *span_idle(struct weir__shard *s)
{
	struct weir__piece *c = weir__heap_piece(s->heap, s->whole);

	if (!s->whole || weir__piece_shard(c) != s->index ||
	    !weir__piece_is_free(c) || c->prev || c->next ||
	    s->bytes - s->taken < 2 * c->bytes)
		return NULL;
	return c;
}

/* Give the span back that is the free piece @c. Both locks are held. */
static void span_give(struct weir_heap *h, struct weir__shard *s,
		      struct weir__piece *c)
{
	struct weir__piece *span = NULL;
	uint32_t *link = &s->spans;

	for (; *link; link = &span->after) {
		span = weir__heap_piece(h, *link);
		if (span->left == c->self)
			break;
	}
	*link = span->after;
	s->bytes -= span->bytes;
	weir__shard_del(s, c);
	weir__piece_drop(&s->spares, c);
	weir__shard_give(&h->root, span, h->root.lane[c->lane]);
}

void weir__shard_unlock(struct weir__shard *s)
{
	bool idle = span_idle(s);
	struct weir_heap *h = s->heap;
	struct weir__piece *c;

	weir__unlock(&s->lock);
	if (!idle)
		return;
	/* Again, in the order of the locks. */
	weir__lock(&h->root.lock);
	weir__lock(&s->lock);
	c = span_idle(s);
	if (c)
		span_give(h, s, c);
	weir__unlock(&s->lock);
	weir__heap_unlock(h);
}

/* The pieces of a span replace it among the pieces of the root shard. */
static void span_link(struct weir_heap *h, struct weir__piece *span,
		      struct weir__piece *first, struct weir__piece *last)
{
	first->prev = span->prev;
	last->next = span->next;
	if (first->prev)
		weir__heap_piece(h, first->prev)->next = first->self;
	else
		h->region[span->region]->first = first->self;
	if (last->next)
		weir__heap_piece(h, last->next)->prev = last->self;
}

/*
 * Those that are free get the present as their free point: the numbers of a
 * native stream are not those of its lane in the root shard.
 */
static void span_dissolve(struct weir_heap *h, struct weir__shard *s,
			  struct weir__piece *span)
{
	struct weir__piece *c = NULL;
	uint32_t free = 0;

	for (uint32_t i = span->left; i; i = c->next) {
		c = weir__heap_piece(h, i);
		weir__piece_move(c, 0);
		if (!weir__piece_is_free(c))
			continue;
		weir__shard_del(s, c);
		c->left = free;
		free = c->self;
	}
	span_link(h, span, weir__heap_piece(h, span->left), c);
	weir__piece_drop(&h->root.spares, span);
	while (free) {
		c = weir__heap_piece(h, free);
		free = c->left;
		weir__shard_give(&h->root, c, h->root.lane[c->lane]);
	}
}

/* Both locks are held. */
static void shard_close(struct weir_heap *h, struct weir__shard *s)
{
	struct weir__tally *sum = &h->root.tally;

	while (s->spans) {
		struct weir__piece *span = weir__heap_piece(h, s->spans);

		s->spans = span->after;
		span_dissolve(h, s, span);
	}
	weir__lanes_free(s);
	sum->bytes += s->tally.bytes;
	sum->blocks += s->tally.blocks;
	sum->allocs += s->tally.allocs;
	sum->frees += s->tally.frees;
	s->tally = (struct weir__tally){ 0 };
	s->bytes = s->taken = s->taken_peak = 0;
	s->whole = 0;
}

bool weir__shards_gather(struct weir_heap *h)
{
	if (!h->n_open)
		return false;
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
	return true;
}

void weir__heap_lock_all(struct weir_heap *h)
{
	weir__heap_lock(h);
	weir__shards_gather(h);
}

void weir__shards_give(struct weir_heap *h, struct weir__piece *c,
		       struct weir__lane *lane)
{
	struct weir__shard *s = weir__shard_lock(h, c);
	struct weir__lane *own = s ? weir__lane_share(s, lane) : NULL;

	if (own)
		weir__shard_give(s, c, own);
	if (s)
		weir__unlock(&s->lock);
	if (own)
		return;
	/* Without memory for a lane there, the root shard gets the piece. */
	if (s)
		weir__shards_gather(h);
	weir__shard_give(&h->root, c, lane);
}
