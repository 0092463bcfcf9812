/* SPDX-License-Identifier: MIT */
/*
 * Free memory of the lanes of a shard, taken and given back. All functions are
 * called with the lock of the shard held.
 */
#include <limits.h>

#include "heap/heap.h"
#include "stream/stream.h"

/* Pieces whose alignment is tried. */
#define EXAMINED 8u
/* Bytes of a block for which caches are flushed first, sometimes. */
#define LARGE ((uint64_t)1 << 20)
/* The rest of a piece, up to this part of the block and so many bytes, is not split. */
#define REST_PART 16u
#define REST_BYTES ((uint64_t)4096)
/* Pieces whose free points are examined when another is freed in their lane. */
#define DRAINED 2u

static void queue_add(struct weir__shard *s, struct weir__lane *lane,
		      struct weir__piece *c, uint32_t before)
{
	c->before = before;
	c->after = before ? weir__heap_piece(s->heap, before)->after
			  : lane->oldest;
	if (c->before)
		weir__heap_piece(s->heap, c->before)->after = c->self;
	else
		lane->oldest = c->self;
	if (!c->before && !c->after)
		weir__lane_busy(s, lane);
	if (c->after)
		weir__heap_piece(s->heap, c->after)->before = c->self;
	else
		lane->newest = c->self;
}

static void queue_del(struct weir__shard *s, struct weir__lane *lane,
		      struct weir__piece *c)
{
	if (c->before)
		weir__heap_piece(s->heap, c->before)->after = c->after;
	else
		lane->oldest = c->after;
	if (c->after)
		weir__heap_piece(s->heap, c->after)->before = c->before;
	else
		lane->newest = c->before;
	if (!lane->oldest)
		weir__lane_rest(s, lane);
}

/* Into the bins, and into the queue after the piece @before. */
static void lane_add(struct weir__shard *s, struct weir__piece *c,
		     uint32_t before)
{
	struct weir__lane *lane = s->lane[c->lane];

	weir__piece_set(c, WEIR__PIECE_FREE);
	weir__bins_add(&s->heap->pieces, &lane->bins, c);
	lane->bytes += c->bytes;
	if (lane->index)
		queue_add(s, lane, c, before);
}

void weir__shard_add(struct weir__shard *s, struct weir__piece *c)
{
	lane_add(s, c, s->lane[c->lane]->newest);
}

void weir__shard_del(struct weir__shard *s, struct weir__piece *c)
{
	struct weir__lane *lane = s->lane[c->lane];

	weir__bins_del(&s->heap->pieces, &lane->bins, c);
	lane->bytes -= c->bytes;
	if (lane->index)
		queue_del(s, lane, c);
	weir__piece_set(c, WEIR__PIECE_KEPT);
}

/* The piece @number, if it is free and in the lane of @c. */
static struct weir__piece *
mergeable(struct weir__shard *s, const struct weir__piece *c, uint32_t number)
{
	struct weir__piece *other;

	if (!number)
		return NULL;
	other = weir__heap_piece(s->heap, number);
	return weir__piece_is_free(other) && other->lane == c->lane ? other
								    : NULL;
}

void weir__shard_merge(struct weir__shard *s, struct weir__piece *c)
{
	struct weir__piece *other = mergeable(s, c, c->next);

	if (other) {
		weir__shard_del(s, other);
		weir__piece_join(&s->heap->pieces, &s->spares, c);
	}
	other = mergeable(s, c, c->prev);
	if (other) {
		weir__shard_del(s, other);
		weir__piece_join(&s->heap->pieces, &s->spares, other);
		c = other;
	}
	weir__shard_add(s, c);
	if (s->index && !c->prev && !c->next)
		s->whole = c->self;
}

void weir__shard_give(struct weir__shard *s, struct weir__piece *c,
		      struct weir__lane *lane)
{
	uint64_t number = weir__lane_number(lane);

	s->taken -= c->bytes;
	if (lane->index && weir__lane_ended(lane, number))
		lane = s->lane[0];
	c->lane = lane->index;
	c->number = number;
	weir__shard_merge(s, c);
	if (lane->index)
		weir__lane_drain(s, lane, DRAINED);
}

static void region_use(struct weir__region *region, uint64_t end)
{
	if (end > region->top)
		region->top = end;
}

/*
 * The most that a block is larger than wanted. A smaller rest would be of little
 * use: it keeps its neighbours apart, and takes as long to move in and out of bins.
 */
static uint64_t rest_most(const struct weir__want *w)
{
	uint64_t part = w->bytes / REST_PART;

	return part < REST_BYTES ? part : REST_BYTES;
}

/* Take @w out of the free piece @c; what is left stays where it was. */
static struct weir__piece *cut(struct weir__shard *s, struct weir__piece *c,
			       const struct weir__want *w)
{
	struct weir__lane *lane = s->lane[c->lane];
	uint64_t pad = -c->addr & (w->align - 1);
	struct weir__piece *block = c, *rest = NULL;
	uint32_t before = c->before;

	weir__shard_del(s, c);
	if (!lane->index)
		before = 0;
	if (pad) {
		block = weir__piece_split(&s->heap->pieces, &s->spares, c, pad);
		lane_add(s, c, before);
		before = c->self;
	}
	if (block->bytes - w->bytes > rest_most(w)) {
		rest = weir__piece_split(&s->heap->pieces, &s->spares, block,
					 w->bytes);
		lane_add(s, rest, before);
	}
	s->taken += block->bytes;
	if (s->taken > s->taken_peak)
		s->taken_peak = s->taken;
	/* A shard's memory was all taken out of the root shard before. */
	if (!s->index)
		region_use(s->heap->region[c->region],
			   block->addr + block->bytes);
	return block;
}

/* The best fit in the bins of @lane, which are often empty. */
static struct weir__piece *lane_best(struct weir__shard *s,
				     const struct weir__lane *lane,
				     const struct weir__want *w, unsigned most)
{
	if (lane->bytes < w->bytes)
		return NULL;
	return weir__bins_find(&s->heap->pieces, &lane->bins, w->bytes,
			       w->align, most);
}

/* The smallest piece of lanes that the stream may use. */
static struct weir__piece *best_piece(struct weir__shard *s,
				      const struct weir__want *w, unsigned most)
{
	struct weir__piece *best = lane_best(s, w->lane, w, most), *c;

	/* Memory that nobody else may use is taken first. */
	if (w->lane->index)
		best = weir__piece_smaller(best,
					   lane_best(s, s->lane[0], w, most));
	for (unsigned i = 0; i < w->n_deps; i++) {
		c = lane_best(s, w->dep[i].lane, w, most);
		if (c && weir__want_allows(w, c))
			best = weir__piece_smaller(best, c);
	}
	return best;
}

/*
 * The first piece of the stretch of @c: neighbours that are free and that the stream
 * may use. NULL: another piece of the lane of @c is in the stretch, to the left of @c.
 * So of all pieces of a lane one finds each stretch, and a search takes linear time.
 */
static struct weir__piece *stretch_first(struct weir__shard *s,
					 const struct weir__want *w,
					 struct weir__piece *c)
{
	struct weir__piece *first = c, *other;

	for (uint32_t i = c->prev; i; i = other->prev) {
		other = weir__heap_piece(s->heap, i);
		if (!weir__piece_is_free(other) || !weir__want_allows(w, other))
			break;
		if (other->lane == c->lane)
			return NULL;
		first = other;
	}
	return first;
}

/* The bytes of the stretch that begins with @first. */
static uint64_t stretch_bytes(struct weir__shard *s, const struct weir__want *w,
			      const struct weir__piece *first)
{
	uint64_t bytes = first->bytes;
	const struct weir__piece *other;

	for (uint32_t i = first->next; i; i = other->next) {
		other = weir__heap_piece(s->heap, i);
		if (!weir__piece_is_free(other) || !weir__want_allows(w, other))
			break;
		bytes += other->bytes;
	}
	return bytes;
}

/* Make one piece of the lane of @w of the @bytes from @c on. */
static struct weir__piece *stretch_join(struct weir__shard *s,
					const struct weir__want *w,
					struct weir__piece *c, uint64_t bytes)
{
	weir__shard_del(s, c);
	while (c->bytes < bytes) {
		weir__shard_del(s, weir__heap_piece(s->heap, c->next));
		weir__piece_join(&s->heap->pieces, &s->spares, c);
	}
	c->lane = w->lane->index;
	c->number = weir__lane_number(w->lane);
	weir__shard_add(s, c);
	return c;
}

/* A stretch of several pieces, one of them in the queue of @lane. */
static struct weir__piece *stretch_of(struct weir__shard *s,
				      const struct weir__want *w,
				      const struct weir__lane *lane)
{
	struct weir__piece *c, *first;
	uint64_t bytes;

	for (uint32_t i = lane->oldest; i; i = c->after) {
		c = weir__heap_piece(s->heap, i);
		if (!weir__want_allows(w, c))
			continue;
		first = stretch_first(s, w, c);
		if (!first)
			continue;
		bytes = stretch_bytes(s, w, first);
		if (weir__want_fits(w, first, bytes))
			return stretch_join(s, w, first, bytes);
	}
	return NULL;
}

/* Would the block need memory that was never used before? */
static bool is_fresh(const struct weir__shard *s, const struct weir__want *w,
		     const struct weir__piece *c)
{
	uint64_t pad = -c->addr & (w->align - 1);

	return c->addr + pad + w->bytes > s->heap->region[c->region]->top;
}

/*
 * Small pieces in caches and shards keep free memory apart. Is the block large
 * enough that flushing them first costs little, or does it need memory never
 * used before?
 */
static bool put_off(const struct weir__shard *s, const struct weir__want *w,
		    const struct weir__piece *c, enum weir__effort effort)
{
	if (w->bytes < LARGE || effort == WEIR__TAKE_BEST ||
	    effort == WEIR__TAKE_ANY)
		return false;
	if (effort == WEIR__TAKE_FIRST && w->bytes >= WEIR__VERY_LARGE)
		return true;
	return is_fresh(s, w, c);
}

struct weir__piece *weir__shard_take(struct weir__shard *s,
				     const struct weir__want *w,
				     enum weir__effort effort)
{
	bool thorough = effort >= WEIR__TAKE_USED;
	struct weir__piece *c;

	c = best_piece(s, w, thorough ? UINT_MAX : EXAMINED);
	if (c && put_off(s, w, c, effort))
		return NULL;
	if (!c && thorough && w->lane->index)
		c = stretch_of(s, w, w->lane);
	for (unsigned i = 0; !c && thorough && i < w->n_deps; i++)
		c = stretch_of(s, w, w->dep[i].lane);
	return c ? cut(s, c, w) : NULL;
}

struct weir__piece *weir__shard_take_span(struct weir__shard *s,
					  struct weir__want *w, uint64_t least)
{
	uint64_t most = w->bytes;
	struct weir__piece *c;

	for (; w->bytes >= least;
	     w->bytes = weir__down(w->bytes / 2, w->align)) {
		c = best_piece(s, w, EXAMINED);
		if (!c || is_fresh(s, w, c))
			continue;
		if (w->bytes < most)
			w->bytes = c->bytes < most ? c->bytes : most;
		return cut(s, c, w);
	}
	w->bytes = most;
	c = best_piece(s, w, EXAMINED);
	return c ? cut(s, c, w) : NULL;
}
