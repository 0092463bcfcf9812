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
 * Find the bytes [off, off + n) of a placed, contiguous tensor: the member of
 * its buffer that contains them, their offset in it, and their address. Fails
 * with -EINVAL and a sentence that names the tensor.
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
/*
 * True if there are no gaps. @t is valid: weir__tensor_bytes() has succeeded.
 */
bool weir__tensor_contiguous(const struct weir_tensor *t);

/* Return -EINVAL if they differ in dtype, shape or strides. */
int weir__tensor_same(const struct weir_tensor *dst,
		      const struct weir_tensor *src);
/*
 * True if rows are not whole blocks: the tensor has no strides, and all its
 * bytes are one row.
 */
bool weir__tensor_one_row(const struct weir_tensor *t);
/*
 * Describe a valid tensor as rows, each of *@ret_row contiguous bytes. Returns
 * the number of outer dimensions, over which the rows are spread.
 * weir__tensor_next_row() steps from row to row: the caller sets @index[] and
 * *@off to 0 for the first row, and it returns false after the last.
 */
unsigned weir__tensor_outer(const struct weir_tensor *t, size_t *ret_row);
bool weir__tensor_next_row(const struct weir_tensor *t, unsigned outer,
			   int64_t *index, uint64_t *off);
/* Return @n bytes of @buf from @off on, as a tensor without a name. */
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

/* Return @n bytes at @off as one row. */
static inline struct weir_rect weir__flat_rect(uint64_t off, uint64_t n)
{
	return (struct weir_rect){
		.off = off, .width = n, .rows = 1, .pitch = n, .host_pitch = n
	};
}
/*
 * Compute the bytes of @rect from its first row to the end of its last, where
 * rows are @pitch apart. Fails with -EINVAL if the pitch is less than the
 * width, or the bytes overflow.
 */
int weir__rect_bytes(const struct weir_rect *rect, uint64_t pitch,
		     uint64_t *ret_bytes);
/*
 * Return the steps of stride[dim]: elements, or blocks in the last dimension.
 */
uint64_t weir__tensor_steps(const struct weir_tensor *t, unsigned dim);
/*
 * Return "tensor 'name'" or "tensor". It stays valid as long as the result of
 * weir__quote().
 */
const char *weir__tensor_label(const struct weir_tensor *t);

#endif
