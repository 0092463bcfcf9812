/* SPDX-License-Identifier: MIT */
/* How much of a file is reported to be in the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "io/file.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)
#define SIZE (64 * MIB)
#define N_TESTS 14

static struct weir_file *file;
static int fd;
static int64_t cached_says; /* in place of cachestat(2); > 0: ask it */

int64_t __real_weir__sys_cached(int fd, uint64_t off, uint64_t len);
int64_t __wrap_weir__sys_cached(int fd, uint64_t off, uint64_t len);

int64_t __wrap_weir__sys_cached(int at, uint64_t off, uint64_t len)
{
	return cached_says > 0 ? __real_weir__sys_cached(at, off, len)
			       : cached_says;
}

static void write_file(void)
{
	static unsigned char some[MIB];

	fd = open(files_path("f"), O_RDWR | O_CREAT, 0600);
	memset(some, 1, sizeof(some));
	for (uint64_t at = 0; fd >= 0 && at < SIZE; at += MIB)
		if (pwrite(fd, some, MIB, (off_t)at) != (ssize_t)MIB)
			bail("write: %s", strerror(errno));
	if (fd < 0 || fsync(fd) < 0)
		bail("f: %s", strerror(errno));
	/* No read-ahead, whose pages may arrive while they are counted. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
}

static void drop(uint64_t from, uint64_t to)
{
	posix_fadvise(fd, (off_t)from, (off_t)(to - from), POSIX_FADV_DONTNEED);
}

static void fetch(uint64_t from, uint64_t to)
{
	static unsigned char some[MIB];

	for (; from < to; from += MIB)
		if (pread(fd, some, MIB, (off_t)from) != (ssize_t)MIB)
			bail("read: %s", strerror(errno));
}

static unsigned share(uint64_t from, uint64_t to)
{
	return weir__file_resident(file, from, to - from);
}

/* By mapping: this file is our own, so mincore(2) tells the truth. */
static unsigned truth(uint64_t from, uint64_t to)
{
	static unsigned char vec[SIZE / 4096];
	uint64_t pages = (to - from) / 4096, in = 0;
	void *map =
		mmap(NULL, to - from, PROT_READ, MAP_SHARED, fd, (off_t)from);

	if (map == MAP_FAILED || mincore(map, to - from, vec) < 0)
		bail("mincore: %s", strerror(errno));
	for (uint64_t i = 0; i < pages; i++)
		in += vec[i] & 1;
	munmap(map, to - from);
	return (unsigned)(in * 1000 / pages);
}

/* Resident in part: samples of the whole range tell how much. */
static void estimated(uint64_t from, uint64_t to, const char *what)
{
	unsigned has = truth(from, to), got = share(from, to);

	ok(has > 0 && has < 1000 && got > 0 && got < 1000 && got + 20 > has &&
		   got < has + 20,
	   "%s: %u of 1000, in truth %u", what, got, has);
}

/*
 * Half of each @period is missing: check that samples see this in each 16 MiB.
 */
static void halves(uint64_t period)
{
	unsigned most = 0;

	fetch(0, SIZE);
	for (uint64_t at = 0; at < SIZE; at += period)
		drop(at, at + period / 2);
	for (uint64_t at = 0; at < SIZE; at += 16 * MIB) {
		unsigned has = truth(at, at + 16 * MIB);
		unsigned got = share(at, at + 16 * MIB);
		unsigned off = got > has ? got - has : has - got;

		most = off > most ? off : most;
	}
	ok(most < 250, "half of each %llu KiB: in no 16 MiB more than %u off",
	   (unsigned long long)period >> 10, most);
}

/* True if the page cache keeps and drops the pages that it is asked to. */
static bool obeys(void)
{
	fetch(0, SIZE);
	if (share(0, MIB) != 1000)
		return false;
	drop(0, SIZE);
	return share(0, MIB) == 0;
}

static void shares(void)
{
	is_int(share(0, SIZE), 0, "nothing of a long range is resident");
	is_int(share(5, 5000), 0, "nothing of a short range is resident");
	fetch(0, SIZE);
	is_int(share(0, SIZE), 1000, "all of a long range is resident");
	is_int(share(3 * MIB + 77, 9 * MIB + 1), 1000,
	       "all of a range from any offset is resident");
	is_int(share(SIZE - 1, SIZE), 1000, "all of one byte is resident");
	is_int(share(9, 9), 1000, "all of an empty range is resident");
	drop(0, SIZE / 2);
	estimated(0, SIZE, "half of it, at one end");
	estimated(SIZE / 2 - 4 * MIB, SIZE, "little that is missing");
	estimated(SIZE / 2 - MIB, SIZE / 2 + MIB, "half of a short range");
	fetch(0, SIZE);
	for (uint64_t at = 0; at < SIZE; at += 16 * MIB)
		drop(at, at + 4 * MIB);
	estimated(0, SIZE, "every fourth part is missing");
	for (uint64_t period = 128 << 10; period <= 2 * MIB; period *= 4)
		halves(period);
	drop(0, SIZE);
	fetch(40 * MIB, 44 * MIB);
	estimated(0, SIZE, "little that is there");
}

/* As on overlayfs, with cachestat(2) and before Linux 6.5 without it. */
static void by_map(void)
{
	const bool nowait = file->nowait;

	fetch(0, SIZE);
	file->nowait = false;
	cached_says = 0;
	is_int(share(0, SIZE), 1000,
	       "a file whose pages cachestat does not see is asked by mincore");
	cached_says = -ENOSYS;
	is_int(share(0, SIZE), 1000,
	       "without cachestat a file is asked by mincore too");
	file->nowait = nowait;
	cached_says = 1;
}

int main(void)
{
	struct weir *root;

	plan(N_TESTS + 2);
	cached_says = 1;
	files_begin();
	write_file();
	if (weir_open(NULL, &root) < 0 ||
	    weir_file_open(root, files_path("f"), NULL, &file) < 0)
		bail("%s", weir_error());
	if (obeys())
		shares();
	else
		skip(N_TESTS, "this page cache cannot be told what to keep");
	by_map();
	weir_file_close(file);
	weir_close(root);
	close(fd);
	return done_testing();
}
