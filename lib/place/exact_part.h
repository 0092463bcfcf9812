/* SPDX-License-Identifier: MIT */
/*
 * A problem of placement, prepared for the search: cut into parts that no item
 * joins, in units instead of bytes, with sections instead of times.
 *
 * A section is a largest set of items that are alive together: one for each
 * moment at which an item ends after another has begun. Any two items that are
 * ever alive together share a section, and an item is in consecutive sections
 * [lo, hi). Sections are the only form of time that the search knows.
 */
#ifndef WEIR__EXACT_PART_H
#define WEIR__EXACT_PART_H

#include <stddef.h>
#include <stdint.h>

#include "place/exact.h"

#define WEIR__EXACT_NONE UINT32_MAX

/* Items of a part that the search accepts: its table of overlaps is 8 MiB. */
#define WEIR__EXACT_ITEMS 8192

struct weir__exact_part {
	uint32_t n;          /* items */
	uint32_t m;          /* sections */
	uint32_t words;      /* of 64 bits, for a set of items */
	uint32_t largest;    /* most items in one section */
	int64_t unit;        /* bytes; sizes and alignments are multiples */
	int64_t bound;       /* units: no placement is lower */
	uint32_t *item;      /* index of the caller's item */
	int64_t *size;       /* units */
	int64_t *align;      /* units */
	uint32_t *lo, *hi;   /* its sections */
	uint32_t *next_twin; /* the next item with the same four members */
	uint32_t *prev_twin;
	uint64_t *overlap; /* @words for each item: those alive with it */
	int64_t *load;     /* units of each section's items */
	uint32_t *members; /* of section s: [first[s], first[s + 1]) */
	uint32_t *first;
};

struct weir__exact_parts {
	struct weir__exact_part *part;
	size_t n;
	int64_t unit;
};

int weir__exact_parts_new(const struct weir__exact_item *items, size_t n,
			  struct weir__exact_parts *ret);
void weir__exact_parts_free(struct weir__exact_parts *parts);

/*
 * An array of @n elements out of @block, aligned to 64 bytes; *@used is where it
 * begins, and is moved to its end. NULL: only counts.
 */
void *weir__exact_carve(char *block, size_t *used, size_t n, size_t size);

/* @offset rounded up to the alignment of item @i. */
static inline int64_t weir__exact_up(const struct weir__exact_part *part,
				     uint32_t i, int64_t offset)
{
	int64_t align = part->align[i];

	return align == 1 ? offset : (offset + align - 1) / align * align;
}

static inline bool weir__exact_has(const uint64_t *set, uint32_t i)
{
	return set[i / 64] >> (i % 64) & 1;
}

static inline void weir__exact_add(uint64_t *set, uint32_t i)
{
	set[i / 64] |= (uint64_t)1 << (i % 64);
}

static inline void weir__exact_remove(uint64_t *set, uint32_t i)
{
	set[i / 64] &= ~((uint64_t)1 << (i % 64));
}

#endif
