/* SPDX-License-Identifier: MIT */
/* System calls that make files, and make them durable. */
#include "core/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/clock.h"

int weir__sys_reserve(int fd, uint64_t bytes)
{
	struct weir__retry retry = { 0 };
	int r;

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

int weir__sys_sync_folder(const char *path)
{
	int fd = weir__sys_open(path, O_RDONLY | O_DIRECTORY, 0), r;

	if (fd < 0)
		return fd;
	r = weir__sys_sync(fd);
	weir__sys_close(fd);
	return r;
}

int weir__sys_chmod(int fd, unsigned mode)
{
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

/* renameat2(2) with RENAME_NOREPLACE, which not all file systems have. */
static int rename_new(const char *from, const char *to)
{
	struct stat st;

	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (!lstat(to, &st))
		return -EEXIST;
	return rename(from, to) < 0 ? -errno : 0;
}

int weir__sys_rename(const char *from, const char *to, bool keep)
{
	if (keep)
		return rename_new(from, to);
	return rename(from, to) < 0 ? -errno : 0;
}

int weir__sys_unlink(const char *path)
{
	return unlink(path) < 0 ? -errno : 0;
}

int weir__sys_lock(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
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
