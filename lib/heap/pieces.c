/* SPDX-License-Identifier: MIT */
/*
 * Free memory of lanes, taken and given back. All functions are called with the
 * heap's lock held.
 */
#include <limits.h>

#include "heap/heap.h"
#include "stream/stream.h"

/* Pieces whose alignment is tried. */
#define EXAMINED 8u
/* Bytes of a block for which caches are flushed first: sometimes, always. */
#define LARGE ((uint64_t)1 << 20)
#define VERY_LARGE ((uint64_t)16 << 20)
/* Pieces whose free points are examined when another is freed in their lane. */
#define DRAINED 2u

static void queue_add(struct weir_heap *h, struct weir__lane *lane,
		      struct weir__piece *c, uint32_t before)
{
	c->before = before;
	c->after = before ? weir__heap_piece(h, before)->after : lane->oldest;
	if (c->before)
		weir__heap_piece(h, c->before)->after = c->self;
	else
		lane->oldest = c->self;
	if (c->after)
		weir__heap_piece(h, c->after)->before = c->self;
	else
		lane->newest = c->self;
}

static void queue_del(struct weir_heap *h, struct weir__lane *lane,
		      struct weir__piece *c)
{
	if (c->before)
		weir__heap_piece(h, c->before)->after = c->after;
	else
		lane->oldest = c->after;
	if (c->after)
		weir__heap_piece(h, c->after)->before = c->before;
	else
		lane->newest = c->before;
}

/* Into the bins, and into the queue after the piece @before. */
static void lane_add(struct weir_heap *h, struct weir__piece *c,
		     uint32_t before)
{
	struct weir__lane *lane = h->lane[c->lane];

	weir__piece_set(c, WEIR__PIECE_FREE);
	weir__bins_add(&h->pieces, &lane->bins, c);
	lane->bytes += c->bytes;
	if (lane->index)
		queue_add(h, lane, c, before);
}

void weir__heap_add(struct weir_heap *h, struct weir__piece *c)
{
	lane_add(h, c, h->lane[c->lane]->newest);
}

void weir__heap_del(struct weir_heap *h, struct weir__piece *c)
{
	struct weir__lane *lane = h->lane[c->lane];

	weir__bins_del(&h->pieces, &lane->bins, c);
	lane->bytes -= c->bytes;
	if (lane->index)
		queue_del(h, lane, c);
	weir__piece_set(c, WEIR__PIECE_KEPT);
}

/* The piece @number, if it is free and in the lane of @c. */
static struct weir__piece *
mergeable(struct weir_heap *h, const struct weir__piece *c, uint32_t number)
{
	struct weir__piece *other;

	if (!number)
		return NULL;
	other = weir__heap_piece(h, number);
	return weir__piece_is_free(other) && other->lane == c->lane ? other
								    : NULL;
}

void weir__heap_merge(struct weir_heap *h, struct weir__piece *c)
{
	struct weir__piece *other = mergeable(h, c, c->next);

	if (other) {
		weir__heap_del(h, other);
		weir__piece_join(&h->pieces, c);
	}
	other = mergeable(h, c, c->prev);
	if (other) {
		weir__heap_del(h, other);
		weir__piece_join(&h->pieces, other);
		c = other;
	}
	weir__heap_add(h, c);
}

void weir__heap_give(struct weir_heap *h, struct weir__piece *c,
		     struct weir__lane *lane)
{
	uint64_t number = weir__lane_number(lane);

	h->taken -= c->bytes;
	if (lane->index && weir__lane_ended(lane, number))
		lane = h->lane[0];
	c->lane = lane->index;
	c->number = number;
	weir__heap_merge(h, c);
	if (lane->index)
		weir__lane_drain(h, lane, DRAINED);
}

/* Take @w out of the free piece @c; what is left stays where it was. */
static struct weir__piece *cut(struct weir_heap *h, struct weir__piece *c,
			       const struct weir__want *w)
{
	struct weir__lane *lane = h->lane[c->lane];
	uint64_t pad = -c->addr & (w->align - 1);
	struct weir__region *region = h->region[c->region];
	struct weir__piece *block = c, *rest = NULL;
	uint32_t before = c->before;

	weir__heap_del(h, c);
	if (!lane->index)
		before = 0;
	if (pad) {
		block = weir__piece_split(&h->pieces, c, pad);
		lane_add(h, c, before);
		before = c->self;
	}
	if (block->bytes > w->bytes) {
		rest = weir__piece_split(&h->pieces, block, w->bytes);
		lane_add(h, rest, before);
	}
	h->taken += block->bytes;
	if (h->taken > h->taken_peak)
		h->taken_peak = h->taken;
	if (block->addr + block->bytes > region->top)
		region->top = block->addr + block->bytes;
	return block;
}

/* May the stream use the free piece @c now? */
static bool usable(const struct weir__want *w, const struct weir__piece *c)
{
	if (!c->lane || c->lane == w->lane->index)
		return true;
	for (unsigned i = 0; i < w->n_deps; i++)
		if (w->dep[i].lane->index == c->lane)
			return c->number <= w->dep[i].number;
	return false;
}

static struct weir__piece *smaller(struct weir__piece *a, struct weir__piece *b)
{
	return !b || (a && a->bytes <= b->bytes) ? a : b;
}

/* The smallest piece of lanes that the stream may use. */
static struct weir__piece *best_piece(struct weir_heap *h,
				      const struct weir__want *w, unsigned most)
{
	struct weir__piece *best, *c;

	best = weir__bins_find(&h->pieces, &w->lane->bins, w->bytes, w->align,
			       most);
	/* Memory that nobody else may use is taken first. */
	if (w->lane->index)
		best = smaller(best,
			       weir__bins_find(&h->pieces, &h->lane[0]->bins,
					       w->bytes, w->align, most));
	for (unsigned i = 0; i < w->n_deps; i++) {
		c = weir__bins_find(&h->pieces, &w->dep[i].lane->bins, w->bytes,
				    w->align, most);
		if (c && usable(w, c))
			best = smaller(best, c);
	}
	return best;
}

/*
 * Extend a stretch from @c to the left and right by free pieces that the stream may
 * use; @any: by any free pieces. Returns the first, and the bytes of all.
 */
static struct weir__piece *stretch_around(struct weir_heap *h,
					  const struct weir__want *w,
					  struct weir__piece *c, bool any,
					  uint64_t *ret_bytes)
{
	struct weir__piece *first = c, *other;
	uint64_t bytes = c->bytes;

	for (uint32_t i = c->next; i; i = other->next) {
		other = weir__heap_piece(h, i);
		if (!weir__piece_is_free(other) || !(any || usable(w, other)))
			break;
		bytes += other->bytes;
	}
	for (uint32_t i = c->prev; i; i = other->prev) {
		other = weir__heap_piece(h, i);
		if (!weir__piece_is_free(other) || !(any || usable(w, other)))
			break;
		bytes += other->bytes;
		first = other;
	}
	*ret_bytes = bytes;
	return first;
}

static bool stretch_fits(const struct weir__want *w,
			 const struct weir__piece *first, uint64_t bytes)
{
	uint64_t pad = -first->addr & (w->align - 1);

	return bytes >= w->bytes && bytes - w->bytes >= pad;
}

/* Make one piece of the lane of @w of the @bytes from @c on. */
static struct weir__piece *stretch_join(struct weir_heap *h,
					const struct weir__want *w,
					struct weir__piece *c, uint64_t bytes)
{
	weir__heap_del(h, c);
	while (c->bytes < bytes) {
		weir__heap_del(h, weir__heap_piece(h, c->next));
		weir__piece_join(&h->pieces, c);
	}
	c->lane = w->lane->index;
	c->number = weir__lane_number(w->lane);
	weir__heap_add(h, c);
	return c;
}

/* A stretch of several pieces, one of them in the queue of @lane. */
static struct weir__piece *stretch_of(struct weir_heap *h,
				      const struct weir__want *w,
				      const struct weir__lane *lane)
{
	struct weir__piece *c, *first;
	uint64_t bytes;

	for (uint32_t i = lane->oldest; i; i = c->after) {
		c = weir__heap_piece(h, i);
		if (!usable(w, c))
			continue;
		first = stretch_around(h, w, c, false, &bytes);
		if (stretch_fits(w, first, bytes))
			return stretch_join(h, w, first, bytes);
	}
	return NULL;
}

/*
 * Small pieces in caches keep free memory apart. Is the block large enough that
 * flushing them first costs little, or does it need memory never used before?
 */
static bool worth_a_flush(const struct weir_heap *h, const struct weir__want *w,
			  const struct weir__piece *c)
{
	uint64_t pad = -c->addr & (w->align - 1);

	if (w->bytes < LARGE)
		return false;
	return w->bytes >= VERY_LARGE ||
	       c->addr + pad + w->bytes > h->region[c->region]->top;
}

struct weir__piece *weir__heap_take(struct weir_heap *h,
				    const struct weir__want *w, bool thorough)
{
	struct weir__piece *c;

	c = best_piece(h, w, thorough ? UINT_MAX : EXAMINED);
	if (c && !thorough && worth_a_flush(h, w, c))
		return NULL;
	if (!c && thorough && w->lane->index)
		c = stretch_of(h, w, w->lane);
	for (unsigned i = 0; !c && thorough && i < w->n_deps; i++)
		c = stretch_of(h, w, w->dep[i].lane);
	return c ? cut(h, c, w) : NULL;
}

static bool refused(const struct weir__want *w, const struct weir__lane *lane)
{
	for (unsigned i = 0; i < w->n_refused; i++)
		if (w->refused[i] == lane->index)
			return true;
	return false;
}

/* The stream has to wait for the free point of @c. False: too many. */
static bool add_dep(struct weir_heap *h, struct weir__want *w,
		    const struct weir__piece *c)
{
	struct weir__lane *lane = h->lane[c->lane];

	if (usable(w, c))
		return true;
	for (unsigned i = w->n_queued; i < w->n_deps; i++)
		if (w->dep[i].lane == lane) {
			w->dep[i].number = c->number;
			return true;
		}
	if (w->n_deps == WEIR__DEPS || refused(w, lane))
		return false;
	weir__source_ref(&lane->stream->src);
	w->dep[w->n_deps].lane = lane;
	w->dep[w->n_deps++].number = c->number;
	return true;
}

static bool piece_after_wait(struct weir_heap *h, struct weir__want *w)
{
	struct weir__piece *best = NULL;

	for (size_t i = 1; i < h->n_lanes; i++) {
		struct weir__lane *lane = h->lane[i];

		if (lane && lane != w->lane && !refused(w, lane))
			best = smaller(best,
				       weir__bins_find(&h->pieces, &lane->bins,
						       w->bytes, w->align,
						       UINT_MAX));
	}
	return best && add_dep(h, w, best);
}

/* Add all free points of a stretch; if that fails, none. */
static bool stretch_after_waits(struct weir_heap *h, struct weir__want *w,
				struct weir__piece *c)
{
	unsigned n_deps = w->n_deps;
	uint64_t bytes, seen = 0;

	c = stretch_around(h, w, c, true, &bytes);
	if (!stretch_fits(w, c, bytes))
		return false;
	while (add_dep(h, w, c)) {
		seen += c->bytes;
		if (seen == bytes)
			return true;
		c = weir__heap_piece(h, c->next);
	}
	weir__want_forget(w, n_deps);
	return false;
}

bool weir__heap_after_waits(struct weir_heap *h, struct weir__want *w,
			    bool several)
{
	struct weir__piece *c;

	if (!several)
		return piece_after_wait(h, w);
	for (size_t i = 1; i < h->n_lanes; i++) {
		if (!h->lane[i])
			continue;
		for (uint32_t j = h->lane[i]->oldest; j; j = c->after) {
			c = weir__heap_piece(h, j);
			if (stretch_after_waits(h, w, c))
				return true;
		}
	}
	return false;
}
