/* SPDX-License-Identifier: MIT */
/*
 * Cuts: which bytes of a tensor are read, and how they are stored in memory.
 *
 * A slice in dimension d is a number of rows in the file: one for each index of
 * the dimensions outside of d, each of the bytes of the slice in d and in the
 * dimensions inside. A destination may be a view, which has rows of its own.
 */
#ifndef WEIR__MODEL_CUT_H
#define WEIR__MODEL_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/plan.h>

struct weir_backend_convert;
struct weir_model;

/*
 * @rows rows, each of @width contiguous bytes in the file. One row: the data is
 * contiguous in the file and in memory, and the pitches are not used.
 */
struct weir__cut {
	uint64_t off;  /* of the first byte, from the tensor's first byte */
	uint64_t rows; /* 0: no bytes */
	uint64_t width;
	uint64_t mem_width; /* of a row in memory */
	uint64_t file_pitch, mem_pitch;
	const struct weir_backend_convert *convert; /* or NULL */
};

/* Is it one row, and not converted? Then a direct read may go to memory. */
static inline bool weir__cut_is_plain(const struct weir__cut *cut)
{
	return cut->rows <= 1 && !cut->convert;
}

/* All @bytes of a tensor. */
static inline struct weir__cut weir__cut_whole(uint64_t bytes)
{
	return (struct weir__cut){
		.rows = bytes != 0,
		.width = bytes,
		.mem_width = bytes,
		.mem_pitch = bytes,
	};
}

/* Bytes of data in the file. */
static inline uint64_t weir__cut_take(const struct weir__cut *cut)
{
	return cut->rows * cut->width;
}

/* Bytes from the first to the last, in the file and in memory. */
static inline uint64_t weir__cut_span(const struct weir__cut *cut)
{
	return cut->rows ? (cut->rows - 1) * cut->file_pitch + cut->width : 0;
}

static inline uint64_t weir__cut_mem(const struct weir__cut *cut)
{
	return cut->rows ? (cut->rows - 1) * cut->mem_pitch + cut->mem_width
			 : 0;
}

/*
 * The cut of record @record for @slice (NULL: the whole tensor), converted to
 * @dtype if that is not WEIR_DTYPE_NONE and the record has a floating-point
 * or quantised type. In memory it is contiguous. *@ret_tensor: the tensor in memory, not
 * placed. -EINVAL with a sentence that names the tensor.
 */
int weir__cut_make(const struct weir_model *model, size_t record,
		   const struct weir_slice *slice, enum weir_dtype dtype,
		   struct weir__cut *ret_cut, struct weir_tensor *ret_tensor);
/*
 * Fit @cut, whose tensor is @tensor, to the place of @dst: sets its rows and
 * mem_pitch. -EINVAL.
 */
int weir__cut_fit(struct weir__cut *cut, const struct weir_tensor *tensor,
		  const struct weir_tensor *dst);

#endif
