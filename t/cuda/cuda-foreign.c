/* SPDX-License-Identifier: MIT */
/*
 * What the program does in its streams beside the library: work that hangs
 * after an event, a capture, frees meanwhile. None of it delays or breaks other
 * streams.
 */
#include "gpu.h"

#define N ((size_t)1 << 20)

static struct driver {
	int (*set)(uint64_t at, unsigned char byte, size_t n, void *stream);
	int (*create)(void **ret_stream, unsigned flags);
	int (*begin)(void *stream, int mode);
	int (*end)(void *stream, void **ret_graph);
} drv;

static struct weir *weir;

static void open_all(void)
{
	weir = open_cuda();
	weir_stream_free(gpu_stream(weir, "first", 0));
	*(void **)&drv.set = fake_symbol("cuMemsetD8Async");
	*(void **)&drv.create = fake_symbol("cuStreamCreate");
	*(void **)&drv.begin = fake_symbol("cuStreamBeginCapture_v2");
	*(void **)&drv.end = fake_symbol("cuStreamEndCapture");
	enter_context();
}

static struct weir_stream *wrapped(void **ret_handle)
{
	struct weir_stream *s;

	if (drv.create(ret_handle, 1))
		bail("no stream");
	must(weir_cuda_stream_wrap(gpu(weir), *ret_handle, &s));
	return s;
}

/* The program's work in the stream hangs until fake.release(). */
static void hang_in(void *handle, const struct weir_tensor *t)
{
	uint64_t at;

	must(weir_cuda_buf_ptr(t->buf, &at));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	if (drv.set(at, 1, N, handle))
		bail("memset");
}

/* A file is read in a wrapped stream, then the program's work hangs there. */
static void wait_for_event(uint32_t flags)
{
	struct weir_stream *a, *s = gpu_stream(weir, "s", flags);
	struct weir_event *read = new_event(weir, 0), *end = new_event(weir, 0);
	struct weir_tensor t = on_gpu(weir, N), u = on_gpu(weir, N),
			   v = on_gpu(weir, N);
	struct weir_file *file = temp_file(weir, N, 3);
	void *handle;

	a = wrapped(&handle);
	fake.set("RATE", "2e7");
	must(weir_stream_read(a, file, 0, &t, 0, N));
	must(weir_stream_record(a, read));
	hang_in(handle, &v);
	must(weir_stream_wait(s, read));
	must(weir_stream_copy(s, &u, &t));
	must(weir_stream_record(s, end));
	is_int(weir_event_wait(end, 5 * SEC), 0,
	       "%s stream waits for an event, not for later work of the program",
	       flags ? "a native" : "a managed");
	fake.release();
	fake.set("RATE", "");
	must(weir_stream_sync(a, 5 * SEC));
	ok(holds_pattern(&u, N, 3),
	   "%s stream waits for all copies of a file before the event",
	   flags ? "a native" : "a managed");
	weir_stream_free(a);
	weir_stream_free(s);
	weir_event_free(read);
	weir_event_free(end);
	weir_file_close(file);
	weir_buf_free(t.buf);
	weir_buf_free(u.buf);
	weir_buf_free(v.buf);
}

static void trim_in_capture(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;
	struct weir_stream *a;
	struct weir_tensor t = on_gpu(weir, N);
	struct weir_block b;
	struct weir_failure f;
	void *handle, *graph;

	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), N, NULL,
			    &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	a = wrapped(&handle);
	must(weir_heap_alloc(heap, N, 0, a, &b));
	must(weir_heap_free(&b, a));
	if (drv.begin(handle, 0))
		bail("no capture");
	must(weir_heap_trim(heap, 0));
	is_int(drv.end(handle, &graph), 0,
	       "a heap that is trimmed leaves a capture as it is");
	is_int(weir_stream_error(a, &f), 0,
	       "a heap that is trimmed in a capture does not fail the stream");
	must(weir_heap_alloc(heap, N, 0, a, &b));
	hang_in(handle, &t);
	must(weir_heap_free(&b, a));
	is_int(weir_heap_alloc(heap, N, 0, NULL, &b), -ENOMEM,
	       "memory freed after the program's work is pending until its end");
	fake.release();
	must(weir_stream_sync(a, 5 * SEC));
	weir_stream_free(a);
	weir_heap_destroy(heap);
	weir_buf_free(t.buf);
}

/* A stream that moved pageable memory is freed while other work hangs. */
static void free_while_busy(void)
{
	static char plain[N];
	struct weir_stream *s = gpu_stream(weir, "s", 0), *other;
	struct weir_tensor t = on_gpu(weir, N), u = on_gpu(weir, N);
	void *handle;

	other = wrapped(&handle);
	must(weir_stream_set(s, &t, 0, plain, N));
	must(weir_stream_sync(s, 5 * SEC));
	hang_in(handle, &u);
	alarm(120);
	weir_stream_free(s);
	alarm(0);
	ok(true, "freeing a stream does not wait for work of others");
	fake.release();
	must(weir_stream_sync(other, 5 * SEC));
	weir_stream_free(other);
	weir_buf_free(t.buf);
	weir_buf_free(u.buf);
}

int main(void)
{
	open_fake();
	plan(8);
	open_all();
	wait_for_event(0);
	wait_for_event(WEIR_STREAM_NATIVE);
	trim_in_capture();
	free_while_busy();
	weir_close(weir);
	return done_testing();
}
