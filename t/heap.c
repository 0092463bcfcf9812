/* SPDX-License-Identifier: MIT */
/* Heaps without streams: blocks, sizes, growth, statistics, errors. */
#include <errno.h>

#include "streams.h"

static struct weir *weir;
static struct weir_buft *buft;

static struct weir_heap *new_heap(size_t grow, size_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

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

static void test_blocks(void)
{
	struct weir_heap *heap = new_heap(1 << 20, 0);
	struct weir_block a, b, c;

	must(weir_heap_alloc(heap, 1000, 0, NULL, &a));
	must(weir_heap_alloc(heap, 100000, 4096, NULL, &b));
	ok(b.addr % 4096 == 0, "a block has the alignment that was asked for");
	ok(a.addr + a.bytes <= b.addr || b.addr + b.bytes <= a.addr,
	   "two blocks do not overlap");
	is_int(stats_of(heap).live, a.bytes + b.bytes,
	       "the statistics count the bytes of live blocks");
	must(weir_heap_free(&a, NULL));
	is_err(weir_heap_free(&a, NULL), -EINVAL, "freed before",
	       "a block that was freed cannot be freed again");
	must(weir_heap_find(heap, b.addr, &c));
	is_int(c.id, b.id, "a block is found by its address");
	must(weir_heap_free(&b, NULL));
	is_int(weir_heap_find(heap, b.addr, &c), -ENOENT,
	       "a block that was freed is not found");
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).reserved, 0, "trim gives empty buffers back");
	weir_heap_destroy(heap);
}

int main(void)
{
	plan(7);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	test_blocks();
	weir_close(weir);
	return done_testing();
}
