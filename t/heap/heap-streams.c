/* SPDX-License-Identifier: MIT */
/*
 * Heaps that are used with many streams, one after the other and at the same
 * time. WEIR_T_STREAMS streams (70 000), WEIR_T_LIVE of them live (16 000),
 * WEIR_T_STEPS random calls (20 000), from WEIR_T_SEED.
 */
#include <dirent.h>
#include <errno.h>

#include "heap/heap.h"
#include "draws.h"
#include "steps.h"
#include "streams.h"

#define BLOCK ((size_t)128 << 10)
#define AT_ONCE 1000u
#define LIVE 40u
#define ROUNDS 1000u
#define BLOCKS 200u

static struct weir *weir;
static struct weir_buft *buft;

static struct weir_heap *new_heap(uint64_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.grow = o.limit = limit;
	must(weir_heap_new(buft, &o, &heap));
	return heap;
}

static struct weir_block alloc(struct weir_heap *heap, size_t n,
			       struct weir_stream *s)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, n, 0, s, &b));
	return b;
}

static unsigned threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	if (!dir)
		bail("no /proc/self/task");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

/* True if the process soon has at most @n threads. */
static bool threads_end(unsigned n)
{
	for (int i = 0; i < 20000; i++) {
		if (threads() <= n)
			return true;
		usleep(1000);
	}
	return false;
}

/*
 * Steps of @n streams, of which each allocates and frees a block, of a
 * size that caches keep and of one that they do not.
 */
static uint64_t use_streams(struct weir_heap *heap, unsigned n)
{
	uint64_t before = steps();

	for (unsigned i = 0; i < n; i++) {
		struct weir_stream *s = new_stream(weir, "");
		struct weir_block a = alloc(heap, BLOCK, s),
				  b = alloc(heap, 1000, s);

		must(weir_heap_free(&a, s));
		must(weir_heap_free(&b, s));
		weir_stream_free(s);
	}
	return steps() - before;
}

static void test_in_turn(unsigned n)
{
	struct weir_heap *heap = new_heap(64 << 20);
	unsigned part = n / 10, before = threads();
	uint64_t first = 0, last = 0;

	for (unsigned i = 0; i < 10; i++) {
		last = use_streams(heap, part);
		if (!i)
			first = last;
		tap_renew();
	}
	ok(true, "a heap is used with %u streams, one after the other", n);
	ok(first && 4 * last < 5 * first,
	   "the last tenth of the streams takes no more steps than the first");
	diag("%llu and %llu steps for each stream",
	     (unsigned long long)(first / part),
	     (unsigned long long)(last / part));
	ok(threads_end(before), "no thread is left of them");
	weir_heap_destroy(heap);
}

/* A heap that @n streams use, which stay. */
struct crowd {
	struct weir_heap *heap;
	struct weir_stream **s;
	unsigned n;
};

static void join(struct crowd *c, unsigned i)
{
	struct weir_block b;

	c->s[i] = new_stream(weir, "");
	b = alloc(c->heap, BLOCK, c->s[i]);
	must(weir_heap_free(&b, c->s[i]));
}

/* Steps of rounds in which the first and the last stream are replaced. */
static uint64_t replace(struct crowd *c, unsigned rounds)
{
	uint64_t before = steps();

	for (unsigned i = 0; i < rounds; i++) {
		weir_stream_free(c->s[0]);
		weir_stream_free(c->s[c->n - 1]);
		join(c, 0);
		join(c, c->n - 1);
	}
	return steps() - before;
}

static uint64_t steps_among(unsigned n)
{
	struct crowd c = { .heap = new_heap(64 << 20), .n = n };
	uint64_t taken;

	c.s = calloc(n, sizeof(struct weir_stream *));
	for (unsigned i = 0; i < n; i++)
		join(&c, i);
	taken = replace(&c, ROUNDS);
	for (unsigned i = 0; i < n; i++)
		weir_stream_free(c.s[i]);
	is_int(c.heap->root.used_bins, 1, "the heap keeps none of %u streams",
	       n);
	weir_heap_destroy(c.heap);
	free(c.s);
	return taken;
}

static void test_among_others(unsigned n)
{
	uint64_t few = steps_among(n / 64), many = steps_among(n);

	ok(few && 4 * many < 5 * few,
	   "streams come and go among %u others in no more steps than among %u",
	   n, n / 64);
	diag("%llu and %llu steps for each",
	     (unsigned long long)(many / 2 / ROUNDS),
	     (unsigned long long)(few / 2 / ROUNDS));
	tap_renew();
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Streams with a thread each, which exist at the same time. */
static void test_at_once(void)
{
	static struct weir_stream *s[AT_ONCE];
	static struct weir_block b[AT_ONCE];
	struct weir_heap *heap = new_heap(256 << 20);
	struct weir_heap_stats stats = { .size = sizeof(stats) };
	unsigned before = threads();

	for (unsigned i = 0; i < AT_ONCE; i++) {
		s[i] = new_stream(weir, "");
		b[i] = alloc(heap, BLOCK, s[i]);
		must(weir_stream_call(s[i], nothing, NULL));
	}
	for (unsigned i = 0; i < AT_ONCE; i++) {
		must(weir_heap_free(&b[i], s[i]));
		weir_stream_free(s[i]);
	}
	ok(threads_end(before),
	   "no thread is left of %u streams that existed at once", AT_ONCE);
	must(weir_heap_stats(heap, &stats));
	is_int(stats.pending, 0, "none of their memory is pending");
	weir_heap_destroy(heap);
}

/*
 * The program frees streams while their work runs, and the heap before its end.
 */
static void test_busy(bool destroy)
{
	struct weir_heap *heap = new_heap(16 << 20);
	unsigned before = threads();
	/* No hold is reused: only a sleep would order that after the work. */
	static struct hold holds[2][8];
	struct hold *hold = holds[destroy];
	struct weir_stream *s[8];

	for (unsigned i = 0; i < 8; i++) {
		struct weir_block a, b;

		s[i] = new_stream(weir, "");
		a = alloc(heap, BLOCK, s[i]);
		b = alloc(heap, 1000, s[i]);
		hold_stream(s[i], &hold[i]);
		must(weir_heap_free(&a, s[i]));
		must(weir_heap_free(&b, s[i]));
		weir_stream_free(s[i]);
	}
	if (destroy)
		weir_heap_destroy(heap);
	for (unsigned i = 0; i < 8; i++)
		release_stream(&hold[i]);
	ok(threads_end(before),
	   "streams that were freed with work end after it%s",
	   destroy ? ", also if the heap was destroyed" : "");
	if (!destroy)
		weir_heap_destroy(heap);
}

/* A stream waits for one that the program frees meanwhile. */
static void test_waited_for(void)
{
	struct weir_heap *heap = new_heap(1 << 20);
	unsigned before = threads();
	struct weir_stream *s = new_stream(weir, ""), *other;
	struct weir_block b = alloc(heap, 1 << 20, s);
	struct hold hold;

	hold_stream(s, &hold);
	must(weir_heap_free(&b, s));
	weir_stream_free(s);
	other = new_stream(weir, "");
	b = alloc(heap, 1 << 20, other);
	release_stream(&hold);
	must(weir_stream_sync(other, -1));
	must(weir_heap_free(&b, other));
	weir_stream_free(other);
	ok(threads_end(before),
	   "a stream that was freed ends after others that wait for it");
	weir_heap_destroy(heap);
}

/* Work that fills a block, and checks it before the block is freed. */
struct work {
	unsigned char *at;
	size_t n;
	unsigned seed;
};

static int wrong;

static int do_fill(void *arg)
{
	struct work *work = arg;

	pattern(work->at, work->n, work->seed);
	return 0;
}

static int do_check(void *arg)
{
	struct work *work = arg;

	if (!is_pattern(work->at, work->n, work->seed))
		__atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
	free(work);
	return 0;
}

/* Streams that come and go, and blocks that are freed in their streams. */
struct model {
	struct weir_heap *heap;
	struct weir_stream *stream[LIVE];
	struct weir_block block[BLOCKS];
	struct work *work[BLOCKS];
	unsigned in[BLOCKS], n_streams;
};

static void model_free(struct model *m, unsigned k)
{
	struct weir_stream *s = m->stream[m->in[k]];

	must(weir_stream_call(s, do_check, m->work[k]));
	must(weir_heap_free(&m->block[k], s));
	m->block[k].heap = NULL;
}

static void model_alloc(struct model *m, unsigned k, unsigned id)
{
	unsigned i = draw(LIVE);
	size_t n = draw(3) ? 1 + draw(3000) : 1 + draw(60000);

	if (!m->stream[i]) {
		m->stream[i] = new_stream(weir, "");
		m->n_streams++;
	}
	if (weir_heap_alloc(m->heap, n, 0, m->stream[i], &m->block[k]) < 0) {
		m->block[k].heap = NULL;
		return;
	}
	m->in[k] = i;
	m->work[k] = malloc(sizeof(*m->work[k]));
	*m->work[k] =
		(struct work){ (unsigned char *)weir_buf_data(m->block[k].buf) +
				       m->block[k].offset,
			       m->block[k].bytes, id };
	must(weir_stream_call(m->stream[i], do_fill, m->work[k]));
}

static void model_leave(struct model *m, unsigned i)
{
	if (!m->stream[i])
		return;
	for (unsigned k = 0; k < BLOCKS; k++)
		if (m->block[k].heap && m->in[k] == i)
			model_free(m, k);
	weir_stream_free(m->stream[i]);
	m->stream[i] = NULL;
}

static void test_random(unsigned steps)
{
	static struct model m;
	unsigned before = threads();

	m.heap = new_heap(2 << 20);
	for (unsigned i = 0; i < steps; i++) {
		unsigned k = draw(BLOCKS);

		if (draw(16) == 0)
			model_leave(&m, draw(LIVE));
		else if (m.block[k].heap)
			model_free(&m, k);
		else
			model_alloc(&m, k, i);
		if (i % 1024 == 0)
			tap_renew();
	}
	for (unsigned i = 0; i < LIVE; i++)
		model_leave(&m, i);
	ok(threads_end(before),
	   "no thread is left of %u streams that came and went", m.n_streams);
	is_int(wrong, 0, "no byte has two owners while streams come and go");
	weir_heap_destroy(m.heap);
}

int main(void)
{
	struct weir_stream *s;

	plan(13);
	draws_begin();
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	/* The first thread may start one of a sanitizer. */
	s = new_stream(weir, "");
	must(weir_stream_call(s, nothing, NULL));
	must(weir_stream_sync(s, -1));
	weir_stream_free(s);
	test_at_once();
	test_busy(false);
	test_busy(true);
	test_waited_for();
	test_random((unsigned)number_from("WEIR_T_STEPS", 20000));
	test_among_others((unsigned)number_from("WEIR_T_LIVE", 16000));
	test_in_turn((unsigned)number_from("WEIR_T_STREAMS", 70000));
	weir_close(weir);
	return done_testing();
}
