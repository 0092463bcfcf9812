/* SPDX-License-Identifier: MIT */
#include "model/load/cut.h"

#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "mem/convert.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/format/model.h"

/* Types that weir_select_opts.dtype converts; not integers, packed types, scales. */
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

/* The indices of @slice, of a dimension of @total. */
static int slice_range(const char *name, const struct weir_slice *slice,
		       int64_t total, int64_t *ret_start, int64_t *ret_n)
{
	*ret_start = slice->start;
	*ret_n = slice->n;
	if (slice->ranks) {
		if (slice->start || slice->n || slice->rank >= slice->ranks)
			return weir__fail(
				-EINVAL,
				"tensor '%s': a slice of rank %u of %u, with start %lld and n %lld",
				name, slice->rank, slice->ranks,
				(long long)slice->start, (long long)slice->n);
		if (total % slice->ranks)
			return weir__fail(
				-EINVAL,
				"tensor '%s': dimension %u has %lld elements, which are not %u equal parts",
				name, slice->dim, (long long)total,
				slice->ranks);
		*ret_n = total / slice->ranks;
		*ret_start = *ret_n * slice->rank;
	}
	if (*ret_start < 0 || *ret_n < 0 || *ret_n > total - *ret_start)
		return weir__fail(
			-EINVAL,
			"tensor '%s': a slice of %lld elements from %lld on, dimension %u has %lld",
			name, (long long)*ret_n, (long long)*ret_start,
			slice->dim, (long long)total);
	return 0;
}

static int check_slice(const char *name, const struct weir_slice *slice,
		       const struct weir_tensor *whole)
{
	if (slice->reserved)
		return weir__fail(-EINVAL, "reserved of a slice is %u, not 0",
				  slice->reserved);
	if (slice->dim >= whole->ndim)
		return weir__fail(
			-EINVAL,
			"tensor '%s' has %u dimensions: no slice of dimension %u",
			name, whole->ndim, slice->dim);
	return 0;
}

/* Blocks of @row elements of a slice in the last dimension. */
static int slice_blocks(const char *name, const struct weir_slice *slice,
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
	if (slice->dim != whole->ndim - 1)
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

/* Cut @whole to @slice: its rows, and the shape of what is left. */
static int cut_slice(const char *name, const struct weir_slice *slice,
		     struct weir_tensor *whole, struct weir__cut *cut)
{
	uint64_t bytes = cut->width, outer = 1, inner;
	int64_t start, n, elements;
	unsigned d = slice->dim;
	int r = check_slice(name, slice, whole);

	if (r >= 0)
		r = slice_range(name, slice, whole->shape[d], &start, &n);
	if (r < 0)
		return r;
	elements = n;
	r = slice_blocks(name, slice, whole, &start, &n);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < d; i++)
		outer *= (uint64_t)whole->shape[i];
	whole->shape[d] = elements;
	if (!bytes || !n) {
		*cut = (struct weir__cut){ 0 };
		return 0;
	}
	inner = (uint64_t)whole->stride[d];
	cut->off = (uint64_t)start * inner;
	cut->width = (uint64_t)n * inner;
	cut->file_pitch = bytes / outer;
	cut->rows = outer;
	if (outer == 1 || cut->width == cut->file_pitch) {
		cut->width *= outer;
		cut->rows = 1;
	}
	return 0;
}

static int cut_convert(const char *name, enum weir_dtype from,
		       enum weir_dtype to, struct weir__cut *cut)
{
	cut->convert = weir__convert_find(from, to);
	if (!cut->convert)
		return weir__fail(
			-EINVAL,
			"tensor '%s' cannot be converted from %s to %s", name,
			weir__dtype(from)->name, weir__dtype(to)->name);
	cut->mem_width =
		cut->width / cut->convert->src_bytes * cut->convert->dst_bytes;
	return 0;
}

int weir__cut_make(const struct weir_model *m, size_t record,
		   const struct weir_slice *slice, enum weir_dtype dtype,
		   struct weir__cut *ret_cut, struct weir_tensor *ret_tensor)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir__cut cut = weir__cut_whole(rec->bytes);
	struct weir_tensor t;
	int r = weir__tensor_init(&t, rec->dtype, rec->ndim,
				  m->dims + rec->shape);

	if (r >= 0 && dtype != WEIR_DTYPE_NONE && !weir__dtype(dtype))
		r = weir__fail(-EINVAL, "tensor '%s': %u is not a dtype",
			       name_of(m, record), (unsigned)dtype);
	if (r >= 0 && slice)
		r = cut_slice(name_of(m, record), slice, &t, &cut);
	if (r < 0)
		return r;
	cut.mem_width = cut.width;
	if (dtype != WEIR_DTYPE_NONE && dtype != rec->dtype &&
	    is_converted(rec->dtype)) {
		r = cut_convert(name_of(m, record), rec->dtype, dtype, &cut);
		t.dtype = dtype;
	}
	if (r >= 0 && (slice || cut.convert))
		r = weir__tensor_init(&t, t.dtype, t.ndim, t.shape);
	if (r < 0)
		return r;
	cut.mem_pitch = cut.mem_width;
	*ret_cut = cut;
	*ret_tensor = t;
	return 0;
}

/*
 * The rows of a view. False: they are not at equal distances, or share bytes.
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

int weir__cut_fit(struct weir__cut *cut, const struct weir_tensor *tensor,
		  const struct weir_tensor *dst)
{
	uint64_t rows, pitch, bytes, take = weir__cut_take(cut);
	int r;

	if (weir__tensor_contiguous(dst)) {
		r = weir__tensor_bytes(dst, &bytes);
		if (r < 0 || bytes == cut->rows * cut->mem_width)
			return r;
		return weir__fail(
			-EINVAL,
			"%s: its destination has %llu bytes, it needs %llu",
			weir__tensor_label(tensor), (unsigned long long)bytes,
			(unsigned long long)(cut->rows * cut->mem_width));
	}
	if (!same_shape(tensor, dst))
		return weir__fail(
			-EINVAL,
			"%s: its destination is a view of another shape; only a contiguous destination may have one",
			weir__tensor_label(tensor));
	if (!view_rows(dst, &rows, &pitch) ||
	    (cut->rows != 1 && rows != cut->rows))
		return weir__fail(
			-EINVAL,
			"%s: its destination is a view whose rows are not at equal distances, or not those of the slice",
			weir__tensor_label(tensor));
	if (cut->rows == 1 && take && cut->convert &&
	    cut->mem_width / rows % cut->convert->dst_bytes)
		return weir__fail(
			-EINVAL,
			"%s: its destination is a view whose rows of %llu bytes are not whole blocks of %u converted elements",
			weir__tensor_label(tensor),
			(unsigned long long)(cut->mem_width / rows),
			cut->convert->block);
	if (cut->rows == 1 && take) {
		cut->rows = rows;
		cut->width /= rows;
		cut->mem_width /= rows;
		cut->file_pitch = cut->width;
	}
	cut->mem_pitch = pitch;
	return 0;
}
