/* SPDX-License-Identifier: MIT */
/*
 * Threads with shards of a heap, with blocks that go from thread to thread, and
 * with work in streams. WEIR_T_STEPS calls of each thread (20 000).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "heap/heap.h"
#include "streams.h"

#define THREADS 4
#define MIB ((size_t)1 << 20)
/* A buffer, with spans of 1 MiB and blocks of 256 KiB. */
#define BYTES (64 * MIB)
#define UNIT ((size_t)64)

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_heap *heap;
static struct weir_stream *stream[THREADS];

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

/* The number of the shard that has the block. */
static unsigned shard_of(struct weir_block b)
{
	return weir__block_shard(weir__heap_block(heap, (uint32_t)b.id));
}

/* All is freed. */
static void heap_end(const char *what)
{
	must(weir_heap_trim(heap, 0));
	is_int(stats().used, 0, "nothing is used %s", what);
	is_int(stats().largest, BYTES, "all memory is one free part %s", what);
	weir_heap_destroy(heap);
}

#define SLOTS 64
#define OWN 24

static unsigned steps = 20000;
static struct weir_block *_Atomic shared[SLOTS]; /* from thread to thread */
static _Atomic uint8_t owned[BYTES / UNIT];
static _Atomic unsigned wrong, in_shards, failures;
static bool
	finds; /* blocks are found by their addresses before they are freed */

/* Each unit of the block changes hands. */
static void own(const struct weir_block *b, uint8_t from)
{
	for (size_t i = b->offset / UNIT; i < (b->offset + b->bytes) / UNIT;
	     i++)
		if (!atomic_compare_exchange_strong(&owned[i], &from, !from))
			atomic_fetch_add(&wrong, 1);
}

static void drop(struct weir_block *b, struct weir_stream *s)
{
	struct weir_block stale;

	if (!b)
		return;
	own(b, 1);
	if (finds && (weir_heap_find(heap, b->addr, &stale) < 0 ||
		      stale.id != b->id || stale.bytes != b->bytes))
		atomic_fetch_add(&wrong, 1);
	stale = *b;
	if (weir_heap_free(b, s) < 0 || weir_heap_free(&stale, s) != -EINVAL)
		atomic_fetch_add(&wrong, 1);
	free(b);
}

static struct weir_block *make(size_t n, size_t align, struct weir_stream *s)
{
	struct weir_block *b = malloc(sizeof(*b));

	if (weir_heap_alloc(heap, n, align, s, b) < 0) {
		atomic_fetch_add(&failures, 1);
		free(b);
		return NULL;
	}
	own(b, 0);
	if (b->bytes < n || (align && b->addr % align))
		atomic_fetch_add(&wrong, 1);
	atomic_fetch_add(&in_shards, shard_of(*b) != 0);
	return b;
}

static size_t size_from(unsigned *seed)
{
	size_t n = (size_t)rand_r(seed);

	switch (rand_r(seed) % 32) {
	case 0:
		return 1 + n % (4 * MIB);
	case 1:
	case 2:
	case 3:
	case 4:
	case 5:
		return 1 + n % (600 << 10);
	default:
		return 1 + n % 20000;
	}
}

static void look(unsigned k)
{
	switch (k % 4) {
	case 0:
		must(weir_heap_trim(heap, 0));
		break;
	case 1:
		consolidate();
		break;
	default:
		must(weir__shard_want(heap));
	}
}

static void *random_main(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg, seed = id + 1;
	struct weir_block *mine[OWN] = { 0 };

	for (unsigned i = 0; i < steps; i++) {
		unsigned k = (unsigned)rand_r(&seed);
		struct weir_stream *s = k & 1 ? stream[k / 2 % THREADS] : NULL;
		struct weir_block **at = &mine[k / 8 % OWN];

		if (*at) {
			drop(*at, s);
			*at = NULL;
		} else {
			*at = make(size_from(&seed), k % 11 ? 0 : 65536, s);
		}
		if (k % 7 == 0)
			*at = atomic_exchange(&shared[k / 8 % SLOTS], *at);
		if (k % 211 == 0)
			look((unsigned)rand_r(&seed));
	}
	for (unsigned i = 0; i < OWN; i++)
		drop(mine[i], NULL);
	return NULL;
}

static void test_random(bool with_find)
{
	const char *what = with_find ? "and find blocks by address" : "only";
	pthread_t thread[THREADS];

	wrong = in_shards = failures = 0;
	finds = with_find;
	heap_begin();
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, random_main, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < SLOTS; i++)
		drop(atomic_exchange(&shared[i], NULL), NULL);
	is_int(wrong, 0, "no byte has two owners while threads have shards %s",
	       what);
	ok(in_shards > steps / 4,
	   "many blocks were of shards %s (%u; %u failed)", what, in_shards,
	   failures);
	heap_end(
		with_find
			? "after random calls of threads with shards, and finds"
			: "after random calls of threads with shards");
}

/* Work that fills a block, and work that checks it before it is freed. */
struct work {
	unsigned char *at;
	size_t n;
	unsigned seed, lag;
};

static int do_fill(void *arg)
{
	struct work *work = arg;

	pattern(work->at, work->n, work->seed);
	if (work->lag)
		usleep(work->lag);
	return 0;
}

static int do_check(void *arg)
{
	struct work *work = arg;

	if (!is_pattern(work->at, work->n, work->seed))
		atomic_fetch_add(&wrong, 1);
	free(work);
	return 0;
}

static struct work *work_begin(const struct weir_block *b,
			       struct weir_stream *s, unsigned *seed)
{
	struct work *work = malloc(sizeof(*work));

	*work = (struct work){ (unsigned char *)weir_buf_data(b->buf) +
				       b->offset,
			       b->bytes, (unsigned)rand_r(seed),
			       rand_r(seed) % 16 ? 0 : 100 };
	must(weir_stream_call(s, do_fill, work));
	return work;
}

static void *work_main(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg + 1;
	struct weir_block b[OWN] = { 0 };
	struct weir_stream *in[OWN];
	struct work *work[OWN];

	for (unsigned i = 0; i < steps / 5; i++) {
		unsigned k = (unsigned)rand_r(&seed) % OWN;

		if (b[k].heap) {
			must(weir_stream_call(in[k], do_check, work[k]));
			must(weir_heap_free(&b[k], in[k]));
			b[k].heap = NULL;
			continue;
		}
		if (rand_r(&seed) % 50 == 0)
			must(weir__shard_want(heap));
		in[k] = stream[(unsigned)rand_r(&seed) % THREADS];
		must(weir_heap_alloc(heap, 1 + (size_t)rand_r(&seed) % 40000, 0,
				     in[k], &b[k]));
		atomic_fetch_add(&in_shards, shard_of(b[k]) != 0);
		work[k] = work_begin(&b[k], in[k], &seed);
	}
	for (unsigned k = 0; k < OWN; k++) {
		if (!b[k].heap)
			continue;
		must(weir_stream_call(in[k], do_check, work[k]));
		must(weir_heap_free(&b[k], in[k]));
	}
	return NULL;
}

static void test_work(void)
{
	pthread_t thread[THREADS];

	wrong = in_shards = 0;
	heap_begin();
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work_main, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < THREADS; i++)
		must(weir_stream_sync(stream[i], -1));
	is_int(wrong, 0, "no byte has two owners while streams run");
	ok(in_shards > steps / 10, "streams had many blocks of shards (%u)",
	   in_shards);
	heap_end("after streams have run");
}

int main(void)
{
	const char *more = getenv("WEIR_T_STEPS");

	plan(12);
	if (more)
		steps = (unsigned)atoi(more);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	for (unsigned i = 0; i < THREADS; i++)
		stream[i] = new_stream(weir, "stream");
	test_random(false);
	test_random(true);
	test_work();
	for (unsigned i = 0; i < THREADS; i++)
		weir_stream_free(stream[i]);
	weir_close(weir);
	return done_testing();
}
