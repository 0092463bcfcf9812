/* SPDX-License-Identifier: MIT */
/* Functions that the calls for lists of tensors share. */
#ifndef WEIR__PLACE_TENSORS_H
#define WEIR__PLACE_TENSORS_H

#include <weir/tensor.h>

struct weir_buf;

/*
 * Check the views among the @n tensors, those that are not placed and have a
 * source in the list: each ends inside its source. -EINVAL with a sentence.
 * weir__views_place() then gives each the place of its source, which must have
 * one by now, and cannot fail.
 */
int weir__views_check(const struct weir_tensor *t, size_t n);
void weir__views_place(struct weir_tensor *t, size_t n);

/*
 * Allocate @n buffers of @buft, of these sizes, and join them if there are
 * several. -EOVERFLOW: too many; errors of weir_buf_alloc().
 */
int weir__members_alloc(struct weir_buft *buft, const uint64_t *sizes, size_t n,
			struct weir_buf **ret_buf);

#endif
