/* SPDX-License-Identifier: MIT */
/*
 * A file system that answers EINTR to every open or read, as one in user space
 * may: calls are repeated, but not for ever. Errors of opens and headers whose
 * number means something else in weir. The test has its own open and pread.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

static char path[] = "/var/tmp/weir-interrupted-XXXXXX";
static const struct sample_tensor tensors[] = { { "a", "U8", 70000, 1 } };

static _Atomic int opens, reads; /* calls that are still to fail */
static _Atomic int with = EINTR;
static _Atomic bool on_engine; /* only reads of its threads */

static bool fails(_Atomic int *left)
{
	if (atomic_load(left) <= 0)
		return false;
	atomic_fetch_sub(left, 1);
	errno = with;
	return true;
}

int open(const char *name, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (!strcmp(name, path) && fails(&opens))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if ((!atomic_load(&on_engine) || !strncmp(name, "weir-", 5)) &&
	    fails(&reads))
		return -1;
	return syscall(SYS_pread64, fd, buf, n, off);
}

static int try_open(struct weir *root)
{
	struct weir_model *m;
	int r = weir_model_open(root, path, NULL, &m);

	if (!r)
		weir_model_close(m);
	return r;
}

int main(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;
	int fd = mkstemp(path);

	plan(9);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, 1, 16, 3);
	o.io = WEIR_IO_SYNC;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	opens = 10;
	is_int(try_open(root), 0, "an open that is interrupted is repeated");
	opens = INT32_MAX;
	is_err(try_open(root), -EINTR, path + 9,
	       "an open that is always interrupted fails and names the file");
	opens = 0;
	reads = 10;
	is_int(try_open(root), 0,
	       "a read of the header that is interrupted is repeated");
	reads = INT32_MAX;
	is_err(try_open(root), -EINTR, path + 9,
	       "a read of the header that is always interrupted fails");
	with = ENODATA;
	is_err(try_open(root), -EIO, "error of the medium",
	       "a bad sector in the header is an error of the medium");
	with = ETIMEDOUT;
	is_err(try_open(root), -EIO, "did not answer in time",
	       "a header that a device does not deliver is not reported as -ETIMEDOUT");
	reads = 0;
	opens = 1;
	is_err(try_open(root), -EIO, path + 9,
	       "an open that a server does not answer is not reported as -ETIMEDOUT");
	with = EINTR;
	reads = INT32_MAX;
	on_engine = true;
	is_err(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, -1), -EINTR,
	       path + 9, "a load whose reads are always interrupted fails");
	reads = 10;
	is_int(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, -1), 0,
	       "a load ends well when its reads are interrupted a few times");
	weir_close(root);
	unlink(path);
	return done_testing();
}
