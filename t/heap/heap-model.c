/* SPDX-License-Identifier: MIT */
/*
 * Random calls against a simple reference: which block owns each unit of the
 * heap. WEIR_T_STEPS calls (300 000), from WEIR_T_SEED.
 */
#include <errno.h>

#include "draws.h"
#include "streams.h"

#define UNIT 64u
#define UNITS 4096u
#define BLOCKS 512u

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_heap *heap;
static struct weir_buf *buf;

static uint32_t owner[UNITS]; /* 1 + number of the block; 0: free */
static struct weir_block blocks[BLOCKS];
static uint64_t live;
static const char *wrong; /* the first thing that does not hold */

static void expect(bool held, const char *what)
{
	if (!held && !wrong)
		wrong = what;
}

/* True if neighbouring free units have room for the block. */
static bool has_room(size_t units, size_t align)
{
	size_t at = 0, run = 0;

	for (size_t i = 0; i < UNITS; i++) {
		if (owner[i]) {
			run = 0;
			continue;
		}
		if (!run++)
			at = i;
		for (; run && at % align; at++)
			run--;
		if (run >= units)
			return true;
	}
	return false;
}

static void note(uint32_t i, uint32_t from, uint32_t to)
{
	size_t at = blocks[i].offset / UNIT, n = blocks[i].bytes / UNIT;

	expect(at + n <= UNITS, "a block is inside of its buffer");
	for (size_t j = at; j < at + n && j < UNITS; j++) {
		expect(owner[j] == from, "a block overlaps no other");
		owner[j] = to;
	}
}

static size_t draw_size(void)
{
	uint32_t kind = draw(16);

	if (kind == 0)
		return 1 + draw(UNITS * UNIT / 2);
	return 1 + draw(kind < 4 ? 300 * UNIT : 12 * UNIT);
}

static void try_alloc(uint32_t i)
{
	size_t size = draw_size(), align = draw(4) ? 1 : 1u << draw(5);
	int r = weir_heap_alloc(heap, size, align * UNIT, NULL, &blocks[i]);

	if (r < 0) {
		expect(r == -ENOMEM, "only memory runs out");
		/* Sizes from 128 units on are rounded up by at most 1/64. */
		expect(!has_room((size + size / 64) / UNIT + 1, align),
		       "no allocation fails while there is room");
		blocks[i].heap = NULL;
		return;
	}
	expect(blocks[i].bytes >= size, "a block is as large as asked for");
	expect(blocks[i].addr % (align * UNIT) == 0, "a block is aligned");
	note(i, 0, i + 1);
	live += blocks[i].bytes;
}

static void do_free(uint32_t i)
{
	struct weir_block stale = blocks[i];

	note(i, i + 1, 0);
	live -= stale.bytes;
	expect(weir_heap_free(&stale, NULL) == 0, "a block can be freed");
	if (draw(8) == 0)
		expect(weir_heap_free(&stale, NULL) == -EINVAL,
		       "a block cannot be freed twice");
	blocks[i].heap = NULL;
}

static void check_find(uint32_t i)
{
	struct weir_block found = { 0 };

	expect(weir_heap_find(heap, blocks[i].addr, &found) == 0 &&
		       found.id == blocks[i].id,
	       "a live block is found by its address");
	expect(weir_heap_find(heap, blocks[i].addr + 1, &found) == -ENOENT,
	       "nothing is found inside of a block");
}

static void check_stats(void)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	expect(s.used == live, "the statistics have the bytes of used blocks");
}

static void step(bool find)
{
	uint32_t i = draw(BLOCKS);

	if (!blocks[i].heap)
		try_alloc(i);
	else if (find && draw(4) == 0)
		check_find(i);
	else
		do_free(i);
	if (draw(256) == 0)
		check_stats();
}

static void test_steps(uint64_t steps, bool find)
{
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;

	wrong = NULL;
	o.buf = buf;
	o.align = UNIT;
	must(weir_heap_new(buft, &o, &heap));
	for (uint64_t i = 0; i < steps && !wrong; i++) {
		step(find);
		if (i % 65536 == 0)
			tap_renew();
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (blocks[i].heap)
			do_free(i);
	ok(!wrong, "%llu random calls agree with the reference%s: %s",
	   (unsigned long long)steps, find ? ", with an index" : "",
	   wrong ? wrong : "all of them");
	must(weir_heap_trim(heap, 0));
	must(weir_heap_stats(heap, &s));
	is_int(s.largest, UNITS * UNIT,
	       "all free memory is merged at the end%s",
	       find ? ", with an index" : "");
	weir_heap_destroy(heap);
}

int main(void)
{
	uint64_t steps = number_from("WEIR_T_STEPS", 300000);

	plan(4);
	draws_begin();
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	must(weir_buf_alloc(buft, (size_t)UNITS * UNIT, NULL, &buf));
	test_steps(steps - steps / 3, false);
	test_steps(steps / 3, true);
	weir_buf_free(buf);
	weir_close(weir);
	return done_testing();
}
