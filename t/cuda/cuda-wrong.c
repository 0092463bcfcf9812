/* SPDX-License-Identifier: MIT */
/*
 * Calls that streams of a CUDA device refuse: each with a sentence, before
 * anything is queued, and without a driver call that would fail.
 */
#include "gpu.h"

#define N 4096

static struct weir *weir, *far;

static void other_roots(struct weir_stream *s)
{
	struct weir_tensor d = on_gpu(weir, N), there = on_gpu(far, N);
	struct weir_stream *of_far = gpu_stream(far, "far", 0);
	struct weir_event *ev = new_event(far, 0);

	is_err(weir_stream_record(s, ev), -EINVAL, "another root",
	       "an event of another root is not recorded");
	must(weir_stream_record(of_far, ev));
	is_err(weir_stream_wait(s, ev), -EINVAL, "another root",
	       "an event of another root is not waited for");
	is_err(weir_stream_fill(s, &there, 0, N, 0), -EINVAL, "two roots",
	       "memory of another root is refused as a destination");
	is_err(weir_stream_copy(s, &d, &there), -EINVAL, "two roots",
	       "memory of another root is refused as a source");
	weir_event_free(ev);
	weir_stream_free(of_far);
	weir_buf_free(d.buf);
	weir_buf_free(there.buf);
}

static void bounds(struct weir_stream *s)
{
	struct weir_tensor d = on_gpu(weir, N), part = d, nowhere = d;
	unsigned char host[64];

	is_err(weir_stream_set(s, &d, N, host, 1), -EINVAL, "has 4096",
	       "set: a byte after the end is refused");
	is_err(weir_stream_set(s, &d, 8, host, SIZE_MAX - 7), -EINVAL,
	       "has 4096", "set: a size that wraps to 0 is refused");
	is_err(weir_stream_set(s, &d, SIZE_MAX, host, 2), -EINVAL, "has 4096",
	       "set: an offset that wraps is refused");
	is_err(weir_stream_get(s, &d, 8, host, SIZE_MAX - 7), -EINVAL,
	       "has 4096", "get: a size that wraps is refused");
	is_err(weir_stream_get(s, &d, N - 63, host, 64), -EINVAL, "has 4096",
	       "get: a byte after the end is refused");
	is_err(weir_stream_fill(s, &d, 16, SIZE_MAX - 15, 1), -EINVAL,
	       "has 4096", "fill: a size that wraps is refused");
	is_err(weir_stream_set(s, &d, 0, (void *)(UINTPTR_MAX - 7), 64),
	       -EINVAL, "64 bytes at",
	       "host memory whose end wraps is refused");
	is_err(weir_stream_set(s, &d, 0, NULL, 64), -EINVAL, "64 bytes at",
	       "host memory at NULL is refused");
	part.offset = 1;
	is_err(weir_stream_fill(s, &part, 0, N, 1), -EINVAL, "4096",
	       "a tensor that ends after its buffer is refused");
	part.offset = UINT64_MAX - 7;
	is_err(weir_stream_fill(s, &part, 0, N, 1), -EINVAL, "4096",
	       "a tensor whose end wraps is refused");
	is_err(weir_stream_copy(s, &d, &part), -EINVAL, "4096",
	       "a source whose end wraps is refused");
	nowhere.buf = NULL;
	is_err(weir_stream_copy(s, &d, &nowhere), -EINVAL, "not placed",
	       "a source without a buffer is refused");
	weir_buf_free(d.buf);
}

static void rows(struct weir_stream *s)
{
	struct weir_tensor d = on_gpu(weir, N);
	unsigned char host[64];
	struct weir_rect r = {
		.width = 4, .rows = 2, .pitch = 3, .host_pitch = 4
	};

	is_err(weir_stream_set_2d(s, &d, &r, host), -EINVAL, "a pitch of 3",
	       "a pitch below the width is refused");
	r.pitch = UINT64_MAX / 2;
	r.rows = 4;
	is_err(weir_stream_set_2d(s, &d, &r, host), -EINVAL, "4 rows",
	       "rows that wrap are refused");
	r.pitch = N;
	is_err(weir_stream_get_2d(s, &d, &r, host), -EINVAL, "has 4096",
	       "rows that end after the tensor are refused");
	r.pitch = 4;
	r.host_pitch = UINT64_MAX / 2;
	is_err(weir_stream_get_2d(s, &d, &r, host), -EINVAL, "4 rows",
	       "rows that wrap in host memory are refused");
	weir_buf_free(d.buf);
}

static void devices(struct weir_stream *s)
{
	struct weir_tensor d = on_gpu(weir, N), e = on_gpu(weir, N / 2);
	struct weir_tensor over = d;
	struct weir_stream *cpu;

	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	is_err(weir_stream_fill(cpu, &d, 0, N, 1), -EINVAL, "out of reach",
	       "a stream of the CPU does not reach device memory");
	is_err(weir_stream_copy(s, &d, &e), -EINVAL, "4096",
	       "tensors of two shapes are not copied");
	over.shape[0] = e.shape[0];
	over.offset = N / 4;
	weir_buf_free(e.buf);
	e.buf = d.buf;
	is_err(weir_stream_copy(s, &over, &e), -EINVAL, "overlap",
	       "tensors that overlap are not copied");
	weir_stream_free(cpu);
	weir_buf_free(d.buf);
}

/* A buffer that is freed while it is in use, and its address afterwards. */
static void freed(struct weir_stream *s)
{
	struct weir_tensor d = on_gpu(weir, N), e = on_gpu(weir, N);
	struct weir_buf *buf;
	unsigned char out[4] = { 0 };
	uint64_t ptr;

	must(weir_cuda_buf_ptr(d.buf, &ptr));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &d, 0, N, 0x66));
	must(weir_stream_copy(s, &e, &d));
	weir_buf_free(d.buf);
	fake.release();
	is_int(weir_stream_sync(s, 20 * SEC), 0,
	       "work on a buffer that was freed goes on");
	must(weir_tensor_get(&e, 0, out, 4));
	is_int(out[3], 0x66, "work on a buffer that was freed has its bytes");
	/* A thread frees it. */
	for (unsigned i = 0; i < 20000; i++) {
		if (weir_cuda_buf_wrap(gpu(weir), ptr, N, NULL, NULL, &buf) < 0)
			break;
		weir_buf_free(buf);
		usleep(500);
	}
	is_err(weir_cuda_buf_wrap(gpu(weir), ptr, N, NULL, NULL, &buf), -EINVAL,
	       "no address of device memory",
	       "the address of a freed buffer is not wrapped");
	weir_buf_free(e.buf);
}

static void all(const char *prefix, uint32_t flags)
{
	struct weir_stream *s = gpu_stream(weir, "refuses", flags);

	tap_prefix(prefix);
	other_roots(s);
	bounds(s);
	rows(s);
	devices(s);
	is_int(weir_stream_sync(s, -1), 0,
	       "calls that were refused do not fail the stream");
	freed(s);
	weir_stream_free(s);
}

int main(void)
{
	open_driver();
	plan(56);
	weir = open_cuda();
	far = open_cuda();
	all("", 0);
	all("native: ", WEIR_STREAM_NATIVE);
	tap_prefix("");
	weir_close(far);
	weir_close(weir);
	all_given_back("after calls that were refused");
	return done_testing();
}
