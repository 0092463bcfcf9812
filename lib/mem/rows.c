/* SPDX-License-Identifier: MIT */
/* The bytes of a tensor as rows of equal length, for copies. */
#include "core/error.h"
#include "core/util.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

int weir__tensor_same(const struct weir_tensor *dst,
		      const struct weir_tensor *src)
{
	if (dst->dtype != src->dtype || dst->ndim != src->ndim)
		return weir__fail(
			-EINVAL,
			"%s has dtype %u and %u dimensions, %s has dtype %u and %u dimensions",
			weir__tensor_label(dst), dst->dtype, dst->ndim,
			weir__tensor_label(src), src->dtype, src->ndim);
	for (unsigned i = 0; i < dst->ndim && i < WEIR_MAX_DIMS; i++)
		if (dst->shape[i] != src->shape[i] ||
		    dst->stride[i] != src->stride[i])
			return weir__fail(
				-EINVAL,
				"dimension %u: size %lld, stride %lld of %s, size %lld, stride %lld of %s",
				i, (long long)dst->shape[i],
				(long long)dst->stride[i],
				weir__tensor_label(dst),
				(long long)src->shape[i],
				(long long)src->stride[i],
				weir__tensor_label(src));
	return 0;
}

uint64_t weir__tensor_steps(const struct weir_tensor *t, unsigned dim)
{
	uint64_t n = (uint64_t)t->shape[dim];

	return dim == t->ndim - 1 ? n / weir__dtype(t->dtype)->block : n;
}

bool weir__tensor_one_row(const struct weir_tensor *t)
{
	return t->ndim && !t->stride[t->ndim - 1] &&
	       (uint64_t)t->shape[t->ndim - 1] % weir__dtype(t->dtype)->block;
}

/* The bytes of all elements, without regard to strides. */
static uint64_t bytes_of(const struct weir_tensor *t)
{
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	uint64_t n = 1;

	for (unsigned i = 0; i < t->ndim; i++)
		n *= (uint64_t)t->shape[i];
	return n / info->block * info->bytes;
}

unsigned weir__tensor_outer(const struct weir_tensor *t, size_t *ret_row)
{
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	unsigned outer = t->ndim;
	uint64_t row = info->bytes;

	if (weir__tensor_one_row(t)) {
		*ret_row = bytes_of(t);
		return 0;
	}
	while (outer) {
		uint64_t n = weir__tensor_steps(t, outer - 1);

		if (n != 1 && (uint64_t)t->stride[outer - 1] != row)
			break;
		row *= n;
		outer--;
	}
	*ret_row = row;
	return outer;
}

bool weir__tensor_next_row(const struct weir_tensor *t, unsigned outer,
			   int64_t *index, uint64_t *off)
{
	for (unsigned i = outer; i--;) {
		int64_t n = (int64_t)weir__tensor_steps(t, i);

		*off += (uint64_t)t->stride[i];
		if (++index[i] < n)
			return true;
		*off -= (uint64_t)t->stride[i] * (uint64_t)n;
		index[i] = 0;
	}
	return false;
}

int weir__rect_bytes(const struct weir_rect *rect, uint64_t pitch,
		     uint64_t *ret_bytes)
{
	uint64_t steps;

	*ret_bytes = 0;
	if (!rect->width || !rect->rows)
		return 0;
	if (pitch < rect->width)
		return weir__fail(
			-EINVAL,
			"a pitch of %llu bytes is less than the rows' width of %llu",
			(unsigned long long)pitch,
			(unsigned long long)rect->width);
	if (weir__mul_over(rect->rows - 1, pitch, &steps) ||
	    weir__add_over(steps, rect->width, ret_bytes))
		return weir__fail(
			-EINVAL, "%llu rows of pitch %llu span over 2^64 bytes",
			(unsigned long long)rect->rows,
			(unsigned long long)pitch);
	return 0;
}
