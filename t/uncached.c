/* SPDX-License-Identifier: MIT */
/*
 * Linked to tests that replace pread(2): a read that must not wait finds
 * nothing in the page cache, so that all bytes are read by pread(2) or by a
 * ring. Files have reads that do not wait also where the file system lacks them
 * (overlayfs): only such files are read by rings.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * The library calls this one too. By reads of one byte it only asks. The kernel
 * takes the offset in two halves.
 */
__attribute__((visibility("default"))) ssize_t
preadv2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	ssize_t r;

	if (flags & RWF_NOWAIT && iov->iov_len > 1) {
		errno = EAGAIN;
		return -1;
	}
	r = syscall(SYS_preadv2, fd, iov, n, off, 0L, flags);
	if (r < 0 && errno == EOPNOTSUPP)
		r = syscall(SYS_preadv2, fd, iov, n, off, 0L,
			    flags & ~RWF_NOWAIT);
	return r;
}
