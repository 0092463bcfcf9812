/* SPDX-License-Identifier: MIT */
/* Heaps without memory for a block: what they try, and what they say. */
#include <errno.h>

#include "streams.h"

#define MIB ((size_t)1 << 20)

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_stream *s1, *s2;
static struct hold hold;

static struct weir_heap *new_heap(uint64_t grow, uint64_t limit, uint32_t reuse)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.grow = grow;
	o.limit = limit;
	o.reuse = reuse;
	must(weir_heap_new(buft, &o, &heap));
	return heap;
}

static struct weir_heap_stats stats_of(struct weir_heap *heap)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	return s;
}

static struct weir_block alloc(struct weir_heap *heap, size_t n,
			       struct weir_stream *s)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, n, 0, s, &b));
	return b;
}

static void free_in(struct weir_block b, struct weir_stream *s)
{
	must(weir_heap_free(&b, s));
}

/* Each block is a little larger than the buffer of the last one. */
static void test_growing_sizes(struct weir_stream *s)
{
	struct weir_heap *heap = new_heap(MIB, 256 * MIB, 0);
	struct weir_block b;
	size_t n = 32 * MIB;

	while (n < 256 * MIB) {
		if (weir_heap_alloc(heap, n, 0, s, &b) < 0)
			break;
		free_in(b, s);
		n += 9 * MIB;
	}
	is_int(n, (32 + 25 * 9) * MIB,
	       "%s: a heap with empty buffers gives them back before it fails",
	       s ? "in a stream" : "without a stream");
	weir_heap_destroy(heap);
}

/* Buffers of 4 MiB, @n of them, which are empty afterwards. */
static void fill_and_empty(struct weir_heap *heap, unsigned n)
{
	struct weir_block b[8];

	for (unsigned i = 0; i < n; i++)
		b[i] = alloc(heap, 4 * MIB, NULL);
	for (unsigned i = 0; i < n; i++)
		free_in(b[i], NULL);
}

static void test_no_more_than_needed(void)
{
	struct weir_heap *heap = new_heap(4 * MIB, 12 * MIB, 0);

	fill_and_empty(heap, 3);
	free_in(alloc(heap, 6 * MIB, NULL), NULL);
	is_int(stats_of(heap).buffers, 2,
	       "a heap gives back no more empty buffers than its limit needs");
	weir_heap_destroy(heap);
}

static void test_hopeless(void)
{
	struct weir_heap *heap = new_heap(4 * MIB, 12 * MIB, 0);
	struct weir_block a, b;

	fill_and_empty(heap, 3);
	a = alloc(heap, 4 * MIB, NULL);
	is_err(weir_heap_alloc(heap, 9 * MIB, 0, NULL, &b), -ENOMEM,
	       "9437184 bytes; 8388608 of 12582912 are free, at most 4194304 in one piece; its limit is 12582912 bytes",
	       "a failure says how much is free, in one piece, and the limit");
	is_int(stats_of(heap).buffers, 3,
	       "empty buffers stay if giving them back cannot help");
	free_in(a, NULL);
	weir_heap_destroy(heap);
}

static void test_no_limit(void)
{
	struct weir_heap *heap = new_heap(0, 0, 0);
	struct weir_block b;

	is_int(weir_heap_alloc(heap, (size_t)1 << 47, 0, NULL, &b), -ENOMEM,
	       "more than the address space cannot be had");
	ok(!strstr(weir_error(), "18446744073709551615"),
	   "a failure without a limit speaks of none: %s", weir_error());
	weir_heap_destroy(heap);
}

static void test_waiting(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;
	struct weir_block a, b, c;

	must(weir_buf_alloc(buft, 4 * MIB, NULL, &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	a = alloc(heap, 2 * MIB, s1);
	b = alloc(heap, MIB, s2);
	hold_stream(s1, &hold);
	free_in(a, s1);
	is_err(weir_heap_alloc(heap, 2 * MIB, 0, NULL, &c), -ENOMEM,
	       "3145728 of 4194304 are free, at most 2097152 in one piece, 2097152 wait for stream 'one'; it does not grow",
	       "a failure names the stream for which memory waits");
	free_in(b, s1);
	release_stream(&hold);
	must(weir_stream_sync(s1, -1));
	weir_heap_destroy(heap);
}

static void test_no_waits(void)
{
	struct weir_heap *heap = new_heap(MIB, 3 * MIB, WEIR_HEAP_NO_WAITS);
	struct weir_block a = alloc(heap, MIB, s1), b = alloc(heap, MIB, s1), c;

	hold_stream(s1, &hold);
	free_in(a, s1);
	free_in(b, s1);
	c = alloc(heap, MIB, s2);
	is_int(stats_of(heap).buffers, 3,
	       "a heap that queues no waits grows instead");
	is_err(weir_heap_alloc(heap, MIB, 0, s2, &a), -ENOMEM,
	       "2097152 wait for stream 'one'",
	       "at its limit it fails, rather than wait for another stream");
	is_int(stats_of(heap).waits, 0, "no stream waits for another");
	free_in(alloc(heap, MIB, s1), s1);
	release_stream(&hold);
	must(weir_stream_sync(s1, -1));
	is_int(weir_heap_alloc(heap, MIB, 0, s2, &a), 0,
	       "when the work is done, another stream uses the memory");
	free_in(a, s2);
	free_in(c, s2);
	weir_heap_destroy(heap);
}

/* What the program's function does, and has seen. */
struct full {
	struct weir_heap *heap;
	struct weir_block held[3];
	unsigned n, calls;
	uint64_t bytes;
};

static int give_one(void *arg, uint64_t n)
{
	struct full *f = arg;

	f->calls++;
	f->bytes = n;
	if (!f->n)
		return 0;
	free_in(f->held[--f->n], NULL);
	must(weir_heap_trim(f->heap, UINT64_MAX));
	return 1;
}

static void test_callback(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct full f = { .n = 3 };
	struct weir_block b;

	o.grow = o.limit = 3 * MIB;
	o.on_full = give_one;
	o.on_full_arg = &f;
	must(weir_heap_new(buft, &o, &f.heap));
	for (unsigned i = 0; i < 3; i++)
		f.held[i] = alloc(f.heap, MIB, NULL);
	is_int(f.calls, 0, "while there is memory the function is not called");
	b = alloc(f.heap, 2 * MIB, NULL);
	is_int(f.calls, 2, "the function is called until it has freed enough");
	is_int(f.bytes, 2 * MIB, "it gets the number of bytes");
	is_int(stats_of(f.heap).failures, 0, "the allocation has not failed");
	is_int(weir_heap_alloc(f.heap, 4 * MIB, 0, NULL, &f.held[2]), -ENOMEM,
	       "if it frees nothing the allocation fails");
	is_int(f.calls, 4, "it is not called again then");
	free_in(b, NULL);
	weir_heap_destroy(f.heap);
}

static void test_options(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.reuse = 2;
	is_err(weir_heap_new(buft, &o, &heap), -EINVAL, "0x2",
	       "an unknown way of reuse is refused");
}

int main(void)
{
	plan(19);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	s1 = new_stream(weir, "one");
	s2 = new_stream(weir, "two");
	test_growing_sizes(NULL);
	test_growing_sizes(s1);
	test_no_more_than_needed();
	test_hopeless();
	test_no_limit();
	test_waiting();
	test_no_waits();
	test_callback();
	test_options();
	weir_stream_free(s1);
	weir_stream_free(s2);
	weir_close(weir);
	return done_testing();
}
