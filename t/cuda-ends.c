/* SPDX-License-Identifier: MIT */
/*
 * How things end from outside: the process forks, exits, resets the context;
 * memory is used up; a device is lost while others work. Each in a process of
 * its own, which tells the step that went wrong.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

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

/* A step that fails ends the process, and is told. */
#define step(what)                                                   \
	do {                                                         \
		if (!(what)) {                                       \
			diag("line %d: %s: %s\n%s", __LINE__, #what, \
			     weir_error(), cuda_log);                \
			_exit(1);                                    \
		}                                                    \
	} while (0)

/* @fn in a child of its own; it exits by exit(3), and prints nothing. */
static bool in_child(void (*fn)(void), char *text, size_t room)
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

	if (!ok(in_child(fn, text, sizeof(text)), "%s", what))
		diag("%s", text);
	else
		is_str(text, "", "... without a word on stderr");
}

static bool says(const char *part)
{
	return strstr(weir_error(), part);
}

/* What a program has on a device, with work done and work under way. */
static struct stock {
	struct weir *weir;
	struct weir_stream *stream;
	struct weir_event *event;
	struct weir_tensor on_device;
	struct weir_buf *pinned;
	struct weir_weights *weights;
	struct weir_buft *memory; /* of the device */
} stock;

static void take_stock(void)
{
	struct stock *s = &stock;

	s->weir = open_cuda();
	s->memory = gpu_memory(s->weir, WEIR_MEM_DEVICE);
	s->stream = gpu_stream(s->weir, "stock", 0);
	s->event = new_event(s->weir, 0);
	s->on_device = on_gpu(s->weir, 1 << 20);
	must(weir_buf_alloc(gpu_memory(s->weir, WEIR_MEM_PINNED), 1 << 20, NULL,
			    &s->pinned));
	must(weir_load_all(s->weir, MODEL, s->memory, &s->weights));
	must(weir_stream_fill(s->stream, &s->on_device, 0, 100, 1));
	must(weir_stream_record(s->stream, s->event));
}

static void give_stock(void)
{
	struct stock *s = &stock;

	weir_event_free(s->event);
	weir_stream_free(s->stream);
	weir_buf_free(s->on_device.buf);
	weir_buf_free(s->pinned);
	weir_weights_free(s->weights);
	weir_close(s->weir);
}

/* The child of a program that uses a device. */
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
	give_stock();
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

	take_stock();
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
	give_stock();
	step(!*cuda_log);
}

/* Runs when the driver has ended: it was there before the driver was. */
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
	give_stock();
	/* It is no news, and nobody can do anything about it. */
	step(!*cuda_log);
}

static void exits(void)
{
	atexit(late_handler);
	take_stock();
}

/* Something that does not end by itself. */
static void hang(void)
{
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(stock.stream, &stock.on_device, 0, 100, 1));
	must(weir_stream_record(stock.stream, stock.event));
}

/* The same, with work out. */
static void exits_busy(void)
{
	atexit(late_handler);
	take_stock();
	hang();
}

/* Nothing is given back at all. */
static void just_exits(void)
{
	take_stock();
	hang();
}

/* cudaDeviceReset(), by somebody else in the program. */
static void resets(void)
{
	int (*reset)(int) = NULL;
	struct weir_tensor h;
	struct weir_buf *buf;
	unsigned char byte;

	*(void **)&reset = fake_symbol("cuDevicePrimaryCtxReset_v2");
	take_stock();
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
	give_stock();
	/* A root of its own begins anew. */
	take_stock();
	step(weir_event_wait(stock.event, 10 * SEC) == 0);
	step(!sample_wrong(stock.weights, SALT));
	give_stock();
}

/* A context that is refused from now on: nobody waits for ever. */
static void refused(void)
{
	take_stock();
	step(weir_stream_sync(stock.stream, 10 * SEC) == 0);
	hang();
	fake.arm("cuCtxPushCurrent", 1, FAKECUDA_FROM_THEN_ON, 2);
	step(weir_event_wait(stock.event, 10 * SEC) == -ENODEV);
	step(says("CUDA_ERROR_OUT_OF_MEMORY"));
	give_stock();
	fake.release();
}

/* A context that stays current by our failure would be the program's. */
static void keeps_context(void)
{
	int (*current)(void **) = NULL;
	void *ctx = NULL;
	unsigned char byte;

	*(void **)&current = fake_symbol("cuCtxGetCurrent");
	take_stock();
	/* No other thread calls the driver then. */
	must(weir_stream_sync(stock.stream, -1));
	for (unsigned n = 1; n <= 3; n++) {
		fake.arm("cuCtxPopCurrent", n, FAKECUDA_ONCE, 999);
		(void)weir_tensor_get(&stock.on_device, 0, &byte, 1);
		fake.disarm();
		step(current(&ctx) == 0 && !ctx);
	}
	give_stock();
}

static struct weir_weights *kept[N];

static void load_one(struct weir *weir, unsigned i)
{
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	must(weir_model_open(weir, MODEL, NULL, &m));
	must(weir_plan_new(m, &p));
	must(weir_plan_put(p, tensors[i].name,
			   gpu_memory(weir, WEIR_MEM_DEVICE), NULL));
	if (weir_load_start(p, NULL, &l) == 0) {
		must(weir_load_wait(l, -1));
		must(weir_load_weights(l, &kept[i]));
		weir_load_free(l);
	}
	weir_plan_free(p);
	weir_model_close(m);
}

/* The device is full when two of three have come. */
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
	step(weir_load_all(weir, MODEL, gpu_memory(weir, WEIR_MEM_DEVICE),
			   &all) == -ENOMEM);
	fake.counts(&c);
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

	take_stock();
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
	/* What is waited for is lost already. */
	(void)weir_stream_wait(second, stock.event);
	step(weir_stream_sync(second, 10 * SEC) == -ECANCELED);
	step(weir_stream_reset(second) == 0);
	must(weir_stream_fill(second, &t, 0, 10, 7));
	must(weir_stream_get(second, &t, 0, &byte, 1));
	step(weir_stream_sync(second, 10 * SEC) == 0 && byte == 7);
	step(weir_tensor_get(&t, 0, &byte, 1) == 0);
	weir_stream_free(second);
	weir_buf_free(t.buf);
	give_stock();
}

#define WORKERS 6u

struct worker {
	pthread_t thread;
	struct weir *weir;
	bool ended_well;
};

/* Work of all sorts, until there is no device any more. */
static void *work(void *arg)
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

/* All are at work when it goes. */
static void lost_by_many(void)
{
	struct worker w[WORKERS];
	struct weir *weir = open_cuda();
	unsigned long before = fake.calls("cuEventRecord");

	for (unsigned i = 0; i < WORKERS; i++) {
		w[i].weir = weir;
		step(!pthread_create(&w[i].thread, NULL, work, &w[i]));
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

/* What the program has locked itself is locked. */
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
	take_stock();
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
	give_stock();
	free(own);
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	cuda_chunk = 65536;
	plan(0);
	sample_write(MODEL, tensors, N, 8, SALT);
	ends_well(forks, "the child of a fork is refused, its parent goes on");
	ends_well(exits, "the driver ends before the program lets go of it");
	ends_well(exits_busy, "... with work that never ends");
	ends_well(just_exits, "a program may exit without a word");
	ends_well(resets,
		  "a context that is reset is lost, and a root as well");
	ends_well(refused, "... and so is one that is refused for ever");
	ends_well(keeps_context, "a failure leaves no context on the thread");
	ends_well(is_full, "a device that is full keeps what it has");
	ends_well(one_of_two, "a device that is lost takes no other with it");
	ends_well(lost_by_many, "many at work when a device is lost all end");
	ends_well(locked_before, "what the program has locked is locked");
	unlink(MODEL);
	return done_testing();
}
