/* SPDX-License-Identifier: MIT */
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE ((size_t)4096)
#define SETTLE 3u /* seconds until the kernel has reported what was free */

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

double raw_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double raw_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* All time except idle and I/O wait; includes steal by a hypervisor. */
double raw_busy(void)
{
	double v[8] = { 0 };
	FILE *f = fopen("/proc/stat", "re");

	if (f && fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1],
			&v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
		v[0] = 0;
	if (f)
		fclose(f);
	return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) /
	       (double)sysconf(_SC_CLK_TCK);
}

unsigned char *raw_fresh(size_t bytes)
{
	size_t len = bytes + 2 * HUGE_PAGE;
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
				0);
	size_t skip;

	if (p == MAP_FAILED)
		die("%zu bytes of memory: %s", len, strerror(errno));
	/* Trim the mapping to the aligned part, so that it can be unmapped. */
	skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	if (skip)
		munmap(p, skip);
	munmap(p + skip + bytes + HUGE_PAGE, len - skip - bytes - HUGE_PAGE);
	madvise(p + skip, bytes + HUGE_PAGE, MADV_HUGEPAGE);
	return p + skip;
}

unsigned char *raw_memory(size_t bytes)
{
	unsigned char *p = raw_fresh(bytes);

	memset(p, 1, bytes + HUGE_PAGE);
	return p;
}

void raw_settle(size_t bytes)
{
	unsigned char *p = raw_memory(bytes);

	sleep(SETTLE);
	raw_unmap(p, bytes);
}

struct raw_result raw_prefault_fresh(size_t bytes)
{
	struct raw_result res = { .bytes = bytes };
	double cpu = raw_cpu(), begun = raw_now();
	unsigned char *p = raw_fresh(bytes);

	for (size_t i = 0; i < bytes; i += 4096)
		((volatile unsigned char *)p)[i] = 1;
	res.seconds = raw_now() - begun;
	res.cpu_seconds = raw_cpu() - cpu;
	raw_unmap(p, bytes);
	return res;
}

struct half {
	unsigned char *mem;
	size_t bytes;
};

static void *prefault_half(void *arg)
{
	struct half *h = arg;

	for (size_t i = 0; i < h->bytes; i += 4096)
		((volatile unsigned char *)h->mem)[i] = 1;
	return NULL;
}

struct raw_result raw_prefault_two(size_t bytes)
{
	struct raw_result res = { .bytes = bytes };
	double cpu = raw_cpu(), begun = raw_now();
	unsigned char *p = raw_fresh(bytes);
	size_t middle = bytes / 2 / HUGE_PAGE * HUGE_PAGE;
	struct half first = { p, middle };
	struct half second = { p + middle, bytes - middle };
	pthread_t thread;

	if (pthread_create(&thread, NULL, prefault_half, &second))
		die("no thread");
	prefault_half(&first);
	pthread_join(thread, NULL);
	res.seconds = raw_now() - begun;
	res.cpu_seconds = raw_cpu() - cpu;
	raw_unmap(p, bytes);
	return res;
}

void raw_unmap(void *mem, size_t bytes)
{
	munmap(mem, bytes + HUGE_PAGE);
}

static int open_file(const char *path, int flags, uint64_t *ret_size)
{
	int fd = open(path, flags | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		die("%s: %s", path, strerror(errno));
	*ret_size = (uint64_t)st.st_size;
	return fd;
}

enum how {
	PREFAULTED, /* each byte has its own place, in prefaulted memory */
	FRESH,      /* each byte has its own place, prefaulted just before */
	REUSED,     /* one chunk of memory for each thread */
	DIRECT      /* as PREFAULTED, with O_DIRECT, in whole pages */
};

struct reader {
	pthread_t thread;
	int fd;
	unsigned char *mem;
	uint64_t from, to;
	size_t chunk;
	enum how how;
};

static void *read_part(void *arg)
{
	struct reader *r = arg;

	while (r->from < r->to) {
		size_t n = r->to - r->from < r->chunk ? r->to - r->from
						      : r->chunk;
		unsigned char *to = r->mem;
		ssize_t got;

		if (r->how != REUSED)
			to += r->from;
		if (r->how == DIRECT)
			n = (n + PAGE - 1) / PAGE * PAGE;
		if (r->how ==
		    FRESH) /* if this fails pages are faulted in by pread */
			madvise(to, r->chunk, MADV_POPULATE_WRITE);
		got = pread(r->fd, to, n, (off_t)r->from);
		if (got <= 0)
			die("read at %llu: %s", (unsigned long long)r->from,
			    got ? strerror(errno) : "end of file");
		r->from += (uint64_t)got;
	}
	return NULL;
}

static struct raw_result read_all(const char *path, unsigned char *mem,
				  size_t chunk, unsigned threads, enum how how)
{
	struct raw_result res = { 0 };
	struct reader reader[64];
	uint64_t size, part;
	int direct = how == DIRECT ? O_DIRECT : 0;
	int fd = open_file(path, O_RDONLY | direct, &size);
	double cpu = raw_cpu(), begun = raw_now();

	part = size / threads / HUGE_PAGE * HUGE_PAGE;
	for (unsigned i = 0; i < threads; i++) {
		reader[i] = (struct reader){
			.fd = fd,
			.mem = how == REUSED ? mem + i * chunk : mem,
			.from = i * part,
			.to = i + 1 == threads ? size : (i + 1) * part,
			.chunk = chunk,
			.how = how,
		};
		if (pthread_create(&reader[i].thread, NULL, read_part,
				   &reader[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(reader[i].thread, NULL);
	res.seconds = raw_now() - begun;
	res.cpu_seconds = raw_cpu() - cpu;
	res.bytes = size;
	close(fd);
	return res;
}

static void queue_read(struct io_uring *ring, int fd, unsigned char *mem,
		       uint64_t off, size_t chunk)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_read(sqe, fd, mem + off, (unsigned)chunk, off);
	io_uring_sqe_set_data64(sqe, off);
}

struct raw_result raw_direct(const char *path, unsigned char *mem, size_t chunk,
			     unsigned depth)
{
	struct raw_result res = { 0 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	uint64_t size, next = 0;
	unsigned out = 0;
	double cpu, begun;
	int fd;

	if (io_uring_queue_init(depth * 2, &ring,
				IORING_SETUP_SINGLE_ISSUER |
					IORING_SETUP_DEFER_TASKRUN) < 0)
		return read_all(path, mem, chunk, depth, DIRECT);
	fd = open_file(path, O_RDONLY | O_DIRECT, &size);
	cpu = raw_cpu();
	begun = raw_now();
	while (res.bytes < size) {
		for (; out < depth && next < size; out++, next += chunk)
			queue_read(&ring, fd, mem, next, chunk);
		io_uring_submit_and_wait(&ring, 1);
		while (out && !io_uring_peek_cqe(&ring, &cqe)) {
			uint64_t off = io_uring_cqe_get_data64(cqe);
			uint64_t want = size - off < chunk ? size - off : chunk;

			if (cqe->res < 0 || (uint64_t)cqe->res != want)
				die("%s: read at %llu gave %d", path,
				    (unsigned long long)off, cqe->res);
			res.bytes += want;
			io_uring_cqe_seen(&ring, cqe);
			out--;
		}
	}
	res.seconds = raw_now() - begun;
	res.cpu_seconds = raw_cpu() - cpu;
	io_uring_queue_exit(&ring);
	close(fd);
	return res;
}

struct raw_result raw_pread(const char *path, unsigned char *mem, size_t chunk,
			    unsigned threads)
{
	return read_all(path, mem, chunk, threads, PREFAULTED);
}

struct raw_result raw_pread_reuse(const char *path, unsigned char *mem,
				  size_t chunk, unsigned threads)
{
	return read_all(path, mem, chunk, threads, REUSED);
}

struct raw_result raw_populate_pread(const char *path, unsigned char *mem,
				     size_t chunk, unsigned threads)
{
	return read_all(path, mem, chunk, threads, FRESH);
}

void raw_warm(const char *path)
{
	size_t chunk = 1 << 20;
	void *buf = malloc(chunk);
	uint64_t size;
	int fd = open_file(path, O_RDONLY, &size);

	if (!buf)
		die("no memory");
	for (uint64_t off = 0; off < size; off += chunk)
		if (pread(fd, buf, chunk, (off_t)off) < 0)
			die("%s: %s", path, strerror(errno));
	free(buf);
	close(fd);
}

void raw_cold(const char *path)
{
	uint64_t size;
	int fd = open_file(path, O_RDONLY, &size);

	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* By mapping: mincore(2) is exact for files that the user owns. */
unsigned raw_resident(const char *path)
{
	uint64_t size, pages, in = 0;
	int fd = open_file(path, O_RDONLY, &size);
	unsigned char *vec;
	void *map;

	pages = (size + 4095) / 4096;
	vec = malloc(pages ? pages : 1);
	map = mmap(NULL, size ? size : 1, PROT_READ, MAP_SHARED, fd, 0);
	if (!vec || map == MAP_FAILED || mincore(map, size, vec) < 0)
		die("%s: %s", path, strerror(errno));
	for (uint64_t i = 0; i < pages; i++)
		in += vec[i] & 1;
	munmap(map, size);
	free(vec);
	close(fd);
	return pages ? (unsigned)(in * 1000 / pages) : 0;
}
