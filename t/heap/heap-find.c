/* SPDX-License-Identifier: MIT */
/*
 * weir_heap_find(): blocks of all threads are found by their addresses, and
 * threads that contend for the heap's lock still divide memory by themselves.
 */
#include <errno.h>
#include <pthread.h>

#include "heap/heap.h"
#include "streams.h"

#define MIB ((size_t)1 << 20)
/* A buffer, with spans of 1 MiB and blocks of 256 KiB. */
#define BYTES (64 * MIB)
#define LARGE ((size_t)100000) /* a block that no cache keeps, but a shard */
#define MANY 20000u

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_heap *heap;

static void heap_begin(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;

	must(weir_buf_alloc(buft, BYTES, NULL, &o.buf));
	must(weir_heap_new(buft, &o, &heap));
	weir_buf_free(o.buf);
}

static struct weir_block alloc(size_t n)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, n, 0, NULL, &b));
	return b;
}

static void free_block(struct weir_block b)
{
	must(weir_heap_free(&b, NULL));
}

/* The number of the shard that has the block. */
static unsigned shard_of(struct weir_block b)
{
	return weir__block_shard(weir__heap_block(heap, (uint32_t)b.id));
}

static bool finds(struct weir_block b)
{
	struct weir_block found;

	return weir_heap_find(heap, b.addr, &found) == 0 && found.id == b.id &&
	       found.heap == b.heap && found.buf == b.buf &&
	       found.offset == b.offset && found.addr == b.addr &&
	       found.bytes == b.bytes;
}

static bool finds_none(uint64_t addr)
{
	struct weir_block found;

	return weir_heap_find(heap, addr, &found) == -ENOENT;
}

/* From now on the heap has an index. */
static void find_something(void)
{
	struct weir_block b = alloc(LARGE);

	if (!finds(b))
		bail("the first block is not found");
	free_block(b);
}

static void heap_end(const char *what)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_trim(heap, 0));
	must(weir_heap_stats(heap, &s));
	ok(!s.used && s.largest == BYTES, "all memory is one free part %s",
	   what);
	weir_heap_destroy(heap);
}

static void run_thread(void *(*main)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, main, arg))
		bail("pthread_create");
	pthread_join(thread, NULL);
}

static bool found_there;

static void *find_main(void *arg)
{
	found_there = finds(*(struct weir_block *)arg);
	return NULL;
}

static void test_shards(void)
{
	struct weir_block large, small;

	heap_begin();
	find_something();
	must(weir__shard_want(heap));
	large = alloc(LARGE);
	small = alloc(1000);
	ok(shard_of(large) && shard_of(small),
	   "after weir_heap_find a thread that contends gets memory of a shard");
	run_thread(find_main, &large);
	ok(found_there, "another thread finds a block of a thread's shard");
	run_thread(find_main, &small);
	ok(found_there, "another thread finds a small block of that shard");
	ok(shard_of(large) && shard_of(small) && heap->n_open == 1,
	   "the threads that search leave the shard as it is");
	free_block(large);
	free_block(small);
	ok(finds_none(large.addr),
	   "a block that a shard has back is not found");
	ok(finds_none(small.addr), "a block that a cache keeps is not found");
	small = alloc(1000);
	ok(finds(small), "a block of a cache is found when it is used again");
	free_block(small);
	heap_end("after searches in a shard");
}

static void *free_main(void *arg)
{
	struct weir_block b, *at = arg;

	must(weir_heap_find(heap, at->addr, &b));
	free_block(b);
	return NULL;
}

/* As the hooks for PyTorch and RMM, which keep nothing but the address. */
static void test_freed_by_another(void)
{
	struct weir_block b, again;

	heap_begin();
	find_something();
	must(weir__shard_want(heap));
	b = alloc(LARGE);
	run_thread(free_main, &b);
	ok(finds_none(b.addr),
	   "a block that another thread found and freed is not found again");
	again = alloc(LARGE);
	ok(again.addr == b.addr && shard_of(again),
	   "its memory went back to the shard, which uses it again");
	ok(finds(again), "the new block at this address is found");
	free_block(again);
	heap_end("after another thread freed blocks");
}

/*
 * Blocks of the root shard, of a shard and of a cache are older than the index.
 */
static void test_earlier(void)
{
	struct weir_block root, shard, kept;

	heap_begin();
	root = alloc(LARGE);
	must(weir__shard_want(heap));
	shard = alloc(LARGE);
	kept = alloc(1000);
	free_block(kept);
	ok(shard_of(shard) && finds(root) && finds(shard),
	   "blocks are found that are older than the first search");
	ok(finds_none(kept.addr), "one that was freed before it is not found");
	kept = alloc(1000);
	ok(finds(kept), "it is found when it is used again");
	ok(finds_none(root.addr + 64), "no block begins inside of another");
	ok(finds_none(0) && finds_none(UINT64_MAX),
	   "no block begins outside of the buffers");
	free_block(kept);
	free_block(root);
	free_block(shard);
	heap_end("after blocks older than the first search");
}

/*
 * A consolidation takes the memory of shards back, and blocks stay where they
 * are.
 */
static void test_consolidation(void)
{
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_block a, b;

	heap_begin();
	find_something();
	must(weir__shard_want(heap));
	a = alloc(LARGE);
	b = alloc(LARGE);
	must(weir_heap_stats(heap, &s));
	ok(!shard_of(a) && finds(a) && finds(b),
	   "blocks of a shard are found after a consolidation");
	free_block(a);
	ok(finds_none(a.addr) && finds(b),
	   "a block of a shard that was freed after a consolidation is not found");
	free_block(b);
	heap_end("after a consolidation");
}

static int by_number(const void *a, const void *b)
{
	const struct weir_block *x = a, *y = b;

	return (x->id & 0xffff) < (y->id & 0xffff) ? -1 : 1;
}

static void test_many(void)
{
	struct weir_block *b = calloc(MANY, sizeof(*b));
	unsigned found = 0, gone = 0;

	heap_begin();
	find_something();
	for (unsigned i = 0; i < MANY; i++) {
		if (i == MANY / 2)
			must(weir__shard_want(heap));
		b[i] = alloc(64 + i % 7 * 256);
	}
	qsort(b, MANY, sizeof(*b), by_number);
	for (unsigned i = 0; i < MANY; i++)
		found += finds(b[i]);
	is_int(found, MANY, "each of many blocks is found");
	for (unsigned i = 0; i < MANY; i += 2)
		free_block(b[i]);
	for (unsigned i = 0; i < MANY; i++)
		gone += i % 2 ? finds(b[i]) : finds_none(b[i].addr);
	is_int(gone, MANY, "when half of them are freed, the others are found");
	for (unsigned i = 1; i < MANY; i += 2)
		free_block(b[i]);
	heap_end("after many blocks");
	free(b);
}

int main(void)
{
	plan(24);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	test_shards();
	test_freed_by_another();
	test_earlier();
	test_consolidation();
	test_many();
	weir_close(weir);
	return done_testing();
}
