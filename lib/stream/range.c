/* SPDX-License-Identifier: MIT */
#include "stream/range.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/array.h"

void *weir__grow_few(void *list, const void *few, size_t *cap, size_t n,
		     size_t size)
{
	bool first = list == few;
	size_t more = first ? 0 : *cap;
	void *grown = weir__grow(first ? NULL : list, &more, n, size);

	if (!grown) {
		weir__fail(-ENOMEM, "no memory for %zu ranges of an operation",
			   n + 1);
		return NULL;
	}
	if (first)
		memcpy(grown, few, n * size);
	*cap = more;
	return grown;
}

void weir__ranges_fini(struct weir__access_ranges *r)
{
	if (r->list != r->few)
		weir__free(r->list);
}

int weir__ranges_grow(struct weir__access_ranges *r)
{
	struct weir__range *list =
		weir__grow_few(r->list, r->few, &r->cap, r->n, sizeof(*list));

	if (!list)
		return -ENOMEM;
	r->list = list;
	return 0;
}

static int range_cmp(const void *a, const void *b)
{
	const struct weir__range *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* qsort(3) may allocate, and most operations are sorted already. */
static bool ranges_sorted(const struct weir__access_ranges *r)
{
	for (size_t i = 1; i < r->n; i++)
		if (r->list[i].lo < r->list[i - 1].lo)
			return false;
	return true;
}

void weir__ranges_sort(struct weir__access_ranges *r)
{
	struct weir__range *last = r->list, *next;

	if (r->n <= WEIR__RANGES_FEW)
		return;
	if (!ranges_sorted(r))
		qsort(r->list, r->n, sizeof(*r->list), range_cmp);
	for (next = last + 1; next < r->list + r->n; next++) {
		bool overlap = next->lo < last->hi;

		if (!overlap &&
		    (next->lo > last->hi || next->write != last->write)) {
			*++last = *next;
			continue;
		}
		if (next->hi > last->hi)
			last->hi = next->hi;
		last->write |= next->write;
	}
	r->n = (size_t)(last - r->list) + 1;
}

/* Returns the first range of a sorted list that ends above @addr. */
static const struct weir__range *
first_above(const struct weir__access_ranges *r, uint64_t addr)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->list[mid].hi > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return r->list + lo;
}

static bool range_conflicts(const struct weir__range *x,
			    const struct weir__access_ranges *r)
{
	const struct weir__range *y = r->list, *end = y + r->n;
	bool sorted = r->n > WEIR__RANGES_FEW;

	if (sorted)
		y = first_above(r, x->lo);
	for (; y < end && (!sorted || y->lo < x->hi); y++)
		if (weir__ranges_meet(x, y))
			return true;
	return false;
}

bool weir__ranges_conflict(const struct weir__access_ranges *a,
			   const struct weir__access_ranges *b)
{
	const struct weir__access_ranges *few = a->n < b->n ? a : b;
	const struct weir__access_ranges *many = few == a ? b : a;

	for (size_t i = 0; i < few->n; i++)
		if (range_conflicts(&few->list[i], many))
			return true;
	return false;
}
