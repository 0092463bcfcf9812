/* SPDX-License-Identifier: MIT */
/*
 * Shards of a heap: the memory that threads divide by themselves when they
 * contend for its lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "heap/heap.h"
#include "streams.h"

#define THREADS 4
#define MIB ((size_t)1 << 20)
/* A buffer, with spans of 1 MiB and blocks of 256 KiB. */
#define BYTES (64 * MIB)
#define LARGE ((size_t)100000) /* a block that no cache keeps, but a shard */

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_heap *heap;
static struct weir_stream *stream[2];

static void heap_begin(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;

	must(weir_buf_alloc(buft, BYTES, NULL, &o.buf));
	must(weir_heap_new(buft, &o, &heap));
	weir_buf_free(o.buf);
}

static struct weir_heap_stats stats(void)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	return s;
}

/* Like every call that needs all memory. */
static void consolidate(void)
{
	stats();
}

static struct weir_block alloc(size_t n, struct weir_stream *s)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, n, 0, s, &b));
	return b;
}

static void free_in(struct weir_block b, struct weir_stream *s)
{
	must(weir_heap_free(&b, s));
}

/* The number of the shard that has the block. */
static unsigned shard_of(struct weir_block b)
{
	return weir__block_shard(weir__heap_block(heap, (uint32_t)b.id));
}

static void run_thread(void *(*main)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, main, arg))
		bail("pthread_create");
	pthread_join(thread, NULL);
}

/* All is freed. */
static void heap_end(const char *what)
{
	must(weir_heap_trim(heap, 0));
	is_int(stats().used, 0, "nothing is used %s", what);
	is_int(stats().largest, BYTES, "all memory is one free part %s", what);
	weir_heap_destroy(heap);
}

static void test_use(void)
{
	struct weir_block a, b, c;

	heap_begin();
	a = alloc(LARGE, NULL);
	is_int(shard_of(a), 0, "a thread that does not contend has no shard");
	must(weir__shard_want(heap));
	b = alloc(LARGE, NULL);
	ok(shard_of(b) > 0, "a thread that contends gets memory of a shard");
	c = alloc(MIB / 2, NULL);
	is_int(shard_of(c), 0, "large blocks are of the root shard");
	free_in(b, NULL);
	is_int(alloc(LARGE, NULL).addr, b.addr,
	       "memory freed in a shard is used again");
	consolidate();
	is_int(shard_of(b), 0,
	       "weir_heap_stats consolidates the memory of shards");
	b = alloc(LARGE, NULL);
	is_int(shard_of(b), 0,
	       "after that a thread has no shard until it contends again");
	weir_heap_destroy(heap);
}

static sem_t locked;
static _Atomic bool done;

static void *contend_main(void *arg)
{
	unsigned *shard = arg;
	struct weir_block b;

	while (!(*shard) && !atomic_load(&done)) {
		sem_wait(&locked);
		b = alloc(LARGE, NULL);
		*shard = shard_of(b);
		free_in(b, NULL);
	}
	atomic_store(&done, true);
	return NULL;
}

/* The lock is held whenever the other thread needs it. */
static void test_contend(void)
{
	unsigned shard = 0, tries = 0;
	pthread_t thread;

	heap_begin();
	sem_init(&locked, 0, 0);
	atomic_store(&done, false);
	pthread_create(&thread, NULL, contend_main, &shard);
	for (; !atomic_load(&done) && tries < 5000; tries++) {
		weir__heap_lock(heap);
		sem_post(&locked);
		usleep(1000);
		weir__heap_unlock(heap);
		usleep(100);
	}
	atomic_store(&done, true);
	sem_post(&locked);
	pthread_join(thread, NULL);
	ok(shard > 0, "a thread that finds the lock taken gets a shard");
	ok(tries > 8,
	   "a thread gets no shard when it finds the lock taken once");
	heap_end("after a thread contended");
	sem_destroy(&locked);
}

static void *free_again_main(void *arg)
{
	is_err(weir_heap_free(arg, NULL), -EINVAL, "freed before",
	       "another thread cannot free a freed block of a shard");
	return NULL;
}

static void *free_main(void *arg)
{
	must(weir_heap_free(arg, NULL));
	return NULL;
}

static void test_stale(void)
{
	struct weir_block a, b, c, d, e;

	heap_begin();
	must(weir__shard_want(heap));
	a = alloc(LARGE, NULL);
	b = alloc(LARGE, NULL);
	c = alloc(1000, NULL);
	d = alloc(LARGE, NULL);
	e = alloc(LARGE, NULL);
	ok(shard_of(a) && shard_of(c), "small and large blocks are of a shard");
	free_in(a, NULL);
	free_in(c, NULL);
	is_err(weir_heap_free(&a, NULL), -EINVAL, "freed before",
	       "a freed block of a shard cannot be freed again");
	is_err(weir_heap_free(&c, NULL), -EINVAL, "freed before",
	       "a block of a shard that a cache keeps cannot be freed again");
	run_thread(free_again_main, &a);
	run_thread(free_main, &e);
	is_err(weir_heap_free(&e, NULL), -EINVAL, "freed before",
	       "a block of a shard that another thread has freed cannot be freed again");
	consolidate();
	is_err(weir_heap_free(&a, NULL), -EINVAL, "freed before",
	       "a freed block cannot be freed again after a consolidation");
	is_int(weir_heap_free(&b, NULL), 0,
	       "a live block of a shard can be freed after a consolidation");
	is_err(weir_heap_free(&b, NULL), -EINVAL, "freed before",
	       "a live block of a shard can be freed only once after a consolidation");
	run_thread(free_main, &d);
	heap_end("after stale blocks were refused");
}

static void *hold_main(void *arg)
{
	struct weir_block *b = arg;

	must(weir__shard_want(heap));
	*b = alloc(LARGE, NULL);
	/* It remains in a cache. */
	free_in(alloc(1000, NULL), NULL);
	return NULL;
}

/* Threads that live at the same time have places of their own. */
static void run_threads(void *(*main)(void *), struct weir_block *b)
{
	pthread_t thread[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, main, &b[i]))
			bail("pthread_create");
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void test_exhaustion(void)
{
	struct weir_block held[THREADS], most;
	size_t end = 0, size;

	heap_begin();
	run_threads(hold_main, held);
	for (unsigned i = 0; i < THREADS; i++)
		if (held[i].offset + held[i].bytes > end)
			end = held[i].offset + held[i].bytes;
	size = BYTES - end - 16384;
	is_int(weir_heap_alloc(heap, size, 0, NULL, &most), 0,
	       "memory that shards do not use is found by other threads");
	free_in(most, NULL);
	run_threads(free_main, held);
	is_int(weir_heap_alloc(heap, BYTES, 0, NULL, &most), 0,
	       "a block of the whole buffer gets the memory of all shards");
	free_in(most, NULL);
	heap_end("after the heap was exhausted");
}

static void test_large(void)
{
	struct weir_block b;

	heap_begin();
	must(weir__shard_want(heap));
	b = alloc(LARGE, NULL);
	ok(shard_of(b) && !b.offset, "a shard has the lowest memory");
	free_in(b, NULL);
	b = alloc(2 * MIB, NULL);
	is_int(b.offset, 0,
	       "memory of a shard is used for a large block before memory that was never used");
	free_in(b, NULL);
	heap_end("after a large block");
}

static void test_used_first(void)
{
	struct weir_block low, wall, b;

	heap_begin();
	low = alloc(600 << 10, NULL);
	wall = alloc(LARGE, NULL);
	free_in(low, NULL);
	must(weir__shard_want(heap));
	b = alloc(LARGE, NULL);
	ok(shard_of(b) && b.addr == low.addr,
	   "a shard takes less memory if that was used before");
	free_in(b, NULL);
	free_in(wall, NULL);
	heap_end("after a shard took less memory");
}

static void test_given_back(void)
{
	struct weir_block b[64];

	heap_begin();
	must(weir__shard_want(heap));
	for (unsigned i = 0; i < 64; i++)
		b[i] = alloc(LARGE, NULL);
	ok(heap->root.taken >= 6 * MIB, "a shard takes as much as it needs");
	for (unsigned i = 0; i < 64; i++)
		free_in(b[i], NULL);
	ok(heap->root.taken && heap->root.taken <= 2 * MIB,
	   "a shard gives memory back that it does not need");
	heap_end("after a shard gave memory back");
}

static void *place_main(void *arg)
{
	struct weir_block *b = arg;

	if (!b->heap) {
		must(weir__shard_want(heap));
	} else {
		/* With its first miss a thread gets a place. */
		free_in(alloc(LARGE, NULL), NULL);
		free_in(*b, NULL);
	}
	*b = alloc(LARGE, NULL);
	return NULL;
}

static void test_place(void)
{
	struct weir_block a = { 0 }, b;

	heap_begin();
	run_thread(place_main, &a);
	b = a;
	run_thread(place_main, &b);
	ok(shard_of(b) > 0 && b.addr == a.addr,
	   "a thread gets the place of one that has ended, with its shard");
	free_in(b, NULL);
	heap_end("after threads have ended");
}

static void test_order(void)
{
	struct weir_block a, b, c, d;
	struct hold hold;

	heap_begin();
	must(weir__shard_want(heap));
	a = alloc(LARGE, stream[0]);
	c = alloc(LARGE, stream[1]);
	d = alloc(LARGE, stream[0]);
	ok(shard_of(a) && shard_of(c), "blocks of streams are of a shard");
	hold_stream(stream[0], &hold);
	free_in(a, stream[0]);
	free_in(c, stream[1]);
	b = alloc(LARGE, stream[0]);
	is_int(b.addr, a.addr,
	       "a shard uses memory again at once in the same stream");
	free_in(b, stream[0]);
	b = alloc(LARGE, stream[1]);
	ok(shard_of(b) && b.addr != a.addr,
	   "a shard does not use memory in another stream too early");
	free_in(b, stream[1]);
	free_in(d, stream[0]);
	is_int(stats().pending, 2 * a.bytes,
	       "memory of a shard is pending after a consolidation as it was before");
	is_int(stats().waits, 0, "a shard queues no waits");
	is_int(weir_heap_alloc(heap, BYTES, 0, NULL, &b), -ENOMEM,
	       "without a stream, pending memory of a shard is not handed out");
	b = alloc(BYTES, stream[1]);
	is_int(stats().waits, 1,
	       "another stream waits for memory that a shard had");
	release_stream(&hold);
	free_in(b, stream[1]);
	must(weir_stream_sync(stream[0], -1));
	must(weir_stream_sync(stream[1], -1));
	heap_end("after streams waited");
}

/* Memory of a shard that nobody uses, and as much in another stream. */
static void test_before_waits(void)
{
	struct weir_block rest, big, b;
	struct hold hold;

	heap_begin();
	rest = alloc(BYTES - 5 * MIB, NULL);
	big = alloc(4 * MIB, stream[0]);
	must(weir__shard_want(heap));
	free_in(alloc(LARGE, NULL), NULL);
	hold_stream(stream[0], &hold);
	free_in(big, stream[0]);
	ok(heap->n_open, "a thread has a shard that it does not use");
	b = alloc(MIB, stream[1]);
	ok(b.offset == BYTES - MIB && !stats().waits,
	   "memory of a shard is used before memory that needs a wait");
	release_stream(&hold);
	free_in(b, stream[1]);
	free_in(rest, NULL);
	must(weir_stream_sync(stream[0], -1));
	heap_end("after memory of a shard was used");
}

/*
 * The stream bin is made to count as that of a native stream, which has no
 * numbers.
 */
static void test_native(void)
{
	struct weir_block a, b;

	heap_begin();
	a = alloc(LARGE, stream[0]);
	weir__stream_bin_find(&heap->root, stream[0])->native = true;
	must(weir__shard_want(heap));
	b = alloc(LARGE, stream[0]);
	free_in(b, stream[0]);
	is_int(alloc(LARGE, stream[0]).addr, b.addr,
	       "a shard uses memory again at once in the same native stream");
	free_in(b = alloc(LARGE, stream[0]), stream[0]);
	ok(alloc(LARGE, stream[1]).addr != b.addr,
	   "a shard does not guess how far a native stream is");
	is_int(stats().pending, b.bytes,
	       "memory freed in a native stream is pending after a consolidation");
	free_in(a, stream[0]);
	weir_heap_destroy(heap);
}

/* More streams than a thread has caches. */
static void test_caches(void)
{
	struct weir_stream *s[8];
	struct weir_block b;
	unsigned kept = 0;

	heap_begin();
	must(weir__shard_want(heap));
	for (unsigned i = 0; i < 8; i++) {
		s[i] = new_stream(weir, "one of many");
		for (unsigned j = 0; j < 40; j++)
			free_in(b = alloc(1000, s[i]), s[i]);
		kept += !weir__block_is_free(
			weir__heap_block(heap, (uint32_t)b.id));
	}
	is_int(kept, 8,
	       "caches of a thread with a shard follow the streams in use");
	for (unsigned i = 0; i < 8; i++)
		weir_stream_free(s[i]);
	heap_end("after a thread used many streams");
}

static void test_freed_stream(void)
{
	struct weir_block b;

	heap_begin();
	for (unsigned i = 0; i < 20; i++) {
		struct weir_stream *s = new_stream(weir, "short");

		must(weir__shard_want(heap));
		b = alloc(LARGE, s);
		free_in(alloc(1000, s), s);
		free_in(b, s);
		weir_stream_free(s);
		must(weir_heap_trim(heap, 0));
	}
	is_int(heap->root.n_bins, 2,
	       "trim releases freed streams that a shard has used");
	heap_end("after streams were freed");
}

static void test_record(void)
{
	char path[] = "/var/tmp/weir-heap-XXXXXX", text[1024];
	int fd = mkstemp(path);
	struct weir_block a, b, c;
	unsigned lines = 0;
	ssize_t n;

	unlink(path);
	heap_begin();
	must(weir__shard_want(heap));
	a = alloc(LARGE, NULL);
	must(weir_heap_record(heap, fd));
	must(weir__shard_want(heap));
	b = alloc(LARGE, NULL);
	free_in(b, NULL);
	free_in(a, NULL);
	must(weir_heap_record(heap, -1));
	n = pread(fd, text, sizeof(text), 0);
	for (ssize_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	is_int(lines, 5, "a record has the calls of threads with shards");
	a = alloc(LARGE, NULL);
	ok(shard_of(a) > 0, "shards are used again after a record");
	must(weir_heap_find(heap, a.addr, &b));
	is_int(b.id, a.id, "a block of a shard is found by its address");
	must(weir__shard_want(heap));
	b = alloc(LARGE, NULL);
	c = alloc(LARGE, NULL);
	is_int(weir_heap_find(heap, c.addr, &c), 0,
	       "a block of a thread that wants a shard is found by its address");
	free_in(a, NULL);
	free_in(b, NULL);
	free_in(c, NULL);
	heap_end("after a record");
	close(fd);
}

static _Atomic int released;

static void count_release(void *arg)
{
	(void)arg;
	atomic_fetch_add(&released, 1);
}

static void test_destroy(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	void *memory = malloc(BYTES);
	struct weir_block held[THREADS];

	must(weir_buf_wrap(buft, memory, BYTES, count_release, NULL, &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	run_threads(hold_main, held);
	weir_heap_destroy(heap);
	is_int(released, 1, "a heap with shards can be destroyed");
	free(memory);
}

int main(void)
{
	plan(67);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	for (unsigned i = 0; i < 2; i++)
		stream[i] = new_stream(weir, "stream");
	test_use();
	test_contend();
	test_stale();
	test_exhaustion();
	test_large();
	test_used_first();
	test_given_back();
	test_place();
	test_order();
	test_before_waits();
	test_native();
	test_caches();
	test_freed_stream();
	test_record();
	test_destroy();
	for (unsigned i = 0; i < 2; i++)
		weir_stream_free(stream[i]);
	weir_close(weir);
	return done_testing();
}
