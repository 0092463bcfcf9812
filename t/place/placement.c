/* SPDX-License-Identifier: MIT */
/* Placements: which items share bytes, what is refused, what is equal. */
#include <errno.h>

#include <weir.h>

#include "placed.h"
#include "tap.h"

#define PLACEMENT(...)                                                 \
	placed((const struct weir_lifetime[]){ __VA_ARGS__ },          \
	       sizeof((const struct weir_lifetime[]){ __VA_ARGS__ }) / \
		       sizeof(struct weir_lifetime),                   \
	       NULL)

/* The bytes that the items need. Frees the placement. */
static uint64_t height(struct weir_placement *p)
{
	uint64_t bytes = placed_info(p).bytes;

	weir_placement_free(p);
	return bytes;
}

static void lifetimes(void)
{
	is_int(height(PLACEMENT({ 0, 2, 100, 0, 0, 0, 0, { 0 } },
				{ 2, 4, 100, 0, 0, 0, 0, { 0 } })),
	       100, "items that live one after the other share their bytes");
	is_int(height(PLACEMENT({ 0, 3, 100, 0, 0, 0, 0, { 0 } },
				{ 2, 4, 100, 0, 0, 0, 0, { 0 } })),
	       200, "items that live at the same step have bytes of their own");
	is_int(height(PLACEMENT(
		       { 4, 5, 100, 0, 0, 0, 0, { 0 } },
		       { 0, 1, 100, 0, 0, WEIR_PLACE_INPUT, 0, { 0 } })),
	       100, "an input gives its bytes back after its last step");
	is_int(height(PLACEMENT(
		       { 0, 1, 100, 0, 0, 0, 0, { 0 } },
		       { 4, 5, 100, 0, 0, WEIR_PLACE_INPUT, 0, { 0 } })),
	       200, "nothing has the bytes of an input before its first step");
	is_int(height(PLACEMENT(
		       { 0, 1, 100, 0, 0, WEIR_PLACE_OUTPUT, 0, { 0 } },
		       { 4, 5, 100, 0, 0, 0, 0, { 0 } })),
	       200, "nothing has the bytes of an output after its last step");
	is_int(height(PLACEMENT(
		       { 0, 1, 100, 0, 0, WEIR_PLACE_INPUT, 0, { 0 } },
		       { 0, 1, 100, 0, 0, WEIR_PLACE_INPUT, 0, { 0 } },
		       { 4, 5, 100, 0, 0, WEIR_PLACE_INPUT, 0, { 0 } })),
	       300, "inputs are apart from each other");
	is_int(height(PLACEMENT({ INT64_MIN, INT64_MAX, 7, 0, 0, 0, 0, { 0 } },
				{ INT64_MAX - 1,
				  INT64_MAX,
				  8,
				  0,
				  0,
				  WEIR_PLACE_OVER,
				  0,
				  { 0 } })),
	       15, "steps may be any numbers of 64 bits");
	is_int(height(placed(NULL, 0, NULL)), 0,
	       "a placement of no items needs no bytes");
}

/* True if item 1 takes the place of item 0. */
static bool taken(struct weir_lifetime a, struct weir_lifetime b)
{
	struct weir_lifetime items[] = { a, b };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_place_memory memory[2] = { { 0 }, { 0 } };
	struct weir_placement *p;
	bool took;

	o.memory = memory;
	o.n_memories = 2;
	if (weir_placement_new(items, 2, &o, &p) < 0)
		bail("%s", weir_error());
	took = placed_info(p).in_place == 1 &&
	       placed_info(p).bytes == a.bytes &&
	       weir_placement_offset(p, 1) == weir_placement_offset(p, 0);
	weir_placement_free(p);
	return took;
}

static void in_place(void)
{
	struct weir_lifetime a = { .upper = 3, .bytes = 96, .align = 32 };
	struct weir_lifetime b = { .lower = 2,
				   .upper = 5,
				   .bytes = 96,
				   .align = 32,
				   .flags = WEIR_PLACE_OVER };
	struct weir_lifetime c = b;

	ok(taken(a, b), "an item takes the place of one whose last use it is");
	c.flags = 0;
	ok(!taken(a, c), "an item that takes no place has one of its own");
	c = b;
	c.lower = 1;
	ok(!taken(a, c), "an item does not take a place that is used later");
	c = b;
	c.bytes = 64;
	ok(taken(a, c), "an item takes the place of a larger one");
	c.bytes = 97;
	ok(!taken(a, c), "an item does not take the place of a smaller one");
	c = b;
	c.align = 64;
	ok(!taken(a, c), "an item does not take a place that is not aligned");
	c = b;
	c.memory = 1;
	ok(!taken(a, c), "an item takes no place in another memory");
	c = a;
	c.flags = WEIR_PLACE_OUTPUT;
	ok(!taken(c, b), "no item takes the place of an output");
	c = b;
	c.flags |= WEIR_PLACE_OUTPUT;
	ok(taken(a, c), "an output may take the place of an item");
	a.upper = 1;
	c.lower = 0;
	c.flags |= WEIR_PLACE_INPUT | WEIR_PLACE_OUTPUT;
	ok(!taken(a, c), "an input takes no place: it has bytes of its own");
}

static void taken_once(void)
{
	struct weir_lifetime items[] = {
		{ 0, 3, 64, 0, 0, 0, 0, { 0 } },
		{ 2, 4, 64, 0, 0, WEIR_PLACE_OVER, 0, { 0 } },
		{ 2, 4, 64, 0, 0, WEIR_PLACE_OVER, 0, { 0 } },
		{ 3, 9, 32, 0, 0, WEIR_PLACE_OVER, 1, { 0 } },
		{ 5, 9, 32, 0, 0, 0, 0, { 0 } },
	};
	struct weir_placement *p = placed(items, 5, NULL);

	ok(weir_placement_offset(p, 1) == weir_placement_offset(p, 0) &&
		   weir_placement_offset(p, 2) != weir_placement_offset(p, 0),
	   "of two items that may take a place the first takes it");
	ok(weir_placement_offset(p, 3) == weir_placement_offset(p, 1),
	   "a place that was taken can be taken again");
	is_int(placed_info(p).bytes, 128,
	       "the rest of a place that a smaller item has taken is used");
	weir_placement_free(p);
}

static void memories(void)
{
	struct weir_lifetime items[] = {
		{ 0, 2, 100, 0, 0, 0, 0, { 0 } },
		{ 0, 2, 100, 0, 1, 0, 0, { 0 } },
		{ 1, 3, 100, 0, 1, 0, 0, { 0 } },
		{ 1, 3, 100, 512, 0, 0, 0, { 0 } },
		{ 1, 3, 0, 0, 1, 0, 0, { 0 } },
	};
	struct weir_place_memory memory[2] = { { .align = 1 },
					       { .align = 64 } };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_placement_info info[2] = { { .size = sizeof(info[0]) },
					       { .size = sizeof(info[0]) } };
	struct weir_placement *p;

	o.memory = memory;
	o.n_memories = 2;
	if (weir_placement_new(items, 5, &o, &p) < 0)
		bail("%s", weir_error());
	weir_placement_info(p, 0, &info[0]);
	weir_placement_info(p, 1, &info[1]);
	ok(info[0].bytes == 200 && info[1].bytes == 256,
	   "each memory has its own offsets, alignment and height");
	ok(info[0].items == 2 && info[1].items == 3,
	   "each memory counts its items");
	is_int(weir_placement_offset(p, 3) % 512, 0,
	       "an item may be aligned more than its memory");
	ok(info[0].align == 512 && info[1].align == 64,
	   "the greatest alignment of each memory is known");
	is_int(weir_placement_offset(p, 4), 0, "an item without bytes is at 0");
	ok(weir_placement_offset(p, 5) == UINT64_MAX,
	   "an item that does not exist has no offset");
	is_err(weir_placement_info(p, 2, &info[0]), -EINVAL, "memory 2 of 2",
	       "a memory that does not exist is refused");
	weir_placement_free(p);
}

static void several_buffers(void)
{
	struct weir_lifetime items[9];
	struct weir_place_memory memory = { .align = 64, .max = 4096 };
	struct weir_placement *p;
	uint64_t begin = 0, bytes;
	unsigned crossing = 0;

	for (int i = 0; i < 9; i++)
		items[i] =
			(struct weir_lifetime){ .upper = 1,
						.bytes = 1500 + (uint64_t)i };
	p = placed(items, 9, &memory);
	is_int(placed_info(p).members, 5,
	       "9 items of 1500 bytes need 5 buffers of 4096");
	is_int(placed_info(p).bytes, 9 * 1536,
	       "buffers are as large as their items need");
	for (unsigned m = 0; (bytes = weir_placement_member(p, 0, m)); m++) {
		for (size_t i = 0; i < 9; i++) {
			uint64_t at = weir_placement_offset(p, i);

			crossing += at < begin + bytes && at >= begin &&
				    at + items[i].bytes > begin + bytes;
		}
		begin += bytes;
	}
	is_int(crossing, 0, "no item crosses two buffers");
	weir_placement_free(p);
}

/* Check that the call fails with this sentence. */
static void refused(struct weir_lifetime item, int err, const char *part,
		    const char *title)
{
	struct weir_lifetime items[3] = {
		{ .upper = 1, .bytes = 10 },
		item,
		{ .upper = 1, .flags = WEIR_PLACE_OVER, .over = 1 }
	};
	struct weir_place_memory memory = { .capacity = 1000 };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_placement *p = NULL;

	o.memory = &memory;
	o.n_memories = 1;
	is_err(weir_placement_new(items, 3, &o, &p), err, part, "%s", title);
}

static void bad_items(void)
{
	struct weir_lifetime good = { .upper = 5, .bytes = 100 }, bad = good;

	bad.lower = 5;
	refused(bad, -EINVAL, "item 1: lower 5 is not below upper 5",
		"an empty lifetime is refused, with the item's index");
	bad = good;
	bad.align = 48;
	refused(bad, -EINVAL, "item 1: alignment 48",
		"an alignment that is no power of two is refused");
	bad.align = (uint64_t)1 << 63;
	refused(bad, -EOVERFLOW,
		"item 1: 100 bytes aligned to 9223372036854775808",
		"an alignment with which offsets would wrap is refused");
	bad = good;
	bad.bytes = UINT64_MAX;
	refused(bad, -EOVERFLOW, "item 1: 18446744073709551615 bytes",
		"sizes whose sum would wrap are refused");
	bad.bytes = 1001;
	refused(bad, -ENOSPC, "item 1: 1001 bytes, memory 0 has 1000",
		"an item larger than the capacity is refused");
	bad.bytes = 995;
	refused(bad, -ENOSPC,
		"the items need 1005 bytes, it has 1000; item 0 is highest; every placement needs at least 1005",
		"items that exceed the capacity are refused, with the highest and the bound");
	bad = good;
	bad.memory = 1;
	refused(bad, -EINVAL, "item 1: memory 1 of 1",
		"a memory that is not in the list is refused");
	bad = good;
	bad.flags = 8;
	refused(bad, -EINVAL, "item 1: unknown flags 0x8",
		"unknown flags are refused");
	bad = good;
	bad.flags = WEIR_PLACE_OVER;
	bad.over = 3;
	refused(bad, -EINVAL, "item 1: over is 3, of 3 items",
		"a place of no item cannot be taken");
	bad.over = 1;
	refused(bad, -EINVAL, "item 1: takes its own place",
		"an item cannot take its own place");
	bad.over = 2;
	refused(bad, -EINVAL, "item 1: takes its own place, through over 2",
		"items cannot take each other's places");
	bad.flags = 0;
	refused(bad, -EINVAL, "item 1: over is 2, without WEIR_PLACE_OVER",
		"an item to be taken without the flag is refused");
}

static void bad_options(void)
{
	struct weir_lifetime item = { .upper = 1, .bytes = 5000 };
	struct weir_place_memory memory = { .align = 3 };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_placement *p;

	o.memory = &memory;
	o.n_memories = 1;
	is_err(weir_placement_new(&item, 1, &o, &p), -EINVAL,
	       "memory 0: alignment 3",
	       "the alignment of a memory must be a power of two");
	memory = (struct weir_place_memory){ .max = 4999 };
	is_err(weir_placement_new(&item, 1, &o, &p), -ENOSPC,
	       "item 0: 5000 bytes, the largest buffer of memory 0 has 4999",
	       "an item larger than the largest buffer is refused");
	o.time_ns = -2;
	is_err(weir_placement_new(&item, 1, &o, &p), -EINVAL, "time_ns -2",
	       "a negative time other than -1 is refused");
	o.time_ns = 0;
	o.memory = NULL;
	is_err(weir_placement_new(&item, 1, &o, &p), -EINVAL, "no list",
	       "memories without a list are refused");
	is_err(weir_placement_new(NULL, 1, NULL, &p), -EINVAL, "no list",
	       "items without a list are refused");
}

/* True if a new placement has the same fingerprint as @p. */
static bool same(const struct weir_placement *p,
		 const struct weir_lifetime *items, size_t n,
		 const struct weir_placement_opts *o)
{
	struct weir_placement_info x = placed_info(p), y;
	struct weir_placement *q;

	if (weir_placement_new(items, n, o, &q) < 0)
		bail("%s", weir_error());
	y = placed_info(q);
	weir_placement_free(q);
	return !memcmp(x.fingerprint, y.fingerprint, sizeof(x.fingerprint));
}

static void comparing(void)
{
	struct weir_lifetime items[3];
	struct weir_place_memory memory = { .align = 1 };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_placement *p;

	for (int i = 0; i < 3; i++)
		items[i] = (struct weir_lifetime){
			.lower = i,
			.upper = i + 2,
			.bytes = 4,
			.flags = i ? WEIR_PLACE_OVER : 0,
			.over = i ? (uint64_t)i - 1 : 0
		};
	o.memory = &memory;
	o.n_memories = 1;
	p = placed(items, 3, &memory);
	ok(same(p, items, 3, &o),
	   "placements of the same items have the same fingerprint");
	o.time_ns = 1;
	o.threads = 4;
	ok(same(p, items, 3, &o),
	   "the fingerprint does not depend on the time of the search");
	ok(!same(p, items, 2, &o), "fewer items have another fingerprint");
	memory.align = 8;
	ok(!same(p, items, 3, &o),
	   "items in a memory of another alignment have another fingerprint");
	memory.align = 1;
	items[1].flags = 0;
	items[1].over = 0;
	ok(!same(p, items, 3, &o),
	   "items of which another is computed in place have another fingerprint");
	weir_placement_free(p);
	weir_placement_free(NULL);
}

/* Tight packings: the greedy planner does not reach the optimum of each. */
static void searching(void)
{
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	unsigned lower = 0, higher = 0, unproved = 0;
	struct weir_lifetime items[14] = { { 0 } };
	uint32_t seed = 1;

	o.threads = 2;
	for (int round = 0; round < 300; round++) {
		struct weir_placement *greedy, *exact;
		struct weir_placement_info info;

		for (int i = 0; i < 14; i++) {
			seed = seed * 1664525 + 1013904223;
			items[i].lower = (int64_t)(seed >> 24) % 12;
			items[i].upper =
				items[i].lower + 1 + (int64_t)(seed >> 16) % 6;
			items[i].bytes = 1 + (seed >> 9) % 9;
		}
		o.time_ns = -1;
		greedy = placed(items, 14, NULL);
		if (weir_placement_new(items, 14, &o, &exact) < 0)
			bail("%s", weir_error());
		info = placed_info(exact);
		lower += info.bytes < placed_info(greedy).bytes;
		higher += info.bytes > placed_info(greedy).bytes;
		unproved += !(info.flags & WEIR_PLACED_OPTIMAL) ||
			    info.bytes != info.bound;
		weir_placement_free(greedy);
		weir_placement_free(exact);
	}
	diag("%u of 300 are lower after the search", lower);
	ok(lower && !higher,
	   "the search finds lower places than the greedy planner, and no higher ones");
	is_int(unproved, 0,
	       "a search without a limit of time proves its results");
}

static void endless(void)
{
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_lifetime items[12] = { { 0 } };
	struct weir_placement *p;

	for (int i = 0; i < 12; i++) {
		items[i].lower = i % 5;
		items[i].upper = i % 5 + 2 + i % 3;
		items[i].bytes = 10 + 7 * (uint64_t)i;
	}
	o.time_ns = INT64_MAX;
	if (weir_placement_new(items, 12, &o, &p) < 0)
		bail("%s", weir_error());
	ok(placed_info(p).nodes && placed_info(p).flags & WEIR_PLACED_OPTIMAL,
	   "the longest time is no time that is over");
	weir_placement_free(p);
}

int main(void)
{
	plan(8 + 10 + 3 + 7 + 3 + 12 + 5 + 5 + 2 + 1);
	lifetimes();
	in_place();
	taken_once();
	memories();
	several_buffers();
	bad_items();
	bad_options();
	comparing();
	searching();
	endless();
	return done_testing();
}
