/* SPDX-License-Identifier: MIT */
#include "graph/compile/passes.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/ops.h"
#include "graph/compile/compiler.h"
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

/*
 * True if the node has nothing to compute. A write of nothing leaves its
 * destination, which need not be empty, as it is.
 */
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

/*
 * True if a prefetcher can read the leaf. Its stream belongs to the device that
 * it prefetches for, so it cannot read memory of another one.
 */
static bool prefetcher_reads(const struct weir_node *leaf)
{
	return !leaf->t.buf || leaf->t.buf->buft->desc.flags & WEIR_BUFT_HOST;
}

static uint8_t marks_of(const struct weir_node *node)
{
	uint8_t marks = 0;

	if (node->op == WEIR_OP_LEAF)
		marks |= WEIR__MARK_LEAF;
	else if (node->op == WEIR_OP_INPUT)
		marks |= WEIR__MARK_INPUT;
	if (node->flags & WEIR_NODE_OBSERVED)
		marks |= WEIR__MARK_OBSERVED;
	if (node->flags & WEIR_NODE_CONSTANT && prefetcher_reads(node))
		marks |= WEIR__MARK_CONSTANT;
	return marks;
}

/*
 * True if the result of @node, in the place of @src, would have each element
 * where @src has its own.
 */
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
 * True if the result may take the place of @src. If two sources share their
 * bytes, it must be allowed to take the place of both: one is still read when
 * elements of the result are already written.
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

static uint8_t in_place_sources(const struct weir_node *node)
{
	uint8_t in_place = 0;

	for (uint32_t s = 0; s < node->n_src && s < 8; s++)
		if (node->row->in_place & 1u << s && node->src[s] &&
		    may_take(node, node->src[s]))
			in_place |= (uint8_t)(1u << s);
	return in_place;
}

static int no_memory(const struct weir__passes *p)
{
	return weir__fail(-ENOMEM,
			  "no memory for an executable graph of %zu nodes",
			  p->g->n);
}

static int passes_alloc(struct weir__passes *p, uint8_t **ret_fits)
{
	size_t n = p->g->n + 1; /* never 0 */

	p->marks = weir__array_alloc(n, sizeof(*p->marks));
	p->bytes = weir__array_alloc(n, sizeof(*p->bytes));
	p->usable = weir__array_alloc(n, sizeof(*p->usable));
	*ret_fits = weir__array_alloc(n, sizeof(**ret_fits));
	return p->marks && p->bytes && p->usable && *ret_fits ? 0
							      : no_memory(p);
}

/*
 * The devices that can use the memory of a leaf: all, if it is not placed;
 * none, if it is in a file.
 */
static uint64_t devices_for(const struct weir__compiler *c,
			    const struct weir_node *leaf)
{
	uint64_t devs = 0;

	if (weir__node_file(leaf))
		return 0;
	if (!leaf->t.buf)
		return UINT64_MAX;
	for (uint32_t i = 0; i < c->n_devs; i++)
		if (weir__compiler_dev_can_use(&c->dev[i], leaf->t.buf->buft))
			devs |= UINT64_C(1) << i;
	return devs;
}

/* Set marks. Nodes with nothing to compute use no bytes, and need no order. */
static void passes_marks(struct weir__passes *p)
{
	for (size_t i = 0; i < p->g->n; i++) {
		const struct weir_node *node = p->g->node[i];

		p->marks[i] = marks_of(node);
		if (computes_nothing(node))
			p->in.flags[i] |= WEIR__REACH_NO_WORK;
		p->usable[i] = p->marks[i] & WEIR__MARK_LEAF
				       ? devices_for(p->compiler, node)
				       : 0;
	}
}

/*
 * Assign all nodes to the only device. Whether it has the operations is asked
 * later, by compiled.c.
 */
static int passes_one_device(struct weir__passes *p)
{
	size_t n = p->g->n + 1; /* never 0 */

	p->assign.dev = weir__array_alloc(n, sizeof(*p->assign.dev));
	p->assign.cause = weir__array_alloc(n, sizeof(*p->assign.cause));
	if (!p->assign.dev || !p->assign.cause)
		return no_memory(p);
	for (uint32_t i = 0; i < p->in.n; i++) {
		bool computed = weir__is_computed(&p->in, &p->reach, i);

		p->assign.dev[i] = 0;
		p->assign.cause[i] = computed ? WEIR_NODE_CAUSE_ONLY
					      : WEIR_NODE_CAUSE_NONE;
	}
	return 0;
}

static int passes_assign(struct weir__passes *p,
			 const struct weir__choice *choice)
{
	const struct weir__compiler *c = p->compiler;
	struct weir_dev *devs[WEIR__LANES];
	const struct weir__assign_in in = { .in = &p->in,
					    .reach = &p->reach,
					    .marks = p->marks,
					    .n_devs = c->n_devs,
					    .rates = choice->rates,
					    .shares = c->shares,
					    .usable = p->usable,
					    .pin = choice->pin };

	if (c->n_devs == 1)
		return passes_one_device(p);
	for (uint32_t i = 0; i < c->n_devs; i++)
		devs[i] = c->dev[i].dev;
	return weir__assign_graph(p->g, devs, &in, &p->assign);
}

static int passes_sync(struct weir__passes *p)
{
	const struct weir__sync_in in = { .in = &p->in,
					  .reach = &p->reach,
					  .marks = p->marks,
					  .dev = p->assign.dev,
					  .n_devs = p->compiler->n_devs,
					  .first = p->compiler->first,
					  .usable = p->usable,
					  .shares = p->compiler->shares };
	const struct weir_node *node;
	int r = weir__sync(&in, &p->sync);

	if (r < 0 || p->sync.refused == WEIR__REACH_NONE)
		return r;
	node = p->g->node[p->sync.refused];
	return weir__fail(
		-EOPNOTSUPP,
		"node %u (%s) writes leaf %s, whose memory %s cannot use",
		node->index, node->row->name,
		weir__tensor_describe(&node->storage->t, node->storage->index),
		p->compiler->dev[p->assign.dev[node->index]].dev->desc.name);
}

static struct weir_buft *lane_buft(const struct weir__passes *p, uint32_t lane)
{
	return p->compiler->dev[p->sync.lane_dev[lane]].buft;
}

static int passes_bytes(struct weir__passes *p)
{
	const struct weir__sync *o = &p->sync;
	int r = 0;

	p->device_copy_bytes = weir__array_alloc((size_t)o->n_device_copies + 1,
						 sizeof(*p->device_copy_bytes));
	p->sizes = weir__array_alloc(p->sync.n_lanes, sizeof(*p->sizes));
	if (!p->device_copy_bytes || !p->sizes)
		return weir__fail(-ENOMEM, "no memory for %u device copies",
				  o->n_device_copies);
	memset(p->sizes, 0, p->sync.n_lanes * sizeof(*p->sizes));
	for (uint32_t i = 0; i < p->in.n && !r; i++) {
		const struct weir_node *node = p->g->node[i];

		p->bytes[i] = 0;
		if (node->storage != node)
			continue;
		r = weir__buft_need(lane_buft(p, o->lane[i]), &node->t,
				    &p->bytes[i]);
	}
	for (uint32_t k = 0; k < o->n_device_copies && !r; k++)
		r = weir__buft_need(lane_buft(p, o->device_copy[k].lane),
				    &p->g->node[o->device_copy[k].node]->t,
				    &p->device_copy_bytes[k]);
	return r;
}

/* A needed leaf, to be sorted by where its bytes begin. */
struct needed_leaf {
	struct weir__sort_key key;
	uint64_t node;
};

/* The address of a leaf, or its offset in a file. */
static uint64_t leaf_at(const struct weir__passes *p, uint32_t i)
{
	const struct weir__in_file *in = weir__node_file(p->g->node[i]);

	return in ? in->offset : p->in.span[i].lo;
}

/*
 * True if two leaves, which begin at the same address or offset, have the same
 * bytes and one lane.
 */
static bool leaves_equal(const struct weir__passes *p, uint32_t a, uint32_t b)
{
	const struct weir__in_file *x = weir__node_file(p->g->node[a]);
	const struct weir__in_file *y = weir__node_file(p->g->node[b]);

	return (x ? x->file : NULL) == (y ? y->file : NULL) &&
	       p->bytes[a] == p->bytes[b] && p->sync.lane[a] == p->sync.lane[b];
}

/* Count the bytes of the leaves of each lane; equal leaves are counted once. */
static int passes_leaf_bytes(struct weir__passes *p)
{
	struct needed_leaf *list =
		weir__array_alloc((size_t)p->in.n + 1, sizeof(*list));
	uint32_t n = 0, first = 0;
	int r = list ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < p->in.n && !r; i++)
		if (p->g->node[i]->op == WEIR_OP_LEAF && p->reach.needed[i])
			list[n++] = (struct needed_leaf){
				.key = { leaf_at(p, i), i }, .node = i
			};
	if (r == 0)
		r = weir__sort(list, n, sizeof(*list));
	for (uint32_t k = 0; k < n && !r; k++) {
		uint32_t i = (uint32_t)list[k].node, j;

		if (list[k].key.major != list[first].key.major)
			first = k;
		for (j = first; !leaves_equal(p, (uint32_t)list[j].node, i);)
			j++;
		if (j == k)
			p->sizes[p->sync.lane[i]].leaves += p->bytes[i];
	}
	weir__array_free(list);
	return r < 0 ? weir__fail(r, "no memory for %u leaves", n) : 0;
}

static int lane_sizes(struct weir__passes *p, uint32_t l)
{
	const struct weir__placed *m = p->places.placement->memory;
	struct weir__lane_sizes *sizes = &p->sizes[l];
	uint32_t copies = p->compiler->copies;
	uint64_t all;

	sizes->results = m[WEIR__IN_RESULTS(l)].info.bytes;
	if (weir__mul_over(m[WEIR__IN_COPY(l)].info.bytes, copies,
			   &sizes->inputs) ||
	    weir__add_over(sizes->results, sizes->inputs, &all) ||
	    all > INT64_MAX)
		return weir__fail(
			-EOVERFLOW,
			"results, and inputs of %u copies, are over 2^63 - 1 bytes",
			copies);
	sizes->lowest = m[WEIR__IN_RESULTS(l)].info.bound;
	sizes->computed = p->sync.step_at[l + 1] - p->sync.step_at[l];
	return 0;
}

static int passes_sizes(struct weir__passes *p)
{
	int r = 0;

	for (uint32_t l = 0; l < p->sync.n_lanes && !r; l++)
		r = lane_sizes(p, l);
	for (uint32_t i = 0; i < p->in.n; i++)
		if (p->places.over[i] != WEIR__REACH_NONE)
			p->sizes[p->sync.lane[i]].in_place++;
	return r;
}

static int passes_place(struct weir__passes *p, uint8_t *in_place)
{
	struct weir_place_memory memory[2 * WEIR__LANES] = { 0 };
	const struct weir__place_in in = {
		.in = &p->in,
		.reach = &p->reach,
		.sync = &p->sync,
		.marks = p->marks,
		.bytes = p->bytes,
		.in_place = in_place,
		.device_copy_bytes = p->device_copy_bytes,
		.memory = memory,
		.time_ns = p->compiler->place_ns,
		.copies = p->compiler->copies > 1,
	};
	int r;

	for (uint32_t m = 0; m < 2 * p->sync.n_lanes; m++) {
		const struct weir_backend_buft *desc =
			&lane_buft(p, m / 2)->desc;

		memory[m].align = desc->align;
		memory[m].max = desc->max == SIZE_MAX ? 0 : desc->max;
	}
	for (size_t i = 0; i < p->g->n; i++)
		in_place[i] = in_place_sources(p->g->node[i]);
	r = weir__place_nodes(&in, &p->places);
	return r < 0 ? r : passes_sizes(p);
}

int weir__passes_run(const struct weir__compiler *compiler,
		     const struct weir_graph *g,
		     const struct weir__choice *choice,
		     struct weir__passes *ret)
{
	struct weir__passes p = { .g = g, .compiler = compiler };
	uint8_t *in_place = NULL;
	int r = weir__reach_graph(g, &p.in);

	if (r == 0)
		r = passes_alloc(&p, &in_place);
	if (r == 0) {
		for (uint32_t i = 0; i < compiler->n_devs; i++)
			p.in.device_copies |= compiler->shares[i] !=
					      compiler->shares[compiler->first];
		passes_marks(&p);
		r = weir__reach(&p.in, &p.reach);
	}
	if (r == 0)
		r = passes_assign(&p, choice);
	if (r == 0)
		r = passes_sync(&p);
	if (r == 0)
		r = passes_bytes(&p);
	if (r == 0)
		r = passes_leaf_bytes(&p);
	if (r == 0)
		r = passes_place(&p, in_place);
	weir__array_free(in_place);
	if (r < 0)
		weir__passes_free(&p);
	else
		*ret = p;
	return r;
}

void weir__passes_free(struct weir__passes *passes)
{
	weir__places_free(&passes->places);
	weir__sync_free(&passes->sync);
	weir__reach_free(&passes->reach);
	weir__reach_in_free(&passes->in);
	weir__array_free(passes->marks);
	weir__array_free(passes->bytes);
	weir__assign_free(&passes->assign);
	weir__array_free(passes->usable);
	weir__array_free(passes->device_copy_bytes);
	weir__array_free(passes->sizes);
	memset(passes, 0, sizeof(*passes));
}
