/* SPDX-License-Identifier: MIT */
/*
 * Products of rows of a, as they are stored, with a few columns of b, in
 * several instruction sets. b has one of two forms: F32, for rows of F32, F16
 * and BF16 and rows that are converted to F32; or bytes with scales, for the
 * quantised dtypes that have integer products.
 */
#ifndef WEIR__DOT_H
#define WEIR__DOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/dtype_table.h"

#define WEIR__DOT_ROWS 16u /* most rows of a call */
#define WEIR__DOT_COLS 12u
#define WEIR__DOT_UNIT 256u /* elements of a struct weir__dot_q8: a unit */

/*
 * 256 elements of b as bytes, with a scale for each 32, and the sums of their
 * values. The bytes of a have no sign: to get their true values the dtype's
 * bias is subtracted, or, after scaling, a minimum of each 16 or 32 elements.
 * So a product is that of the bytes, minus the bias or the minima times the
 * sums.
 */
struct weir__dot_q8 {
	int8_t q[256];
	float scale[8];
	float sum32[8];  /* sum of each 32 elements */
	float sum16[16]; /* sum of each 16 */
};

enum weir__dot_form {
	WEIR__DOT_F32, /* floats */
	WEIR__DOT_Q8   /* struct weir__dot_q8 */
};

/*
 * dst[c][r] = row r of @a times b[c], for r < @rows and c < @cols. Rows have @k
 * elements and are @pitch bytes apart. @rows is up to WEIR__DOT_ROWS, @cols 1
 * to WEIR__DOT_COLS. Each result has the same bits whatever the other rows and
 * columns are. Rows are prefetched @ahead bytes before their use; with 0 they
 * are not. With many columns that is not needed, and @ahead may be ignored.
 */
typedef void weir__dot_fn(float *const *dst, const unsigned char *a,
			  size_t pitch, size_t rows, const void *const *b,
			  unsigned cols, size_t k, size_t ahead);

/* The products of a dtype. */
struct weir__dot {
	uint32_t dtype; /* enum weir_dtype */
	uint32_t form;  /* enum weir__dot_form */
	uint32_t block; /* k is a multiple of it */
	weir__dot_fn *run;
};

/* Products of blocks of 3 * width rows and some columns, both packed as F32. */
struct weir__dot_panel {
	unsigned width, columns;
	/* Pack @n columns of @k elements to a set of columns. */
	void (*prepare)(float *set, const float *const *column, size_t n,
			size_t k);
	/* Pack @n elements of @width rows, a third of the rows of a block. */
	void (*pack)(float *restrict to, const float *restrict from,
		     size_t pitch, size_t n);
	/*
	 * Add products to the sums of a block; those of a column are
	 * neighbours.
	 */
	void (*block)(float *sum, const float *a, const float *b, size_t n);
};
#define WEIR__DOT_WIDTH 16u /* the greatest width */

/* The products in an instruction set. */
struct weir__dot_set {
	const char *name;
	bool (*usable)(void); /* true if this CPU has it */
	/*
	 * Quantise @n elements to @to, as many units as they need; the rest of
	 * the last unit is 0.
	 */
	void (*quantise)(struct weir__dot_q8 *to, const float *from, size_t n);
	const struct weir__dot_panel *panel;
	/*
	 * With so many columns panels are faster than F32, or than bytes.
	 * Measured.
	 */
	unsigned panels_floats, panels_bytes;
	const struct weir__dot *list;
	size_t n;
	const struct weir__dot *low; /* more of list, up to an entry without
					.run; or NULL */
};

/* The values of ggml's kvalues_iq4nl (ggml-common.h, MIT licence). */
extern const int8_t weir__dot_iq4[16];
/* Twice the values of E2M1, of the specification of MX formats, plus 128. */
extern const uint8_t weir__dot_fp4[16];

/*
 * Return the points of a grid, host->dtype_grid(dtype): numbers of 2 or 3 bits.
 */
const uint16_t *weir__dot_grid(uint32_t dtype);

/*
 * WEIR__UNROLL stands before loops of constant length whose arrays are
 * registers: they are unrolled at -O2 too. With the checks of sanitizers
 * unrolled loops would take minutes to compile, so they check memory only, and
 * in loops.
 */
#ifdef WEIR_SANITIZER
#define WEIR__UNROLL
#else
#define WEIR__UNROLL _Pragma("GCC unroll 8")
#endif
#define WEIR__NO_UBSAN __attribute__((no_sanitize("undefined")))

/*
 * The sets, from the best to the portable one, which has F32, F16 and BF16
 * only; then NULL.
 */
extern const struct weir__dot_set *const weir__dot_sets[];
extern const struct weir__dot_set weir__dot_avx512, weir__dot_avx2;
/* The dtypes of few bits: grids, ternary and FP4. */
extern const struct weir__dot weir__dot_avx512_low[], weir__dot_avx2_low[];

/* Return the best set of this CPU. */
const struct weir__dot_set *weir__dot_set(void);
/*
 * Return the products of @dtype, or NULL: its rows are converted to F32 then.
 */
const struct weir__dot *weir__dot_in(const struct weir__dot_set *set,
				     uint32_t dtype);

#endif
