/* SPDX-License-Identifier: MIT */
/*
 * Heaps of many blocks. To fail with four times as many blocks takes about four
 * times as many steps, whatever streams they were freed in. WEIR_T_BLOCKS
 * blocks (20 000).
 */
#include <errno.h>
#include <sys/mman.h>

#include "draws.h"
#include "steps.h"
#include "streams.h"

#define UNIT ((size_t)64 << 10) /* too large for caches */
#define STREAMS 24u

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_stream *stream[STREAMS];
static struct hold hold[STREAMS];

static void unmap(void *arg)
{
	(void)arg;
}

/* A heap of @n units, of addresses without memory. */
static struct weir_heap *new_heap(void *at, size_t n)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	must(weir_buf_wrap(buft, at, n * UNIT, unmap, NULL, &o.buf));
	o.align = 4096;
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	return heap;
}

static void shut_all(void)
{
	for (unsigned i = 0; i < STREAMS; i++)
		hold_stream(stream[i], &hold[i]);
}

static void open_all(void)
{
	for (unsigned i = 0; i < STREAMS; i++)
		release_stream(&hold[i]);
	for (unsigned i = 0; i < STREAMS; i++)
		must(weir_stream_sync(stream[i], -1));
}

/* The stream in which block @i is freed; NULL: none. */
typedef struct weir_stream *choice_of_stream(size_t i);

static struct weir_stream *own_and_none(size_t i)
{
	return i % 2 ? stream[0] : NULL;
}

static struct weir_stream *two_others(size_t i)
{
	return stream[1 + i % 2];
}

static struct weir_stream *many(size_t i)
{
	return stream[i % STREAMS];
}

static struct weir_stream *own_and_one(size_t i)
{
	return stream[i % 2];
}

/* Steps of an allocation of more than there is, with @n blocks. */
static uint64_t steps_of(void *at, size_t n, choice_of_stream *choose)
{
	struct weir_heap *heap = new_heap(at, n);
	struct weir_block *b = calloc(n, sizeof(*b)), all;
	uint64_t taken;

	for (size_t i = 0; i < n; i++)
		must(weir_heap_alloc(heap, UNIT, 0, stream[0], &b[i]));
	for (size_t i = 0; i < n; i++)
		must(weir_heap_free(&b[i], choose(i)));
	taken = steps();
	if (weir_heap_alloc(heap, (n + 1) * UNIT, 0, stream[0], &all) !=
	    -ENOMEM)
		bail("more than there is was allocated");
	taken = steps() - taken;
	free(b);
	weir_heap_destroy(heap);
	return taken;
}

static void test_steps(void *at, size_t n, choice_of_stream *choose,
		       const char *what)
{
	uint64_t few, all;

	shut_all();
	few = steps_of(at, n / 4, choose);
	all = steps_of(at, n, choose);
	ok(few && all < 6 * few,
	   "a failure with four times as many blocks takes less than six times as many steps: %s",
	   what);
	diag("%zu blocks %llu steps, %zu blocks %llu steps", n / 4,
	     (unsigned long long)few, n, (unsigned long long)all);
	open_all();
	tap_renew();
}

/* A part of what is free was freed in few enough streams. */
static void test_part(void *at)
{
	struct weir_heap *heap = new_heap(at, STREAMS);
	struct weir_block b[STREAMS], two;
	struct weir_heap_stats s = { .size = sizeof(s) };

	shut_all();
	for (unsigned i = 0; i < STREAMS; i++)
		must(weir_heap_alloc(heap, UNIT, 0, stream[0], &b[i]));
	for (unsigned i = 0; i < STREAMS; i++)
		must(weir_heap_free(&b[i], stream[i]));
	is_int(weir_heap_alloc(heap, 4 * UNIT, 0, stream[9], &two), 0,
	       "a block needs waits for a part of the free memory only");
	must(weir_heap_stats(heap, &s));
	ok(s.waits <= 4, "it waits for no more streams than it needs: %d",
	   (int)s.waits);
	is_int(weir_heap_alloc(heap, 10 * UNIT, 0, stream[9], &two), -ENOMEM,
	       "memory of more than 8 other streams is not joined");
	open_all();
	weir_heap_destroy(heap);
}

int main(void)
{
	size_t n = number_from("WEIR_T_BLOCKS", 20000);
	void *at = mmap(NULL, n * UNIT, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	plan(7);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	for (unsigned i = 0; i < STREAMS; i++)
		stream[i] = new_stream(weir, "");
	test_part(at);
	test_steps(at, n, own_and_none, "of its stream and of none");
	test_steps(at, n, own_and_one, "of its stream and another");
	test_steps(at, n, two_others, "of two other streams");
	test_steps(at, n, many, "of 24 streams");
	for (unsigned i = 0; i < STREAMS; i++)
		weir_stream_free(stream[i]);
	weir_close(weir);
	return done_testing();
}
