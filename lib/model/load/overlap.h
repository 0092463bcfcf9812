/* SPDX-License-Identifier: MIT */
/*
 * Ranges of memory of the caller, by address: two buffers may be of the same
 * memory, of the host or of devices that can access each other.
 */
#ifndef WEIR__MODEL_OVERLAP_H
#define WEIR__MODEL_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/sort.h"

struct weir_buf;
struct weir_buft;

struct weir__mem_range {
	/* Its address space (0: the host's), and its first byte there. */
	struct weir__sort_key from;
	uint64_t end;
	size_t number; /* of the item whose memory it is */
};

/*
 * The address space of memory; 0: the host's. Devices of a backend that can
 * access each other have one.
 */
uint64_t weir__mem_space(const struct weir_buft *buft);
struct weir__mem_range weir__mem_range_of(const struct weir_buf *buf,
					  uint64_t from, uint64_t to,
					  size_t number);

#endif
