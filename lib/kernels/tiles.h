/* SPDX-License-Identifier: MIT */
/*
 * Products by AMX: tiles of 16 x 32 BF16, with sums of F32. Rows are converted
 * to BF16 in the scratch memory of a thread; columns are packed once, in sets
 * of 16. F32 and F16 are split into two BF16, the value and the rest, and three
 * of the four products are summed: the error is about 2^-16 of a product.
 */
#ifndef WEIR__TILES_H
#define WEIR__TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__TILES_COLUMNS 16u /* columns of a set */
#define WEIR__TILES_ROWS 256u   /* the most that are best computed together */

struct weir__tiles {
	size_t scratch; /* bytes */
	size_t (*set_bytes)(uint32_t dtype, size_t k);
	/*
	 * These two are like weir__product_prepare() and weir__product_run().
	 */
	void (*prepare)(uint32_t dtype, size_t k, void *set,
			const float *const *column, size_t n);
	void (*run)(uint32_t dtype, size_t k, void *scratch, float *const *dst,
		    const unsigned char *a, size_t pitch, size_t rows,
		    const unsigned char *set, size_t n);
};

/*
 * Return NULL if this CPU does not have AMX, or this process may not use it.
 * The first call asks the kernel for permission, for all threads.
 */
const struct weir__tiles *weir__tiles(void);

#endif
