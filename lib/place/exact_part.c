/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/exact_part.h"

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
 * The greatest number of which every offset is a multiple, if no item can be
 * lowered: such an offset is a sum of sizes, rounded up to an alignment now and
 * then. An alignment that divides the sizes never rounds.
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

/* What the sweep over all events finds out about one item. */
struct exact_span {
	uint32_t lo, hi;
};

void *weir__exact_carve(char *block, size_t *used, size_t n, size_t size)
{
	size_t at = (*used + 63) & ~(size_t)63;

	*used = at + n * size;
	return block ? block + at : NULL;
}

static size_t exact_part_carve(struct weir__exact_part *p, char *block,
			       size_t n_members, bool searched)
{
	size_t used = 0, rows = searched ? p->n : 0;

	p->item = weir__exact_carve(block, &used, p->n, sizeof(*p->item));
	p->size = weir__exact_carve(block, &used, p->n, sizeof(*p->size));
	p->align = weir__exact_carve(block, &used, p->n, sizeof(*p->align));
	p->lo = weir__exact_carve(block, &used, p->n, sizeof(*p->lo));
	p->hi = weir__exact_carve(block, &used, p->n, sizeof(*p->hi));
	p->next_twin =
		weir__exact_carve(block, &used, p->n, sizeof(*p->next_twin));
	p->prev_twin =
		weir__exact_carve(block, &used, p->n, sizeof(*p->prev_twin));
	p->load = weir__exact_carve(block, &used, p->m, sizeof(*p->load));
	p->first = weir__exact_carve(block, &used, p->m + 1, sizeof(*p->first));
	p->members =
		weir__exact_carve(block, &used, n_members, sizeof(*p->members));
	p->overlap = weir__exact_carve(block, &used, rows * p->words,
				       sizeof(*p->overlap));
	return used;
}

static bool exact_are_twins(const struct weir__exact_part *p, uint32_t a,
			    uint32_t b)
{
	return p->size[a] == p->size[b] && p->align[a] == p->align[b] &&
	       p->lo[a] == p->lo[b] && p->hi[a] == p->hi[b];
}

/* Identical items are chained, so that the search tries one order of them. */
static void exact_part_twins(struct weir__exact_part *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		p->next_twin[i] = p->prev_twin[i] = WEIR__EXACT_NONE;
	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t j = i + 1;

		/* Items are in the order of their first section. */
		while (j < p->n && p->lo[j] == p->lo[i] &&
		       !exact_are_twins(p, i, j))
			j++;
		if (j < p->n && exact_are_twins(p, i, j)) {
			p->next_twin[i] = j;
			p->prev_twin[j] = i;
		}
	}
}

static void exact_part_sections(struct weir__exact_part *p)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t s = p->lo[i]; s < p->hi[i]; s++) {
			p->first[s + 1]++;
			p->load[s] += p->size[i];
		}
	for (uint32_t s = 0; s < p->m; s++) {
		if (p->first[s + 1] > p->largest)
			p->largest = p->first[s + 1];
		if (p->load[s] > p->bound)
			p->bound = p->load[s];
		p->first[s + 1] += p->first[s];
	}
	for (uint32_t s = 0; s < p->m; s++)
		for (uint32_t i = 0; i < p->n; i++)
			if (p->lo[i] <= s && s < p->hi[i])
				p->members[at++] = i;
}

static void exact_part_overlaps(struct weir__exact_part *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t j = 0; j < p->n; j++)
			if (i != j && p->lo[i] < p->hi[j] &&
			    p->lo[j] < p->hi[i])
				weir__exact_add(p->overlap + i * p->words, j);
}

/* @begin..@end are all events of the part, in order. */
static int exact_part_new(struct weir__exact_part *p,
			  const struct weir__exact_item *items,
			  const struct exact_event *begin,
			  const struct exact_event *end,
			  const struct exact_span *span, int64_t unit)
{
	size_t n_members = 0;
	uint32_t at = 0;
	char *block;

	p->n = (uint32_t)((end - begin) / 2);
	p->m = span[end[-1].item].hi;
	p->words = (p->n + 63) / 64;
	p->unit = unit;
	for (const struct exact_event *e = begin; e < end; e++)
		if (e->begins)
			n_members += span[e->item].hi - span[e->item].lo;
	block = weir__calloc(1, exact_part_carve(p, NULL, n_members, true));
	if (!block)
		return weir__fail(-ENOMEM, "no memory for %u items", p->n);
	exact_part_carve(p, block, n_members, true);
	for (const struct exact_event *e = begin; e < end; e++) {
		if (!e->begins)
			continue;
		p->item[at] = e->item;
		p->size[at] = (int64_t)items[e->item].bytes / unit;
		p->align[at] = exact_item_align(&items[e->item]) / unit;
		if (!p->align[at])
			p->align[at] = 1; /* divides the unit */
		p->lo[at] = span[e->item].lo;
		p->hi[at++] = span[e->item].hi;
	}
	exact_part_sections(p);
	exact_part_twins(p);
	exact_part_overlaps(p);
	return 0;
}

/*
 * Number the sections of each part from 0: a section is complete when an item
 * ends after another has begun. Returns the end of the part at @e.
 */
static const struct exact_event *exact_sweep(const struct exact_event *e,
					     struct exact_span *span)
{
	uint32_t section = 0, alive = 0;
	bool fresh = false;

	do {
		if (e->begins) {
			span[e->item].lo = section;
			fresh = true;
			alive++;
		} else {
			section += fresh;
			span[e->item].hi = section;
			fresh = false;
			alive--;
		}
		e++;
	} while (alive);
	return e;
}

static int exact_cut(const struct weir__exact_item *items,
		     const struct exact_event *event, size_t n_events,
		     struct exact_span *span, struct weir__exact_parts *ret)
{
	const struct exact_event *e = event, *end = event + n_events;

	while (e < end) {
		const struct exact_event *next = exact_sweep(e, span);
		int err = exact_part_new(&ret->part[ret->n], items, e, next,
					 span, ret->unit);

		if (err)
			return err;
		ret->n++;
		e = next;
	}
	return 0;
}

int weir__exact_parts_new(const struct weir__exact_item *items, size_t n,
			  struct weir__exact_parts *ret)
{
	struct weir__exact_parts parts = { 0 };
	struct exact_event *event;
	struct exact_span *span;
	size_t n_events = 0;
	int err = exact_check(items, n);

	if (err)
		return err;
	parts.unit = exact_unit(items, n);
	event = weir__calloc(n + 1, 2 * sizeof(*event));
	span = weir__calloc(n + 1, sizeof(*span));
	parts.part = weir__calloc(n + 1, sizeof(*parts.part));
	if (!event || !span || !parts.part) {
		err = weir__fail(-ENOMEM, "no memory for %zu items", n);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		if (!items[i].bytes)
			continue;
		event[n_events++] = (struct exact_event){ items[i].lower,
							  (uint32_t)i, true };
		event[n_events++] = (struct exact_event){ items[i].upper,
							  (uint32_t)i, false };
	}
	qsort(event, n_events, sizeof(*event), exact_event_order);
	err = exact_cut(items, event, n_events, span, &parts);
out:
	weir__free(event);
	weir__free(span);
	if (err)
		weir__exact_parts_free(&parts);
	else
		*ret = parts;
	return err;
}

void weir__exact_parts_free(struct weir__exact_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++)
		weir__free(
			parts->part[i].item); /* the beginning of the block */
	weir__free(parts->part);
}
