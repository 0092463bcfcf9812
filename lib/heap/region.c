/* SPDX-License-Identifier: MIT */
/*
 * The buffers of a heap, which are added, allocated when it grows, and given
 * back.
 */
#include "core/error.h"
#include "core/sys.h"
#include "heap/heap.h"
#include "mem/buf.h"

static int region_index(struct weir_heap *h, uint16_t *ret_index)
{
	unsigned i = 0;

	while (i < h->end_regions && h->region[i])
		i++;
	if (i == WEIR__HEAP_REGIONS)
		return weir__fail(-ENOMEM, "%s has %u buffers, the most",
				  h->label, i);
	*ret_index = (uint16_t)i;
	return 0;
}

static void region_put(struct weir_heap *h, struct weir__region *region)
{
	h->region[region->index] = region;
	if (region->index == h->end_regions)
		h->end_regions++;
	h->n_regions++;
	h->reserved += weir__buf_committed(region->buf);
	if (h->reserved > h->reserved_peak)
		h->reserved_peak = h->reserved;
}

/* Make the whole region one free block of stream bin 0, or one hole. */
static void region_block(struct weir_heap *h, struct weir__region *region)
{
	struct weir__block *b = weir__block_new(&h->blocks, &h->root.spares);

	b->addr = region->lo;
	b->bytes = region->bytes;
	b->bin = 0;
	b->number = 0;
	b->region = region->index;
	region->first = b->self;
	if (region->granule)
		weir__block_set_state(b, WEIR__BLOCK_UNUSED);
	else
		weir__shard_add(&h->root, b);
}

int weir__region_add(struct weir_heap *h, struct weir_buf *buf, bool given,
		     size_t granule)
{
	uint64_t unit = granule ? granule : 1ull << h->blocks.shift, end;
	struct weir__region *region;
	int r = weir__block_table_reserve(&h->blocks, &h->root.spares, 1);

	if (r < 0)
		return r;
	region = weir__calloc(1, sizeof(*region));
	if (!region)
		return weir__fail(-ENOMEM, "no memory for a buffer of %s",
				  h->label);
	r = region_index(h, &region->index);
	if (r < 0) {
		weir__free(region);
		return r;
	}
	region->buf = buf;
	region->given = given;
	region->granule = granule;
	region->base = (uintptr_t)buf->mem.base;
	region->lo = region->top = weir__up(region->base, unit);
	end = weir__down(region->base + buf->bytes, unit);
	region->bytes = end > region->lo ? end - region->lo : 0;
	region_put(h, region);
	if (region->bytes)
		region_block(h, region);
	if (granule)
		h->holes = region;
	return 0;
}

uint64_t weir__heap_need(const struct weir_heap *h, const struct weir__want *w)
{
	uint64_t align = h->buft->desc.align;

	return w->align > align ? w->bytes + w->align - align : w->bytes;
}

/*
 * The size of the next buffer. -ENOMEM: a limit refuses it; the sentence
 * becomes part of that of weir_heap_alloc(). The heap's lock is held.
 */
static int grow_size(struct weir_heap *h, const struct weir__want *w,
		     uint64_t *ret_size)
{
	uint64_t need = weir__heap_need(h, w), size, left;

	if (!h->grow)
		return weir__fail(-ENOMEM, "it does not grow");
	size = need > h->grow ? weir__up(need, WEIR__HUGE_PAGE) : h->grow;
	left = h->limit - h->reserved;
	if (size > left)
		size = left;
	if (size < need)
		return weir__fail(-ENOMEM, "its limit is %llu bytes",
				  (unsigned long long)h->limit);
	if (size > h->buft->desc.max)
		size = h->buft->desc.max;
	if (size < need)
		return weir__fail(-ENOMEM, "a buffer has at most %zu bytes",
				  h->buft->desc.max);
	*ret_size = size;
	return 0;
}

/* Allocate a buffer of @size bytes, or of half as much, and so on. */
static int buf_alloc(struct weir_heap *h, const struct weir__want *w,
		     uint64_t size, struct weir_buf **ret_buf)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	int r;

	o.flags = h->flags;
	for (;;) {
		bool less = size / 2 >= w->bytes + w->align;

		weir__heap_growing(h, less);
		r = weir__buf_alloc(h->buft, size, &o, ret_buf);
		weir__heap_growing(NULL, false);
		if (r >= 0)
			atomic_store(&(*ret_buf)->n_heaps, 1);
		if (r != -ENOMEM || !less)
			return r;
		size /= 2;
	}
}

int weir__heap_grow(struct weir_heap *h, const struct weir__want *w)
{
	struct weir_buf *buf;
	uint64_t size = 0;
	int r;

	if (h->holes)
		return weir__holes_grow(h, w);
	weir__lock(&h->root.lock);
	r = grow_size(h, w, &size);
	weir__heap_unlock(h);
	if (r == 0)
		r = buf_alloc(h, w, size, &buf);
	if (r < 0)
		return r;
	weir__lock(&h->root.lock);
	r = weir__region_add(h, buf, false, 0);
	h->grown += r == 0;
	weir__heap_unlock(h);
	if (r < 0)
		weir__buf_put(buf);
	else
		weir__memory_moved(h->buft->dev);
	return r;
}

static bool region_is_empty(struct weir_heap *h,
			    const struct weir__region *region)
{
	const struct weir__block *b;

	if (region->given || region->granule)
		return false;
	if (!region->bytes)
		return true;
	b = weir__heap_block(h, region->first);
	return weir__block_is_free(b) && !b->bin && !b->next;
}

/* Remove an empty region; returns its buffer. */
static struct weir_buf *region_del(struct weir_heap *h,
				   struct weir__region *region)
{
	struct weir_buf *buf = region->buf;
	struct weir__block *b;

	if (region->bytes) {
		b = weir__heap_block(h, region->first);
		weir__shard_del(&h->root, b);
		weir__block_drop(&h->root.spares, b);
	}
	h->region[region->index] = NULL;
	h->n_given++;
	h->n_regions--;
	h->reserved -= buf->bytes;
	h->span += region->top - region->lo;
	weir__free(region);
	return buf;
}

uint64_t weir__regions_empty(struct weir_heap *h)
{
	uint64_t bytes = weir__holes_possible(h);

	for (unsigned i = 0; i < h->end_regions; i++)
		if (h->region[i] && region_is_empty(h, h->region[i]))
			bytes += h->region[i]->buf->bytes;
	return bytes;
}

uint64_t weir__regions_trim(struct weir_heap *h, uint64_t keep)
{
	uint64_t given = weir__holes_give_back(h, keep);
	struct weir_buf *buf;
	unsigned i;

	weir__heap_lock(h);
	i = h->end_regions;
	weir__heap_unlock(h);
	while (i--) {
		struct weir__region *region;

		buf = NULL;
		weir__heap_lock_all(h);
		region = h->region[i];
		if (region && h->reserved > keep && region_is_empty(h, region))
			buf = region_del(h, region);
		weir__heap_unlock(h);
		given += buf ? buf->bytes : 0;
		weir__buf_put(buf);
	}
	return given;
}

void weir__regions_free(struct weir_heap *h, bool quietly)
{
	for (unsigned i = 0; i < h->end_regions; i++) {
		if (!h->region[i])
			continue;
		if (h->region[i]->given)
			atomic_fetch_sub(&h->region[i]->buf->n_heaps, 1);
		if (quietly)
			weir__buf_put_later(h->region[i]->buf);
		else
			weir__buf_put(h->region[i]->buf);
		weir__free(h->region[i]);
	}
	weir__free(h->region);
}
