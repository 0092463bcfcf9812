/* SPDX-License-Identifier: MIT */
/*
 * Heaps of many blocks. To fail with four times as many blocks takes about four
 * times as long, whatever streams they were freed in. WEIR_T_BLOCKS blocks (20
 * 000).
 */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "draws.h"
#include "streams.h"

#define UNIT ((size_t)64 << 10) /* too large for caches */
#define STREAMS 24u
#define ROUNDS 5u

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_stream *stream[STREAMS];
static struct gate gate[STREAMS];

static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

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
		shut(stream[i], &gate[i]);
}

static void open_all(void)
{
	for (unsigned i = 0; i < STREAMS; i++)
		open_gate(&gate[i]);
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

/* Nanoseconds of an allocation of more than there is, with @n blocks. */
static int64_t time_of(void *at, size_t n, choice_of_stream *choose)
{
	struct weir_heap *heap = new_heap(at, n);
	struct weir_block *b = calloc(n, sizeof(*b)), all;
	int64_t best = INT64_MAX, t;

	for (size_t i = 0; i < n; i++)
		must(weir_heap_alloc(heap, UNIT, 0, stream[0], &b[i]));
	for (size_t i = 0; i < n; i++)
		must(weir_heap_free(&b[i], choose(i)));
	for (unsigned i = 0; i < ROUNDS; i++) {
		t = cpu_ns();
		if (weir_heap_alloc(heap, (n + 1) * UNIT, 0, stream[0], &all) !=
		    -ENOMEM)
			bail("more than there is was allocated");
		t = cpu_ns() - t;
		if (t < best)
			best = t;
	}
	free(b);
	weir_heap_destroy(heap);
	return best;
}

static void test_time(void *at, size_t n, choice_of_stream *choose,
		      const char *what)
{
	int64_t few, all;

	shut_all();
	few = time_of(at, n / 4, choose);
	all = time_of(at, n, choose);
	ok(all < 10 * few + MS,
	   "a failure with four times as many blocks does not take 16 times as long: %s",
	   what);
	diag("%zu blocks %.3f ms, %zu blocks %.3f ms", n / 4, (double)few / 1e6,
	     n, (double)all / 1e6);
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
	test_time(at, n, own_and_none, "of its stream and of none");
	test_time(at, n, own_and_one, "of its stream and another");
	test_time(at, n, two_others, "of two other streams");
	test_time(at, n, many, "of 24 streams");
	for (unsigned i = 0; i < STREAMS; i++)
		weir_stream_free(stream[i]);
	weir_close(weir);
	return done_testing();
}
