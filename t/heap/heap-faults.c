/* SPDX-License-Identifier: MIT */
/*
 * Each allocation that a heap makes for its bookkeeping fails once. The call
 * fails with -ENOMEM, or succeeds without that memory; after a failure the heap
 * is as before, and the same call succeeds.
 */
#include <errno.h>
#include <fcntl.h>

#include "heap/heap.h"
#include "nomem.h"
#include "streams.h"

#define MANY 600u /* blocks: more than the first slab has records */

static struct weir_buft *buft;
static struct weir_stream *stream, *late;
static const char *wrong;

/* Make a call again that failed with -ENOMEM; the second time it succeeds. */
#define again(call)                                                          \
	do {                                                                 \
		int r = call;                                                \
                                                                             \
		if (r == -ENOMEM && !weir_error()[0])                        \
			wrong = "a failure has no sentence";                 \
		if (r == -ENOMEM)                                            \
			r = call;                                            \
		if (r < 0)                                                   \
			bail("%s:%d: %s", __FILE__, __LINE__, weir_error()); \
	} while (0)

/* True if an allocation failed. */
static bool run(unsigned n, int fd, uint64_t reserve)
{
	static struct weir_block b[MANY];
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_block found, large;
	struct weir_heap *heap;
	struct hold hold;
	bool failed;

	nomem_begin(n);
	o.grow = 1 << 20;
	o.limit = 4 << 20;
	o.reserve = reserve;
	again(weir_heap_new(buft, &o, &heap));
	for (unsigned i = 0; i < MANY; i++)
		again(weir_heap_alloc(heap, 3000, 4096, i & 1 ? stream : NULL,
				      &b[i]));
	again(weir_heap_find(heap, b[7].addr, &found));
	again(weir_heap_record(heap, fd));
	again(weir_heap_record(heap, -1));
	hold_stream(stream, &hold);
	for (unsigned i = 0; i < MANY; i++)
		again(weir_heap_free(&b[i], i & 2 ? stream : NULL));
	again(weir_heap_alloc(heap, 1 << 20, 0, late, &large));
	again(weir_heap_free(&large, late));
	release_stream(&hold);
	must(weir_stream_sync(stream, -1));
	must(weir_stream_sync(late, -1));
	failed = nomem_end();
	must(weir_heap_trim(heap, 0));
	must(weir_heap_stats(heap, &s));
	if (s.used || s.reserved)
		wrong = "memory is left at the end";
	weir_heap_destroy(heap);
	return failed;
}

/*
 * The same with a shard. Two streams use it, then a third; consolidations end
 * it, and it begins again.
 */
static bool run_shard(unsigned n)
{
	static struct weir_block b[MANY];
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;
	unsigned in_shard = 0;
	bool failed;

	nomem_begin(n);
	o.grow = o.limit = 8 << 20;
	again(weir_heap_new(buft, &o, &heap));
	again(weir_heap_alloc(heap, 1, 0, NULL, &b[0]));
	for (unsigned i = 1; i < MANY; i++) {
		if (i % 200 == 1)
			again(weir__shard_want(heap));
		again(weir_heap_alloc(heap, 3000, 4096, i & 1 ? stream : NULL,
				      &b[i]));
		in_shard += weir__block_shard(weir__heap_block(
				    heap, (uint32_t)b[i].id)) > 0;
		if (i % 200 == 150 && i < MANY / 2)
			again(weir_heap_stats(heap, &s));
	}
	for (unsigned i = 0; i < MANY; i++)
		again(weir_heap_free(&b[i], i & 2 ? stream : late));
	failed = nomem_end();
	must(weir_stream_sync(stream, -1));
	must(weir_stream_sync(late, -1));
	must(weir_heap_trim(heap, 0));
	must(weir_heap_stats(heap, &s));
	if (s.used || s.reserved)
		wrong = "memory is left at the end";
	if (in_shard < MANY / 3)
		wrong = "a failure ends more than its shard";
	weir_heap_destroy(heap);
	return failed;
}

int main(void)
{
	struct weir *weir;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	unsigned n = 0;

	plan(6);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	stream = new_stream(weir, "stream");
	late = new_stream(weir, "late");
	while (run(++n, fd, 0) && !wrong)
		;
	ok(!wrong, "a heap survives the failure of each of %u allocations: %s",
	   n - 1, wrong ? wrong : "all hold");
	ok(n > 15, "each allocation failed once");
	for (n = 1; run(n, fd, 8 << 20) && !wrong; n++)
		;
	ok(!wrong,
	   "a heap in reserved addresses survives the failure of each of %u allocations: %s",
	   n - 1, wrong ? wrong : "all hold");
	ok(n > 15, "each allocation failed once in reserved addresses");
	for (n = 1; run_shard(n) && !wrong; n++)
		;
	ok(!wrong, "a shard survives the failure of each of %u allocations: %s",
	   n - 1, wrong ? wrong : "all hold");
	ok(n > 15, "each allocation for a shard failed once");
	weir_stream_free(stream);
	weir_stream_free(late);
	close(fd);
	weir_close(weir);
	return done_testing();
}
