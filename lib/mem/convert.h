/* SPDX-License-Identifier: MIT */
/* Conversion of elements to F32, F16 and BF16, on the host. */
#ifndef WEIR__CONVERT_H
#define WEIR__CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>

/* Conversions by the same instructions. */
struct weir__convert_set {
	const char *name;
	bool (*usable)(void); /* whether this CPU has them */
	const struct weir_backend_convert *list;
	size_t n;
};

/*
 * Of two sets with the same conversion the first is better. After "portable",
 * which has every conversion of elements, is that of blocks; then NULL.
 */
extern const struct weir__convert_set *const weir__convert_sets[];
extern const struct weir__convert_set weir__convert_avx2, weir__convert_avx512;
extern const struct weir__convert_set weir__convert_quants;

/* convert_find of struct weir_backend_host. */
const struct weir_backend_convert *weir__convert_find(uint32_t from,
						      uint32_t to);
/* The conversion in this set; NULL: none. */
const struct weir_backend_convert *
weir__convert_in(const struct weir__convert_set *set, uint32_t from,
		 uint32_t to);

#endif
