/* SPDX-License-Identifier: MIT */
/*
 * The nodes of a compiled graph: where their bytes are, and the operations as
 * the backend gets them.
 */
#include <stdio.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/compile/compiled.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "place/placement.h"

/* The address of a leaf; 0: it is not placed. */
static uint64_t leaf_address(const struct weir_node *leaf, uint64_t bytes)
{
	struct weir_buf *member;
	uint64_t at;

	if (!leaf->t.buf ||
	    weir__buf_range(leaf->t.buf, leaf->t.offset, bytes, &member, &at))
		return 0;
	return (uintptr_t)member->mem.base + at;
}

static uint8_t why_of(const struct weir__passes *p,
		      const struct weir_node *node)
{
	uint32_t i = node->index;

	if (!p->reach.needed[i] && !(p->marks[i] & WEIR__MARK_INPUT))
		return WEIR_NODE_NOT_NEEDED;
	if (weir__node_file(node))
		return WEIR_NODE_IN_FILE;
	if (node->op == WEIR_OP_LEAF)
		return WEIR_NODE_PLACED;
	if (node->row->flags & WEIR__OP_WRITES)
		return WEIR_NODE_WRITES;
	if (node->row->flags & WEIR__OP_VIEWS)
		return WEIR_NODE_VIEWS;
	if (node->op == WEIR_OP_INPUT)
		return WEIR_NODE_KEPT;
	if (p->places.over[i] != WEIR__REACH_NONE)
		return WEIR_NODE_IN_PLACE;
	return WEIR_NODE_PLANNED;
}

/* Set the place of the class of a node, with the offset of its first byte. */
static void class_place(const struct weir__passes *p,
			const struct weir_node *storage,
			struct weir__placed_node *at)
{
	const struct weir_placement *placement = p->places.placement;
	uint32_t item = p->places.item[storage->index];

	if (storage->op == WEIR_OP_LEAF) {
		at->where = WEIR_NODE_LEAF;
		at->offset = leaf_address(storage, p->bytes[storage->index]);
	} else if (item != WEIR__REACH_NONE) {
		at->where = placement->place[item].memory % 2
				    ? WEIR_NODE_INPUTS
				    : WEIR_NODE_RESULTS;
		at->offset = placement->place[item].offset;
	}
}

/* The offset of the node's first byte in its class. */
static uint64_t begins_at(const struct weir_node *node)
{
	const struct weir_node *storage = node->storage;

	if (storage == node)
		return 0;
	return node->t.offset -
	       (storage->op == WEIR_OP_LEAF ? storage->t.offset : 0);
}

static int node_place(struct weir__compiled *cg, const struct weir__passes *p,
		      const struct weir_node *node)
{
	const struct weir_node *storage = node->storage;
	uint32_t i = node->index, class = storage->index;
	struct weir__placed_node *at = &cg->at[i];

	*at = (struct weir__placed_node){ .over = -1,
					  .step = p->sync.step[i],
					  .until = p->sync.until[class],
					  .why = why_of(p, node),
					  .lane = p->sync.lane[i],
					  .cause = p->assign.cause[i],
					  .computed = weir__is_computed(
						  &p->in, &p->reach, i) };
	if (at->why == WEIR_NODE_NOT_NEEDED)
		return 0;
	if (p->places.over[i] != WEIR__REACH_NONE)
		at->over = p->places.over[i];
	class_place(p, storage, at);
	if (at->where == WEIR_NODE_INPUTS)
		at->why = WEIR_NODE_KEPT;
	if (at->where != WEIR_NODE_RESULTS ||
	    p->reach.last[class] == WEIR__REACH_NONE)
		at->until = UINT32_MAX;
	if (at->where != WEIR_NODE_LEAF || at->offset)
		at->offset += begins_at(node);
	if (at->computed && storage->op == WEIR_OP_LEAF)
		cg->at[class].written = true;
	return weir__tensor_bytes(&node->t, &at->bytes);
}

static int port_add(struct weir__compiled *cg, const struct weir__passes *p,
		    const struct weir_node *node)
{
	struct weir__port *port = &cg->port[cg->n_ports];
	size_t length = node->t.name ? strlen(node->t.name) + 1 : 0;
	char *name = length ? weir__compiled_take(cg, length, 1) : NULL;

	if (length && !name)
		return weir__fail(-ENOMEM, "no memory for a name");
	if (length)
		memcpy(name, node->t.name, length);
	*port = (struct weir__port){ .node = node->index, .t = node->t };
	port->t.name = name;
	port->t.buf = NULL;
	if (node->op == WEIR_OP_INPUT)
		port->flags |= WEIR__PORT_INPUT;
	if (node->flags & WEIR_NODE_OUTPUT)
		port->flags |= WEIR__PORT_OUTPUT;
	if (p->reach.needed[node->index])
		port->flags |= WEIR__PORT_NEEDED;
	cg->n_ports++;
	return 0;
}

const struct weir__port *weir__port_find(const struct weir__compiled *cg,
					 uint64_t node)
{
	uint32_t lo = 0, hi = cg->n_ports;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (cg->port[mid].node < node)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < cg->n_ports && cg->port[lo].node == node ? &cg->port[lo]
							     : NULL;
}

struct weir__location weir__result_location(const struct weir__compiled *cg,
					    uint32_t i)
{
	const struct weir__placed_node *at = &cg->at[i];

	return (struct weir__location){ .offset = at->offset,
					.bytes = at->bytes,
					.device_copy = WEIR__REACH_NONE,
					.where = at->where,
					.lane = at->lane };
}

static struct weir__location source_location(const struct weir__compiled *cg,
					     const struct weir__passes *p,
					     uint32_t e)
{
	uint32_t node = p->in.src[e], device_copy = p->sync.device_copy_of[e];
	struct weir__location location = weir__result_location(cg, node);

	if (device_copy == WEIR__REACH_NONE)
		return location;
	location = cg->device_copy[device_copy].to;
	location.offset += begins_at(p->g->node[node]);
	location.bytes = cg->at[node].bytes;
	return location;
}

struct weir_buf *weir__location_buf(const struct weir__compiled *cg,
				    const struct weir__location *location,
				    uint32_t copy)
{
	const struct weir__graph_lane *lane = &cg->lane[location->lane];

	if (location->device_copy != WEIR__REACH_NONE)
		return NULL;
	return location->where == WEIR_NODE_INPUTS    ? lane->copy[copy].buf
	       : location->where == WEIR_NODE_RESULTS ? lane->results
						      : NULL;
}

/* The device that has the class in its memory; NULL: host memory has it. */
static struct weir__compiler_dev *source_dev(const struct weir__compiled *cg,
					     const struct weir_node *node)
{
	const struct weir_buft *buft =
		cg->lane[cg->at[node->index].lane].on->buft;
	uint32_t i;

	if (node->op == WEIR_OP_LEAF)
		buft = node->t.buf ? node->t.buf->buft : NULL;
	if (!buft || buft->desc.flags & WEIR_BUFT_HOST)
		return NULL;
	i = weir__compiler_dev_index(cg->compiler, buft->dev);
	return i < cg->compiler->n_devs ? &cg->compiler->dev[i] : NULL;
}

/*
 * The copier for a transfer: its stream is one of the device that has the bytes
 * or, if host memory has them, of the one that gets them.
 */
static uint32_t copier_of(struct weir__compiled *cg,
			  struct weir__compiler_dev *from,
			  struct weir__compiler_dev *to)
{
	struct weir__copier want = { .on = from ? from : to, .out = from };
	uint32_t c = 0;

	while (c < cg->n_copiers &&
	       (cg->copier[c].on != want.on || cg->copier[c].out != want.out))
		c++;
	if (c == cg->n_copiers)
		cg->copier[cg->n_copiers++] = want;
	return c;
}

static void device_copy_place(struct weir__compiled *cg,
			      const struct weir__passes *p, uint32_t k)
{
	const struct weir__device_copy *of = &p->sync.device_copy[k];
	const struct weir_node *node = p->g->node[of->node];
	struct weir__placed_copy *device_copy = &cg->device_copy[k];

	*device_copy = (struct weir__placed_copy){
		.of = *of,
		.from = weir__result_location(cg, of->node),
		.to = { .bytes = cg->at[of->node].bytes,
			.device_copy = k,
			.where = WEIR_NODE_INPUTS,
			.lane = of->lane }
	};
	if (of->kind == WEIR__DEVICE_COPY_IMPORT)
		return;
	device_copy->to.device_copy = WEIR__REACH_NONE;
	device_copy->to.offset =
		p->places.placement->place[p->places.device_copy[k]].offset;
	if (of->kind == WEIR__DEVICE_COPY_TRANSFER)
		device_copy->copier = copier_of(cg, source_dev(cg, node),
						cg->lane[of->lane].on);
}

/*
 * Sort transfers by the nodes that they come after: they wait in their streams,
 * so none may be behind one that waits for a later node.
 */
static int transfers_sort(struct weir__compiled *cg)
{
	struct {
		struct weir__sort_key key;
		uint64_t device_copy;
	} *list = weir__array_alloc((size_t)cg->n_device_copies + 1,
				    sizeof(*list));
	int r = list ? 0 : -ENOMEM;

	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++)
		if (cg->device_copy[k].of.kind == WEIR__DEVICE_COPY_TRANSFER) {
			list[cg->n_transfers].key.major =
				cg->device_copy[k].of.after;
			list[cg->n_transfers].key.minor = 0;
			list[cg->n_transfers++].device_copy = k;
		}
	if (r == 0)
		r = weir__sort(list, cg->n_transfers, sizeof(*list));
	for (uint32_t i = 0; i < cg->n_transfers && !r; i++)
		cg->transfer[i] = (uint32_t)list[i].device_copy;
	weir__array_free(list);
	return r < 0 ? weir__fail(r, "no memory for %u transfers",
				  cg->n_transfers)
		     : 0;
}

int weir__nodes_place(struct weir__compiled *cg, const struct weir__passes *p)
{
	int r = 0;

	for (uint32_t i = 0; i < cg->n && !r; i++) {
		const struct weir_node *node = p->g->node[i];

		r = node_place(cg, p, node);
		if (!r && (node->flags & WEIR__NODE_ASKED ||
			   node->op == WEIR_OP_INPUT))
			r = port_add(cg, p, node);
	}
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++)
		device_copy_place(cg, p, k);
	return r < 0 ? r : transfers_sort(cg);
}

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

/* Make a node with its name and parameters in the compiled graph's memory. */
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

int weir__nodes_make(struct weir__compiled *cg, const struct weir__passes *p,
		     struct weir__graph_lane *lane)
{
	const uint32_t *step = &p->sync.node[p->sync.step_at[lane - cg->lane]];
	struct weir__lane_copy *copy = &lane->copy[0];
	struct weir_operand *operand = lane->operand;
	struct weir__location *location = lane->location;
	int r = 0;

	for (uint32_t i = 0; i < lane->n_steps && !r; i++) {
		const struct weir_node *from = p->g->node[step[i]];
		uint32_t first = p->in.src_at[step[i]];

		r = node_make(cg, from, &copy->node[i], operand);
		copy->list[i] = &copy->node[i];
		operand += from->n_src;
		*location++ = weir__result_location(cg, step[i]);
		for (uint32_t s = 0; s < from->n_src; s++, location++)
			if (from->src[s])
				*location = source_location(cg, p, first + s);
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

/*
 * The address of a location. A joined buffer has several members, which are not
 * neighbours in memory.
 */
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
 * True if nothing else reads the import that has source 0 of @node: no other
 * node, and no other source of this one. Only locations in imports have a
 * device copy.
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

/* The reader of the node's source 0; NULL: none. @src: locations of sources. */
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

/* The bytes of the rows that get_rows needs; 0: it may need all rows. */
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

const char *weir__node_describe(const struct weir_backend_node *node,
				char text[WEIR__NODE_DESCRIBE_MAX])
{
	const char *op = weir__op_row(node->op)->name;
	unsigned long long i = node->index;

	if (node->name)
		snprintf(text, WEIR__NODE_DESCRIBE_MAX, "node %llu (%s '%s')",
			 i, op,
			 weir__quote(node->name, strnlen(node->name, 60)));
	else
		snprintf(text, WEIR__NODE_DESCRIBE_MAX, "node %llu (%s)", i,
			 op);
	return text;
}
