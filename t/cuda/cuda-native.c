/* SPDX-License-Identifier: MIT */
/*
 * Native streams, on either driver. On the stand-in the work that they wait for
 * hangs, so that a call which returns did not wait for its end.
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
static unsigned char *data; /* bytes of @pinned */

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

/* The device goes on, and the native stream sees the bytes of @what. */
static void then_sees(struct weir_event *ev, unsigned char byte,
		      const char *what)
{
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "a wait for %s returns before that is done", what);
	memset(data, 0, N);
	must(weir_stream_get(native, &dev, 0, data, N));
	fake.release();
	is_int(weir_stream_sync(native, 20 * SEC), 0,
	       "a native stream that waits for %s ends", what);
	ok(data[0] == byte && data[N - 1] == byte,
	   "a native stream that waits for %s sees its bytes", what);
}

static void host_first(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct waiting w;
	struct hold hold;

	hold_stream(s, &hold);
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &dev, 0, N, 0x11));
	must(weir_stream_record(s, ev));
	begin_wait(&w, ev);
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT,
	       "an event after a blocked host function is not done");
	ok(!w.returned, "a wait for pending work blocks its caller");
	release_stream(&hold);
	is_int(end_wait(&w), 0,
	       "a wait for pending work returns when that is in the driver");
	then_sees(ev, 0x11, "pending work");
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
	       "a wait for a copy by a helper returns when that is in the driver");
	then_sees(ev, 0x22, "a copy by a helper");
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
	       "a wait for a file returns when its copies are in the driver");
	then_sees(ev, 0x33, "a file");
	weir_event_free(ev);
	weir_file_close(file);
}

/* The copy of the file is submitted, that of the helper is not. */
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
	is_int(weir_event_wait(ev, 30 * MS), -ETIMEDOUT,
	       "an event after a blocked helper is not done");
	ok(!w.returned,
	   "a wait for a file and a copy by a blocked helper blocks its caller");
	fake.release();
	is_int(end_wait(&w), 0,
	       "a wait for a file and a copy by a helper returns when both are in the driver");
	must(weir_stream_get(native, &big, 4 * N - 1, data, 1));
	must(weir_stream_sync(native, 20 * SEC));
	is_int(data[0], 0x35,
	       "a native stream that waits for a file and a copy by a helper sees both");
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
	       "a wait for a tensor of a load returns when its last copy is in the driver");
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "a wait for a tensor of a load returns before that is done");
	must(weir_load_weights(load, &weights));
	t = weir_weights_get(weights, 0);
	must(weir_weights_entry(weights, 0, &e));
	memset(data, 0, N);
	must(weir_stream_get(native, t, 0, data, N));
	fake.release();
	must(weir_stream_sync(native, 20 * SEC));
	for (size_t i = 0; i < N; i++)
		wrong += data[i] != sample_byte(e.offset + i, 1);
	is_int(wrong, 0,
	       "a native stream that waits for a tensor of a load sees all of it");
	weir_event_free(ev);
	weir_weights_free(weights);
	weir_load_free(load);
}

static int fill_host(void *arg)
{
	memset(arg, 0x44, N);
	return 0;
}

/* The driver calls it, in order with the work that others queue. */
static void function(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *w;
	struct CUstream_st *handle;

	must(weir_cuda_stream_native(native, &handle));
	must(weir_cuda_stream_wrap(gpu(weir), handle, &w));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	memset(data, 0, N);
	must(weir_stream_fill(native, &dev, 0, N, 1));
	is_int(weir_stream_call(native, fill_host, data), 0,
	       "weir_stream_call queues a host function on a native stream");
	must(weir_stream_set(w, &dev, 0, data, N));
	must(weir_stream_record(native, ev));
	if (on_fake(1))
		is_int(data[0], 0,
		       "a host function of a native stream waits for work before it");
	fake.release();
	is_int(weir_event_wait(ev, 20 * SEC), 0,
	       "the event of a host function of a native stream is done after it");
	must(weir_stream_sync(w, 20 * SEC));
	memset(data, 0, N);
	must(weir_tensor_get(&dev, 0, data, N));
	ok(data[0] == 0x44 && data[N - 1] == 0x44,
	   "work that others queue after a host function sees its effect");
	weir_stream_free(w);
	weir_event_free(ev);
}

static void failing_function(void)
{
	int minus_5 = -5, calls = 0;

	must(weir_stream_call(native, fail_with, &minus_5));
	is_err(weir_stream_sync(native, 20 * SEC), -5, "returned -5",
	       "a negative result of a host function fails a native stream");
	must(weir_stream_reset(native));
	if (on_fake(1)) {
		fake.arm("cuLaunchHostFunc", 1, FAKECUDA_ONCE, 999);
		must(weir_stream_call(native, count_up, &calls));
		is_err(weir_stream_sync(native, 20 * SEC), -EIO,
		       "CUDA_ERROR_UNKNOWN",
		       "a host function that the driver refuses fails the stream in the driver's words");
		must(weir_stream_reset(native));
	}
	must(weir_stream_call(native, count_up, &calls));
	must(weir_stream_sync(native, 20 * SEC));
	is_int(calls, 1,
	       "a host function that the driver refused is not called");
}

static void *get_main(void *arg)
{
	struct waiting *w = arg;
	unsigned char byte = 0;

	w->result = weir_stream_get(native, &dev, 0, &byte, 1);
	w->returned = true;
	return NULL;
}

/* A caller that is blocked blocks nobody else. */
static void others_go_on(void)
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
	       "other streams work while a caller is blocked by a native stream");
	is_int(weir_stream_error(native, &f), 0,
	       "weir_stream_error returns while a caller is blocked by the stream");
	fake.release();
	is_int(end_wait(&w), 0,
	       "a caller blocked by a native stream returns when the device goes on");
	must(weir_stream_sync(native, 20 * SEC));
	weir_event_free(ev);
	weir_file_close(file);
}

static void failures(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct waiting w;
	struct hold hold;

	hold_init(&hold, -5);
	must(weir_stream_call(s, hold_until_released, &hold));
	must(weir_stream_record(s, ev));
	begin_wait(&w, ev);
	release_stream(&hold);
	(void)end_wait(&w);
	is_err(weir_stream_sync(native, 20 * SEC), -ECANCELED, "returned -5",
	       "a native stream fails when the event it waits for does");
	must(weir_stream_reset(native));
	must(weir_stream_reset(s));
	must(weir_stream_fill(native, &dev, 0, N, 0));
	is_int(weir_stream_sync(native, 20 * SEC), 0,
	       "a native stream that was reset takes work");
	weir_event_free(ev);
}

/*
 * The driver makes the first wait, which is not over, and refuses the second.
 */
static void lost_wait(void)
{
	struct weir_stream *other = gpu_stream(weir, "other", 0);
	struct weir_event *ev = new_event(weir, 0), *ev2 = new_event(weir, 0);

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &dev, 0, N, 0x11));
	must(weir_stream_record(s, ev));
	must(weir_stream_wait(native, ev));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(other, &dev2, 0, N, 0x11));
	must(weir_stream_record(other, ev2));
	fake.arm("cuStreamWaitEvent", 1, FAKECUDA_ONCE, 2);
	is_err(weir_stream_wait(native, ev2), -ECANCELED, "OUT_OF_MEMORY",
	       "a native stream says that it could not wait, also behind a wait that is not over");
	fake.disarm();
	is_err(weir_stream_wait(native, ev2), -ECANCELED, "OUT_OF_MEMORY",
	       "it says so of later waits, too");
	fake.release();
	must(weir_stream_sync(other, 20 * SEC));
	(void)weir_stream_sync(native, 20 * SEC);
	must(weir_stream_reset(native));
	is_int(weir_stream_wait(native, ev2), 0,
	       "a native stream that was reset waits again");
	weir_event_free(ev);
	weir_event_free(ev2);
	weir_stream_free(other);
}

/* Asking how a stream ended does not wait for one more marker. */
static void closed_root(void)
{
	struct weir *root = open_cuda();
	struct weir_stream *late = gpu_stream(root, "late", WEIR_STREAM_NATIVE);
	struct weir_tensor t = on_gpu(root, N);

	must(weir_stream_fill(late, &t, 0, N, 1));
	weir_close(root);
	is_int(weir_stream_sync(late, 2 * SEC), 0,
	       "weir_stream_sync of a native stream of a closed root returns");
	weir_stream_free(late);
	weir_buf_free(t.buf);
}

int main(void)
{
	int64_t shape = N;
	struct weir_buf *buf;

	open_driver();
	plan(39);
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
	function();
	failing_function();
	if (on_fake(3))
		others_go_on();
	failures();
	if (on_fake(3))
		lost_wait();
	closed_root();
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
