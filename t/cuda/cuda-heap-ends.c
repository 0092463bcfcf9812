/* SPDX-License-Identifier: MIT */
/*
 * Heaps whose streams take no marker: while the program captures them, or for
 * lack of memory. The program's work hangs; its memory is nobody else's until
 * that work has ended.
 */
#include "gpu.h"
#include "nomem.h"

#define N ((size_t)1 << 20)

static struct weir *weir;

static struct driver {
	int (*set)(uint64_t at, unsigned char byte, size_t n, void *stream);
	int (*create)(void **ret_stream, unsigned flags);
	int (*destroy)(void *stream);
	int (*begin)(void *stream, int mode);
	int (*end)(void *stream, void **ret_graph);
} drv;

static void find_driver(void)
{
	*(void **)&drv.set = fake_symbol("cuMemsetD8Async");
	*(void **)&drv.create = fake_symbol("cuStreamCreate");
	*(void **)&drv.destroy = fake_symbol("cuStreamDestroy_v2");
	*(void **)&drv.begin = fake_symbol("cuStreamBeginCapture_v2");
	*(void **)&drv.end = fake_symbol("cuStreamEndCapture");
	enter_context();
}

/* A heap of one buffer of N bytes. */
static struct weir_heap *new_heap(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), N, NULL,
			    &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	return heap;
}

static struct weir_stream *wrapped(void **ret_handle)
{
	struct weir_stream *s;

	if (drv.create(ret_handle, 1))
		bail("no stream");
	must(weir_cuda_stream_wrap(gpu(weir), *ret_handle, &s));
	return s;
}

static struct weir_stream *native(void **ret_handle)
{
	struct weir_stream *s = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	struct CUstream_st *handle;

	must(weir_cuda_stream_native(s, &handle));
	*ret_handle = handle;
	return s;
}

/* A block of the heap is freed in @s; the program's work in it hangs. */
static void freed_while_used(struct weir_heap *heap, struct weir_stream *s,
			     void *handle)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, N, 0, s, &b));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	if (drv.set(b.addr, 0x11, b.bytes, handle))
		bail("cuMemsetD8Async");
	must(weir_heap_free(&b, s));
}

static void begin(void *handle)
{
	if (drv.begin(handle, 0))
		bail("cuStreamBeginCapture");
}

static int end(void *handle)
{
	void *graph;

	return drv.end(handle, &graph);
}

/* True if the heap can allocate memory. It is freed again. */
static bool has_memory(struct weir_heap *heap, struct weir_stream *s)
{
	struct weir_block b;

	if (weir_heap_alloc(heap, N, 0, s, &b) < 0)
		return false;
	must(weir_heap_free(&b, s));
	return true;
}

static bool comes_back(struct weir_heap *heap)
{
	for (int i = 0; i < 5000; i++) {
		if (has_memory(heap, NULL))
			return true;
		usleep(1000);
	}
	return false;
}

static void wrapped_in_capture(struct weir_stream *other)
{
	struct weir_heap *heap = new_heap();
	void *handle;
	struct weir_stream *s = wrapped(&handle);

	freed_while_used(heap, s, handle);
	begin(handle);
	weir_stream_free(s);
	is_int(end(handle), 0,
	       "freeing a wrapped stream leaves its capture as it is");
	ok(!has_memory(heap, NULL),
	   "memory of a wrapped stream that was freed in a capture is pending");
	ok(!has_memory(heap, other),
	   "another stream does not get that memory either");
	if (drv.destroy(handle))
		bail("cuStreamDestroy");
	fake.release();
	usleep(20000);
	ok(!has_memory(heap, NULL),
	   "it stays so, since nothing tells when the work ends");
	weir_heap_destroy(heap);
}

static void native_in_capture(void)
{
	struct weir_heap *heap = new_heap();
	void *handle;
	struct weir_stream *s = native(&handle);

	freed_while_used(heap, s, handle);
	begin(handle);
	weir_stream_free(s);
	ok(!has_memory(heap, NULL),
	   "memory of a native stream that was freed in a capture is pending");
	is_int(end(handle), 0, "asking for it leaves the capture as it is");
	ok(!has_memory(heap, NULL), "it is pending until the work ends");
	fake.release();
	ok(comes_back(heap),
	   "memory of a native stream that was freed in a capture comes back");
	weir_heap_destroy(heap);
}

static unsigned long live_memory(void)
{
	struct fakecuda_counts counts;

	fake.counts(&counts);
	return counts.live[FAKECUDA_DEVICE_MEMORY];
}

/* Heaps that were destroyed free their buffers when work has ended. */
static bool only(unsigned long buffers)
{
	for (int i = 0; i < 5000 && live_memory() != buffers; i++)
		usleep(1000);
	return live_memory() == buffers;
}

static void destroyed_in_capture(void)
{
	struct weir_heap *heap = new_heap();
	void *handle;
	struct weir_stream *s = wrapped(&handle);

	/* The buffer of wrapped_in_capture() is leaked. */
	if (!only(2))
		bail("%lu buffers", live_memory());
	freed_while_used(heap, s, handle);
	begin(handle);
	weir_heap_destroy(heap);
	is_int(end(handle), 0, "destroying a heap leaves a capture as it is");
	usleep(20000);
	is_int(live_memory(), 2,
	       "a heap destroyed in a capture keeps memory that work uses");
	weir_stream_free(s);
	usleep(20000);
	is_int(live_memory(), 2, "it does when the stream was freed, too");
	fake.release();
	ok(only(1), "that memory is freed when the work has ended");
	drv.destroy(handle);
}

/* The @n-th allocation of weir_stream_free() fails. True if there was one. */
static bool freed_without_memory(unsigned n, bool *ret_held)
{
	struct weir_heap *heap = new_heap();
	void *handle;
	struct weir_stream *s = wrapped(&handle);
	bool failed;

	freed_while_used(heap, s, handle);
	nomem_begin(n);
	weir_stream_free(s);
	failed = nomem_end();
	*ret_held = !has_memory(heap, NULL);
	fake.release();
	if (!failed && !comes_back(heap))
		bail("memory does not come back");
	drv.destroy(handle);
	weir_heap_destroy(heap);
	return failed;
}

static void without_memory(void)
{
	bool held = true, one = true, failed = true;

	for (unsigned n = 1; failed; n++) {
		failed = freed_without_memory(n, &one);
		held &= one;
	}
	ok(held,
	   "without memory for a marker, memory that work uses is pending");
}

/* The first marker fails, no other is queued later. */
static void destroyed_without_memory(void)
{
	struct weir_heap *heap = new_heap();
	void *handle;
	struct weir_stream *s = wrapped(&handle);
	bool failed;

	freed_while_used(heap, s, handle);
	nomem_begin(1);
	weir_heap_destroy(heap);
	failed = nomem_end();
	ok(failed && live_memory() == 2,
	   "a heap destroyed without memory for a marker keeps its buffer");
	fake.release();
	ok(only(1), "the buffer is freed when the work has ended");
	weir_stream_free(s);
	drv.destroy(handle);
}

int main(void)
{
	struct weir_stream *other;

	open_fake();
	plan(15);
	weir = open_cuda();
	other = gpu_stream(weir, "other", 0);
	find_driver();
	wrapped_in_capture(other);
	native_in_capture();
	destroyed_in_capture();
	destroyed_without_memory();
	without_memory();
	leave_context();
	weir_stream_free(other);
	weir_close(weir);
	return done_testing();
}
