/* SPDX-License-Identifier: MIT */
/*
 * A region of reserved addresses, in which the heap grows in place. Holes are
 * its parts without memory, in granules; in the list of blocks they are blocks
 * of the state UNUSED, with no bin. The heap grows when a hole, or a part of
 * it, becomes a free block of stream bin 0, and shrinks when a part of such a
 * block becomes a hole.
 *
 * Memory is committed and given back without a lock. Meanwhile the part is
 * held: it is neither a hole nor a free block.
 */
#include "core/error.h"
#include "core/sys.h"
#include "heap/heap.h"
#include "mem/buf.h"

/* The member `bin` of a block of the state UNUSED. */
enum {
	HOLE,
	HELD
};

static bool is_hole(const struct weir__block *b)
{
	return (weir__block_tag(b) & 3) == WEIR__BLOCK_UNUSED && b->bin == HOLE;
}

static uint64_t end_of(const struct weir__block *b)
{
	return b->addr + b->bytes;
}

int weir__holes_make(struct weir_heap *h, uint64_t bytes)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir_buf *buf;
	size_t granule = 0;
	int r;

	o.flags = h->flags;
	r = weir__buf_reserve(h->buft, bytes, &o, &granule, &buf);
	if (r < 0)
		return r;
	r = weir__region_add(h, buf, false, granule);
	if (r < 0)
		weir__buf_put(buf);
	return r;
}

/* Split off the part [@lo, @hi) of @b; the rest keeps the state of @b. */
static struct weir__block *part_of(struct weir_heap *h, struct weir__block *b,
				   uint64_t lo, uint64_t hi)
{
	if (lo > b->addr)
		b = weir__block_split(&h->blocks, &h->root.spares, b,
				      lo - b->addr);
	if (hi < end_of(b))
		weir__block_split(&h->blocks, &h->root.spares, b, hi - b->addr);
	return b;
}

/*
 * Hold a part: add it to the list that begins with *@first. Its number says
 * whether it has memory.
 */
static void hold(struct weir__block *b, bool committed, uint32_t *first)
{
	weir__block_set_state(b, WEIR__BLOCK_UNUSED);
	b->bin = HELD;
	b->number = committed;
	b->left = *first;
	*first = b->self;
}

static void make_hole(struct weir_heap *h, struct weir__block *b)
{
	struct weir__block *other;

	b->bin = HOLE;
	if (b->next && is_hole(weir__heap_block(h, b->next)))
		weir__block_join(&h->blocks, &h->root.spares, b);
	other = b->prev ? weir__heap_block(h, b->prev) : NULL;
	if (other && is_hole(other))
		weir__block_join(&h->blocks, &h->root.spares, other);
}

static void make_free(struct weir_heap *h, struct weir__block *b)
{
	b->bin = 0;
	b->number = 0;
	weir__shard_merge(&h->root, b);
}

/*
 * The held parts become free blocks or holes. @committed: they had memory when
 * they were held. The heap's lock is held.
 */
static void release(struct weir_heap *h, uint32_t first, bool committed)
{
	while (first) {
		struct weir__block *b = weir__heap_block(h, first);

		first = b->left;
		h->reserved -= committed ? b->bytes : 0;
		h->reserved += b->number ? b->bytes : 0;
		if (b->number)
			make_free(h, b);
		else
			make_hole(h, b);
	}
	if (h->reserved > h->reserved_peak)
		h->reserved_peak = h->reserved;
}

/* Where the wanted block could be, and the bytes of holes that it needs. */
struct site {
	struct weir__block *first; /* the block that contains lo; NULL: none */
	uint64_t lo, cost;
};

/* The bytes of the hole @b that are committed for a block at [@lo, @hi). */
static uint64_t part_bytes(const struct weir__region *region,
			   const struct weir__block *b, uint64_t lo,
			   uint64_t hi)
{
	lo = weir__down(lo, region->granule);
	hi = weir__up(hi, region->granule);
	if (lo < b->addr)
		lo = b->addr;
	if (hi > end_of(b))
		hi = end_of(b);
	return hi - lo;
}

static bool usable(const struct weir__want *w, const struct weir__block *b)
{
	return is_hole(b) ||
	       (weir__block_is_free(b) && weir__want_allows(w, b));
}

/* Note the block at @lo, which @first contains, if it is the cheapest. */
static void try_site(struct weir_heap *h, const struct weir__want *w,
		     struct weir__block *first, uint64_t lo, struct site *best)
{
	const struct weir__region *region = h->region[first->region];
	const struct weir__block *b = first;
	uint64_t hi = lo + w->bytes, cost = 0;

	for (;;) {
		if (!usable(w, b))
			return;
		if (is_hole(b))
			cost += part_bytes(region, b, lo, hi);
		if (best->first && cost >= best->cost)
			return;
		if (end_of(b) >= hi)
			break;
		if (!b->next)
			return;
		b = weir__heap_block(h, b->next);
	}
	*best = (struct site){ .first = first, .lo = lo, .cost = cost };
}

/* The same for the block whose last byte is at the end of @b, or before it. */
static void try_site_before(struct weir_heap *h, const struct weir__want *w,
			    struct weir__block *b, struct site *best)
{
	uint64_t lo;

	if (end_of(b) < w->bytes)
		return;
	lo = weir__down(end_of(b) - w->bytes, w->align);
	while (lo < b->addr && b->prev) {
		b = weir__heap_block(h, b->prev);
		if (!usable(w, b))
			return;
	}
	if (lo >= b->addr)
		try_site(h, w, b, lo, best);
}

/* Find the site that needs the fewest bytes, of several the lowest. */
static struct site cheapest_site(struct weir_heap *h,
				 const struct weir__want *w)
{
	struct site best = { 0 };
	struct weir__block *b;

	for (uint32_t i = h->holes->first; i; i = b->next) {
		uint64_t lo;

		b = weir__heap_block(h, i);
		if (!usable(w, b))
			continue;
		lo = weir__up(b->addr, w->align);
		if (lo < end_of(b))
			try_site(h, w, b, lo, &best);
		if (!is_hole(b))
			try_site_before(h, w, b, &best);
	}
	return best;
}

/*
 * The bytes after the wanted block that are committed with it, so that the heap
 * grows by h->grow bytes at least: as far as the hole and the limit allow.
 */
static uint64_t extra_bytes(const struct weir_heap *h, const struct site *site,
			    const struct weir__block *last, uint64_t hi)
{
	uint64_t granule = h->holes->granule, end = weir__up(hi, granule);
	uint64_t extra = h->grow > site->cost ? h->grow - site->cost : 0;
	uint64_t left = h->limit - h->reserved - site->cost;

	if (extra > left)
		extra = left;
	if (!is_hole(last) || end > end_of(last))
		return 0;
	if (extra > end_of(last) - end)
		extra = end_of(last) - end;
	return weir__down(extra, granule);
}

/* Hold the parts of holes that a block at the site needs. */
static void hold_site(struct weir_heap *h, const struct weir__want *w,
		      const struct site *site, bool more, uint32_t *first)
{
	uint64_t granule = h->holes->granule, hi = site->lo + w->bytes, extra;
	struct weir__block *b = site->first;

	for (;;) {
		uint32_t next = b->next;
		bool last = end_of(b) >= hi;

		extra = last && more ? extra_bytes(h, site, b, hi) : 0;
		if (is_hole(b)) {
			uint64_t from = weir__down(site->lo, granule);
			uint64_t to = weir__up(hi, granule) + extra;

			b = part_of(h, b, from > b->addr ? from : b->addr,
				    to < end_of(b) ? to : end_of(b));
			hold(b, false, first);
		}
		if (last)
			break;
		b = weir__heap_block(h, next);
	}
}

/*
 * Hold what the heap has to commit for @w; nothing, if memory was freed
 * meanwhile. The heap's lock is held.
 */
static int hold_holes(struct weir_heap *h, const struct weir__want *w,
		      bool more, uint32_t *first)
{
	struct site site;
	int r = weir__block_table_reserve(&h->blocks, &h->root.spares, 2);

	if (r < 0)
		return r;
	site = cheapest_site(h, w);
	if (!site.first)
		return weir__fail(
			-ENOMEM,
			"no %llu bytes of its %zu bytes of addresses are without a used block",
			(unsigned long long)w->bytes, h->holes->buf->bytes);
	if (h->reserved > h->limit || site.cost > h->limit - h->reserved)
		return weir__fail(-ENOMEM, "its limit is %llu bytes",
				  (unsigned long long)h->limit);
	hold_site(h, w, &site, more, first);
	return 0;
}

static int commit(struct weir_heap *h, struct weir__block *b)
{
	int r = weir__buf_commit(h->holes->buf, b->addr - h->holes->base,
				 b->bytes);

	b->number = r == 0;
	return r;
}

static int decommit(struct weir_heap *h, struct weir__block *b)
{
	int r = weir__buf_decommit(h->holes->buf, b->addr - h->holes->base,
				   b->bytes);

	b->number = r != 0;
	return r;
}

/* Commit all held parts, or none. No lock is held. */
static int commit_all(struct weir_heap *h, uint32_t first)
{
	struct weir__block *b;
	int r = 0;

	for (uint32_t i = first; i && r == 0; i = b->left) {
		b = weir__heap_block(h, i);
		r = commit(h, b);
	}
	for (uint32_t i = first; i && r < 0; i = b->left) {
		b = weir__heap_block(h, i);
		if (b->number)
			decommit(h, b);
	}
	return r;
}

static int grow(struct weir_heap *h, const struct weir__want *w, bool more)
{
	uint32_t first = 0;
	int r;

	weir__lock(&h->root.lock);
	r = hold_holes(h, w, more, &first);
	weir__heap_unlock(h);
	if (r == 0) {
		weir__heap_growing(h, more && h->grow);
		r = commit_all(h, first);
		weir__heap_growing(NULL, false);
	}
	weir__lock(&h->root.lock);
	release(h, first, false);
	h->grown += r == 0 && first;
	weir__heap_unlock(h);
	if (r == 0)
		weir__memory_moved(h->buft->dev);
	return r;
}

int weir__holes_grow(struct weir_heap *h, const struct weir__want *w)
{
	int r = grow(h, w, true);

	return r == -ENOMEM && h->grow ? grow(h, w, false) : r;
}

/* The granules that are all in the free block @b. */
static void whole_granules(const struct weir_heap *h,
			   const struct weir__block *b, uint64_t *lo,
			   uint64_t *hi)
{
	*lo = weir__up(b->addr, h->holes->granule);
	*hi = weir__down(end_of(b), h->holes->granule);
	if (!weir__block_is_free(b) || b->bin || *hi < *lo)
		*hi = *lo;
}

uint64_t weir__holes_possible(struct weir_heap *h)
{
	uint64_t bytes = 0, lo, hi;
	const struct weir__block *b;

	if (!h->holes)
		return 0;
	for (uint32_t i = h->holes->first; i; i = b->next) {
		b = weir__heap_block(h, i);
		whole_granules(h, b, &lo, &hi);
		bytes += hi - lo;
	}
	return bytes;
}

/* Hold the part [@lo, @hi) of the free block @b; the rest stays free. */
static void hold_free(struct weir_heap *h, struct weir__block *b, uint64_t lo,
		      uint64_t hi, uint32_t *first)
{
	uint64_t end = end_of(b);
	struct weir__block *part;

	weir__shard_del(&h->root, b);
	part = part_of(h, b, lo, hi);
	if (part != b)
		weir__shard_add(&h->root, b);
	if (end > hi)
		weir__shard_add(&h->root, weir__heap_block(h, part->next));
	hold(part, true, first);
}

/*
 * Hold free granules, the highest first, so that @keep bytes are left. The
 * heap's lock is held.
 */
static void hold_granules(struct weir_heap *h, uint64_t keep, uint32_t *first)
{
	uint64_t left = h->reserved, lo, hi, over;
	uint32_t i, last = 0, prev;
	struct weir__block *b;

	for (i = h->holes->first; i; i = weir__heap_block(h, i)->next)
		last = i;
	for (i = last; i && left > keep; i = prev) {
		b = weir__heap_block(h, i);
		prev = b->prev;
		whole_granules(h, b, &lo, &hi);
		if (hi == lo)
			continue;
		if (weir__block_table_reserve(&h->blocks, &h->root.spares, 2) <
		    0)
			break;
		over = weir__up(left - keep, h->holes->granule);
		if (hi - lo > over)
			lo = hi - over;
		left -= hi - lo;
		h->n_given++;
		hold_free(h, b, lo, hi, first);
	}
}

uint64_t weir__holes_give_back(struct weir_heap *h, uint64_t keep)
{
	uint32_t first = 0;
	uint64_t given = 0;

	if (!h->holes)
		return 0;
	weir__heap_lock_all(h);
	hold_granules(h, keep, &first);
	weir__heap_unlock(h);
	for (uint32_t i = first; i; i = weir__heap_block(h, i)->left)
		if (decommit(h, weir__heap_block(h, i)) == 0)
			given += weir__heap_block(h, i)->bytes;
	weir__heap_lock(h);
	release(h, first, true);
	weir__heap_unlock(h);
	return given;
}
