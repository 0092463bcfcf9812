/* SPDX-License-Identifier: MIT */
/* Heaps in the order of streams. */
#include <errno.h>

#include "streams.h"

#define HALF ((size_t)1 << 20)

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_stream *s1, *s2, *s3;
static struct hold hold;

/* A heap of @bytes, with more by @grow up to @limit. */
static struct weir_heap *new_heap(size_t bytes, size_t grow, size_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	must(weir_buf_alloc(buft, bytes, NULL, &o.buf));
	o.grow = grow;
	o.limit = limit;
	must(weir_heap_new(buft, &o, &heap));
	weir_buf_free(o.buf);
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

static void sync_all(void)
{
	must(weir_stream_sync(s1, -1));
	must(weir_stream_sync(s2, -1));
	must(weir_stream_sync(s3, -1));
}

static void test_same(void)
{
	struct weir_heap *heap = new_heap(HALF, 0, 0);
	struct weir_block a = alloc(heap, HALF, s1), b;

	hold_stream(s1, &hold);
	free_in(a, s1);
	b = alloc(heap, HALF, s1);
	is_int(b.addr, a.addr,
	       "memory freed in a stream is used again at once in that stream");
	is_int(stats_of(heap).waits, 0, "the same stream waits for nothing");
	release_stream(&hold);
	sync_all();
	weir_heap_destroy(heap);
}

static void test_other(void)
{
	struct weir_heap *heap = new_heap(HALF, HALF, 0);
	struct weir_block a = alloc(heap, HALF, s1), b;
	int count = 0;

	hold_stream(s1, &hold);
	free_in(a, s1);
	is_int(stats_of(heap).pending, HALF,
	       "memory is pending until the work before its free point is done");
	b = alloc(heap, HALF, s2);
	is_int(b.addr, a.addr,
	       "memory of another stream is used before the heap grows");
	is_int(stats_of(heap).waits, 1, "one wait is queued for it");
	must(weir_stream_call(s2, count_up, &count));
	usleep(20000);
	is_int(__atomic_load_n(&count, __ATOMIC_SEQ_CST), 0,
	       "work of the second stream does not begin before the free point");
	release_stream(&hold);
	sync_all();
	is_int(count, 1, "work of the second stream runs after the free point");
	weir_heap_destroy(heap);
}

static void test_no_stream(void)
{
	struct weir_heap *heap = new_heap(HALF, 0, 0);
	struct weir_block a = alloc(heap, HALF, s1), b;

	hold_stream(s1, &hold);
	free_in(a, s1);
	is_err(weir_heap_alloc(heap, HALF, 0, NULL, &b), -ENOMEM, "1048576",
	       "without a stream, pending memory is not handed out");
	release_stream(&hold);
	sync_all();
	is_int(weir_heap_alloc(heap, HALF, 0, NULL, &b), 0,
	       "without a stream, memory is handed out when its free point is done");
	free_in(b, NULL);
	weir_heap_destroy(heap);
}

static void test_freed_without_stream(void)
{
	struct weir_heap *heap = new_heap(HALF, 0, 0);
	struct weir_block a = alloc(heap, HALF, s1);

	hold_stream(s1, &hold);
	free_in(a, NULL);
	a = alloc(heap, HALF, s2);
	is_int(stats_of(heap).waits, 0,
	       "memory freed without a stream is free for every stream");
	release_stream(&hold);
	sync_all();
	weir_heap_destroy(heap);
}

static void test_done_first(void)
{
	struct weir_heap *heap = new_heap(2 * HALF, 0, 0);
	struct weir_block a = alloc(heap, HALF, s1), b = alloc(heap, HALF, s2);
	struct weir_block c;

	hold_stream(s1, &hold);
	free_in(a, s1);
	free_in(b, s2);
	c = alloc(heap, HALF, s3);
	is_int(c.addr, b.addr, "memory whose free point is done is preferred");
	release_stream(&hold);
	sync_all();
	weir_heap_destroy(heap);
}

static void test_neighbours(void)
{
	struct weir_heap *heap = new_heap(2 * HALF, HALF, 3 * HALF);
	struct weir_block a = alloc(heap, HALF, s1), b = alloc(heap, HALF, s2);
	struct hold hold2;

	hold_stream(s1, &hold);
	hold_stream(s2, &hold2);
	free_in(a, s1);
	free_in(b, s2);
	a = alloc(heap, 2 * HALF, s3);
	is_int(a.bytes, 2 * HALF,
	       "neighbours freed in two streams become one block if the heap cannot grow");
	is_int(stats_of(heap).waits, 2, "a wait for each of them is queued");
	free_in(a, s3);
	release_stream(&hold);
	release_stream(&hold2);
	sync_all();
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).pending, 0,
	       "nothing is pending when all work is done");
	weir_heap_destroy(heap);
}

static void test_absorbed(void)
{
	struct weir_heap *heap = new_heap(2 * HALF, HALF, 0);
	struct weir_block a = alloc(heap, HALF, s1);

	hold_stream(s1, &hold);
	free_in(a, s1);
	a = alloc(heap, 2 * HALF, s1);
	is_int(stats_of(heap).buffers, 1,
	       "a stream's own memory and unused memory beside it are joined before the heap grows");
	release_stream(&hold);
	sync_all();
	weir_heap_destroy(heap);
}

static void test_failure(void)
{
	struct weir_heap *heap = new_heap(HALF, 0, 0);
	struct weir_block a = alloc(heap, HALF, s1);
	int count = 0;

	hold_stream(s1, &hold);
	hold.result = -EIO;
	free_in(a, s1);
	a = alloc(heap, HALF, s2);
	must(weir_stream_call(s2, count_up, &count));
	release_stream(&hold);
	is_int(weir_stream_sync(s1, -1), -EIO, "the freeing stream fails");
	is_int(weir_stream_sync(s2, -1), 0,
	       "its failure is not passed on to a stream that uses its memory");
	is_int(count, 1, "that stream goes on when the failed work has ended");
	free_in(a, s1);
	is_int(weir_heap_alloc(heap, HALF, 0, NULL, &a), 0,
	       "memory freed in a failed stream is free when its work has ended");
	must(weir_stream_reset(s1));
	weir_heap_destroy(heap);
}

static void test_failed_user(void)
{
	struct weir_heap *heap = new_heap(HALF, HALF, 2 * HALF);
	struct weir_block a = alloc(heap, HALF, s1), b;
	int err = -EIO;

	must(weir_stream_call(s2, fail_with, &err));
	is_int(weir_stream_sync(s2, -1), -EIO, "the second stream fails");
	hold_stream(s1, &hold);
	free_in(a, s1);
	b = alloc(heap, HALF, s2);
	is_int(stats_of(heap).buffers, 2,
	       "a failed stream cannot wait, so the heap grows for it");
	free_in(b, s2);
	must(weir_stream_reset(s2));
	release_stream(&hold);
	sync_all();
	weir_heap_destroy(heap);
}

/* Memory of more streams than a request notes refusals for. */
static void test_many_refusals(void)
{
	struct weir_stream *many[12];
	struct weir_heap *heap = new_heap(12 * HALF, 0, 0);
	struct weir_block b[12];
	int err = -EIO;

	for (int i = 0; i < 12; i++) {
		many[i] = new_stream(weir, "many");
		b[i] = alloc(heap, HALF, many[i]);
	}
	must(weir_stream_call(s2, fail_with, &err));
	must(-(weir_stream_sync(s2, -1) != -EIO));
	hold_stream(s1, &hold);
	for (int i = 0; i < 12; i++) {
		struct weir_event *ev;

		must(weir_event_new(weir, 0, &ev));
		must(weir_stream_record(s1, ev));
		must(weir_stream_wait(many[i], ev));
		weir_event_free(ev);
		free_in(b[i], many[i]);
	}
	alarm(120);
	is_err(weir_heap_alloc(heap, HALF, 0, s2, &b[0]), -ENOMEM, "",
	       "an allocation ends if its stream can wait for none of 12 others");
	alarm(0);
	must(weir_stream_reset(s2));
	release_stream(&hold);
	sync_all();
	for (int i = 0; i < 12; i++) {
		must(weir_stream_sync(many[i], -1));
		weir_stream_free(many[i]);
	}
	weir_heap_destroy(heap);
}

static void count_release(void *arg)
{
	__atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void test_destroy(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;
	void *memory = malloc(HALF);
	int released = 0;

	must(weir_buf_wrap(buft, memory, HALF, count_release, &released,
			   &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	alloc(heap, HALF / 4, s1);
	free_in(alloc(heap, HALF / 4, s2), s2);
	hold_stream(s1, &hold);
	weir_heap_destroy(heap);
	is_int(__atomic_load_n(&released, __ATOMIC_SEQ_CST), 0,
	       "a destroyed heap keeps its buffers while streams still work");
	release_stream(&hold);
	sync_all();
	for (int i = 0;
	     i < 5000 && !__atomic_load_n(&released, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	is_int(__atomic_load_n(&released, __ATOMIC_SEQ_CST), 1,
	       "a destroyed heap frees its buffers when the streams are done");
	free(memory);
}

static void test_freed_stream(void)
{
	struct weir_heap *heap = new_heap(HALF, 0, 0);
	struct weir_stream *s = new_stream(weir, "short");
	struct weir_block a = alloc(heap, HALF, s);

	hold_stream(s, &hold);
	free_in(a, s);
	weir_stream_free(s);
	a = alloc(heap, HALF, s2);
	is_int(stats_of(heap).waits, 1,
	       "memory freed in a stream that was freed is still waited for");
	release_stream(&hold);
	free_in(a, s2);
	sync_all();
	for (int i = 0; i < 100; i++) {
		s = new_stream(weir, "short");
		free_in(alloc(heap, 1000, s), s);
		weir_stream_free(s);
		must(weir_heap_trim(heap, 0));
	}
	is_int(stats_of(heap).cached, 0,
	       "trim gives back what is kept for streams that were freed");
	weir_heap_destroy(heap);
}

static void test_foreign(void)
{
	struct weir_heap *heap = new_heap(HALF, 0, 0);
	struct weir *other = open_root(WEIR_IO_SYNC);
	struct weir_stream *s = new_stream(other, "other");
	struct weir_block a;

	is_err(weir_heap_alloc(heap, 100, 0, s, &a), -EINVAL, "another root",
	       "a stream of another root cannot allocate");
	a = alloc(heap, 100, s1);
	is_err(weir_heap_free(&a, s), -EINVAL, "another root",
	       "a stream of another root cannot free");
	free_in(a, s1);
	weir_stream_free(s);
	weir_close(other);
	weir_heap_destroy(heap);
}

/* Work that fills a block, and work that checks it later. */
struct work {
	unsigned char *at;
	size_t n;
	unsigned seed, lag;
};

static int wrong;

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
		__atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
	free(work);
	return 0;
}

static struct work *begin(struct weir_block *b, struct weir_stream *s,
			  unsigned seed)
{
	struct work *work = malloc(sizeof(*work));
	unsigned char *base = weir_buf_data(b->buf);

	*work = (struct work){ base + b->offset, b->bytes, seed,
			       rand() % 8 ? 0 : (unsigned)rand() % 200 };
	must(weir_stream_call(s, do_fill, work));
	return work;
}

static void test_two_owners(unsigned steps)
{
	struct weir_stream *all[] = { s1, s2, s3 };
	struct weir_heap *heap = new_heap((size_t)256 << 10, 0, 0);
	struct weir_block b[64] = { 0 };
	struct weir_stream *in[64];
	struct work *work[64];
	unsigned allocs = 0;

	wrong = 0;
	for (unsigned i = 0; i < steps; i++) {
		unsigned k = (unsigned)rand() % 64;
		size_t n = rand() % 4 ? 1 + (size_t)rand() % 4000
				      : 1 + (size_t)rand() % 60000;

		if (b[k].heap) {
			must(weir_stream_call(in[k], do_check, work[k]));
			free_in(b[k], in[k]);
			b[k].heap = NULL;
			continue;
		}
		in[k] = all[rand() % 3];
		if (weir_heap_alloc(heap, n, 0, in[k], &b[k]) < 0) {
			b[k].heap = NULL;
			continue;
		}
		work[k] = begin(&b[k], in[k], i);
		allocs++;
	}
	for (unsigned k = 0; k < 64; k++)
		if (b[k].heap)
			must(weir_stream_call(in[k], do_check, work[k]));
	sync_all();
	is_int(wrong, 0, "no byte has two owners while streams run");
	diag("%u blocks, %llu waits", allocs,
	     (unsigned long long)stats_of(heap).waits);
	ok(stats_of(heap).waits > 0, "some streams waited for others");
	weir_heap_destroy(heap);
}

int main(void)
{
	const char *steps = getenv("WEIR_T_STEPS");

	plan(30);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	s1 = new_stream(weir, "one");
	s2 = new_stream(weir, "two");
	s3 = new_stream(weir, "three");
	test_same();
	test_other();
	test_no_stream();
	test_freed_without_stream();
	test_done_first();
	test_neighbours();
	test_absorbed();
	test_failure();
	test_failed_user();
	test_many_refusals();
	test_destroy();
	test_freed_stream();
	test_foreign();
	test_two_owners(steps ? (unsigned)atoi(steps) : 4000);
	weir_stream_free(s1);
	weir_stream_free(s2);
	weir_stream_free(s3);
	weir_close(weir);
	return done_testing();
}
