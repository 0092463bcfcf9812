/* SPDX-License-Identifier: MIT */
/*
 * A native stream blocks its own callers only: no other caller while the device
 * hangs, and not weir_close.
 */
#include <sys/wait.h>

#include "gpu.h"
#include "sample.h"

#define N ((size_t)1 << 20)
#define LARGE ((size_t)96 << 20) /* more than all slots have */
#define MODEL "cuda-blocked.safetensors"

static struct weir *weir;
static struct weir_stream *native;
static struct weir_tensor dev;

/* A call on the native stream, on a thread of its own. */
struct caller {
	pthread_t thread;
	int (*call)(struct caller *c);
	struct weir_event *ev;
	struct weir_file *file;
	struct weir_tensor t;
	size_t n;
	_Atomic bool returned;
	int result;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;

	c->result = c->call(c);
	c->returned = true;
	return NULL;
}

static void begin(struct caller *c)
{
	if (pthread_create(&c->thread, NULL, caller_main, c))
		bail("pthread_create");
}

static bool returns(struct caller *c, int64_t limit)
{
	for (int64_t t = 0; t < limit && !c->returned; t += 10 * MS)
		usleep(10000);
	return c->returned;
}

static int get_one(struct caller *c)
{
	unsigned char byte;

	return weir_stream_get(native, &c->t, 0, &byte, 1);
}

static int wait_for(struct caller *c)
{
	return weir_stream_wait(native, c->ev);
}

static int read_all(struct caller *c)
{
	return weir_stream_read(native, c->file, 0, &c->t, 0, c->n);
}

static void hang(struct weir_stream *s)
{
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &dev, 0, N, 1));
}

static void begin_root(int64_t close_timeout)
{
	const char *build = getenv("builddir");
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_dev *first;
	char path[512];

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	o.module_path = path;
	o.log = keep_log;
	o.close_timeout = close_timeout;
	must(weir_open(&o, &weir));
	must(weir_dev_configure(weir, "CUDA0:virtual=2", &first));
	native = gpu_stream(weir, "native", WEIR_STREAM_NATIVE);
	dev = on_gpu(weir, N);
}

static void end_root(void)
{
	weir_stream_free(native);
	weir_buf_free(dev.buf);
	weir_close(weir);
}

static struct weir_load *load_to_device(struct weir_event *ev)
{
	return sample_load(weir, MODEL, N, gpu_memory(weir, WEIR_MEM_DEVICE),
			   ev);
}

/* @get blocks in the stream that hangs, and @wait after it. */
static void block_both(struct caller *get, struct caller *wait)
{
	unsigned long before;

	get->call = get_one;
	get->t = dev;
	wait->call = wait_for;
	hang(native);
	before = fake.calls("cuMemcpyDtoHAsync");
	begin(get);
	while (fake.calls("cuMemcpyDtoHAsync") == before)
		usleep(1000);
	begin(wait);
}

static struct weir_heap *heap;
static struct weir_stream *other;

static int alloc_in_none(struct caller *c)
{
	struct weir_block b;

	(void)c;
	return weir_heap_alloc(heap, N, 0, NULL, &b);
}

static int alloc_in_other(struct caller *c)
{
	struct weir_block b;

	(void)c;
	return weir_heap_alloc(heap, N, 0, other, &b);
}

static int trim(struct caller *c)
{
	(void)c;
	return weir_heap_trim(heap, 0);
}

static int destroy(struct caller *c)
{
	(void)c;
	weir_heap_destroy(heap);
	return 0;
}

/*
 * Check that the call returns while another caller is blocked in the native
 * stream.
 */
static struct caller passes(int (*call)(struct caller *c), const char *what)
{
	struct caller c = { .call = call };

	begin(&c);
	ok(returns(&c, 5 * SEC), "%s does not wait for it", what);
	if (!c.returned)
		fake.release();
	pthread_join(c.thread, NULL);
	return c;
}

static unsigned long buffers(void)
{
	struct fakecuda_counts counts;

	fake.counts(&counts);
	return counts.live[FAKECUDA_DEVICE_MEMORY];
}

/* A heap has memory that was freed in the native stream. */
static void heaps(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct caller get = { .call = get_one };
	struct weir_block b;
	unsigned long calls;

	begin_root(20 * SEC);
	get.t = dev;
	other = gpu_stream(weir, "other", 0);
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), N, NULL,
			    &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	weir_buf_free(o.buf);
	must(weir_heap_alloc(heap, N, 0, native, &b));
	hang(native);
	must(weir_heap_free(&b, native));
	calls = fake.calls("cuMemcpyDtoHAsync");
	begin(&get);
	while (fake.calls("cuMemcpyDtoHAsync") == calls)
		usleep(1000);
	is_int(passes(alloc_in_none, "an allocation").result, -ENOMEM,
	       "memory of a blocked native stream is pending");
	is_int(passes(alloc_in_other, "one of another stream").result, -ENOMEM,
	       "another stream does not wait for a blocked native stream");
	passes(trim, "weir_heap_trim");
	passes(destroy, "weir_heap_destroy");
	ok(!get.returned, "the caller is still blocked in the native stream");
	fake.release();
	pthread_join(get.thread, NULL);
	must(weir_stream_sync(other, 20 * SEC));
	weir_stream_free(other);
	for (int i = 0; i < 5000 && buffers() > 1; i++)
		usleep(1000);
	is_int(buffers(), 1,
	       "the heap frees its buffer when the work has ended");
	end_root();
}

/* A read of another device, to which nothing has been copied. */
static int read_second(void)
{
	struct weir_file *file = temp_file(weir, N, 3);
	struct weir_tensor t;
	struct weir_stream *s;
	struct weir_buft *buft;
	struct weir_dev *second;
	struct weir_buf *buf;
	int64_t shape = N;
	int r;

	must(weir_dev_find(weir, "CUDA0-1", &second));
	must(weir_dev_buft(second, WEIR_MEM_DEVICE, &buft));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(buft, N, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_stream_new(second, NULL, &s));
	must(weir_stream_read(s, file, 0, &t, 0, N));
	r = weir_stream_sync(s, 2 * SEC);
	fake.release();
	must(weir_stream_sync(s, 20 * SEC));
	weir_stream_free(s);
	weir_buf_free(buf);
	weir_file_close(file);
	return r;
}

static void queues(void)
{
	struct caller get = { 0 }, wait = { 0 };
	struct weir_load *load;

	begin_root(20 * SEC);
	wait.ev = new_event(weir, 0);
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_HANG, 0);
	load = load_to_device(wait.ev);
	block_both(&get, &wait);
	ok(!returns(&wait, 50 * MS),
	   "a wait on a native stream blocks after another caller");
	is_int(read_second(), 0,
	       "a read to another device works while callers are blocked");
	pthread_join(get.thread, NULL);
	pthread_join(wait.thread, NULL);
	is_int(wait.result, 0, "a wait that was blocked returns 0 in the end");
	must(weir_stream_sync(native, 20 * SEC));
	weir_load_free(load);
	weir_event_free(wait.ev);
	end_root();
}

static void *close_main(void *arg)
{
	weir_close(weir);
	((struct caller *)arg)->returned = true;
	return NULL;
}

/*
 * The same two callers wait after the load has ended. True if weir_close
 * returns.
 */
static bool closing(void)
{
	struct caller get = { 0 }, wait = { 0 }, close = { 0 };

	begin_root(1 * SEC);
	wait.ev = new_event(weir, 0);
	fake.set("RATE", "2e6");
	load_to_device(wait.ev);
	block_both(&get, &wait);
	must(weir_event_wait(wait.ev, 20 * SEC));
	if (wait.returned ||
	    pthread_create(&close.thread, NULL, close_main, &close))
		return false;
	pthread_detach(close.thread);
	return returns(&close, 5 * SEC);
}

/* Runs in a process of its own, since memory is leaked. */
static void closed(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(!closing());
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	is_int(status, 0,
	       "closing the root does not wait for callers that are blocked");
}

static void slots(void)
{
	struct caller c = { .call = read_all, .n = LARGE };
	struct weir_file *small;
	struct weir_stream *s;
	struct weir_tensor t;

	begin_root(20 * SEC);
	s = gpu_stream(weir, "other", 0);
	small = temp_file(weir, N, 5);
	c.file = temp_file(weir, LARGE, 4);
	c.t = on_gpu(weir, LARGE);
	t = on_gpu(weir, N);
	hang(native);
	begin(&c);
	ok(!returns(&c, 500 * MS),
	   "a read that needs all slots blocks its caller");
	must(weir_stream_read(s, small, 0, &t, 0, N));
	is_int(weir_stream_sync(s, 2 * SEC), 0,
	       "a read of another stream goes on meanwhile");
	fake.release();
	pthread_join(c.thread, NULL);
	is_int(c.result, 0,
	       "a read that was blocked ends when the device goes on");
	must(weir_stream_sync(native, 20 * SEC));
	must(weir_stream_sync(s, 20 * SEC));
	weir_stream_free(s);
	weir_file_close(small);
	weir_file_close(c.file);
	weir_buf_free(c.t.buf);
	weir_buf_free(t.buf);
	end_root();
}

/* A read after a failed one does not start, so its caller does not wait. */
static void after_failure(void)
{
	struct caller c = { .call = read_all, .n = N };

	begin_root(1 * SEC);
	c.file = temp_file(weir, N / 2, 6);
	c.t = on_gpu(weir, N);
	hang(native);
	(void)weir_stream_read(native, c.file, 0, &c.t, 0, N);
	usleep(200000);
	c.n = N / 4;
	begin(&c);
	ok(returns(&c, 1 * SEC),
	   "a read after a failed one does not block its caller");
	fake.release();
	pthread_join(c.thread, NULL);
	is_err(weir_stream_sync(native, 20 * SEC), -ENODATA, "ends before",
	       "a stream with a read past the end of the file fails");
	weir_file_close(c.file);
	weir_buf_free(c.t.buf);
	end_root();
}

int main(void)
{
	open_fake();
	plan(19);
	closed();
	queues();
	heaps();
	slots();
	after_failure();
	all_given_back("after callers that were blocked");
	return done_testing();
}
