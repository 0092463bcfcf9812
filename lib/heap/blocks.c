/* SPDX-License-Identifier: MIT */
/*
 * Memory is taken from the stream bins of a shard, and given back. The caller
 * of each function holds the lock of the shard.
 */
#include <limits.h>

#include "heap/heap.h"
#include "stream/stream.h"

/* Blocks whose alignment is examined before a larger one is taken. */
#define EXAMINED 8u
/* From this size on caches may be flushed before a block is taken. */
#define LARGE ((uint64_t)1 << 20)
/*
 * A rest of up to this part of the block, and so many bytes, is not split off.
 */
#define REST_PART 16u
#define REST_BYTES ((uint64_t)4096)
/*
 * Blocks whose free events are examined each time one is freed in a stream bin.
 */
#define DRAINED 2u

/* True if the wanted block fits into the @bytes that begin with @first. */
static bool want_fits(const struct weir__want *w,
		      const struct weir__block *first, uint64_t bytes)
{
	uint64_t pad = -first->addr & (w->align - 1);

	return bytes >= w->bytes && bytes - w->bytes >= pad;
}

static struct weir__block *block_smaller(struct weir__block *a,
					 struct weir__block *b)
{
	return !b || (a && a->bytes <= b->bytes) ? a : b;
}

static void queue_add(struct weir__shard *s, struct weir__stream_bin *bin,
		      struct weir__block *b, uint32_t before)
{
	b->before = before;
	b->after = before ? weir__heap_block(s->heap, before)->after
			  : bin->oldest;
	if (b->before)
		weir__heap_block(s->heap, b->before)->after = b->self;
	else
		bin->oldest = b->self;
	if (!b->before && !b->after)
		weir__stream_bin_filled(s, bin);
	if (b->after)
		weir__heap_block(s->heap, b->after)->before = b->self;
	else
		bin->newest = b->self;
}

static void queue_del(struct weir__shard *s, struct weir__stream_bin *bin,
		      struct weir__block *b)
{
	if (b->before)
		weir__heap_block(s->heap, b->before)->after = b->after;
	else
		bin->oldest = b->after;
	if (b->after)
		weir__heap_block(s->heap, b->after)->before = b->before;
	else
		bin->newest = b->before;
	if (!bin->oldest)
		weir__stream_bin_emptied(s, bin);
}

/* Add to the bins, and to the queue after the block @before. */
static void bin_add(struct weir__shard *s, struct weir__block *b,
		    uint32_t before)
{
	struct weir__stream_bin *bin = s->bin[b->bin];

	weir__block_set_state(b, WEIR__BLOCK_FREE);
	weir__size_bins_add(&s->heap->blocks, &bin->bins, b);
	bin->bytes += b->bytes;
	if (bin->index)
		queue_add(s, bin, b, before);
}

void weir__shard_add(struct weir__shard *s, struct weir__block *b)
{
	bin_add(s, b, s->bin[b->bin]->newest);
}

void weir__shard_del(struct weir__shard *s, struct weir__block *b)
{
	struct weir__stream_bin *bin = s->bin[b->bin];

	weir__size_bins_del(&s->heap->blocks, &bin->bins, b);
	bin->bytes -= b->bytes;
	if (bin->index)
		queue_del(s, bin, b);
	weir__block_set_state(b, WEIR__BLOCK_CACHED);
}

/* The block @number, if it is free and in the stream bin of @b. */
static struct weir__block *
mergeable(struct weir__shard *s, const struct weir__block *b, uint32_t number)
{
	struct weir__block *other;

	if (!number)
		return NULL;
	other = weir__heap_block(s->heap, number);
	return weir__block_is_free(other) && other->bin == b->bin ? other
								  : NULL;
}

void weir__shard_merge(struct weir__shard *s, struct weir__block *b)
{
	struct weir__block *other = mergeable(s, b, b->next);

	if (other) {
		weir__shard_del(s, other);
		weir__block_join(&s->heap->blocks, &s->spares, b);
	}
	other = mergeable(s, b, b->prev);
	if (other) {
		weir__shard_del(s, other);
		weir__block_join(&s->heap->blocks, &s->spares, other);
		b = other;
	}
	weir__shard_add(s, b);
	if (s->index && !b->prev && !b->next)
		s->whole = b->self;
}

void weir__shard_give(struct weir__shard *s, struct weir__block *b,
		      struct weir__stream_bin *bin)
{
	uint64_t number = weir__free_event_now(bin);

	s->taken -= b->bytes;
	if (bin->index && weir__free_event_done(bin, number))
		bin = s->bin[0];
	b->bin = bin->index;
	b->number = number;
	weir__shard_merge(s, b);
	if (bin->index)
		weir__stream_bin_drain(s, bin, DRAINED);
}

static void region_use(struct weir__region *region, uint64_t end)
{
	if (end > region->top)
		region->top = end;
}

/*
 * How much larger than wanted a block may be. A rest of this size is not split
 * off: it would be of little use, divide free memory, and take as long to
 * handle as others.
 */
static uint64_t rest_most(const struct weir__want *w)
{
	uint64_t part = w->bytes / REST_PART;

	return part < REST_BYTES ? part : REST_BYTES;
}

/* Take what @w needs out of the free block @b; the rest stays in its bin. */
static struct weir__block *cut(struct weir__shard *s, struct weir__block *b,
			       const struct weir__want *w)
{
	struct weir__stream_bin *bin = s->bin[b->bin];
	uint64_t pad = -b->addr & (w->align - 1);
	struct weir__block *block = b, *rest = NULL;
	uint32_t before = b->before;

	weir__shard_del(s, b);
	if (!bin->index)
		before = 0;
	if (pad) {
		block = weir__block_split(&s->heap->blocks, &s->spares, b, pad);
		bin_add(s, b, before);
		before = b->self;
	}
	if (block->bytes - w->bytes > rest_most(w)) {
		rest = weir__block_split(&s->heap->blocks, &s->spares, block,
					 w->bytes);
		bin_add(s, rest, before);
	}
	s->taken += block->bytes;
	if (s->taken > s->taken_peak)
		s->taken_peak = s->taken;
	/*
	 * All memory of a thread's shard was taken out of the root shard
	 * before.
	 */
	if (!s->index)
		region_use(s->heap->region[b->region],
			   block->addr + block->bytes);
	return block;
}

/* The best fit in a stream bin. Stream bins are often empty. */
static struct weir__block *bin_best(struct weir__shard *s,
				    const struct weir__stream_bin *bin,
				    const struct weir__want *w, unsigned most)
{
	if (bin->bytes < w->bytes)
		return NULL;
	return weir__size_bins_find(&s->heap->blocks, &bin->bins, w->bytes,
				    w->align, most);
}

/* The best fit in all stream bins that the stream may use. */
static struct weir__block *best_block(struct weir__shard *s,
				      const struct weir__want *w, unsigned most)
{
	struct weir__block *best = bin_best(s, w->bin, w, most), *b;

	/* Memory that no other stream may use is preferred. */
	if (w->bin->index)
		best = block_smaller(best, bin_best(s, s->bin[0], w, most));
	for (unsigned i = 0; i < w->n_deps; i++) {
		b = bin_best(s, w->dep[i].bin, w, most);
		if (b && weir__want_allows(w, b))
			best = block_smaller(best, b);
	}
	return best;
}

/*
 * The first block of the stretch of @b: neighbours that are free and that the
 * stream may use. NULL: another block of the same stream bin is in the stretch,
 * left of @b. So each stretch is found by one block of a stream bin, and a
 * search takes linear time.
 */
static struct weir__block *stretch_first(struct weir__shard *s,
					 const struct weir__want *w,
					 struct weir__block *b)
{
	struct weir__block *first = b, *other;

	for (uint32_t i = b->prev; i; i = other->prev) {
		other = weir__heap_block(s->heap, i);
		if (!weir__block_is_free(other) || !weir__want_allows(w, other))
			break;
		if (other->bin == b->bin)
			return NULL;
		first = other;
	}
	return first;
}

/* The bytes of the stretch that begins with @first. */
static uint64_t stretch_bytes(struct weir__shard *s, const struct weir__want *w,
			      const struct weir__block *first)
{
	uint64_t bytes = first->bytes;
	const struct weir__block *other;

	for (uint32_t i = first->next; i; i = other->next) {
		other = weir__heap_block(s->heap, i);
		if (!weir__block_is_free(other) || !weir__want_allows(w, other))
			break;
		bytes += other->bytes;
	}
	return bytes;
}

/* Join the @bytes from @b on to one block of the stream bin of @w. */
static struct weir__block *stretch_join(struct weir__shard *s,
					const struct weir__want *w,
					struct weir__block *b, uint64_t bytes)
{
	weir__shard_del(s, b);
	while (b->bytes < bytes) {
		weir__shard_del(s, weir__heap_block(s->heap, b->next));
		weir__block_join(&s->heap->blocks, &s->spares, b);
	}
	b->bin = w->bin->index;
	b->number = weir__free_event_now(w->bin);
	weir__shard_add(s, b);
	return b;
}

/*
 * Find a stretch with room for @w, and join it. One of its blocks is of @bin.
 */
static struct weir__block *stretch_of(struct weir__shard *s,
				      const struct weir__want *w,
				      const struct weir__stream_bin *bin)
{
	struct weir__block *b, *first;
	uint64_t bytes;

	for (uint32_t i = bin->oldest; i; i = b->after) {
		b = weir__heap_block(s->heap, i);
		if (!weir__want_allows(w, b))
			continue;
		first = stretch_first(s, w, b);
		if (!first)
			continue;
		bytes = stretch_bytes(s, w, first);
		if (want_fits(w, first, bytes))
			return stretch_join(s, w, first, bytes);
	}
	return NULL;
}

/* True if the block needs memory that was never used before. */
static bool is_fresh(const struct weir__shard *s, const struct weir__want *w,
		     const struct weir__block *b)
{
	uint64_t pad = -b->addr & (w->align - 1);

	return b->addr + pad + w->bytes > s->heap->region[b->region]->top;
}

/*
 * True if the caches are to be flushed first. The small blocks that they and
 * shards keep divide free memory, and a flush costs little, compared with a
 * large block or with memory that was never used before.
 */
static bool wants_flush(const struct weir__shard *s, const struct weir__want *w,
			const struct weir__block *b, enum weir__effort effort)
{
	if (w->bytes < LARGE || effort == WEIR__TAKE_BEST ||
	    effort == WEIR__TAKE_ANY)
		return false;
	if (effort == WEIR__TAKE_FIRST && w->bytes >= WEIR__VERY_LARGE)
		return true;
	return is_fresh(s, w, b);
}

struct weir__block *weir__shard_take(struct weir__shard *s,
				     const struct weir__want *w,
				     enum weir__effort effort)
{
	bool thorough = effort >= WEIR__TAKE_USED;
	struct weir__block *b;

	b = best_block(s, w, thorough ? UINT_MAX : EXAMINED);
	if (b && wants_flush(s, w, b, effort))
		return NULL;
	if (!b && thorough && w->bin->index)
		b = stretch_of(s, w, w->bin);
	for (unsigned i = 0; !b && thorough && i < w->n_deps; i++)
		b = stretch_of(s, w, w->dep[i].bin);
	return b ? cut(s, b, w) : NULL;
}

struct weir__block *weir__shard_take_span(struct weir__shard *s,
					  struct weir__want *w, uint64_t least)
{
	uint64_t most = w->bytes;
	struct weir__block *b;

	for (; w->bytes >= least;
	     w->bytes = weir__down(w->bytes / 2, w->align)) {
		b = best_block(s, w, EXAMINED);
		if (!b || is_fresh(s, w, b))
			continue;
		if (w->bytes < most)
			w->bytes = b->bytes < most ? b->bytes : most;
		return cut(s, b, w);
	}
	w->bytes = most;
	b = best_block(s, w, EXAMINED);
	return b ? cut(s, b, w) : NULL;
}

/*
 * What follows finds memory of other streams that the stream may use after
 * waits. The caller holds the heap's lock, after a consolidation.
 */

/* True if the stream cannot wait for this bin; after many refusals, for any. */
static bool refused(const struct weir__want *w,
		    const struct weir__stream_bin *bin)
{
	if (w->n_refused == WEIR__DEPS)
		return true;
	for (unsigned i = 0; i < w->n_refused; i++)
		if (w->refused[i] == bin->index)
			return true;
	return false;
}

/* Add the free event of @b to w->dep. False: they are too many. */
static bool add_dep(struct weir__shard *s, struct weir__want *w,
		    const struct weir__block *b)
{
	struct weir__stream_bin *bin = s->bin[b->bin];

	if (weir__want_allows(w, b))
		return true;
	for (unsigned i = w->n_queued; i < w->n_deps; i++)
		if (w->dep[i].bin == bin) {
			w->dep[i].number = b->number;
			return true;
		}
	if (w->n_deps == WEIR__DEPS || refused(w, bin))
		return false;
	bin->users++;
	w->dep[w->n_deps].bin = bin;
	w->dep[w->n_deps++].number = b->number;
	return true;
}

static bool block_after_wait(struct weir__shard *s, struct weir__want *w)
{
	struct weir__block *best = NULL;

	for (struct weir__stream_bin *bin = s->busy; bin;
	     bin = bin->busy_next) {
		if (bin != w->bin && !refused(w, bin))
			best = block_smaller(
				best, weir__size_bins_find(&s->heap->blocks,
							   &bin->bins, w->bytes,
							   w->align, UINT_MAX));
	}
	return best && add_dep(s, w, best);
}

/*
 * Free neighbours, from first to last, with @bytes in all, and how many of them
 * belong to each stream bin for which the stream would have to wait.
 */
struct free_window {
	struct weir__block *first, *last; /* NULL: empty */
	uint64_t bytes;
	unsigned n_bins;
	uint16_t bin[WEIR__DEPS + 1];
	uint32_t count[WEIR__DEPS + 1];
};

static void window_add(struct free_window *win, const struct weir__want *w,
		       struct weir__block *b)
{
	unsigned i = 0;

	if (!win->first)
		win->first = b;
	win->last = b;
	win->bytes += b->bytes;
	if (weir__want_allows(w, b))
		return;
	while (i < win->n_bins && win->bin[i] != b->bin)
		i++;
	if (i == win->n_bins) {
		win->bin[win->n_bins++] = b->bin;
		win->count[i] = 0;
	}
	win->count[i]++;
}

/* Remove the first block. */
static void window_shift(struct weir__shard *s, struct free_window *win,
			 const struct weir__want *w)
{
	struct weir__block *b = win->first;
	unsigned i = 0;

	win->first = b == win->last ? NULL : weir__heap_block(s->heap, b->next);
	win->bytes -= b->bytes;
	if (weir__want_allows(w, b))
		return;
	while (win->bin[i] != b->bin)
		i++;
	if (--win->count[i])
		return;
	win->n_bins--;
	win->bin[i] = win->bin[win->n_bins];
	win->count[i] = win->count[win->n_bins];
}

static bool window_fits(const struct free_window *win,
			const struct weir__want *w)
{
	return win->first && want_fits(w, win->first, win->bytes);
}

/*
 * Remove the first blocks, as long as the rest has room for the wanted block.
 */
static void window_trim(struct weir__shard *s, struct free_window *win,
			const struct weir__want *w)
{
	struct free_window less = *win;

	while (window_fits(&less, w)) {
		*win = less;
		window_shift(s, &less, w);
	}
}

/*
 * Find the first window among the free neighbours from @b on that has room for
 * the wanted block, with few enough streams to wait for. False: there is none.
 */
static bool window_find(struct weir__shard *s, const struct weir__want *w,
			struct weir__block *b, struct free_window *win)
{
	*win = (struct free_window){ 0 };
	for (;;) {
		if (!weir__want_allows(w, b) && refused(w, s->bin[b->bin]))
			*win = (struct free_window){ 0 };
		else
			window_add(win, w, b);
		while (win->n_bins > WEIR__DEPS - w->n_deps)
			window_shift(s, win, w);
		if (window_fits(win, w)) {
			window_trim(s, win, w);
			return true;
		}
		if (!b->next)
			return false;
		b = weir__heap_block(s->heap, b->next);
		if (!weir__block_is_free(b))
			return false;
	}
}

/*
 * The first of the free neighbours of @b. NULL: another of them, left of @b, is
 * in a queue; the search finds them from there.
 */
static struct weir__block *neighbours_first(struct weir__shard *s,
					    struct weir__block *b)
{
	struct weir__block *first = b, *other;

	for (uint32_t i = b->prev; i; i = other->prev) {
		other = weir__heap_block(s->heap, i);
		if (!weir__block_is_free(other))
			break;
		if (other->bin)
			return NULL;
		first = other;
	}
	return first;
}

/* Add the free events of several neighbours of @b that have room. */
static bool several_after_waits(struct weir__shard *s, struct weir__want *w,
				struct weir__block *b)
{
	struct weir__block *first = neighbours_first(s, b);
	struct free_window win;

	if (!first || !window_find(s, w, first, &win))
		return false;
	for (b = win.first; add_dep(s, w, b) && b != win.last;)
		b = weir__heap_block(s->heap, b->next);
	return true;
}

bool weir__shard_after_waits(struct weir__shard *s, struct weir__want *w,
			     bool several)
{
	struct weir__block *b;

	if (!several)
		return block_after_wait(s, w);
	for (struct weir__stream_bin *bin = s->busy; bin; bin = bin->busy_next)
		for (uint32_t i = bin->oldest; i; i = b->after) {
			b = weir__heap_block(s->heap, i);
			if (several_after_waits(s, w, b))
				return true;
		}
	return false;
}
