/* SPDX-License-Identifier: MIT */
/*
 * Small random problems, beside the optimum by trying all orders: what a search
 * proves is the optimum, and without a limit of time all is proved. In half of
 * them items take the places of others, smaller ones too.
 */
#include <string.h>

#include "placed.h"
#include "tap.h"

#define MOST 7
#define ROUNDS 3000

static uint64_t state = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static struct weir_lifetime item[MOST];
static uint64_t size[MOST];   /* rounded up to the least alignment */
static unsigned before[MOST]; /* 1 + the item whose place it takes; 0: none */
static unsigned after[MOST];  /* 1 + the one that takes its place; 0: none */
static unsigned n;

/*
 * Let item @i take the place of an earlier one, if that is free and outlived.
 */
static void take_place(unsigned i, unsigned j, int64_t steps)
{
	struct weir_lifetime *x = &item[i], *y = &item[j];

	if (after[j])
		return;
	x->flags |= WEIR_PLACE_OVER;
	x->over = j;
	x->lower = y->upper - 1;
	x->upper = x->lower + 1 +
		   (int64_t)rnd(
			   (uint64_t)(steps > x->lower ? steps - x->lower : 1));
	x->bytes = rnd(4) ? 1 + rnd(y->bytes) : y->bytes;
	x->align = y->align;
	before[i] = j + 1;
	after[j] = i + 1;
}

static void problem(bool in_place)
{
	unsigned kind = (unsigned)rnd(3);
	uint64_t unit = UINT64_MAX;
	int64_t steps = 2 + (int64_t)rnd(6);

	n = 2 + (unsigned)rnd(MOST - 1);
	memset(item, 0, sizeof(item));
	memset(before, 0, sizeof(before));
	memset(after, 0, sizeof(after));
	for (unsigned i = 0; i < n; i++) {
		struct weir_lifetime *x = &item[i];

		x->lower = (int64_t)rnd((uint64_t)steps);
		x->upper = x->lower + 1 +
			   (int64_t)rnd((uint64_t)(steps - x->lower));
		x->bytes = 1 + rnd(12) * (rnd(2) ? 1 : 3);
		x->align = kind ? (uint64_t)1 << rnd(kind == 1 ? 2 : 5) : 1;
		if (in_place && i && rnd(2))
			take_place(i, (unsigned)rnd(i), steps);
		unit = x->align < unit ? x->align : unit;
	}
	for (unsigned i = 0; i < n; i++)
		size[i] = (item[i].bytes + unit - 1) / unit * unit;
}

static bool together(unsigned i, unsigned j)
{
	return item[i].lower < item[j].upper && item[j].lower < item[i].upper;
}

/* First items of places, in the order in which these were chosen. */
static unsigned order[MOST];
static uint64_t at[MOST]; /* offsets of all items */

/*
 * The lowest offset for item @i, @off or above, beside the places of @k others.
 */
static uint64_t above(unsigned i, unsigned k, uint64_t off)
{
	for (unsigned m = 0; m < k; m++)
		for (unsigned j = order[m] + 1; j; j = after[j - 1])
			if (together(i, j - 1) &&
			    off < at[j - 1] + size[j - 1] &&
			    at[j - 1] < off + size[i])
				off = at[j - 1] + size[j - 1];
	return off;
}

/* The lowest place that is free for item @i and all that take it from there. */
static uint64_t lowest(unsigned i, unsigned k)
{
	const uint64_t align = item[i].align;
	uint64_t off = 0, last;

	do {
		last = off = (off + align - 1) / align * align;
		for (unsigned j = i + 1; j; j = after[j - 1])
			off = above(j - 1, k, off);
	} while (off != last);
	return off;
}

/* The least height: some order, each place as low as possible, has it. */
static uint64_t optimum(unsigned used, unsigned k, uint64_t height,
			uint64_t best)
{
	bool all = true;

	for (unsigned i = 0; i < n && height < best; i++) {
		uint64_t off, end;

		if (before[i] || used & 1u << i)
			continue;
		all = false;
		off = lowest(i, k);
		for (unsigned j = i + 1; j; j = after[j - 1])
			at[j - 1] = off;
		order[k] = i;
		end = off + size[i];
		best = optimum(used | 1u << i, k + 1,
			       end > height ? end : height, best);
	}
	return all && height < best ? height : best;
}

/* Counts for the three ways to search. */
struct counts {
	unsigned refused, unproved, higher, lying;
};

static void compare(uint64_t best, uint64_t capacity, uint64_t enough,
		    struct counts *c)
{
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_place_memory memory = { .capacity = capacity,
					    .enough = enough };
	struct weir_placement_info info;
	struct weir_placement *p;

	o.time_ns = -1;
	o.threads = (uint32_t)rnd(3);
	o.memory = &memory;
	o.n_memories = 1;
	if (weir_placement_new(item, n, &o, &p) < 0) {
		diag("the optimum is %llu: %s", (unsigned long long)best,
		     weir_error());
		c->refused++;
		return;
	}
	info = placed_info(p);
	c->unproved += !(info.flags & WEIR_PLACED_OPTIMAL);
	c->higher += info.bytes > best;
	c->lying += info.bytes < best || info.bound > best ||
		    ((info.flags & WEIR_PLACED_OPTIMAL) && info.bytes != best);
	weir_placement_free(p);
}

int main(void)
{
	struct counts all = { 0 }, tight = { 0 }, low = { 0 };

	plan(6);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t best;

		problem(round % 2);
		best = optimum(0, 0, 0, UINT64_MAX);
		compare(best, 0, 0, &all);
		compare(best, best, 0, &tight);
		compare(best, best, 1, &low);
	}
	is_int(all.refused, 0, "without a capacity nothing is refused");
	is_int(all.unproved, 0, "a search without a limit of time proves all");
	is_int(all.higher, 0, "a search without a limit of time is optimal");
	is_int(tight.refused, 0,
	       "items that fit their capacity exactly are placed");
	is_int(low.refused, 0,
	       "an enough that cannot be reached refuses nothing that fits");
	is_int(all.lying + tight.lying + low.lying, 0,
	       "no bound is over the optimum, and what is proved is the optimum");
	return done_testing();
}
