/* SPDX-License-Identifier: MIT */
/*
 * No weir_stream_* call blocks: each is timed on a device that takes half a
 * second for a copy. Calls that are documented as blocking are not timed:
 * weir_stream_sync, weir_event_wait and closing the root.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "gpu.h"
#include "sample.h"

#define N ((size_t)32 << 20)
#define RATE "6.4e7" /* so that N bytes take half a second */
/*
 * A call may take a fifth of a copy. Under ThreadSanitizer the checksum that
 * the stand-in makes of each source alone takes longer.
 */
#ifdef __SANITIZE_THREAD__
#define LIMIT (400 * MS)
#else
#define LIMIT (100 * MS)
#endif
#define MODEL "cuda-block.safetensors"
/*
 * On a busy machine any call may be late, also because a thread that holds a
 * lock waits for a CPU. A call that blocks takes too long each time.
 */
#define TRIES 5

static struct weir *weir;
static int64_t longest;
static const char *longest_call;

/* Time in ns that this thread was runnable without a CPU; 0: not known. */
static int64_t starved(void)
{
	FILE *f = fopen("/proc/thread-self/schedstat", "re");
	long long ran, waited = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%lld %lld", &ran, &waited) != 2)
		waited = 0;
	fclose(f);
	return waited;
}

/* A clock that stops while other processes have the CPU. */
static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec - starved();
}

static void timed_at(int64_t begun, const char *call)
{
	int64_t took = now() - begun;

	if (took <= longest)
		return;
	longest = took;
	longest_call = call;
}

#define timed(call)                      \
	do {                             \
		int64_t begun_ = now();  \
		must(call);              \
		timed_at(begun_, #call); \
	} while (0)

/* Time a call that returns nothing. */
#define timed_void(call)                 \
	do {                             \
		int64_t begun_ = now();  \
		call;                    \
		timed_at(begun_, #call); \
	} while (0)

static struct weir_tensor in(enum weir_mem kind)
{
	int64_t shape = N;
	struct weir_tensor t;
	struct weir_buf *buf;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(gpu_memory(weir, kind), N, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	return t;
}

static struct weir_tensor dev, dev2, pinned, plain;
static struct weir_stream *s, *other, *cpu;

/* True if work is still in flight: otherwise no call had a reason to block. */
static bool is_in_flight(void)
{
	struct weir_event *ev = new_event(weir, 0);
	int r;

	timed(weir_stream_record(s, ev));
	r = weir_event_query(ev);
	must(weir_stream_sync(s, 50 * SEC));
	weir_event_free(ev);
	return r == 0;
}

static void none_blocks(bool (*part)(void), const char *what)
{
	bool in_flight = false;

	longest = 0;
	for (int i = 0; i < TRIES && (!in_flight || longest > LIMIT); i++) {
		longest = 0;
		in_flight = part();
	}
	ok(in_flight, "%s: the work is in flight", what);
	ok(longest <= LIMIT, "%s: no call took longer than %.0f ms: %.3f", what,
	   (double)LIMIT / MS, (double)longest / MS);
	if (longest > LIMIT)
		diag("%s", longest_call);
}

static bool host_memory(const struct weir_tensor *host)
{
	static const struct weir_rect rect = { .width = N / 8 - 64,
					       .rows = 8,
					       .pitch = N / 8,
					       .host_pitch = N / 8 };
	void *data = weir_tensor_data(host);

	timed(weir_stream_set(s, &dev, 0, data, N));
	timed(weir_stream_get(s, &dev, 0, data, N));
	timed(weir_stream_copy(s, &dev, host));
	timed(weir_stream_copy(s, host, &dev));
	timed(weir_stream_set_2d(s, &dev, &rect, data));
	timed(weir_stream_get_2d(s, &dev, &rect, data));
	timed(weir_stream_fill(s, host, 0, N, 1));
	timed(weir_stream_fill(s, &dev, 0, N, 1));
	return is_in_flight();
}

static bool pinned_memory(void)
{
	return host_memory(&pinned);
}

static bool plain_memory(void)
{
	return host_memory(&plain);
}

static bool device_memory(void)
{
	timed(weir_stream_set(s, &dev, 0, weir_tensor_data(&pinned), N));
	timed(weir_stream_copy(s, &dev2, &dev));
	timed(weir_stream_fill(s, &dev2, 0, N, 1));
	timed(weir_stream_copy(s, &pinned, &plain));
	return is_in_flight();
}

static bool files(void)
{
	struct weir_file *file = temp_file(weir, N, 3);

	timed(weir_stream_read(s, file, 0, &dev, 0, N));
	timed(weir_stream_write(s, file, 0, &dev, 0, N));
	timed(weir_stream_read(s, file, 0, &pinned, 0, N));
	timed(weir_stream_write(s, file, 0, &plain, 0, N));
	timed_void(weir_file_close(file));
	return is_in_flight();
}

static int n_called;

/*
 * A CUDA stream waits for the CPU, another stream and files, and the reverse.
 */
static bool waits(void)
{
	struct weir_file *file = temp_file(weir, N, 3);
	struct weir_event *ev = new_event(weir, 0);
	struct hold hold;
	bool in_flight;

	n_called = 0;
	hold_stream(cpu, &hold);
	timed(weir_stream_record(cpu, ev));
	timed(weir_stream_wait(other, ev));
	timed(weir_stream_copy(other, &dev2, &pinned));
	timed(weir_stream_record(other, ev));
	timed(weir_stream_wait(s, ev));
	timed(weir_stream_copy(s, &pinned, &dev2));
	timed(weir_stream_call(s, count_up, &n_called));
	timed(weir_stream_read(s, file, 0, &dev, 0, N));
	timed(weir_stream_record(s, ev));
	timed(weir_stream_wait(other, ev));
	timed(weir_stream_copy(other, &dev2, &dev));
	timed(weir_stream_record(other, ev));
	timed(weir_stream_wait(cpu, ev));
	timed(weir_stream_call(cpu, count_up, &n_called));
	release_stream(&hold);
	in_flight = is_in_flight();
	must(weir_stream_sync(cpu, 50 * SEC));
	weir_event_free(ev);
	weir_file_close(file);
	return in_flight;
}

static bool loads(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_load *load = sample_load(
		weir, MODEL, N, gpu_memory(weir, WEIR_MEM_DEVICE), ev);
	bool in_flight;

	timed(weir_stream_wait(s, ev));
	timed(weir_stream_copy(s, &dev, &dev2));
	in_flight = is_in_flight();
	weir_event_free(ev);
	weir_load_free(load);
	return in_flight;
}

static int after_failure; /* of the stream that waits */
static char after_words[256];

/* A stream with work in flight is freed after its failure was queried. */
static bool streams(void)
{
	struct weir_event *ev = new_event(weir, WEIR_EVENT_TIMED);
	struct weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	struct weir_stream *brief;
	struct weir_failure f;
	int minus_5 = -5, r;

	timed(weir_stream_new(gpu(weir), &o, &brief));
	timed(weir_stream_copy(brief, &dev, &pinned));
	timed(weir_stream_call(brief, fail_with, &minus_5));
	timed(weir_stream_record(brief, ev));
	timed(weir_event_fd(ev));
	timed(weir_stream_wait(s, ev));
	timed(weir_stream_error(brief, &f));
	timed_void(weir_stream_reset(brief));
	timed_void(weir_stream_free(brief));
	r = weir_event_query(ev);
	after_failure = weir_stream_sync(s, 50 * SEC);
	snprintf(after_words, sizeof(after_words), "%s", weir_error());
	timed(weir_stream_reset(s));
	timed_void(weir_event_free(ev));
	return r == 0;
}

int main(void)
{
	open_fake();
	plan(19);
	weir = open_cuda();
	s = gpu_stream(weir, "slow", 0);
	other = gpu_stream(weir, "other", 0);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	dev = in(WEIR_MEM_DEVICE);
	dev2 = in(WEIR_MEM_DEVICE);
	pinned = in(WEIR_MEM_PINNED);
	plain = bytes(weir, N);
	fake.set("RATE", RATE);
	none_blocks(pinned_memory, "page-locked memory");
	none_blocks(plain_memory, "memory of any kind");
	none_blocks(device_memory, "copies inside the device");
	none_blocks(files, "reads and writes of a file");
	none_blocks(waits, "a chain of waits");
	is_int(n_called, 2, "the host functions of a chain of waits have run");
	none_blocks(loads, "a load that is waited for");
	none_blocks(streams, "a stream that is freed");
	is_int(after_failure, -ECANCELED,
	       "a failed stream that is freed fails the stream that waits");
	has_str(after_words, "returned -5",
		"the stream that waits says why the other one has failed");
	fake.set("RATE", "0");
	weir_stream_free(s);
	weir_stream_free(other);
	weir_stream_free(cpu);
	weir_buf_free(dev.buf);
	weir_buf_free(dev2.buf);
	weir_buf_free(pinned.buf);
	weir_buf_free(plain.buf);
	weir_close(weir);
	all_given_back("after calls that do not block");
	return done_testing();
}
