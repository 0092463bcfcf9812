/* SPDX-License-Identifier: MIT */
/* How much of a file is reported to be in the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "io/file.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)
#define SIZE (64 * MIB)
#define PAGES (SIZE / 4096)
#define TRIES 100 /* the kernel may evict a page at any time */

static struct weir_file *file;
static int fd;
static unsigned char some[MIB];
static unsigned char in[PAGES]; /* a page cache that is made up */
static bool made_up = true;
static int64_t cached_says = 1; /* in place of cachestat(2), unless > 0 */

int64_t __real_weir__sys_cached(int fd, uint64_t off, uint64_t len);
int64_t __wrap_weir__sys_cached(int fd, uint64_t off, uint64_t len);

int64_t __wrap_weir__sys_cached(int at, uint64_t off, uint64_t len)
{
	int64_t n = 0;

	if (cached_says <= 0)
		return cached_says;
	if (!made_up)
		return __real_weir__sys_cached(at, off, len);
	for (uint64_t page = off / 4096; page < (off + len) / 4096; page++)
		n += in[page];
	return n;
}

static void drop(uint64_t from, uint64_t to)
{
	memset(in + from / 4096, 0, (to - from) / 4096);
}

static void fetch(uint64_t from, uint64_t to)
{
	memset(in + from / 4096, 1, (to - from) / 4096);
}

static unsigned share(uint64_t from, uint64_t to)
{
	return weir__file_resident(file, from, to - from);
}

static unsigned truth(uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t page = from / 4096; page < to / 4096; page++)
		n += in[page];
	return (unsigned)(n * 1000 / ((to - from) / 4096));
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

/* The share that the kernel reports of bytes that were just read. */
static unsigned share_of_read(void)
{
	unsigned got = 0;

	for (int i = 0; i < TRIES && got != 1000; i++) {
		if (pread(fd, some, MIB, 0) != (ssize_t)MIB)
			bail("read: %s", strerror(errno));
		got = share(0, MIB);
	}
	return got;
}

static void of_the_kernel(void)
{
	const bool nowait = file->nowait;
	unsigned got = 1000;

	made_up = false;
	is_int(share_of_read(), 1000, "what was read is resident");
	for (int i = 0; i < TRIES && got; i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		got = share(0, MIB);
	}
	if (got)
		skip(1, "the file system keeps all files in memory");
	else
		ok(true, "what was dropped is not resident");
	/* As on overlayfs: with cachestat(2), and without it. */
	file->nowait = false;
	cached_says = 0;
	is_int(share_of_read(), 1000,
	       "a file whose pages cachestat does not see is asked by mincore");
	cached_says = -ENOSYS;
	is_int(share_of_read(), 1000,
	       "without cachestat a file is asked by mincore too");
	file->nowait = nowait;
}

int main(void)
{
	struct weir *root;

	plan(18);
	files_begin();
	fd = open(files_path("f"), O_RDWR | O_CREAT, 0600);
	if (fd < 0 || pwrite(fd, some, MIB, 0) != (ssize_t)MIB ||
	    ftruncate(fd, (off_t)SIZE) < 0 || fsync(fd) < 0)
		bail("f: %s", strerror(errno));
	if (weir_open(NULL, &root) < 0 ||
	    weir_file_open(root, files_path("f"), NULL, &file) < 0)
		bail("%s", weir_error());
	shares();
	of_the_kernel();
	weir_file_close(file);
	weir_close(root);
	close(fd);
	return done_testing();
}
