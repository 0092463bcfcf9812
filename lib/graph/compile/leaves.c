/* SPDX-License-Identifier: MIT */
/*
 * Check that lanes can use their leaves, and join leaves that are neighbours.
 */
#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "graph/compile/compiled.h"
#include "io/file.h"
#include "mem/buf.h"

/* Reads with a gap up to this are one range. */
#define GAP 4096u

static int check_placed(const struct weir_node *leaf)
{
	return leaf->t.buf
		       ? 0
		       : weir__fail(
				 -EINVAL,
				 "leaf %s is not placed, so it cannot be used",
				 weir__tensor_words(&leaf->t, leaf->index));
}

/* A leaf, to be sorted by address. */
struct spread {
	struct weir__sort_key key;
	struct weir_buf *buf; /* no joined one */
	uint64_t bytes;
	uint32_t node;
	uint32_t write;
};

static int spread_leaves(const struct weir__graph_lane *lane,
			 const struct weir_graph *g, struct spread *list)
{
	int r = 0;

	for (uint32_t i = 0; i < lane->n_leaves && !r; i++) {
		const struct weir_node *leaf = g->node[lane->leaf[i].node];
		struct spread *to = &list[i];
		uint64_t off = 0;

		r = check_placed(leaf);
		if (r == 0)
			r = weir__buf_range(leaf->t.buf, leaf->t.offset,
					    lane->leaf[i].bytes, &to->buf,
					    &off);
		if (r < 0)
			return r;
		to->key.major = (uintptr_t)to->buf->mem.base + off;
		to->key.minor = 0;
		to->bytes = lane->leaf[i].bytes;
		to->node = lane->leaf[i].node;
		to->write = lane->leaf[i].write;
	}
	return r;
}

/* Leaves are often neighbours: then @next becomes part of the range. */
static bool leaf_join(struct weir__leaf *leaf, const struct spread *first,
		      const struct spread *next)
{
	uint64_t begins = next->key.major - first->key.major;

	if (first->buf != next->buf || leaf->write != (next->write != 0) ||
	    begins > leaf->bytes + (leaf->write ? 0 : GAP))
		return false;
	if (begins + next->bytes > leaf->bytes)
		leaf->bytes = begins + next->bytes;
	return true;
}

static void join_leaves(struct weir__graph_lane *lane,
			const struct spread *list)
{
	const struct spread *first = list;
	uint32_t n = 0;

	for (uint32_t i = 0; i < lane->n_leaves; i++) {
		const struct spread *next = &list[i];

		if (n && leaf_join(&lane->leaf[n - 1], first, next))
			continue;
		first = next;
		lane->leaf[n++] =
			(struct weir__leaf){ .node = next->node,
					     .write = next->write != 0,
					     .bytes = next->bytes };
	}
	lane->n_leaves = n;
}

static int lane_join(struct weir__graph_lane *lane, const struct weir_graph *g)
{
	struct spread *list =
		weir__array_alloc(lane->n_leaves + (size_t)1, sizeof(*list));
	int r = -ENOMEM;

	if (list)
		r = spread_leaves(lane, g, list);
	if (list && r == 0)
		r = weir__sort(list, lane->n_leaves, sizeof(*list));
	if (r == 0)
		join_leaves(lane, list);
	weir__array_free(list);
	return r == -ENOMEM ? weir__fail(r, "no memory for %u leaves",
					 lane->n_leaves)
			    : r;
}

/* A leaf that the lane cannot use where it is. */
static int check_device_copy(const struct weir__compiled *cg,
			     const struct weir_node *leaf,
			     const struct weir__device_copy *device_copy)
{
	const struct weir_dev *on = cg->lane[device_copy->lane].on->dev, *of;
	const struct weir__in_file *in = weir__node_file(leaf);
	const char *words = weir__tensor_words(&leaf->t, leaf->index);
	int r;

	if (in)
		return in->file->weir == cg->compiler->dev[0].dev->weir
			       ? 0
			       : weir__fail(
					 -EINVAL,
					 "leaf %s: %s is a file of another root",
					 words, in->file->base);
	r = check_placed(leaf);
	if (r < 0)
		return r;
	of = leaf->t.buf->buft->dev;
	if (weir__compiler_dev_index(cg->compiler, of) < cg->compiler->n_devs ||
	    (device_copy->kind == WEIR__DEVICE_COPY_IMPORT &&
	     leaf->t.buf->buft->desc.flags & WEIR_BUFT_HOST))
		return 0;
	return weir__fail(-EINVAL, "leaf %s is in memory of %s, %s computes",
			  words, of->desc.name, on->desc.name);
}

int weir__leaves_join(struct weir__compiled *cg, const struct weir_graph *g)
{
	int r = 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		r = lane_join(&cg->lane[l], g);
		cg->n_leaves += cg->lane[l].n_leaves;
	}
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++) {
		const struct weir__device_copy *device_copy =
			&cg->device_copy[k].of;
		const struct weir_node *node = g->node[device_copy->node];

		if (node->op == WEIR_OP_LEAF)
			r = check_device_copy(cg, node, device_copy);
	}
	return r;
}
