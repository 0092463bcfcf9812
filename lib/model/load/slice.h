/* SPDX-License-Identifier: MIT */
/*
 * Slices: which bytes of a tensor are read, and how they are stored in memory.
 *
 * The program names indices of dimension d (struct weir_slice). In the file
 * they are rows: one for each index of the dimensions outside of d, each with
 * the bytes of those indices and of the dimensions inside. A destination may be
 * a view, which has rows of its own.
 */
#ifndef WEIR__MODEL_SLICE_H
#define WEIR__MODEL_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/plan.h>

struct weir_backend_convert;
struct weir_model;

/*
 * @rows rows, each of @width contiguous bytes in the file. One row: the data is
 * contiguous in the file and in memory, and the pitches are not used.
 */
struct weir__slice {
	uint64_t off;  /* offset of the first byte from the tensor's first
			  byte */
	uint64_t rows; /* 0: no bytes */
	uint64_t width;
	uint64_t mem_width; /* bytes of a row in memory */
	uint64_t file_pitch, mem_pitch;
	/* the conversion, or NULL */
	const struct weir_backend_convert *convert;
};

/* True for one row that is not converted: a direct read may go to memory. */
static inline bool weir__slice_is_plain(const struct weir__slice *slice)
{
	return slice->rows <= 1 && !slice->convert;
}

/* All @bytes of a tensor. */
static inline struct weir__slice weir__slice_whole(uint64_t bytes)
{
	return (struct weir__slice){
		.rows = bytes != 0,
		.width = bytes,
		.mem_width = bytes,
		.mem_pitch = bytes,
	};
}

/* Bytes of data in the file. */
static inline uint64_t weir__slice_data(const struct weir__slice *slice)
{
	return slice->rows * slice->width;
}

/* Bytes from the first to the last, in the file and in memory. */
static inline uint64_t weir__slice_file_length(const struct weir__slice *slice)
{
	return slice->rows
		       ? (slice->rows - 1) * slice->file_pitch + slice->width
		       : 0;
}

static inline uint64_t weir__slice_mem_length(const struct weir__slice *slice)
{
	return slice->rows
		       ? (slice->rows - 1) * slice->mem_pitch + slice->mem_width
		       : 0;
}

/*
 * The slice of a record with the indices @indices (NULL: the whole tensor),
 * converted to @dtype if that is not WEIR_DTYPE_NONE and the record has a
 * floating-point or quantised type. It is contiguous in memory. *@ret_tensor is
 * the tensor in memory, not placed. -EINVAL with a sentence that names the
 * tensor.
 */
int weir__slice_make(const struct weir_model *model, size_t record,
		     const struct weir_slice *indices, enum weir_dtype dtype,
		     struct weir__slice *ret_slice,
		     struct weir_tensor *ret_tensor);
/*
 * Fit @slice, whose tensor is @tensor, to the place of @dst: sets its rows and
 * mem_pitch. -EINVAL.
 */
int weir__slice_fit(struct weir__slice *slice, const struct weir_tensor *tensor,
		    const struct weir_tensor *dst);

#endif
