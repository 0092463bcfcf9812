/* SPDX-License-Identifier: MIT */
/*
 * Heaps of device memory, with native and wrapped streams whose work the
 * library does not see. The program's work hangs in the driver.
 */
#include "gpu.h"

#define N ((size_t)1 << 20)

static struct weir *weir;
static struct weir_buft *buft;
static struct weir_stream *native, *ours, *cpu;
static struct CUstream_st *handle; /* handle of @native */

static struct driver {
	int (*set)(uint64_t at, unsigned char byte, size_t n, void *stream);
	int (*create)(void **ret_stream, unsigned flags);
	int (*destroy)(void *stream);
} drv;

static void find_driver(void)
{
	*(void **)&drv.set = fake_symbol("cuMemsetD8Async");
	*(void **)&drv.create = fake_symbol("cuStreamCreate");
	*(void **)&drv.destroy = fake_symbol("cuStreamDestroy_v2");
	enter_context();
}

static struct weir_heap *new_heap(size_t grow)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	must(weir_buf_alloc(buft, N, NULL, &o.buf));
	o.grow = grow;
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

static struct weir_block alloc(struct weir_heap *heap, struct weir_stream *s)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, N, 0, s, &b));
	return b;
}

/* The program's own work on the block, in its CUstream: it hangs. */
static void hang(const struct weir_block *b, void *stream)
{
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	if (drv.set(b->addr, 0x11, b->bytes, stream))
		bail("cuMemsetD8Async");
}

static struct weir_event *fill(const struct weir_block *b,
			       struct weir_stream *s, unsigned char byte)
{
	struct weir_event *ev = new_event(weir, 0);
	int64_t shape = (int64_t)b->bytes;
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, b->buf, b->offset));
	must(weir_stream_fill(s, &t, 0, N, byte));
	must(weir_stream_record(s, ev));
	return ev;
}

static void must_end(struct weir_event *ev, const char *what)
{
	is_int(weir_event_wait(ev, 20 * SEC), 0, "%s", what);
	weir_event_free(ev);
}

static void unseen_work(void)
{
	struct weir_heap *heap = new_heap(0);
	struct weir_block a = alloc(heap, native), b;
	struct weir_event *ev;

	hang(&a, handle);
	must(weir_heap_free(&a, native));
	is_int(weir_heap_alloc(heap, N, 0, NULL, &b), -ENOMEM,
	       "memory is pending while work that the library does not see runs");
	b = alloc(heap, native);
	is_int(stats_of(heap).waits, 0,
	       "a native stream uses its own memory again at once");
	must(weir_heap_free(&b, native));
	b = alloc(heap, ours);
	is_int(stats_of(heap).waits, 1,
	       "a managed stream waits for a native one");
	ev = fill(&b, ours, 0x22);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT,
	       "its work does not begin before that of the native stream ends");
	fake.release();
	must_end(ev, "its work ends after that of the native stream");
	weir_heap_destroy(heap);
}

static void native_user(void)
{
	struct weir_heap *heap = new_heap(0);
	struct weir_block a = alloc(heap, ours);
	struct weir_event *first, *ev;

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	first = fill(&a, ours, 0x11);
	must(weir_heap_free(&a, ours));
	a = alloc(heap, native);
	is_int(weir_event_query(first), 0,
	       "a native stream waits for memory without blocking its caller");
	ev = fill(&a, native, 0x22);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT,
	       "work of a native stream does not begin before the free point");
	fake.release();
	must_end(ev, "work of a native stream ends after the free point");
	weir_event_free(first);
	weir_heap_destroy(heap);
}

/* The driver refuses the heap's wait, behind one that is not over. */
static void failed_wait(void)
{
	struct weir_heap *heap = new_heap(0);
	struct weir_stream *other = gpu_stream(weir, "other", 0);
	struct weir_event *first, *ev;
	struct weir_block a = alloc(heap, other), b;
	struct weir_tensor t = on_gpu(weir, N);

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(ours, &t, 0, N, 0x11));
	first = new_event(weir, 0);
	must(weir_stream_record(ours, first));
	must(weir_stream_wait(native, first));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	ev = fill(&a, other, 0x11);
	must(weir_heap_free(&a, other));
	fake.arm("cuStreamWaitEvent", 1, FAKECUDA_ONCE, 2);
	is_int(weir_heap_alloc(heap, N, 0, native, &b), -ENOMEM,
	       "a native stream does not get memory for which it could not wait");
	is_int(stats_of(heap).waits, 0, "that was no wait");
	fake.disarm();
	fake.release();
	must(weir_stream_sync(other, 20 * SEC));
	(void)weir_stream_sync(native, 20 * SEC);
	must(weir_stream_reset(native));
	is_int(weir_heap_alloc(heap, N, 0, native, &b), 0,
	       "it gets the memory when the work has ended");
	weir_event_free(first);
	weir_event_free(ev);
	weir_stream_free(other);
	weir_buf_free(t.buf);
	weir_heap_destroy(heap);
}

static void no_blocking_wait(void)
{
	struct weir_heap *heap = new_heap(N);
	struct weir_block a = alloc(heap, cpu), b;
	struct hold hold;

	hold_stream(cpu, &hold);
	must(weir_heap_free(&a, cpu));
	b = alloc(heap, native);
	is_int(stats_of(heap).buffers, 2,
	       "the heap grows where a native stream could only wait by blocking");
	must(weir_heap_free(&b, native));
	release_stream(&hold);
	must(weir_stream_sync(cpu, -1));
	weir_heap_destroy(heap);
}

static void gone_stream(void)
{
	struct weir_heap *heap = new_heap(0);
	struct weir_stream *wrapped;
	struct weir_block a;
	struct weir_event *ev;
	void *stream;

	if (drv.create(&stream, 1))
		bail("cuStreamCreate");
	must(weir_cuda_stream_wrap(gpu(weir), stream, &wrapped));
	a = alloc(heap, wrapped);
	hang(&a, stream);
	must(weir_heap_free(&a, wrapped));
	weir_stream_free(wrapped);
	is_int(drv.destroy(stream), 0,
	       "a stream whose memory is pending may be freed and destroyed");
	a = alloc(heap, ours);
	ev = fill(&a, ours, 0x22);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT,
	       "memory of a destroyed stream is used after its work");
	fake.release();
	must_end(ev, "work that waits for a destroyed stream ends");
	weir_heap_destroy(heap);
}

/* The wait is pending until the stream is released; then the queue is gone. */
static void gone_before_wait(void)
{
	struct weir_heap *heap = new_heap(0);
	struct weir_block a = alloc(heap, ours);
	struct weir_event *wait = new_event(weir, 0), *ev;
	struct weir_stream *wrapped;
	struct hold hold;
	void *stream;

	if (drv.create(&stream, 1))
		bail("cuStreamCreate");
	must(weir_cuda_stream_wrap(gpu(weir), stream, &wrapped));
	hang(&a, stream);
	must(weir_stream_record(wrapped, wait));
	hold_stream(ours, &hold);
	must(weir_stream_wait(ours, wait));
	ev = fill(&a, ours, 0x22);
	weir_stream_free(wrapped);
	if (drv.destroy(stream))
		bail("cuStreamDestroy");
	release_stream(&hold);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT,
	       "a pending wait for a stream that is destroyed waits for its work");
	fake.release();
	must_end(ev, "a pending wait for a stream that is destroyed ends");
	weir_event_free(wait);
	weir_heap_destroy(heap);
}

static unsigned long live_things(enum fakecuda_thing thing)
{
	struct fakecuda_counts counts;

	fake.counts(&counts);
	return counts.live[thing];
}

static unsigned long live_memory(void)
{
	return live_things(FAKECUDA_DEVICE_MEMORY);
}

static void freed_stream(void)
{
	unsigned long before = live_things(FAKECUDA_STREAM);
	struct weir_heap *heap = new_heap(N);
	struct weir_stream *s = gpu_stream(weir, "freed", 0);
	struct weir_block a = alloc(heap, s);

	must(weir_heap_free(&a, s));
	weir_stream_free(s);
	alloc(heap, ours);
	alloc(heap, ours);
	is_int(stats_of(heap).grown, 1,
	       "a heap of one block grows by a second");
	is_int(live_things(FAKECUDA_STREAM), before,
	       "a heap that grows drops streams that were freed");
	weir_heap_destroy(heap);
}

/* True if the process soon has this many buffers of the device. */
static bool buffers_become(unsigned long n)
{
	for (int i = 0; i < 5000 && live_memory() != n; i++)
		usleep(1000);
	return live_memory() == n;
}

#define MANY 40

static void sync_all(struct weir_stream **s)
{
	for (unsigned i = 0; i < MANY; i++)
		must(weir_stream_sync(s[i], 20 * SEC));
}

/* Between two trims all work ends, which the heap knows by markers. */
static void trimmed(void)
{
	struct weir_heap *heap = new_heap(N);
	struct weir_stream *s[MANY];
	struct weir_block b[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		s[i] = gpu_stream(weir, "", WEIR_STREAM_NATIVE);
		b[i] = alloc(heap, s[i]);
	}
	for (unsigned i = 0; i < MANY; i++)
		must(weir_heap_free(&b[i], s[i]));
	must(weir_heap_trim(heap, 0));
	sync_all(s);
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).pending, 0,
	       "a trim finds out how far all native streams are");
	is_int(stats_of(heap).buffers, 1,
	       "the next one gives the buffers back that they used");
	for (unsigned i = 0; i < MANY; i++)
		weir_stream_free(s[i]);
	weir_heap_destroy(heap);
	ok(buffers_become(0), "its own buffer is freed with the heap");
}

/* A marker that is done stands for earlier frees, and another one is needed. */
static void trimmed_again(void)
{
	struct weir_heap *heap = new_heap(0);
	struct weir_block a, b;

	must(weir_heap_alloc(heap, N / 2, 0, native, &a));
	must(weir_heap_alloc(heap, N / 2, 0, native, &b));
	hang(&a, handle);
	must(weir_heap_free(&a, native));
	must(weir_heap_trim(heap, 0));
	must(weir_heap_free(&b, native));
	fake.release();
	for (unsigned i = 0; i < 2; i++) {
		must(weir_stream_sync(native, 20 * SEC));
		must(weir_heap_trim(heap, 0));
	}
	is_int(stats_of(heap).pending, 0,
	       "a trim after the work of an earlier marker queues another one");
	weir_heap_destroy(heap);
	ok(buffers_become(0), "the heap is gone then, too");
}

static void destroyed_heap(void)
{
	unsigned long before = live_memory();
	struct weir_heap *heap = new_heap(0);
	struct weir_block a = alloc(heap, native);

	hang(&a, handle);
	must(weir_heap_free(&a, native));
	weir_heap_destroy(heap);
	usleep(20000);
	is_int(live_memory(), before + 1,
	       "a destroyed heap keeps device memory that unseen work uses");
	fake.release();
	ok(buffers_become(before),
	   "a destroyed heap frees device memory when that work has ended");
}

int main(void)
{
	open_fake();
	plan(28);
	weir = open_cuda();
	buft = gpu_memory(weir, WEIR_MEM_DEVICE);
	native = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	ours = gpu_stream(weir, "ours", 0);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	must(weir_cuda_stream_native(native, &handle));
	find_driver();
	unseen_work();
	native_user();
	failed_wait();
	no_blocking_wait();
	gone_stream();
	gone_before_wait();
	freed_stream();
	trimmed();
	trimmed_again();
	destroyed_heap();
	leave_context();
	weir_stream_free(native);
	weir_stream_free(ours);
	weir_stream_free(cpu);
	weir_close(weir);
	all_given_back("after all,");
	return done_testing();
}
