/* SPDX-License-Identifier: MIT */
/*
 * Tensors from the inside: their bytes, addresses and rows. The program may
 * change a tensor at any time, so each call checks the members that it uses.
 */
#ifndef WEIR__TENSOR_H
#define WEIR__TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/tensor.h>

/*
 * The bytes [off, off + n) of a placed, contiguous tensor: the member of its
 * buffer that contains them, their offset in it, and their address. -EINVAL
 * with a sentence that names the tensor.
 */
int weir__tensor_range(const struct weir_tensor *t, uint64_t off, uint64_t n,
		       struct weir_buf **ret_member, uint64_t *ret_off,
		       unsigned char **ret_addr);
/* weir_tensor_init() and weir_tensor_bytes() for use inside the library. */
int weir__tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
		      unsigned ndim, const int64_t *shape);
int weir__tensor_bytes(const struct weir_tensor *t, uint64_t *ret_bytes);
/* weir_tensor_set() for use inside the library. */
int weir__tensor_set(const struct weir_tensor *dst, size_t off, const void *src,
		     size_t n);
/* @t is valid: weir__tensor_bytes() has succeeded. */
bool weir__tensor_contiguous(const struct weir_tensor *t);

/* -EINVAL: they differ in dtype, shape or strides. */
int weir__tensor_same(const struct weir_tensor *dst,
		      const struct weir_tensor *src);
/* Its rows are not whole blocks: it has no strides, and all bytes are one row. */
bool weir__tensor_one_row(const struct weir_tensor *t);
/*
 * A valid tensor as rows, each of *@ret_row contiguous bytes: returns the
 * number of outer dimensions, over which the rows are spread.
 * weir__tensor_next_row() steps from row to row: the caller sets @index[] and
 * *@off to 0 for the first row, and it returns false after the last.
 */
unsigned weir__tensor_outer(const struct weir_tensor *t, size_t *ret_row);
bool weir__tensor_next_row(const struct weir_tensor *t, unsigned outer,
			   int64_t *index, uint64_t *off);
/* @n bytes of @buf from @off on, as a tensor without a name. */
static inline struct weir_tensor weir__flat_tensor(struct weir_buf *buf,
						   uint64_t off, uint64_t n)
{
	return (struct weir_tensor){ .buf = buf,
				     .offset = off,
				     .dtype = WEIR_DTYPE_U8,
				     .ndim = 1,
				     .shape = { (int64_t)n },
				     .stride = { 1 } };
}

/* @n bytes at @off as one row. */
static inline struct weir_rect weir__flat_rect(uint64_t off, uint64_t n)
{
	return (struct weir_rect){
		.off = off, .width = n, .rows = 1, .pitch = n, .host_pitch = n
	};
}
/*
 * Bytes of @rect from its first row to the end of its last, where rows are
 * @pitch apart. -EINVAL: the pitch is less than the width, or an overflow.
 */
int weir__rect_bytes(const struct weir_rect *rect, uint64_t pitch,
		     uint64_t *ret_bytes);
/* Steps of stride[dim]: elements, or blocks in the last dimension. */
uint64_t weir__tensor_steps(const struct weir_tensor *t, unsigned dim);
/* "tensor 'name'" or "tensor". Valid as the result of weir__quote(). */
const char *weir__tensor_label(const struct weir_tensor *t);

#endif
