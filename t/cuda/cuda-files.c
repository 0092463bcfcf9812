/* SPDX-License-Identifier: MIT */
/*
 * Files on CUDA streams: into device memory and out of it, on the stand-in and
 * on a real driver. This test has its own pwrite(2), for full disks and short
 * writes.
 */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gpu.h"

#define MB ((size_t)1 << 20)

static struct weir *weir;

/*
 * Bytes that a call writes at most, and the offset at which the disk is full.
 */
static _Atomic size_t at_once = SIZE_MAX;
static _Atomic uint64_t full_at = UINT64_MAX;

/* The library calls this one too. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *buf,
						      size_t n, off_t off)
{
	size_t most = atomic_load(&at_once);

	if ((uint64_t)off + n > atomic_load(&full_at)) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, buf, n < most ? n : most, off);
}

static void back_and_forth(void)
{
	size_t n = 9 * MB + 7;
	struct weir_stream *s = gpu_stream(weir, "to and fro", 0);
	struct weir_tensor a = patterned(weir, n, 21), b = on_gpu(weir, n);
	struct weir_file *file = temp_file(weir, 0, 0);

	must(weir_stream_write(s, file, 0, &a, 0, n));
	must(weir_stream_fill(s, &a, 0, n, 0));
	must(weir_stream_read(s, file, 0, &b, 0, n));
	is_int(weir_stream_sync(s, -1), 0,
	       "device memory is written to a file and read back");
	ok(file_has(weir, file, n, 21),
	   "a file has the bytes that were in memory at its place in the stream");
	ok(holds_pattern(&b, n, 21),
	   "a read sees the write before it in the stream");
	must(weir_stream_read(s, file, 4, &b, 5, n - 9));
	must(weir_stream_write(s, file, 4, &b, 5, n - 9));
	must(weir_stream_sync(s, -1));
	ok(file_has(weir, file, n, 21),
	   "a write at an odd offset changes no byte beside it");
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

/* Many writes at once, of all sizes, have more bytes than the slots. */
static void many_writes(void)
{
	size_t n = 80 * MB, at = 0;
	struct weir_stream *s = gpu_stream(weir, "writes", 0);
	struct weir_tensor a = patterned(weir, n, 4), b = on_gpu(weir, n);
	struct weir_file *file = temp_file(weir, 0, 0);

	for (unsigned i = 0; at < n; i++) {
		size_t len = i % 3 ? 11111 * (i % 7 + 1) : 700000 + i * 13;

		if (len > n - at)
			len = n - at;
		must(weir_stream_write(s, file, at, &a, at, len));
		at += len;
	}
	must(weir_stream_read(s, file, 0, &b, 0, n));
	is_int(weir_stream_sync(s, -1), 0,
	       "hundreds of writes and a read are queued at once");
	ok(file_has(weir, file, n, 4),
	   "hundreds of writes leave every byte in the file");
	ok(holds_pattern(&b, n, 4),
	   "a read after hundreds of writes sees them all");
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

/* Copies of a slow device, and events before and after them. */
static void slow_device(void)
{
	struct weir_stream *s = gpu_stream(weir, "slow", 0);
	struct weir_stream *other = gpu_stream(weir, "other", 0);
	struct weir_tensor a = patterned(weir, 4 * MB, 9),
			   b = on_gpu(weir, 4 * MB);
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_event *ev = new_event(weir, 0);

	fake.set("RATE", "1e8");
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_write(s, file, 0, &b, 0, 4 * MB));
	must(weir_stream_record(s, ev));
	must(weir_stream_wait(other, ev));
	must(weir_stream_fill(other, &b, 0, 4 * MB, 1));
	if (on_fake(1))
		is_int(weir_event_query(ev), 0,
		       "a write waits for the copy before it");
	must(weir_stream_sync(other, -1));
	ok(file_has(weir, file, 4 * MB, 9), "another stream waits for a write");
	fake.set("RATE", "0");
	weir_event_free(ev);
	weir_stream_free(s);
	weir_stream_free(other);
	weir_file_close(file);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void poor_disk(void)
{
	struct weir_stream *s = gpu_stream(weir, "poor", 0);
	struct weir_tensor a = patterned(weir, 9 * MB, 3);
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_failure f;
	int filled;

	at_once = 70001;
	must(weir_stream_write(s, file, 0, &a, 0, 9 * MB));
	is_int(weir_stream_sync(s, -1), 0, "short writes are continued");
	at_once = SIZE_MAX;
	ok(file_has(weir, file, 9 * MB, 3),
	   "short writes leave every byte in the file");
	full_at = 9 * MB;
	must(weir_stream_write(s, file, 5 * MB, &a, 0, 9 * MB));
	/* Refused if the write has failed already; then @ev marks the write. */
	filled = weir_stream_fill(s, &a, 0, 9 * MB, 0xff);
	(void)weir_stream_record(s, ev);
	is_err(weir_stream_sync(s, 20 * SEC), -ENOSPC, "bytes [8388608, ",
	       "a full disk fails the stream, naming the first bytes");
	has_str(weir_error(), "No space left on device",
		"the error for a full disk has the reason");
	is_int(weir_stream_error(s, &f), -ENOSPC,
	       "the stream keeps the failure of a full disk");
	is_int(f.native, 0, "a full disk has no code of the device");
	is_int(weir_event_query(ev), filled < 0 ? -ENOSPC : -ECANCELED,
	       "an event after a failed write is cancelled");
	ok(holds_pattern(&a, 9 * MB, 3),
	   "work after a failed write does not run");
	full_at = UINT64_MAX;
	must(weir_stream_reset(s));
	must(weir_stream_write(s, file, 0, &a, 0, 9 * MB));
	is_int(weir_stream_sync(s, -1), 0,
	       "a write after weir_stream_reset works");
	weir_event_free(ev);
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(a.buf);
}

static void poor_device(void)
{
	struct weir_stream *s = gpu_stream(weir, "poor device", 0);
	struct weir_tensor a = patterned(weir, 9 * MB, 8);
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_failure f;

	/* Slots are page-locked by now: the copy itself fails. */
	fake.arm("cuMemcpyDtoHAsync", 2, FAKECUDA_ONCE, 999);
	must(weir_stream_write(s, file, 0, &a, 0, 9 * MB));
	is_err(weir_stream_sync(s, 20 * SEC), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a copy that the driver refuses fails the write in the driver's words");
	weir_stream_error(s, &f);
	is_int(f.native, 999, "a write that the driver fails has its code");
	fake.disarm();
	must(weir_stream_reset(s));
	must(weir_stream_write(s, file, 0, &a, 0, 9 * MB));
	is_int(weir_stream_sync(s, -1), 0,
	       "a write after one that the driver failed works");
	ok(file_has(weir, file, 9 * MB, 8),
	   "a write after a failed one leaves every byte in the file");
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(a.buf);
}

static void refused(void)
{
	struct weir *far = open_root(0);
	struct weir_stream *s = gpu_stream(weir, "refused", 0);
	struct weir_tensor d = on_gpu(weir, 4096);
	struct weir_file *file = temp_file(weir, 4096, 0), *ro, *other;

	must(weir_file_open(weir, "/proc/self/exe", NULL, &ro));
	other = temp_file(far, 4096, 0);
	is_err(weir_stream_write(s, ro, 0, &d, 0, 16), -EBADF,
	       "for reading only", "a file opened for reading is not written");
	is_err(weir_stream_write(s, file, 0, &d, 4000, 97), -EINVAL, "has 4096",
	       "a write of bytes outside the tensor is refused");
	is_err(weir_stream_write(s, file, 0, &d, 1, SIZE_MAX), -EINVAL, "2^63",
	       "a write whose end wraps is refused");
	is_err(weir_stream_read(s, file, UINT64_MAX - 5, &d, 0, 10), -EINVAL,
	       "2^63", "a read at a file offset that wraps is refused");
	is_err(weir_stream_write(s, other, 0, &d, 0, 16), -EINVAL, "two roots",
	       "a file of another root is refused");
	is_int(weir_stream_sync(s, -1), 0,
	       "calls that were refused do not fail the stream");
	weir_file_close(ro);
	weir_file_close(other);
	weir_file_close(file);
	weir_stream_free(s);
	weir_buf_free(d.buf);
	weir_close(far);
}

/* Runs in a process of its own, since memory in use is leaked. */
static int hung(void)
{
	struct weir_stream *s;
	struct weir_tensor d;
	struct weir_file *file;
	struct weir_event *ev;

	weir = open_cuda();
	s = gpu_stream(weir, "hung", 0);
	d = patterned(weir, 9 * MB, 1);
	file = temp_file(weir, 0, 0);
	ev = new_event(weir, 0);
	fake.arm("cuMemcpyDtoHAsync", 2, FAKECUDA_HANG, 0);
	must(weir_stream_write(s, file, 0, &d, 0, 9 * MB));
	must(weir_stream_record(s, ev));
	if (weir_event_wait(ev, 100 * MS) != -ETIMEDOUT)
		return 1;
	weir_file_close(file);
	weir_buf_free(d.buf);
	weir_stream_free(s);
	weir_close(weir);
	return weir_event_query(ev) == -ESHUTDOWN ? 0 : 2;
}

static void in_a_process(int (*fn)(void), const char *what)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(300);
		_exit(fn());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	is_int(status, 0, "%s", what);
}

int main(void)
{
	static const struct {
		const char *prefix;
		uint32_t io;
	} method[] = { { "uring: ", WEIR_IO_URING },
		       { "sync: ", WEIR_IO_SYNC } };

	open_driver();
	plan(0);
	if (on_fake(1))
		in_a_process(
			hung,
			"closing the root does not wait for a copy out of a device that never ends");
	for (size_t i = 0; i < 2; i++) {
		struct weir_io_info info = { .size = sizeof(info) };

		tap_prefix(method[i].prefix);
		weir = open_cuda_by(method[i].io);
		if (weir_io_info(weir, &info) < 0) {
			skip(1, "%s", weir_error());
			weir_close(weir);
			continue;
		}
		back_and_forth();
		many_writes();
		slow_device();
		if (on_fake(4))
			poor_device();
		if (method[i].io == WEIR_IO_SYNC)
			poor_disk();
		refused();
		weir_close(weir);
		all_given_back("when the root is closed");
	}
	return done_testing();
}
