/* SPDX-License-Identifier: MIT */
/* Where the bytes of nodes are: places, ports, device copies. */
#include <string.h>

#include "core/error.h"
#include "core/sort.h"
#include "core/array.h"
#include "dev/dev.h"
#include "graph/ops.h"
#include "graph/compile/compiled.h"
#include "mem/buf.h"
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

static uint8_t why_of(const struct weir__passes *d,
		      const struct weir_node *node)
{
	uint32_t i = node->index;

	if (!d->reach.needed[i] && !(d->marks[i] & WEIR__MARK_INPUT))
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
	if (d->places.over[i] != WEIR__REACH_NONE)
		return WEIR_NODE_IN_PLACE;
	return WEIR_NODE_PLANNED;
}

/*
 * Where the class of a node is; its offset is that of the class's first byte.
 */
static void class_place(const struct weir__passes *d,
			const struct weir_node *storage,
			struct weir__node_at *at)
{
	const struct weir_placement *p = d->places.placement;
	uint32_t item = d->places.item[storage->index];

	if (storage->op == WEIR_OP_LEAF) {
		at->where = WEIR_NODE_LEAF;
		at->offset = leaf_address(storage, d->bytes[storage->index]);
	} else if (item != WEIR__REACH_NONE) {
		at->where = p->place[item].memory % 2 ? WEIR_NODE_INPUTS
						      : WEIR_NODE_RESULTS;
		at->offset = p->place[item].offset;
	}
}

/* The first byte of the node in its class. */
static uint64_t begins_at(const struct weir_node *node)
{
	const struct weir_node *storage = node->storage;

	if (storage == node)
		return 0;
	return node->t.offset -
	       (storage->op == WEIR_OP_LEAF ? storage->t.offset : 0);
}

static int node_place(struct weir__compiled *cg, const struct weir__passes *d,
		      const struct weir_node *node)
{
	const struct weir_node *storage = node->storage;
	uint32_t i = node->index, class = storage->index;
	struct weir__node_at *at = &cg->at[i];

	*at = (struct weir__node_at){ .step = d->sync.step[i],
				      .until = d->sync.until[class],
				      .why = why_of(d, node),
				      .lane = d->sync.lane[i],
				      .cause = d->assign.cause[i],
				      .computed = weir__is_computed(
					      &d->in, &d->reach, i) };
	if (at->why == WEIR_NODE_NOT_NEEDED)
		return 0;
	if (d->places.over[i] != WEIR__REACH_NONE)
		at->over = 1 + d->places.over[i];
	class_place(d, storage, at);
	if (at->where == WEIR_NODE_INPUTS)
		at->why = WEIR_NODE_KEPT;
	if (at->where != WEIR_NODE_RESULTS ||
	    d->reach.last[class] == WEIR__REACH_NONE)
		at->until = UINT32_MAX;
	if (at->where != WEIR_NODE_LEAF || at->offset)
		at->offset += begins_at(node);
	if (at->computed && storage->op == WEIR_OP_LEAF)
		cg->at[class].written = true;
	return weir__tensor_bytes(&node->t, &at->bytes);
}

static int port_add(struct weir__compiled *cg, const struct weir__passes *d,
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
	if (d->reach.needed[node->index])
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
	const struct weir__node_at *at = &cg->at[i];

	return (struct weir__location){ .offset = at->offset,
					.bytes = at->bytes,
					.device_copy = WEIR__REACH_NONE,
					.where = at->where,
					.lane = at->lane };
}

struct weir__location weir__source_location(const struct weir__compiled *cg,
					    const struct weir__passes *d,
					    uint32_t e)
{
	uint32_t node = d->in.src[e], device_copy = d->sync.device_copy_of[e];
	struct weir__location location = weir__result_location(cg, node);

	if (device_copy == WEIR__REACH_NONE)
		return location;
	location = cg->device_copy[device_copy].to;
	location.offset += begins_at(d->g->node[node]);
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

/* The device that has the class in its memory; NULL: it is in host memory. */
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

/* A stream of the device that has the bytes, or of the one that gets them. */
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
			      const struct weir__passes *d, uint32_t k)
{
	const struct weir__device_copy *of = &d->sync.device_copy[k];
	const struct weir_node *node = d->g->node[of->node];
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
		d->places.placement->place[d->places.device_copy[k]].offset;
	if (of->kind == WEIR__DEVICE_COPY_TRANSFER)
		device_copy->copier = copier_of(cg, source_dev(cg, node),
						cg->lane[of->lane].on);
}

/* Copies wait in their streams, so each comes after those of earlier nodes. */
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

int weir__compiled_where(struct weir__compiled *cg,
			 const struct weir__passes *d)
{
	int r = 0;

	for (uint32_t i = 0; i < cg->n && !r; i++) {
		const struct weir_node *node = d->g->node[i];

		r = node_place(cg, d, node);
		if (!r && (node->flags & WEIR__NODE_ASKED ||
			   node->op == WEIR_OP_INPUT))
			r = port_add(cg, d, node);
	}
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++)
		device_copy_place(cg, d, k);
	return r < 0 ? r : transfers_sort(cg);
}
