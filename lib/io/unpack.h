/* SPDX-License-Identifier: MIT */
/*
 * Unpacking a chunk. Of an extent that has rows or a conversion each row goes to
 * its place in memory, converted if the extent says so; for a device the rows
 * are packed in a slot, one after another. Of several extents that were merged,
 * which go to host memory, each goes to its place. Any thread; no locks.
 */
#ifndef WEIR__IO_UNPACK_H
#define WEIR__IO_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "io/chunk.h"

/* From @src, which has the rows with the distances of the file. */
void weir__unpack(const struct weir__extent *e, const struct weir__rows *rows,
		  const unsigned char *src, unsigned char *dst,
		  uint64_t dst_pitch);
/*
 * The same, from the page cache: the rows begin at @off of the file. @wait: blocks
 * in reads; otherwise -EAGAIN at a page that is missing, when some rows may be in
 * their places. 1: done; 0: the file ends before the last row; or the -errno of a
 * read, without a sentence.
 */
int weir__unpack_cached(const struct weir__extent *e,
			const struct weir__rows *rows, uint64_t off,
			unsigned char *dst, uint64_t dst_pitch, bool wait);
/* Have the kernel begin to read what that lacks; @bytes: all rows and gaps. */
void weir__unpack_fetch(const struct weir__extent *e,
			const struct weir__rows *rows, uint64_t off,
			uint64_t bytes);
/* Bytes of gaps that weir__unpack_cached reads. */
uint64_t weir__unpack_cached_gaps(const struct weir__extent *e,
				  const struct weir__rows *rows);

#endif
