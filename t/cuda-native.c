/* SPDX-License-Identifier: MIT */
/*
 * Streams whose handle is known outside, on either driver. What they
 * wait for is made to hang on the stand-in, so that a call which returns did
 * not wait for its end.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "gpu.h"
#include "sample.h"

#define N ((size_t)1 << 20)
#define MODEL "cuda-native.safetensors"

static struct weir *weir;
static struct weir_stream *native, *s, *cpu;
static struct weir_tensor dev, dev2, pinned;
static unsigned char *data; /* of pinned */

/* A thread that waits on the native stream. */
struct waiting {
	pthread_t thread;
	struct weir_event *ev;
	_Atomic bool returned;
	int result;
};

static void *wait_main(void *arg)
{
	struct waiting *w = arg;

	w->result = weir_stream_wait(native, w->ev);
	w->returned = true;
	return NULL;
}

static void begin_wait(struct waiting *w, struct weir_event *ev)
{
	*w = (struct waiting){ .ev = ev };
	if (pthread_create(&w->thread, NULL, wait_main, w))
		bail("pthread_create");
}

static int end_wait(struct waiting *w)
{
	pthread_join(w->thread, NULL);
	return w->result;
}

/* The device is let go, and the stream sees what it waited for. */
static void then_sees(struct weir_event *ev, unsigned char byte)
{
	if (on_fake(1))
		is_int(weir_event_query(ev), 0, "... before that is done");
	memset(data, 0, N);
	must(weir_stream_get(native, &dev, 0, data, N));
	fake.release();
	is_int(weir_stream_sync(native, 20 * SEC), 0, "... for which it waits");
	ok(data[0] == byte && data[N - 1] == byte, "... and then sees it");
}

static void host_first(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct waiting w;
	struct gate gate;

	shut(s, &gate);
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &dev, 0, N, 0x11));
	must(weir_stream_record(s, ev));
	begin_wait(&w, ev);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT, "a stream is held");
	ok(!w.returned, "a wait for what it has not handed over blocks");
	open_gate(&gate);
	is_int(end_wait(&w), 0, "a wait ends when all is with the driver");
	then_sees(ev, 0x11);
	weir_event_free(ev);
}

static void any_memory(void)
{
	struct weir_event *ev = new_event(weir, 0);
	unsigned char *any = malloc(N);

	memset(any, 0x22, N);
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_HANG, 0);
	must(weir_stream_set(s, &dev, 0, any, N));
	must(weir_stream_record(s, ev));
	is_int(weir_stream_wait(native, ev), 0,
	       "a wait for what a helper copies ends when that is handed over");
	then_sees(ev, 0x22);
	weir_event_free(ev);
	free(any);
}

/* A file of one byte value, in one chunk. */
static struct weir_file *file_of(unsigned char byte)
{
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_tensor t = bytes(weir, N);

	memset(weir_tensor_data(&t), byte, N);
	must(weir_stream_write(cpu, file, 0, &t, 0, N));
	must(weir_stream_sync(cpu, -1));
	weir_buf_free(t.buf);
	return file;
}

static void file_first(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_file *file = file_of(0x33);

	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_HANG, 0);
	must(weir_stream_read(s, file, 0, &dev, 0, N));
	must(weir_stream_record(s, ev));
	is_int(weir_stream_wait(native, ev), 0,
	       "a wait for a file ends when its copies are handed over");
	then_sees(ev, 0x33);
	weir_event_free(ev);
	weir_file_close(file);
}

/* The copy of the one is with the driver, that of the other is not. */
static void in_part(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_file *file = file_of(0x34);
	struct weir_tensor big = on_gpu(weir, 4 * N);
	unsigned long before = fake.calls("cuMemcpyHtoDAsync");
	unsigned char *any = malloc(4 * N);
	struct waiting w;

	memset(any, 0x35, 4 * N);
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_HANG, 0);
	fake.arm("cuMemcpyHtoDAsync", 2, FAKECUDA_HANG, 0);
	must(weir_stream_read(s, file, 0, &dev, 0, N));
	while (fake.calls("cuMemcpyHtoDAsync") == before)
		usleep(1000);
	must(weir_stream_set(s, &big, 0, any, 4 * N));
	must(weir_stream_record(s, ev));
	begin_wait(&w, ev);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT, "a helper is held");
	ok(!w.returned, "a wait for what it has not handed over blocks, too");
	fake.release();
	is_int(end_wait(&w), 0, "... until it has");
	must(weir_stream_get(native, &big, 4 * N - 1, data, 1));
	must(weir_stream_sync(native, 20 * SEC));
	is_int(data[0], 0x35, "... and then sees it");
	weir_event_free(ev);
	weir_file_close(file);
	weir_buf_free(big.buf);
	free(any);
}

static void load_first(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_weights *weights;
	struct weir_load *load;
	const struct weir_tensor *t;
	struct weir_entry e = { .size = sizeof(e) };
	size_t wrong = 0;

	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_HANG, 0);
	load = sample_load(weir, MODEL, N, gpu_memory(weir, WEIR_MEM_DEVICE),
			   ev);
	is_int(weir_stream_wait(native, ev), 0,
	       "a wait for a tensor ends when its last copy is queued");
	if (on_fake(1))
		is_int(weir_event_query(ev), 0, "... before it is done");
	must(weir_load_weights(load, &weights));
	t = weir_weights_get(weights, 0);
	must(weir_weights_entry(weights, 0, &e));
	memset(data, 0, N);
	must(weir_stream_get(native, t, 0, data, N));
	fake.release();
	must(weir_stream_sync(native, 20 * SEC));
	for (size_t i = 0; i < N; i++)
		wrong += data[i] != sample_byte(e.offset + i, 1);
	is_int(wrong, 0, "... and then the stream sees all of it");
	weir_event_free(ev);
	weir_weights_free(weights);
	weir_load_free(load);
}

static int fill_host(void *arg)
{
	memset(arg, 0x44, N);
	return 0;
}

/* The driver calls them, in order with what others queue there. */
static void functions(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *w;
	struct CUstream_st *handle;
	int minus_5 = -5, calls = 0;

	must(weir_cuda_stream_native(native, &handle));
	must(weir_cuda_stream_wrap(gpu(weir), handle, &w));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	memset(data, 0, N);
	must(weir_stream_fill(native, &dev, 0, N, 1));
	is_int(weir_stream_call(native, fill_host, data), 0,
	       "a host function is queued");
	must(weir_stream_set(w, &dev, 0, data, N));
	must(weir_stream_record(native, ev));
	if (on_fake(1))
		is_int(data[0], 0, "... and waits for what is before it");
	fake.release();
	is_int(weir_event_wait(ev, 20 * SEC), 0, "... after which it is done");
	must(weir_stream_sync(w, 20 * SEC));
	memset(data, 0, N);
	must(weir_tensor_get(&dev, 0, data, N));
	ok(data[0] == 0x44 && data[N - 1] == 0x44,
	   "... before what others have queued behind it");
	must(weir_stream_call(native, fail_with, &minus_5));
	must(weir_stream_sync(w, 20 * SEC));
	is_err(weir_stream_sync(native, 20 * SEC), -5, "returned -5",
	       "its negative result fails the stream");
	must(weir_stream_reset(native));
	if (on_fake(1)) {
		fake.arm("cuLaunchHostFunc", 1, FAKECUDA_ONCE, 999);
		must(weir_stream_call(native, count_up, &calls));
		is_err(weir_stream_sync(native, 20 * SEC), -EIO,
		       "CUDA_ERROR_UNKNOWN",
		       "what the driver refuses fails it in its words");
		must(weir_stream_reset(native));
	}
	must(weir_stream_call(native, count_up, &calls));
	must(weir_stream_sync(native, 20 * SEC));
	is_int(calls, 1, "... and was not called");
	weir_stream_free(w);
	weir_event_free(ev);
}

static void *get_main(void *arg)
{
	struct waiting *w = arg;
	unsigned char byte = 0;

	w->result = weir_stream_get(native, &dev, 0, &byte, 1);
	w->returned = true;
	return NULL;
}

/* A caller that is held is the only one. */
static void others(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_file *file = temp_file(weir, N, 1);
	struct waiting w = { .ev = ev };
	struct weir_failure f;
	unsigned long before;

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(native, &dev, 0, N, 1));
	before = fake.calls("cuMemcpyDtoHAsync");
	if (pthread_create(&w.thread, NULL, get_main, &w))
		bail("pthread_create");
	while (fake.calls("cuMemcpyDtoHAsync") == before)
		usleep(1000);
	must(weir_stream_fill(s, &dev2, 0, N, 1));
	must(weir_stream_read(s, file, 0, &dev2, 0, N));
	must(weir_stream_record(s, ev));
	is_int(weir_event_wait(ev, 20 * SEC), 0,
	       "while a caller is held by a native stream others go on");
	is_int(weir_stream_error(native, &f), 0, "... and ask for its error");
	fake.release();
	is_int(end_wait(&w), 0, "... and so does he in the end");
	must(weir_stream_sync(native, 20 * SEC));
	weir_event_free(ev);
	weir_file_close(file);
}

static void failures(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct waiting w;
	struct gate gate;

	gate_init(&gate, -5);
	must(weir_stream_call(s, through_gate, &gate));
	must(weir_stream_record(s, ev));
	begin_wait(&w, ev);
	open_gate(&gate);
	(void)end_wait(&w);
	is_err(weir_stream_sync(native, 20 * SEC), -ECANCELED, "returned -5",
	       "a native stream fails with what it waits for");
	must(weir_stream_reset(native));
	must(weir_stream_reset(s));
	must(weir_stream_fill(native, &dev, 0, N, 0));
	is_int(weir_stream_sync(native, 20 * SEC), 0, "... until it is reset");
	weir_event_free(ev);
}

/* Who asks how a stream ended is not to wait for one more mark. */
static void closed(void)
{
	struct weir *root = open_cuda();
	struct weir_stream *late = gpu_stream(root, "late", WEIR_STREAM_NATIVE);
	struct weir_tensor t = on_gpu(root, N);

	must(weir_stream_fill(late, &t, 0, N, 1));
	weir_close(root);
	is_int(weir_stream_sync(late, 2 * SEC), 0,
	       "a native stream of a closed root can be asked");
	weir_stream_free(late);
	weir_buf_free(t.buf);
}

int main(void)
{
	int64_t shape = N;
	struct weir_buf *buf;

	open_driver();
	plan(36);
	weir = open_cuda();
	native = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	s = gpu_stream(weir, "ours", 0);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	dev = on_gpu(weir, N);
	dev2 = on_gpu(weir, N);
	must(weir_tensor_init(&pinned, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), N, NULL, &buf));
	must(weir_tensor_place(&pinned, buf, 0));
	data = weir_tensor_data(&pinned);
	host_first();
	any_memory();
	file_first();
	if (on_fake(4))
		in_part();
	load_first();
	functions();
	if (on_fake(3))
		others();
	failures();
	closed();
	weir_stream_free(native);
	weir_stream_free(s);
	weir_stream_free(cpu);
	weir_buf_free(dev.buf);
	weir_buf_free(dev2.buf);
	weir_buf_free(buf);
	weir_close(weir);
	all_given_back("after all,");
	return done_testing();
}
