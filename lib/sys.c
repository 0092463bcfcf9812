/* SPDX-License-Identifier: MIT */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void *weir__malloc(size_t n)
{
	return malloc(n ? n : 1);
}

void *weir__calloc(size_t n, size_t size)
{
	return calloc(n ? n : 1, size ? size : 1);
}

void *weir__realloc(void *p, size_t n, size_t size)
{
	return reallocarray(p, n ? n : 1, size ? size : 1);
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
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE :
			     MAP_SHARED;
	void *p = mmap(NULL, len, prot, flags, fd, (off_t)off);

	if (p == MAP_FAILED)
		return -errno;
	*ret_addr = p;
	return 0;
}

void weir__sys_unmap(void *addr, size_t len)
{
	munmap(addr, len);
}

int weir__sys_madvise(void *addr, size_t len, int advice)
{
	int r;

	do
		r = madvise(addr, len, advice);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int weir__sys_mlock(void *addr, size_t len)
{
	return mlock(addr, len) < 0 ? -errno : 0;
}

int weir__sys_open(const char *path, int flags, unsigned mode)
{
	int fd;

	do
		fd = open(path, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR);
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

int64_t weir__sys_pread(int fd, void *buf, size_t n, uint64_t off)
{
	ssize_t r;

	do
		r = pread(fd, buf, n, (off_t)off);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

int64_t weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off)
{
	ssize_t r;

	do
		r = pwrite(fd, buf, n, (off_t)off);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

int weir__sys_eventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int weir__thread_start(pthread_t *ret_thread, const char *name,
		       void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int r;

	/* A signal is for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret_thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		pthread_setname_np(*ret_thread, name);
	return -r;
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

unsigned weir__cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&set);
}
