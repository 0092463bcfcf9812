/* SPDX-License-Identifier: MIT */
/* Checks that all kernels of conversions pass. */
#ifndef T_CONVERSIONS_H
#define T_CONVERSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "mem/convert.h"

/*
 * Convert @n blocks at @src at once, to an address that is @at < 32 bytes after
 * an aligned one. Returns the number of bytes around the result that were
 * written, plus 1 if the result differs from that of single blocks.
 */
size_t conversion_errors(const struct weir_backend_convert *c,
			 const unsigned char *src, size_t n, size_t at);

/*
 * Convert @n blocks at @src in every floating-point environment that a thread
 * may have. @got and @want have room for the results. *@ret_same: all results
 * are equal. *@ret_kept: each environment is as before, flags included.
 */
void conversion_envs(const struct weir_backend_convert *c,
		     const unsigned char *src, size_t n, unsigned char *got,
		     unsigned char *want, bool *ret_same, bool *ret_kept);

#endif
