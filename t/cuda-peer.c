/* SPDX-License-Identifier: MIT */
/* Copies between two devices, with access to each other and without. */
#include <time.h>

#include "gpu.h"

#define MIB ((size_t)1 << 20)

static struct weir *weir;
static const char *how; /* "direct: " or "by the host: " */

static struct weir_dev *numbered(const char *name)
{
	struct weir_dev *dev;

	must(weir_dev_find(weir, name, &dev));
	return dev;
}

static struct weir_stream *stream_of(const char *name)
{
	struct weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	struct weir_stream *s;

	o.name = name;
	must(weir_stream_new(numbered(name), &o, &s));
	return s;
}

/* @n bytes of memory of @name, in a buffer of their own. */
static struct weir_tensor tensor_on(const char *name, size_t n)
{
	int64_t shape = (int64_t)n;
	struct weir_buft *buft;
	struct weir_tensor t;
	struct weir_buf *buf;

	must(weir_dev_buft(numbered(name), WEIR_MEM_DEVICE, &buft));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(buft, n, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	return t;
}

static bool tensor_is(const struct weir_tensor *t, size_t n, unsigned seed)
{
	unsigned char *out = malloc(n);
	bool good;

	must(weir_tensor_get(t, 0, out, n));
	good = is_pattern(out, n, seed);
	free(out);
	return good;
}

static void fill_with(const struct weir_tensor *t, size_t n, unsigned seed)
{
	unsigned char *in = malloc(n);

	pattern(in, n, seed);
	must(weir_tensor_set(t, 0, in, n));
	free(in);
}

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

/* There and back, by the stream of either; 4 MiB at 0.1 GB/s are 40 ms. */
static void queued(struct weir_stream *s0, struct weir_stream *s1)
{
	struct weir_tensor a = tensor_on("CUDA0", 4 * MIB);
	struct weir_tensor b = tensor_on("CUDA1", 4 * MIB);
	struct weir_tensor c = tensor_on("CUDA0", 4 * MIB);
	struct weir_event *ev = new_event(weir, 0);
	unsigned long before = fake.calls("cuMemcpyPeerAsync");
	int64_t begun, took;

	fill_with(&a, 4 * MIB, 3);
	fake.set("RATE", "1e8");
	must(weir_stream_copy(s0, &b, &a));
	must(weir_stream_copy(s0, &c, &b));
	must(weir_stream_sync(s0, -1));
	ok(tensor_is(&c, 4 * MIB, 3),
	   "%swhat is copied to another device and back is the same", how);
	fill_with(&c, 4 * MIB, 4);
	begun = now();
	must(weir_stream_copy(s1, &b, &c));
	must(weir_stream_record(s1, ev));
	took = now() - begun;
	is_int(weir_event_query(ev), 0,
	       "%sthe other's stream copies, too: it is on its way", how);
	ok(took < 30 * MS, "... and took no caller's time: %.3f ms",
	   (double)took / MS);
	is_int(weir_event_wait(ev, 10 * SEC), 0, "... and ends");
	fake.set("RATE", "0");
	ok(tensor_is(&b, 4 * MIB, 4), "... with every byte");
	is_int(fake.calls("cuMemcpyPeerAsync") - before, 3,
	       "... each by the driver's own call for that");
	weir_event_free(ev);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
	weir_buf_free(c.buf);
}

/* Columns 16 to 48 of @rows rows of 64 bytes. */
static struct weir_tensor columns(struct weir_tensor t, int64_t rows)
{
	int64_t shape[2] = { rows, 32 };
	struct weir_tensor view;

	must(weir_tensor_init(&view, WEIR_DTYPE_U8, 2, shape));
	view.stride[0] = 64;
	view.buf = t.buf;
	view.offset = 16;
	return view;
}

static bool columns_are(const struct weir_tensor *t, unsigned inner,
			unsigned outer)
{
	unsigned char out[64 * 8], in[64 * 8], was[64 * 8];

	must(weir_tensor_get(t, 0, out, sizeof(out)));
	pattern(in, sizeof(in), inner);
	pattern(was, sizeof(was), outer);
	for (size_t i = 0; i < sizeof(out); i++)
		if (out[i] != (i % 64 >= 16 && i % 64 < 48 ? in : was)[i])
			return false;
	return true;
}

static void views(struct weir_stream *s0)
{
	struct weir_tensor a = tensor_on("CUDA0", 512), va = columns(a, 8);
	struct weir_tensor b = tensor_on("CUDA1", 512), vb = columns(b, 8);
	unsigned long before = fake.calls("cuMemcpy3DPeerAsync");

	fill_with(&a, 512, 1);
	fill_with(&b, 512, 2);
	must(weir_stream_copy(s0, &vb, &va));
	is_int(weir_stream_sync(s0, -1), 0, "%sa view is copied", how);
	ok(columns_are(&b, 1, 2), "... and nothing of its gaps");
	is_int(fake.calls("cuMemcpy3DPeerAsync") - before, 1,
	       "... all of its rows at once");
	fill_with(&b, 512, 2);
	fill_with(&a, 512, 5);
	is_int(weir_tensor_copy(&va, &vb), 0,
	       "%sa call that blocks copies one too", how);
	ok(columns_are(&a, 2, 5), "... and nothing of its gaps");
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void blocking(void)
{
	struct weir_tensor a = tensor_on("CUDA0", 3 * MIB);
	struct weir_tensor b = tensor_on("CUDA1", 3 * MIB);
	unsigned long before = fake.calls("cuMemcpyPeerAsync");

	fill_with(&a, 3 * MIB, 9);
	must(weir_tensor_copy(&b, &a));
	ok(tensor_is(&b, 3 * MIB, 9), "%sa tensor is copied by a call", how);
	is_int(fake.calls("cuMemcpyPeerAsync") - before, 1,
	       "... which the driver does at once");
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void both_ways(bool access)
{
	unsigned long before = fake.calls("cuCtxEnablePeerAccess");
	struct weir_stream *s0, *s1;

	how = access ? "direct: " : "by the host: ";
	fake.set("NO", access ? "" : "peer");
	weir = open_cuda();
	s0 = stream_of("CUDA0");
	s1 = stream_of("CUDA1");
	queued(s0, s1);
	views(s0);
	blocking();
	is_int(fake.calls("cuCtxEnablePeerAccess") - before, access ? 2 : 0,
	       "%saccess is had once for each direction", how);
	is_int(strstr(cuda_log, "CUDA1 has no access to memory of CUDA0") !=
		       NULL,
	       !access, "... or the log is told that it is not");
	weir_stream_free(s0);
	weir_stream_free(s1);
	weir_close(weir);
	fake.set("NO", "");
}

static void refused(void)
{
	struct weir_tensor b = tensor_on("CUDA1", 64), h = bytes(weir, 64);
	struct weir_stream *s = stream_of("CUDA0"), *cpu;
	char data[64] = { 0 };

	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	is_err(weir_stream_set(s, &b, 0, data, 64), -EINVAL, "out of reach",
	       "only copies between tensors reach another device: no set");
	is_err(weir_stream_fill(s, &b, 0, 64, 1), -EINVAL, "out of reach",
	       "... and no fill");
	is_err(weir_stream_copy(s, &b, &h), -EINVAL, "must be of that device",
	       "from the host a device's own stream copies");
	is_err(weir_stream_copy(s, &h, &b), -EINVAL, "must be of that device",
	       "... and to it");
	is_err(weir_stream_copy(cpu, &b, &h), -EINVAL, "out of reach",
	       "a stream of the CPU reaches no device");
	is_int(weir_stream_sync(s, -1), 0, "which does the streams no harm");
	weir_stream_free(s);
	weir_stream_free(cpu);
	weir_buf_free(b.buf);
	weir_buf_free(h.buf);
}

/* Errors of the driver, and whose device is lost by them. */
static void failures(void)
{
	struct weir_tensor a = tensor_on("CUDA0", 64);
	struct weir_tensor b = tensor_on("CUDA1", 64);
	struct weir_stream *s = stream_of("CUDA0"), *t = stream_of("CUDA0");

	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_ONCE, 999);
	must(weir_stream_copy(s, &b, &a));
	is_err(weir_stream_sync(s, -1), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a copy that fails ends the stream with the driver's words");
	must(weir_stream_reset(s));
	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_ONCE, 999);
	is_err(weir_tensor_copy(&b, &a), -EIO,
	       "cuMemcpyPeerAsync of 64 bytes: CUDA_ERROR_UNKNOWN",
	       "... and the call that makes it");
	/* Only the call fails: the stream's own device is well. */
	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_ONCE, 700);
	must(weir_stream_copy(s, &b, &a));
	is_err(weir_stream_sync(s, -1), -EIO, "CUDA_ERROR_INVALID_CONTEXT",
	       "a copy from a device that is lost fails");
	has_str(cuda_log, "CUDA1 is lost: CUDA_ERROR_ILLEGAL_ADDRESS",
		"... the loss is that device's");
	is_err(weir_stream_copy(t, &a, &b), -ENODEV, "CUDA1 is lost",
	       "... from which nothing is copied any more");
	is_err(weir_tensor_copy(&a, &b), -ENODEV, "CUDA1 is lost",
	       "... by no call");
	must(weir_stream_fill(t, &a, 0, 64, 1));
	is_int(weir_stream_sync(t, -1), 0, "... and the other works on");
	weir_stream_free(s);
	weir_stream_free(t);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void virtuals(void)
{
	struct weir_tensor a, b;
	struct weir_stream *s;
	struct weir_dev *dev;
	unsigned long before;

	must(weir_dev_init(weir, "CUDA0:virtual=2", &dev));
	s = stream_of("CUDA0");
	a = tensor_on("CUDA0", 1000);
	b = tensor_on("CUDA0-1", 1000);
	fill_with(&a, 1000, 8);
	before = fake.calls("cuMemcpyDtoDAsync");
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_sync(s, -1));
	ok(tensor_is(&b, 1000, 8), "halves of one device copy to each other");
	fill_with(&b, 1000, 7);
	must(weir_tensor_copy(&a, &b));
	ok(tensor_is(&a, 1000, 7), "... also by a call that blocks");
	is_int(fake.calls("cuMemcpyDtoDAsync") - before, 2,
	       "... as inside of it");
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	plan(50);
	both_ways(true);
	both_ways(false);
	all_given_back("after copies between devices");
	weir = open_cuda();
	refused();
	weir_close(weir);
	weir = open_cuda();
	virtuals();
	weir_close(weir);
	all_given_back("after halves of a device");
	weir = open_cuda();
	failures();
	weir_close(weir);
	return done_testing();
}
