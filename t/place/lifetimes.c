/* SPDX-License-Identifier: MIT */
#include "lifetimes.h"

#include <stdlib.h>
#include <string.h>

#include "placed.h"
#include "tap.h"

#define MOST 20000

static uint64_t state;

static uint64_t rnd(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

const char *lifetimes_name(enum lifetimes kind)
{
	static const char *const names[] = {
		"long and short", "short",         "nested", "stairs", "layers",
		"random",         "powers of two", "mixed",  "ends",
	};

	return names[kind];
}

static void live(struct weir_lifetime *x, int64_t lower, int64_t steps)
{
	x->lower = lower;
	x->upper = lower + 1 + steps;
}

static void lifetime_make(enum lifetimes kind, struct weir_lifetime *x,
			  size_t i, size_t n)
{
	int64_t k = (int64_t)i, end = (int64_t)n, at = (int64_t)rnd(n);

	switch (kind) {
	case LIVES_HALVES:
		live(x, at,
		     i % 2 ? end / 4 + (int64_t)rnd(n / 2)
			   : (int64_t)rnd(n / 100 + 2));
		break;
	case LIVES_SHORT:
		live(x, at, (int64_t)rnd(20));
		break;
	case LIVES_NESTED:
		live(x, k / 2, 2 * end - k);
		break;
	case LIVES_STAIRS:
		live(x, k, end / 8);
		break;
	case LIVES_LAYERS:
		live(x, k, i % 12 ? (int64_t)rnd(4) : end - k);
		x->bytes = 256 * (1 + i % 12 * 64);
		break;
	case LIVES_RANDOM:
		live(x, at, (int64_t)rnd(n));
		break;
	case LIVES_POWERS:
		live(x, at, (int64_t)rnd(n / 20 + 2));
		x->bytes = (uint64_t)1 << (8 + rnd(14));
		break;
	case LIVES_MIXED:
		live(x, at, (int64_t)rnd((n >> rnd(12)) + 1));
		x->bytes = 1 + rnd(1000) * rnd(1000);
		break;
	default:
		live(x, i % 2 ? 0 : at, i % 2 ? at : end - at);
	}
}

void lifetimes_make(enum lifetimes kind, struct weir_lifetime *item, size_t n)
{
	state = 88172645463325252u + (uint64_t)kind * 7919 + n;
	memset(item, 0, n * sizeof(*item));
	for (size_t i = 0; i < n; i++) {
		item[i].bytes = 256 * (1 + rnd(4096));
		lifetime_make(kind, &item[i], i, n);
	}
}

struct key {
	double first, second;
	int64_t lower; /* the earliest of equal keys comes first */
	uint32_t item;
};

static int key_order(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->first > y->first || x->first < y->first)
		return x->first > y->first ? -1 : 1;
	if (x->second > y->second || x->second < y->second)
		return x->second > y->second ? -1 : 1;
	if (x->lower != y->lower)
		return x->lower < y->lower ? -1 : 1;
	return x->item < y->item ? -1 : x->item > y->item;
}

static struct key key_of(const struct weir_lifetime *x, size_t i,
			 enum simple_order order)
{
	double bytes = (double)x->bytes, time = (double)(x->upper - x->lower);

	switch (order) {
	case SIMPLE_BYTES:
		return (struct key){ bytes, time, x->lower, (uint32_t)i };
	case SIMPLE_AREA:
		return (struct key){ bytes * time, bytes, x->lower,
				     (uint32_t)i };
	default:
		return (struct key){ time, bytes, x->lower, (uint32_t)i };
	}
}

/* Items that were placed, by address. */
static struct there {
	int64_t lower, upper;
	uint64_t at, end;
} list[MOST];

static uint64_t find(const struct weir_lifetime *x, size_t n, bool best)
{
	uint64_t at = 0, least = UINT64_MAX, found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct there *y = &list[i];

		if (y->lower >= x->upper || y->upper <= x->lower)
			continue;
		if (y->at >= at + x->bytes && y->at - at - x->bytes < least) {
			least = y->at - at - x->bytes;
			found = at;
			if (!best)
				break;
		}
		if (y->end > at)
			at = y->end;
	}
	return least < UINT64_MAX ? found : at;
}

static void insert(const struct weir_lifetime *x, size_t n, uint64_t at)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	memmove(&list[low + 1], &list[low], (n - low) * sizeof(*list));
	list[low] = (struct there){ x->lower, x->upper, at, at + x->bytes };
}

uint64_t simple_height(const struct weir_lifetime *item, size_t n,
		       enum simple_order order, bool best)
{
	static struct key key[MOST];
	uint64_t height = 0;

	for (size_t i = 0; i < n; i++)
		key[i] = key_of(&item[i], i, order);
	qsort(key, n, sizeof(*key), key_order);
	for (size_t k = 0; k < n; k++) {
		const struct weir_lifetime *x = &item[key[k].item];
		uint64_t at = find(x, k, best);

		insert(x, k, at);
		if (height < at + x->bytes)
			height = at + x->bytes;
	}
	return height;
}

uint64_t greedy_height(const struct weir_lifetime *item, size_t n,
		       uint64_t *ret_bound)
{
	struct weir_placement *p = placed(item, n, NULL);
	struct weir_placement_info info = placed_info(p);

	weir_placement_free(p);
	*ret_bound = info.bound;
	return info.bytes;
}
