/* SPDX-License-Identifier: MIT */
/* What the driver refuses, loses and never ends. */
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
/* Calls of a load; polls among them, more where the machine is slow. */
#define MOST 1500u

/* A load to the device, after which @ret_weights are to be freed. */
static int load(struct weir *weir, struct weir_weights **ret_weights)
{
	struct weir_buft *buft;
	struct weir_dev *dev;
	int r = weir_dev_find(weir, "CUDA0", &dev);

	if (r == 0)
		r = weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft);
	return r == 0 ? weir_load_all(weir, MODEL, buft, ret_weights) : r;
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
	LOST, /* and told so */
	STRANGE
};

/* In a process of its own: a context does not survive it. */
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

/* The device is lost in each call of a load in turn. */
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
	   "%s in each of %u calls of a load: the device is lost, which %u tell",
	   name, n - 1, lost);
	is_int(strange, 0,
	       "... the process goes on, with the CPU, and nothing hangs");
}

static void refused_memory(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir *weir = open_cuda();
	struct weir_buft *device = gpu_memory(weir, WEIR_MEM_DEVICE);
	struct weir_buft *pinned = gpu_memory(weir, WEIR_MEM_PINNED);
	struct weir_buf *buf;
	void *own = malloc(1 << 16);

	must(weir_buf_alloc(pinned, 64 << 20, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_LOCKED && !info.why[0],
	   "page-locked memory is page-locked");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 2);
	must(weir_buf_alloc(pinned, 4 << 20, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_LOCKED,
	   "where registration is refused it is the driver's own");
	has_str(info.why, "CUDA_ERROR_OUT_OF_MEMORY", "... which it says");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 2);
	fake.arm("cuMemHostAlloc", 1, FAKECUDA_ONCE, 2);
	must(weir_buf_alloc(pinned, 4 << 20, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(!(info.got & WEIR_GOT_LOCKED),
	   "where that is refused too it is not locked");
	has_str(info.why, "not page-locked", "... which it says");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 2);
	fake.arm("cuMemHostAlloc", 1, FAKECUDA_ONCE, 2);
	o.flags = WEIR_BUF_STRICT;
	is_err(weir_buf_alloc(pinned, 4 << 20, &o, &buf), -ENOMEM,
	       "page-locked", "... unless nothing less is wanted");
	fake.disarm();
	o.flags = WEIR_BUF_WRITE_COMBINED;
	must(weir_buf_alloc(pinned, 1 << 20, &o, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_WRITE_COMBINED,
	   "write-combined memory is had where it is asked for");
	weir_buf_free(buf);
	is_err(weir_buf_alloc(device, 4096, &o, &buf), -EINVAL, "PINNED",
	       "... and of no other kind");
	is_err(weir_buf_alloc(device, (size_t)7 << 40, NULL, &buf), -EINVAL,
	       "largest buffer", "a buffer over all of the device is refused");
	fake.arm("cuMemAlloc", 1, FAKECUDA_ONCE, 2);
	is_err(weir_buf_alloc(device, 1 << 20, NULL, &buf), -ENOMEM,
	       "CUDA_ERROR_OUT_OF_MEMORY",
	       "out of memory is told in the driver's words");
	is_int(weir_buf_alloc(device, 1 << 20, NULL, &buf), 0,
	       "... and the next buffer is had");
	weir_buf_free(buf);
	must(weir_buf_wrap(pinned, own, 1 << 16, NULL, NULL, &buf));
	must(weir_buf_info(buf, &info));
	ok(info.got & WEIR_GOT_LOCKED, "host memory that is wrapped is locked");
	weir_buf_free(buf);
	fake.arm("cuMemHostRegister", 1, FAKECUDA_ONCE, 1);
	must(weir_buf_wrap(pinned, own, 1 << 16, NULL, NULL, &buf));
	must(weir_buf_info(buf, &info));
	has_str(info.why, "CUDA_ERROR_INVALID_VALUE",
		"... or says why it is not");
	weir_buf_free(buf);
	free(own);
	weir_close(weir);
}

/* Slots that cannot be locked cost speed, not bytes. */
static void refused_slots(void)
{
	struct weir_io_info io = { .size = sizeof(io) };
	struct weir *weir = open_cuda();
	bool good;

	fake.arm("cuMemHostRegister", 1, FAKECUDA_FROM_THEN_ON, 2);
	is_int(whole_load(weir, &good), 0,
	       "a load works without page-locked slots");
	ok(good, "... with the right bytes");
	must(weir_io_info(weir, &io));
	has_str(io.why, "page-locked slots for CUDA0", "... and says so");
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
	is_int(weir_stream_error(s, &f), -EIO, "... and its stream");
	is_int(f.native, 999, "... with the driver's own code");
	is_err(weir_stream_fill(s, &d, 0, 1, 1), -ECANCELED,
	       "CUDA_ERROR_UNKNOWN", "what comes later is cancelled");
	must(weir_stream_reset(s));
	must(weir_stream_fill(s, &d, 0, 1, 1));
	is_int(weir_stream_sync(s, -1), 0, "... until the stream is reset");
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
	       "a device that is lost fails the event, in the driver's words");
	is_err(weir_stream_sync(cpu, 10 * SEC), -ECANCELED,
	       "CUDA_ERROR_ILLEGAL_ADDRESS", "... and who waits for it");
	is_err(weir_stream_reset(s), -ENODEV, "CUDA_ERROR_ILLEGAL_ADDRESS",
	       "... and its stream, for ever");
	must(weir_stream_fill(other, &d, 0, 10, 1));
	is_err(weir_stream_sync(other, 10 * SEC), -ENODEV, "",
	       "other streams fail too");
	is_err(weir_tensor_get(&d, 0, &byte, 1), -ENODEV, "CUDA0 is lost",
	       "... and blocking calls");
	is_err(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), 10, NULL,
			      &buf),
	       -ENODEV, "CUDA_ERROR_ILLEGAL_ADDRESS", "... and allocations");
	has_str(cuda_log, "CUDA0 is lost", "the log is told");
	is_int(weir_tensor_fill(&h, 0, 64, 1), 0, "the CPU still works");
	calls = fake.calls(NULL);
	weir_stream_free(s);
	weir_stream_free(other);
	weir_stream_free(cpu);
	weir_event_free(ev);
	weir_buf_free(d.buf);
	weir_buf_free(h.buf);
	weir_close(weir);
	ok(fake.calls(NULL) - calls < 3,
	   "the driver is left alone when all is freed (%lu calls)",
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
	       "a wait for work that never ends ends in time");
	weir_stream_free(s);
	weir_buf_free(d.buf);
	clock_gettime(CLOCK_MONOTONIC, &a);
	weir_close(weir);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ok(b.tv_sec - a.tv_sec < 8, "... and so does closing the root");
	has_str(cuda_log, "still out", "... which tells the log");
	is_int(weir_event_query(ev), -ESHUTDOWN, "... and wakes the event");
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
	       "%s", what);
	has_str(cuda_log, part, "... saying why");
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
	no_entry("", "CUDA_ERROR_NO_DEVICE",
		 "a driver without a device gives none");
	refused_memory();
	refused_slots();
	failed_copy();
	all_given_back("after failed calls");
	hung_device();
	lost_device();
	unlink(MODEL);
	return done_testing();
}
