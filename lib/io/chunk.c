/* SPDX-License-Identifier: MIT */
/*
 * How a job is cut. Chunks end where a multiple of the chunk size lies in the
 * file, so that a staged chunk, rounded to whole blocks, still fits a slot.
 *
 * An extent whose memory is congruent to the file is read in place but for
 * the block at each end, which only partly is ours: those two go through
 * slots. Others, and all that go to a device, are staged as a whole. Extents
 * that go through the page cache to host memory need neither.
 */
#include <errno.h>

#include "error.h"
#include "io/reactor.h"
#include "sys.h"

#define PAGE 4096u
/* One staged read is cheaper than three; with its blocks it fits a slot. */
#define SMALL_EXTENT (WEIR__SLOT_SMALL - 2 * PAGE)

static uint64_t pieces(uint64_t from, uint64_t to, uint64_t unit)
{
	return from < to ? (to + unit - 1) / unit - from / unit : 0;
}

/* Unit of in-place reads, or 0 if the extent must be staged. */
static uint64_t block_of(const struct weir__extent *e, uint64_t chunk)
{
	uint64_t apart = (uintptr_t)e->addr - e->off;
	uint64_t least = e->file->off_align > e->file->mem_align
				 ? e->file->off_align
				 : e->file->mem_align;
	uint64_t block;

	if (e->dev || e->len < SMALL_EXTENT)
		return 0;
	block = apart % PAGE == 0 && least < PAGE ? PAGE : least;
	if (apart % e->file->mem_align || chunk % block ||
	    weir__up(e->off, block) >= weir__down(e->off + e->len, block))
		return 0;
	return block;
}

static uint64_t count(const struct weir__extent *e, uint64_t chunk)
{
	uint64_t end = e->off + e->len, lo, hi;

	if (!e->block)
		return pieces(e->off, end, chunk);
	lo = weir__up(e->off, e->block);
	hi = weir__down(end, e->block);
	return (lo > e->off) + pieces(lo, hi, chunk) + (hi < end);
}

int weir__job_cut(struct weir__engine *eng, struct weir__job *job)
{
	uint64_t n = 0;

	for (size_t i = 0; i < job->n_ext; i++) {
		struct weir__extent *e = &job->ext[i];

		if (job->write && !e->file->writable)
			return weir__fail(-EBADF,
					  "%s: was opened for reading only",
					  e->file->base);
		if (job->write || eng->chunk % e->file->off_align ||
		    !atomic_load(&e->file->direct_ok))
			e->buffered = true;
		e->block = e->buffered ? 0 : block_of(e, eng->chunk);
		e->first = n;
		n += count(e, eng->chunk);
	}
	job->n_chunks = n;
	return 0;
}

void weir__job_chunk(const struct weir__job *job, uint64_t chunk,
		     uint64_t number, size_t *hint, struct weir__chunk *ret)
{
	const struct weir__extent *e;
	uint64_t k, lo, hi, end;
	size_t i = *hint;

	while (i + 1 < job->n_ext && job->ext[i + 1].first <= number)
		i++;
	*hint = i;
	e = &job->ext[i];
	k = number - e->first;
	lo = e->off;
	hi = end = e->off + e->len;
	ret->in_place = e->buffered && !e->dev;
	if (e->block) {
		uint64_t body = weir__up(e->off, e->block);

		if (lo < body && k == 0) {
			hi = body;
			goto out;
		}
		k -= lo < body;
		lo = body;
		hi = weir__down(end, e->block);
		if (k == pieces(lo, hi, chunk)) {
			lo = hi;
			hi = end;
			goto out;
		}
		ret->in_place = true;
	}
	if (k) {
		uint64_t at = (lo / chunk + k) * chunk;

		if (at + chunk < hi)
			hi = at + chunk;
		lo = at;
	} else if ((lo / chunk + 1) * chunk < hi) {
		hi = (lo / chunk + 1) * chunk;
	}
out:
	ret->ext = i;
	ret->lo = lo - e->off;
	ret->hi = hi - e->off;
}
