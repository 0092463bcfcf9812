/* SPDX-License-Identifier: MIT */
/*
 * The extents of a load's job. The page cache decides what is read directly and
 * what buffered. A long span of the layout that is cached only in part is
 * divided into units, for each of which this is decided; neighbouring units
 * that are read alike make one extent. Short spans that are close together
 * share a decision.
 */
#include <errno.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/caller_read.h"
#include "model/load/load.h"

#define UNIT_BYTES (16ull << 20)
#define BUFS_AHEAD 16u
/* Units of one span: long spans have larger units. */
#define MAX_UNITS 1024u
#define MAX_GAP (64u << 10) /* bytes between spans that share a decision */
/*
 * Per mille in the page cache from which on buffered reads are faster, of long
 * and of short runs, where copiers request missing pages before they need them
 * (lib/io/op_task.c). Measured with a file of 2.2 GB of which parts of 4 MiB
 * were missing, in times of a load that reads with WEIR__RESIDENT: long runs,
 * 17 and 39 % missing, 0.53 and 0.79; rows, 14, 47 and 71 %, 0.65, 0.90 and
 * 1.37; conversions, 19, 52 and 72 %, 0.79, 1.06 and 1.37. Merged small tensors
 * were not measured.
 */
#define PARTLY 250u
#define MOSTLY 600u

static bool goes_buffered(struct weir_file *file, enum weir_way way,
			  uint64_t off, uint64_t len, unsigned least)
{
	if (file->object)
		return false;
	if (way == WEIR_WAY_BUFFERED || !atomic_load(&file->direct_ok))
		return true;
	if (way == WEIR_WAY_DIRECT)
		return false;
	return weir__file_resident(file, off, len) >= least;
}

bool weir__goes_buffered(struct weir_file *file, enum weir_way way,
			 uint64_t off, uint64_t len)
{
	return goes_buffered(file, way, off, len, WEIR__RESIDENT);
}

/* Reads by the ring do not request missing pages ahead. */
static unsigned least_cached(const struct weir_load *l,
			     const struct weir_file *file, unsigned ahead)
{
	return file->nowait && weir__nowait_root(l->weir) ? ahead
							  : WEIR__RESIDENT;
}

/* Make room for @n extents in all. */
static int extents_reserve(struct weir_load *l, size_t n)
{
	struct weir__load_arrays *a = l->arrays;
	size_t cap = a->max_ext; /* entries of both arrays */
	void *more;

	if (n <= a->max_ext)
		return 0;
	more = weir__array_grow(a->ext, &cap, n - 1, sizeof(*a->ext));
	if (!more)
		return -ENOMEM;
	a->ext = more;
	more = weir__array_grow(a->ext_span, &a->max_ext, n - 1,
				sizeof(*a->ext_span));
	if (!more)
		return -ENOMEM;
	a->ext_span = more;
	return 0;
}

static int add_extent(struct weir_load *l, uint32_t span_number, uint64_t skip,
		      uint64_t mem_skip, uint64_t len, bool buffered)
{
	const struct weir__load_span *span =
		&l->weights->layout->span[span_number];
	const struct weir__layout_buf *b = &l->weights->layout->buf[span->buf];
	const struct weir__slice *slice =
		weir__layout_slice(l->weights->layout, span->slice);
	bool host = b->buft->desc.flags & WEIR_BUFT_HOST;

	if (extents_reserve(l, l->n_ext + 1) < 0)
		return -ENOMEM;
	l->arrays->ext[l->n_ext] = (struct weir__extent){
		.file = l->model->file[span->shard],
		.off = span->off + skip,
		.len = len,
		.addr = b->base + span->at + mem_skip,
		.dev = host ? NULL : b->buft->dev,
		.gap_group = b->given ? NULL : b,
		.buffered = buffered,
		.convert = slice ? slice->convert : NULL,
	};
	l->arrays->ext_span[l->n_ext++] = span_number;
	l->direct |= host && !buffered;
	return 0;
}

/* Add a span with rows: it makes one extent, or one for each row. */
static int add_rows(struct weir_load *l, uint32_t number, bool buffered)
{
	const struct weir__load_span *span = &l->weights->layout->span[number];
	const struct weir__slice *slice =
		weir__layout_slice(l->weights->layout, span->slice);
	struct weir__extent *e;
	int r = add_extent(l, number, 0, 0, span->len, buffered);

	if (r < 0 || slice->rows <= 1)
		return r;
	e = &l->arrays->ext[l->n_ext - 1];
	e->rows = slice->rows;
	e->width = slice->width;
	e->file_pitch = slice->file_pitch;
	e->mem_pitch = slice->mem_pitch;
	if (weir__engine_joins_rows(l->eng, e))
		return 0;
	l->n_ext--;
	for (uint64_t k = 0; k < slice->rows && r >= 0; k++)
		r = add_extent(l, number, k * slice->file_pitch,
			       k * slice->mem_pitch, slice->width, buffered);
	return r;
}

/* Add a long span whose units differ. */
static int add_units(struct weir_load *l, uint32_t number)
{
	const struct weir__load_span *span = &l->weights->layout->span[number];
	struct weir_file *file = l->model->file[span->shard];
	uint64_t unit = span->len / MAX_UNITS, from = 0, at = 0;
	const unsigned least = least_cached(l, file, PARTLY);
	bool way = false;
	int r = 0;

	unit = unit < UNIT_BYTES ? UNIT_BYTES : weir__up(unit, UNIT_BYTES);
	while (at < span->len && r >= 0) {
		/* Units end at multiples of their size in the file. */
		uint64_t n = unit - (span->off + at) % unit;
		bool next;

		if (n > span->len - at)
			n = span->len - at;
		next = goes_buffered(file, span->way, span->off + at, n, least);
		if (at > from && next != way) {
			r = add_extent(l, number, from, from, at - from, way);
			from = at;
		}
		way = next;
		at += n;
	}
	return r < 0 ? r
		     : add_extent(l, number, from, from, span->len - from, way);
}

/* Add a span that is longer than a unit. */
static int add_long(struct weir_load *l, uint32_t number)
{
	const struct weir__load_span *span = &l->weights->layout->span[number];
	struct weir_file *file = l->model->file[span->shard];
	int cached = -1;

	if (span->way == WEIR_WAY_AUTO && atomic_load(&file->direct_ok))
		cached = weir__file_is_uniform(file, span->off, span->len);
	return cached < 0 ? add_units(l, number)
			  : add_extent(l, number, 0, 0, span->len, cached);
}

/* The spans of a load in the order of reading. */
struct reading {
	struct weir_load *l;
	size_t at, n;
};

static const struct weir__load_span *span_at(const struct reading *rd, size_t i)
{
	return &rd->l->weights->layout->span[i];
}

/*
 * The next short spans that are close together in one file, up to a unit in
 * all: the page cache is asked once for all of them.
 */
static size_t group_end(const struct reading *rd)
{
	const struct weir__load_span *first = span_at(rd, rd->at),
				     *last = first;
	size_t i = rd->at + 1;

	for (; i < rd->n; i++) {
		const struct weir__load_span *next = span_at(rd, i);
		uint64_t end = last->off + last->len;

		if ((rd->l->skip && rd->l->skip[i]) ||
		    next->shard != first->shard || next->way != first->way ||
		    next->off < end || next->off - end > MAX_GAP ||
		    next->off + next->len - first->off > UNIT_BYTES)
			break;
		last = next;
	}
	return i;
}

/*
 * Spans of targets have their buffers in any order: the CPU fetches a later
 * one.
 */
static void fetch_later(const struct reading *rd)
{
	const struct weir__layout *layout = rd->l->weights->layout;

	if (rd->at + BUFS_AHEAD < rd->n)
		__builtin_prefetch(
			&layout->buf[layout->span[rd->at + BUFS_AHEAD].buf]);
}

static int add_short(struct reading *rd, size_t end)
{
	const struct weir__load_span *first = span_at(rd, rd->at);
	const struct weir__load_span *last = span_at(rd, end - 1);
	struct weir_file *file = rd->l->model->file[first->shard];
	bool buffered = goes_buffered(file, first->way, first->off,
				      last->off + last->len - first->off,
				      least_cached(rd->l, file, MOSTLY));
	int r = 0;

	for (; rd->at < end && r >= 0; rd->at++) {
		const struct weir__load_span *span = span_at(rd, rd->at);
		uint32_t number = (uint32_t)rd->at;

		fetch_later(rd);
		r = !weir__span_is_plain(span)
			    ? add_rows(rd->l, number, buffered)
			    : add_extent(rd->l, number, 0, 0, span->len,
					 buffered);
	}
	return r;
}

static int add_next(struct reading *rd)
{
	const struct weir__load_span *span = span_at(rd, rd->at);

	if (span->len > UNIT_BYTES && weir__span_is_plain(span))
		return add_long(rd->l, (uint32_t)rd->at++);
	return add_short(rd, group_end(rd));
}

int weir__load_extents(struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;
	struct reading rd = { .l = l, .n = layout->n_spans };
	int r = extents_reserve(l, rd.n);

	while (rd.at < rd.n && r >= 0)
		if (l->skip && l->skip[rd.at])
			rd.at++;
		else
			r = add_next(&rd);
	return r < 0 ? weir__fail(r,
				  "%s: no memory for the extents of %zu runs",
				  l->model->path, layout->n_spans)
		     : 0;
}
