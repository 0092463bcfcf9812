/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races and native streams: work that they have through weir is
 * checked, and reports say that other orders are not seen.
 */
#include "stream/stream.h"
#include "gpu.h"
#include "racing.h"
#include "sample.h"

#define N ((size_t)256)
#define REMARK \
	"; orders of native streams that are made outside of weir are not seen"

static struct weir_stream *n, *m; /* native */
static struct weir_tensor d;      /* on the device */
static unsigned char host[N];

static void begin(void)
{
	set_up();
	n = gpu_stream(weir, "n", WEIR_STREAM_NATIVE);
	m = gpu_stream(weir, "m", WEIR_STREAM_NATIVE);
	d = on_gpu(weir, N);
	d.name = "d";
}

static void end(void)
{
	must(weir_stream_sync(a, -1));
	must(weir_stream_sync(b, -1));
	must(weir_stream_sync(n, -1));
	must(weir_stream_sync(m, -1));
	weir_stream_free(n);
	weir_stream_free(m);
	weir_buf_free(d.buf);
}

/* Nothing was reported. */
static void clean(const char *title)
{
	end();
	expect_no_race(title);
}

static void dfill(struct weir_stream *s)
{
	must(weir_stream_fill(s, &d, 0, N, 1));
}

static void order(struct weir_stream *first, struct weir_stream *then)
{
	must(weir_stream_record(first, ev));
	must(weir_stream_wait(then, ev));
}

static void without_event(struct weir_stream **x, struct weir_stream **y,
			  const char *title)
{
	char want[600];

	begin();
	dfill(*x);
	must(weir_stream_sync(*y, -1));
	must(weir_stream_fill(*y, &d, 32, 64, 2));
	snprintf(
		want, sizeof(want),
		"stream '%s' operation %d (fill) writes bytes [32, 96) of 'd', which stream '%s' operation 1 (fill) writes, and nothing orders the two: stream '%s' needs to wait for stream '%s' operation 1" REMARK,
		y == &m   ? "m"
		: y == &n ? "n"
			  : "b",
		y == &b ? 1 : 2, x == &n ? "n" : "a",
		y == &m   ? "m"
		: y == &n ? "n"
			  : "b",
		x == &n ? "n" : "a");
	end();
	expect_race(want, title);
}

static void with_event(struct weir_stream **x, struct weir_stream **y,
		       const char *title)
{
	begin();
	dfill(*x);
	order(*x, *y);
	dfill(*y);
	order(*y, *x);
	dfill(*x);
	clean(title);
}

static void done_event(void)
{
	begin();
	dfill(a);
	must(weir_stream_record(a, ev));
	usleep(20000);
	must(weir_stream_wait(n, ev));
	dfill(n);
	clean("a wait of a native stream for an event that is done orders");
}

static void *open_later(void *hold)
{
	usleep(20000);
	release_stream(hold);
	return NULL;
}

/* The work of a host stream is not submitted, so the caller is blocked. */
static void blocking_wait(void)
{
	struct weir_stream *cpu;
	struct hold hold;
	pthread_t thread;

	begin();
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	hold_stream(cpu, &hold);
	must(weir_stream_fill(cpu, &t, 0, 8, 1));
	must(weir_stream_record(cpu, ev));
	pthread_create(&thread, NULL, open_later, &hold);
	must(weir_stream_wait(n, ev));
	pthread_join(thread, NULL);
	must(weir_stream_copy(n, &d, &t));
	must(weir_stream_sync(cpu, -1));
	weir_stream_free(cpu);
	clean("a wait of a native stream that blocks its caller orders");
}

static void through_native(void)
{
	begin();
	dfill(a);
	order(a, n);
	order(n, b);
	dfill(b);
	clean("managed streams are ordered by waits through a native one");
}

/* What a native stream has not waited for is not known through it. */
static void past_native(void)
{
	begin();
	dfill(a);
	must(weir_stream_fill(n, &u, 0, 8, 1));
	order(n, b);
	dfill(b);
	end();
	is_int(reports(1), 1,
	       "a wait for a native stream orders nothing that it does not know");
	ok(!strstr(said, REMARK),
	   "a race of managed streams that no native one knows has no remark");
	tear_down();
}

/* The program may have ordered n and m. */
static void perhaps_by_native(bool done)
{
	begin();
	dfill(a);
	must(weir_stream_record(a, ev));
	if (done)
		usleep(20000);
	must(weir_stream_wait(n, ev));
	order(m, b);
	dfill(b);
	end();
	reports(1);
	has_str(said, REMARK,
		"a race of managed streams that a native one may order has the remark%s",
		done ? ", also if the first has ended" : "");
	tear_down();
}

static void by_wait(void)
{
	must(weir_event_wait(ev, -1));
}

static void by_query(void)
{
	while (weir_event_query(ev) == 0)
		usleep(100);
}

static void by_sync(void)
{
	must(weir_stream_sync(n, -1));
}

static void by_blocking_get(void)
{
	unsigned char byte;

	must(weir_tensor_get(&d, 0, &byte, 1));
}

static void by_blocking_set(void)
{
	must(weir_tensor_set(&d, 0, host + 128, 1));
}

static void program_waits(void (*wait)(void), const char *how)
{
	char text[120];

	begin();
	dfill(n);
	must(weir_stream_record(n, ev));
	wait();
	dfill(m);
	snprintf(text, sizeof(text),
		 "no race with a native stream is reported if %s", how);
	clean(text);
}

static void program_uses(void)
{
	begin();
	must(weir_stream_get(n, &d, 0, host, 64));
	must(weir_tensor_set(&t, 0, host, 64));
	reports(1);
	has_str(said, "race: the program (weir_tensor_set) reads 64 bytes at",
		"memory of the program that a native stream uses is checked");
	has_str(said,
		"the program needs to wait for stream 'n' operation 1 before this call" REMARK,
		"a race of the program with a native stream has the remark");
	end();
	tear_down();
	begin();
	must(weir_stream_get(n, &d, 0, host, 64));
	must(weir_stream_record(n, ev));
	must(weir_event_wait(ev, -1));
	must(weir_tensor_set(&t, 0, host, 64));
	clean("the program may use its memory after the event of a native stream");
}

/* Two streams around one CUstream, and a third after the second is freed. */
static void same_queue(void)
{
	struct CUstream_st *handle;
	struct weir_stream *w;

	begin();
	must(weir_cuda_stream_native(n, &handle));
	dfill(n);
	for (int i = 0; i < 3; i++) {
		must(weir_cuda_stream_wrap(gpu(weir), handle, &w));
		dfill(w);
		dfill(n);
		dfill(w);
		weir_stream_free(w);
	}
	clean("streams around the same CUstream are ordered by it");
}

static void other_queue(void)
{
	struct CUstream_st *handle;
	struct weir_stream *w;

	begin();
	must(weir_cuda_stream_native(m, &handle));
	must(weir_cuda_stream_wrap(gpu(weir), handle, &w));
	must(weir_cuda_stream_native(n, &handle));
	dfill(n);
	dfill(w);
	must(weir_stream_sync(w, -1));
	weir_stream_free(w);
	end();
	is_int(reports(1), 1, "streams around two CUstreams are not ordered");
	tear_down();
}

static void default_queue(void)
{
	struct CUstream_st *handle;
	struct weir_stream *w, *legacy;

	begin();
	must(weir_cuda_stream_native(n, &handle));
	must(weir_cuda_stream_wrap(gpu(weir), NULL, &w));
	must(weir_cuda_stream_wrap(gpu(weir), (struct CUstream_st *)1,
				   &legacy));
	dfill(n);
	dfill(legacy);
	dfill(n);
	dfill(w);
	dfill(legacy);
	must(weir_stream_sync(w, -1));
	must(weir_stream_sync(legacy, -1));
	weir_stream_free(w);
	weir_stream_free(legacy);
	clean("the default stream is thought to be ordered with wrapped ones");
}

static int wait_for(void *sem)
{
	while (sem_wait(sem) < 0)
		;
	return 0;
}

static int post(void *sem)
{
	sem_post(sem);
	return 0;
}

/* The fill of n is checked first: it may come after that of a all the same. */
static void function_that_waits(void)
{
	sem_t sem;

	begin();
	sem_init(&sem, 0, 0);
	must(weir_stream_call(n, wait_for, &sem));
	dfill(n);
	order(n, m);
	dfill(m);
	dfill(a);
	must(weir_stream_sync(a, -1));
	sem_post(&sem);
	clean("what follows an open function of a native stream may come after anything");
}

static struct weir__stream_op *blocks;

static void note_op(struct weir__stream_op *op)
{
	blocks = op;
}

/* The fill of b is issued when the function has returned. */
static void wait_for_function(void)
{
	struct weir__stream_op *op;
	sem_t sem;

	begin();
	sem_init(&sem, 0, 0);
	must(weir__stream_op_begin(b, "hand", WEIR_WORK_CALL, &op));
	op->exclusive = true;
	op->start = note_op;
	must(weir__stream_op_queue(op));
	must(weir_stream_call(n, wait_for, &sem));
	order(n, b);
	dfill(b);
	dfill(a);
	must(weir_stream_sync(a, -1));
	sem_post(&sem);
	must(weir_stream_sync(n, -1));
	weir__stream_op_finish(blocks, NULL);
	clean("what waits for a function of a native stream comes after what the program did before");
}

static void function_that_posts(void)
{
	sem_t sem;

	begin();
	sem_init(&sem, 0, 0);
	dfill(n);
	must(weir_stream_call(n, post, &sem));
	wait_for(&sem);
	dfill(a);
	clean("a function of a native stream that posts a semaphore orders");
}

static void function_is_over(void)
{
	int calls = 0;

	begin();
	must(weir_stream_call(n, count_up, &calls));
	must(weir_stream_sync(n, -1));
	dfill(n);
	dfill(a);
	end();
	is_int(reports(1), 1,
	       "after a function of a native stream its work is checked again");
	tear_down();
}

/*
 * The function begins when the later wait for a is queued already. Neither its
 * begin, nor its end, nor the event after it is an order with the work of a.
 */
static void function_before_wait(void)
{
	struct weir_event *after;
	int calls = 0;

	begin();
	after = new_event(weir, 0);
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(n, &d, 128, 64, 1));
	must(weir_stream_call(n, count_up, &calls));
	must(weir_stream_record(n, after));
	must(weir_stream_fill(a, &d, 0, 64, 1));
	order(a, n);
	fake.release();
	must(weir_event_wait(after, -1));
	must(weir_stream_fill(b, &d, 0, 64, 1));
	weir_event_free(after);
	end();
	is_int(reports(1), 1,
	       "a function of a native stream does not know its later waits");
	tear_down();
}

static void host_file(void)
{
	struct weir_file *file;

	begin();
	file = temp_file(weir, 4096, 1);
	must(weir_stream_read(n, file, 0, &t, 0, 64));
	must(weir_stream_copy(a, &d, &t));
	must(weir_stream_sync(a, -1));
	weir_file_close(file);
	clean("a native read into host memory has ended when the call returns");
}

static void device_file(void)
{
	struct weir_file *file;

	begin();
	file = temp_file(weir, 4096, 1);
	must(weir_stream_read(n, file, 0, &d, 0, 64));
	must(weir_stream_get(m, &d, 60, host, 8));
	weir_file_close(file);
	end();
	reports(1);
	has_str(said,
		"(get) reads bytes [60, 64) of 'd', which stream 'n' operation 1 (read) writes",
		"a native read of a file into device memory is checked");
	tear_down();
}

static void load(bool waits, const char *title)
{
	struct weir_weights *weights;
	struct weir_load *l;

	begin();
	l = sample_load(weir, "cuda-races.safetensors", N,
			gpu_memory(weir, WEIR_MEM_DEVICE), ev);
	must(weir_load_weights(l, &weights));
	if (waits)
		must(weir_stream_wait(n, ev));
	must(weir_stream_get(n, weir_weights_get(weights, 0), 0, host, N));
	must(weir_stream_sync(n, -1));
	is_int(reports(!waits), !waits, "%s", title);
	weir_weights_free(weights);
	weir_load_free(l);
	end();
	tear_down();
}

static void freed_stream(void)
{
	begin();
	dfill(n);
	weir_stream_free(n);
	usleep(20000);
	dfill(m);
	n = gpu_stream(weir, "n", WEIR_STREAM_NATIVE);
	end();
	is_int(reports(1), 1,
	       "work of a native stream that was freed is checked");
	tear_down();
}

static void heap_blocks(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_block block;
	struct weir_stream *in[3];
	struct weir_heap *heap;

	begin();
	in[0] = n;
	in[1] = m;
	in[2] = a;
	o.grow = 1 << 20;
	o.limit = 1 << 20;
	must(weir_heap_new(gpu_memory(weir, WEIR_MEM_DEVICE), &o, &heap));
	for (int i = 0; i < 600; i++) {
		struct weir_stream *s = in[i * 7 / 5 % 3];
		int64_t size = 300000 + i % 7 * 50000;
		struct weir_tensor part;

		must(weir_heap_alloc(heap, (size_t)size, 0, s, &block));
		must(weir_tensor_init(&part, WEIR_DTYPE_U8, 1, &size));
		must(weir_tensor_place(&part, block.buf, block.offset));
		must(weir_stream_fill(s, &part, 0, (size_t)size, 1));
		/* In some turns the marker of the free event ends first. */
		must(weir_heap_free(&block, s));
		if (i % 50 < 2) {
			must(weir_heap_trim(heap, SIZE_MAX));
			usleep(2000);
			must(weir_heap_trim(heap, SIZE_MAX));
		}
	}
	weir_heap_destroy(heap);
	clean("blocks of a heap that native streams use one after another do not race");
}

static void racing(void)
{
	without_event(&n, &m, "two native streams without an event");
	without_event(&n, &b, "a managed stream after a native one");
	without_event(&a, &n, "a native stream after a managed one");
	past_native();
	perhaps_by_native(false);
	perhaps_by_native(true);
	program_uses();
	other_queue();
	default_queue();
	function_is_over();
	function_before_wait();
	device_file();
	load(false, "a native stream that uses a load without a wait races");
	freed_stream();
}

static void in_order(void)
{
	with_event(&n, &m, "native streams that wait for events do not race");
	with_event(&n, &b, "native and managed streams are ordered by events");
	with_event(&a, &n, "managed and native streams are ordered by events");
	done_event();
	blocking_wait();
	through_native();
	program_waits(by_wait, "the program waits for an event");
	program_waits(by_query, "the program asks until an event is done");
	program_waits(by_sync, "the program waits for the stream");
	program_waits(by_blocking_get, "a blocking read comes after a write");
	program_waits(by_blocking_set, "a blocking write comes after a write");
	same_queue();
	function_that_waits();
	wait_for_function();
	function_that_posts();
	host_file();
	load(true, "a native stream that waits for a load does not race");
	heap_blocks();
}

int main(void)
{
	const char *build = getenv("builddir");
	char path[512];

	open_fake();
	plan(0);
	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	setenv("WEIR_MODULE_PATH", path, 1);
	setenv("WEIR_T_DEVICE", "CUDA0", 1);
	setenv("WEIR_DEBUG", "races", 1);
	if (may_race())
		racing();
	in_order();
	return done_testing();
}
