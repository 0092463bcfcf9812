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
	struct weir_rect r = {
		.off = 3, .width = 4, .rows = 3, .pitch = 10, .host_pitch = 6
	};

	pattern(in, 3 << 20, 1);
	ok(!weir_tensor_data(&a), "device memory has no address for the host");
	must(weir_stream_set(s, &a, 0, in, 3 << 20));
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_get(s, &b, 0, out, 3 << 20));
	is_int(weir_stream_sync(s, -1), 0, "a stream is synchronised");
	is_mem(out, in, 3 << 20,
	       "what is set, copied and got back is the same");
	must(weir_stream_fill(s, &a, 10, 5, 0xee));
	must(weir_stream_get(s, &a, 8, out, 9));
	must(weir_stream_sync(s, -1));
	memset(in + 10, 0xee, 5);
	is_mem(out, in + 8, 9, "a fill touches its bytes and no others");
	must(weir_stream_fill(s, &b, 0, 64, 0));
	must(weir_stream_set_2d(s, &b, &r, in));
	must(weir_stream_get(s, &b, 0, out, 64));
	must(weir_stream_sync(s, -1));
	ok(!memcmp(out + 3, in, 4) && !memcmp(out + 13, in + 6, 4) &&
		   !memcmp(out + 23, in + 12, 4) && !out[7] && !out[12],
	   "rows are set at their pitch, and nothing beside them");
	memset(out, 0, 16);
	must(weir_stream_get_2d(s, &b, &r, out));
	must(weir_stream_sync(s, -1));
	ok(!memcmp(out, in, 4) && !memcmp(out + 6, in + 6, 4) && !out[4],
	   "... and got back at theirs");
	must(weir_tensor_set(&a, 1, in, 1000));
	must(weir_tensor_copy(&b, &a));
	must(weir_tensor_get(&b, 1, out, 1000));
	is_mem(out, in, 1000, "the blocking calls move the same bytes");
	is_err(weir_stream_set(s, &a, 3 << 20, in, 1), -EINVAL, "has 3145728",
	       "bytes outside of the tensor are refused");
	is_err(weir_stream_fill(s, &a, 1, SIZE_MAX, 0), -EINVAL, "has 3145728",
	       "... also where their end wraps");
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
	free(in);
	free(out);
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
	   "... and to each other");
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

/* 4 MiB at 0.1 GB/s are 40 ms. */
static void never_blocks(void)
{
	struct weir_stream *s = gpu_stream(weir, "slow", 0);
	struct weir_tensor t = on_gpu(weir, 4 << 20);
	unsigned char *in = malloc(4 << 20), *out = malloc(4 << 20);
	struct weir_event *ev = new_event(weir, 0);

	pattern(in, 4 << 20, 3);
	fake.set("RATE", "1e8");
	timed(weir_stream_set(s, &t, 0, in, 4 << 20));
	timed(weir_stream_copy(s, &t, &t));
	timed(weir_stream_get(s, &t, 0, out, 4 << 20));
	timed(weir_stream_record(s, ev));
	if (on_fake(2)) {
		is_int(weir_event_query(ev), 0, "copies are on their way");
		is_int(weir_event_wait(ev, 1 * MS), -ETIMEDOUT,
		       "a thread waits no longer than it says");
	}
	timed(weir_stream_fill(s, &t, 0, 100, 0));
	is_int(weir_event_wait(ev, 10 * SEC), 0, "the event is done");
	ok(is_pattern(out, 4 << 20, 3), "... and its work visible");
	fake.set("RATE", "0");
	ok(longest < 30 * MS, "no call took as long as a copy: %.3f ms",
	   (double)longest / MS);
	must(weir_stream_sync(s, -1));
	weir_event_free(ev);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	free(in);
	free(out);
}

static void waits(void)
{
	struct weir_stream *a = gpu_stream(weir, "a", 0);
	struct weir_stream *b = gpu_stream(weir, "b", 0);
	struct weir_stream *cpu;
	struct weir_tensor d = on_gpu(weir, 4 << 20), h = bytes(weir, 16);
	unsigned char *in = malloc(4 << 20), out[16] = { 0 };
	struct weir_event *ev = new_event(weir, 0);
	struct weir_buf *pinned;
	unsigned long before = fake.calls("cuStreamWaitEvent");
	struct gate gate;
	void *data;

	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), 4 << 20, NULL,
			    &pinned));
	data = weir_buf_data(pinned);
	pattern(data, 4 << 20, 5);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	fake.set("RATE", "1e8");
	must(weir_stream_set(a, &d, 0, data, 4 << 20));
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	must(weir_stream_get(b, &d, (4 << 20) - 16, out, 16));
	if (on_fake(1))
		is_int(fake.calls("cuStreamWaitEvent") - before, 1,
		       "a CUDA stream waits for another by a driver event");
	must(weir_stream_sync(b, -1));
	is_mem(out, (unsigned char *)data + (4 << 20) - 16, 16,
	       "... and sees what it waited for");
	must(weir_stream_fill(a, &d, 0, 4 << 20, 9));
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(cpu, ev));
	must(weir_stream_fill(cpu, &h, 0, 16, 1));
	must(weir_stream_sync(cpu, -1));
	is_int(weir_event_query(ev), 1, "a CPU stream waits for a CUDA one");
	fake.set("RATE", "0");
	shut(cpu, &gate);
	must(weir_stream_record(cpu, ev));
	must(weir_stream_wait(b, ev));
	must(weir_stream_fill(b, &d, 0, 16, 7));
	must(weir_stream_record(b, ev));
	is_int(weir_event_wait(ev, 5 * MS), -ETIMEDOUT,
	       "a CUDA stream waits for a CPU one");
	open_gate(&gate);
	is_int(weir_event_wait(ev, 10 * SEC), 0, "... until that is done");
	weir_event_free(ev);
	weir_stream_free(a);
	weir_stream_free(b);
	weir_stream_free(cpu);
	weir_buf_free(pinned);
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
	free(in);
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
		       "... and is not done before the device is");
	fake.release();
	is_int(weir_event_wait(ev, 10 * SEC), 0, "... and is waited for");
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
	is_int(weir_stream_sync(s, -1), 0, "a file is read to device memory");
	pattern(edge, 8, 11);
	ok(out[0] == 0xbb && out[2] == 0xaa && out[(9 << 20) - 1] == 0xaa,
	   "... in the order of the stream, and nothing beside it");
	out[0] = edge[0];
	memcpy(out, edge, 4);
	out[(9 << 20) - 4] = out[(9 << 20) - 4];
	ok(is_pattern(out, (9 << 20) - 4, 11), "... every byte of it");
	must(weir_stream_read(s, f, (9 << 20) - 10, &d, 0, 20));
	is_err(weir_stream_sync(s, -1), -ENODATA, "ends before",
	       "a read over the end of the file fails the stream");
	is_int(weir_stream_reset(s), 0, "... which can be used again");
	must(weir_stream_fill(s, &d, 0, 16, 1));
	is_int(weir_stream_sync(s, -1), 0, "... and works");
	weir_stream_free(s);
	weir_file_close(f);
	weir_buf_free(d.buf);
	free(out);
}

static void native(void)
{
	struct weir_stream *n = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	struct weir_stream *s = gpu_stream(weir, "own", 0), *w, *cpu;
	struct weir_event *ev = new_event(weir, 0);
	struct weir_tensor d = on_gpu(weir, 1 << 20);
	struct CUstream_st *handle = NULL;
	unsigned char in[64], out[64] = { 0 };
	struct gate gate;

	pattern(in, 64, 2);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	is_int(weir_cuda_stream_native(n, &handle), 0,
	       "a native stream has a handle");
	ok(handle != NULL, "... which is not NULL");
	is_err(weir_cuda_stream_native(s, &handle), -EOPNOTSUPP, "overtaken",
	       "other streams do not give theirs out");
	is_err(weir_cuda_stream_native(cpu, &handle), -EOPNOTSUPP, "CPU",
	       "... and those of the CPU have none");
	is_int(weir_cuda_stream_wrap(gpu(weir), handle, &w), 0,
	       "a stream of the caller's is wrapped");
	must(weir_stream_set(n, &d, 0, in, 64));
	must(weir_stream_get(w, &d, 0, out, 64));
	must(weir_stream_record(w, ev));
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "work of both goes into the one stream");
	is_mem(out, in, 64, "... in order");
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(n, &d, 0, 1 << 20, 4));
	must(weir_stream_record(w, ev));
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "an event covers what others have queued there");
	fake.release();
	must(weir_event_wait(ev, -1));
	shut(cpu, &gate);
	must(weir_stream_record(cpu, ev));
	open_gate(&gate);
	is_int(weir_stream_wait(w, ev), 0,
	       "a wait for the host holds the caller instead");
	is_int(weir_event_query(ev), 1, "... until that is done");
	must(weir_stream_fill(s, &d, 0, 64, 3));
	must(weir_stream_record(s, ev));
	must(weir_stream_wait(w, ev));
	must(weir_stream_get(w, &d, 0, out, 1));
	must(weir_stream_sync(w, -1));
	is_int(out[0], 3, "a wait for another stream is the device's");
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

	is_int(weir_cuda_buf_ptr(d.buf, &ptr), 0, "a buffer has an address");
	ok(ptr && ptr % 256 == 0, "... that is aligned");
	is_err(weir_cuda_buf_ptr(h.buf, &ptr), -EOPNOTSUPP, "CPU",
	       "host memory has none of a device");
	must(weir_tensor_fill(&d, 0, 4096, 0x5a));
	is_int(weir_cuda_buf_wrap(gpu(weir), ptr + 3, 8, release, NULL, &buf),
	       0, "memory of the caller's is wrapped");
	must(weir_tensor_init(&part, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&part, buf, 0));
	must(weir_tensor_get(&part, 0, out, 8));
	ok(out[0] == 0x5a && out[7] == 0x5a, "... and is where it was");
	weir_buf_free(buf);
	is_int(released, 1, "... and is released");
	is_err(weir_cuda_buf_wrap(gpu(weir), ptr + 4000, 97, NULL, NULL, &buf),
	       -EINVAL, "are allocated in a row",
	       "bytes beyond the end of an allocation are refused");
	is_err(weir_cuda_buf_wrap(gpu(weir), (uintptr_t)out, 8, NULL, NULL,
				  &buf),
	       -EINVAL, "no address of device memory", "... and host memory");
	is_err(weir_cuda_buf_wrap(cpu_of(weir), ptr, 8, NULL, NULL, &buf),
	       -EOPNOTSUPP, "CPU", "... and devices that are not CUDA's");
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
}

int main(void)
{
	open_driver();
	plan(52);
	weir = open_cuda();
	moves();
	mixed();
	never_blocks();
	waits();
	descriptors();
	files();
	native();
	pointers();
	weir_close(weir);
	all_given_back("after all,");
	return done_testing();
}
