/* SPDX-License-Identifier: MIT */
/*
 * Memory that heaps do not use: given back when another allocation of the root
 * fails, and by weir_trim(). WEIR_T_STEPS (400) of each thread.
 */
#include <errno.h>
#include <pthread.h>

#include "draws.h"
#include "streams.h"

#define MIB ((size_t)1 << 20)
#define BUDGET (64 * MIB)
#define THREADS 3

static struct weir *weir;
static struct weir_buft *buft;

static struct weir_heap *new_heap(uint64_t reserve, uint64_t grow)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.reserve = reserve;
	o.grow = grow;
	must(weir_heap_new(buft, &o, &heap));
	return heap;
}

static uint64_t reserved_by(struct weir_heap *heap)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	return s.reserved;
}

static struct weir_block alloc(struct weir_heap *heap, size_t size,
			       struct weir_stream *s)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, size, 0, s, &b));
	return b;
}

static unsigned char *at(const struct weir_block *b)
{
	return (unsigned char *)(uintptr_t)b->addr;
}

/* A heap that has @mib and uses none of it. */
static struct weir_heap *unused_heap(uint64_t reserve, size_t mib)
{
	struct weir_heap *heap = new_heap(reserve, reserve ? 1 : 2 * MIB);
	struct weir_block b[32];

	for (size_t i = 0; i < mib / 2; i++)
		b[i] = alloc(heap, 2 * MIB, NULL);
	for (size_t i = 0; i < mib / 2; i++)
		must(weir_heap_free(&b[i], NULL));
	return heap;
}

static bool takes_buffer(size_t size)
{
	struct weir_buf *buf;
	int r = weir_buf_alloc(buft, size, NULL, &buf);

	if (r < 0)
		return false;
	weir_buf_free(buf);
	return true;
}

static void test_buffer(uint64_t reserve, const char *what)
{
	struct weir_heap *heap = unused_heap(reserve, 48);
	struct weir_buf *buf;

	is_int(reserved_by(heap), 48 * MIB,
	       "%s: a heap keeps what was freed in it", what);
	is_int(weir_buf_alloc(buft, 20 * MIB, NULL, &buf), 0,
	       "%s: a buffer gets memory that it does not use", what);
	is_int(reserved_by(heap), 28 * MIB,
	       "%s: the heap gives back what the buffer needs", what);
	weir_buf_free(buf);
	is_int(weir_buf_alloc(buft, 60 * MIB, NULL, &buf), 0,
	       "%s: the next gets the rest", what);
	weir_buf_free(buf);
	must(weir_trim(weir, 0));
	weir_heap_destroy(heap);
}

static void test_used(void)
{
	struct weir_stream *s = new_stream(weir, "s");
	struct weir_heap *heap = new_heap(256 * MIB, 1);
	struct weir_block b[3];
	struct hold hold;

	for (unsigned i = 0; i < 3; i++)
		b[i] = alloc(heap, 16 * MIB, s);
	memset(at(&b[1]), 7, b[1].bytes);
	must(weir_heap_free(&b[0], NULL));
	hold_stream(s, &hold);
	must(weir_heap_free(&b[2], s));
	ok(takes_buffer(32 * MIB), "free memory is given back");
	ok(!takes_buffer(48 * MIB) && reserved_by(heap) == 32 * MIB,
	   "memory that queued work may use is not: %s", weir_error());
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	ok(takes_buffer(48 * MIB), "until the work has ended");
	ok(at(&b[1])[0] == 7 && at(&b[1])[b[1].bytes - 1] == 7,
	   "a used block keeps its bytes");
	weir_heap_destroy(heap);
	weir_stream_free(s);
}

static void test_heaps(void)
{
	struct weir_heap *idle = unused_heap(256 * MIB, 48), *heap;
	struct weir_block b, c;

	must(weir_trim(weir, 64 * MIB));
	heap = new_heap(0, 32 * MIB);
	b = alloc(heap, MIB, NULL);
	is_int(reserved_by(idle), 48 * MIB,
	       "a heap that can grow by less takes nothing from another");
	c = alloc(heap, 30 * MIB, NULL);
	ok(reserved_by(idle) < 48 * MIB && reserved_by(idle) >= 16 * MIB,
	   "one that cannot gets memory of the other");
	memset(at(&b), 1, b.bytes);
	memset(at(&c), 1, c.bytes);
	weir_heap_destroy(heap);
	must(weir_trim(weir, 0));
	is_int(reserved_by(idle), 0, "weir_trim() gives back the rest");
	weir_heap_destroy(idle);
}

/* The free memory of a heap is where its own next block does not fit. */
static void test_itself(void)
{
	struct weir_heap *heap = new_heap(256 * MIB, 1);
	struct weir_block b[4], c;

	for (unsigned i = 0; i < 4; i++)
		b[i] = alloc(heap, 14 * MIB, NULL);
	must(weir_heap_free(&b[0], NULL));
	must(weir_heap_free(&b[2], NULL));
	c = alloc(heap, 20 * MIB, NULL);
	memset(at(&c), 1, c.bytes);
	ok(reserved_by(heap) <= BUDGET,
	   "a heap gives back its own memory to have a larger block");
	weir_heap_destroy(heap);
}

static void test_trim(void)
{
	struct weir_heap *heap[3];
	struct weir_block b;

	for (unsigned i = 0; i < 3; i++)
		heap[i] = unused_heap(i % 2 ? 0 : 256 * MIB, 12);
	b = alloc(heap[2], 2 * MIB, NULL);
	must(weir_trim(weir, 8 * MIB));
	is_int(reserved_by(heap[0]) + reserved_by(heap[1]) +
		       reserved_by(heap[2]),
	       10 * MIB,
	       "weir_trim() keeps as much of all heaps as it is told");
	must(weir_heap_free(&b, NULL));
	must(weir_trim(weir, 0));
	for (unsigned i = 0; i < 3; i++)
		is_int(reserved_by(heap[i]), 0, "or nothing: heap %u", i);
	for (unsigned i = 0; i < 3; i++)
		weir_heap_destroy(heap[i]);
}

static _Atomic int failures;

/* Heaps come and go; their memory is more than there is. */
static void *thread_main(void *arg)
{
	unsigned steps = (unsigned)number_from("WEIR_T_STEPS", 400);
	unsigned id = (unsigned)(uintptr_t)arg;
	struct weir_heap *heap = NULL;

	for (unsigned i = 0; i < steps; i++) {
		struct weir_block b;

		if (!heap)
			heap = new_heap((i + id) % 2 ? 64 * MIB : 0, 4 * MIB);
		if (weir_heap_alloc(heap, (1 + i % 18) * MIB, 0, NULL, &b)) {
			failures++;
		} else {
			*at(&b) = (unsigned char)id;
			failures += *at(&b) != id;
			must(weir_heap_free(&b, NULL));
		}
		if (i % 32 == 31) {
			weir_heap_destroy(heap);
			heap = NULL;
		}
		if (i % 16 == id)
			must(weir_trim(weir, 0));
	}
	weir_heap_destroy(heap);
	return NULL;
}

static void test_threads(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, thread_main, (void *)i))
			bail("no thread");
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	is_int(failures, 0, "each allocation of several threads gets memory");
	must(weir_buft_info(buft, &info));
	is_int(info.used, 0, "and all of it is given back");
}

int main(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	plan(2 * 4 + 4 + 3 + 1 + 4 + 2);
	o.budget = BUDGET;
	must(weir_open(&o, &weir));
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_HUGE, &buft));
	test_buffer(256 * MIB, "reserved addresses");
	test_buffer(0, "buffers");
	test_used();
	test_heaps();
	test_itself();
	test_trim();
	test_threads();
	weir_close(weir);
	return done_testing();
}
