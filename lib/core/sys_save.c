/* SPDX-License-Identifier: MIT */
/* System calls that make files, and make them durable. */
#include "core/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/clock.h"

#define LOCK_PAUSE 1000000 /* ns */

int weir__sys_reserve(int fd, uint64_t bytes)
{
	struct weir__retry retry = { 0 };
	int r;

	/* Beyond the limit fallocate(2) would also send SIGXFSZ. */
	if (bytes > weir__sys_limit(RLIMIT_FSIZE))
		return -EFBIG;
	do
		r = fallocate(fd, 0, 0, (off_t)bytes);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : 0;
}

int weir__sys_truncate(int fd, uint64_t bytes)
{
	struct weir__retry retry = { 0 };
	int r;

	do
		r = ftruncate(fd, (off_t)bytes);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : 0;
}

int weir__sys_sync(int fd)
{
	struct weir__retry retry = { 0 };
	int r;

	do
		r = fsync(fd);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : 0;
}

int weir__sys_sync_folder(int dir)
{
	int r = weir__sys_sync(dir);

	return r == -EINVAL || r == -EBADF ? 0 : r;
}

int weir__sys_chmod(int fd, unsigned mode)
{
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

int weir__sys_chmod_path(const char *path, unsigned mode)
{
	return chmod(path, mode) < 0 ? -errno : 0;
}

/* renameat2(2) with RENAME_NOREPLACE, which not all file systems have. */
static int rename_new(int dir, const char *from, const char *to)
{
	struct stat st;

	if (!renameat2(dir, from, dir, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (!weir__sys_stat_at(dir, to, false, &st))
		return -EEXIST;
	return renameat(dir, from, dir, to) < 0 ? -errno : 0;
}

int weir__sys_rename(int dir, const char *from, const char *to, bool keep)
{
	if (keep)
		return rename_new(dir, from, to);
	return renameat(dir, from, dir, to) < 0 ? -errno : 0;
}

int weir__sys_unlink(int dir, const char *name)
{
	return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

int weir__sys_make_folder(int dir, const char *name, unsigned mode)
{
	return mkdirat(dir, name, mode) < 0 ? -errno : 0;
}

/*
 * flock(2) would wait without a limit, for a process that is stopped too. So
 * the lock is tried again and again.
 */
static int lock_file(int fd, int how, int64_t timeout_ns)
{
	int64_t deadline = weir__deadline(timeout_ns);

	while (flock(fd, how | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || weir__now() >= deadline)
			return -errno;
		weir__sleep(LOCK_PAUSE);
	}
	return 0;
}

int weir__sys_lock(int fd, int64_t timeout_ns)
{
	return lock_file(fd, LOCK_EX, timeout_ns);
}

int weir__sys_lock_shared(int fd, int64_t timeout_ns)
{
	return lock_file(fd, LOCK_SH, timeout_ns);
}

void weir__sys_drop_cache(int fd, uint64_t off, uint64_t len)
{
	(void)posix_fadvise(fd, (off_t)off, (off_t)len, POSIX_FADV_DONTNEED);
}

int weir__sys_free(const char *path, uint64_t *ret_bytes)
{
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return -errno;
	*ret_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}
