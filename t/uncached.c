/* SPDX-License-Identifier: MIT */
/*
 * Linked to tests that replace pread(2): a copier's read that must not wait
 * finds nothing in the page cache, so that all bytes are read by pread(2).
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The library calls this one too. The kernel takes the offset in two halves. */
__attribute__((visibility("default"))) ssize_t
preadv2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (flags & RWF_NOWAIT && !strncmp(name, "weir-cp", 7)) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_preadv2, fd, iov, n, off, 0L, flags);
}
