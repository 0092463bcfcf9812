/* SPDX-License-Identifier: MIT */
#include <sys/mman.h>

#include "core/clock.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/file.h"

#define ENOUGH_MISSES 4u /* misses of 64: the range is not resident */
#define COUNTED 256u     /* pages: up to so many are counted, not sampled */
#define PART 512u        /* one page of so many is sampled ... */
#define SAMPLES 8u       /* ... but at least so many pages of a range */
#define MORE 8u          /* times as many samples, if the first disagree */
#define LONG_PART 2048u  /* one page of so many is sampled in a long range */
#define FEW 5u           /* pages that are sampled of a short range */

/*
 * Some file systems keep their pages in another inode (overlayfs): cachestat
 * does not see them, and reads cannot refuse to wait. A mapping shows them, but
 * mincore(2) reports the truth only for files that we may write.
 */
static unsigned resident_by_map(struct weir_file *file, uint64_t off,
				uint64_t len)
{
	uint64_t from = weir__down(off, WEIR__PAGE), pages, in = 0;
	unsigned char *vec;
	void *map;

	len += off - from;
	pages = (len + WEIR__PAGE - 1) / WEIR__PAGE;
	if (!file->ours ||
	    weir__sys_map(len, file->fd, from, PROT_READ, &map) < 0)
		return 0;
	vec = weir__malloc(pages);
	if (vec && !weir__sys_mincore(map, len, vec))
		for (uint64_t i = 0; i < pages; i++)
			in += vec[i] & 1;
	weir__free(vec);
	weir__sys_unmap(map, len);
	return (unsigned)(in * 1000 / pages);
}

/* Count the resident pages of a range by cachestat(2). -errno if it fails. */
static int64_t count_resident(struct weir_file *file, uint64_t first,
			      uint64_t pages)
{
	int64_t r = weir__sys_cached(file->fd, first * WEIR__PAGE,
				     pages * WEIR__PAGE);

	return r > (int64_t)pages ? (int64_t)pages : r;
}

/*
 * Sample one page of each of @n parts of the range. Returns how many are
 * resident, or -errno. The offsets are random, since regular ones could see one
 * side of a regular pattern. Ends at the first sample that differs from the
 * others, unless @all are wanted.
 */
static int64_t count_samples(struct weir_file *file, uint64_t first,
			     uint64_t pages, uint64_t n, bool all)
{
	uint64_t hits = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t begin = first + pages * i / n;
		uint64_t size = first + pages * (i + 1) / n - begin;
		int64_t r = count_resident(file,
					   begin + weir__mix(begin) % size, 1);

		if (r < 0)
			return r;
		hits += (uint64_t)r;
		if (!all && hits != 0 && hits != i + 1)
			break;
	}
	return (int64_t)hits;
}

/*
 * Returns the resident pages in 1/1000 of the range, or -errno. Counting takes
 * the kernel 12 ns for each page, and 80 ns for one that memory pressure has
 * evicted: for a whole model, 5 % of the time to copy it. A sample takes 200 to
 * 500 ns. Pages come and go many at a time, so a few samples are enough; if
 * they disagree, more are taken. They may miss a hole, or an island, that is
 * shorter than two parts.
 */
static int64_t resident_by_samples(struct weir_file *file, uint64_t first,
				   uint64_t pages)
{
	uint64_t n = pages / PART > SAMPLES ? pages / PART : SAMPLES;
	int64_t hits;

	if (pages <= COUNTED) {
		hits = count_resident(file, first, pages);
		return hits < 0 ? hits : hits * 1000 / (int64_t)pages;
	}
	hits = count_samples(file, first, pages, n, false);
	if (hits <= 0)
		return hits;
	if ((uint64_t)hits == n)
		return 1000;
	hits = count_samples(file, first, pages, n * MORE, true);
	return hits < 0 ? hits : hits * 1000 / (int64_t)(n * MORE);
}

/* Takes fewer samples than resident_by_samples(). */
int weir__file_is_uniform(struct weir_file *file, uint64_t off, uint64_t len)
{
	uint64_t first = off / WEIR__PAGE;
	uint64_t pages = (off + len - 1) / WEIR__PAGE - first + 1;
	uint64_t n = pages / LONG_PART > SAMPLES ? pages / LONG_PART : SAMPLES;
	int64_t hits;

	if (file->object)
		return 0;
	hits = count_samples(file, first, pages, n, false);
	if (hits == (int64_t)n)
		return 1;
	return hits == 0 && file->nowait ? 0 : -1;
}

/*
 * Sample pages by reads that do not wait. A read of a page that is not resident
 * makes the kernel fetch it: so a few misses end the sampling, and the next
 * call samples other pages. Read-ahead is off meanwhile: it would fetch
 * megabytes, which later samples would find resident.
 */
static unsigned resident_by_reads(struct weir_file *file, uint64_t first,
				  uint64_t pages)
{
	uint64_t step = pages > 64 ? pages / 64 : 1, hit = 0, miss = 0;

	weir__sys_read_ahead(file->fd, false);
	for (uint64_t p = (uint64_t)weir__now() / 64 % step;
	     p < pages && miss < ENOUGH_MISSES; p += step)
		if (weir__sys_peek(file->fd, (first + p) * WEIR__PAGE))
			hit++;
		else
			miss++;
	weir__sys_read_ahead(file->fd, true);
	return miss < ENOUGH_MISSES ? (unsigned)(hit * 1000 / (hit + miss)) : 0;
}

unsigned weir__file_resident(struct weir_file *file, uint64_t off, uint64_t len)
{
	uint64_t first = off / WEIR__PAGE, pages;
	int64_t r;

	if (file->object)
		return 0;
	if (!len)
		return 1000;
	pages = (off + len - 1) / WEIR__PAGE - first + 1;
	r = resident_by_samples(file, first, pages);
	if (r <= 0 && !file->nowait)
		return resident_by_map(file, off, len);
	if (r >= 0)
		return (unsigned)r;
	/* cachestat(2) is refused for files that we may not write. */
	return resident_by_reads(file, first, pages);
}

/*
 * Reads a few pages until one is missing, other pages at each call, since the
 * kernel fetches that one.
 */
static bool is_cached_by_reads(struct weir_file *file, uint64_t first,
			       uint64_t pages)
{
	uint64_t part = pages > FEW ? pages / FEW : 1;
	uint64_t skip = (uint64_t)weir__now() / 64 % part;
	bool in = true;

	weir__sys_read_ahead(file->fd, false);
	for (uint64_t p = skip; p < pages && in; p += part)
		in = weir__sys_peek(file->fd, (first + p) * WEIR__PAGE);
	weir__sys_read_ahead(file->fd, true);
	return in;
}

bool weir__file_is_cached(struct weir_file *file, uint64_t off, uint64_t len)
{
	uint64_t first = off / WEIR__PAGE;
	uint64_t pages = (off + len - 1) / WEIR__PAGE - first + 1;

	if (file->object)
		return false;
	for (uint64_t i = 0; i < FEW; i++) {
		uint64_t at = (pages - 1) * i / (FEW - 1);
		int64_t r = count_resident(file, first + at, 1);

		/* cachestat(2) is refused for files that we may not write. */
		if (r < 0)
			return is_cached_by_reads(file, first, pages);
		if (!r)
			return false;
	}
	return true;
}
