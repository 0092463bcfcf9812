/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/exact_component.h"

/* The beginning or the end of an item's lifetime. */
struct exact_event {
	int64_t time;
	uint32_t item;
	bool begins;
};

/* By time; ends come before beginnings, since lifetimes are half-open. */
static int exact_event_order(const void *pa, const void *pb)
{
	const struct exact_event *a = pa, *b = pb;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	if (a->begins != b->begins)
		return a->begins ? 1 : -1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static int64_t exact_gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

static int64_t exact_item_align(const struct weir__exact_item *item)
{
	return item->align ? (int64_t)item->align : 1;
}

static int exact_check(const struct weir__exact_item *items, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (items[i].lower >= items[i].upper)
			return weir__fail(-EINVAL,
					  "item %zu: alive in [%lld, %lld), "
					  "which is empty",
					  i, (long long)items[i].lower,
					  (long long)items[i].upper);
		if (weir__add_over(sum, items[i].bytes, &sum) ||
		    weir__add_over(sum, items[i].align, &sum) || sum >> 62)
			return weir__fail(-EOVERFLOW,
					  "item %zu of %zu: the sizes and "
					  "alignments up to this one reach "
					  "2^62 bytes",
					  i, n);
	}
	return 0;
}

/*
 * The greatest number that divides every offset of a placement in which no item
 * can be lowered. Such an offset is a sum of sizes, which may be rounded up to
 * alignments. An alignment that divides all sizes changes nothing.
 */
static int64_t exact_unit(const struct weir__exact_item *items, size_t n)
{
	int64_t unit = 0, last;

	for (size_t i = 0; i < n; i++)
		unit = exact_gcd(unit, (int64_t)items[i].bytes);
	if (!unit)
		return 1;
	do {
		last = unit;
		for (size_t i = 0; i < n; i++)
			if (items[i].bytes &&
			    unit % exact_item_align(&items[i]))
				unit = exact_gcd(unit,
						 exact_item_align(&items[i]));
	} while (unit != last);
	return unit;
}

/* The cliques [lo, hi) of an item of the caller. */
struct clique_range {
	uint32_t lo, hi;
	bool takes; /* the place of another item, when that ends */
};

void *weir__exact_carve(struct weir__exact_block *block, size_t n, size_t size)
{
	size_t at = (block->used + 63) & ~(size_t)63;

	block->used = at + n * size;
	return block->base ? block->base + at : NULL;
}

/* All arrays of a component, in memory at @base. Returns their bytes. */
static size_t component_carve(struct weir__exact_component *p, size_t n_members,
			      size_t n_steps, char *base)
{
	struct weir__exact_block block = { .base = base };
	size_t rows = p->n <= WEIR__EXACT_ITEMS ? p->n : 0;

	WEIR__EXACT_CARVE(&block, p->item, p->n);
	WEIR__EXACT_CARVE(&block, p->size, p->n);
	WEIR__EXACT_CARVE(&block, p->align, p->n);
	WEIR__EXACT_CARVE(&block, p->lo, p->n);
	WEIR__EXACT_CARVE(&block, p->hi, p->n);
	WEIR__EXACT_CARVE(&block, p->next_identical, p->n);
	WEIR__EXACT_CARVE(&block, p->load, p->m + 1);
	WEIR__EXACT_CARVE(&block, p->first, p->m + 1);
	WEIR__EXACT_CARVE(&block, p->members, n_members);
	WEIR__EXACT_CARVE(&block, p->overlap, rows * p->words);
	if (n_steps) {
		WEIR__EXACT_CARVE(&block, p->step, n_steps);
		WEIR__EXACT_CARVE(&block, p->step_at, p->n + 1);
	}
	return block.used;
}

/* Where the last item ends that takes the place of item @i. */
static const struct clique_range *
last_range(const struct weir__exact_item *items,
	   const struct clique_range *range, size_t i)
{
	while (items[i].next)
		i = items[i].next - 1;
	return &range[i];
}

static void component_items(struct weir__exact_component *p,
			    const struct weir__exact_item *items,
			    const struct exact_event *begin,
			    const struct exact_event *end,
			    const struct clique_range *range, int64_t unit)
{
	uint32_t at = 0;

	for (const struct exact_event *e = begin; e < end; e++) {
		int64_t align = exact_item_align(&items[e->item]) / unit;

		if (!e->begins || range[e->item].takes)
			continue;
		p->item[at] = e->item;
		p->size[at] = (int64_t)items[e->item].bytes / unit;
		p->align[at] = align ? align : 1; /* it divides the unit */
		p->lo[at] = range[e->item].lo;
		p->hi[at++] = last_range(items, range, e->item)->hi;
	}
}

/*
 * The steps at which an item becomes smaller: the caller's items that take its
 * place.
 */
static void component_steps(struct weir__exact_component *p,
			    const struct weir__exact_item *items,
			    const struct clique_range *range, int64_t unit)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < p->n && p->step; i++) {
		size_t next = items[p->item[i]].next;

		p->step_at[i] = at;
		for (; next; next = items[next - 1].next)
			p->step[at++] = (struct weir__exact_step){
				range[next - 1].lo,
				(int64_t)items[next - 1].bytes / unit
			};
		p->step_at[i + 1] = at;
	}
}

/*
 * Unlike component_members(), takes linear time even if many items live long.
 */
static void component_loads(struct weir__exact_component *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		int64_t size = p->size[i];

		p->load[p->lo[i]] += size;
		for (uint32_t k = p->step ? p->step_at[i] : 0;
		     p->step && k < p->step_at[i + 1]; k++) {
			p->load[p->step[k].clique] -= size - p->step[k].size;
			size = p->step[k].size;
		}
		p->load[p->hi[i]] -= size;
	}
	for (uint32_t c = 0; c < p->m; c++) {
		if (p->load[c] > p->bound)
			p->bound = p->load[c];
		p->load[c + 1] += p->load[c];
	}
}

static size_t count_members(const struct exact_event *begin,
			    const struct exact_event *end,
			    const struct clique_range *range)
{
	size_t n = 0;

	for (const struct exact_event *e = begin; e < end; e++)
		if (e->begins)
			n += range[e->item].hi - range[e->item].lo;
	return n;
}

static void component_members(struct weir__exact_component *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
			p->first[c + 1]++;
	for (uint32_t c = 0; c < p->m; c++) {
		if (p->first[c + 1] > p->largest)
			p->largest = p->first[c + 1];
		p->first[c + 1] += p->first[c];
	}
	/* first[c] is moved to the end of clique c, and then back. */
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
			p->members[p->first[c]++] = i;
	for (uint32_t c = p->m; c > 0; c--)
		p->first[c] = p->first[c - 1];
	p->first[0] = 0;
}

static bool component_has_steps(const struct weir__exact_component *p,
				uint32_t i)
{
	return p->step && p->step_at[i] < p->step_at[i + 1];
}

static bool component_are_identical(const struct weir__exact_component *p,
				    uint32_t a, uint32_t b)
{
	return !component_has_steps(p, a) && !component_has_steps(p, b) &&
	       p->size[a] == p->size[b] && p->align[a] == p->align[b] &&
	       p->lo[a] == p->lo[b] && p->hi[a] == p->hi[b];
}

/*
 * Identical items are chained: the search looks only at placements that have
 * them in this order.
 */
static void component_identical(struct weir__exact_component *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t j = i + 1;

		while (j < p->n && p->lo[j] == p->lo[i] &&
		       !component_are_identical(p, i, j))
			j++;
		p->next_identical[i] =
			j < p->n && component_are_identical(p, i, j)
				? j
				: WEIR__EXACT_NONE;
	}
}

static void component_overlaps(struct weir__exact_component *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t j = i + 1; j < p->n && p->lo[j] < p->hi[i]; j++) {
			weir__exact_add(p->overlap + (size_t)i * p->words, j);
			weir__exact_add(p->overlap + (size_t)j * p->words, i);
		}
}

/* [begin, end) are all events of the component, in order. */
static int component_new(struct weir__exact_component *p,
			 const struct weir__exact_item *items,
			 const struct exact_event *begin,
			 const struct exact_event *end,
			 const struct clique_range *range, int64_t unit)
{
	size_t n_members = 0, n_steps = 0;
	char *block;

	for (const struct exact_event *e = begin; e < end; e++)
		n_steps += e->begins && range[e->item].takes;
	p->n = (uint32_t)((size_t)(end - begin) / 2 - n_steps);
	p->m = range[end[-1].item].hi;
	p->words = (p->n + 63) / 64;
	if (p->n <= WEIR__EXACT_ITEMS)
		n_members = count_members(begin, end, range);
	block = weir__calloc(1, component_carve(p, n_members, n_steps, NULL));
	if (!block)
		return weir__fail(-ENOMEM, "no memory for %u items", p->n);
	component_carve(p, n_members, n_steps, block);
	component_items(p, items, begin, end, range, unit);
	component_steps(p, items, range, unit);
	component_loads(p);
	if (p->n > WEIR__EXACT_ITEMS)
		return 0;
	component_members(p);
	component_identical(p);
	component_overlaps(p);
	return 0;
}

/*
 * Number the cliques of the component at @e from 0; returns its end. A clique
 * is complete when an item ends after another has begun.
 */
static const struct exact_event *
exact_sweep(const struct weir__exact_item *items, const struct exact_event *e,
	    struct clique_range *range)
{
	uint32_t clique = 0, alive = 0;
	bool fresh = false;

	do {
		if (e->begins) {
			range[e->item].lo = clique;
			fresh = true;
			alive += !range[e->item].takes;
		} else {
			clique += fresh;
			range[e->item].hi = clique;
			fresh = false;
			alive -= !items[e->item].next;
		}
		e++;
	} while (alive);
	return e;
}

static int components_split(const struct weir__exact_item *items,
			    const struct exact_event *event, size_t n_events,
			    struct clique_range *range,
			    struct weir__exact_components *ret)
{
	const struct exact_event *e = event, *end = event + n_events;

	while (e < end) {
		const struct exact_event *next = exact_sweep(items, e, range);
		int err = component_new(&ret->component[ret->n], items, e, next,
					range, ret->unit);

		if (err)
			return err;
		ret->n++;
		e = next;
	}
	return 0;
}

int weir__exact_components_new(const struct weir__exact_item *items, size_t n,
			       struct weir__exact_components *ret)
{
	struct weir__exact_components components = { 0 };
	struct exact_event *event;
	struct clique_range *range;
	size_t n_events = 0;
	int err = exact_check(items, n);

	if (err)
		return err;
	components.unit = exact_unit(items, n);
	event = weir__calloc(n + 1, 2 * sizeof(*event));
	range = weir__calloc(n + 1, sizeof(*range));
	components.component =
		weir__calloc(n + 1, sizeof(*components.component));
	if (!event || !range || !components.component) {
		err = weir__fail(-ENOMEM, "no memory for %zu items", n);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		if (!items[i].bytes)
			continue;
		if (items[i].next)
			range[items[i].next - 1].takes = true;
		event[n_events++] = (struct exact_event){ items[i].lower,
							  (uint32_t)i, true };
		event[n_events++] = (struct exact_event){ items[i].upper,
							  (uint32_t)i, false };
	}
	qsort(event, n_events, sizeof(*event), exact_event_order);
	err = components_split(items, event, n_events, range, &components);
out:
	weir__free(event);
	weir__free(range);
	if (err)
		weir__exact_components_free(&components);
	else
		*ret = components;
	return err;
}

void weir__exact_components_free(struct weir__exact_components *components)
{
	for (size_t i = 0; i < components->n; i++)
		weir__free(components->component[i]
				   .item); /* the beginning of the block */
	weir__free(components->component);
}
