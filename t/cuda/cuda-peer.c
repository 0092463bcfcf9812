/* SPDX-License-Identifier: MIT */
/* Copies between two devices that can access each other, or not. */
#include "gpu.h"

#define MIB ((size_t)1 << 20)

static struct weir *weir;
#define WHOLE ((uint64_t)8 << 30) /* the memory of a GPU of the stand-in */

static const char *how; /* "direct: " or "through the host: " */

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

/*
 * Copy to the other device and back, by either's stream. The last copy hangs
 * until it is released.
 */
static void queued(struct weir_stream *s0, struct weir_stream *s1)
{
	struct weir_tensor a = tensor_on("CUDA0", 4 * MIB);
	struct weir_tensor b = tensor_on("CUDA1", 4 * MIB);
	struct weir_tensor c = tensor_on("CUDA0", 4 * MIB);
	struct weir_event *ev = new_event(weir, 0);
	unsigned long before = fake.calls("cuMemcpyPeerAsync");

	fill_with(&a, 4 * MIB, 3);
	must(weir_stream_copy(s0, &b, &a));
	must(weir_stream_copy(s0, &c, &b));
	must(weir_stream_sync(s0, -1));
	ok(tensor_is(&c, 4 * MIB, 3),
	   "%sbytes are the same after copies to another device and back", how);
	fill_with(&c, 4 * MIB, 4);
	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_HANG, 0);
	must(weir_stream_copy(s1, &b, &c));
	must(weir_stream_record(s1, ev));
	ok(true, "%sa call that copies between devices does not wait for it",
	   how);
	is_int(weir_event_query(ev), 0,
	       "%sa copy by the other device's stream is in flight", how);
	fake.release();
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "%san event after a copy between devices completes", how);
	ok(tensor_is(&b, 4 * MIB, 4),
	   "%sa copy by the other device's stream has every byte", how);
	is_int(fake.calls("cuMemcpyPeerAsync") - before, 3,
	       "%seach copy is one cuMemcpyPeerAsync", how);
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
	is_int(weir_stream_sync(s0, -1), 0,
	       "%sa view is copied to another device", how);
	ok(columns_are(&b, 1, 2), "%sbytes between rows are not copied", how);
	is_int(fake.calls("cuMemcpy3DPeerAsync") - before, 1,
	       "%sall rows of a view are one call", how);
	fill_with(&b, 512, 2);
	fill_with(&a, 512, 5);
	is_int(weir_tensor_copy(&va, &vb), 0, "%sa blocking call copies a view",
	       how);
	ok(columns_are(&a, 2, 5),
	   "%sa blocking call does not copy bytes between rows", how);
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
	ok(tensor_is(&b, 3 * MIB, 9), "%sa blocking call copies a tensor", how);
	is_int(fake.calls("cuMemcpyPeerAsync") - before, 1,
	       "%sa blocking copy is one cuMemcpyPeerAsync", how);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void both_ways(bool access)
{
	unsigned long before = fake.calls("cuCtxEnablePeerAccess");
	struct weir_stream *s0, *s1;

	how = access ? "direct: " : "through the host: ";
	fake.set("NO", access ? "" : "peer");
	weir = open_cuda();
	s0 = stream_of("CUDA0");
	s1 = stream_of("CUDA1");
	queued(s0, s1);
	views(s0);
	blocking();
	is_int(fake.calls("cuCtxEnablePeerAccess") - before, access ? 2 : 0,
	       "%saccess is asked for once for each direction", how);
	is_int(strstr(cuda_log, "CUDA1 has no access to memory of CUDA0") !=
		       NULL,
	       !access, "%sthe log says if there is no access", how);
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
	       "set does not reach another device");
	is_err(weir_stream_fill(s, &b, 0, 64, 1), -EINVAL, "out of reach",
	       "fill does not reach another device");
	is_err(weir_stream_copy(s, &b, &h), -EINVAL,
	       "needs a stream of that device",
	       "a copy from host memory must be by the device's own stream");
	is_err(weir_stream_copy(s, &h, &b), -EINVAL,
	       "needs a stream of that device",
	       "a copy to host memory must be by the device's own stream");
	is_err(weir_stream_copy(cpu, &b, &h), -EINVAL, "out of reach",
	       "a stream of the CPU does not reach a device");
	is_int(weir_stream_sync(s, -1), 0,
	       "copies that were refused do not fail the stream");
	weir_stream_free(s);
	weir_stream_free(cpu);
	weir_buf_free(b.buf);
	weir_buf_free(h.buf);
}

/* Errors of the driver, and which device is lost by them. */
static void failures(void)
{
	struct weir_tensor a = tensor_on("CUDA0", 64);
	struct weir_tensor b = tensor_on("CUDA1", 64);
	struct weir_stream *s = stream_of("CUDA0"), *t = stream_of("CUDA0");

	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_ONCE, 999);
	must(weir_stream_copy(s, &b, &a));
	is_err(weir_stream_sync(s, -1), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a failed copy between devices fails the stream");
	must(weir_stream_reset(s));
	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_ONCE, 999);
	is_err(weir_tensor_copy(&b, &a), -EIO,
	       "cuMemcpyPeerAsync of 64 bytes: CUDA_ERROR_UNKNOWN",
	       "a failed copy between devices fails the blocking call");
	/* Only the call fails: the stream's own device is not lost. */
	fake.arm("cuMemcpyPeerAsync", 1, FAKECUDA_ONCE, 700);
	must(weir_stream_copy(s, &b, &a));
	is_err(weir_stream_sync(s, -1), -EIO, "CUDA_ERROR_INVALID_CONTEXT",
	       "a copy to a lost device fails the stream");
	has_str(cuda_log, "CUDA1 is lost: CUDA_ERROR_ILLEGAL_ADDRESS",
		"the log names the device that is lost");
	is_err(weir_stream_copy(t, &a, &b), -ENODEV, "CUDA1 is lost",
	       "a stream refuses copies from a lost device");
	is_err(weir_tensor_copy(&a, &b), -ENODEV, "CUDA1 is lost",
	       "a blocking call refuses copies from a lost device");
	must(weir_stream_fill(t, &a, 0, 64, 1));
	is_int(weir_stream_sync(t, -1), 0,
	       "a device works on when another is lost");
	weir_stream_free(s);
	weir_stream_free(t);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void virtual_devices(void)
{
	struct weir_tensor a, b;
	struct weir_stream *s;
	uint64_t avail, total;
	struct weir_dev *dev;
	unsigned long before;

	must(weir_dev_configure(weir, "CUDA0:virtual=2", &dev));
	s = stream_of("CUDA0");
	a = tensor_on("CUDA0", 1000);
	b = tensor_on("CUDA0-1", 1000);
	for (int i = 0; i < 2; i++) {
		must(weir_dev_memory(numbered(i ? "CUDA0-1" : "CUDA0"), &avail,
				     &total));
		is_int(total, WHOLE / 2,
		       "virtual device %d of 2 has half of the GPU's memory",
		       i);
		ok(avail <= total,
		   "virtual device %d of 2 has at most its memory free", i);
	}
	fill_with(&a, 1000, 8);
	before = fake.calls("cuMemcpyDtoDAsync");
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_sync(s, -1));
	ok(tensor_is(&b, 1000, 8),
	   "virtual devices of one GPU copy to each other");
	fill_with(&b, 1000, 7);
	must(weir_tensor_copy(&a, &b));
	ok(tensor_is(&a, 1000, 7),
	   "a blocking call copies between virtual devices");
	is_int(fake.calls("cuMemcpyDtoDAsync") - before, 2,
	       "copies between virtual devices are copies inside the GPU");
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	plan(54);
	both_ways(true);
	both_ways(false);
	all_given_back("after copies between devices");
	weir = open_cuda();
	refused();
	weir_close(weir);
	weir = open_cuda();
	virtual_devices();
	weir_close(weir);
	all_given_back("after virtual devices");
	weir = open_cuda();
	failures();
	weir_close(weir);
	return done_testing();
}
