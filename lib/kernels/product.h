/* SPDX-License-Identifier: MIT */
/*
 * How rows of a matrix are multiplied with columns of b: which way computes it,
 * what it needs of b, and how much memory. A column is a row of b; columns that
 * are multiplied with the same matrix are a group.
 */
#ifndef WEIR__PRODUCT_H
#define WEIR__PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include "kernels/dot.h"
#include "kernels/tiles.h"

#define WEIR__PRODUCT_COLUMNS \
	512u /* most columns of a call; a multiple of every set */

enum weir__product_way {
	WEIR__PRODUCT_DOT,    /* rows as they are stored */
	WEIR__PRODUCT_FLOATS, /* rows converted to F32, a few at a time */
	WEIR__PRODUCT_PANELS, /* rows and columns packed as F32 */
	WEIR__PRODUCT_TILES   /* panels of BF16 for the tiles of AMX */
};

/* Constant. */
struct weir__product {
	uint32_t way; /* enum weir__product_way */
	uint32_t dtype;
	size_t k; /* elements of a row */
	const struct weir__dot_set *set;
	const struct weir__dot *dot; /* that of F32 if the way is FLOATS */
	/* to F32; NULL if the rows are F32 */
	const struct weir_backend_convert *convert;
	const struct weir__tiles *tiles;
	/*
	 * Columns are prepared in sets of set_columns, which take set_bytes. A
	 * group begins with a new set.
	 */
	size_t set_columns, set_bytes;
	bool ready;  /* true if contiguous F32 columns need no preparation */
	size_t rows; /* rows that are best computed together; a half, a quarter
			and so on are good too */
	size_t least_rows;
	size_t scratch; /* bytes of each thread */
};

/*
 * Choose the best way for groups of about @columns columns; @precision is an
 * enum weir_precision.
 */
void weir__product_plan(struct weir__product *p, uint32_t dtype, size_t k,
			size_t columns, uint32_t precision);
/*
 * Plan a product in this way. False if it cannot be used for this dtype, or on
 * this CPU.
 */
bool weir__product_plan_as(struct weir__product *p, enum weir__product_way way,
			   const struct weir__dot_set *set, uint32_t dtype,
			   size_t k);
/* Prepare a set of @n columns, which are contiguous F32. */
void weir__product_prepare(const struct weir__product *p, void *set,
			   const float *const *column, size_t n);
/*
 * Multiply @rows rows, at most p->rows, which are @pitch bytes apart from @a
 * on, with @n columns, at most WEIR__PRODUCT_COLUMNS: those of the sets from
 * @set on, or @column if no preparation is needed. dst[c] is where the result
 * of row 0 and column c goes.
 */
void weir__product_run(const struct weir__product *p, void *scratch,
		       float *const *dst, const unsigned char *a, size_t pitch,
		       size_t rows, const unsigned char *set,
		       const float *const *column, size_t n);

#endif
