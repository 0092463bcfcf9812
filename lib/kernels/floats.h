/* SPDX-License-Identifier: MIT */
/* Elements of floating-point and quantised dtypes as F32, and back. */
#ifndef WEIR__FLOATS_H
#define WEIR__FLOATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>

/* Elements that are converted at a time, in memory on the stack. */
#define WEIR__FLOATS 256

/*
 * Return the conversion that host->convert_find() has for (dtype, F32) and for
 * (F32, dtype). It is found once. NULL if there is none, or @dtype is F32.
 */
const struct weir_backend_convert *weir__to_f32(uint32_t dtype);
const struct weir_backend_convert *weir__from_f32(uint32_t dtype);

static inline bool weir__is_float(uint32_t dtype)
{
	return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_F16 ||
	       dtype == WEIR_DTYPE_BF16;
}

/*
 * Return @n elements of F32, F16 or BF16, which are @stride bytes apart, as
 * F32: where they are if possible, else at @tmp, to which up to WEIR__FLOATS
 * are converted.
 */
const float *weir__floats_in(uint32_t dtype, const unsigned char *p,
			     int64_t stride, size_t n, float *tmp);
/*
 * Return where to compute elements of such a row: in place if possible, else at
 * @tmp.
 */
float *weir__floats_room(uint32_t dtype, unsigned char *p, int64_t stride,
			 float *tmp);
/* Store what was computed at weir__floats_room(). */
void weir__floats_out(uint32_t dtype, unsigned char *p, int64_t stride,
		      const float *from, size_t n);

/* Convert @n elements of any dtype, whole blocks without a gap, to @d. */
void weir__floats_row(uint32_t dtype, float *d, const void *p, size_t n);

/* True for the dtypes that operations write: F32, F16, BF16, Q8_0 and Q4_0. */
bool weir__encodes(uint32_t dtype);
/*
 * Convert @n elements to @dtype, one of those; they are whole blocks. Blocks
 * get the bytes that ggml's reference gives them.
 */
void weir__encode(uint32_t dtype, void *dst, const float *src, size_t n);

#endif
