/* SPDX-License-Identifier: MIT */
/*
 * Division of a job into chunks. Chunks end at multiples of the chunk size in
 * the file, so that a staged chunk, rounded to whole blocks, still fits a slot.
 * Chunks that are read through the page cache to host memory need no slot: they
 * end at multiples of it in memory (see shift_of).
 *
 * An extent whose address and file offset are congruent is read in place,
 * except for the block at each end of which only a part belongs to the extent:
 * those two are staged. Other extents, and all extents to a device, are staged
 * as a whole. Extents that are read through the page cache to host memory are
 * neither.
 *
 * Extents that are close together in the file are merged into one chunk. To a
 * device, as many as fit a slot: one read and one scatter copy. To host memory,
 * small ones: the chunk is unpacked.
 *
 * Chunks of writes that the job fills (job->fill) are staged, each as whole
 * blocks: the slot has room for the rest of the last one.
 *
 * A chunk of an extent with rows or a conversion has as many rows or elements
 * as fit a slot; for a device their converted elements have to fit too.
 */
#include <assert.h>
#include <errno.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "alloc/slots.h"
#include <weir/backend.h>
#include "io/chunk.h"
#include "io/source.h"
#include "mem/convert.h"

/* Reading a gap of this size of a file costs less than a second read. */
#define MAX_GAP (64u << 10)
/* Below this, one staged read is cheaper than three, and fits a slot. */
#define SMALL_EXTENT (WEIR__SLOT_SMALL - 2 * WEIR__PAGE)
/*
 * Bytes of a merged chunk of cached extents to host memory: enough that the
 * costs of a chunk do not matter, and few enough that several copiers have
 * work. Direct reads are as long as a slot: with 1 MiB they reached 0.9 of the
 * rate.
 */
#define MERGED_BYTES (1u << 20)
#define MAX_MERGED 512u

static uint64_t count_units(uint64_t from, uint64_t to, uint64_t unit)
{
	return from < to ? (to + unit - 1) / unit - from / unit : 0;
}

/* Unit of in-place reads, or 0 if the extent must be staged. */
static uint64_t block_of(const struct weir__extent *e, uint64_t chunk)
{
	uint64_t apart, least, block;

	if (e->dev || e->unpack)
		return 0;
	if (e->file->object)
		return 1; /* any address and offset are aligned */
	if (e->len < SMALL_EXTENT)
		return 0;
	apart = (uintptr_t)e->addr - e->off;
	least = e->file->off_align > e->file->mem_align ? e->file->off_align
							: e->file->mem_align;
	block = apart % WEIR__PAGE == 0 && least < WEIR__PAGE ? WEIR__PAGE
							      : least;
	if (apart % e->file->mem_align || chunk % block ||
	    weir__up(e->off, block) >= weir__down(e->off + e->len, block))
		return 0;
	return block;
}

/*
 * The chunks of @e end where file offset + shift is a multiple of @chunk.
 *
 * Copiers that read to fresh memory fault its huge pages in: the first that
 * writes to a page makes the kernel clear all of it. If a chunk ended inside a
 * huge page, one CPU would clear the page and another would fill it, while its
 * lines are in the cache of the first (measured: 1.2 times the CPU time).
 */
static uint64_t shift_of(const struct weir__job *job,
			 const struct weir__extent *e, uint64_t chunk)
{
	if (!e->buffered || e->dev || job->write)
		return 0;
	return ((uintptr_t)e->addr % chunk + chunk - e->off % chunk) % chunk;
}

static uint64_t converted(const struct weir__extent *e, uint64_t bytes)
{
	const struct weir_backend_convert *c = e->convert;

	return c ? bytes / c->src_bytes * c->dst_bytes : bytes;
}

/* The parts of an extent that no chunk divides: rows, or elements. */
static struct weir__rows parts_of(const struct weir__extent *e)
{
	struct weir__rows parts = { .n = e->rows,
				    .width = e->width,
				    .pitch = e->file_pitch };

	if (e->rows <= 1) {
		parts.width = parts.pitch = e->convert->src_bytes;
		parts.n = e->len / parts.width;
	}
	parts.out = converted(e, parts.width);
	return parts;
}

/* Bytes of the file that fit a slot, however they are aligned to blocks. */
static uint64_t slot_room(const struct weir__extent *e, uint64_t chunk)
{
	uint64_t extra = e->buffered ? 0 : 2 * weir__slot_unit(e->file);

	if (e->dev && e->convert)
		extra += WEIR__RESULT_ALIGN;
	return chunk > extra ? chunk - extra : 0;
}

/* Bytes of the file from one chunk to the next; 0: no part fits a slot. */
static uint64_t unpack_step(const struct weir__extent *e, uint64_t chunk)
{
	struct weir__rows parts = parts_of(e);
	uint64_t result = e->dev && e->convert ? parts.out : 0;
	uint64_t room = slot_room(e, chunk);

	if (room < parts.width + result)
		return 0;
	return ((room - parts.width - result) / (parts.pitch + result) + 1) *
	       parts.pitch;
}

/* Reading a gap of up to this size costs less than a second read. */
static uint64_t max_gap(const struct weir__extent *e)
{
	return e->file->object ? e->file->object->info.request_bytes : MAX_GAP;
}

bool weir__extent_joins_rows(const struct weir__extent *e, uint64_t chunk)
{
	return unpack_step(e, chunk) > 0 &&
	       (e->buffered || e->file_pitch - e->width <= max_gap(e));
}

static void unpack_chunk(const struct weir__extent *e, uint64_t chunk,
			 uint64_t k, struct weir__chunk *ret)
{
	uint64_t step = unpack_step(e, chunk);

	ret->in_place = false;
	ret->lo = k * step;
	ret->hi = e->len - ret->lo > step ? ret->lo + step : e->len;
}

static int check_unpack(const struct weir__job *job,
			const struct weir__extent *e, uint64_t chunk)
{
	if (job->write)
		return weir__fail(
			-EINVAL,
			"%s: rows and conversions are for reads, not for writes",
			e->file->base);
	assert(e->rows <= 1 ||
	       (e->width > 0 && e->file_pitch >= e->width &&
		e->mem_pitch >= converted(e, e->width) &&
		e->len == (e->rows - 1) * e->file_pitch + e->width));
	assert(!e->convert ||
	       (e->rows > 1 ? e->width : e->len) % e->convert->src_bytes == 0);
	if (unpack_step(e, chunk))
		return 0;
	return weir__fail(
		-EINVAL,
		"%s: a row has %llu bytes, and %llu in memory; a chunk has %llu",
		e->file->base, (unsigned long long)parts_of(e).width,
		(unsigned long long)parts_of(e).out, (unsigned long long)chunk);
}

static uint64_t count_chunks(const struct weir__job *job,
			     const struct weir__extent *e, uint64_t chunk)
{
	uint64_t end = e->off + e->len, lo, hi;

	if (e->unpack)
		return count_units(0, e->len, unpack_step(e, chunk));
	if (!e->block) {
		uint64_t shift = shift_of(job, e, chunk);

		return count_units(e->off + shift, end + shift, chunk);
	}
	lo = weir__up(e->off, e->block);
	hi = weir__down(end, e->block);
	return (lo > e->off) + count_units(lo, hi, chunk) + (hi < end);
}

static int choose_ways(struct weir__job *job, uint64_t chunk_bytes)
{
	int r;

	for (size_t i = 0; i < job->n_ext; i++) {
		struct weir__extent *e = &job->ext[i];

		if (job->write && !e->file->writable)
			return weir__fail(-EBADF,
					  "%s: was opened for reading only",
					  e->file->base);
		if (e->file->object)
			e->buffered = false;
		else if ((job->write && !job->fill) ||
			 chunk_bytes % e->file->off_align ||
			 !atomic_load(&e->file->direct_ok))
			e->buffered = true;
		e->unpack = e->rows > 1 || e->convert;
		e->block = e->buffered || job->fill ? 0
						    : block_of(e, chunk_bytes);
		e->n_merged = 1;
		if (e->unpack && (r = check_unpack(job, e, chunk_bytes)) < 0)
			return r;
	}
	return 0;
}

/*
 * True if the extent is never merged: it is unpacked, or large enough by
 * itself.
 */
static bool is_single(const struct weir__extent *e)
{
	return e->unpack || (!e->dev && e->len >= SMALL_EXTENT);
}

static bool same_way(const struct weir__extent *a, const struct weir__extent *b)
{
	return a->dev == b->dev && a->file == b->file &&
	       a->buffered == b->buffered && !is_single(b);
}

/* The offset in the file where a slot that begins with @e ends. */
static uint64_t slot_end(const struct weir__extent *e, uint64_t chunk)
{
	uint64_t unit = weir__slot_unit(e->file);

	return weir__down(weir__down(e->off, unit) + chunk, unit);
}

/*
 * True if the extents from @e to @last fit a slot with their distances in
 * memory (device_copy.c repacks them).
 */
static bool fits_repacked(const struct weir__extent *e,
			  const struct weir__extent *last, uint64_t chunk)
{
	return !last->gap_group || last->gap_group != e->gap_group ||
	       (uintptr_t)last->addr + last->len - (uintptr_t)e->addr <= chunk;
}

/*
 * Returns how many of the @n extents from @e on can be merged into one chunk.
 */
static uint32_t count_mergeable(const struct weir__extent *e, size_t n,
				uint64_t chunk)
{
	uint64_t limit = slot_end(e, chunk);
	uint32_t k = 1;

	if (is_single(e))
		return 1;
	if (!e->dev && n > MAX_MERGED)
		n = MAX_MERGED;
	if (!e->dev && e->buffered && limit > e->off + MERGED_BYTES)
		limit = e->off + MERGED_BYTES;
	for (; k < n; k++) {
		uint64_t end = e[k - 1].off + e[k - 1].len;

		if (!same_way(e, &e[k]) || e[k].off < end ||
		    e[k].off - end > max_gap(e) ||
		    e[k].off + e[k].len > limit ||
		    !fits_repacked(e, &e[k], chunk))
			break;
	}
	return k;
}

/* Merge extent @i with extents after it, if there is memory for that. */
static void merge_extents(struct weir__job *job, size_t i, uint64_t chunk)
{
	struct weir__extent *e = &job->ext[i];
	uint32_t n = count_mergeable(e, job->n_ext - i, chunk);

	if (n > 1 && e->dev && !job->copy)
		job->copy = weir__calloc(job->n_ext, sizeof(*job->copy));
	if (n == 1 || (e->dev && !job->copy))
		return;
	e->n_merged = n;
	e->unpack = !e->dev;
	e->block = 0;
	for (uint32_t k = 1; k < n; k++)
		e[k].n_merged = 0;
}

int weir__job_divide(struct weir__job *job, uint64_t chunk_bytes)
{
	struct weir__extent *e;
	uint64_t n = 0;
	int r = choose_ways(job, chunk_bytes);

	for (size_t i = 0; i < job->n_ext && !r; i += e->n_merged) {
		e = &job->ext[i];
		if (!job->write)
			merge_extents(job, i, chunk_bytes);
		e->first = n;
		n += e->n_merged > 1 ? 1 : count_chunks(job, e, chunk_bytes);
	}
	job->n_chunks = n;
	return r;
}

void weir__job_chunk(const struct weir__job *job, uint64_t chunk,
		     uint64_t number, const struct weir__extent **hint,
		     struct weir__chunk *ret)
{
	const struct weir__extent *e = *hint, *next;
	uint64_t k, lo, hi, end, shift;

	while ((next = e + e->n_merged) < job->ext + job->n_ext &&
	       next->first <= number)
		e = next;
	ret->extent = *hint = e;
	k = number - e->first;
	if (e->unpack && e->n_merged == 1) {
		unpack_chunk(e, chunk, k, ret);
		return;
	}
	lo = e->off;
	hi = e->off + e->len;
	ret->in_place = e->buffered && !e->dev && !e->unpack;
	if (e->block) {
		uint64_t body = weir__up(e->off, e->block);

		if (lo < body && k == 0) {
			hi = body;
			goto out;
		}
		k -= lo < body;
		lo = body;
		hi = weir__down(hi, e->block);
		ret->in_place = true;
	} else if (e->n_merged > 1) {
		const struct weir__extent *last = e + e->n_merged - 1;

		hi = last->off + last->len;
		goto out;
	}
	shift = shift_of(job, e, chunk);
	end = ((lo + shift) / chunk + k + 1) * chunk - shift;
	if (k)
		lo = end - chunk;
	if (end < hi) {
		hi = end;
	} else if (lo >= hi) { /* the block after those in place */
		lo = hi;
		hi = e->off + e->len;
		ret->in_place = false;
	}
out:
	ret->lo = lo - e->off;
	ret->hi = hi - e->off;
}

uint64_t weir__chunk_sum(const struct weir__extent *e)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < e->n_merged; k++)
		n += e[k].len;
	return n;
}

struct weir__rows weir__chunk_rows(const struct weir__extent *e, uint64_t lo,
				   uint64_t hi)
{
	struct weir__rows rows = { .n = 1, .width = hi - lo };

	if (e->rows > 1) {
		rows.pitch = e->file_pitch;
		rows.n = (hi - lo + rows.pitch - 1) / rows.pitch;
		rows.width = e->width;
		rows.addr = e->addr + lo / rows.pitch * e->mem_pitch;
	} else {
		rows.addr = e->addr + converted(e, lo);
	}
	rows.out = converted(e, rows.width);
	return rows;
}

uint64_t weir__chunk_data_end(const struct weir__extent *e, uint64_t hi)
{
	return e->rows > 1 && hi < e->len ? hi - (e->file_pitch - e->width)
					  : hi;
}
