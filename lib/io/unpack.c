/* SPDX-License-Identifier: MIT */
#include "io/unpack.h"

#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "core/sys.h"
#include "io/past_cache.h"
#include "mem/convert.h"

/*
 * Bytes of a read to the stack, from where they are unpacked: few enough to stay
 * in the CPU's cache.
 */
#define PIECE (64u << 10)
/*
 * Reading a larger gap takes longer than one more call. Measured with pitches of
 * 8 widths: at a gap of 3584 bytes both take the same time, at 28 KiB one call
 * for each row takes 0.4 of the time, at 896 bytes 2.6 times as long.
 */
#define MAX_GAP 3072u
#define MAX_IOV 512

static void unpack_bytes(const struct weir__extent *e, unsigned char *dst,
			 const unsigned char *src, uint64_t n)
{
	if (e->convert)
		e->convert->run(dst, src, n / e->convert->src_bytes);
	else
		memcpy(dst, src, n);
}

void weir__unpack(const struct weir__extent *e, const struct weir__rows *rows,
		  const unsigned char *src, unsigned char *dst,
		  uint64_t dst_pitch)
{
	for (uint32_t k = 0; k < e->n_merged && e->n_merged > 1; k++)
		weir__copy_past_cache(e[k].addr, src + (e[k].off - e->off),
				      e[k].len);
	if (e->n_merged > 1)
		return;
	for (uint64_t k = 0; k < rows->n; k++)
		unpack_bytes(e, dst + k * dst_pitch, src + k * rows->pitch,
			     rows->width);
}

/* 1, or 0: the file ends before the last byte; or -errno. */
static int read_all(const struct weir__extent *e, unsigned char *to, uint64_t n,
		    uint64_t off, bool wait)
{
	while (n) {
		int64_t r = (wait ? weir__sys_pread : weir__sys_pread_nowait)(
			e->file->fd, to, n, off);

		if (r <= 0)
			return (int)r;
		to += r;
		off += (uint64_t)r;
		n -= (uint64_t)r;
	}
	return 1;
}

/* Whole elements, in pieces: a row, or a contiguous chunk. */
static int convert_cached(const struct weir__extent *e, uint64_t n,
			  uint64_t off, unsigned char *dst, bool wait)
{
	const struct weir_backend_convert *c = e->convert;
	unsigned char piece[PIECE];
	int r = 1;

	while (n && r == 1) {
		uint64_t take = PIECE / c->src_bytes * c->src_bytes;

		take = n < take ? n : take;
		r = read_all(e, piece, take, off, wait);
		if (r == 1)
			unpack_bytes(e, dst, piece, take);
		dst += take / c->src_bytes * c->dst_bytes;
		off += take;
		n -= take;
	}
	return r;
}

static bool reads_gaps(const struct weir__rows *rows)
{
	return rows->n > 1 && rows->pitch - rows->width <= MAX_GAP &&
	       rows->pitch + rows->width <= PIECE;
}

/* Each row by a call of its own. */
static int rows_cached(const struct weir__extent *e,
		       const struct weir__rows *rows, uint64_t off,
		       unsigned char *dst, uint64_t dst_pitch, bool wait)
{
	int r = 1;

	for (uint64_t k = 0; k < rows->n && r == 1; k++) {
		uint64_t from = off + k * rows->pitch;

		r = e->convert ? convert_cached(e, rows->width, from, dst, wait)
			       : read_all(e, dst, rows->width, from, wait);
		dst += dst_pitch;
	}
	return r;
}

/* As many rows as fit a piece by one call, with the gaps between them. */
static int spans_cached(const struct weir__extent *e,
			const struct weir__rows *rows, uint64_t off,
			unsigned char *dst, uint64_t dst_pitch, bool wait)
{
	unsigned char piece[PIECE];
	struct weir__rows some = *rows;
	int r = 1;

	for (uint64_t k = 0; k < rows->n && r == 1; k += some.n) {
		some.n = (PIECE - rows->width) / rows->pitch + 1;
		if (some.n > rows->n - k)
			some.n = rows->n - k;
		r = read_all(e, piece, (some.n - 1) * rows->pitch + rows->width,
			     off + k * rows->pitch, wait);
		if (r == 1)
			weir__unpack(e, &some, piece, dst + k * dst_pitch,
				     dst_pitch);
	}
	return r;
}

/* The gap between extents @k and @k + 1 that are merged. */
static uint64_t gap_after(const struct weir__extent *e, uint32_t k)
{
	return e[k + 1].off - (e[k].off + e[k].len);
}

/*
 * How many of the @n extents from @e on does one call read, with the gaps
 * between them, which go to @piece? Fills in @iov.
 */
static uint32_t vector_of(const struct weir__extent *e, uint32_t n,
			  unsigned char *piece, struct iovec *iov,
			  int *ret_n_iov, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	uint32_t k = 0;
	int i = 0;

	for (;;) {
		iov[i++] = (struct iovec){ e[k].addr, e[k].len };
		bytes += e[k].len;
		if (++k == n || i + 2 > MAX_IOV ||
		    gap_after(e, k - 1) > MAX_GAP)
			break;
		if (gap_after(e, k - 1)) {
			iov[i] = (struct iovec){ piece, gap_after(e, k - 1) };
			bytes += iov[i++].iov_len;
		}
	}
	*ret_n_iov = i;
	*ret_bytes = bytes;
	return k;
}

/* Several extents, each to its place. */
static int merged_cached(const struct weir__extent *e, uint32_t n, bool wait)
{
	unsigned char piece[MAX_GAP];
	struct iovec iov[MAX_IOV];
	int r = 1;

	for (uint32_t at = 0, k; at < n && r == 1; at += k) {
		uint64_t bytes;
		int64_t got;
		int n_iov;

		k = vector_of(&e[at], n - at, piece, iov, &n_iov, &bytes);
		got = (wait ? weir__sys_preadv : weir__sys_preadv_nowait)(
			e->file->fd, iov, n_iov, e[at].off);
		if (got < 0)
			return (int)got;
		/* After a short read, each extent again by itself. */
		for (uint32_t i = 0; (uint64_t)got < bytes && i < k && r == 1;
		     i++)
			r = read_all(e, e[at + i].addr, e[at + i].len,
				     e[at + i].off, wait);
	}
	return r;
}

int weir__unpack_cached(const struct weir__extent *e,
			const struct weir__rows *rows, uint64_t off,
			unsigned char *dst, uint64_t dst_pitch, bool wait)
{
	if (e->n_merged > 1)
		return merged_cached(e, e->n_merged, wait);
	return reads_gaps(rows)
		       ? spans_cached(e, rows, off, dst, dst_pitch, wait)
		       : rows_cached(e, rows, off, dst, dst_pitch, wait);
}

void weir__unpack_fetch(const struct weir__extent *e,
			const struct weir__rows *rows, uint64_t off,
			uint64_t bytes)
{
	const int fd = e->file->fd;

	for (uint32_t k = 0; k < e->n_merged && e->n_merged > 1; k++)
		weir__sys_fetch(fd, e[k].off, e[k].len);
	if (e->n_merged > 1)
		return;
	if (rows->n <= 1 || reads_gaps(rows)) {
		weir__sys_fetch(fd, off, bytes);
		return;
	}
	for (uint64_t k = 0; k < rows->n; k++)
		weir__sys_fetch(fd, off + k * rows->pitch, rows->width);
}

uint64_t weir__unpack_cached_gaps(const struct weir__extent *e,
				  const struct weir__rows *rows)
{
	uint64_t sum = 0;

	for (uint32_t k = 0; k + 1 < e->n_merged; k++)
		if (gap_after(e, k) <= MAX_GAP)
			sum += gap_after(e, k);
	if (e->n_merged > 1)
		return sum;
	return reads_gaps(rows) ? (rows->n - 1) * (rows->pitch - rows->width)
				: 0;
}
