/* SPDX-License-Identifier: MIT */
/*
 * libweir-torch, as PyTorch uses it: its functions are found with dlsym, and
 * called with streams of the program. On the stand-in work hangs, so that a
 * call that returns did not wait for it.
 */
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "gpu.h"
#include "said.h"

#define MIB ((size_t)1 << 20)
#define THREADS 4

static void *(*torch_alloc)(ssize_t, int, struct CUstream_st *);
static void (*torch_free)(void *, ssize_t, int, struct CUstream_st *);
static void (*torch_record)(void *, struct CUstream_st *);
static void (*torch_empty)(void);

static struct weir *weir;
static struct weir_stream *a, *b;
static struct CUstream_st *cuda_a, *cuda_b;

static void *hook(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol)
		bail("%s", dlerror());
	return symbol;
}

static void open_hooks(void)
{
	const char *build = getenv("builddir");
	char path[512];
	void *library;

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	setenv("WEIR_MODULE_PATH", path, 1);
	snprintf(path, sizeof(path), "%s/hooks/.libs/libweir-torch.so",
		 build ? build : ".");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		bail("%s", dlerror());
	*(void **)&torch_alloc = hook(library, "weir_torch_alloc");
	*(void **)&torch_free = hook(library, "weir_torch_free");
	*(void **)&torch_record = hook(library, "weir_torch_record_stream");
	*(void **)&torch_empty = hook(library, "weir_torch_empty_cache");
}

static struct weir_stream *native(struct CUstream_st **ret_cuda)
{
	struct weir_stream *s = gpu_stream(weir, "", WEIR_STREAM_NATIVE);

	must(weir_cuda_stream_native(s, ret_cuda));
	return s;
}

/* Queue a fill of the memory in @stream; on the stand-in it hangs. */
static void use(struct weir_stream *stream, void *ptr, size_t n)
{
	int64_t shape = (int64_t)n;
	struct weir_tensor t;
	struct weir_buf *buf;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_cuda_buf_wrap(gpu(weir), (uintptr_t)ptr, n, NULL, NULL,
				&buf));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_stream_fill(stream, &t, 0, n, 1));
	weir_buf_free(buf);
}

static void hang(struct weir_stream *stream, void *ptr, size_t n)
{
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	use(stream, ptr, n);
}

/* True if all work that is now queued in @stream ends. */
static bool ends(struct weir_stream *stream)
{
	struct weir_event *ev = new_event(weir, 0);
	bool done;

	must(weir_stream_record(stream, ev));
	done = weir_event_wait(ev, 50 * MS) == 0;
	weir_event_free(ev);
	return done;
}

static void release(void)
{
	fake.release();
	fake.disarm();
	must(weir_stream_sync(a, 20 * SEC));
	must(weir_stream_sync(b, 20 * SEC));
}

static void zero(void)
{
	if (torch_alloc(0, 0, cuda_a))
		bail("0 bytes have an address");
	torch_free(NULL, 0, 0, cuda_a);
}

static void nothing(void)
{
	is_str(said(zero), "", "0 bytes are at NULL, which can be freed");
}

static void same_stream(void)
{
	void *first = torch_alloc(10 * MIB, 0, cuda_a), *second;

	ok(first, "memory is allocated in a stream of the program");
	ok((uintptr_t)first % 256 == 0, "memory is aligned to 256 bytes");
	hang(a, first, MIB);
	torch_free(first, 10 * MIB, 0, cuda_a);
	second = torch_alloc(10 * MIB, 0, cuda_a);
	ok(second == first,
	   "memory that was freed in a stream is used there at once, while its work runs");
	release();
	torch_free(second, 10 * MIB, 0, cuda_a);
}

static bool overlap(const void *p, const void *q, size_t n)
{
	return (const char *)p < (const char *)q + n &&
	       (const char *)q < (const char *)p + n;
}

/* Memory of a, whose work hangs, is not given to b; or b waits for a. */
static void other_stream(void)
{
	void *first = torch_alloc(40 * MIB, 0, cuda_a), *second;

	hang(a, first, MIB);
	torch_free(first, 40 * MIB, 0, cuda_a);
	second = torch_alloc(40 * MIB, 0, cuda_b);
	ok(second, "another stream gets memory while work of the first hangs");
	ok(!overlap(first, second, 40 * MIB) || !ends(b),
	   "another stream waits for the work before it uses the same memory");
	release();
	torch_free(second, 40 * MIB, 0, cuda_b);
}

/* A block of a that b uses too is not used again before b's work is done. */
static void recorded(void)
{
	void *first = torch_alloc(20 * MIB, 0, cuda_a), *second;

	torch_record(first, cuda_b);
	torch_record(first, cuda_b);
	hang(b, first, MIB);
	torch_free(first, 20 * MIB, 0, cuda_a);
	ok(ends(a),
	   "a stream does not wait for another one that uses its memory");
	second = torch_alloc(20 * MIB, 0, cuda_a);
	ok(!overlap(first, second, 20 * MIB) || !ends(a),
	   "memory that another stream uses is used again after its work");
	release();
	torch_free(second, 20 * MIB, 0, cuda_a);
	torch_record(&weir, cuda_b);
	ok(true, "a use of memory that is not of this library is ignored");
}

static void default_stream(void)
{
	void *first = torch_alloc(MIB, 0, NULL);

	ok(first, "memory is allocated in the default stream");
	torch_free(first, MIB, 0, NULL);
}

struct thread {
	pthread_t thread;
	struct weir_stream *stream;
	struct CUstream_st *cuda;
	bool failed;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	void *held[64] = { NULL };

	for (unsigned i = 0; i < 2000; i++) {
		unsigned k = i * 7 % 64;

		torch_free(held[k], 0, 0, t->cuda);
		held[k] = torch_alloc(256 + i * 64, 0, t->cuda);
		t->failed |= !held[k];
	}
	for (unsigned k = 0; k < 64; k++)
		torch_free(held[k], 0, 0, t->cuda);
	return NULL;
}

static struct thread list[THREADS];

static void threads(void)
{
	bool failed = false;

	for (int i = 0; i < THREADS; i++) {
		list[i].stream = native(&list[i].cuda);
		if (pthread_create(&list[i].thread, NULL, thread_main,
				   &list[i]))
			bail("pthread_create");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(list[i].thread, NULL);
		failed |= list[i].failed;
	}
	ok(!failed, "threads allocate and free in streams of their own");
}

static void emptied(void)
{
	struct fakecuda_counts c;
	void *p = torch_alloc(100 * MIB, 0, cuda_a);
	unsigned waited = 0;

	fake.counts(&c);
	ok(c.device_bytes >= 100 * MIB, "a heap grows by memory of the device");
	torch_free(p, 100 * MIB, 0, cuda_a);
	torch_empty();
	/* A thread of the library frees it. */
	do {
		usleep(1000);
		fake.counts(&c);
	} while (c.device_bytes && ++waited < 20000);
	is_int(c.device_bytes, 0,
	       "weir_torch_empty_cache returns all free memory to the device");
}

static void no_device(void)
{
	if (torch_alloc(MIB, 7, cuda_a))
		bail("memory of a device that does not exist");
}

static void no_memory(void)
{
	if (torch_alloc((ssize_t)1 << 40, 0, cuda_a))
		bail("a TiB of a smaller device");
}

static void foreign(void)
{
	torch_free(&weir, MIB, 0, cuda_a);
}

static void failures(void)
{
	ok(strstr(said(no_device), "CUDA7"),
	   "an allocation of an unknown device prints its name");
	ok(strstr(said(no_memory), "weir_heap_alloc: "),
	   "an allocation without memory prints the sentence");
	ok(strstr(said(foreign), "weir_torch_free: device 0: "),
	   "freeing memory that is not of this library prints a sentence");
}

static void two_devices(void)
{
	void *p = torch_alloc(MIB, 1, NULL), *q = torch_alloc(MIB, 0, NULL);

	ok(p && q && p != q, "each device has a heap of its own");
	torch_free(p, MIB, 1, NULL);
	torch_free(q, MIB, 0, NULL);
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	plan(18);
	open_hooks();
	weir = open_cuda();
	a = native(&cuda_a);
	b = native(&cuda_b);
	nothing();
	same_stream();
	other_stream();
	recorded();
	default_stream();
	threads();
	emptied();
	failures();
	two_devices();
	/* The streams exist as long as the hooks use them. */
	for (int i = 0; i < THREADS; i++)
		weir_stream_free(list[i].stream);
	weir_stream_free(a);
	weir_stream_free(b);
	weir_close(weir);
	if (on_fake(1)) {
		struct fakecuda_counts c;

		fake.counts(&c);
		if (!is_int(c.misuse, 0, "no call has misused the driver"))
			diag("%s", fake.misuse());
	}
	return done_testing();
}
