/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device is freed, and host memory unlocked, when all work of the
 * device has ended, also that of the program. Only the thread that frees waits
 * for it. Each case runs in a process of its own, whose device then hangs; the
 * process prints the step that failed.
 */
#include <sys/wait.h>

#include "gpu.h"

#define N ((size_t)1 << 20)
#define LIMIT_S 60 /* a case that takes longer was blocked */

/* A step that fails is printed, and ends the process. */
#define step(what)                                                   \
	do {                                                         \
		if (!(what)) {                                       \
			diag("line %d: %s: %s\n%s", __LINE__, #what, \
			     weir_error(), cuda_log);                \
			_exit(1);                                    \
		}                                                    \
	} while (0)

static void case_in_child(void (*fn)(void), const char *title)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(LIMIT_S);
		fn();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	is_int(status, 0, "%s", title);
}

static struct weir *open_root_with(int64_t close_timeout, uint64_t budget)
{
	const char *build = getenv("builddir");
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;
	char path[512];

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	o.module_path = path;
	o.log = keep_log;
	o.close_timeout = close_timeout;
	o.budget = budget;
	must(weir_open(&o, &weir));
	return weir;
}

/* Work of the program, in a stream that the library does not know. */
static void program_hangs(void)
{
	int (*alloc)(uint64_t *, size_t);
	int (*stream_new)(void **, unsigned);
	int (*fill)(uint64_t, unsigned char, size_t, void *);
	uint64_t at;
	void *stream;

	*(void **)&alloc = fake_symbol("cuMemAlloc_v2");
	*(void **)&stream_new = fake_symbol("cuStreamCreate");
	*(void **)&fill = fake_symbol("cuMemsetD8Async");
	enter_context();
	if (alloc(&at, N) || stream_new(&stream, 1))
		bail("no stream of the program");
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	if (fill(at, 0, N, stream))
		bail("no work of the program");
}

static struct weir_buf *buffer(struct weir *weir, enum weir_mem kind)
{
	struct weir_buf *buf;

	must(weir_buf_alloc(gpu_memory(weir, kind), N, NULL, &buf));
	return buf;
}

static uint64_t used(struct weir *weir, enum weir_mem kind)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	must(weir_buft_info(gpu_memory(weir, kind), &info));
	return info.used;
}

/* The host memory that the device has locked for a buffer of the caller. */
static _Alignas(4096) unsigned char memory[N];
static _Atomic unsigned released;

static void count_release(void *arg)
{
	(void)arg;
	released++;
}

static struct weir_buf *wrapped(struct weir *weir, void (*release)(void *))
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf *buf;

	must(weir_buf_wrap(gpu_memory(weir, WEIR_MEM_PINNED), memory, N,
			   release, weir, &buf));
	must(weir_buf_info(buf, &info));
	step(info.got & WEIR_GOT_LOCKED);
	return buf;
}

static unsigned long live(enum fakecuda_thing thing)
{
	struct fakecuda_counts c;

	fake.counts(&c);
	return c.live[thing];
}

static void buffers(void)
{
	struct weir *weir = open_cuda();
	struct weir_file *file = temp_file(weir, N, 1);
	struct weir_buf *dev = buffer(weir, WEIR_MEM_DEVICE);
	struct weir_buf *pinned = buffer(weir, WEIR_MEM_PINNED);
	struct weir_buf *wrap = wrapped(weir, count_release), *map;

	must(weir_buf_map(gpu_memory(weir, WEIR_MEM_MAPPED), file, 0, N, &map));
	program_hangs();
	weir_buf_free(dev);
	weir_buf_free(pinned);
	weir_buf_free(wrap);
	weir_buf_free(map);
	weir_file_close(file);
	step(used(weir, WEIR_MEM_DEVICE) == N);
	step(used(weir, WEIR_MEM_PINNED) == N);
	step(released == 0);
	step(live(FAKECUDA_REGISTERED) == 3);
	fake.release();
	weir_close(weir);
	step(released == 1);
	step(live(FAKECUDA_REGISTERED) == 0);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1); /* the program's */
}

static void heaps(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir *weir = open_cuda();
	struct weir_heap *heap;
	struct weir_block block;

	o.grow = N;
	must(weir_heap_new(gpu_memory(weir, WEIR_MEM_DEVICE), &o, &heap));
	must(weir_heap_alloc(heap, 4096, 0, NULL, &block));
	program_hangs();
	must(weir_heap_free(&block, NULL));
	must(weir_heap_trim(heap, 0));
	must(weir_heap_alloc(heap, 4096, 0, NULL, &block));
	must(weir_heap_free(&block, NULL));
	weir_heap_destroy(heap);
	fake.release();
	weir_close(weir);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1);
}

/* The work has the last reference, so the thread that completes it frees. */
static void completed_work(void)
{
	struct weir *weir = open_cuda();
	struct weir_stream *a = gpu_stream(weir, "a", 0);
	struct weir_stream *b = gpu_stream(weir, "b", 0);
	struct weir_tensor first = on_gpu(weir, N), second = on_gpu(weir, N);
	struct weir_event *ev = new_event(weir, 0);

	program_hangs();
	must(weir_stream_fill(a, &first, 0, N, 1));
	weir_buf_free(first.buf);
	must(weir_stream_sync(a, -1));
	for (int i = 0; i < 10; i++) {
		must(weir_stream_fill(b, &second, 0, N, 1));
		must(weir_stream_record(b, ev));
		must(weir_event_wait(ev, -1));
	}
	fake.release();
	weir_event_free(ev);
	weir_stream_free(a);
	weir_stream_free(b);
	weir_buf_free(second.buf);
	weir_close(weir);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1);
}

static void allocations(void)
{
	struct weir *weir = open_root_with(0, 3 * N);

	must(weir_buft_set_budget(gpu_memory(weir, WEIR_MEM_DEVICE), N));
	for (int i = 0; i < 100; i++)
		weir_buf_free(buffer(weir, WEIR_MEM_DEVICE));
	must(weir_buft_set_budget(gpu_memory(weir, WEIR_MEM_DEVICE), 0));
	fake.set("MEM", "1500000");
	for (int i = 0; i < 100; i++)
		weir_buf_free(buffer(weir, WEIR_MEM_DEVICE));
	/* The budget of the root has room for one buffer of this size. */
	for (int i = 0; i < 100; i++) {
		struct weir_buf *buf;

		must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), 2 * N,
				    NULL, &buf));
		weir_buf_free(buf);
	}
	weir_close(weir);
}

static void *alloc_one(void *weir)
{
	return buffer(weir, WEIR_MEM_DEVICE);
}

static void waiting_allocation(void)
{
	struct weir *weir = open_cuda();
	struct weir_buf *buf;
	pthread_t thread;
	void *got;

	must(weir_buft_set_budget(gpu_memory(weir, WEIR_MEM_DEVICE), N));
	buf = buffer(weir, WEIR_MEM_DEVICE);
	program_hangs();
	weir_buf_free(buf);
	if (pthread_create(&thread, NULL, alloc_one, weir))
		bail("pthread_create");
	usleep(50000);
	fake.release();
	pthread_join(thread, &got);
	weir_buf_free(got);
	weir_close(weir);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1);
}

/* The memory is freed by the thread that frees, which has more to free. */
static void alloc_in_release(void *weir)
{
	weir_buf_free(buffer(weir, WEIR_MEM_DEVICE));
	released++;
}

static void release_allocates(void)
{
	struct weir *weir = open_cuda();
	struct weir_buf *dev, *wrap = wrapped(weir, alloc_in_release);

	must(weir_buft_set_budget(gpu_memory(weir, WEIR_MEM_DEVICE), N));
	dev = buffer(weir, WEIR_MEM_DEVICE);
	program_hangs();
	weir_buf_free(wrap);
	weir_buf_free(dev);
	fake.release();
	while (!released)
		usleep(1000);
	weir_close(weir);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1);
}

static void without_release(void)
{
	struct weir *weir = open_cuda();

	for (int i = 0; i < 50; i++) {
		weir_buf_free(wrapped(weir, NULL));
		step(live(FAKECUDA_REGISTERED) == 0);
	}
	weir_close(weir);
}

/* Read bytes to the device through slots, which are then page-locked. */
static void use_slots(struct weir *weir)
{
	struct weir_file *file = temp_file(weir, N, 3);
	struct weir_stream *s = gpu_stream(weir, "reads", 0);
	struct weir_tensor t = on_gpu(weir, N);

	must(weir_stream_read(s, file, 0, &t, 0, N));
	must(weir_stream_sync(s, -1));
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(file);
}

static void closing_gives_up(void)
{
	struct weir *weir = open_root_with(SEC / 5, 0);
	struct weir_buf *dev = buffer(weir, WEIR_MEM_DEVICE);
	struct weir_buf *later = buffer(weir, WEIR_MEM_PINNED);
	unsigned long frees;

	use_slots(weir);
	program_hangs();
	weir_buf_free(dev);
	weir_close(weir);
	step(strstr(cuda_log, "weir_close: CUDA0: ") &&
	     strstr(cuda_log, " are leaked: the device has not finished"));
	frees = fake.calls("cuMemHostUnregister");
	weir_buf_free(later);
	step(strstr(cuda_log, "1048576 bytes are leaked"));
	step(!strstr(cuda_log, ": 0 bytes are leaked"));
	fake.release();
	usleep(20000);
	step(fake.calls("cuMemHostUnregister") == frees);
}

static void closing_waits(void)
{
	struct weir *weir = open_cuda();
	struct weir_buf *later;

	use_slots(weir);
	for (int i = 0; i < 20; i++)
		weir_buf_free(buffer(weir, i % 2 ? WEIR_MEM_DEVICE
						 : WEIR_MEM_PINNED));
	later = buffer(weir, WEIR_MEM_DEVICE);
	weir_close(weir);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1);
	step(live(FAKECUDA_REGISTERED) == 0);
	weir_buf_free(later);
	step(live(FAKECUDA_DEVICE_MEMORY) == 0);
	step(live(FAKECUDA_RETAINED) == 0);
}

static void forked(void)
{
	struct weir *weir = open_cuda();
	struct weir_buf *dev = buffer(weir, WEIR_MEM_DEVICE);
	struct weir_buf *other = buffer(weir, WEIR_MEM_DEVICE);
	int status = -1;
	pid_t pid;

	program_hangs();
	weir_buf_free(dev);
	pid = fork();
	if (pid == 0) {
		weir_buf_free(other);
		weir_close(weir);
		_exit(0);
	}
	step(waitpid(pid, &status, 0) == pid && status == 0);
	fake.release();
	weir_buf_free(other);
	weir_close(weir);
	step(live(FAKECUDA_DEVICE_MEMORY) == 1);
}

int main(void)
{
	open_fake();
	plan(10);
	case_in_child(buffers,
		      "weir_buf_free returns while work of the program hangs");
	case_in_child(heaps, "a heap is trimmed and destroyed meanwhile");
	case_in_child(
		completed_work,
		"events of other streams complete while a buffer that completed work dropped is freed");
	case_in_child(allocations,
		      "memory that is not free yet makes no allocation fail");
	case_in_child(waiting_allocation,
		      "an allocation waits for memory that is not free yet");
	case_in_child(release_allocates,
		      "a release function may allocate what is not free yet");
	case_in_child(
		without_release,
		"wrapped memory without a release function is unlocked when weir_buf_free returns");
	case_in_child(closing_waits,
		      "weir_close waits for memory that is not free yet");
	case_in_child(
		closing_gives_up,
		"weir_close leaks memory that cannot be freed in time, and what is freed later");
	case_in_child(forked,
		      "a child leaves memory that is not free yet alone");
	return done_testing();
}
