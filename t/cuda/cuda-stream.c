/* SPDX-License-Identifier: MIT */
/* Streams and events over device memory, on either driver. */
#include <time.h>

#include "gpu.h"

static struct weir *weir;

static void moves(void)
{
	struct weir_stream *s = gpu_stream(weir, "moves", 0);
	struct weir_tensor a = on_gpu(weir, 3 << 20), b = on_gpu(weir, 3 << 20);
	unsigned char *in = malloc(3 << 20), *out = malloc(3 << 20);

	pattern(in, 3 << 20, 1);
	ok(!weir_tensor_data(&a), "device memory has no address for the host");
	must(weir_stream_set(s, &a, 0, in, 3 << 20));
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_get(s, &b, 0, out, 3 << 20));
	is_int(weir_stream_sync(s, -1), 0,
	       "weir_stream_sync waits for a set, a copy and a get of device memory");
	is_mem(out, in, 3 << 20,
	       "bytes that are set, copied and got back from a device are the same");
	must(weir_stream_fill(s, &a, 10, 5, 0xee));
	must(weir_stream_get(s, &a, 8, out, 9));
	must(weir_stream_sync(s, -1));
	memset(in + 10, 0xee, 5);
	is_mem(out, in + 8, 9,
	       "a fill of device memory writes its bytes and no others");
	is_err(weir_stream_set(s, &a, 3 << 20, in, 1), -EINVAL, "has 3145728",
	       "a set outside of a device tensor returns -EINVAL");
	is_err(weir_stream_fill(s, &a, 1, SIZE_MAX, 0), -EINVAL, "has 3145728",
	       "a fill of SIZE_MAX bytes of a device tensor returns -EINVAL");
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
	free(in);
	free(out);
}

static void rectangles(void)
{
	struct weir_rect r = {
		.off = 3, .width = 4, .rows = 3, .pitch = 10, .host_pitch = 6
	};
	struct weir_stream *s = gpu_stream(weir, "rectangles", 0);
	struct weir_tensor t = on_gpu(weir, 64);
	unsigned char in[64], out[64];

	pattern(in, 64, 1);
	must(weir_stream_fill(s, &t, 0, 64, 0));
	must(weir_stream_set_2d(s, &t, &r, in));
	must(weir_stream_get(s, &t, 0, out, 64));
	must(weir_stream_sync(s, -1));
	ok(!memcmp(out + 3, in, 4) && !memcmp(out + 13, in + 6, 4) &&
		   !memcmp(out + 23, in + 12, 4) && !out[7] && !out[12],
	   "weir_stream_set_2d writes rows at the tensor's pitch, and nothing between");
	memset(out, 0, 16);
	must(weir_stream_get_2d(s, &t, &r, out));
	must(weir_stream_sync(s, -1));
	ok(!memcmp(out, in, 4) && !memcmp(out + 6, in + 6, 4) && !out[4],
	   "weir_stream_get_2d writes rows at the host's pitch, and nothing between");
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

static void blocking_calls(void)
{
	struct weir_tensor a = on_gpu(weir, 1001), b = on_gpu(weir, 1001);
	unsigned char in[1000], out[1000];

	pattern(in, 1000, 1);
	must(weir_tensor_set(&a, 1, in, 1000));
	must(weir_tensor_copy(&b, &a));
	must(weir_tensor_get(&b, 1, out, 1000));
	is_mem(out, in, 1000,
	       "blocking set, copy and get of device memory move the same bytes");
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

/* Views, and host tensors besides device tensors. */
static void mixed(void)
{
	struct weir_stream *s = gpu_stream(weir, "mixed", 0);
	struct weir_tensor d = on_gpu(weir, 4096), h = bytes(weir, 4096);
	struct weir_tensor other = bytes(weir, 4096);
	unsigned char *host = weir_tensor_data(&h);

	pattern(host, 4096, 7);
	must(weir_stream_copy(s, &d, &h));
	must(weir_stream_fill(s, &h, 0, 4096, 0));
	must(weir_stream_copy(s, &h, &d));
	must(weir_stream_copy(s, &other, &h));
	must(weir_stream_sync(s, -1));
	ok(is_pattern(host, 4096, 7),
	   "tensors of the host are copied to a device and back, in order");
	ok(is_pattern(weir_tensor_data(&other), 4096, 7),
	   "a stream of a device copies between tensors of the host");
	weir_stream_free(s);
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
	weir_buf_free(other.buf);
}

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static int64_t longest;

#define timed(call)                              \
	do {                                     \
		int64_t begun = now();           \
		must(call);                      \
		if (now() - begun > longest)     \
			longest = now() - begun; \
	} while (0)

/* Three copies of 0.4 s each. */
static void queue_slow_copies(struct weir_stream *s, struct weir_tensor *t,
			      unsigned char *out, const unsigned char *in,
			      struct weir_event *ev)
{
	longest = 0;
	fake.set("RATE", "1e7");
	timed(weir_stream_set(s, t, 0, in, 4 << 20));
	timed(weir_stream_copy(s, t, t));
	timed(weir_stream_get(s, t, 0, out, 4 << 20));
	timed(weir_stream_record(s, ev));
	timed(weir_stream_fill(s, t, 0, 100, 0));
}

/* Another program may stop this one for as long as a copy; hardly each time. */
static void never_blocks(void)
{
	struct weir_stream *s = gpu_stream(weir, "slow", 0);
	struct weir_tensor t = on_gpu(weir, 4 << 20);
	unsigned char *in = malloc(4 << 20), *out = malloc(4 << 20);
	struct weir_event *ev = new_event(weir, 0);

	pattern(in, 4 << 20, 3);
	queue_slow_copies(s, &t, out, in, ev);
	if (on_fake(2)) {
		is_int(weir_event_query(ev), 0,
		       "an event after copies that run is not done");
		is_int(weir_event_wait(ev, 1 * MS), -ETIMEDOUT,
		       "a wait for copies that run returns -ETIMEDOUT after its timeout");
	}
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "an event after copies of a device is done when they are");
	ok(is_pattern(out, 4 << 20, 3),
	   "the bytes of a get are there when its event is done");
	for (int i = 0; i < 5 && longest >= 300 * MS; i++) {
		must(weir_stream_sync(s, -1));
		queue_slow_copies(s, &t, out, in, ev);
	}
	fake.set("RATE", "0");
	ok(longest < 300 * MS,
	   "no queuing call takes as long as a copy: %.3f ms",
	   (double)longest / MS);
	must(weir_stream_sync(s, -1));
	weir_event_free(ev);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	free(in);
	free(out);
}

static void waits_for_device(void)
{
	struct weir_stream *a = gpu_stream(weir, "a", 0);
	struct weir_stream *b = gpu_stream(weir, "b", 0);
	struct weir_tensor d = on_gpu(weir, 4 << 20);
	struct weir_event *ev = new_event(weir, 0);
	unsigned long before = fake.calls("cuStreamWaitEvent");
	unsigned char out[16] = { 0 };
	struct weir_buf *pinned;
	void *data;

	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), 4 << 20, NULL,
			    &pinned));
	data = weir_buf_data(pinned);
	pattern(data, 4 << 20, 5);
	fake.set("RATE", "1e8");
	must(weir_stream_set(a, &d, 0, data, 4 << 20));
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	must(weir_stream_get(b, &d, (4 << 20) - 16, out, 16));
	if (on_fake(1))
		is_int(fake.calls("cuStreamWaitEvent") - before, 1,
		       "a CUDA stream waits for another by a driver event");
	must(weir_stream_sync(b, -1));
	fake.set("RATE", "0");
	is_mem(out, (unsigned char *)data + (4 << 20) - 16, 16,
	       "a CUDA stream that waits for another sees its bytes");
	weir_event_free(ev);
	weir_stream_free(a);
	weir_stream_free(b);
	weir_buf_free(pinned);
	weir_buf_free(d.buf);
}

static void waits_for_host(void)
{
	struct weir_stream *s = gpu_stream(weir, "device", 0), *cpu;
	struct weir_tensor d = on_gpu(weir, 4 << 20), h = bytes(weir, 16);
	struct weir_event *ev = new_event(weir, 0);
	struct hold hold;

	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	fake.set("RATE", "1e8");
	must(weir_stream_fill(s, &d, 0, 4 << 20, 9));
	must(weir_stream_record(s, ev));
	must(weir_stream_wait(cpu, ev));
	must(weir_stream_fill(cpu, &h, 0, 16, 1));
	must(weir_stream_sync(cpu, -1));
	fake.set("RATE", "0");
	is_int(weir_event_query(ev), 1, "a CPU stream waits for a CUDA one");
	hold_stream(cpu, &hold);
	must(weir_stream_record(cpu, ev));
	must(weir_stream_wait(s, ev));
	must(weir_stream_fill(s, &d, 0, 16, 7));
	must(weir_stream_record(s, ev));
	is_int(weir_event_wait(ev, 5 * MS), -ETIMEDOUT,
	       "an event of a CUDA stream that waits for a CPU stream is not done");
	release_stream(&hold);
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "a CUDA stream that waits for a CPU stream goes on when that does");
	weir_event_free(ev);
	weir_stream_free(s);
	weir_stream_free(cpu);
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
}

/* An event that only the driver can complete, seen by poll(2). */
static void descriptors(void)
{
	struct weir_stream *s = gpu_stream(weir, "fd", 0);
	struct weir_event *ev = new_event(weir, WEIR_EVENT_TIMED);
	struct weir_tensor d = on_gpu(weir, 1 << 20);
	int fd;

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &d, 0, 1 << 20, 1));
	must(weir_stream_record(s, ev));
	fd = weir_event_fd(ev);
	ok(fd >= 0, "an event of a device has a descriptor");
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "an event with a descriptor is not done before the device is");
	fake.release();
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "a wait for an event with a descriptor returns when the device is done");
	weir_event_free(ev);
	weir_stream_free(s);
	weir_buf_free(d.buf);
}

static void files(void)
{
	struct weir_stream *s = gpu_stream(weir, "files", 0);
	struct weir_file *f = temp_file(weir, 9 << 20, 11);
	struct weir_tensor d = on_gpu(weir, 9 << 20);
	unsigned char *out = malloc(9 << 20), edge[8];

	must(weir_stream_fill(s, &d, 0, 9 << 20, 0xaa));
	must(weir_stream_read(s, f, 4, &d, 4, (9 << 20) - 8));
	must(weir_stream_fill(s, &d, 0, 2, 0xbb));
	must(weir_stream_get(s, &d, 0, out, 9 << 20));
	is_int(weir_stream_sync(s, -1), 0,
	       "weir_stream_read reads a file to device memory");
	pattern(edge, 8, 11);
	ok(out[0] == 0xbb && out[2] == 0xaa && out[(9 << 20) - 1] == 0xaa,
	   "a read to device memory is in order, and writes nothing beside its bytes");
	out[0] = edge[0];
	memcpy(out, edge, 4);
	out[(9 << 20) - 4] = out[(9 << 20) - 4];
	ok(is_pattern(out, (9 << 20) - 4, 11),
	   "a read to device memory writes each byte");
	must(weir_stream_read(s, f, (9 << 20) - 10, &d, 0, 20));
	is_err(weir_stream_sync(s, -1), -ENODATA, "ends before",
	       "a read over the end of the file fails a stream of a device");
	is_int(weir_stream_reset(s), 0,
	       "a stream of a device can be reset after a failed read");
	must(weir_stream_fill(s, &d, 0, 16, 1));
	is_int(weir_stream_sync(s, -1), 0,
	       "a stream of a device works after a reset");
	weir_stream_free(s);
	weir_file_close(f);
	weir_buf_free(d.buf);
	free(out);
}

static void handles(void)
{
	struct weir_stream *n = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	struct weir_stream *s = gpu_stream(weir, "own", 0), *cpu;
	struct CUstream_st *handle = NULL;

	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	is_int(weir_cuda_stream_native(n, &handle), 0,
	       "a native stream has a handle");
	ok(handle != NULL, "the handle of a native stream is not NULL");
	is_err(weir_cuda_stream_native(s, &handle), -EOPNOTSUPP, "overtaken",
	       "the handle of a stream that is not native is -EOPNOTSUPP");
	is_err(weir_cuda_stream_native(cpu, &handle), -EOPNOTSUPP, "CPU",
	       "the handle of a CPU stream is -EOPNOTSUPP");
	weir_stream_free(n);
	weir_stream_free(s);
	weir_stream_free(cpu);
}

/* A stream around the handle of @native. */
static struct weir_stream *wrapped(struct weir_stream *native)
{
	struct CUstream_st *handle;
	struct weir_stream *w;

	must(weir_cuda_stream_native(native, &handle));
	must(weir_cuda_stream_wrap(gpu(weir), handle, &w));
	return w;
}

static void two_users(void)
{
	struct weir_stream *n = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_tensor d = on_gpu(weir, 1 << 20);
	unsigned char in[64], out[64] = { 0 };
	struct weir_stream *w = wrapped(n);

	pattern(in, 64, 2);
	must(weir_stream_set(n, &d, 0, in, 64));
	must(weir_stream_get(w, &d, 0, out, 64));
	must(weir_stream_record(w, ev));
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "an event of a wrapped stream is done after work of the stream it wraps");
	is_mem(out, in, 64,
	       "work of a native stream and of one that wraps it is in order");
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(n, &d, 0, 1 << 20, 4));
	must(weir_stream_record(w, ev));
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "an event of a wrapped stream covers work that others queued");
	fake.release();
	must(weir_event_wait(ev, -1));
	weir_stream_free(w);
	weir_stream_free(n);
	weir_event_free(ev);
	weir_buf_free(d.buf);
}

static void native_waits(void)
{
	struct weir_stream *n = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	struct weir_stream *s = gpu_stream(weir, "own", 0), *cpu;
	struct weir_event *ev = new_event(weir, 0);
	struct weir_tensor d = on_gpu(weir, 1 << 20);
	struct weir_stream *w = wrapped(n);
	unsigned char byte = 0;
	struct hold hold;

	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	hold_stream(cpu, &hold);
	must(weir_stream_record(cpu, ev));
	release_stream(&hold);
	is_int(weir_stream_wait(w, ev), 0,
	       "a wait of a native stream for host work returns");
	is_int(weir_event_query(ev), 1,
	       "a wait of a native stream for host work returns after it is done");
	must(weir_stream_fill(s, &d, 0, 64, 3));
	must(weir_stream_record(s, ev));
	must(weir_stream_wait(w, ev));
	must(weir_stream_get(w, &d, 0, &byte, 1));
	must(weir_stream_sync(w, -1));
	is_int(byte, 3,
	       "work of a native stream sees the bytes of a stream that it waited for");
	weir_stream_free(w);
	weir_stream_free(n);
	weir_stream_free(s);
	weir_stream_free(cpu);
	weir_event_free(ev);
	weir_buf_free(d.buf);
}

static int released;

static void release(void *arg)
{
	(void)arg;
	released++;
}

static void pointers(void)
{
	struct weir_tensor d = on_gpu(weir, 4096), h = bytes(weir, 64), part;
	unsigned char out[8] = { 0 };
	int64_t shape = 8;
	struct weir_buf *buf;
	uint64_t ptr = 0;

	is_int(weir_cuda_buf_ptr(d.buf, &ptr), 0,
	       "weir_cuda_buf_ptr returns the address of a device buffer");
	ok(ptr && ptr % 256 == 0, "the address of a device buffer is aligned");
	is_err(weir_cuda_buf_ptr(h.buf, &ptr), -EOPNOTSUPP, "CPU",
	       "weir_cuda_buf_ptr of host memory is -EOPNOTSUPP");
	must(weir_tensor_fill(&d, 0, 4096, 0x5a));
	is_int(weir_cuda_buf_wrap(gpu(weir), ptr + 3, 8, release, NULL, &buf),
	       0, "weir_cuda_buf_wrap takes memory of the caller's");
	must(weir_tensor_init(&part, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&part, buf, 0));
	must(weir_tensor_get(&part, 0, out, 8));
	ok(out[0] == 0x5a && out[7] == 0x5a,
	   "a wrapped buffer has the caller's bytes");
	weir_buf_free(buf);
	is_int(released, 1, "a wrapped buffer calls its release function");
	is_err(weir_cuda_buf_wrap(gpu(weir), ptr + 4000, 97, NULL, NULL, &buf),
	       -EINVAL, "are allocated in a row",
	       "weir_cuda_buf_wrap of bytes beyond an allocation is -EINVAL");
	is_err(weir_cuda_buf_wrap(gpu(weir), (uintptr_t)out, 8, NULL, NULL,
				  &buf),
	       -EINVAL, "no address of device memory",
	       "weir_cuda_buf_wrap of host memory is -EINVAL");
	is_err(weir_cuda_buf_wrap(cpu_of(weir), ptr, 8, NULL, NULL, &buf),
	       -EOPNOTSUPP, "CPU",
	       "weir_cuda_buf_wrap for a device that is not CUDA's is -EOPNOTSUPP");
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
}

int main(void)
{
	open_driver();
	plan(51);
	weir = open_cuda();
	moves();
	rectangles();
	blocking_calls();
	mixed();
	never_blocks();
	waits_for_device();
	waits_for_host();
	descriptors();
	files();
	handles();
	two_users();
	native_waits();
	pointers();
	weir_close(weir);
	all_given_back("after all,");
	return done_testing();
}
