/* SPDX-License-Identifier: MIT */
#include "core/sys.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_NUMA
#include <numaif.h>
#endif

#include "core/clock.h"
#include "core/cpus.h"
#include "core/numa.h"
#include "core/util.h"

#define CALLOC_SMALL 1024u /* bytes; glibc's tcache has blocks of this size */

void *weir__malloc(size_t n)
{
	return malloc(n ? n : 1);
}

/*
 * Before glibc 2.41 calloc(3) does not use the blocks that the thread freed
 * earlier (the tcache). malloc(3) does, so it is faster for small blocks.
 */
void *weir__calloc(size_t n, size_t size)
{
	uint64_t bytes;
	void *p;

	if (weir__mul_over(n, size, &bytes) || bytes > CALLOC_SMALL)
		return calloc(n ? n : 1, size ? size : 1);
	p = malloc(bytes ? bytes : 1);
	return p ? memset(p, 0, bytes) : NULL;
}

void *weir__calloc_aligned(size_t n, size_t size)
{
	uint64_t bytes;
	void *p;

	if (weir__mul_over(n, size, &bytes) || bytes > SIZE_MAX - 64)
		return NULL;
	p = aligned_alloc(64, weir__up(bytes ? bytes : 1, 64));
	return p ? memset(p, 0, bytes) : NULL;
}

void *weir__realloc(void *p, size_t n, size_t size)
{
	return reallocarray(p, n ? n : 1, size ? size : 1);
}

void *weir__malloc_pages(size_t n)
{
	if (n > SIZE_MAX - 4096)
		return NULL;
	return aligned_alloc(4096, weir__up(n ? n : 1, 4096));
}

char *weir__strdup(const char *s)
{
	return strdup(s);
}

void weir__free(void *p)
{
	free(p);
}

int weir__sys_map(size_t len, int fd, uint64_t off, int prot, void **ret_addr)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
			   : MAP_SHARED;
	void *p = mmap(NULL, len, prot, flags, fd, (off_t)off);

	if (p == MAP_FAILED)
		return -errno;
	*ret_addr = p;
	return 0;
}

int weir__sys_map_private(size_t len, int fd, uint64_t off, void **ret_addr)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_NORESERVE, fd, (off_t)off);

	if (p == MAP_FAILED)
		return -errno;
	*ret_addr = p;
	return 0;
}

int weir__sys_map_at(void *addr, size_t len, int fd)
{
	void *p = mmap(addr, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, fd, 0);

	return p == MAP_FAILED ? -errno : 0;
}

void weir__sys_unmap(void *addr, size_t len)
{
	munmap(addr, len);
}

int weir__sys_madvise(void *addr, size_t len, int advice)
{
	struct weir__retry retry = { 0 };
	int r;

	do
		r = madvise(addr, len, advice);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : 0;
}

int weir__sys_vacate(void *addr, size_t len)
{
	int r;

	/* Pages that are locked cannot be dropped. */
	if (munlock(addr, len) < 0 || mprotect(addr, len, PROT_NONE) < 0)
		return -errno;
	r = weir__sys_madvise(addr, len, MADV_DONTNEED);
	if (r < 0)
		mprotect(addr, len, PROT_READ | PROT_WRITE);
	return r;
}

int weir__sys_reoccupy(void *addr, size_t len)
{
	return mprotect(addr, len, PROT_READ | PROT_WRITE) < 0 ? -errno : 0;
}

void weir__sys_prefer_huge(void *p, size_t n)
{
	uintptr_t page = 4096, from = (uintptr_t)p & ~(page - 1);

	/* A shorter range may contain no whole aligned huge page. */
	if (n >= 2 * (2u << 20))
		weir__sys_madvise((void *)from, (uintptr_t)p + n - from,
				  MADV_HUGEPAGE);
}

int weir__sys_populate(void *addr, size_t len)
{
	int r = weir__sys_madvise(addr, len, MADV_POPULATE_WRITE);
	_Atomic unsigned char *p = addr;

	if (r != -EINVAL) /* Linux before 5.14 */
		return r;
	/* Atomically: other threads may be writing there already. */
	for (size_t i = 0; i < len; i += 4096)
		atomic_fetch_or_explicit(&p[i], 0, memory_order_relaxed);
	return 0;
}

int weir__sys_mlock(void *addr, size_t len)
{
	if (mlock2(addr, len, MLOCK_ONFAULT) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL)
		return -errno;
	return mlock(addr, len) < 0 ? -errno : 0;
}

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

int weir__sys_mincore(void *addr, size_t len, unsigned char *ret_vec)
{
	return mincore(addr, len, ret_vec) < 0 ? -errno : 0;
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

int weir__sys_ram(uint64_t *ret_free, uint64_t *ret_total)
{
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return -errno;
	*ret_free = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
	*ret_total = (uint64_t)info.totalram * info.mem_unit;
	return 0;
}

int weir__sys_open(const char *path, int flags, unsigned mode)
{
	struct weir__retry retry = { 0 };
	int fd;

	do
		fd = open(path, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR && weir__retry(&retry));
	return fd < 0 ? -errno : fd;
}

int weir__sys_open_at(int dir, const char *name, int flags, unsigned mode)
{
	struct weir__retry retry = { 0 };
	int fd;

	do
		fd = openat(dir, name, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR && weir__retry(&retry));
	return fd < 0 ? -errno : fd;
}

void weir__sys_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

int weir__sys_fstat(int fd, struct stat *st)
{
	return fstat(fd, st) < 0 ? -errno : 0;
}

int weir__sys_get_flags(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -errno : flags;
}

int weir__sys_dup(int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return own < 0 ? -errno : own;
}

int weir__sys_stat(const char *path, struct stat *st)
{
	return stat(path, st) < 0 ? -errno : 0;
}

int weir__sys_stat_at(int dir, const char *name, bool follow, struct stat *st)
{
	int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;

	return fstatat(dir, name, st, flags) < 0 ? -errno : 0;
}

int weir__sys_readlink(const char *path, char *ret_text, size_t room)
{
	ssize_t n = readlink(path, ret_text, room);

	if (n < 0)
		return -errno;
	if ((size_t)n == room)
		return -ENAMETOOLONG;
	ret_text[n] = '\0';
	return 0;
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

int64_t weir__sys_pread(int fd, void *buf, size_t n, uint64_t off)
{
	struct weir__retry retry = { 0 };
	ssize_t r;

	do
		r = pread(fd, buf, n, (off_t)off);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : r;
}

int64_t weir__sys_preadv(int fd, const struct iovec *iov, int n, uint64_t off)
{
	struct weir__retry retry = { 0 };
	ssize_t r;

	do
		r = preadv(fd, iov, n, (off_t)off);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : r;
}

int64_t weir__sys_pread_nowait(int fd, void *buf, size_t n, uint64_t off)
{
	struct iovec iov = { buf, n };

	return weir__sys_preadv_nowait(fd, &iov, 1, off);
}

int64_t weir__sys_preadv_nowait(int fd, const struct iovec *iov, int n,
				uint64_t off)
{
	ssize_t r = preadv2(fd, iov, n, (off_t)off, RWF_NOWAIT);

	return r < 0 ? -errno : r;
}

int64_t weir__sys_write(int fd, const void *buf, size_t n)
{
	struct weir__retry retry = { 0 };
	ssize_t r;

	do
		r = write(fd, buf, n);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : r;
}

int64_t weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off)
{
	struct weir__retry retry = { 0 };
	ssize_t r;

	do
		r = pwrite(fd, buf, n, (off_t)off);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : r;
}

int weir__sys_eventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int weir__sys_eventfd_renew(int fd)
{
	int new = weir__sys_eventfd();
	int r = new < 0 ? new : dup3(new, fd, O_CLOEXEC);

	if (r < 0 && new >= 0)
		r = -errno;
	weir__sys_close(new);
	return r < 0 ? r : 0;
}

int weir__sys_eventfd_set(int fd, bool readable)
{
	struct weir__retry retry = { 0 };
	uint64_t count = 1;
	ssize_t r;

	do
		r = readable ? write(fd, &count, sizeof(count))
			     : read(fd, &count, sizeof(count));
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : 0;
}

uint64_t weir__sys_file_id(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	return ((uint64_t)st.st_dev << 32 ^ st.st_ino) | 1ull << 63;
}

int weir__sys_set_flags(int fd, int flags)
{
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

/* Magic numbers of statfs(2) that <linux/magic.h> lacks. */
#define MAGIC_CIFS 0xff534d42u
#define MAGIC_LUSTRE 0x0bd00bd0u
#define MAGIC_GPFS 0x47504653u

void weir__sys_fs(int fd, struct weir__fs *ret_fs)
{
	struct statfs s;

	*ret_fs = (struct weir__fs){ .page = (size_t)sysconf(_SC_PAGESIZE) };
	ret_fs->fuse = fstatfs(fd, &s) < 0;
	if (ret_fs->fuse)
		return;
	switch ((uint32_t)s.f_type) {
	case FUSE_SUPER_MAGIC:
		ret_fs->fuse = ret_fs->network = true;
		break;
	case NFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
	case MAGIC_CIFS:
	case CEPH_SUPER_MAGIC:
	case V9FS_MAGIC:
	case AFS_FS_MAGIC:
	case MAGIC_LUSTRE:
	case MAGIC_GPFS:
		ret_fs->network = true;
		break;
	case HUGETLBFS_MAGIC:
		ret_fs->page = (size_t)s.f_bsize;
		ret_fs->limited = ret_fs->in_memory = true;
		break;
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
		ret_fs->limited = s.f_blocks;
		ret_fs->in_memory = true;
		break;
	}
}

bool weir__sys_nowait(int fd)
{
	char byte;
	struct iovec iov = { &byte, 1 };

	return preadv2(fd, &iov, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

bool weir__sys_may_write(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	return st.st_uid == geteuid() || geteuid() == 0 ||
	       !faccessat(fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS);
}

int weir__sys_dio_align(int fd, uint32_t *ret_mem, uint32_t *ret_off)
{
#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) < 0)
		return -errno;
	if (!(sx.stx_mask & STATX_DIOALIGN))
		return -EOPNOTSUPP;
	*ret_mem = sx.stx_dio_mem_align;
	*ret_off = sx.stx_dio_offset_align;
	return 0;
#else
	(void)fd, (void)ret_mem, (void)ret_off;
	return -EOPNOTSUPP;
#endif
}

#define NR_CACHESTAT 451 /* Linux 6.5; the same on every architecture */

int64_t weir__sys_cached(int fd, uint64_t off, uint64_t len)
{
	struct {
		uint64_t off, len;
	} range = { off, len };
	struct {
		uint64_t cache, dirty, writeback, evicted, recently_evicted;
	} cs;

	if (syscall(NR_CACHESTAT, fd, &range, &cs, 0) < 0)
		return -errno;
	return (int64_t)cs.cache;
}

unsigned weir__sys_peek(int fd, uint64_t off)
{
	char byte;
	struct iovec iov = { &byte, 1 };

	return preadv2(fd, &iov, 1, (off_t)off, RWF_NOWAIT) == 1;
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

/* The kernel may cut a request to its read-ahead, which is at least this. */
#define FETCH_BYTES (128u << 10)

void weir__sys_fetch(int fd, uint64_t off, uint64_t len)
{
	while (len) {
		uint64_t n = len < FETCH_BYTES ? len : FETCH_BYTES;

		posix_fadvise(fd, (off_t)off, (off_t)n, POSIX_FADV_WILLNEED);
		off += n;
		len -= n;
	}
}

void weir__sys_read_ahead(int fd, bool on)
{
	posix_fadvise(fd, 0, 0, on ? POSIX_FADV_NORMAL : POSIX_FADV_RANDOM);
}

int weir__thread_start(pthread_t *ret_thread, const char *name,
		       void *(*fn)(void *), void *arg)
{
	return weir__thread_start_stack(ret_thread, name, 0, fn, arg);
}

struct thread_start {
	void *(*fn)(void *);
	void *arg;
};

static void *thread_main(void *arg)
{
	struct thread_start start = *(struct thread_start *)arg;

	free(arg);
	weir__cpus_enter(weir__cpus_usable());
	return start.fn(start.arg);
}

static int create(pthread_t *ret_thread, size_t stack,
		  struct thread_start *start)
{
	pthread_attr_t attr;
	int r = pthread_attr_init(&attr);

	if (r)
		return r;
	if (stack)
		r = pthread_attr_setstacksize(&attr, stack);
	if (!r)
		r = pthread_create(ret_thread, &attr, thread_main, start);
	pthread_attr_destroy(&attr);
	return r;
}

int weir__thread_start_stack(pthread_t *ret_thread, const char *name,
			     size_t stack, void *(*fn)(void *), void *arg)
{
	struct thread_start *start = malloc(sizeof(*start));
	sigset_t all, old;
	int r;

	assert(strlen(name) < 16); /* the kernel refuses longer ones */
	if (!start)
		return -EAGAIN; /* as pthread_create(3) without memory */
	*start = (struct thread_start){ fn, arg };
	/* Only the program's own threads handle signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = create(ret_thread, stack, start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		free(start);
	else
		pthread_setname_np(*ret_thread, name);
	return -r;
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

int weir__thread_join(pthread_t thread, int64_t deadline)
{
	struct timespec pause = { .tv_nsec = 50000 };

	if (deadline == INT64_MAX) {
		pthread_join(thread, NULL);
		return 0;
	}
	while (pthread_tryjoin_np(thread, NULL)) {
		if (weir__now() >= deadline) {
			pthread_detach(thread);
			return -ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 5000000)
			pause.tv_nsec *= 2;
	}
	return 0;
}

int weir__futex_wait(_Atomic uint32_t *word, uint32_t val, int64_t deadline)
{
	struct timespec ts = { .tv_sec = deadline / 1000000000,
			       .tv_nsec = deadline % 1000000000 };

	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, val,
		    deadline == INT64_MAX ? NULL : &ts, NULL,
		    FUTEX_BITSET_MATCH_ANY) == 0)
		return 0;
	return errno == ETIMEDOUT ? -ETIMEDOUT : 0;
}

void weir__futex_wake(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

int weir__sys_membarrier_register(void)
{
	int r = (int)syscall(SYS_membarrier,
			     MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);

	return r < 0 ? -errno : 0;
}

/* membarrier(2) cannot fail after the process was registered for it. */
void weir__sys_membarrier(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
