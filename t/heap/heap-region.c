/* SPDX-License-Identifier: MIT */
/*
 * Heaps in reserved addresses: they grow in place and give free granules back,
 * wherever these are. Random calls against a reference: WEIR_T_STEPS (60 000),
 * from WEIR_T_SEED.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "draws.h"
#include "streams.h"

#define MIB ((size_t)1 << 20)
#define GRANULE (2 * MIB)

static struct weir *weir;
static struct weir_buft *buft;

static struct weir_heap *new_heap(uint64_t reserve, uint64_t grow,
				  uint64_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.reserve = reserve;
	o.grow = grow;
	o.limit = limit;
	must(weir_heap_new(buft, &o, &heap));
	return heap;
}

static struct weir_heap_stats stats_of(struct weir_heap *heap)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	return s;
}

static uint64_t kind_used(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	must(weir_buft_info(buft, &info));
	return info.used;
}

static struct weir_block alloc(struct weir_heap *heap, size_t size,
			       struct weir_stream *s)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, size, 0, s, &b));
	return b;
}

static void free_in(struct weir_block b, struct weir_stream *s)
{
	must(weir_heap_free(&b, s));
}

static unsigned char *at(const struct weir_block *b)
{
	return (unsigned char *)(uintptr_t)b->addr;
}

static void test_statistics(void)
{
	uint64_t before = kind_used();
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_heap_stats s = stats_of(heap);
	struct weir_block a, b;

	is_int(s.addresses, 64 * MIB, "a heap reserves addresses");
	is_int(s.reserved, 0, "they have no memory at first");
	is_int(kind_used(), before, "they do not count as used memory");
	a = alloc(heap, 3 * MIB, NULL);
	b = alloc(heap, 3 * MIB, NULL);
	memset(at(&a), 1, a.bytes);
	memset(at(&b), 2, b.bytes);
	is_int(b.addr - a.addr, 3 * MIB,
	       "the second block follows the first, in the same granule");
	is_int(stats_of(heap).reserved, 6 * MIB,
	       "the heap has as many granules as the blocks need");
	is_int(kind_used(), before + 6 * MIB, "these count as used memory");
	is_int(stats_of(heap).grown, 2, "the heap has grown twice");
	free_in(a, NULL);
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).reserved, 4 * MIB,
	       "trim keeps the granule that another block uses in part");
	ok(at(&b)[0] == 2 && at(&b)[b.bytes - 1] == 2,
	   "a used block keeps its bytes");
	free_in(b, NULL);
	must(weir_heap_trim(heap, 2 * MIB));
	is_int(stats_of(heap).reserved, 2 * MIB,
	       "trim keeps what it is told to");
	weir_heap_destroy(heap);
	is_int(kind_used(), before, "a destroyed heap gives all back");
}

/*
 * A cache that grows: each step copies it to a larger block and frees the old
 * one. Small blocks are allocated in between and stay for some steps.
 */
static uint64_t peak_of_growth(uint64_t reserve)
{
	struct weir_heap *heap = new_heap(reserve, reserve ? 0 : 4 * MIB, 0);
	struct weir_block large[4], small[40];
	struct weir_heap_stats s;

	for (unsigned i = 0; i < 4; i++)
		large[i] = alloc(heap, (8 + i) * MIB, NULL);
	for (unsigned i = 0; i < 40; i++) {
		struct weir_block *b = &large[i % 4], next;

		next = alloc(heap, b->bytes + 3 * MIB, NULL);
		free_in(*b, NULL);
		*b = next;
		small[i] = alloc(heap, 300000, NULL);
		if (i >= 16)
			free_in(small[i - 16], NULL);
	}
	s = stats_of(heap);
	weir_heap_destroy(heap);
	return s.reserved_peak;
}

static void test_growth(void)
{
	uint64_t buffers = peak_of_growth(0);
	uint64_t region = peak_of_growth(4096 * MIB);

	diag("peak: %llu MiB in buffers, %llu in reserved addresses",
	     (unsigned long long)(buffers / MIB),
	     (unsigned long long)(region / MIB));
	ok(region * 2 <= buffers,
	   "blocks that grow need at most half of the memory that buffers need");
}

static void test_middle(void)
{
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_block b[5], c;
	unsigned char page;

	for (unsigned i = 0; i < 5; i++) {
		b[i] = alloc(heap, 4 * MIB, NULL);
		memset(at(&b[i]), (int)i + 1, b[i].bytes);
	}
	free_in(b[1], NULL);
	free_in(b[3], NULL);
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).reserved, 12 * MIB,
	       "trim gives granules in the middle back");
	ok(mincore(at(&b[1]), 4096, &page) == 0 && !(page & 1),
	   "their pages are gone");
	ok(at(&b[2])[0] == 3 && at(&b[2])[4 * MIB - 1] == 3,
	   "the block between them keeps its bytes");
	c = alloc(heap, 4 * MIB, NULL);
	is_int(c.addr, b[1].addr, "a hole is used again, the lowest first");
	free_in(b[2], NULL);
	free_in(c, NULL);
	must(weir_heap_trim(heap, 8 * MIB));
	c = alloc(heap, 12 * MIB, NULL);
	is_int(c.addr, b[1].addr,
	       "two holes and a free block become one block");
	is_int(stats_of(heap).reserved, 20 * MIB,
	       "the heap has grown by the holes alone");
	memset(at(&c), 9, c.bytes);
	ok(at(&b[0])[4 * MIB - 1] == 1 && at(&b[4])[0] == 5,
	   "its neighbours keep their bytes");
	weir_heap_destroy(heap);
}

static void test_cheapest(void)
{
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_block b[4], c;

	b[0] = alloc(heap, 2 * MIB, NULL);
	b[1] = alloc(heap, 20 * MIB, NULL);
	b[2] = alloc(heap, 6 * MIB, NULL);
	b[3] = alloc(heap, 2 * MIB, NULL);
	free_in(b[1], NULL);
	must(weir_heap_trim(heap, 0));
	free_in(b[2], NULL);
	c = alloc(heap, 8 * MIB, NULL);
	is_int(c.addr + c.bytes, b[3].addr,
	       "a block is where it needs the least new memory");
	is_int(stats_of(heap).reserved, 12 * MIB, "that is one granule");
	weir_heap_destroy(heap);
}

static void test_limits(void)
{
	struct weir_heap *heap = new_heap(16 * MIB, 1, 10 * MIB);
	struct weir_block a, b, c;

	a = alloc(heap, 6 * MIB, NULL);
	ok(weir_heap_alloc(heap, 6 * MIB, 0, NULL, &b) == -ENOMEM &&
		   strstr(weir_error(), "limit"),
	   "the limit counts memory: %s", weir_error());
	b = alloc(heap, 4 * MIB, NULL);
	free_in(a, NULL);
	a = alloc(heap, 4 * MIB, NULL);
	free_in(b, NULL);
	c = alloc(heap, 6 * MIB, NULL);
	is_int(stats_of(heap).reserved, 10 * MIB,
	       "free granules are given back for memory elsewhere");
	free_in(c, NULL);
	free_in(a, NULL);
	weir_heap_destroy(heap);
	heap = new_heap(8 * MIB, 0, 0);
	a = alloc(heap, 4 * MIB, NULL);
	ok(weir_heap_alloc(heap, 5 * MIB, 0, NULL, &b) == -ENOMEM &&
		   strstr(weir_error(), "addresses"),
	   "a heap ends with its addresses: %s", weir_error());
	weir_heap_destroy(heap);
}

/* The budget has room for the first of two holes that a block needs. */
static void test_no_memory(void)
{
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_block b[4], c;
	uint64_t used;

	for (unsigned i = 0; i < 4; i++)
		b[i] = alloc(heap, 4 * MIB, NULL);
	free_in(b[0], NULL);
	free_in(b[2], NULL);
	must(weir_heap_trim(heap, 0));
	free_in(b[1], NULL);
	used = kind_used();
	must(weir_buft_set_budget(buft, used + 6 * MIB));
	ok(weir_heap_alloc(heap, 16 * MIB, 0, NULL, &c) == -ENOMEM,
	   "memory runs out in the middle of a commit: %s", weir_error());
	ok(stats_of(heap).reserved <= 8 * MIB && kind_used() <= used,
	   "the heap has no more memory than before");
	is_int(kind_used() - (used - 8 * MIB), stats_of(heap).reserved,
	       "and the budget agrees");
	c = alloc(heap, 10 * MIB, NULL);
	memset(at(&c), 1, c.bytes);
	is_int(c.addr, b[0].addr, "the heap goes on with what there is");
	must(weir_buft_set_budget(buft, 0));
	weir_heap_destroy(heap);
}

static void test_streams(void)
{
	struct weir_stream *s = new_stream(weir, "s");
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_block a, b;
	struct hold hold;

	a = alloc(heap, 8 * MIB, s);
	hold_stream(s, &hold);
	free_in(a, s);
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).reserved, 8 * MIB,
	       "memory that queued work may use is not given back");
	b = alloc(heap, 12 * MIB, s);
	is_int(b.addr, a.addr,
	       "a block of the same stream grows beyond its pending memory");
	is_int(stats_of(heap).reserved, 12 * MIB, "by the rest");
	free_in(b, s);
	b = alloc(heap, 16 * MIB, NULL);
	ok(b.addr != a.addr, "a block without a stream is elsewhere");
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).reserved, 16 * MIB,
	       "when the work has ended it is given back");
	weir_stream_free(s);
	weir_heap_destroy(heap);
}

static void test_bad_places(void)
{
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_block b = alloc(heap, 3 * MIB, NULL);
	struct weir_tensor t = bytes(weir, 1 * MIB);

	weir_buf_free(t.buf);
	ok(weir_buf_clear(b.buf, 0) == -EINVAL,
	   "the whole region cannot be cleared: %s", weir_error());
	t.buf = b.buf;
	t.offset = b.offset;
	is_int(weir_tensor_fill(&t, 0, MIB, 7), 0, "a block can be filled");
	ok(weir_tensor_data(&t) == (void *)at(&b), "it has an address");
	t.offset = 32 * MIB;
	ok(weir_tensor_fill(&t, 0, MIB, 7) == -EINVAL,
	   "addresses without memory cannot: %s", weir_error());
	ok(!weir_tensor_data(&t), "they are not given to the program");
	weir_heap_destroy(heap);
}

static void test_kinds(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_buft *locked, *huge;
	struct weir_heap *heap;
	struct weir_block b;

	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_LOCKED, &locked));
	o.reserve = 64 * MIB;
	must(weir_heap_new(locked, &o, &heap));
	is_int(stats_of(heap).addresses, 0,
	       "a heap of locked memory has buffers instead");
	must(weir_heap_alloc(heap, 100, 0, NULL, &b));
	is_int(stats_of(heap).reserved, 64 * MIB, "they are of the usual size");
	weir_heap_destroy(heap);
	o.flags = WEIR_BUF_STRICT;
	ok(weir_heap_new(locked, &o, &heap) == -EOPNOTSUPP,
	   "or it is refused if that is asked for: %s", weir_error());
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_HUGE, &huge));
	o.flags = WEIR_BUF_PREFAULT;
	o.reserve = WEIR_HEAP_RESERVE_ALL;
	must(weir_heap_new(huge, &o, &heap));
	ok(stats_of(heap).addresses >= 64 * MIB && stats_of(heap).reserved == 0,
	   "a heap can reserve as many addresses as there is memory");
	must(weir_heap_alloc(heap, 33 * MIB, 0, NULL, &b));
	{
		unsigned char page = 0;

		ok(mincore(at(&b) + 32 * MIB, 4096, &page) == 0 && page & 1,
		   "memory is prefaulted when it is committed");
	}
	weir_heap_destroy(heap);
}

static void test_fork(void)
{
	struct weir_heap *heap = new_heap(64 * MIB, 1, 0);
	struct weir_block b = alloc(heap, 5 * MIB, NULL), c;
	int status = 0;
	pid_t pid;

	memset(at(&b), 5, b.bytes);
	pid = fork();
	if (!pid)
		_exit(at(&b)[0] == 5 && at(&b)[b.bytes - 1] == 5 &&
				      weir_heap_alloc(heap, MIB, 0, NULL, &c) ==
					      -EPERM &&
				      weir_heap_trim(heap, 0) == -EPERM
			      ? 0
			      : 1);
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	   "a child of fork can read blocks, and not change the heap");
	weir_heap_destroy(heap);
}

/* Random calls. A block has its number in its first and its last byte. */

#define UNIT 4096u
#define UNITS 8192u /* 32 MiB */
#define PER_GRANULE (GRANULE / UNIT)
#define BLOCKS 64u

static struct weir_heap *heap;
static uint32_t owner[UNITS];
static struct weir_block blocks[BLOCKS];
static const char *wrong;

static void expect(bool held, const char *what)
{
	if (!held && !wrong)
		wrong = what;
}

static bool has_room(size_t units)
{
	size_t run = 0;

	for (size_t i = 0; i < UNITS; i++) {
		run = owner[i] ? 0 : run + 1;
		if (run >= units)
			return true;
	}
	return false;
}

static void note(uint32_t i, uint32_t from, uint32_t to)
{
	size_t first = blocks[i].offset / UNIT, n = blocks[i].bytes / UNIT;

	expect(first + n <= UNITS, "a block is inside of the addresses");
	for (size_t j = first; j < first + n && j < UNITS; j++) {
		expect(owner[j] == from, "a block overlaps no other");
		owner[j] = to;
	}
}

static void try_alloc(uint32_t i)
{
	size_t size = (1 + draw(draw(4) ? 128 : UNITS / 3)) * (size_t)UNIT;
	int r = weir_heap_alloc(heap, size, 0, NULL, &blocks[i]);

	if (r < 0) {
		expect(r == -ENOMEM, "only memory runs out");
		expect(!has_room(size / UNIT + size / UNIT / 64 + 1),
		       "no allocation fails while there is room");
		blocks[i].heap = NULL;
		return;
	}
	note(i, 0, i + 1);
	at(&blocks[i])[0] = (unsigned char)i;
	at(&blocks[i])[blocks[i].bytes - 1] = (unsigned char)i;
}

static void do_free(uint32_t i)
{
	expect(at(&blocks[i])[0] == i &&
		       at(&blocks[i])[blocks[i].bytes - 1] == i,
	       "a block keeps its bytes");
	note(i, i + 1, 0);
	must(weir_heap_free(&blocks[i], NULL));
	blocks[i].heap = NULL;
}

/* The bytes of granules of which a block uses a part. */
static uint64_t bytes_needed(void)
{
	uint64_t bytes = 0;

	for (size_t g = 0; g < UNITS / PER_GRANULE; g++)
		for (size_t i = 0; i < PER_GRANULE; i++)
			if (owner[g * PER_GRANULE + i]) {
				bytes += GRANULE;
				break;
			}
	return bytes;
}

static void trim(void)
{
	uint64_t keep = draw(3) ? 0 : draw(UNITS) * (uint64_t)UNIT, needed;
	struct weir_heap_stats s;

	must(weir_heap_trim(heap, keep));
	s = stats_of(heap);
	needed = bytes_needed();
	expect(s.reserved >= needed, "used blocks have memory");
	expect(keep || s.reserved == needed,
	       "trim gives all free granules back");
	expect(s.reserved <= needed || s.reserved < keep + GRANULE,
	       "trim gives back as much as it is told to");
}

static void test_random(bool find)
{
	uint64_t steps = number_from("WEIR_T_STEPS", 60000) / 2, before;
	struct weir_block found;

	before = kind_used();
	wrong = NULL;
	heap = new_heap(UNITS * UNIT, 3 * MIB, 0);
	if (find)
		weir_heap_find(heap, 1, &found);
	for (uint64_t n = 0; n < steps && !wrong; n++) {
		uint32_t i = draw(BLOCKS);

		if (!draw(64))
			trim();
		else if (blocks[i].heap)
			do_free(i);
		else
			try_alloc(i);
		if (n % 4096 == 0)
			tap_renew();
		if (find && blocks[i].heap)
			expect(weir_heap_find(heap, blocks[i].addr, &found) ==
					       0 &&
				       found.id == blocks[i].id,
			       "a block is found by its address");
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (blocks[i].heap)
			do_free(i);
	must(weir_heap_trim(heap, 0));
	expect(stats_of(heap).reserved == 0 && kind_used() == before,
	       "nothing is left at the end");
	ok(!wrong, "%llu random calls agree with the reference%s: %s",
	   (unsigned long long)steps, find ? ", with an index" : "",
	   wrong ? wrong : "all of them");
	weir_heap_destroy(heap);
}

int main(void)
{
	plan(46);
	draws_begin();
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	test_statistics();
	test_growth();
	test_middle();
	test_cheapest();
	test_limits();
	test_no_memory();
	test_streams();
	test_bad_places();
	test_kinds();
	test_fork();
	test_random(false);
	test_random(true);
	weir_close(weir);
	return done_testing();
}
