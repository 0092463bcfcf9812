/* SPDX-License-Identifier: MIT */
/*
 * Ranges of memory (by address) or of a file: any number of them for each
 * operation. The first few are stored in the object itself, so that usual
 * operations allocate nothing.
 */
#ifndef WEIR__STREAM_RANGE_H
#define WEIR__STREAM_RANGE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__range {
	uint64_t lo, hi; /* [lo, hi) */
	bool write;
};

#define WEIR__RANGES_FEW 2u

/* Changed by one thread until it is sorted, and only read from then on. */
struct weir__access_ranges {
	struct weir__range *list; /* few, or allocated */
	size_t n, cap;
	struct weir__range few[WEIR__RANGES_FEW];
};

static inline bool weir__ranges_meet(const struct weir__range *a,
				     const struct weir__range *b)
{
	return (a->write || b->write) && a->lo < b->hi && b->lo < a->hi;
}

static inline void weir__ranges_init(struct weir__access_ranges *r)
{
	r->list = r->few;
	r->n = 0;
	r->cap = WEIR__RANGES_FEW;
}

void weir__ranges_fini(struct weir__access_ranges *r);
/* Make room for one more. -ENOMEM. */
int weir__ranges_grow(struct weir__access_ranges *r);

/* Add a range; an empty one is ignored. -ENOMEM. */
static inline int weir__ranges_add(struct weir__access_ranges *r, uint64_t lo,
				   uint64_t hi, bool write)
{
	if (lo == hi)
		return 0;
	if (r->n == r->cap && weir__ranges_grow(r) < 0)
		return -ENOMEM;
	r->list[r->n++] = (struct weir__range){ lo, hi, write };
	return 0;
}

/*
 * If there are more than a few, sort them by address and merge those that
 * overlap; a read that overlaps a write becomes part of the write.
 */
void weir__ranges_sort(struct weir__access_ranges *r);
/*
 * True if one of them writes what the other accesses. Both are sorted. The
 * effort is proportional to the shorter list, and to the logarithm of the
 * longer one.
 */
bool weir__ranges_conflict(const struct weir__access_ranges *a,
			   const struct weir__access_ranges *b);

/*
 * Make room for one element more than @n in @list, which is @few (a part of its
 * object) or was allocated here. Returns the list, which may have moved; *@cap
 * is its capacity. NULL, with a sentence: there is no memory, and nothing has
 * changed.
 */
void *weir__grow_few(void *list, const void *few, size_t *cap, size_t n,
		     size_t size);

#endif
