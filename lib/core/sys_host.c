/* SPDX-License-Identifier: MIT */
/* More of sys.h: memory policy, limits, small files, directories, modules. */
#include "core/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#ifdef HAVE_NUMA
#include <numaif.h>
#endif

#define MAX_NODES 1024u
#define WORD_BITS (8 * (unsigned)sizeof(unsigned long))

int weir__sys_mbind(void *addr, size_t len, unsigned node, bool only)
{
#ifdef HAVE_NUMA
	unsigned long mask[MAX_NODES / WORD_BITS] = { 0 };

	if (node >= MAX_NODES)
		return -EINVAL;
	mask[node / WORD_BITS] = 1ul << node % WORD_BITS;
	/* mbind(2) uses one bit less than maxnode. */
	if (mbind(addr, len, only ? MPOL_BIND : MPOL_PREFERRED, mask,
		  MAX_NODES + 1, 0) < 0)
		return -errno;
	return 0;
#else
	(void)addr;
	(void)len;
	(void)node;
	(void)only;
	return -ENOSYS;
#endif
}

int weir__sys_mincore(void *addr, size_t len, unsigned char *ret_vec)
{
	return mincore(addr, len, ret_vec) < 0 ? -errno : 0;
}

bool weir__sys_thp_disabled(void)
{
	return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0;
}

uint64_t weir__sys_limit(int resource)
{
	struct rlimit lim;

	if (getrlimit(resource, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return lim.rlim_cur;
}

int weir__sys_ram(uint64_t *ret_free, uint64_t *ret_total)
{
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return -errno;
	*ret_free = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
	*ret_total = (uint64_t)info.totalram * info.mem_unit;
	return 0;
}

int weir__sys_stat(const char *path, struct stat *st)
{
	return stat(path, st) < 0 ? -errno : 0;
}

int weir__sys_realpath(const char *path, char *ret_real)
{
	return realpath(path, ret_real) ? 0 : -errno;
}

int64_t weir__sys_text(const char *path, char *buf, size_t room)
{
	int fd = weir__sys_open(path, O_RDONLY | O_NONBLOCK, 0);
	size_t at = 0;
	int64_t r;

	if (fd < 0)
		return fd;
	do {
		r = weir__sys_pread(fd, buf + at, room - 1 - at, at);
		at += r > 0 ? (size_t)r : 0;
	} while (r > 0 && at < room - 1);
	weir__sys_close(fd);
	buf[at] = '\0';
	return r < 0 ? r : (int64_t)at;
}

int weir__sys_scandir(const char *path,
		      int (*filter)(const struct dirent *entry),
		      struct dirent ***ret_list)
{
	int n = scandir(path, ret_list, filter, alphasort);

	return n < 0 ? -errno : n;
}

int weir__sys_dlopen(const char *path, void **ret_handle)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return -ENOEXEC;
	*ret_handle = handle;
	return 0;
}

int weir__sys_membarrier_register(void)
{
	int r = (int)syscall(SYS_membarrier,
			     MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);

	return r < 0 ? -errno : 0;
}

/* It cannot fail after the registration. */
void weir__sys_membarrier(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
