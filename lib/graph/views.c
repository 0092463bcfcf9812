/* SPDX-License-Identifier: MIT */
/*
 * Views. However it was described, a view becomes a shape, strides, and an
 * offset, those of its tensor; so equal views are equal in the fingerprint.
 */
#include <string.h>

#include "core/util.h"
#include "graph/ops.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

static bool is_empty(const struct weir_tensor *t)
{
	for (uint32_t i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			return true;
	return false;
}

/* True if the tensor has dimensions but no strides: its bytes are one row. */
static bool without_strides(const struct weir_tensor *t)
{
	return t->ndim && !t->stride[t->ndim - 1];
}

/*
 * The strides of @view, whose shape is set, so that its elements are those of
 * @a in their order. Dimensions of @a that are evenly spaced together are one
 * group, which dimensions of the view have to divide. False: no strides do
 * that.
 */
static bool reshape_strides(const struct weir_tensor *a,
			    struct weir_tensor *view)
{
	int64_t step = a->stride[a->ndim - 1], run = 1, cut = 1;
	uint32_t to = view->ndim;

	for (uint32_t i = a->ndim; i-- > 0;) {
		run *= (int64_t)weir__tensor_steps(a, i);
		if (i &&
		    (a->shape[i - 1] == 1 || a->stride[i - 1] == run * step))
			continue;
		while (to &&
		       (cut < run || weir__tensor_steps(view, to - 1) == 1)) {
			view->stride[--to] = cut * step;
			cut *= (int64_t)weir__tensor_steps(view, to);
		}
		if (cut != run)
			return false;
		if (i)
			step = a->stride[i - 1];
		run = cut = 1;
	}
	return !to;
}

static int view_reshape(const struct weir__new_node *m,
			const struct weir_op_view *p, struct weir_tensor *view)
{
	const struct weir_tensor *a = &m->src[0]->t;
	const struct weir_dtype_info *info = weir__dtype(a->dtype);
	uint64_t was = 1, is = 1;

	for (uint32_t i = 0; i < a->ndim; i++)
		was *= (uint64_t)a->shape[i];
	for (uint32_t i = 0; i < view->ndim; i++)
		is *= (uint64_t)view->shape[i];
	if (was != is)
		return weir__op_refuse(
			m, "reshape to %s: %llu elements, the source has %llu",
			weir__shape_describe(p->ndim, p->shape),
			(unsigned long long)is, (unsigned long long)was);
	if (info->block > 1 &&
	    (!view->ndim || view->shape[view->ndim - 1] % info->block ||
	     without_strides(a)))
		return weir__op_refuse(
			m, "reshape to %s: rows are not whole blocks of %u",
			weir__shape_describe(p->ndim, p->shape), info->block);
	if (weir__tensor_contiguous(a) || reshape_strides(a, view))
		return 0;
	return weir__op_refuse(
		m,
		"reshape to %s needs a copy, since the source is not contiguous (cont)",
		weir__shape_describe(p->ndim, p->shape));
}

static int view_permute(const struct weir__new_node *m,
			const struct weir_op_view *p, struct weir_tensor *view)
{
	const struct weir_tensor *a = &m->src[0]->t;
	const struct weir_dtype_info *info = weir__dtype(a->dtype);
	unsigned seen = 0;

	if (p->ndim != a->ndim)
		return weir__op_refuse(m, "permute %u dimensions of %u",
				       p->ndim, a->ndim);
	for (uint32_t i = 0; i < p->ndim; i++) {
		int64_t from = p->shape[i];

		if (from < 0 || from >= p->ndim || seen & 1u << from)
			return weir__op_refuse(
				m, "permute %s: each dimension once",
				weir__shape_describe(p->ndim, p->shape));
		seen |= 1u << from;
		view->shape[i] = a->shape[from];
		view->stride[i] = a->stride[from];
	}
	if (without_strides(a) || (info->block > 1 && p->ndim &&
				   p->shape[p->ndim - 1] != p->ndim - 1))
		return weir__op_refuse(
			m,
			"permute %s: blocks of %u elements stay in the last dimension",
			weir__shape_describe(p->ndim, p->shape), info->block);
	return 0;
}

static int view_slice(const struct weir__new_node *m,
		      const struct weir_op_view *p, struct weir_tensor *view,
		      uint64_t *ret_offset)
{
	const struct weir_tensor *a = &m->src[0]->t;
	int64_t dim = p->shape[0], start = p->shape[1], n = p->shape[2];
	uint32_t block = weir__dtype(a->dtype)->block;

	if (dim < 0 || dim >= a->ndim)
		return weir__op_refuse(m, "slice of dimension %lld of %u",
				       (long long)dim, a->ndim);
	if (start < 0 || n < 0 || n > a->shape[dim] - start)
		return weir__op_refuse(
			m,
			"slice of %lld elements from %lld on, dimension %lld has %lld",
			(long long)n, (long long)start, (long long)dim,
			(long long)a->shape[dim]);
	if (dim != a->ndim - 1)
		block = 1;
	if (without_strides(a) || start % block || n % block)
		return weir__op_refuse(
			m,
			"slice of %lld elements from %lld on, not whole blocks of %u",
			(long long)n, (long long)start, block);
	view->ndim = a->ndim;
	memcpy(view->shape, a->shape, sizeof(view->shape));
	memcpy(view->stride, a->stride, sizeof(view->stride));
	view->shape[dim] = n;
	*ret_offset = (uint64_t)(start / block) * (uint64_t)a->stride[dim];
	return 0;
}

/* Take strides of the caller: whole elements, aligned, and none 0. */
static int view_strides(const struct weir__new_node *m,
			const struct weir_op_view *p, struct weir_tensor *view)
{
	uint32_t align = weir__dtype(view->dtype)->align;

	memcpy(view->stride, p->stride, p->ndim * sizeof(*p->stride));
	for (uint32_t i = 0; i < p->ndim; i++)
		if (p->stride[i] <= 0 || p->stride[i] % align)
			return weir__op_refuse(
				m,
				"stride %u of %lld, not a positive multiple of %u",
				i, (long long)p->stride[i], align);
	if (p->offset % align)
		return weir__op_refuse(m, "offset %llu, not a multiple of %u",
				       (unsigned long long)p->offset, align);
	return 0;
}

/* The shape and strides of @view, and its offset in the source. */
static int view_describe(const struct weir__new_node *m,
			 const struct weir_op_view *p, struct weir_tensor *view,
			 uint64_t *ret_offset)
{
	const struct weir_tensor *a = &m->src[0]->t;
	int r = 0;

	if (p->how > WEIR_VIEW_SLICE)
		return weir__op_refuse(m, "%u is not an enum weir_view",
				       p->how);
	if (p->how == WEIR_VIEW_RESHAPE || p->how == WEIR_VIEW_STRIDES)
		r = weir__tensor_init(view, (enum weir_dtype)a->dtype, p->ndim,
				      p->shape);
	if (r < 0)
		return weir__fail_for(r, "view");
	switch (p->how) {
	case WEIR_VIEW_RESHAPE:
		return view_reshape(m, p, view);
	case WEIR_VIEW_PERMUTE:
		return view_permute(m, p, view);
	case WEIR_VIEW_SLICE:
		return view_slice(m, p, view, ret_offset);
	default:
		*ret_offset = p->offset;
		return view_strides(m, p, view);
	}
}

/*
 * Check that a view with elements is within the bytes of its source. Only
 * strides of the caller can break that.
 */
static int check_bounds(const struct weir__new_node *m,
			const struct weir_tensor *view, uint64_t offset)
{
	uint64_t has, bytes, end;
	int r;

	if ((r = weir__tensor_bytes(&m->src[0]->t, &has)) < 0 ||
	    (r = weir__tensor_bytes(view, &bytes)) < 0)
		return weir__fail_for(r, "view");
	if (weir__add_over(offset, bytes, &end) || end > has)
		return weir__op_refuse(
			m,
			"view of %llu bytes from byte %llu on, the source has %llu",
			(unsigned long long)bytes, (unsigned long long)offset,
			(unsigned long long)has);
	return 0;
}

/* Refuse a last stride of 0, which would say that there are no strides. */
static int check_last(const struct weir__new_node *m,
		      const struct weir_tensor *view)
{
	const struct weir_tensor *a = &m->src[0]->t;
	uint32_t last = view->ndim - 1;

	if (!view->ndim || view->stride[last] || without_strides(a))
		return 0;
	return weir__op_refuse(
		m,
		"the last dimension of the view, %s, would have a stride of 0",
		weir__shape_describe(view->ndim, view->shape));
}

int weir__rule_view(struct weir__new_node *m)
{
	struct weir_node *a = m->src[0];
	const struct weir_op_view *p = m->params;
	struct weir_tensor *view = &m->t;
	uint64_t offset = 0;
	int r;

	*view = (struct weir_tensor){ .dtype = a->t.dtype, .ndim = p->ndim };
	r = view_describe(m, p, view, &offset);
	if (r < 0)
		return r;
	if (is_empty(view)) {
		/* It might begin after the source, so it begins where that
		 * does. */
		offset = 0;
		r = weir__tensor_init(view, (enum weir_dtype)view->dtype,
				      view->ndim, view->shape);
	} else if (p->how == WEIR_VIEW_STRIDES) {
		r = check_bounds(m, view, offset);
	} else {
		r = check_last(m, view);
	}
	if (r < 0)
		return r;
	view->buf = a->t.buf;
	view->offset = a->t.offset + offset;
	m->storage = a->storage;
	return 0;
}
