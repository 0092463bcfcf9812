/* SPDX-License-Identifier: MIT */
/* Conversion of elements to F32, F16 and BF16, on the host. */
#ifndef WEIR__CONVERT_H
#define WEIR__CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Constant, from any thread. run converts @n units, which may be 0: elements, or
 * the blocks of a quantised dtype. Neither address need be aligned; source and
 * destination may not overlap. It writes n * dst_bytes bytes, does not block, and
 * neither depends on the thread's floating-point environment nor changes it.
 */
struct weir__convert {
	void (*run)(void *dst, const void *src, size_t n);
	uint32_t block;                /* elements of a unit */
	uint32_t src_bytes, dst_bytes; /* of a unit */
	uint32_t from, to;             /* enum weir_dtype */
};

/* For two enum weir_dtype; NULL: not offered, or the same dtype twice. */
const struct weir__convert *weir__convert_find(uint32_t from, uint32_t to);

/* Conversions by the same instructions. */
struct weir__convert_set {
	const char *name;
	bool (*usable)(void); /* whether this CPU has them */
	const struct weir__convert *list;
	size_t n;
};

/*
 * Of two sets with the same conversion the first is better. After "portable",
 * which has every conversion of elements, is that of blocks; then NULL.
 */
extern const struct weir__convert_set *const weir__convert_sets[];
extern const struct weir__convert_set weir__convert_avx2, weir__convert_avx512;
extern const struct weir__convert_set weir__convert_quants;

/* The conversion in this set; NULL: none. */
const struct weir__convert *
weir__convert_in(const struct weir__convert_set *set, uint32_t from,
		 uint32_t to);

#endif
