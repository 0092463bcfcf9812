/* SPDX-License-Identifier: MIT */
/*
 * A device that is lost in the middle of a copy to a slot may still write to
 * it: no other chunk may use that slot. This test has its own pread(2), to slow
 * down reads until the device writes.
 */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gpu.h"

#define N ((size_t)1 << 20)

static _Atomic useconds_t slow_disk; /* after each read, us */

/* The library calls this one too. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	ssize_t r = syscall(SYS_pread64, fd, buf, n, off);

	usleep(atomic_load(&slow_disk));
	return r;
}

/* The read is staged, since offsets in memory and file differ by 1. */
static bool read_staged(struct weir_stream *cpu, struct weir_file *file,
			const struct weir_tensor *t)
{
	slow_disk = 1000000;
	must(weir_stream_read(cpu, file, 0, t, 1, N));
	must(weir_stream_sync(cpu, 20 * SEC));
	return is_pattern((char *)weir_tensor_data(t) + 1, N, 3);
}

/* The device is lost in @fn while it copies the bytes of a write to a slot. */
static bool lost_in(const char *fn)
{
	struct weir_tensor d, other, host;
	struct weir_stream *s, *cpu;
	struct weir_file *to, *from;
	struct weir *weir;

	cuda_chunk = N;
	weir = open_cuda_by(WEIR_IO_SYNC);
	s = gpu_stream(weir, "s", 0);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	d = on_gpu(weir, N);
	other = on_gpu(weir, N);
	host = bytes(weir, N + 1);
	to = temp_file(weir, 0, 0);
	from = temp_file(weir, N, 3);
	must(weir_tensor_fill(&d, 0, N, 0xaa));
	fake.set("RATE", "2e6");
	must(weir_stream_write(s, to, 0, &d, 0, N));
	usleep(100000);
	fake.arm(fn, 1, FAKECUDA_STICKY, 719);
	(void)weir_tensor_fill(&other, 0, N, 0);
	return weir_stream_sync(s, 20 * SEC) == -ENODEV &&
	       read_staged(cpu, from, &host);
}

/* Runs in a process of its own, since a lost device stays lost. */
static void loss(const char *fn)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(!lost_in(fn));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	is_int(status, 0,
	       "a slot of a device that is lost in %s is not used again", fn);
}

int main(void)
{
	open_fake();
	plan(2);
	loss("cuMemsetD8Async");
	loss("cuEventQuery");
	return done_testing();
}
