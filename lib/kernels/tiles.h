/* SPDX-License-Identifier: MIT */
/*
 * Products by AMX: tiles of 16 x 32 BF16, with sums of F32. Rows are converted to
 * BF16 in the scratch of a thread; columns are packed once, in sets of 16. For rows
 * of F32 and F16 both are split into two BF16, the value and what it lacks, and
 * three of the four products are summed: what is lost is about 2^-16 of a product.
 */
#ifndef WEIR__TILES_H
#define WEIR__TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__TILES_COLUMNS 16u /* of a set */
#define WEIR__TILES_ROWS 256u   /* best computed together: at most */

struct weir__tiles {
	size_t scratch; /* bytes */
	size_t (*set_bytes)(uint32_t dtype, size_t k);
	/* As the functions of product.h. */
	void (*prepare)(uint32_t dtype, size_t k, void *set,
			const float *const *column, size_t n);
	void (*run)(uint32_t dtype, size_t k, void *scratch, float *const *dst,
		    const unsigned char *a, size_t pitch, size_t rows,
		    const unsigned char *set, size_t n);
};

/*
 * NULL if this CPU does not have them, or this process may not use them. The
 * first call asks the kernel for that, for all threads.
 */
const struct weir__tiles *weir__tiles(void);

#endif
