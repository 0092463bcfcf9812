/* SPDX-License-Identifier: MIT */
/* Parts of tensors: what an index means, and where its bytes are. */
#ifndef GLUE_PART_H
#define GLUE_PART_H

#include "glue.h"

/*
 * How a program wants a part of a tensor: read into new memory, as a view of a
 * mapping of the file, which for VIEW but not for MAP has to be in the page
 * cache, or as a copy of that. PART_* of the module.
 */
enum want {
	WANT_READ,
	WANT_VIEW,
	WANT_MAP,
	WANT_COPY
};

/* Indices of one dimension: n of them from start on, step apart. */
struct range {
	int64_t start, n, step;
};

/* A part of a tensor: a range of each dimension, and the shape of the result,
   which has no dimension for a single index. */
struct part {
	struct range range[WEIR_MAX_DIMS];
	unsigned ndim;
	unsigned dim
		[WEIR_MAX_DIMS]; /* dimension i of the result in the tensor */
	int64_t shape[WEIR_MAX_DIMS];
};

/*
 * The bytes of a part of a tensor: rows of width bytes. The innermost level of
 * rows is a rectangle; the levels around it are counted through. Without
 * levels there is one row.
 */
struct rows {
	uint64_t width, first;
	unsigned levels;
	uint64_t n[WEIR_MAX_DIMS], pitch[WEIR_MAX_DIMS];
};

/* index.c */
/* All of @e. */
void glue_part_whole(const struct weir_entry *e, struct part *ret);
/* The part of @e that the object @index means; -1 with an exception. */
int glue_part_parse(PyObject *index, const struct weir_entry *e,
		    struct part *ret);
/* Fail if @range divides blocks of the dtype of @e; -1 with an exception. */
int glue_range_check(const struct range *range, const struct weir_entry *e,
		     unsigned block);
/* Divide @e by @range into rows. */
void glue_rows(const struct weir_entry *e, const struct range *range,
	       const struct weir_dtype_info *dtype, struct rows *ret);
/* Copy @rows of the tensor at @tensor to @dst, one after the other. */
void glue_rows_copy(const struct rows *rows, const char *tensor, char *dst);

/* read.c */
/* Read @rows of @e, which have the shape of @range; NULL with an exception. */
struct glue_tensor *glue_read_rows(struct glue_model *self,
				   const struct weir_entry *e,
				   const struct range *range,
				   const struct rows *rows, const char *device);
/* Read tensor @i; NULL with an exception. */
struct glue_tensor *glue_read_whole(struct glue_model *self, size_t i,
				    const char *device);

/* map.c */
/*
 * Find tensor @e in a mapping of its file. 1: @ret_memory, borrowed, has it at
 * e->offset; 0: it has to be read; -1 with an exception: the file has changed.
 * The caller has entered the model, which keeps its mappings.
 */
int glue_map(struct glue_model *self, const struct weir_entry *e,
	     struct glue_memory **ret_memory);
/* The mapping that an earlier glue_map() has made, or NULL; borrowed. */
struct glue_memory *glue_map_of(struct glue_model *self,
				const struct weir_entry *e);
/* True if [@p, @p + @n) of a mapping is in the page cache, by samples. */
bool glue_map_resident(const char *p, size_t n);

#endif
