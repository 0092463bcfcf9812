/* SPDX-License-Identifier: MIT */
/*
 * The first copy to a device opens a queue and page-locks the slots, which may
 * take long. Reactors go on with other work meanwhile.
 */
#include <sys/wait.h>

#include "gpu.h"

#define N ((size_t)3 << 20)

/*
 * Page-locking hangs; a read to the device is queued, with an event after it.
 */
struct opening {
	struct weir *weir;
	struct weir_stream *stream;
	struct weir_tensor to;
	struct weir_file *file;
	struct weir_event *arrived;
};

static struct opening start(const char *hangs, int mode, int code)
{
	struct opening o = { .weir = open_cuda() };

	o.stream = gpu_stream(o.weir, "first", 0);
	o.to = on_gpu(o.weir, N);
	o.file = temp_file(o.weir, N, 5);
	o.arrived = new_event(o.weir, 0);
	fake.arm(hangs, 1, mode, code);
	must(weir_stream_read(o.stream, o.file, 0, &o.to, 0, N));
	must(weir_stream_record(o.stream, o.arrived));
	return o;
}

static void end(struct opening *o)
{
	weir_event_free(o->arrived);
	weir_stream_free(o->stream);
	weir_file_close(o->file);
	weir_buf_free(o->to.buf);
	weir_close(o->weir);
}

static void others_go_on(void)
{
	struct opening o = start("cuMemHostRegister", FAKECUDA_HANG, 0);

	ok(file_has(o.weir, o.file, N, 5),
	   "reads to host memory end while slots are being page-locked");
	is_int(weir_event_query(o.arrived), 0,
	       "a read to the device waits until slots are page-locked");
	fake.release();
	is_int(weir_event_wait(o.arrived, 60 * SEC), 0,
	       "a read to the device ends after slots are page-locked");
	ok(holds_pattern(&o.to, N, 5),
	   "a read that waited for slots has every byte");
	fake.disarm();
	end(&o);
	all_given_back("after slots that took long");
}

static void fails_and_recovers(void)
{
	struct opening o = start("cuStreamCreate", FAKECUDA_FROM_THEN_ON, 2);

	is_err(weir_stream_sync(o.stream, 60 * SEC), -ENOMEM, "bytes [0,",
	       "a read fails if no queue can be opened");
	ok(file_has(o.weir, o.file, N, 5),
	   "reads to host memory work if no queue can be opened");
	fake.disarm();
	must(weir_stream_reset(o.stream));
	must(weir_stream_read(o.stream, o.file, 0, &o.to, 0, N));
	is_int(weir_stream_sync(o.stream, 60 * SEC), 0,
	       "the next read to the device opens a queue");
	ok(holds_pattern(&o.to, N, 5),
	   "a read after a failed opening has every byte");
	end(&o);
	all_given_back("after a queue that could not be opened");
}

/* Runs in a process of its own, whose end ends the thread that hangs. */
static int closes(void)
{
	struct opening o = start("cuMemHostRegister", FAKECUDA_HANG, 0);
	int r;

	weir_stream_free(o.stream);
	weir_buf_free(o.to.buf);
	weir_close(o.weir);
	r = weir_event_query(o.arrived);
	if (r != -ESHUTDOWN)
		diag("the event has %d", r);
	return r == -ESHUTDOWN ? 0 : 1;
}

static void close_meanwhile(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(120);
		_exit(closes());
	}
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "closing the root does not wait for a driver that hangs");
}

/* Page-locked memory is host memory, but not the CPU device's. */
static void leaves_cpu_alone(void)
{
	struct weir *weir = open_cuda();
	struct weir_dev *cpu;
	struct weir_buf *buf;

	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), N, NULL, &buf));
	is_int(weir_dev_configure(weir, "CPU:node=0", &cpu), 0,
	       "the CPU can be configured after memory was page-locked");
	weir_buf_free(buf);
	weir_close(weir);
}

int main(void)
{
	open_fake();
	plan(14);
	close_meanwhile();
	leaves_cpu_alone();
	others_go_on();
	fails_and_recovers();
	return done_testing();
}
