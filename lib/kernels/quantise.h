/* SPDX-License-Identifier: MIT */
/* F32 to the dtypes that operations write. */
#ifndef WEIR__QUANTISE_H
#define WEIR__QUANTISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* F32, F16, BF16, Q8_0 and Q4_0. */
bool weir__encodes(uint32_t dtype);
/* @n elements, whole blocks of @dtype, which weir__encodes(). */
void weir__encode(uint32_t dtype, void *dst, const float *src, size_t n);

#endif
