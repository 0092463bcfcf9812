/* SPDX-License-Identifier: MIT */
/* A compiled graph's operations as the backend gets them. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "graph/ops.h"
#include "graph/compile/compiled.h"
#include "mem/buf.h"
#include "mem/dtype.h"

/*
 * A copy of @bytes bytes in the compiled graph's memory. *@ret is NULL if there
 * are none.
 */
static int keep(struct weir__compiled *cg, const void *from, size_t bytes,
		const void **ret)
{
	void *to = bytes ? weir__bump_take(&cg->memory, bytes) : NULL;

	if (bytes && !to)
		return weir__fail(-ENOMEM, "no memory for a node's %zu bytes",
				  bytes);
	if (bytes)
		memcpy(to, from, bytes);
	*ret = to;
	return 0;
}

static void operand_set(struct weir_operand *o, const struct weir_tensor *t)
{
	memset(o, 0, sizeof(*o));
	o->data = (void *)WEIR__NOWHERE;
	o->dtype = t->dtype;
	o->ndim = t->ndim;
	memcpy(o->shape, t->shape, t->ndim * sizeof(*o->shape));
	memcpy(o->stride, t->stride, t->ndim * sizeof(*o->stride));
}

void weir__node_flat(const struct weir_node *from, struct weir_backend_node *to,
		     struct weir_operand *src)
{
	const struct weir__op_info *row = from->row;
	bool views = row->flags & WEIR__OP_VIEWS;

	*to = (struct weir_backend_node){ .size = sizeof(*to),
					  .op = from->op,
					  .n_src = from->n_src,
					  .index = from->index,
					  .name = from->t.name,
					  .params = views ? NULL : from->params,
					  .params_size = views ? 0
							       : row->params,
					  .src = src };
	operand_set(&to->dst, &from->t);
	for (uint32_t s = 0; s < from->n_src; s++)
		if (from->src[s])
			operand_set(&src[s], &from->src[s]->t);
		else
			memset(&src[s], 0, sizeof(src[s]));
}

/* With a name and parameters in the compiled graph's memory. */
static int node_make(struct weir__compiled *cg, const struct weir_node *from,
		     struct weir_backend_node *to, struct weir_operand *src)
{
	const void *kept = NULL;
	int r;

	weir__node_flat(from, to, src);
	r = keep(cg, to->name, to->name ? strlen(to->name) + 1 : 0, &kept);
	if (r < 0)
		return r;
	to->name = kept;
	return keep(cg, to->params, to->params_size, &to->params);
}

int weir__nodes_make(struct weir__compiled *cg, const struct weir__passes *d,
		     struct weir__graph_lane *lane)
{
	const uint32_t *step = &d->sync.node[d->sync.step_at[lane - cg->lane]];
	struct weir__lane_copy *copy = &lane->copy[0];
	struct weir_operand *operand = lane->operand;
	struct weir__location *location = lane->location;
	int r = 0;

	for (uint32_t i = 0; i < lane->n_steps && !r; i++) {
		const struct weir_node *from = d->g->node[step[i]];
		uint32_t first = d->in.src_at[step[i]];

		r = node_make(cg, from, &copy->node[i], operand);
		copy->list[i] = &copy->node[i];
		operand += from->n_src;
		*location++ = weir__result_location(cg, step[i]);
		for (uint32_t s = 0; s < from->n_src; s++, location++)
			if (from->src[s])
				*location =
					weir__source_location(cg, d, first + s);
			else
				location->lane = WEIR__NO_LANE;
	}
	return r;
}

void weir__nodes_copy(struct weir__compiled *cg, struct weir__graph_lane *lane)
{
	for (uint32_t c = 1; c < cg->n_copies; c++) {
		struct weir__lane_copy *copy = &lane->copy[c];
		struct weir_operand *operand =
			lane->operand + c * lane->n_operands;

		memcpy(operand, lane->operand,
		       lane->n_operands * sizeof(*operand));
		memcpy(copy->node, lane->copy[0].node,
		       lane->n_steps * sizeof(*copy->node));
		for (uint32_t i = 0; i < lane->n_steps; i++) {
			copy->node[i].src = operand;
			copy->list[i] = &copy->node[i];
			operand += copy->node[i].n_src;
		}
	}
}

/* A joined buffer has several parts, which are not neighbours. */
static int address_of(const struct weir__compiled *cg,
		      const struct weir__location *location, uint32_t copy,
		      void **ret)
{
	struct weir_buf *buf = weir__location_buf(cg, location, copy), *member;
	uint64_t off = location->offset, base = WEIR__NOWHERE;
	int r = 0;

	if (location->device_copy != WEIR__REACH_NONE) {
		if (cg->device_copy[location->device_copy].address)
			base = cg->device_copy[location->device_copy].address;
	} else if (location->where == WEIR_NODE_LEAF && location->offset) {
		base = 0;
	} else if (buf) {
		r = weir__buf_range(buf, location->offset, location->bytes,
				    &member, &off);
		if (r == 0)
			base = (uintptr_t)member->mem.base;
	}
	*ret = (void *)(uintptr_t)(base + off);
	return r;
}

/*
 * True if this node alone, and once, reads the import that source 0 of @node is
 * in. Of the locations of sources only those in imports have a device copy.
 */
static bool reads_alone(const struct weir__compiled *cg,
			const struct weir__graph_lane *lane,
			const struct weir_backend_node *node,
			const struct weir__location *src)
{
	uint32_t entry = cg->device_copy[src->device_copy].entry;
	const struct weir__import *import =
		&lane->prefetch_list->entry[entry].import;

	if (import->first != import->last)
		return false;
	for (uint32_t s = 1; s < node->n_src; s++)
		if (src[s].lane != WEIR__NO_LANE &&
		    src[s].device_copy != WEIR__REACH_NONE &&
		    cg->device_copy[src[s].device_copy].entry == entry)
			return false;
	return true;
}

/* @src: the locations of its sources. */
static struct weir_backend_reader *node_reader(
	const struct weir__compiled *cg, const struct weir__graph_lane *lane,
	const struct weir_backend_node *node, const struct weir__location *src)
{
	const struct weir_backend_compute_ops *ops = lane->on->compute;
	struct weir_dev *dev = lane->on->dev;
	uint32_t k = node->n_src ? src->device_copy : WEIR__REACH_NONE;

	if (!lane->prefetch_list || k == WEIR__REACH_NONE ||
	    !reads_alone(cg, lane, node, src) || !ops->takes_reader ||
	    !ops->takes_reader(dev, node))
		return NULL;
	return weir__prefetch_list_reader(lane->prefetch_list,
					  cg->device_copy[k].entry,
					  cg->device_copy[k].of.node);
}

/* The bytes of the rows that get_rows needs; 0: it needs about all. */
static uint64_t rows_bytes(const struct weir_backend_node *node, uint64_t all)
{
	const struct weir_operand *a = &node->src[0], *dst = &node->dst;
	const struct weir_dtype_info *info = weir__dtype(a->dtype);
	uint64_t bytes =
		(uint64_t)a->shape[a->ndim - 1] / info->block * info->bytes;

	for (uint32_t i = 0; i + 1 < dst->ndim; i++)
		if (weir__mul_over(bytes, (uint64_t)dst->shape[i], &bytes))
			return 0;
	return bytes < all ? bytes : 0;
}

/*
 * True if no other step, and no other source of the node, reads the device
 * copy.
 */
static bool device_copy_alone(const struct weir__placed_copy *device_copy,
			      const struct weir_backend_node *node,
			      const struct weir__location *src)
{
	for (uint32_t s = 1; s < node->n_src; s++)
		if (src[s].lane != WEIR__NO_LANE &&
		    src[s].device_copy == src->device_copy)
			return false;
	return device_copy->of.first == device_copy->of.last;
}

void weir__nodes_by_rows(struct weir__compiled *cg,
			 const struct weir__graph_lane *lane)
{
	const struct weir_backend_compute_ops *ops = lane->on->compute;
	const struct weir__location *src = lane->location;
	const struct weir_backend_node *node = lane->copy[0].node;

	for (uint32_t i = 0; i < lane->n_steps; i++, src += node++->n_src) {
		struct weir__placed_copy *device_copy;

		src++; /* the result's */
		if (node->op != WEIR_OP_GET_ROWS ||
		    src->device_copy == WEIR__REACH_NONE ||
		    !ops->takes_reader ||
		    !ops->takes_reader(lane->on->dev, node))
			continue;
		device_copy = &cg->device_copy[src->device_copy];
		if (device_copy_alone(device_copy, node, src))
			device_copy->by_rows =
				rows_bytes(node, device_copy->from.bytes);
	}
}

int weir__nodes_address(struct weir__compiled *cg,
			struct weir__graph_lane *lane, uint32_t copy)
{
	struct weir_operand *operand = lane->operand + copy * lane->n_operands;
	const struct weir__location *location = lane->location;
	int r = 0;

	for (uint32_t i = 0; i < lane->n_steps && !r; i++) {
		struct weir_backend_node *node = &lane->copy[copy].node[i];

		r = address_of(cg, location++, copy, &node->dst.data);
		for (uint32_t s = 0; s < node->n_src;
		     s++, operand++, location++)
			if (location->lane != WEIR__NO_LANE && !r)
				r = address_of(cg, location, copy,
					       &operand->data);
		node->reader =
			node_reader(cg, lane, node, location - node->n_src);
	}
	return r;
}

const char *weir__node_words(const struct weir_backend_node *node,
			     char text[WEIR__NODE_WORDS])
{
	const char *op = weir__op_row(node->op)->name;
	unsigned long long i = node->index;

	if (node->name)
		snprintf(text, WEIR__NODE_WORDS, "node %llu (%s '%s')", i, op,
			 weir__quote(node->name, strnlen(node->name, 60)));
	else
		snprintf(text, WEIR__NODE_WORDS, "node %llu (%s)", i, op);
	return text;
}
