/* SPDX-License-Identifier: MIT */
/*
 * A problem of placement, prepared for the search: divided into components that
 * no item connects, in units instead of bytes, with cliques instead of times.
 *
 * A clique is a largest set of items that are alive together (a "section" in
 * the MiniMalloc paper): there is one for each moment at which an item ends
 * after another has begun. Items that are ever alive together share a clique,
 * and each item is in consecutive cliques [lo, hi). The search knows no other
 * form of time.
 */
#ifndef WEIR__EXACT_COMPONENT_H
#define WEIR__EXACT_COMPONENT_H

#include <stddef.h>
#include <stdint.h>

#include "place/exact.h"

#define WEIR__EXACT_NONE UINT32_MAX

/* From this clique on an item has fewer bytes. */
struct weir__exact_step {
	uint32_t clique;
	int64_t size;
};

/*
 * Sizes, alignments and offsets are in units. Items are sorted by @lo. Items of
 * the caller that take one another's place are one item here, whose size may
 * decrease over time.
 */
struct weir__exact_component {
	uint32_t n;       /* items */
	uint32_t m;       /* cliques */
	uint32_t words;   /* number of 64-bit words in a set of items */
	uint32_t largest; /* most items in one clique */
	int64_t bound;    /* no placement is lower: the largest @load */
	uint32_t *item;   /* the caller's number of each item */
	int64_t *size;  /* size of each item in its first clique: the largest */
	int64_t *align; /* alignment of each item */
	uint32_t *lo, *hi;        /* cliques of each item */
	uint32_t *next_identical; /* the next item with the same four members */
	uint64_t *overlap; /* the set of items that share a clique with each */
	int64_t *load;     /* sum of the sizes in each clique */
	uint32_t *members; /* clique c has [first[c], first[c + 1]) */
	uint32_t *first;
	struct weir__exact_step *step; /* NULL: all sizes stay */
	uint32_t *step_at; /* item i has [step_at[i], step_at[i + 1]) */
};

struct weir__exact_components {
	struct weir__exact_component *component;
	size_t n;
	int64_t unit; /* bytes */
};

int weir__exact_components_new(const struct weir__exact_item *items, size_t n,
			       struct weir__exact_components *ret);
void weir__exact_components_free(struct weir__exact_components *components);

/* A block of memory that is divided into arrays. NULL: only count its bytes. */
struct weir__exact_block {
	char *base;
	size_t used;
};

/* The next array of the block: @n elements of @size bytes, at 64 bytes. */
void *weir__exact_carve(struct weir__exact_block *block, size_t n, size_t size);
#define WEIR__EXACT_CARVE(block, array, n) \
	((array) = weir__exact_carve(block, n, sizeof(*(array))))

/* Add @i to a set of items or of cliques. */
static inline void weir__exact_add(uint64_t *set, uint32_t i)
{
	set[i / 64] |= (uint64_t)1 << (i % 64);
}

#endif
