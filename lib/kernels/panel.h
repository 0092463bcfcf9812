/* SPDX-License-Identifier: MIT */
/*
 * Products of many rows and columns as F32, by the blocks of a struct
 * weir__dot_panel: rows are converted and packed, a pass of each at a time.
 */
#ifndef WEIR__PANEL_H
#define WEIR__PANEL_H

#include "kernels/product.h"

#define WEIR__PANEL_ROWS 192u /* best computed together: at most */

extern const size_t weir__panel_scratch; /* bytes */
/* As weir__product_run(). */
void weir__panel_run(const struct weir__product *p, void *scratch,
		     float *const *dst, const unsigned char *a, size_t pitch,
		     size_t rows, const unsigned char *set, size_t n);

#endif
