/* SPDX-License-Identifier: MIT */
/*
 * Behaviour of a real driver that is easily forgotten. Tests that lose the
 * device run in a process of their own.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "gpu.h"
#include "sample.h"

#define MODEL "cuda-traps.safetensors"
#define SALT 9u
#define COUNT 200u
#define N ((size_t)1 << 20)
#define MIB ((uint64_t)1 << 20)
#define STREAM_LEGACY ((struct CUstream_st *)0x1)
#define STREAM_PER_THREAD ((struct CUstream_st *)0x2)
#define MODE_GLOBAL 0

/* Driver calls that the program makes itself. */
static struct {
	int (*stream)(struct CUstream_st **stream, unsigned flags);
	int (*begin)(struct CUstream_st *stream, int mode);
	int (*end)(struct CUstream_st *stream, void **graph);
	int (*exchange)(int *mode);
	uint64_t (*map)(int dev, size_t bytes, unsigned n);
	void (*unmap)(uint64_t ptr);
} drv;

static void find_calls(void)
{
	*(void **)&drv.stream = fake_symbol("cuStreamCreate");
	*(void **)&drv.begin = fake_symbol("cuStreamBeginCapture_v2");
	*(void **)&drv.end = fake_symbol("cuStreamEndCapture");
	*(void **)&drv.exchange =
		fake_symbol("cuThreadExchangeStreamCaptureMode");
	*(void **)&drv.map = fake_symbol("fakecuda_map");
	*(void **)&drv.unmap = fake_symbol("fakecuda_unmap");
	enter_context();
}

static struct CUstream_st *new_program_stream(void)
{
	struct CUstream_st *stream;

	if (drv.stream(&stream, 1))
		bail("no stream");
	return stream;
}

/* Tensors of odd sizes: one batch copies them from one slot. */
static void write_model(void)
{
	static struct sample_tensor t[COUNT];
	static char names[COUNT][8];

	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "t%u", i % 1000);
		t[i] = (struct sample_tensor){ names[i], "U8", 1101 + i, 1 };
	}
	sample_write(MODEL, t, COUNT, 0, SALT);
}

/* How many tensors have wrong bytes; -1 if the load fails. */
static int load_model(struct weir *weir)
{
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_weights *w;
	int r;

	must(weir_model_open(weir, MODEL, NULL, &model));
	must(weir_plan_new(model, &plan));
	must(weir_plan_add(plan, NULL, gpu_memory(weir, WEIR_MEM_DEVICE),
			   NULL));
	must(weir_load_start(plan, NULL, &load));
	weir_plan_free(plan);
	weir_model_close(model);
	r = weir_load_wait(load, 60 * SEC);
	if (r < 0)
		diag("%s", weir_error());
	if (r == 0) {
		must(weir_load_weights(load, &w));
		r = (int)sample_wrong(w, SALT);
		weir_weights_free(w);
	}
	weir_load_free(load);
	return r < 0 ? -1 : r;
}

static int in_a_child(int (*fn)(int), int arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(fn(arg));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

/* While this thread captures, the library does work of all kinds. */
static void beside_a_capture(void)
{
	struct weir *weir = open_cuda();
	struct weir_tensor t, pinned = bytes(weir, N);
	struct CUstream_st *captured = new_program_stream();
	struct weir_stream *s = gpu_stream(weir, "s", 0);
	int mode = MODE_GLOBAL;
	void *graph;

	drv.begin(captured, MODE_GLOBAL);
	t = on_gpu(weir, N);
	is_int(load_model(weir), 0,
	       "a load works while the program captures a stream");
	must(weir_stream_set(s, &t, 0, weir_tensor_data(&pinned), N));
	must(weir_stream_sync(s, 20 * SEC));
	must(weir_tensor_fill(&t, 0, N, 3));
	weir_buf_free(t.buf);
	weir_stream_free(s);
	is_int(drv.end(captured, &graph), 0,
	       "a load does not break the program's capture");
	drv.exchange(&mode);
	is_int(mode, MODE_GLOBAL, "the thread's capture mode is restored");
	weir_buf_free(pinned.buf);
	weir_close(weir);
}

/* A driver without cuThreadExchangeStreamCaptureMode. */
static int unrelaxed(int unused)
{
	unsigned long before;
	struct CUstream_st *captured;
	struct weir_stream *s;
	struct weir_tensor t;
	struct weir_buf *pinned;
	struct weir *weir;
	void *graph;
	int r;

	(void)unused;
	fake.set("NO", "cuThreadExchangeStreamCaptureMode");
	weir = open_cuda();
	s = gpu_stream(weir, "s", 0);
	t = on_gpu(weir, N);
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), N, NULL,
			    &pinned));
	find_calls();
	captured = new_program_stream();
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_HANG, 0);
	must(weir_stream_set(s, &t, 0, weir_buf_data(pinned), N));
	drv.begin(captured, MODE_GLOBAL);
	before = fake.calls("cuEventQuery");
	while (fake.calls("cuEventQuery") < before + 5 &&
	       !strstr(cuda_log, "is lost"))
		usleep(1000);
	fake.release();
	if (!drv.end(captured, &graph))
		return 2;
	r = weir_stream_sync(s, 20 * SEC);
	if (r < 0)
		diag("%s", weir_error());
	return r || strstr(cuda_log, "is lost");
}

static void captured_streams(void)
{
	struct weir *weir = open_cuda();
	struct CUstream_st *captured = new_program_stream();
	struct weir_stream *s, *again;
	struct weir_tensor t = on_gpu(weir, N);
	void *graph;

	must(weir_cuda_stream_wrap(gpu(weir), captured, &s));
	drv.begin(captured, MODE_GLOBAL);
	is_err(weir_cuda_stream_wrap(gpu(weir), captured, &again), -EBUSY,
	       "captured into a graph",
	       "a stream in capture cannot be wrapped");
	(void)weir_stream_fill(s, &t, 0, N, 1);
	is_err(weir_stream_sync(s, 20 * SEC), -EIO,
	       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	       "work on a wrapped stream in capture fails");
	is_int(drv.end(captured, &graph), 0,
	       "work on a wrapped stream does not break its capture");
	must(weir_stream_reset(s));
	must(weir_stream_fill(s, &t, 0, N, 1));
	is_int(weir_stream_sync(s, 20 * SEC), 0,
	       "a wrapped stream can be used after its capture");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_close(weir);
}

static void special_streams(void)
{
	struct weir *weir = open_cuda();
	struct weir_tensor t = on_gpu(weir, N);
	struct weir_stream *s;

	is_err(weir_cuda_stream_wrap(gpu(weir), STREAM_PER_THREAD, &s), -EINVAL,
	       "another stream on each thread",
	       "CU_STREAM_PER_THREAD cannot be wrapped");
	must(weir_cuda_stream_wrap(gpu(weir), STREAM_LEGACY, &s));
	must(weir_stream_fill(s, &t, 0, N, 5));
	is_int(weir_stream_sync(s, 20 * SEC), 0,
	       "CU_STREAM_LEGACY can be wrapped");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_close(weir);
}

/* A root whose device has parameters. */
static struct weir *root_with(const char *device)
{
	struct weir *weir = open_cuda();
	struct weir_dev *dev;

	must(weir_dev_configure(weir, device, &dev));
	return weir;
}

static void batches(void)
{
	unsigned long before = fake.calls("cuMemcpyBatchAsync");
	struct weir *weir = root_with("CUDA0");
	struct weir_dev *dev;

	is_int(load_model(weir), 0, "small tensors are loaded");
	ok(fake.calls("cuMemcpyBatchAsync") > before,
	   "small tensors are copied in batches");
	weir_close(weir);
	before = fake.calls("cuMemcpyBatchAsync");
	weir = root_with("CUDA0:batch=no");
	is_int(load_model(weir), 0, "small tensors are loaded with batch=no");
	is_int(fake.calls("cuMemcpyBatchAsync"), before,
	       "with batch=no there are no batches");
	weir_close(weir);
	setenv("WEIR_DEBUG", "batch=no", 1);
	weir = root_with("CUDA0");
	unsetenv("WEIR_DEBUG");
	is_int(load_model(weir), 0,
	       "small tensors are loaded with batch=no in WEIR_DEBUG");
	is_int(fake.calls("cuMemcpyBatchAsync"), before,
	       "with batch=no in WEIR_DEBUG there are no batches");
	weir_close(weir);
	weir = open_cuda();
	is_err(weir_dev_configure(weir, "CUDA0:batch=never", &dev), -EINVAL,
	       "neither yes nor no", "batch takes yes or no");
	is_err(weir_dev_configure(weir, "CUDA0:batches=no", &dev), -EINVAL,
	       "unknown parameter 'batches=no'",
	       "the error for an unknown parameter names it");
	must(weir_dev_configure(weir, "CUDA0:virtual=2,batch=no", &dev));
	is_int(weir_dev_find(weir, "CUDA0-1", &dev), 0,
	       "parameters are separated by commas");
	weir_close(weir);
}

/* A batch with the host's address of registered memory would be fatal. */
static int other_address(int unused)
{
	struct weir *weir;
	unsigned long before = fake.calls("cuMemcpyBatchAsync");

	(void)unused;
	fake.set("NO", "hostpointer");
	weir = open_cuda();
	return load_model(weir) || fake.calls("cuMemcpyBatchAsync") != before;
}

/* Rows of 100 bytes, 8000 apart, between devices and the host. */
static void move_rows(struct weir *weir, const char *what)
{
	struct weir_rect r = { .off = 40,
			       .width = 100,
			       .rows = 50,
			       .pitch = 8001,
			       .host_pitch = 100 };
	struct weir_tensor d = on_gpu(weir, N), copy = on_gpu(weir, N);
	struct weir_stream *s = gpu_stream(weir, "rows", 0);
	int64_t shape[2] = { 100, 8001 };
	static unsigned char in[5000], out[5000];
	struct weir_tensor wide = d, wide_copy = copy, from, to;

	pattern(in, sizeof(in), 3);
	memset(out, 0, sizeof(out));
	must(weir_tensor_init(&wide, WEIR_DTYPE_U8, 2, shape));
	must(weir_tensor_init(&wide_copy, WEIR_DTYPE_U8, 2, shape));
	must(weir_tensor_place(&wide, d.buf, 0));
	must(weir_tensor_place(&wide_copy, copy.buf, 0));
	must(weir_tensor_view(&wide, 1, 40, 100, &from));
	must(weir_tensor_view(&wide_copy, 1, 40, 100, &to));
	must(weir_stream_set_2d(s, &d, &r, in));
	must(weir_stream_copy(s, &to, &from));
	must(weir_stream_get_2d(s, &copy, &r, out));
	is_int(weir_stream_sync(s, 20 * SEC), 0, "%s are moved", what);
	is_mem(out, in, sizeof(in), "%s have every byte", what);
	weir_stream_free(s);
	weir_buf_free(d.buf);
	weir_buf_free(copy.buf);
}

static void pitches(void)
{
	unsigned long before;
	struct weir *weir;

	fake.set("PITCH", "8000");
	weir = open_cuda();
	move_rows(weir, "rows further apart than the largest pitch");
	fake.set("PITCH", "2147483647");
	weir_close(weir);
	weir = open_cuda();
	fake.set("NO", "anypitch");
	move_rows(weir, "rows at a pitch that the driver refuses");
	fake.set("NO", "");
	before = fake.calls("cuMemcpyDtoDAsync");
	move_rows(weir, "rows at any other pitch");
	is_int(fake.calls("cuMemcpyDtoDAsync"), before,
	       "rows at any other pitch are one call");
	weir_close(weir);
}

static void mapped_side_by_side(void)
{
	struct weir *weir = open_cuda();
	uint64_t p = drv.map(0, 2 * MIB, 3), end = p + 6 * MIB;
	int64_t shape = 5 * MIB;
	struct weir_tensor t;
	struct weir_buf *buf;

	is_int(weir_cuda_buf_wrap(gpu(weir), p + MIB, 5 * MIB, NULL, NULL,
				  &buf),
	       0, "several allocations side by side are wrapped as one buffer");
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_tensor_fill(&t, 0, 5 * MIB, 7));
	weir_buf_free(buf);
	is_err(weir_cuda_buf_wrap(gpu(weir), p + MIB, 5 * MIB + 1, NULL, NULL,
				  &buf),
	       -EINVAL, "5242880 are allocated in a row",
	       "a buffer that ends after the last allocation is refused");
	is_err(weir_cuda_buf_wrap(gpu(weir), end, 1, NULL, NULL, &buf), -EINVAL,
	       "no address of device memory",
	       "an address after the last allocation is refused");
	drv.unmap(p);
	weir_close(weir);
}

/* The device is lost by other work on a wrapped stream. */
static int ends_with(int code)
{
	struct weir *weir = open_cuda();
	struct weir_tensor t = on_gpu(weir, N);
	struct weir_stream *s;

	find_calls();
	must(weir_cuda_stream_wrap(gpu(weir), new_program_stream(), &s));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_LATE, code);
	must(weir_stream_fill(s, &t, 0, N, 1));
	return weir_stream_sync(s, 20 * SEC) != -ENODEV ||
	       !strstr(cuda_log, "CUDA0 is lost");
}

/* The pages stay registered; the next allocation looks at all live ones. */
static int freed_after_a_loss(int unused)
{
	struct weir *weir = open_cuda();
	struct weir_tensor t = on_gpu(weir, N);
	struct weir_buf *pinned;

	(void)unused;
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), 4 * MIB, NULL,
			    &pinned));
	memset(weir_buf_data(pinned), 1, 4 * MIB);
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_STICKY, 700);
	(void)weir_tensor_fill(&t, 0, N, 0);
	weir_buf_free(pinned);
	t = bytes(weir, 8 * MIB);
	weir_buf_free(t.buf);
	weir_close(weir);
	return !strstr(cuda_log, "could not be freed");
}

/* Events that are not recorded, after copies of pageable memory. */
static int without_events(int unused)
{
	struct fakecuda_counts c;
	struct weir_stream *s;
	struct weir_tensor t;
	struct weir *weir;
	unsigned char *p = malloc(4 * MIB);

	(void)unused;
	setenv("FAKECUDA_CHANNELS", "1", 1);
	setenv("FAKECUDA_NO", "hostregister", 1);
	setenv("FAKECUDA_RATE", "2e9", 1);
	open_fake();
	weir = open_cuda();
	t = on_gpu(weir, 4 * MIB);
	s = gpu_stream(weir, "s", 0);
	fake.arm("cuEventRecord", 1, FAKECUDA_FROM_THEN_ON, 999);
	for (unsigned i = 0; i < 8; i++) {
		memset(p, (int)i, 4 * MIB);
		(void)weir_stream_set(s, &t, 0, p, 4 * MIB);
		if (weir_stream_sync(s, 60 * SEC) != -EIO ||
		    weir_stream_reset(s) < 0)
			return 3;
	}
	(void)load_model(weir);
	fake.disarm();
	if (load_model(weir))
		return 4;
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_close(weir);
	fake.counts(&c);
	if (c.reused)
		diag("reused %lu", c.reused);
	return c.reused != 0;
}

/* A program uses the context itself. */
static void beside_the_program(void)
{
	struct weir *weir = open_cuda();
	struct weir_tensor t = on_gpu(weir, 1);

	find_calls();
	beside_a_capture();
	captured_streams();
	special_streams();
	mapped_side_by_side();
	weir_buf_free(t.buf);
	weir_close(weir);
}

int main(void)
{
	int reused;

	write_model();
	reused = in_a_child(without_events, 0);
	open_fake();
	plan(0);
	is_int(reused, 0, "without events no memory is used again too early");
	is_int(in_a_child(unrelaxed, 0), 0,
	       "a call that a capture forbids means \"not yet\"");
	is_int(in_a_child(ends_with, 226), 0,
	       "a contained error on a wrapped stream loses the device");
	is_int(in_a_child(ends_with, 721), 0,
	       "a leak of tensor memory loses the device");
	is_int(in_a_child(ends_with, 810), 0,
	       "a terminated client of MPS loses the device");
	is_int(in_a_child(freed_after_a_loss, 0), 0,
	       "pinned memory of a lost device is leaked when it is freed");
	is_int(in_a_child(other_address, 0), 0,
	       "a device with other addresses for registered memory gets no batches");
	batches();
	pitches();
	beside_the_program();
	unlink(MODEL);
	return done_testing();
}
