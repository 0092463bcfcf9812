/* SPDX-License-Identifier: MIT */
/*
 * libweir-torch from inside: whether threads keep their memory, what a use
 * costs, what becomes of blocks that could not be freed, and a fork while locks
 * are held.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../../hooks/torch.c"
#include "gpu.h"
#include "heap/heap.h"
#include "said.h"

#define MIB ((size_t)1 << 20)
#define LARGE 100000 /* bytes that no cache keeps, but a shard */
#define FEW 1000u
#define MANY 16000u
#define STREAMS 300u

static struct weir *weir;
static struct weir_stream *a, *b;
static struct CUstream_st *cuda_a, *cuda_b;

static struct weir_stream *native(struct CUstream_st **ret_cuda)
{
	struct weir_stream *s = gpu_stream(weir, "", WEIR_STREAM_NATIVE);

	must(weir_cuda_stream_native(s, ret_cuda));
	return s;
}

static void *alloc(size_t n, struct CUstream_st *cuda)
{
	void *p = weir_torch_alloc((ssize_t)n, 0, cuda);

	if (!p)
		bail("no memory");
	return p;
}

static void free_in(void *p, struct CUstream_st *cuda)
{
	weir_torch_free(p, 0, 0, cuda);
}

/* A block that both streams use is freed. */
static void use_and_free(void)
{
	void *p = alloc(20 * MIB, cuda_a);

	weir_torch_record_stream(p, cuda_b);
	free_in(p, cuda_a);
}

/* Bytes that the device has still out, when its thread has freed the others. */
static unsigned long device_bytes(void)
{
	struct fakecuda_counts c;

	for (unsigned i = 0; i < 20000; i++) {
		fake.counts(&c);
		if (!c.device_bytes)
			break;
		usleep(500);
	}
	return c.device_bytes;
}

static uint64_t live(void)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(device_find(0)->heap, &s));
	return s.used;
}

static unsigned shard_of(const void *p)
{
	struct weir_heap *heap = device_find(0)->heap;
	struct weir_block block;

	must(weir_heap_find(heap, (uintptr_t)p, &block));
	return weir__block_shard(weir__heap_block(heap, (uint32_t)block.id));
}

static void *free_main(void *arg)
{
	free_in(arg, cuda_a);
	return NULL;
}

static void shards(void)
{
	pthread_t thread;
	void *p, *q;

	free_in(alloc(LARGE, cuda_a), cuda_a);
	must(weir__shard_want(device_find(0)->heap));
	p = alloc(LARGE, cuda_a);
	q = alloc(LARGE, cuda_a);
	ok(shard_of(p) && shard_of(q),
	   "a thread that contends divides memory by itself, after blocks were freed by address");
	pthread_create(&thread, NULL, free_main, p);
	pthread_join(thread, NULL);
	ok(shard_of(q),
	   "it does after another thread has freed a block by address");
	p = alloc(LARGE, cuda_a);
	ok(shard_of(p), "the next block is of the thread's own memory, too");
	free_in(p, cuda_a);
	free_in(q, cuda_a);
}

static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

/* The least time in which the uses of the FEW first blocks are named again. */
static int64_t time_of(void **p)
{
	int64_t best = INT64_MAX, t;

	for (unsigned round = 0; round < 5; round++) {
		t = cpu_ns();
		for (unsigned i = 0; i < FEW; i++)
			weir_torch_record_stream(p[i], cuda_b);
		t = cpu_ns() - t;
		if (t < best)
			best = t;
	}
	return best;
}

static void many_uses(void)
{
	static void *p[MANY];
	int64_t few, many;

	for (unsigned i = 0; i < MANY; i++)
		p[i] = alloc(512, cuda_a);
	for (unsigned i = 0; i < FEW; i++)
		weir_torch_record_stream(p[i], cuda_b);
	few = time_of(p);
	for (unsigned i = FEW; i < MANY; i++)
		weir_torch_record_stream(p[i], cuda_b);
	many = time_of(p);
	ok(many < 4 * few + MS,
	   "a use takes no longer with %u uses than with %u", MANY, FEW);
	diag("%.2f us and %.2f us", (double)few / 1e3 / FEW,
	     (double)many / 1e3 / FEW);
	/* There are no waits, which take longer than the test may. */
	for (unsigned i = 0; i < MANY; i++)
		free_in(p[i], i % 16 ? cuda_b : cuda_a);
	is_int(live(), 0, "all blocks with uses are freed");
}

static void hang(struct weir_stream *stream, void *p)
{
	struct weir_tensor t;
	struct weir_buf *buf;
	int64_t n = 1000;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n));
	must(weir_cuda_buf_wrap(gpu(weir), (uintptr_t)p, 1000, NULL, NULL,
				&buf));
	must(weir_tensor_place(&t, buf, 0));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(stream, &t, 0, 1000, 1));
	weir_buf_free(buf);
}

/*
 * Both streams have work that hangs, so the joint stream has to wait for them.
 */
static void begin_work(void)
{
	void *p = alloc(MIB, cuda_a), *q = alloc(MIB, cuda_b);

	must(weir_stream_sync(device_find(0)->joint, 20 * SEC));
	hang(a, p);
	hang(b, q);
	free_in(p, cuda_a);
	free_in(q, cuda_b);
}

static void end_work(void)
{
	fake.disarm();
	fake.release();
	weir_torch_empty_cache();
}

static void failed_wait(void)
{
	begin_work();
	fake.arm("cuStreamWaitEvent", 1, FAKECUDA_ONCE, 2);
	is_str(said(use_and_free), "", "a wait that fails once is made again");
	is_int(live(), 0, "the block is freed");
	end_work();
}

/* The joint stream cannot be recovered while its first wait is not over. */
static void failed_second(void)
{
	begin_work();
	fake.arm("cuStreamWaitEvent", 2, FAKECUDA_ONCE, 2);
	ok(strstr(said(use_and_free), "weir_torch_free: device 0: "),
	   "a block for which the second wait fails is reported");
	is_int(live(), 20 * MIB, "it stays allocated");
	fake.release();
	weir_torch_empty_cache();
	is_int(live(), 0, "it is freed when the first wait is over");
	is_str(said(use_and_free), "", "later blocks are freed as ever");
	is_int(live(), 0, "none of them stays allocated");
	end_work();
}

static void failed_waits(void)
{
	begin_work();
	fake.arm("cuStreamWaitEvent", 1, FAKECUDA_FROM_THEN_ON, 2);
	ok(strstr(said(use_and_free), "OUT_OF_MEMORY"),
	   "the sentence says why a block cannot be freed");
	said(use_and_free);
	said(use_and_free);
	is_int(live(), 60 * MIB,
	       "while waits fail no block is freed that several streams use");
	fake.disarm();
	is_str(said(use_and_free), "", "when waits succeed a block is freed");
	use_and_free();
	is_int(live(), 0, "each free tries to free two such blocks again");
	end_work();
}

static void four_unfreed(void)
{
	begin_work();
	fake.arm("cuStreamWaitEvent", 1, FAKECUDA_FROM_THEN_ON, 2);
	for (unsigned i = 0; i < 4; i++)
		said(use_and_free);
	if (live() != 80 * MIB)
		bail("%d bytes are live", (int)live());
	fake.disarm();
	fake.release();
}

static void failed_then_empty(void)
{
	four_unfreed();
	weir_torch_empty_cache();
	is_int(live(), 0,
	       "weir_torch_empty_cache frees what could not be freed");
	is_int(device_bytes(), 0, "it returns that memory to the device, too");
}

static void *filled[64];

static void fill_device(void)
{
	for (unsigned i = 0; i < 64; i++)
		filled[i] = weir_torch_alloc(20 * MIB, 0, cuda_a);
}

/* Nothing is freed meanwhile. */
static void failed_then_full(void)
{
	unsigned n = 0;

	four_unfreed();
	said(fill_device);
	for (unsigned i = 0; i < 64; i++)
		n += filled[i] != NULL;
	is_int(live(), n * 20 * MIB,
	       "an allocation that finds no memory frees what could not be freed");
	ok(n < 64, "all memory of the device is allocated");
	for (unsigned i = 0; i < 64; i++)
		free_in(filled[i], cuda_a);
	end_work();
	is_int(device_bytes(), 0, "nothing of it is left");
}

/* Each block is a little larger than the buffer of the last one. */
static void growing_sizes(void)
{
	size_t n = 128 * MIB;
	void *p = NULL;

	for (; n < 1000 * MIB; n += 37 * MIB) {
		p = weir_torch_alloc((ssize_t)n, 0, cuda_a);
		if (!p)
			break;
		free_in(p, cuda_a);
	}
	ok(p,
	   "with all buffers empty there is memory, whatever sizes they have");
	weir_torch_empty_cache();
}

/* They exist as long as the hooks are in use. */
static struct weir_stream *list[STREAMS];

/* A trim marks a few streams at a time. */
static void many_streams(void)
{
	static struct CUstream_st *cuda[STREAMS];
	static void *p[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++) {
		list[i] = native(&cuda[i]);
		p[i] = alloc(2 * MIB, cuda[i]);
	}
	for (unsigned i = 0; i < STREAMS; i++)
		free_in(p[i], cuda[i]);
	weir_torch_empty_cache();
	is_int(device_bytes(), 0,
	       "memory of %u streams is returned to the device", STREAMS);
}

static void *empty_main(void *arg)
{
	(void)arg;
	weir_torch_empty_cache();
	return NULL;
}

/* The thread waits for work that ends after the other calls have returned. */
static void emptied_meanwhile(void)
{
	void *p = alloc(MIB, cuda_a), *q;
	pthread_t thread;

	hang(a, p);
	free_in(p, cuda_a);
	pthread_create(&thread, NULL, empty_main, NULL);
	usleep(20000);
	q = alloc(MIB, cuda_b);
	weir_torch_record_stream(q, cuda_a);
	free_in(q, cuda_b);
	ok(true, "no other call waits while weir_torch_empty_cache waits");
	fake.release();
	fake.disarm();
	pthread_join(thread, NULL);
}

static void call_all(void *p)
{
	if (weir_torch_alloc(MIB, 0, cuda_a) ||
	    weir_torch_alloc(MIB, 0, (struct CUstream_st *)4096) ||
	    weir_torch_alloc(MIB, 1, cuda_a))
		_exit(2);
	weir_torch_record_stream(p, cuda_a);
	weir_torch_free(p, 0, 0, cuda_a);
	weir_torch_empty_cache();
}

/* All locks are held, as by threads that the child does not have. */
static void forked(void)
{
	struct device *d = device_find(0);
	void *p = alloc(MIB, cuda_a);
	int status = 0;
	pid_t pid;

	weir_torch_record_stream(p, cuda_b);
	pthread_mutex_lock(&torch.lock);
	pthread_mutex_lock(&d->lock);
	pid = fork();
	if (!pid) {
		/* A call that blocks is ended. */
		alarm(120);
		if (!freopen("/dev/null", "w", stderr))
			_exit(3);
		call_all(p);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	pthread_mutex_unlock(&d->lock);
	pthread_mutex_unlock(&torch.lock);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "in a child of fork all calls fail at once, whatever locks were held");
	free_in(p, cuda_a);
	is_int(live(), 0, "the child has freed nothing of its parent");
}

int main(void)
{
	char path[512];

	setenv("FAKECUDA_DEVICES", "2", 1);
	setenv("FAKECUDA_MEM", "1073741824", 1);
	open_fake();
	plan(27);
	snprintf(path, sizeof(path), "%s/lib/cuda/.libs",
		 getenv("builddir") ? getenv("builddir") : ".");
	setenv("WEIR_MODULE_PATH", path, 1);
	weir = open_cuda();
	a = native(&cuda_a);
	b = native(&cuda_b);
	shards();
	many_uses();
	failed_wait();
	failed_second();
	failed_waits();
	failed_then_empty();
	failed_then_full();
	growing_sizes();
	many_streams();
	emptied_meanwhile();
	forked();
	if (on_fake(1)) {
		struct fakecuda_counts c;

		fake.counts(&c);
		if (!is_int(c.misuse, 0, "no call has misused the driver"))
			diag("%s", fake.misuse());
	}
	for (unsigned i = 0; i < STREAMS; i++)
		weir_stream_free(list[i]);
	weir_stream_free(a);
	weir_stream_free(b);
	weir_close(weir);
	return done_testing();
}
