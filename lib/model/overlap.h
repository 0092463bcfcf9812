/* SPDX-License-Identifier: MIT */
/*
 * Ranges of memory of the caller, by address: two buffers may be of the same
 * memory, of the host or of devices that can access each other.
 */
#ifndef WEIR__MODEL_OVERLAP_H
#define WEIR__MODEL_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

struct weir_buf;

struct weir__mem_range {
	const void *space; /* of its addresses; NULL: the host's */
	uint64_t begin, end;
	size_t number; /* of the item whose memory it is */
};

struct weir__mem_range weir__mem_range_of(const struct weir_buf *buf,
					  uint64_t from, uint64_t to,
					  size_t number);
/* For qsort: by space, begin and number. */
int weir__mem_range_order(const void *a, const void *b);

#endif
