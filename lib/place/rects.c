/* SPDX-License-Identifier: MIT */
#include "place/rects.h"

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

#define KNOWN_FLAGS (WEIR_PLACE_INPUT | WEIR_PLACE_OUTPUT | WEIR_PLACE_OVER)
/* With at most so many bytes no sum of sizes and alignments wraps. */
#define MAX_BYTES ((uint64_t)1 << 60)

typedef unsigned long long ull;

static bool is_power(uint64_t n)
{
	return n && !(n & (n - 1));
}

static uint64_t align_of(const struct weir_lifetime *item,
			 const struct weir_place_memory *memory)
{
	uint64_t align = item->align ? item->align : memory[item->memory].align;

	return align ? align : 1;
}

static int check_memories(const struct weir_place_memory *memory, unsigned n)
{
	for (unsigned m = 0; m < n; m++) {
		if (memory[m].align && !is_power(memory[m].align))
			return weir__fail(
				-EINVAL,
				"memory %u: alignment %llu is not a power of two",
				m, (ull)memory[m].align);
		if (memory[m].reserved)
			return weir__fail(-EINVAL,
					  "memory %u: reserved is not 0", m);
	}
	return 0;
}

static int check_item(const struct weir_lifetime *item, size_t i, size_t n,
		      unsigned n_memories)
{
	if (item->lower >= item->upper)
		return weir__fail(
			-EINVAL, "item %zu: lower %lld is not below upper %lld",
			i, (long long)item->lower, (long long)item->upper);
	if (item->memory >= n_memories)
		return weir__fail(-EINVAL, "item %zu: memory %u of %u", i,
				  item->memory, n_memories);
	if (item->align && !is_power(item->align))
		return weir__fail(
			-EINVAL,
			"item %zu: alignment %llu is not a power of two", i,
			(ull)item->align);
	if (item->flags & ~KNOWN_FLAGS)
		return weir__fail(-EINVAL, "item %zu: unknown flags 0x%x", i,
				  item->flags & ~KNOWN_FLAGS);
	if (item->over && !(item->flags & WEIR_PLACE_OVER))
		return weir__fail(
			-EINVAL,
			"item %zu: over is %llu, without WEIR_PLACE_OVER", i,
			(ull)item->over);
	if (item->over >= n)
		return weir__fail(-EINVAL,
				  "item %zu: over is %llu, of %zu items", i,
				  (ull)item->over, n);
	if (item->reserved[0] || item->reserved[1])
		return weir__fail(-EINVAL, "item %zu: reserved is not 0", i);
	return 0;
}

/*
 * Check that sums of sizes and paddings cannot wrap, and each item fits its
 * memory.
 */
static int check_bytes(const struct weir_lifetime *items, size_t n,
		       const struct weir_place_memory *memory)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct weir_place_memory *m = &memory[items[i].memory];
		uint64_t align = align_of(&items[i], memory);
		uint64_t bytes = items[i].bytes;

		if (bytes > MAX_BYTES || align > MAX_BYTES ||
		    (sum += bytes + 2 * align) > MAX_BYTES)
			return weir__fail(
				-EOVERFLOW,
				"item %zu: %llu bytes aligned to %llu, all up to this one have over 2^60",
				i, (ull)bytes, (ull)align);
		if (m->capacity && bytes > m->capacity)
			return weir__fail(
				-ENOSPC,
				"item %zu: %llu bytes, memory %u has %llu", i,
				(ull)bytes, items[i].memory, (ull)m->capacity);
	}
	return 0;
}

/*
 * Each item takes the place of one at most, so a walk that returns is a cycle.
 */
static int check_cycles(const struct weir_lifetime *items, size_t n)
{
	size_t *walk = weir__calloc(n, sizeof(*walk));
	int r = 0;

	if (!walk)
		return weir__fail(-ENOMEM, "no memory for %zu items", n);
	for (size_t i = 0; i < n && !r; i++) {
		size_t j = i;

		for (; !walk[j] && items[j].flags & WEIR_PLACE_OVER;
		     j = items[j].over)
			walk[j] = i + 1;
		if (walk[j] == i + 1)
			r = weir__fail(
				-EINVAL,
				"item %zu: takes its own place, through over %llu",
				j, (ull)items[j].over);
	}
	weir__free(walk);
	return r;
}

int weir__rects_check(const struct weir_lifetime *items, size_t n,
		      const struct weir_place_memory *memory,
		      unsigned n_memories)
{
	int r = check_memories(memory, n_memories);

	if (n >= WEIR__NO_RECT)
		return weir__fail(-EOVERFLOW, "%zu items, at most %u", n,
				  WEIR__NO_RECT - 1);
	for (size_t i = 0; i < n && !r; i++)
		r = check_item(&items[i], i, n, n_memories);
	if (!r)
		r = check_bytes(items, n, memory);
	if (!r && n)
		r = check_cycles(items, n);
	return r;
}

/* The state while items become rectangles. */
struct rect_builder {
	const struct weir_lifetime *items;
	size_t n;
	const struct weir_place_memory *memory;
	struct weir__rects *rects; /* one for each memory */
	uint32_t *rect_of;         /* rectangle of each item */
	uint32_t *taker;    /* 1 + the item that takes its place; 0: none */
	int64_t begin, end; /* life of all items together */
};

static int64_t lower_of(const struct rect_builder *m, size_t i)
{
	return m->items[i].flags & WEIR_PLACE_INPUT ? m->begin
						    : m->items[i].lower;
}

static int64_t upper_of(const struct rect_builder *m, size_t i)
{
	return m->items[i].flags & WEIR_PLACE_OUTPUT ? m->end
						     : m->items[i].upper;
}

static uint64_t rounded(const struct rect_builder *m, size_t i)
{
	return weir__up(m->items[i].bytes, m->rects[m->items[i].memory].unit);
}

/* True if item @i may take the place of item @j. */
static bool may_take(const struct rect_builder *m, size_t i, size_t j)
{
	const struct weir_lifetime *x = &m->items[i], *y = &m->items[j];

	return x->memory == y->memory && !(x->flags & WEIR_PLACE_INPUT) &&
	       !(y->flags & WEIR_PLACE_OUTPUT) &&
	       lower_of(m, i) == y->upper - 1 && !m->taker[j] &&
	       rounded(m, i) <= rounded(m, j) &&
	       align_of(x, m->memory) <= align_of(y, m->memory);
}

/*
 * Set the extent of time, and the unit and the number of items of each memory.
 */
static void builder_measure(struct rect_builder *m)
{
	m->begin = INT64_MAX;
	m->end = INT64_MIN;
	for (size_t i = 0; i < m->n; i++) {
		const struct weir_lifetime *item = &m->items[i];
		struct weir__rects *p = &m->rects[item->memory];
		uint64_t align = align_of(item, m->memory);

		if (m->begin > item->lower)
			m->begin = item->lower;
		if (m->end < item->upper)
			m->end = item->upper;
		p->n_items++;
		if (item->bytes && (!p->unit || p->unit > align))
			p->unit = align;
		if (item->bytes && p->align < align)
			p->align = align;
	}
}

/*
 * Decide which item takes which place. Rectangle 0 stands for one to be made.
 */
static void builder_link(struct rect_builder *m)
{
	for (size_t i = 0; i < m->n; i++) {
		size_t j = m->items[i].over;

		m->rect_of[i] = WEIR__NO_RECT;
		if (m->items[i].flags & WEIR_PLACE_OVER && m->items[i].bytes &&
		    may_take(m, i, j)) {
			m->taker[j] = (uint32_t)i + 1;
			m->rect_of[i] = 0;
			m->rects[m->items[i].memory].in_place++;
		}
	}
}

static struct weir__rect *add_rect(struct weir__rects *p)
{
	p->rect[p->n].next = WEIR__NO_RECT;
	return &p->rect[p->n++];
}

/*
 * Make the rectangles of item @i, which takes no place, and of those that take
 * its.
 */
static void builder_chain(struct rect_builder *m, size_t i)
{
	struct weir__rects *p = &m->rects[m->items[i].memory];
	uint32_t first = (uint32_t)p->n;
	struct weir__rect *rect = add_rect(p);

	rect->align = align_of(&m->items[i], m->memory);
	rect->bytes = rounded(m, i);
	rect->lower = lower_of(m, i);
	rect->upper = upper_of(m, i);
	m->rect_of[i] = first;
	while (m->taker[i]) {
		i = m->taker[i] - 1;
		m->rect_of[i] = first;
		if (upper_of(m, i) <= rect->upper)
			continue;
		if (rounded(m, i) < rect->bytes) {
			struct weir__rect *before = rect;

			before->next = (uint32_t)p->n;
			rect = add_rect(p);
			rect->follows = true;
			rect->align = before->align;
			rect->bytes = rounded(m, i);
			rect->lower = before->upper;
		}
		rect->upper = upper_of(m, i);
	}
}

static int rects_alloc(struct weir__rects *p)
{
	if (!p->n_items)
		return 0;
	p->rect = weir__calloc(p->n_items, sizeof(*p->rect));
	return p->rect ? 0
		       : weir__fail(-ENOMEM, "no memory for %llu items",
				    (ull)p->n_items);
}

int weir__rects_make(const struct weir_lifetime *items, size_t n,
		     const struct weir_place_memory *memory,
		     unsigned n_memories, struct weir__rects *ret_rects,
		     uint32_t *ret_rect_of)
{
	struct rect_builder m = { items,       n,    memory, ret_rects,
				  ret_rect_of, NULL, 0,      0 };
	int r = 0;

	m.taker = weir__calloc(n ? n : 1, sizeof(*m.taker));
	if (!m.taker)
		return weir__fail(-ENOMEM, "no memory for %zu items", n);
	builder_measure(&m);
	for (unsigned k = 0; k < n_memories && !r; k++)
		r = rects_alloc(&ret_rects[k]);
	if (!r) {
		builder_link(&m);
		for (size_t i = 0; i < n; i++)
			if (items[i].bytes && ret_rect_of[i] == WEIR__NO_RECT)
				builder_chain(&m, i);
	}
	weir__free(m.taker);
	return r;
}

void weir__rects_free(struct weir__rects *rects, unsigned n_memories)
{
	for (unsigned i = 0; i < n_memories; i++)
		weir__free(rects[i].rect);
}
