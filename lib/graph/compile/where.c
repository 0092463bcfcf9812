/* SPDX-License-Identifier: MIT */
/* Where the bytes of nodes are: places, ports, images. */
#include <string.h>

#include "core/error.h"
#include "core/sort.h"
#include "core/array.h"
#include "dev/dev.h"
#include "graph/ops.h"
#include "graph/compile/plan.h"
#include "graph/exec/sched.h"
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

static uint8_t why_of(const struct weir__draft *d, const struct weir_node *node)
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

/* Where the class of a node is; its offset is that of the class's first byte. */
static void class_place(const struct weir__draft *d,
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

static int node_place(struct weir__graph_plan *p, const struct weir__draft *d,
		      const struct weir_node *node)
{
	const struct weir_node *storage = node->storage;
	uint32_t i = node->index, class = storage->index;
	struct weir__node_at *at = &p->at[i];

	*at = (struct weir__node_at){ .step = d->order.step[i],
				      .until = d->order.until[class],
				      .why = why_of(d, node),
				      .lane = d->order.lane[i],
				      .cause = d->assign.cause[i],
				      .computed = weir__order_computes(
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
		p->at[class].written = true;
	return weir__tensor_bytes(&node->t, &at->bytes);
}

static int port_add(struct weir__graph_plan *p, const struct weir__draft *d,
		    const struct weir_node *node)
{
	struct weir__port *port = &p->port[p->n_ports];
	size_t length = node->t.name ? strlen(node->t.name) + 1 : 0;
	char *name = length ? weir__plan_take(p, length, 1) : NULL;

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
	p->n_ports++;
	return 0;
}

const struct weir__port *weir__port_find(const struct weir__graph_plan *p,
					 uint64_t node)
{
	uint32_t lo = 0, hi = p->n_ports;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (p->port[mid].node < node)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->n_ports && p->port[lo].node == node ? &p->port[lo]
							   : NULL;
}

struct weir__node_spot weir__result_spot(const struct weir__graph_plan *p,
					 uint32_t i)
{
	const struct weir__node_at *at = &p->at[i];

	return (struct weir__node_spot){ .offset = at->offset,
					 .bytes = at->bytes,
					 .image = WEIR__REACH_NONE,
					 .where = at->where,
					 .lane = at->lane };
}

struct weir__node_spot weir__source_spot(const struct weir__graph_plan *p,
					 const struct weir__draft *d,
					 uint32_t e)
{
	uint32_t node = d->in.src[e], image = d->order.image_of[e];
	struct weir__node_spot spot = weir__result_spot(p, node);

	if (image == WEIR__REACH_NONE)
		return spot;
	spot = p->image[image].to;
	spot.offset += begins_at(d->g->node[node]);
	spot.bytes = p->at[node].bytes;
	return spot;
}

struct weir_buf *weir__spot_buf(const struct weir__graph_plan *p,
				const struct weir__node_spot *spot,
				uint32_t copy)
{
	const struct weir__graph_lane *lane = &p->lane[spot->lane];

	if (spot->image != WEIR__REACH_NONE)
		return NULL;
	return spot->where == WEIR_NODE_INPUTS    ? lane->copy[copy].buf
	       : spot->where == WEIR_NODE_RESULTS ? lane->results
						  : NULL;
}

/* The device that has the class in its memory; NULL: it is in host memory. */
static struct weir__sched_dev *source_dev(const struct weir__graph_plan *p,
					  const struct weir_node *node)
{
	const struct weir_buft *buft =
		p->lane[p->at[node->index].lane].on->buft;
	uint32_t i;

	if (node->op == WEIR_OP_LEAF)
		buft = node->t.buf ? node->t.buf->buft : NULL;
	if (!buft || buft->desc.flags & WEIR_BUFT_HOST)
		return NULL;
	i = weir__sched_index(p->sched, buft->dev);
	return i < p->sched->n_devs ? &p->sched->dev[i] : NULL;
}

/* A stream of the device that has the bytes, or of the one that gets them. */
static uint32_t copier_of(struct weir__graph_plan *p,
			  struct weir__sched_dev *from,
			  struct weir__sched_dev *to)
{
	struct weir__copier want = { .on = from ? from : to, .out = from };
	uint32_t c = 0;

	while (c < p->n_copiers &&
	       (p->copier[c].on != want.on || p->copier[c].out != want.out))
		c++;
	if (c == p->n_copiers)
		p->copier[p->n_copiers++] = want;
	return c;
}

static void image_place(struct weir__graph_plan *p, const struct weir__draft *d,
			uint32_t k)
{
	const struct weir__image *of = &d->order.image[k];
	const struct weir_node *node = d->g->node[of->node];
	struct weir__copied *image = &p->image[k];

	*image = (struct weir__copied){ .of = *of,
					.from = weir__result_spot(p, of->node),
					.to = { .bytes = p->at[of->node].bytes,
						.image = k,
						.where = WEIR_NODE_INPUTS,
						.lane = of->lane } };
	if (of->kind == WEIR__IMAGE_IMPORT)
		return;
	image->to.image = WEIR__REACH_NONE;
	image->to.offset =
		d->places.placement->place[d->places.image[k]].offset;
	if (of->kind == WEIR__IMAGE_TRANSFER)
		image->copier =
			copier_of(p, source_dev(p, node), p->lane[of->lane].on);
}

/* Copies wait in their streams, so each comes after those of earlier nodes. */
static int transfers_sort(struct weir__graph_plan *p)
{
	struct {
		struct weir__sort_key key;
		uint64_t image;
	} *list = weir__array_alloc((size_t)p->n_images + 1, sizeof(*list));
	int r = list ? 0 : -ENOMEM;

	for (uint32_t k = 0; k < p->n_images && !r; k++)
		if (p->image[k].of.kind == WEIR__IMAGE_TRANSFER) {
			list[p->n_transfers].key.major = p->image[k].of.after;
			list[p->n_transfers].key.minor = 0;
			list[p->n_transfers++].image = k;
		}
	if (r == 0)
		r = weir__sort(list, p->n_transfers, sizeof(*list));
	for (uint32_t i = 0; i < p->n_transfers && !r; i++)
		p->transfer[i] = (uint32_t)list[i].image;
	weir__array_free(list);
	return r < 0 ? weir__fail(r, "no memory for %u transfers",
				  p->n_transfers)
		     : 0;
}

int weir__plan_where(struct weir__graph_plan *p, const struct weir__draft *d)
{
	int r = 0;

	for (uint32_t i = 0; i < p->n && !r; i++) {
		const struct weir_node *node = d->g->node[i];

		r = node_place(p, d, node);
		if (!r && (node->flags & WEIR__NODE_ASKED ||
			   node->op == WEIR_OP_INPUT))
			r = port_add(p, d, node);
	}
	for (uint32_t k = 0; k < p->n_images && !r; k++)
		image_place(p, d, k);
	return r < 0 ? r : transfers_sort(p);
}
