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

#include <stdbool.h>
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

/* @offset rounded up to the alignment of item @i. */
static inline int64_t
weir__exact_up(const struct weir__exact_component *component, uint32_t i,
	       int64_t offset)
{
	int64_t align = component->align[i];

	return align == 1 ? offset : (offset + align - 1) / align * align;
}

/* The size of item @i in clique @c, which is one of its cliques. */
static inline int64_t
weir__exact_size_in(const struct weir__exact_component *component, uint32_t i,
		    uint32_t c)
{
	int64_t size = component->size[i];

	if (!component->step)
		return size;
	for (uint32_t k = component->step_at[i]; k < component->step_at[i + 1];
	     k++)
		if (component->step[k].clique <= c)
			size = component->step[k].size;
	return size;
}

/* If item @k is placed above item @i, it begins at least so far above it. */
static inline int64_t
weir__exact_size_below(const struct weir__exact_component *component,
		       uint32_t i, uint32_t k)
{
	if (!component->step)
		return component->size[i];
	return weir__exact_size_in(component, i,
				   component->lo[i] > component->lo[k]
					   ? component->lo[i]
					   : component->lo[k]);
}

static inline const uint64_t *
weir__exact_overlap(const struct weir__exact_component *component, uint32_t i)
{
	return component->overlap + (size_t)i * component->words;
}

/* Sets of items and of cliques. */
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

/* The smallest number in @word, the word @w of a set, which is not empty. */
static inline uint32_t weir__exact_first(uint64_t word, uint32_t w)
{
	return w * 64 + (uint32_t)__builtin_ctzll(word);
}

#endif
