/* SPDX-License-Identifier: MIT */
/*
 * More of sys.h: memory policy, memfds, limits, small files, modules, leases.
 */
#include "core/numa.h"
#include "core/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#ifdef HAVE_NUMA
#include <numaif.h>
#endif

int weir__sys_mbind(void *addr, size_t len, const struct weir__nodes *nodes,
		    bool only)
{
#ifdef HAVE_NUMA
	int mode = weir__nodes_only(nodes) >= 0 ? MPOL_PREFERRED
						: MPOL_INTERLEAVE;

	/* mbind(2) uses one bit less than maxnode. */
	if (mbind(addr, len, only ? MPOL_BIND : mode, nodes->word,
		  WEIR__NODES + 1, 0) < 0)
		return -errno;
	return 0;
#else
	(void)addr;
	(void)len;
	(void)nodes;
	(void)only;
	return -ENOSYS;
#endif
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u /* Linux 6.3 */
#endif
#define MFD_SHIFT 26 /* MFD_HUGE_SHIFT */

int weir__sys_memfd(const char *name, unsigned huge_shift, uint64_t bytes)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd, r;

	/* Beyond the limit ftruncate(2) would also send SIGXFSZ. */
	if (bytes > weir__sys_limit(RLIMIT_FSIZE))
		return -EFBIG;
	if (huge_shift)
		flags |= MFD_HUGETLB | huge_shift << MFD_SHIFT;
	/* Where vm.memfd_noexec is 2, a memfd must not be executable. */
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	if (fd < 0)
		return -errno;
	r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
	if (r < 0)
		weir__sys_close(fd);
	return r < 0 ? r : fd;
}

int weir__sys_seals(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals < 0 ? -errno : seals;
}

int weir__sys_add_seals(int fd, int seals)
{
	return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
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

int weir__sys_map_lazily(size_t len, int fd, void **ret_addr)
{
	/* A mapping that nobody may read is not read in. */
	int r = weir__sys_map(len, fd, 0, PROT_NONE, ret_addr);

	if (r < 0)
		return r;
	munlock(*ret_addr, len);
	madvise(*ret_addr, len, MADV_DONTFORK);
	if (mprotect(*ret_addr, len, PROT_READ) == 0)
		return 0;
	r = -errno;
	weir__sys_unmap(*ret_addr, len);
	return r;
}

int weir__sys_lease(int fd, pid_t tid)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = tid };

	/* F_SETLEASE would make the process the owner if there were none. */
	return fcntl(fd, F_SETOWN_EX, &owner) < 0 ||
			       fcntl(fd, F_SETLEASE, F_RDLCK) < 0
		       ? -errno
		       : 0;
}

bool weir__sys_lease_held(int fd)
{
	return fcntl(fd, F_GETLEASE) == F_RDLCK;
}

void weir__sys_lease_end(int fd)
{
	fcntl(fd, F_SETLEASE, F_UNLCK);
}

int weir__sys_signalfd(int signal)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, signal);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

unsigned weir__sys_poll(const int *fd, unsigned n, int ms)
{
	struct pollfd polled[2];
	unsigned readable = 0;

	for (unsigned i = 0; i < n; i++)
		polled[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
	if (poll(polled, n, ms) > 0)
		for (unsigned i = 0; i < n; i++)
			readable |= polled[i].revents ? 1u << i : 0;
	return readable;
}

/* Bytes of private writable mappings, which RLIMIT_DATA counts. */
static uint64_t data_mapped(void)
{
	char text[4096];
	const char *line;

	if (weir__sys_text("/proc/self/status", text, sizeof(text)) <= 0)
		return 0;
	line = strstr(text, "\nVmData:");
	return line ? strtoull(line + strlen("\nVmData:"), NULL, 10) * 1024 : 0;
}

static uint64_t all_mapped(void)
{
	char text[128];

	if (weir__sys_text("/proc/self/statm", text, sizeof(text)) <= 0)
		return 0;
	return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void weir__sys_space(struct weir__space *ret_space)
{
	const struct {
		int resource;
		uint64_t (*used)(void);
		const char *name, *flag;
	} limits[] = {
		{ RLIMIT_AS, all_mapped, "RLIMIT_AS", "ulimit -v" },
		{ RLIMIT_DATA, data_mapped, "RLIMIT_DATA", "ulimit -d" },
	};

	*ret_space =
		(struct weir__space){ .left = UINT64_MAX, .limit = UINT64_MAX };
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t limit = weir__sys_limit(limits[i].resource), used;

		if (limit == UINT64_MAX)
			continue;
		used = limits[i].used();
		used = used < limit ? used : limit;
		if (limit - used < ret_space->left)
			*ret_space = (struct weir__space){ limit - used, limit,
							   limits[i].name,
							   limits[i].flag };
	}
}

void weir__space_text(const struct weir__space *space, char *text, size_t room)
{
	*text = '\0';
	if (space->limit != UINT64_MAX)
		snprintf(text, room, "; %s is %llu (%s), %llu of it are left",
			 space->name, (unsigned long long)space->limit,
			 space->flag, (unsigned long long)space->left);
}

void weir__thread_limits(char text[WEIR__LIMITS_TEXT])
{
	uint64_t procs = weir__sys_limit(RLIMIT_NPROC);
	struct weir__space space;
	pthread_attr_t attr;
	size_t stack = 0;

	*text = '\0';
	weir__sys_space(&space);
	if (pthread_attr_init(&attr) == 0) {
		pthread_attr_getstacksize(&attr, &stack);
		pthread_attr_destroy(&attr);
	}
	if (space.left < stack)
		weir__space_text(&space, text, WEIR__LIMITS_TEXT);
	else if (procs != UINT64_MAX)
		snprintf(text, WEIR__LIMITS_TEXT,
			 "; RLIMIT_NPROC is %llu (ulimit -u)",
			 (unsigned long long)procs);
}
