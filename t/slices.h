/* SPDX-License-Identifier: MIT */
/* Helpers for tests of slices and targets: what their bytes should be. */
#ifndef T_SLICES_H
#define T_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include <weir.h>

/* Slice [start, start + n) of dimension @dim. */
struct weir_slice slice_of(unsigned dim, int64_t start, int64_t n);
struct weir_entry entry_of(const struct weir_model *m, size_t i);
/*
 * Return how many elements of @t, a tensor or view in memory of any device,
 * differ from those of the file of a sample (salt 1): tensor @i of @m, from
 * index @start of dimension @dim on.
 */
size_t slice_differs(const struct weir_tensor *t, const struct weir_model *m,
		     size_t i, unsigned dim, int64_t start);
/* Return how many of the first @n bytes of @buf are not @byte. */
size_t bytes_differ(struct weir_buf *buf, size_t n, unsigned char byte);

#endif
