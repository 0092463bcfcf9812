/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

const char *weir__tensor_label(const struct weir_tensor *t)
{
	static _Thread_local char ring[4][112];
	static _Thread_local unsigned next_buf;
	char *out = ring[next_buf++ % 4];

	if (t->name)
		snprintf(out, sizeof(ring[0]), "tensor '%s'",
			 weir__quote(t->name, strlen(t->name)));
	else
		snprintf(out, sizeof(ring[0]), "tensor");
	return out;
}

static int check_form(const struct weir_tensor *t,
		      const struct weir_dtype_info **ret_row)
{
	const struct weir_dtype_info *info = weir__dtype(t->dtype);

	if (!info)
		return weir__fail(-EINVAL, "%s: %u is not a dtype",
				  weir__tensor_label(t), t->dtype);
	if (t->ndim > WEIR_MAX_DIMS)
		return weir__fail(-EOPNOTSUPP, "%s: %u dimensions, at most %d",
				  weir__tensor_label(t), t->ndim,
				  WEIR_MAX_DIMS);
	for (unsigned i = 0; i < t->ndim; i++)
		if (t->shape[i] < 0)
			return weir__fail(-EINVAL, "%s: dimension %u is %lld",
					  weir__tensor_label(t), i,
					  (long long)t->shape[i]);
	*ret_row = info;
	return 0;
}

static bool is_empty(const struct weir_tensor *t)
{
	for (unsigned i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			return true;
	return false;
}

/*
 * Compute the blocks of @n elements, mostly without a division. False if the
 * last block is not whole.
 */
static bool whole_blocks(const struct weir_dtype_info *info, uint64_t n,
			 uint64_t *ret_blocks)
{
	*ret_blocks = info->block == 1 ? n : n / info->block;
	return info->block == 1 || n % info->block == 0;
}

/* An empty tensor has no bytes, whatever its other dimensions are. */
static int count_bytes(const struct weir_tensor *t,
		       const struct weir_dtype_info *info,
		       uint64_t *ret_elements, uint64_t *ret_bytes)
{
	uint64_t n = !is_empty(t), blocks, bytes;

	for (unsigned i = 0; n && i < t->ndim; i++)
		if (weir__mul_over(n, (uint64_t)t->shape[i], &n) ||
		    n > INT64_MAX)
			return weir__fail(
				-EOVERFLOW,
				"%s: over 2^63 - 1 elements at dimension %u of %lld",
				weir__tensor_label(t), i,
				(long long)t->shape[i]);
	if (!whole_blocks(info, n, &blocks))
		return weir__fail(
			-EINVAL,
			"%s: %llu elements are not whole blocks of %u, which %s has",
			weir__tensor_label(t), (unsigned long long)n,
			info->block, info->name);
	if (weir__mul_over(blocks, info->bytes, &bytes) || bytes > INT64_MAX)
		return weir__fail(
			-EOVERFLOW,
			"%s: %llu elements of %s are over 2^63 - 1 bytes",
			weir__tensor_label(t), (unsigned long long)n,
			info->name);
	*ret_elements = n;
	*ret_bytes = bytes;
	return 0;
}

/*
 * Strides of a contiguous tensor. In an empty tensor an outer stride is 0 if
 * the product of the inner dimensions is 0 or too large.
 */
static void set_strides(struct weir_tensor *t,
			const struct weir_dtype_info *info)
{
	unsigned i = t->ndim;
	uint64_t stride = info->bytes, blocks;

	memset(t->stride, 0, sizeof(t->stride));
	if (!i || !whole_blocks(info, (uint64_t)t->shape[i - 1], &blocks))
		return;
	t->stride[--i] = (int64_t)stride;
	if (weir__mul_over(stride, blocks, &stride))
		return;
	while (i-- && stride <= INT64_MAX) {
		t->stride[i] = (int64_t)stride;
		if (weir__mul_over(stride, (uint64_t)t->shape[i], &stride))
			return;
	}
}

int weir__tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
		      unsigned ndim, const int64_t *shape)
{
	struct weir_tensor made = { .dtype = dtype, .ndim = ndim };
	const struct weir_dtype_info *info;
	uint64_t n, bytes;
	int r;

	if (ndim && !shape)
		return weir__fail(-EINVAL, "%u dimensions without a shape",
				  ndim);
	if (ndim <= WEIR_MAX_DIMS && ndim)
		memcpy(made.shape, shape, ndim * sizeof(*shape));
	if ((r = check_form(&made, &info)) < 0 ||
	    (r = count_bytes(&made, info, &n, &bytes)) < 0)
		return r;
	set_strides(&made, info);
	*t = made;
	return 0;
}

int weir_tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
		     unsigned ndim, const int64_t *shape)
{
	WEIR__ENTER();
	return weir__tensor_init(t, dtype, ndim, shape);
}

/* False if rows are not whole blocks; all bytes are then one row. */
static bool has_strides(const struct weir_tensor *t)
{
	return t->ndim && t->stride[t->ndim - 1];
}

/*
 * Compute the bytes from the first element to the end of the last. @t is not
 * empty.
 */
static int strided_extent(const struct weir_tensor *t,
			  const struct weir_dtype_info *info,
			  uint64_t *ret_bytes)
{
	unsigned last = t->ndim - 1;
	uint64_t end = info->bytes, step;

	for (unsigned i = 0; i < t->ndim; i++) {
		uint64_t n = (uint64_t)t->shape[i];

		if (i == last && n % info->block)
			return weir__fail(
				-EINVAL,
				"%s: rows of %llu elements have strides, but are not whole blocks of %u",
				weir__tensor_label(t), (unsigned long long)n,
				info->block);
		if (i == last)
			n /= info->block;
		if (t->stride[i] < 0)
			return weir__fail(-EINVAL, "%s: stride %u is %lld",
					  weir__tensor_label(t), i,
					  (long long)t->stride[i]);
		if (weir__mul_over(n - 1, (uint64_t)t->stride[i], &step) ||
		    weir__add_over(end, step, &end) || end > INT64_MAX)
			return weir__fail(
				-EOVERFLOW,
				"%s: stride %u of %lld reaches over 2^63 - 1 bytes",
				weir__tensor_label(t), i,
				(long long)t->stride[i]);
	}
	*ret_bytes = end;
	return 0;
}

int weir__tensor_bytes(const struct weir_tensor *t, uint64_t *ret_bytes)
{
	const struct weir_dtype_info *info;
	uint64_t n, bytes;
	int r;

	if ((r = check_form(t, &info)) < 0 ||
	    (r = count_bytes(t, info, &n, &bytes)) < 0)
		return r;
	if (n && has_strides(t))
		return strided_extent(t, info, ret_bytes);
	*ret_bytes = bytes;
	return 0;
}

int weir_tensor_bytes(const struct weir_tensor *t, size_t *ret_bytes)
{
	uint64_t bytes;
	int r;

	WEIR__ENTER();
	r = weir__tensor_bytes(t, &bytes);
	if (!r)
		*ret_bytes = bytes;
	return r;
}

bool weir__tensor_contiguous(const struct weir_tensor *t)
{
	struct weir_tensor tight = *t;

	if (!has_strides(t))
		return true;
	if (is_empty(t))
		return true;
	set_strides(&tight, weir__dtype(t->dtype));
	/* The stride of a dimension of 1 is not used. */
	for (unsigned i = 0; i < t->ndim; i++)
		if (t->shape[i] != 1 && t->stride[i] != tight.stride[i])
			return false;
	return true;
}

int weir_tensor_place(struct weir_tensor *t, struct weir_buf *buf,
		      uint64_t offset)
{
	struct weir_buf *member;
	uint64_t bytes, at;
	int r;

	WEIR__ENTER();
	r = weir__root_read(buf->buft->dev->weir);
	if (r < 0)
		return r;
	if (t->buf)
		return weir__fail(-EINVAL, "%s is placed already",
				  weir__tensor_label(t));
	r = weir__buft_need(buf->buft, t, &bytes);
	if (r < 0)
		return r;
	r = weir__buf_range(buf, offset, bytes, &member, &at);
	if (r < 0)
		return r;
	t->buf = buf;
	t->offset = offset;
	return 0;
}

static int check_view(const struct weir_tensor *of, unsigned dim, int64_t start,
		      int64_t n, const struct weir_dtype_info *info)
{
	if (dim >= of->ndim)
		return weir__fail(-EINVAL, "%s: dimension %u of %u",
				  weir__tensor_label(of), dim, of->ndim);
	if (!has_strides(of))
		return weir__fail(
			-EINVAL,
			"%s: rows of %lld elements are not whole blocks of %u: no views",
			weir__tensor_label(of),
			(long long)of->shape[of->ndim - 1], info->block);
	if (start < 0 || n < 0 || n > of->shape[dim] - start)
		return weir__fail(
			-EINVAL,
			"%s: %lld elements from %lld on, dimension %u has %lld",
			weir__tensor_label(of), (long long)n, (long long)start,
			dim, (long long)of->shape[dim]);
	if (dim == of->ndim - 1 && (start % info->block || n % info->block))
		return weir__fail(
			-EINVAL,
			"%s: %lld elements from %lld on are not whole blocks of %u",
			weir__tensor_label(of), (long long)n, (long long)start,
			info->block);
	return 0;
}

int weir_tensor_view(const struct weir_tensor *of, unsigned dim, int64_t start,
		     int64_t n, struct weir_tensor *ret_view)
{
	const struct weir_dtype_info *info = weir__dtype(of->dtype);
	struct weir_tensor view = *of;
	uint64_t bytes, skip = 0;
	int r;

	WEIR__ENTER();
	r = weir__tensor_bytes(of, &bytes);
	if (r < 0 || (r = check_view(of, dim, start, n, info)) < 0)
		return r;
	view.shape[dim] = n;
	if (dim == of->ndim - 1)
		start /= info->block;
	/*
	 * A view that has elements begins within the bytes of the tensor. An
	 * empty view might begin after them, so it begins where the tensor
	 * does.
	 */
	if (bytes && n)
		skip = (uint64_t)start * (uint64_t)of->stride[dim];
	if (weir__add_over(view.offset, skip, &view.offset))
		return weir__fail(-EOVERFLOW,
				  "%s: offset %llu + %llu is over 2^64 - 1",
				  weir__tensor_label(of),
				  (unsigned long long)of->offset,
				  (unsigned long long)skip);
	*ret_view = view;
	return 0;
}

int weir__tensor_range(const struct weir_tensor *t, uint64_t off, uint64_t n,
		       struct weir_buf **ret_member, uint64_t *ret_off,
		       unsigned char **ret_addr)
{
	struct weir_buf *member;
	uint64_t bytes, at;
	int r;

	if (!t->buf)
		return weir__fail(-EINVAL, "%s is not placed in a buffer",
				  weir__tensor_label(t));
	r = weir__tensor_bytes(t, &bytes);
	if (r < 0)
		return r;
	if (!weir__tensor_contiguous(t))
		return weir__fail(-EINVAL, "%s is not contiguous",
				  weir__tensor_label(t));
	if (off > bytes || n > bytes - off)
		return weir__fail(
			-EINVAL,
			"%s: %llu bytes from byte %llu on, it has %llu",
			weir__tensor_label(t), (unsigned long long)n,
			(unsigned long long)off, (unsigned long long)bytes);
	/* Check the whole tensor: any range then detects a wrong place. */
	r = weir__buf_range(t->buf, t->offset, bytes, &member, &at);
	if (r >= 0)
		r = weir__buf_check_there(member, weir__tensor_label(t));
	if (r < 0)
		return r;
	*ret_member = member;
	*ret_off = at + off;
	*ret_addr = member->mem.base + at + off;
	return 0;
}

void *weir_tensor_data(const struct weir_tensor *t)
{
	struct weir_buf *member;
	uint64_t bytes, at;

	WEIR__ENTER();
	if (!t->buf || !weir__buf_is_host(t->buf) ||
	    !weir__root_is_ours(t->buf->buft->dev->weir) ||
	    weir__tensor_bytes(t, &bytes) < 0 ||
	    weir__buf_range(t->buf, t->offset, bytes, &member, &at) < 0 ||
	    weir__buf_check_there(member, weir__tensor_label(t)) < 0)
		return NULL;
	return member->mem.base + at;
}

/*
 * The functions from here on describe the bytes of a tensor as rows of equal
 * length.
 */

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

/* Return the bytes of all elements, without regard to strides. */
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
