/* SPDX-License-Identifier: MIT */
#include "model/load/slice.h"

#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "mem/convert.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/format/model.h"

/*
 * True if weir_select_opts.dtype converts tensors of @dtype: not if they are
 * integers, packed types or scales.
 */
static bool is_converted(enum weir_dtype dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_F16:
	case WEIR_DTYPE_BF16:
	case WEIR_DTYPE_F32:
	case WEIR_DTYPE_F64:
	case WEIR_DTYPE_F8_E5M2:
	case WEIR_DTYPE_F8_E4M3:
	case WEIR_DTYPE_F8_E4M3FNUZ:
	case WEIR_DTYPE_F8_E5M2FNUZ:
		return true;
	default:
		return dtype >= WEIR_DTYPE_GGML; /* quantised */
	}
}

static const char *name_of(const struct weir_model *m, size_t record)
{
	return weir__quote(weir__record_name(m, record),
			   m->rec[record].name_len);
}

/* Get the range that @indices selects in a dimension of @total elements. */
static int slice_range(const char *name, const struct weir_slice *indices,
		       int64_t total, int64_t *ret_start, int64_t *ret_n)
{
	*ret_start = indices->start;
	*ret_n = indices->n;
	if (indices->ranks) {
		if (indices->start || indices->n ||
		    indices->rank >= indices->ranks)
			return weir__fail(
				-EINVAL,
				"tensor '%s': a slice of rank %u of %u, with start %lld and n %lld: the rank must be less, start and n 0",
				name, indices->rank, indices->ranks,
				(long long)indices->start,
				(long long)indices->n);
		if (total % indices->ranks)
			return weir__fail(
				-EINVAL,
				"tensor '%s': dimension %u has %lld elements, which are not %u equal parts",
				name, indices->dim, (long long)total,
				indices->ranks);
		*ret_n = total / indices->ranks;
		*ret_start = *ret_n * indices->rank;
	}
	if (*ret_start < 0 || *ret_n < 0 || *ret_n > total - *ret_start)
		return weir__fail(
			-EINVAL,
			"tensor '%s': a slice of %lld elements from %lld on, dimension %u has %lld",
			name, (long long)*ret_n, (long long)*ret_start,
			indices->dim, (long long)total);
	return 0;
}

static int check_slice(const char *name, const struct weir_slice *indices,
		       const struct weir_tensor *whole)
{
	if (indices->reserved)
		return weir__fail(-EINVAL, "reserved of a slice is %u, not 0",
				  indices->reserved);
	if (indices->dim >= whole->ndim)
		return weir__fail(
			-EINVAL,
			"tensor '%s' has %u dimensions: no slice of dimension %u",
			name, whole->ndim, indices->dim);
	return 0;
}

/*
 * If @indices is a range of the last dimension, count @start and @n in blocks
 * of the dtype instead of elements.
 */
static int slice_blocks(const char *name, const struct weir_slice *indices,
			const struct weir_tensor *whole, int64_t *start,
			int64_t *n)
{
	const struct weir_dtype_info *info = weir__dtype(whole->dtype);
	int64_t row = whole->shape[whole->ndim - 1];

	if (info->block == 1)
		return 0;
	if (row % info->block)
		return weir__fail(
			-EINVAL,
			"tensor '%s': its rows of %lld elements are not whole blocks of %u (%s): no slices",
			name, (long long)row, info->block, info->name);
	if (indices->dim != whole->ndim - 1)
		return 0;
	if (*start % info->block || *n % info->block)
		return weir__fail(
			-EINVAL,
			"tensor '%s': a slice of %lld elements from %lld on cuts blocks of %u (%s)",
			name, (long long)*n, (long long)*start, info->block,
			info->name);
	*start /= info->block;
	*n /= info->block;
	return 0;
}

/* Slice @whole by @indices: set the rows of @slice, and the remaining shape. */
static int slice_apply(const char *name, const struct weir_slice *indices,
		       struct weir_tensor *whole, struct weir__slice *slice)
{
	uint64_t bytes = slice->width, outer = 1, inner;
	int64_t start, n, elements;
	unsigned d = indices->dim;
	int r = check_slice(name, indices, whole);

	if (r >= 0)
		r = slice_range(name, indices, whole->shape[d], &start, &n);
	if (r < 0)
		return r;
	elements = n;
	r = slice_blocks(name, indices, whole, &start, &n);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < d; i++)
		outer *= (uint64_t)whole->shape[i];
	whole->shape[d] = elements;
	if (!bytes || !n) {
		*slice = (struct weir__slice){ 0 };
		return 0;
	}
	inner = (uint64_t)whole->stride[d];
	slice->off = (uint64_t)start * inner;
	slice->width = (uint64_t)n * inner;
	slice->file_pitch = bytes / outer;
	slice->rows = outer;
	if (outer == 1 || slice->width == slice->file_pitch) {
		slice->width *= outer;
		slice->rows = 1;
	}
	return 0;
}

static int slice_convert(const char *name, const struct weir_tensor *t,
			 enum weir_dtype to, struct weir__slice *slice)
{
	const enum weir_dtype from = t->dtype;
	int64_t row = t->ndim ? t->shape[t->ndim - 1] : 1;

	slice->convert = weir__convert_find(from, to);
	if (!slice->convert)
		return weir__fail(
			-EINVAL,
			"tensor '%s' cannot be converted from %s to %s", name,
			weir__dtype(from)->name, weir__dtype(to)->name);
	if (row % slice->convert->block)
		return weir__fail(
			-EINVAL,
			"tensor '%s': its rows of %lld elements are not whole blocks of %u, so it is not converted to %s",
			name, (long long)row, slice->convert->block,
			weir__dtype(to)->name);
	slice->mem_width = slice->width / slice->convert->src_bytes *
			   slice->convert->dst_bytes;
	return 0;
}

int weir__slice_make(const struct weir_model *m, size_t record,
		     const struct weir_slice *indices, enum weir_dtype dtype,
		     struct weir__slice *ret_slice,
		     struct weir_tensor *ret_tensor)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir__slice slice = weir__slice_whole(rec->bytes);
	struct weir_tensor t;
	int r = weir__tensor_init(&t, rec->dtype, rec->ndim,
				  m->dims + rec->shape);

	if (r >= 0 && dtype != WEIR_DTYPE_NONE && !weir__dtype(dtype))
		r = weir__fail(-EINVAL, "tensor '%s': %u is not a dtype",
			       name_of(m, record), (unsigned)dtype);
	if (r >= 0 && indices)
		r = slice_apply(name_of(m, record), indices, &t, &slice);
	if (r < 0)
		return r;
	slice.mem_width = slice.width;
	if (dtype != WEIR_DTYPE_NONE && dtype != rec->dtype &&
	    is_converted(rec->dtype)) {
		r = slice_convert(name_of(m, record), &t, dtype, &slice);
		t.dtype = dtype;
	}
	if (r >= 0 && (indices || slice.convert))
		r = weir__tensor_init(&t, t.dtype, t.ndim, t.shape);
	if (r < 0)
		return r;
	slice.mem_pitch = slice.mem_width;
	*ret_slice = slice;
	*ret_tensor = t;
	return 0;
}

/*
 * Get the rows of a view. False: they are not at equal distances, or share
 * bytes.
 */
static bool view_rows(const struct weir_tensor *t, uint64_t *ret_rows,
		      uint64_t *ret_pitch)
{
	size_t row;
	unsigned outer = weir__tensor_outer(t, &row);
	uint64_t rows = 1, pitch = 0;

	for (unsigned i = outer; i-- > 0;) {
		if (weir__tensor_steps(t, i) == 1)
			continue;
		if (rows == 1)
			pitch = (uint64_t)t->stride[i];
		else if ((uint64_t)t->stride[i] != rows * pitch)
			return false;
		rows *= weir__tensor_steps(t, i);
	}
	*ret_rows = rows;
	*ret_pitch = pitch;
	return pitch >= row;
}

static bool same_shape(const struct weir_tensor *a, const struct weir_tensor *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(a->shape[0]));
}

int weir__slice_fit(struct weir__slice *slice, const struct weir_tensor *tensor,
		    const struct weir_tensor *dst)
{
	uint64_t rows, pitch, bytes, take = weir__slice_data(slice);
	int r;

	if (weir__tensor_contiguous(dst)) {
		r = weir__tensor_bytes(dst, &bytes);
		if (r < 0 || bytes == slice->rows * slice->mem_width)
			return r;
		return weir__fail(
			-EINVAL,
			"%s: its destination has %llu bytes, it needs %llu",
			weir__tensor_label(tensor), (unsigned long long)bytes,
			(unsigned long long)(slice->rows * slice->mem_width));
	}
	if (!same_shape(tensor, dst))
		return weir__fail(
			-EINVAL,
			"%s: its destination is a view of another shape; only a contiguous destination may have one",
			weir__tensor_label(tensor));
	if (!view_rows(dst, &rows, &pitch) ||
	    (slice->rows != 1 && rows != slice->rows))
		return weir__fail(
			-EINVAL,
			"%s: its destination is a view whose rows are not at equal distances, or not those of the slice",
			weir__tensor_label(tensor));
	if (slice->rows == 1 && take && slice->convert &&
	    slice->mem_width / rows % slice->convert->dst_bytes)
		return weir__fail(
			-EINVAL,
			"%s: its destination is a view whose rows of %llu bytes are not whole blocks of %u converted elements",
			weir__tensor_label(tensor),
			(unsigned long long)(slice->mem_width / rows),
			slice->convert->block);
	if (slice->rows == 1 && take) {
		slice->rows = rows;
		slice->width /= rows;
		slice->mem_width /= rows;
		slice->file_pitch = slice->width;
	}
	slice->mem_pitch = pitch;
	return 0;
}
