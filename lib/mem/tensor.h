/* SPDX-License-Identifier: MIT */
/* Tensors from the inside: their bytes, addresses and contiguous runs. */
#ifndef WEIR__TENSOR_H
#define WEIR__TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/tensor.h>

/*
 * The bytes [off, off + n) of a placed, contiguous tensor: its member, where
 * they begin there, and their address. -EINVAL with a sentence naming it.
 */
int weir__tensor_range(const struct weir_tensor *t, uint64_t off, uint64_t n,
		       struct weir_buf **ret_member, uint64_t *ret_off,
		       unsigned char **ret_addr);
/* As weir_tensor_init and weir_tensor_bytes, without naming the call. */
int weir__tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
		      unsigned ndim, const int64_t *shape);
int weir__tensor_bytes(const struct weir_tensor *t, uint64_t *ret_bytes);
/* Of a tensor that makes sense (weir__tensor_bytes). */
bool weir__tensor_contiguous(const struct weir_tensor *t);

/* 0, or -EINVAL: not the same dtype, shape and strides. */
int weir__tensor_same(const struct weir_tensor *dst,
		      const struct weir_tensor *src);
/*
 * The bytes of a tensor that makes sense as runs of @ret_run bytes: returns
 * how many dimensions, from the first on, lead from one run to the next. With
 * @index and @off zeroed for the first run, weir__tensor_next_row steps over
 * @outer dimensions; false behind the last run.
 */
unsigned weir__tensor_outer(const struct weir_tensor *t, size_t *ret_run);
bool weir__tensor_next_row(const struct weir_tensor *t, unsigned outer,
			   int64_t *index, uint64_t *off);
/* Steps of stride[dim] that @t has: elements, or blocks in the last. */
uint64_t weir__tensor_steps(const struct weir_tensor *t, unsigned dim);
/* "tensor 'name'" or "tensor"; a ring of buffers, as weir__quote. */
const char *weir__tensor_label(const struct weir_tensor *t);

#endif
