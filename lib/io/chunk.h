/* SPDX-License-Identifier: MIT */
/*
 * Which bytes each chunk of a job has. Pure arithmetic: any thread, no locks.
 */
#ifndef WEIR__IO_CHUNK_H
#define WEIR__IO_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/engine.h"

struct weir__chunk {
	const struct weir__extent *extent; /* the first, if some are merged */
	uint64_t lo, hi; /* bytes of it; merged: hi is past it */
	bool in_place;   /* needs no slot */
};

/* The rows of a chunk; a contiguous chunk, with a conversion, is one row. */
struct weir__rows {
	uint64_t n;
	uint64_t width, pitch; /* in the file, bytes; pitch is 0 if n is 1 */
	uint64_t out;          /* bytes of a row in memory */
	unsigned char *addr;   /* address of the first row in memory */
};

/*
 * Before the job starts: decide how each extent is read and which are merged,
 * and count the chunks. -EBADF: a file is not writable. -EINVAL: a write of
 * rows, or a row that is too long.
 */
int weir__job_divide(struct weir__job *job, uint64_t chunk_bytes);
/* Return chunk @number of the job. *hint is an extent at or before its own. */
void weir__job_chunk(const struct weir__job *job, uint64_t chunk_bytes,
		     uint64_t number, const struct weir__extent **hint,
		     struct weir__chunk *ret);
/* Bytes of @e and the extents that are merged with it. */
uint64_t weir__chunk_sum(const struct weir__extent *e);
/* The rows of the chunk [lo, hi) of an extent that is unpacked. */
struct weir__rows weir__chunk_rows(const struct weir__extent *e, uint64_t lo,
				   uint64_t hi);
/* As weir__engine_joins_rows, which engine.h describes. */
bool weir__extent_joins_rows(const struct weir__extent *e, uint64_t chunk);
/*
 * Where the last row of a chunk that ends at @hi ends. The gap that may follow
 * it belongs to the chunk.
 */
uint64_t weir__chunk_data_end(const struct weir__extent *e, uint64_t hi);

/* The result of a conversion begins at a multiple of this in its slot. */
#define WEIR__RESULT_ALIGN 64u

/* Reads into slots begin and end at multiples of this. */
static inline uint64_t weir__slot_unit(const struct weir_file *file)
{
	if (file->object)
		return 1;
	return file->off_align > 4096 ? file->off_align : 4096;
}

/*
 * True if all of @e is read through the page cache. It never becomes false
 * again.
 */
static inline bool weir__extent_is_cached(const struct weir__extent *e)
{
	return e->buffered ||
	       !atomic_load_explicit(&e->file->direct_ok, memory_order_relaxed);
}

#endif
