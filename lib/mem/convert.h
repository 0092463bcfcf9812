/* SPDX-License-Identifier: MIT */
/* Conversion of floating-point elements, on the host. */
#ifndef WEIR__CONVERT_H
#define WEIR__CONVERT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Constant, from any thread. run converts @n elements, which may be 0. Neither
 * address need be aligned; source and destination may not overlap. It writes
 * n * dst_bytes bytes, does not block, and neither depends on the thread's
 * floating-point environment nor changes it.
 */
struct weir__convert {
	void (*run)(void *dst, const void *src, size_t n);
	uint32_t src_bytes, dst_bytes; /* of an element */
};

/* For two enum weir_dtype; NULL: not offered, or the same dtype twice. */
const struct weir__convert *weir__convert_find(uint32_t from, uint32_t to);

#endif
