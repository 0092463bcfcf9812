/* SPDX-License-Identifier: MIT */
/*
 * Products of rows of a, as they are stored, with a few columns of b, by several
 * instruction sets. b is in one of two forms: F32, for a of F32, F16 and BF16 and
 * whatever is converted to F32; or quantised to bytes, for the quantised dtypes
 * that have integer products.
 */
#ifndef WEIR__DOT_H
#define WEIR__DOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/dtype_table.h"

#define WEIR__DOT_ROWS 16u /* most rows of a call, and columns */
#define WEIR__DOT_COLS 12u
#define WEIR__DOT_UNIT 256u /* elements of a struct weir__dot_q8 */

/*
 * 256 elements of b as bytes, each 32 with a scale, and sums of their values. The
 * bytes of a are from 0 on: their true values are less by the dtype's bias, or,
 * scaled, by a minimum of each 16 or 32. So a product is that of the bytes, less
 * the bias or the minima times the sums.
 */
struct weir__dot_q8 {
	int8_t q[256];
	float scale[8];
	float sum32[8];  /* of each 32 elements */
	float sum16[16]; /* of each 16 */
};

enum weir__dot_form {
	WEIR__DOT_F32, /* floats */
	WEIR__DOT_Q8   /* struct weir__dot_q8 */
};

/*
 * dst[c][r] = row r of @a times b[c], for r < @rows and c < @cols, with rows of
 * @k elements that are @pitch bytes apart. @rows: up to WEIR__DOT_ROWS; @cols: 1
 * to WEIR__DOT_COLS. Each result has the same bits whatever the other rows and
 * columns are. Rows are prefetched @ahead bytes ahead of their use; 0: they are
 * not. With many columns they need not be, and @ahead may be ignored.
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

/* Products of blocks of 3 * lanes rows and some columns, both packed as F32. */
struct weir__dot_panel {
	unsigned lanes, columns;
	/* @n columns of @k elements to a set of columns. */
	void (*prepare)(float *set, const float *const *column, size_t n,
			size_t k);
	/* @n elements of @lanes rows, a third of a block's. */
	void (*pack)(float *restrict to, const float *restrict from,
		     size_t pitch, size_t n);
	/* Add to the sums of a block; those of a column are neighbours. */
	void (*block)(float *sum, const float *a, const float *b, size_t n);
};
#define WEIR__DOT_LANES 16u /* at most */

/* Those of an instruction set. */
struct weir__dot_set {
	const char *name;
	bool (*usable)(void); /* whether this CPU has it */
	/* @n elements, as many as @to has room for, to @to; the rest is 0. */
	void (*quantise)(struct weir__dot_q8 *to, const float *from, size_t n);
	const struct weir__dot_panel *panel;
	/* From so many columns on panels are faster: F32, and bytes. Measured. */
	unsigned panels_floats, panels_bytes;
	const struct weir__dot *list;
	size_t n;
	const struct weir__dot *low; /* more, up to one without run; or NULL */
};

/* The values of ggml's kvalues_iq4nl (ggml-common.h, MIT licence). */
extern const int8_t weir__dot_iq4[16];
/* Twice those of E2M1, of the specification of MX formats, plus 128. */
extern const uint8_t weir__dot_fp4[16];

/* The points of a grid, host->dtype_grid(dtype): numbers of 2 or 3 bits. */
const uint16_t *weir__dot_grid(uint32_t dtype);

/*
 * Before loops of constant length whose arrays are registers: at -O2 too. With the
 * checks of sanitizers what is unrolled would take minutes to compile, so they
 * check memory only, and in loops.
 */
#ifdef WEIR_SANITIZER
#define WEIR__UNROLL
#else
#define WEIR__UNROLL _Pragma("GCC unroll 8")
#endif
#define WEIR__NO_UBSAN __attribute__((no_sanitize("undefined")))

/* From the best to the portable one, which has F32, F16 and BF16 only; NULL. */
extern const struct weir__dot_set *const weir__dot_sets[];
extern const struct weir__dot_set weir__dot_avx512, weir__dot_avx2;
/* Of few bits: grids, ternary and FP4. */
extern const struct weir__dot weir__dot_avx512_low[], weir__dot_avx2_low[];

/* The best set of this CPU. */
const struct weir__dot_set *weir__dot_set(void);
/* The products of @dtype; NULL: none, its rows are converted to F32. */
const struct weir__dot *weir__dot_in(const struct weir__dot_set *set,
				     uint32_t dtype);

#endif
