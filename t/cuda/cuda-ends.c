/* SPDX-License-Identifier: MIT */
/*
 * Ends that come from outside: the process forks, exits or resets the context;
 * memory is used up; a device is lost while others work. Each runs in a process
 * of its own, which prints the step that failed.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "sample.h"

#define MODEL "cuda-ends.safetensors"
#define SALT 12u

static const struct sample_tensor tensors[] = {
	{ "a", "U8", 100000, 1 },
	{ "b", "U8", 200000, 1 },
	{ "c", "U8", 300000, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

/* A step that fails is printed, and ends the process. */
#define step(what)                                                   \
	do {                                                         \
		if (!(what)) {                                       \
			diag("line %d: %s: %s\n%s", __LINE__, #what, \
			     weir_error(), cuda_log);                \
			_exit(1);                                    \
		}                                                    \
	} while (0)

/* Run @fn in a child, which exits by exit(3). @text: what it printed. */
static bool exits_well(void (*fn)(void), char *text, size_t room)
{
	int status = -1, fds[2];
	size_t at = 0;
	ssize_t n;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0)
		bail("fork");
	if (!pid) {
		dup2(fds[1], 2);
		close(fds[0]);
		close(fds[1]);
		fn();
		exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + at, room - 1 - at)) > 0)
		at += (size_t)n;
	text[at] = '\0';
	close(fds[0]);
	waitpid(pid, &status, 0);
	if (status)
		diag("status %#x", status);
	return !status;
}

static void ends_well(void (*fn)(void), const char *what)
{
	static char text[4096];

	if (!ok(exits_well(fn, text, sizeof(text)), "%s", what))
		diag("%s", text);
	else
		is_str(text, "", "%s: nothing is printed", what);
}

static bool says(const char *part)
{
	return strstr(weir_error(), part);
}

/* Objects of a program on a device, with work done and work in flight. */
static struct stock {
	struct weir *weir;
	struct weir_stream *stream;
	struct weir_event *event;
	struct weir_tensor on_device;
	struct weir_buf *pinned;
	struct weir_weights *weights;
	struct weir_buft *memory; /* memory of the device */
} stock;

static void stock_make(void)
{
	struct stock *s = &stock;

	s->weir = open_cuda();
	s->memory = gpu_memory(s->weir, WEIR_MEM_DEVICE);
	s->stream = gpu_stream(s->weir, "stock", 0);
	s->event = new_event(s->weir, 0);
	s->on_device = on_gpu(s->weir, 1 << 20);
	must(weir_buf_alloc(gpu_memory(s->weir, WEIR_MEM_PINNED), 1 << 20, NULL,
			    &s->pinned));
	must(weir_load_all(s->weir, MODEL, s->memory, NULL, &s->weights));
	must(weir_stream_fill(s->stream, &s->on_device, 0, 100, 1));
	must(weir_stream_record(s->stream, s->event));
}

static void stock_free(void)
{
	struct stock *s = &stock;

	weir_event_free(s->event);
	weir_stream_free(s->stream);
	weir_buf_free(s->on_device.buf);
	weir_buf_free(s->pinned);
	weir_weights_free(s->weights);
	weir_close(s->weir);
}

/* Runs in the child of a process that uses a device. */
static void grandchild(void)
{
	struct stock *s = &stock;
	struct weir_tensor h;
	struct weir_buf *buf;
	struct weir_dev *dev;
	struct weir *own;
	unsigned char byte;

	step(weir_stream_fill(s->stream, &s->on_device, 0, 1, 1) == -EPERM);
	step(says("fork(2)"));
	step(weir_stream_sync(s->stream, -1) == -EPERM);
	step(weir_event_wait(s->event, -1) == -EPERM);
	step(weir_tensor_get(&s->on_device, 0, &byte, 1) == -EPERM);
	step(weir_buf_alloc(s->memory, 10, NULL, &buf) == -EPERM);
	stock_free();
	own = open_cuda();
	step(weir_dev_find(own, "CUDA0", &dev) == -ENODEV);
	step(says(
		"weir-cuda.so was left out: cuInit: the driver was in use before fork(2)"));
	h = bytes(own, 64);
	step(weir_tensor_fill(&h, 0, 64, 1) == 0);
	weir_buf_free(h.buf);
	weir_close(own);
}

static void forks(void)
{
	unsigned char byte = 0;
	int status = -1;
	pid_t pid;

	stock_make();
	fake.set("LATENCY", "1000");
	must(weir_stream_set(stock.stream, &stock.on_device, 0, "x", 1));
	pid = fork();
	if (!pid) {
		grandchild();
		exit(0);
	}
	step(waitpid(pid, &status, 0) == pid && !status);
	step(weir_stream_get(stock.stream, &stock.on_device, 0, &byte, 1) == 0);
	step(weir_stream_sync(stock.stream, 10 * SEC) == 0);
	step(byte == 'x' && !sample_wrong(stock.weights, SALT));
	stock_free();
	step(!*cuda_log);
}

/* Runs after the driver has shut down, since it was registered before. */
static void late_handler(void)
{
	struct stock *s = &stock;
	unsigned char byte;
	int r;

	step(weir_stream_sync(s->stream, 10 * SEC) != -ETIMEDOUT);
	step(weir_tensor_get(&s->on_device, 0, &byte, 1) == -ESHUTDOWN);
	step(says("CUDA_ERROR_DEINITIALIZED"));
	r = weir_stream_fill(s->stream, &s->on_device, 0, 1, 1);
	step(r == 0 || r == -ECANCELED);
	r = weir_stream_sync(s->stream, 10 * SEC);
	step(r == -ESHUTDOWN || r == -EIO);
	stock_free();
	/* This loss is not logged. */
	step(!*cuda_log);
}

static void exits(void)
{
	atexit(late_handler);
	stock_make();
}

/* Queue work that does not end by itself. */
static void hang(void)
{
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(stock.stream, &stock.on_device, 0, 100, 1));
	must(weir_stream_record(stock.stream, stock.event));
}

/* Exit with work in flight. */
static void exits_busy(void)
{
	atexit(late_handler);
	stock_make();
	hang();
}

/* Nothing is freed before exit. */
static void just_exits(void)
{
	stock_make();
	hang();
}

/* cudaDeviceReset(), by other code of the program. */
static void resets(void)
{
	int (*reset)(int) = NULL;
	struct weir_tensor h;
	struct weir_buf *buf;
	unsigned char byte;

	*(void **)&reset = fake_symbol("cuDevicePrimaryCtxReset_v2");
	stock_make();
	must(weir_stream_sync(stock.stream, -1));
	hang();
	reset(0);
	step(weir_event_wait(stock.event, 10 * SEC) == -ENODEV);
	step(weir_stream_reset(stock.stream) == -ENODEV);
	step(weir_tensor_get(&stock.on_device, 0, &byte, 1) == -ENODEV);
	step(says("CUDA0 is lost: CUDA_ERROR_"));
	step(weir_buf_alloc(gpu_memory(stock.weir, WEIR_MEM_DEVICE), 10, NULL,
			    &buf) == -ENODEV);
	h = bytes(stock.weir, 64);
	step(weir_tensor_fill(&h, 0, 64, 1) == 0);
	weir_buf_free(h.buf);
	stock_free();
	/* A new root has a new context. */
	stock_make();
	step(weir_event_wait(stock.event, 10 * SEC) == 0);
	step(!sample_wrong(stock.weights, SALT));
	stock_free();
}

/* Every push of the context is refused: no wait lasts for ever. */
static void context_refused(void)
{
	stock_make();
	step(weir_stream_sync(stock.stream, 10 * SEC) == 0);
	hang();
	fake.arm("cuCtxPushCurrent", 1, FAKECUDA_FROM_THEN_ON, 2);
	step(weir_event_wait(stock.event, 10 * SEC) == -ENODEV);
	step(says("CUDA_ERROR_OUT_OF_MEMORY"));
	stock_free();
	fake.release();
}

/* A context that a failed pop leaves current would be the program's. */
static void keeps_context(void)
{
	int (*current)(void **) = NULL;
	void *ctx = NULL;
	unsigned char byte;

	*(void **)&current = fake_symbol("cuCtxGetCurrent");
	stock_make();
	/* No other thread calls the driver after this. */
	must(weir_stream_sync(stock.stream, -1));
	for (unsigned n = 1; n <= 3; n++) {
		fake.arm("cuCtxPopCurrent", n, FAKECUDA_ONCE, 999);
		(void)weir_tensor_get(&stock.on_device, 0, &byte, 1);
		fake.disarm();
		step(current(&ctx) == 0 && !ctx);
	}
	stock_free();
}

static struct weir_weights *kept[N];

static void load_one(struct weir *weir, unsigned i)
{
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	must(weir_model_open(weir, MODEL, NULL, &m));
	must(weir_plan_new(m, &p));
	must(weir_plan_add(p, tensors[i].name,
			   gpu_memory(weir, WEIR_MEM_DEVICE), NULL));
	if (weir_load_start(p, NULL, &l) == 0) {
		must(weir_load_wait(l, -1));
		must(weir_load_weights(l, &kept[i]));
		weir_load_free(l);
	}
	weir_plan_free(p);
	weir_model_close(m);
}

/* The device has memory for two of three tensors. */
static void is_full(void)
{
	struct fakecuda_counts c;
	struct weir_weights *all;
	struct weir *weir;
	uint64_t before;

	fake.set("MEM", "450000");
	weir = open_cuda();
	for (unsigned i = 0; i < N; i++)
		load_one(weir, i);
	step(kept[0] && kept[1] && !kept[2]);
	step(says("CUDA_ERROR_OUT_OF_MEMORY"));
	step(!sample_wrong(kept[0], SALT) && !sample_wrong(kept[1], SALT));
	fake.counts(&c);
	before = c.device_bytes;
	step(weir_load_all(weir, MODEL, gpu_memory(weir, WEIR_MEM_DEVICE), NULL,
			   &all) == -ENOMEM);
	/* A thread frees what the load had. */
	for (unsigned i = 0; i < 20000; i++) {
		fake.counts(&c);
		if (c.device_bytes == before)
			break;
		usleep(500);
	}
	step(c.device_bytes == before);
	weir_weights_free(kept[1]);
	load_one(weir, 2);
	step(kept[2] && !sample_wrong(kept[2], SALT));
	step(!sample_wrong(kept[0], SALT));
	weir_weights_free(kept[0]);
	weir_weights_free(kept[2]);
	weir_close(weir);
	fake.counts(&c);
	step(!c.device_bytes && !c.misuse);
}

static struct weir_tensor on_second(struct weir_dev *dev)
{
	struct weir_buf *buf;
	int64_t shape = 4096;
	struct weir_buft *buft;
	struct weir_tensor t;

	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(buft, 4096, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	return t;
}

/* One of two devices is lost while a stream of the other waits for it. */
static void one_of_two(void)
{
	struct weir_stream *second;
	struct weir_dev *dev;
	struct weir_tensor t;
	unsigned char byte = 0;

	stock_make();
	must(weir_dev_find(stock.weir, "CUDA1", &dev));
	must(weir_stream_new(dev, NULL, &second));
	t = on_second(dev);
	must(weir_stream_sync(stock.stream, -1));
	fake.set("LATENCY", "3000");
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_LOST, 719);
	must(weir_stream_fill(stock.stream, &stock.on_device, 0, 1 << 20, 1));
	(void)weir_stream_record(stock.stream, stock.event);
	(void)weir_stream_wait(second, stock.event);
	(void)weir_stream_fill(second, &t, 0, 10, 7);
	step(weir_stream_sync(second, 10 * SEC) == -ECANCELED);
	step(says("CUDA_ERROR_LAUNCH_FAILED"));
	step(weir_event_wait(stock.event, 10 * SEC) == -ENODEV);
	step(!strstr(cuda_log, "CUDA1 is lost"));
	step(weir_stream_reset(second) == 0);
	/* The wait fails in the same way if the device is lost already. */
	(void)weir_stream_wait(second, stock.event);
	step(weir_stream_sync(second, 10 * SEC) == -ECANCELED);
	step(weir_stream_reset(second) == 0);
	must(weir_stream_fill(second, &t, 0, 10, 7));
	must(weir_stream_get(second, &t, 0, &byte, 1));
	step(weir_stream_sync(second, 10 * SEC) == 0 && byte == 7);
	step(weir_tensor_get(&t, 0, &byte, 1) == 0);
	weir_stream_free(second);
	weir_buf_free(t.buf);
	stock_free();
}

#define WORKERS 6u

struct worker {
	pthread_t thread;
	struct weir *weir;
	bool ended_well;
};

/* Work of all kinds until the device is lost. */
static void *worker_main(void *arg)
{
	struct worker *me = arg;
	struct weir_stream *s = gpu_stream(me->weir, "worker", 0);
	struct weir_tensor t = on_gpu(me->weir, 1 << 16);
	unsigned char *host = malloc(1 << 16);
	struct weir_event *ev = new_event(me->weir, 0);
	int r = 0, called = 0;

	memset(host, 1, 1 << 16);
	while (r >= 0) {
		r = weir_stream_set(s, &t, 0, host, 1 << 16);
		if (r >= 0)
			r = weir_stream_call(s, count_up, &called);
		if (r >= 0)
			r = weir_stream_get(s, &t, 0, host, 1 << 16);
		if (r >= 0)
			r = weir_stream_record(s, ev);
		if (r >= 0)
			r = weir_event_wait(ev, 20 * SEC);
		if (r >= 0)
			r = weir_tensor_get(&t, 0, host, 100);
	}
	me->ended_well = r == -ENODEV || (r == -ECANCELED &&
					  says("CUDA_ERROR_ILLEGAL_ADDRESS"));
	if (!me->ended_well)
		diag("%d: %s", r, weir_error());
	weir_event_free(ev);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	free(host);
	return NULL;
}

/* The device is lost while all workers use it. */
static void lost_by_many(void)
{
	struct worker w[WORKERS];
	struct weir *weir = open_cuda();
	unsigned long before = fake.calls("cuEventRecord");

	for (unsigned i = 0; i < WORKERS; i++) {
		w[i].weir = weir;
		step(!pthread_create(&w[i].thread, NULL, worker_main, &w[i]));
	}
	while (fake.calls("cuEventRecord") - before < 300)
		usleep(500);
	fake.arm("cuMemcpyHtoDAsync", 3, FAKECUDA_LOST, 700);
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(w[i].thread, NULL);
		step(w[i].ended_well);
	}
	weir_close(weir);
	fake.disarm();
}

/* Memory that the program has page-locked itself. */
static void locked_before(void)
{
	int (*lock)(void *, size_t, unsigned) = NULL, (*unlock)(void *) = NULL;
	int (*push)(void *) = NULL, (*retain)(void **, int) = NULL;
	int (*release)(int) = NULL;
	struct weir_buf_info info = { .size = sizeof(info) };
	unsigned char *own = aligned_alloc(4096, 1 << 16);
	struct weir_buf *buf;
	void *ctx;

	*(void **)&lock = fake_symbol("cuMemHostRegister_v2");
	*(void **)&unlock = fake_symbol("cuMemHostUnregister");
	*(void **)&push = fake_symbol("cuCtxPushCurrent_v2");
	*(void **)&retain = fake_symbol("cuDevicePrimaryCtxRetain");
	*(void **)&release = fake_symbol("cuDevicePrimaryCtxRelease_v2");
	stock_make();
	step(!retain(&ctx, 0) && !push(ctx) && !lock(own, 1 << 15, 1));
	must(weir_buf_wrap(gpu_memory(stock.weir, WEIR_MEM_PINNED), own,
			   1 << 15, NULL, NULL, &buf));
	must(weir_buf_info(buf, &info));
	step(info.got & WEIR_GOT_LOCKED);
	weir_buf_free(buf);
	must(weir_buf_wrap(gpu_memory(stock.weir, WEIR_MEM_PINNED), own,
			   1 << 16, NULL, NULL, &buf));
	must(weir_buf_info(buf, &info));
	step(!(info.got & WEIR_GOT_LOCKED));
	step(strstr(info.why, "ALREADY_REGISTERED"));
	weir_buf_free(buf);
	step(!unlock(own) && !release(0));
	stock_free();
	free(own);
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	cuda_chunk = 65536;
	plan(0);
	sample_write(MODEL, tensors, N, 8, SALT);
	ends_well(
		forks,
		"calls in the child of a fork are refused, and the parent goes on");
	ends_well(exits,
		  "objects are freed at exit after the driver has shut down");
	ends_well(exits_busy, "objects with work in flight are freed at exit");
	ends_well(just_exits, "a program may exit without freeing anything");
	ends_well(resets,
		  "a context that the program resets is lost to its root");
	ends_well(context_refused,
		  "a context that is refused again and again is lost");
	ends_well(keeps_context,
		  "a failed pop leaves no context on the thread");
	ends_well(is_full,
		  "a load to a full device fails and keeps what is loaded");
	ends_well(
		one_of_two,
		"a device works on after its stream has waited for a lost device");
	ends_well(lost_by_many, "all threads that use a lost device end");
	ends_well(locked_before,
		  "memory that the program has page-locked counts as locked");
	unlink(MODEL);
	return done_testing();
}
