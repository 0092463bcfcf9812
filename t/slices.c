/* SPDX-License-Identifier: MIT */
#include "slices.h"

#include <stdlib.h>

#include "sample.h"
#include "tap.h"

struct weir_slice slice_of(unsigned dim, int64_t start, int64_t n)
{
	return (struct weir_slice){ .dim = dim, .start = start, .n = n };
}

struct weir_entry entry_of(const struct weir_model *m, size_t i)
{
	struct weir_entry e = { .size = sizeof(e) };

	if (weir_model_tensor(m, i, &e) < 0)
		bail("%s", weir_error());
	return e;
}

/* A copy of all bytes of a buffer. */
static unsigned char *copy_of(struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_tensor all;
	unsigned char *copy;
	int64_t n;

	if (weir_buf_info(buf, &info) < 0)
		bail("%s", weir_error());
	n = (int64_t)info.bytes;
	copy = malloc(info.bytes + 1);
	if (weir_tensor_init(&all, WEIR_DTYPE_U8, 1, &n) < 0 ||
	    weir_tensor_place(&all, buf, 0) < 0 ||
	    weir_tensor_get(&all, 0, copy, info.bytes) < 0)
		bail("%s", weir_error());
	return copy;
}

static uint64_t element_bytes(const struct weir_tensor *t)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info(t->dtype, &info) < 0)
		bail("%s", weir_error());
	return info.bytes;
}

/* The element at @index differs from that of the file. */
static bool is_wrong(const unsigned char *copy, const struct weir_tensor *t,
		     const struct weir_entry *e, const int64_t *index,
		     unsigned dim, int64_t start)
{
	uint64_t size = element_bytes(t), at = t->offset, from = 0;

	for (unsigned d = 0; d < t->ndim; d++) {
		at += (uint64_t)(index[d] * t->stride[d]);
		from = from * (uint64_t)e->shape[d] +
		       (uint64_t)(index[d] + (d == dim ? start : 0));
	}
	for (uint64_t k = 0; k < size; k++)
		if (copy[at + k] != sample_byte(e->offset + from * size + k, 1))
			return true;
	return false;
}

size_t slice_differs(const struct weir_tensor *t, const struct weir_model *m,
		     size_t i, unsigned dim, int64_t start)
{
	struct weir_entry e = entry_of(m, i);
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	unsigned char *copy;
	size_t wrong = 0;
	unsigned d;

	for (d = 0; d < t->ndim; d++)
		if (!t->shape[d])
			return 0;
	copy = copy_of(t->buf);
	do {
		wrong += is_wrong(copy, t, &e, index, dim, start);
		for (d = t->ndim; d-- > 0;) {
			if (++index[d] < t->shape[d])
				break;
			index[d] = 0;
		}
	} while (d < t->ndim);
	free(copy);
	return wrong;
}

size_t bytes_differ(struct weir_buf *buf, size_t n, unsigned char byte)
{
	unsigned char *copy = copy_of(buf);
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += copy[i] != byte;
	free(copy);
	return wrong;
}
