/* SPDX-License-Identifier: MIT */
#include "graph/draft.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "dev/dev.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "place/placement.h"

static bool is_empty(const struct weir_tensor *t)
{
	for (uint32_t i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			return true;
	return false;
}

/* A write of nothing leaves its destination, which is not empty, as it is. */
static bool computes_nothing(const struct weir_node *node)
{
	if (is_empty(&node->t))
		return true;
	if (!(node->row->flags & WEIR__OP_WRITES))
		return false;
	for (uint32_t s = 0; s < node->n_src; s++)
		if (node->src[s] && is_empty(&node->src[s]->t))
			return true;
	return false;
}

static uint8_t marks_of(const struct weir_node *node)
{
	uint8_t marks = 0;

	if (node->op == WEIR_OP_LEAF)
		marks |= WEIR__MARK_LEAF;
	else if (node->op == WEIR_OP_INPUT)
		marks |= WEIR__MARK_INPUT;
	else if (computes_nothing(node))
		marks |= WEIR__MARK_EMPTY;
	if (node->flags & WEIR_NODE_OBSERVED)
		marks |= WEIR__MARK_OBSERVED;
	return marks;
}

/* Has @src each element where the result of @node, in its place, would? */
static bool same_layout(const struct weir_node *node,
			const struct weir_node *src)
{
	const struct weir_tensor *a = &node->t, *b = &src->t;
	uint64_t begins = src->storage == src ? 0 : src->t.offset;

	return a->dtype == b->dtype && a->ndim == b->ndim && !begins &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) &&
	       !memcmp(a->stride, b->stride, a->ndim * sizeof(*a->stride));
}

/*
 * Where two sources share their bytes, the result must be allowed in the place
 * of both: another source is read after elements of the result were written.
 */
static bool may_take(const struct weir_node *node, const struct weir_node *src)
{
	for (uint32_t s = 0; s < node->n_src; s++)
		if (node->src[s] && node->src[s]->storage == src->storage &&
		    !(node->row->in_place & 1u << s &&
		      same_layout(node, node->src[s])))
			return false;
	return true;
}

static uint8_t fits_of(const struct weir_node *node)
{
	uint8_t fits = 0;

	for (uint32_t s = 0; s < node->n_src && s < 8; s++)
		if (node->row->in_place & 1u << s && node->src[s] &&
		    may_take(node, node->src[s]))
			fits |= (uint8_t)(1u << s);
	return fits;
}

static int draft_alloc(struct weir__draft *d, uint8_t **ret_fits)
{
	size_t n = d->g->n + 1; /* never 0 */

	d->marks = weir__array_alloc(n, sizeof(*d->marks));
	d->bytes = weir__array_alloc(n, sizeof(*d->bytes));
	*ret_fits = weir__array_alloc(n, sizeof(**ret_fits));
	if (d->marks && d->bytes && *ret_fits)
		return 0;
	return weir__fail(-ENOMEM, "no memory for a schedule of %zu nodes",
			  d->g->n);
}

static int draft_nodes(struct weir__draft *d, const struct weir_buft *buft,
		       uint8_t *fits)
{
	int r = 0;

	for (size_t i = 0; i < d->g->n && !r; i++) {
		const struct weir_node *node = d->g->node[i];

		d->marks[i] = marks_of(node);
		fits[i] = fits_of(node);
		d->bytes[i] = 0;
		if (node->storage != node)
			continue;
		r = weir__buft_need(buft, &node->t, &d->bytes[i]);
		if (node->op == WEIR_OP_LEAF && d->reach.needed[i])
			d->sizes.leaves += d->bytes[i];
	}
	return r;
}

static void draft_sizes(struct weir__draft *d, uint32_t copies)
{
	const struct weir__placed *m = d->places.placement->memory;

	d->sizes.results = m[WEIR__IN_RESULTS].info.bytes;
	d->sizes.lowest = m[WEIR__IN_RESULTS].info.bound;
	d->sizes.inputs = m[WEIR__IN_COPY].info.bytes * copies;
	d->sizes.computed = d->order.n;
	for (size_t i = 0; i < d->g->n; i++)
		d->sizes.in_place += d->places.over[i] != WEIR__REACH_NONE;
}

static int draft_place(struct weir__draft *d, const struct weir_buft *buft,
		       uint32_t copies, const uint8_t *fits)
{
	size_t max = buft->desc.max;
	const struct weir__place_in in = {
		.in = &d->in,
		.reach = &d->reach,
		.order = &d->order,
		.marks = d->marks,
		.bytes = d->bytes,
		.fits = fits,
		.align = buft->desc.align,
		.max = max == SIZE_MAX ? 0 : max,
		.copies = copies > 1,
	};
	int r = weir__place_nodes(&in, &d->places);

	if (r == 0)
		draft_sizes(d, copies);
	return r;
}

int weir__draft(const struct weir_graph *g, const struct weir_buft *buft,
		uint32_t copies, struct weir__draft *ret)
{
	struct weir__draft d = { .g = g };
	uint8_t *fits = NULL;
	int r = weir__reach_graph(g, &d.in);

	if (r == 0)
		r = weir__reach(&d.in, &d.reach);
	if (r == 0)
		r = draft_alloc(&d, &fits);
	if (r == 0)
		r = draft_nodes(&d, buft, fits);
	if (r == 0)
		r = weir__order(&d.in, &d.reach, d.marks, &d.order);
	if (r == 0)
		r = draft_place(&d, buft, copies, fits);
	weir__array_free(fits);
	if (r < 0)
		weir__draft_free(&d);
	else
		*ret = d;
	return r;
}

void weir__draft_free(struct weir__draft *draft)
{
	weir__places_free(&draft->places);
	weir__order_free(&draft->order);
	weir__reach_free(&draft->reach);
	weir__reach_in_free(&draft->in);
	weir__array_free(draft->marks);
	weir__array_free(draft->bytes);
	memset(draft, 0, sizeof(*draft));
}
