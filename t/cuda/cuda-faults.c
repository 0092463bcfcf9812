/* SPDX-License-Identifier: MIT */
/*
 * Calls that the driver refuses, devices that are lost, work that never ends.
 */
#include <sys/wait.h>
#include <time.h>

#include "gpu.h"
#include "sample.h"

static const struct sample_tensor tensors[] = {
	{ "a", "F32", 600000, 4 },
	{ "b", "U8", 70, 1 },
	{ "c", "BF16", 1500000, 2 },
	{ "d", "F32", 200000, 4 },
};
#define MODEL "cuda-faults.safetensors"
#define SALT 21u
/* How many driver calls a load makes; a slow machine polls more often. */
#define MOST 1500u

/* A load to the device. The caller frees @ret_weights. */
static int load(struct weir *weir, struct weir_weights **ret_weights)
{
	struct weir_buft *buft;
	struct weir_dev *dev;
	int r = weir_dev_find(weir, "CUDA0", &dev);

	if (r == 0)
		r = weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft);
	return r == 0 ? weir_load_all(weir, MODEL, buft, NULL, ret_weights) : r;
}

static int whole_load(struct weir *weir, bool *ret_good)
{
	struct weir_weights *w;
	int r = load(weir, &w);

	*ret_good = false;
	if (r < 0)
		return r;
	*ret_good = !sample_wrong(w, SALT);
	weir_weights_free(w);
	return 0;
}

enum {
	FIRED_NOT,
	FIRED,
	LOST, /* a call has returned -ENODEV */
	STRANGE
};

/* Runs in a process of its own, since the context is lost. */
static int lose_at(unsigned nth, int code)
{
	unsigned long before = fake.calls(NULL);
	struct weir *weir = open_cuda();
	struct weir_tensor h;
	struct weir_weights *w;
	int r;

	fake.arm("*", nth, FAKECUDA_STICKY, code);
	r = load(weir, &w);
	if (r == 0)
		weir_weights_free(w);
	else if (r == -ENODEV && !strstr(weir_error(), "CUDA"))
		return STRANGE;
	h = bytes(weir, 64);
	if (weir_tensor_fill(&h, 0, 64, 1) < 0)
		return STRANGE;
	weir_buf_free(h.buf);
	weir_close(weir);
	if (fake.calls(NULL) - before < nth)
		return FIRED_NOT;
	return r == -ENODEV ? LOST : FIRED;
}

/* The device is lost in each call of a load, one process each. */
static void each_loss(int code, const char *name)
{
	unsigned n = 0, lost = 0, strange = 0;
	int status = 0;
	pid_t pid;

	do {
		tap_renew();
		pid = fork();
		if (pid == 0)
			_exit(lose_at(n + 1, code));
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			bail("fork");
		n++;
		lost += WIFEXITED(status) && WEXITSTATUS(status) == LOST;
		if (!WIFEXITED(status) || WEXITSTATUS(status) == STRANGE) {
			diag("call %u: status %#x", n, status);
			strange++;
		}
	} while ((!WIFEXITED(status) || WEXITSTATUS(status)) && n < MOST);
	ok(lost > 5 && n < MOST,
	   "%s in each of %u calls of a load: %u loads return -ENODEV", name,
	   n - 1, lost);
	is_int(strange, 0,
	       "%s in each call of a load: the CPU works on, nothing hangs",
	       name);
}

static void refused_page_locking(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir *weir = open_cuda();
	struct weir_buft *pinned = gpu_memory(weir, WEIR_MEM_PINNED);
	struct weir_buf *buf;

	must(weir_buf_alloc(pinned, 64 << 20, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_LOCKED && !info.why[0],
	   "page-locked memory is page-locked");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 2);
	must(weir_buf_alloc(pinned, 4 << 20, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_LOCKED,
	   "memory that cannot be registered is allocated by the driver");
	has_str(info.why, "CUDA_ERROR_OUT_OF_MEMORY",
		"a buffer of the driver's own memory says why");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 2);
	fake.arm("cuMemHostAlloc", 1, FAKECUDA_ONCE, 2);
	must(weir_buf_alloc(pinned, 4 << 20, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(!(info.got & WEIR_GOT_LOCKED),
	   "memory that the driver refuses to allocate as well is not locked");
	has_str(info.why, "not page-locked",
		"a buffer that is not page-locked says why");
	weir_buf_free(buf);
	/* The call is repeated when the buffers before it are free. */
	fake.arm("cuMemHostRegister", 1, FAKECUDA_FROM_THEN_ON, 2);
	fake.arm("cuMemHostAlloc", 1, FAKECUDA_FROM_THEN_ON, 2);
	o.flags = WEIR_BUF_STRICT;
	is_err(weir_buf_alloc(pinned, 4 << 20, &o, &buf), -ENOMEM,
	       "page-locked",
	       "a strict allocation fails if it cannot be page-locked");
	fake.disarm();
	weir_close(weir);
}

static void write_combined(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir *weir = open_cuda();
	struct weir_buft *device = gpu_memory(weir, WEIR_MEM_DEVICE);
	struct weir_buft *pinned = gpu_memory(weir, WEIR_MEM_PINNED);
	struct weir_buf *buf;

	o.flags = WEIR_BUF_WRITE_COMBINED;
	must(weir_buf_alloc(pinned, 1 << 20, &o, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_WRITE_COMBINED,
	   "write-combined memory is made on request");
	weir_buf_free(buf);
	is_err(weir_buf_alloc(device, 4096, &o, &buf), -EINVAL, "PINNED",
	       "write-combined device memory is refused");
	weir_close(weir);
}

static void refused_device_memory(void)
{
	struct weir *weir = open_cuda();
	struct weir_buft *device = gpu_memory(weir, WEIR_MEM_DEVICE);
	struct weir_buf *buf;

	is_err(weir_buf_alloc(device, (size_t)7 << 40, NULL, &buf), -EINVAL,
	       "largest buffer", "a buffer larger than the device is refused");
	fake.arm("cuMemAlloc", 1, FAKECUDA_ONCE, 2);
	is_err(weir_buf_alloc(device, 1 << 20, NULL, &buf), -ENOMEM,
	       "CUDA_ERROR_OUT_OF_MEMORY",
	       "a device that is out of memory fails in the driver's words");
	is_int(weir_buf_alloc(device, 1 << 20, NULL, &buf), 0,
	       "an allocation after a failed one works");
	weir_buf_free(buf);
	weir_close(weir);
}

static void refused_wrapping(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir *weir = open_cuda();
	struct weir_buft *pinned = gpu_memory(weir, WEIR_MEM_PINNED);
	struct weir_buf *buf;
	void *own = malloc(1 << 16);

	must(weir_buf_wrap(pinned, own, 1 << 16, NULL, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_LOCKED,
	   "host memory that is wrapped is page-locked");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 1);
	must(weir_buf_wrap(pinned, own, 1 << 16, NULL, NULL, &buf));
	must(weir_buf_info(buf, &info));
	has_str(info.why, "CUDA_ERROR_INVALID_VALUE",
		"wrapped memory that is not page-locked says why");
	weir_buf_free(buf);
	free(own);
	weir_close(weir);
}

/* Without page-locked slots a load is slower, and complete. */
static void refused_slots(void)
{
	struct weir_io_info io = { .size = sizeof(io) };
	struct weir *weir = open_cuda();
	bool good;

	fake.arm("cuMemHostRegister", 1, FAKECUDA_FROM_THEN_ON, 2);
	is_int(whole_load(weir, &good), 0,
	       "a load works without page-locked slots");
	ok(good, "a load without page-locked slots has every byte");
	must(weir_io_info(weir, &io));
	has_str(io.why, "page-locked slots for CUDA0",
		"weir_io_info says that slots are not page-locked");
	fake.disarm();
	weir_close(weir);
}

static void failed_copy(void)
{
	struct weir *weir = open_cuda();
	struct weir_stream *s = gpu_stream(weir, "copies", 0);
	struct weir_tensor d = on_gpu(weir, 4096);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_failure f;

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_ONCE, 999);
	must(weir_stream_fill(s, &d, 0, 100, 1));
	(void)weir_stream_record(s, ev);
	is_err(weir_event_wait(ev, 10 * SEC), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a failed copy fails its event, in the driver's words");
	is_int(weir_stream_error(s, &f), -EIO,
	       "a failed copy fails its stream");
	is_int(f.native, 999, "a failed copy has the driver's own code");
	is_err(weir_stream_fill(s, &d, 0, 1, 1), -ECANCELED,
	       "CUDA_ERROR_UNKNOWN", "work after a failed copy is cancelled");
	must(weir_stream_reset(s));
	must(weir_stream_fill(s, &d, 0, 1, 1));
	is_int(weir_stream_sync(s, -1), 0,
	       "work runs again after weir_stream_reset");
	weir_stream_free(s);
	weir_event_free(ev);
	weir_buf_free(d.buf);
	weir_close(weir);
}

static void lost_device(void)
{
	struct weir *weir = open_cuda();
	struct weir_stream *s = gpu_stream(weir, "first", 0);
	struct weir_stream *other = gpu_stream(weir, "other", 0);
	struct weir_tensor d = on_gpu(weir, 1 << 20), h = bytes(weir, 64);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *cpu;
	struct weir_buf *buf;
	unsigned char byte;
	unsigned long calls;

	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_LOST, 700);
	must(weir_stream_fill(s, &d, 0, 1 << 20, 1));
	(void)weir_stream_record(s, ev);
	(void)weir_stream_wait(cpu, ev);
	is_err(weir_event_wait(ev, 10 * SEC), -ENODEV,
	       "CUDA_ERROR_ILLEGAL_ADDRESS",
	       "a lost device fails its event, in the driver's words");
	is_err(weir_stream_sync(cpu, 10 * SEC), -ECANCELED,
	       "CUDA_ERROR_ILLEGAL_ADDRESS",
	       "a lost device cancels a stream that waits for it");
	is_err(weir_stream_reset(s), -ENODEV, "CUDA_ERROR_ILLEGAL_ADDRESS",
	       "a stream of a lost device cannot be reset");
	must(weir_stream_fill(other, &d, 0, 10, 1));
	is_err(weir_stream_sync(other, 10 * SEC), -ENODEV, "",
	       "another stream of a lost device fails");
	is_err(weir_tensor_get(&d, 0, &byte, 1), -ENODEV, "CUDA0 is lost",
	       "a blocking call on a lost device fails");
	is_err(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), 10, NULL,
			      &buf),
	       -ENODEV, "CUDA_ERROR_ILLEGAL_ADDRESS",
	       "an allocation on a lost device fails");
	has_str(cuda_log, "CUDA0 is lost", "a lost device is logged");
	is_int(weir_tensor_fill(&h, 0, 64, 1), 0,
	       "the CPU works when a device is lost");
	calls = fake.calls(NULL);
	weir_stream_free(s);
	weir_stream_free(other);
	weir_stream_free(cpu);
	weir_event_free(ev);
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
	weir_close(weir);
	ok(fake.calls(NULL) - calls < 3,
	   "objects of a lost device are freed without the driver (%lu calls)",
	   fake.calls(NULL) - calls);
}

static void hung_device(void)
{
	struct weir *weir = open_cuda();
	struct weir_stream *s = gpu_stream(weir, "hung", 0);
	struct weir_tensor d = on_gpu(weir, 4096);
	struct weir_event *ev = new_event(weir, 0);
	struct timespec a, b;

	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(s, &d, 0, 10, 1));
	(void)weir_stream_record(s, ev);
	is_int(weir_event_wait(ev, 20 * MS), -ETIMEDOUT,
	       "a wait for work that never ends times out");
	weir_stream_free(s);
	weir_buf_free(d.buf);
	clock_gettime(CLOCK_MONOTONIC, &a);
	weir_close(weir);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ok(b.tv_sec - a.tv_sec < 60,
	   "closing the root does not wait for work that never ends");
	has_str(cuda_log, "have not finished",
		"work that never ends is logged");
	is_int(weir_event_query(ev), -ESHUTDOWN,
	       "closing the root fails the event of work that never ends");
	weir_event_free(ev);
	fake.release();
	fake.disarm();
}

static void no_entry(const char *without, const char *part, const char *what)
{
	struct weir *weir;
	struct weir_dev *dev;

	fake.set("NO", without);
	weir = open_cuda();
	is_err(weir_dev_find(weir, "CUDA0", &dev), -ENODEV, "there are: CPU",
	       "%s: there is no CUDA0", what);
	has_str(cuda_log, part, "%s: the log says why", what);
	weir_close(weir);
	fake.set("NO", "");
}

int main(void)
{
	open_fake();
	plan(0);
	sample_write(MODEL, tensors, 4, 8, SALT);
	each_loss(214, "an ECC error");
	each_loss(700, "an illegal address");
	fake.arm("cuInit", 1, FAKECUDA_ONCE, 100);
	no_entry("", "CUDA_ERROR_NO_DEVICE", "a driver without a device");
	refused_page_locking();
	write_combined();
	refused_device_memory();
	refused_wrapping();
	refused_slots();
	failed_copy();
	all_given_back("after failed calls");
	hung_device();
	lost_device();
	unlink(MODEL);
	return done_testing();
}
