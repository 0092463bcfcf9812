/* SPDX-License-Identifier: MIT */
#include "exact_made.h"

#define UNIT 1024 /* bytes */
#define ROOM 1024 /* units of memory */

static uint64_t made_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A random number from 0 to @n - 1. */
static int64_t made_below(uint64_t *state, int64_t n)
{
	return (int64_t)(made_random(state) % (uint64_t)n);
}

static void made_add(struct exact_made *made, int64_t lower, int64_t upper,
		     int64_t offset, int64_t size)
{
	made->offset[made->n] = (uint64_t)offset * UNIT;
	made->item[made->n++] =
		(struct weir__exact_item){ lower, upper, (uint64_t)size * UNIT,
					   1, 0 };
}

static uint64_t made_area(const struct weir__exact_item *item)
{
	return (uint64_t)(item->upper - item->lower) * item->bytes;
}

/* Divide a large item into two, at a moment or at an address. */
static void made_cut(struct exact_made *made, uint64_t *state)
{
	size_t at = (size_t)made_below(state, (int64_t)made->n);
	struct weir__exact_item *item;
	int64_t time, units;

	for (unsigned tries = 0; tries < 3; tries++) {
		size_t i = (size_t)made_below(state, (int64_t)made->n);

		if (made_area(&made->item[i]) > made_area(&made->item[at]))
			at = i;
	}
	item = &made->item[at];
	time = item->upper - item->lower;
	units = (int64_t)(item->bytes / UNIT);
	if (made_below(state, 2) && time > 1) {
		int64_t cut = item->lower + 1 + made_below(state, time - 1);

		made_add(made, cut, item->upper,
			 (int64_t)(made->offset[at] / UNIT), units);
		item->upper = cut;
	} else if (units > 1) {
		int64_t cut = 1 + made_below(state, units - 1);

		made_add(made, item->lower, item->upper,
			 (int64_t)(made->offset[at] / UNIT) + cut, units - cut);
		item->bytes = (uint64_t)cut * UNIT;
	}
}

static void made_tiles(struct exact_made *made, size_t n, uint64_t *state)
{
	made_add(made, 0, (int64_t)n, 0, ROOM);
	while (made->n < n)
		made_cut(made, state);
}

/* How many steps an item lives: most are short, and some very long. */
static int64_t made_life(uint64_t *state)
{
	int64_t kind = made_below(state, 20);

	if (kind < 12)
		return 1 + made_below(state, 4);
	if (kind < 17)
		return 4 + made_below(state, 10);
	return 20 + made_below(state, 80);
}

static int64_t made_size(uint64_t *state, enum exact_shape shape)
{
	static const int64_t few[] = { 4, 8, 12, 16, 24, 32, 64, 96, 128 };

	if (shape == EXACT_LAYERS)
		return few[made_below(state, 9)];
	return 1 + made_below(state, 1 + made_below(state, 200));
}

/*
 * Step by step, new items fill the free memory: at every tenth step all of it,
 * at the others half of the gaps. @until is when each unit becomes free.
 */
static void made_steps(struct exact_made *made, enum exact_shape shape,
		       size_t n, uint64_t *state)
{
	int64_t until[ROOM] = { 0 };

	for (int64_t now = 0; made->n < n; now++)
		for (int64_t at = 0; at < ROOM && made->n < n;) {
			int64_t size = 0, want = made_size(state, shape);
			int64_t end = now + made_life(state);
			bool skip = now % 10 && made_below(state, 2);

			while (at + size < ROOM && size < want &&
			       until[at + size] <= now)
				size++;
			if (size && !skip)
				made_add(made, now, end, at, size);
			for (int64_t u = at; u < at + size && !skip; u++)
				until[u] = end;
			at += size ? size : 1;
		}
}

void exact_make(enum exact_shape shape, size_t n, uint64_t seed,
		struct exact_made *ret)
{
	uint64_t state = seed * 0x2545f4914f6cdd1d + n;

	ret->n = 0;
	ret->height = (uint64_t)ROOM * UNIT;
	if (shape == EXACT_TILES)
		made_tiles(ret, n, &state);
	else
		made_steps(ret, shape, n, &state);
}
