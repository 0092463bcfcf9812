/* SPDX-License-Identifier: MIT */
/* Conversion of elements, on the host. */
#ifndef WEIR__CONVERT_H
#define WEIR__CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>

/* A set of conversions by the same instructions. */
struct weir__convert_set {
	const char *name;
	bool (*usable)(void); /* true if this CPU has them */
	const struct weir_backend_convert *list;
	size_t n;
};

/*
 * The sets, ended by NULL. If two have the same conversion the first is better.
 * The sets are those of single elements, then of quantised blocks to F32, of
 * F32 to quantised blocks, and of what is converted to F32 and then again.
 */
extern const struct weir__convert_set *const weir__convert_sets[];
extern const struct weir__convert_set weir__convert_avx512, weir__convert_avx2;
extern const struct weir__convert_set weir__convert_quants;
extern const struct weir__convert_set weir__quantise_avx512,
	weir__quantise_avx2;
extern const struct weir__convert_set weir__quantise_portable;
extern const struct weir__convert_set weir__convert_via;

/* This is .convert_find of struct weir_backend_host. */
const struct weir_backend_convert *weir__convert_find(uint32_t from,
						      uint32_t to);
/* Return the conversion in this set, or NULL. */
const struct weir_backend_convert *
weir__convert_in(const struct weir__convert_set *set, uint32_t from,
		 uint32_t to);

/* The bits of the nearest F16, and the value of such bits. */
uint16_t weir__to_half(float x);
float weir__half(uint16_t bits);

#endif
