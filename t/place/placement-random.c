/* SPDX-License-Identifier: MIT */
/*
 * Random items, placed and checked pair by pair: no byte has two owners at any
 * step, except where an item may take another's place.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/placement.h>

#include "tap.h"

#define MAX_ITEMS 4000
#define MAX_MEMORIES 3
#define ROUNDS 1500
#define FEW 120   /* items of most rounds */
#define DENSE 300 /* one in so many rounds has far more items */

typedef unsigned long long ull;

static uint64_t state = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

struct problem {
	struct weir_lifetime item[MAX_ITEMS];
	struct weir_place_memory memory[MAX_MEMORIES];
	struct weir_placement_opts opts;
	size_t n;
	int64_t begin, end;
};

static uint64_t random_align(unsigned kind)
{
	return kind == 0 ? 0 : (uint64_t)1 << rnd(kind == 1 ? 3 : 9);
}

/* Let item @i take the place of an earlier one, most often at its last step. */
static void random_over(struct problem *p, size_t i)
{
	struct weir_lifetime *item = &p->item[i];
	size_t j = rnd(i);

	item->flags |= WEIR_PLACE_OVER;
	item->over = j;
	if (rnd(4)) {
		item->lower = p->item[j].upper - 1;
		item->upper = item->lower + 1 + (int64_t)rnd(10);
		item->memory = p->item[j].memory;
		item->align = p->item[j].align;
		item->bytes = rnd(3) ? p->item[j].bytes : rnd(5000);
	}
}

static void random_memories(struct problem *p, unsigned n, unsigned kind)
{
	p->opts.size = sizeof(p->opts);
	p->opts.memory = p->memory;
	p->opts.n_memories = n;
	for (unsigned m = 0; m < n; m++) {
		p->memory[m].align = random_align(kind);
		p->memory[m].max = rnd(3) ? 0 : 8192 + rnd(20000);
	}
}

static void random_problem(struct problem *p)
{
	unsigned kind = (unsigned)rnd(3), long_lives = (unsigned)rnd(40) + 1;
	uint64_t sizes = rnd(2) ? 16 : 5000;

	memset(p, 0, sizeof(*p));
	random_memories(p, 1 + (unsigned)rnd(MAX_MEMORIES), kind);
	p->n = rnd(FEW);
	p->opts.time_ns = rnd(4) ? 0 : 2000000;
	p->opts.threads = (uint32_t)rnd(3);
	for (size_t i = 0; i < p->n; i++) {
		struct weir_lifetime *item = &p->item[i];

		item->lower = (int64_t)rnd(60) - 20;
		item->upper = item->lower + 1 + (int64_t)rnd(long_lives);
		item->bytes = rnd(20) ? rnd(sizes) : 0;
		item->align = rnd(2) ? random_align(kind) : 0;
		item->memory = (uint32_t)rnd(p->opts.n_memories);
		item->flags = rnd(6) ? 0 : (uint32_t)rnd(4);
		if (i && rnd(2))
			random_over(p, i);
	}
}

/*
 * So many items that their conflicts cannot be listed: all have long lives, or
 * all but some outputs have short ones.
 */
static void dense_problem(struct problem *p)
{
	bool outputs = rnd(2);

	memset(p, 0, sizeof(*p));
	random_memories(p, 1, 2);
	p->n = MAX_ITEMS;
	for (size_t i = 0; i < p->n; i++) {
		struct weir_lifetime *item = &p->item[i];

		item->lower = (int64_t)i;
		item->upper =
			item->lower + 2 + (int64_t)rnd(outputs ? 9 : MAX_ITEMS);
		item->bytes = rnd(5000);
		item->align = rnd(2) ? random_align(2) : 0;
		item->flags = outputs && !rnd(3) ? WEIR_PLACE_OUTPUT : 0;
		if (i && rnd(2)) {
			item->flags |= WEIR_PLACE_OVER;
			item->over = i - 1;
		}
	}
}

static uint64_t align_of(const struct problem *p, size_t i)
{
	uint64_t align = p->item[i].align;

	if (!align)
		align = p->memory[p->item[i].memory].align;
	return align ? align : 1;
}

/* The lifetimes of inputs and outputs, computed once more. */
static int64_t lower_of(const struct problem *p, size_t i)
{
	return p->item[i].flags & WEIR_PLACE_INPUT ? p->begin
						   : p->item[i].lower;
}

static int64_t upper_of(const struct problem *p, size_t i)
{
	return p->item[i].flags & WEIR_PLACE_OUTPUT ? p->end : p->item[i].upper;
}

/* The least alignment of a memory: sizes are rounded up to multiples of it. */
static uint64_t unit_of(const struct problem *p, unsigned memory)
{
	uint64_t unit = (uint64_t)1 << 40;

	for (size_t i = 0; i < p->n; i++)
		if (p->item[i].memory == memory && p->item[i].bytes &&
		    align_of(p, i) < unit)
			unit = align_of(p, i);
	return unit;
}

static uint64_t rounded(const struct problem *p, size_t i)
{
	uint64_t unit = unit_of(p, p->item[i].memory);

	return (p->item[i].bytes + unit - 1) / unit * unit;
}

static bool may_take(const struct problem *p, size_t i, size_t j)
{
	const struct weir_lifetime *x = &p->item[i], *y = &p->item[j];

	return x->flags & WEIR_PLACE_OVER && x->over == j &&
	       x->memory == y->memory && !(y->flags & WEIR_PLACE_OUTPUT) &&
	       lower_of(p, i) + 1 == y->upper &&
	       rounded(p, i) <= rounded(p, j) &&
	       align_of(p, i) <= align_of(p, j);
}

/* True if @i has the place of @j, directly or through items between them. */
static bool took(const struct problem *p, size_t i, size_t j)
{
	while (i != j && may_take(p, i, p->item[i].over))
		i = p->item[i].over;
	return i == j;
}

static bool overlap(int64_t a, int64_t a_end, int64_t b, int64_t b_end)
{
	return a < b_end && b < a_end;
}

static bool share(const struct problem *p, const struct weir_placement *w,
		  size_t i, size_t j)
{
	uint64_t a = weir_placement_offset(w, i);
	uint64_t b = weir_placement_offset(w, j);

	if (p->item[i].memory != p->item[j].memory ||
	    !overlap(lower_of(p, i), upper_of(p, i), lower_of(p, j),
		     upper_of(p, j)) ||
	    !overlap((int64_t)a, (int64_t)(a + p->item[i].bytes), (int64_t)b,
		     (int64_t)(b + p->item[j].bytes)))
		return false;
	return a != b || (!took(p, i, j) && !took(p, j, i));
}

/* True if item @i is inside one member, and aligned there. */
static bool inside(const struct problem *p, const struct weir_placement *w,
		   size_t i)
{
	uint64_t at = weir_placement_offset(w, i), bytes;
	unsigned memory = p->item[i].memory;

	if (!p->item[i].bytes)
		return at == 0;
	for (unsigned k = 0; (bytes = weir_placement_member(w, memory, k)) != 0;
	     k++) {
		if (at < bytes)
			return at % align_of(p, i) == 0 &&
			       p->item[i].bytes <= bytes - at &&
			       (!p->memory[memory].max ||
				bytes <= p->memory[memory].max);
		at -= bytes;
	}
	return false;
}

/* The most bytes that live at one step, items at one place counted once. */
static uint64_t live_bytes(const struct problem *p,
			   const struct weir_placement *w, unsigned memory)
{
	uint64_t most = 0;

	for (int64_t t = p->begin; t < p->end; t++) {
		uint64_t live = 0;

		for (size_t i = 0; i < p->n; i++) {
			bool counts = p->item[i].memory == memory &&
				      lower_of(p, i) <= t && t < upper_of(p, i);

			for (size_t j = 0; j < p->n && counts; j++)
				if (j != i && lower_of(p, j) <= t &&
				    t < upper_of(p, j) && took(p, i, j) &&
				    weir_placement_offset(w, i) ==
					    weir_placement_offset(w, j))
					counts = false;
			live += counts ? rounded(p, i) : 0;
		}
		if (most < live)
			most = live;
	}
	return most;
}

static bool check_memory(const struct problem *p,
			 const struct weir_placement *w, unsigned memory)
{
	struct weir_placement_info info = { .size = sizeof(info) };
	uint64_t sum = 0, high = 0, live;

	if (weir_placement_info(w, memory, &info) < 0)
		return false;
	for (unsigned k = 0; k < info.members; k++)
		sum += weir_placement_member(w, memory, k);
	for (size_t i = 0; i < p->n; i++) {
		uint64_t end = weir_placement_offset(w, i) + rounded(p, i);

		if (p->item[i].memory == memory && p->item[i].bytes &&
		    high < end)
			high = end;
	}
	live = live_bytes(p, w, memory);
	if (info.bytes == sum && info.bytes == high &&
	    (info.bound == live || (p->opts.time_ns && info.bound > live)) &&
	    (info.members > 1 || info.bytes >= info.bound))
		return true;
	diag("memory %u: %llu bytes, members %llu, highest %llu; bound %llu, live %llu",
	     memory, (ull)info.bytes, (ull)sum, (ull)high, (ull)info.bound,
	     (ull)live);
	return false;
}

static bool check(struct problem *p, const struct weir_placement *w)
{
	bool good = true;

	for (size_t i = 0; i < p->n && good; i++) {
		good = inside(p, w, i);
		if (!good)
			diag("item %zu is at %llu", i,
			     (ull)weir_placement_offset(w, i));
		for (size_t j = 0; j < i && good; j++)
			if (share(p, w, i, j)) {
				diag("items %zu and %zu share bytes", i, j);
				good = false;
			}
	}
	/* These checks would take hours for many items. */
	for (unsigned m = 0; m < p->opts.n_memories && good && p->n < FEW; m++)
		good = check_memory(p, w, m);
	return good;
}

static bool round_passes(struct problem *p, bool dense)
{
	struct weir_placement *w;
	bool good;

	if (dense)
		dense_problem(p);
	else
		random_problem(p);
	p->begin = INT64_MAX;
	p->end = INT64_MIN;
	for (size_t i = 0; i < p->n; i++) {
		if (p->begin > p->item[i].lower)
			p->begin = p->item[i].lower;
		if (p->end < p->item[i].upper)
			p->end = p->item[i].upper;
	}
	if (weir_placement_new(p->item, p->n, &p->opts, &w) < 0)
		return false;
	good = check(p, w);
	weir_placement_free(w);
	return good;
}

int main(void)
{
	const char *seed = getenv("WEIR_T_SEED");
	static struct problem p;
	unsigned bad = 0, i;

	plan(1);
	if (seed)
		state += strtoull(seed, NULL, 0) * 2 + 1;
	for (i = 0; i < ROUNDS && !bad; i++)
		if (!round_passes(&p, i % DENSE == DENSE - 1))
			bad = i + 1;
	is_int(bad, 0,
	       "random items have places of their own while they live, aligned, in bounds, in place only where they may be");
	if (bad)
		diag("round %u: %zu items", bad - 1, p.n);
	return done_testing();
}
