/* SPDX-License-Identifier: MIT */
/*
 * Files on native streams, on either driver: their copies are in order with the
 * work that others queue there. On the stand-in the work before them hangs, so
 * that a call which returns waited for no more than its own copies being
 * queued. The test has a pwrite(2) of its own, for disks that are slow.
 */
#include <stdatomic.h>
#include <sys/syscall.h>

#include "gpu.h"

#define N ((size_t)9 << 20)
#define LARGE ((size_t)80 << 20) /* more than the slots hold */

static struct weir *weir;
static struct weir_stream *native, *cpu;

static _Atomic useconds_t slow_disk; /* duration of each write, us */

/* The library calls this one too. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *buf,
						      size_t n, off_t off)
{
	usleep(atomic_load(&slow_disk));
	return syscall(SYS_pwrite64, fd, buf, n, off);
}

static void reads(void)
{
	struct weir_tensor a = on_gpu(weir, N), b = on_gpu(weir, N);
	struct weir_file *file = temp_file(weir, N, 5);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = gpu_stream(weir, "other", 0);

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(native, &a, 0, N, 1));
	must(weir_stream_record(native, ev));
	is_int(weir_stream_read(native, file, 0, &a, 0, N), 0,
	       "a read on a native stream returns when its copies are queued");
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "a read on a native stream returns before work queued earlier is done");
	must(weir_stream_copy(native, &b, &a));
	must(weir_stream_fill(native, &a, 0, N, 2));
	must(weir_stream_record(native, ev));
	must(weir_stream_wait(s, ev));
	fake.release();
	is_int(weir_stream_sync(s, 20 * SEC), 0,
	       "a stream that waits for a native one ends after its reads");
	ok(holds_pattern(&b, N, 5),
	   "a read on a native stream takes effect between the work before and after it");
	weir_stream_free(s);
	weir_event_free(ev);
	weir_file_close(file);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

/* Read @what in a native stream and in one of the library. */
static void rectangles(struct weir_stream *s, const char *what)
{
	/* Rows that are read together, and an extent for each row. */
	static const struct weir_rect rect[] = {
		{ 3, 700, 300, 800, 1500 },
		{ 0, 1000, 5, 1000, 100000 },
	};
	struct weir_tensor a = on_gpu(weir, N);
	struct weir_file *file = temp_file(weir, N, 5);
	struct weir_event *ev = new_event(weir, 0);
	unsigned char *all = malloc(N), *want = malloc(N), *got = malloc(N);

	pattern(all, N, 5);
	for (size_t i = 0; i < 2; i++) {
		const struct weir_rect *r = &rect[i];

		memset(want, 0x5a, N);
		for (size_t k = 0; k < r->rows; k++)
			memcpy(want + r->off + k * r->pitch,
			       all + 9 + k * r->host_pitch, r->width);
		must(weir_stream_fill(s, &a, 0, N, 0x5a));
		must(weir_stream_read_2d(s, file, 9, &a, r));
		must(weir_stream_get(s, &a, 0, got, N));
		must(weir_stream_record(s, ev));
		is_int(weir_event_wait(ev, 20 * SEC), 0,
		       "%s: a rectangle is read", what);
		ok(!memcmp(got, want, N),
		   "%s: the rows of a rectangle are at their places, between the work before and after it",
		   what);
	}
	free(all);
	free(want);
	free(got);
	weir_event_free(ev);
	weir_file_close(file);
	weir_buf_free(a.buf);
}

static void managed_rectangles(void)
{
	struct weir_stream *s = gpu_stream(weir, "managed", 0);

	rectangles(s, "a stream of the library");
	weir_stream_free(s);
}

/* Copies with pitches are counted, so nothing waits until they are done. */
static void rectangles_submitted(void)
{
	static const struct weir_rect rect = { 3, 700, 300, 800, 1500 };
	struct weir_tensor a = on_gpu(weir, N);
	struct weir_file *file = temp_file(weir, N, 5);
	struct weir_stream *s = gpu_stream(weir, "managed", 0);
	struct weir_event *ev = new_event(weir, 0);

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(native, &a, 0, N, 1));
	is_int(weir_stream_read_2d(native, file, 0, &a, &rect), 0,
	       "a read of a rectangle on a native stream returns when its copies are queued");
	fake.release();
	must(weir_stream_sync(native, 20 * SEC));
	fake.arm("cuMemcpy2DAsync", 1, FAKECUDA_HANG, 0);
	must(weir_stream_read_2d(s, file, 0, &a, &rect));
	must(weir_stream_record(s, ev));
	is_int(weir_stream_wait(native, ev), 0,
	       "a wait for a rectangle of a file returns when its copies are in the driver");
	fake.release();
	must(weir_stream_sync(native, 20 * SEC));
	weir_event_free(ev);
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(a.buf);
}

static void writes(void)
{
	struct weir_tensor a = patterned(weir, N, 6), b = on_gpu(weir, N);
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_event *ev = new_event(weir, 0);
	unsigned char last = 0;

	fake.arm("cuMemcpyDtoDAsync", 1, FAKECUDA_HANG, 0);
	must(weir_stream_copy(native, &b, &a));
	is_int(weir_stream_write(native, file, 0, &b, 0, N), 0,
	       "a write on a native stream returns when its copies are queued");
	must(weir_stream_fill(native, &b, 0, N, 1));
	must(weir_stream_record(native, ev));
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "a write on a native stream returns before work queued earlier is done");
	fake.release();
	is_int(weir_event_wait(ev, 20 * SEC), 0,
	       "the event of a write on a native stream is done");
	ok(file_has(weir, file, N, 6),
	   "a write on a native stream takes its bytes before later work changes them");
	must(weir_tensor_fill(&a, 0, N, 0x77));
	slow_disk = 100000;
	must(weir_stream_write(native, file, 0, &a, 0, N));
	must(weir_stream_fill(native, &a, 0, N, 0));
	must(weir_stream_read(native, file, 0, &b, 0, N));
	must(weir_stream_sync(native, 20 * SEC));
	slow_disk = 0;
	must(weir_tensor_get(&b, N - 1, &last, 1));
	is_int(last, 0x77,
	       "a read on a native stream waits for a write of the same bytes");
	weir_event_free(ev);
	weir_file_close(file);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void large(void)
{
	struct weir_tensor a = patterned(weir, LARGE, 7),
			   b = on_gpu(weir, LARGE);
	struct weir_file *file = temp_file(weir, 0, 0);

	for (size_t at = 0; at < LARGE; at += LARGE / 160)
		must(weir_stream_write(native, file, at, &a, at, LARGE / 160));
	must(weir_stream_read(native, file, 0, &b, 0, LARGE));
	is_int(weir_stream_sync(native, 40 * SEC), 0,
	       "writes and a read of more bytes than the slots have end");
	ok(holds_pattern(&b, LARGE, 7),
	   "writes and a read of more bytes than the slots have move each byte");
	weir_file_close(file);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void host_memory(void)
{
	struct weir_file *file = temp_file(weir, N, 9);
	struct weir_tensor d = patterned(weir, N, 8), h;
	int64_t shape = N;
	struct weir_buf *buf;

	must(weir_tensor_init(&h, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), N, NULL, &buf));
	must(weir_tensor_place(&h, buf, 0));
	fake.set("RATE", "1e8");
	must(weir_stream_get(native, &d, 0, weir_tensor_data(&h), N));
	must(weir_stream_read(native, file, 0, &h, 0, N));
	fake.set("RATE", "0");
	ok(is_pattern(weir_tensor_data(&h), N, 9),
	   "a read to host memory on a native stream returns with the bytes");
	must(weir_stream_copy(native, &d, &h));
	must(weir_stream_sync(native, 20 * SEC));
	ok(holds_pattern(&d, N, 9),
	   "work after a read to host memory on a native stream sees the bytes");
	weir_file_close(file);
	weir_buf_free(buf);
	weir_buf_free(d.buf);
}

/* Copies and fills that the driver refuses. */
static void refusals(struct weir_file *file, struct weir_tensor *d)
{
	int r;

	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_ONCE, 999);
	(void)weir_stream_read(native, file, 0, d, 0, 4096);
	is_err(weir_stream_sync(native, 20 * SEC), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a copy that the driver refuses fails a native stream in the driver's words");
	must(weir_stream_reset(native));
	/* The read may find the stream failed, or about to be. */
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_ONCE, 999);
	must(weir_stream_fill(native, d, 0, N, 1));
	r = weir_stream_read(native, file, 0, d, 0, 4096);
	ok(r == 0 || r == -ECANCELED, "a read after work that fails returns");
	is_err(weir_stream_sync(native, 20 * SEC), -EIO, "CUDA_ERROR_UNKNOWN",
	       "weir_stream_sync after a read that was not begun returns the failure");
	must(weir_stream_reset(native));
}

static void failures(void)
{
	struct weir_tensor d = on_gpu(weir, N);
	struct weir_file *file = temp_file(weir, 4096, 0);

	(void)weir_stream_read(native, file, 0, &d, 0, N);
	is_err(weir_stream_sync(native, 20 * SEC), -ENODATA, "ends before",
	       "a read over the end of the file fails a native stream");
	is_err(weir_stream_read(native, file, 0, &d, 0, 16), -ECANCELED,
	       "ends before", "a native stream that failed takes no read");
	must(weir_stream_reset(native));
	if (on_fake(3))
		refusals(file, &d);
	must(weir_stream_read(native, file, 0, &d, 0, 4096));
	is_int(weir_stream_sync(native, 20 * SEC), 0,
	       "a native stream that was reset reads again");
	weir_file_close(file);
	weir_buf_free(d.buf);
}

int main(void)
{
	static const struct {
		const char *prefix;
		uint32_t io;
	} method[] = { { "uring: ", WEIR_IO_URING },
		       { "sync: ", WEIR_IO_SYNC } };

	open_driver();
	plan(0);
	for (size_t i = 0; i < 2; i++) {
		struct weir_io_info info = { .size = sizeof(info) };

		tap_prefix(method[i].prefix);
		weir = open_cuda_by(method[i].io);
		if (weir_io_info(weir, &info) < 0) {
			skip(1, "%s", weir_error());
			weir_close(weir);
			continue;
		}
		native = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
		must(weir_stream_new(cpu_of(weir), NULL, &cpu));
		reads();
		rectangles(native, "a native stream");
		managed_rectangles();
		rectangles_submitted();
		writes();
		large();
		host_memory();
		failures();
		weir_stream_free(native);
		weir_stream_free(cpu);
		weir_close(weir);
		all_given_back("when the root is closed");
	}
	return done_testing();
}
