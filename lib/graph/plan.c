/* SPDX-License-Identifier: MIT */
#include "graph/plan.h"

#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "graph/ops.h"
#include "graph/sched.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "place/placement.h"
#include "place/tensors.h"

/* @n entries of @size bytes; never NULL for want of entries. */
static void *plan_take(struct weir__graph_plan *p, size_t n, size_t size)
{
	return weir__bump_take(&p->memory, n * size + !n);
}

static uint32_t count_ports(const struct weir_graph *g)
{
	uint32_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += g->node[i]->flags & WEIR__NODE_ASKED ||
		     g->node[i]->op == WEIR_OP_INPUT;
	return n;
}

static int plan_arrays(struct weir__graph_plan *p, const struct weir__draft *d)
{
	size_t copies = p->n_copies;

	p->n = (uint32_t)d->g->n;
	p->n_steps = d->order.n;
	p->n_gates = d->order.n_gates;
	for (uint32_t i = 0; i < p->n_steps; i++)
		p->n_operands += d->g->node[d->order.node[i]]->n_src;
	p->at = plan_take(p, p->n, sizeof(*p->at));
	p->gate = plan_take(p, p->n_gates, sizeof(*p->gate));
	p->port = plan_take(p, count_ports(d->g), sizeof(*p->port));
	p->leaf = plan_take(p, p->n_gates, sizeof(*p->leaf));
	p->copy = plan_take(p, copies, sizeof(*p->copy));
	p->operand = plan_take(p, copies * p->n_operands, sizeof(*p->operand));
	/* weir__graph_plan_free() reads the copies after any failure. */
	if (p->copy)
		memset(p->copy, 0, copies * sizeof(*p->copy));
	if (!p->at || !p->gate || !p->port || !p->leaf || !p->copy ||
	    !p->operand)
		goto out;
	memcpy(p->gate, d->order.gate, p->n_gates * sizeof(*p->gate));
	for (size_t c = 0; c < copies; c++) {
		struct weir__copy *copy = &p->copy[c];

		copy->node = plan_take(p, p->n_steps, sizeof(*copy->node));
		copy->list = plan_take(p, p->n_steps, sizeof(*copy->list));
		if (!copy->node || !copy->list)
			goto out;
	}
	return 0;
out:
	return weir__fail(-ENOMEM, "no memory for a schedule of %u nodes",
			  p->n);
}

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
		at->where = p->place[item].memory == WEIR__IN_COPY
				    ? WEIR_NODE_INPUTS
				    : WEIR_NODE_RESULTS;
		at->offset = p->place[item].offset;
	}
}

static int node_place(struct weir__graph_plan *p, const struct weir__draft *d,
		      const struct weir_node *node)
{
	const struct weir_node *storage = node->storage;
	uint32_t i = node->index, class = storage->index;
	struct weir__node_at *at = &p->at[i];

	*at = (struct weir__node_at){ .step = d->order.step[i],
				      .until = d->order.until[class],
				      .why = why_of(d, node) };
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
	if (storage != node && (at->where != WEIR_NODE_LEAF || at->offset))
		at->offset +=
			node->t.offset -
			(storage->op == WEIR_OP_LEAF ? storage->t.offset : 0);
	return weir__tensor_bytes(&node->t, &at->bytes);
}

static int port_add(struct weir__graph_plan *p, const struct weir__draft *d,
		    const struct weir_node *node)
{
	struct weir__port *port = &p->port[p->n_ports];
	size_t length = node->t.name ? strlen(node->t.name) + 1 : 0;
	char *name = length ? plan_take(p, length, 1) : NULL;

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

/* Leaves that a run uses. A write's storage is the leaf. */
static void plan_leaves(struct weir__graph_plan *p, const struct weir__draft *d)
{
	for (uint32_t i = 0; i < p->n_steps; i++) {
		uint32_t node = d->order.node[i];

		p->at[node].computed = true;
		p->at[d->g->node[node]->storage->index].written = true;
	}
	for (uint32_t i = 0; i < p->n; i++)
		if (d->marks[i] & WEIR__MARK_LEAF && d->order.until[i])
			p->leaf[p->n_leaves++] =
				(struct weir__leaf){ .node = i,
						     .write = p->at[i].written,
						     .bytes = p->at[i].bytes };
}

static int plan_nodes(struct weir__graph_plan *p, const struct weir__draft *d)
{
	int r = plan_arrays(p, d);

	for (uint32_t i = 0; i < p->n && !r; i++) {
		const struct weir_node *node = d->g->node[i];

		r = node_place(p, d, node);
		if (!r && (node->flags & WEIR__NODE_ASKED ||
			   node->op == WEIR_OP_INPUT))
			r = port_add(p, d, node);
	}
	if (r < 0)
		return r;
	plan_leaves(p, d);
	r = weir__nodes_make(p, d);
	return r < 0 ? r : weir__nodes_address(p, d->g, 0);
}

static int check_nodes(const struct weir__graph_plan *p)
{
	const struct weir_sched *s = p->sched;
	char words[WEIR__NODE_WORDS];

	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct weir__node *node = p->copy[0].list[i];
		int r = weir__dev_result(s->dev, "compute->supports",
					 s->compute->supports(s->dev, node));

		if (r < 0)
			return weir__fail_for(r, "%s",
					      weir__node_words(node, words));
	}
	return 0;
}

static const struct weir__prepare_opts prepare_opts = { .size = sizeof(
								prepare_opts) };

/* What the device says of the workspace before anything is allocated. */
static int plan_workspace(struct weir__graph_plan *p)
{
	const struct weir_sched *s = p->sched;
	size_t workspace = 0;
	int r;

	if (!s->compute->measure || !p->n_steps)
		return 0;
	r = s->compute->measure(s->dev, p->copy[0].list, p->n_steps,
				&prepare_opts, &workspace);
	p->sizes.workspace = workspace;
	return weir__dev_result(s->dev, "compute->measure", r);
}

/* All that is found without allocating memory of the device. */
static int plan_draw(struct weir__graph_plan *p, const struct weir_graph *g)
{
	struct weir__draft d;
	int r = weir__draft(g, p->sched->buft, p->n_copies, &d);

	if (r < 0)
		return r;
	p->sizes = d.sizes;
	r = plan_nodes(p, &d);
	p->placement = d.places.placement;
	d.places.placement = NULL;
	weir__draft_free(&d);
	if (r == 0)
		r = check_nodes(p);
	return r < 0 ? r : plan_workspace(p);
}

static int plan_alloc(struct weir_sched *sched, const struct weir_graph *g,
		      struct weir__graph_plan **ret)
{
	struct weir__graph_plan *p;
	int r = weir_graph_error(g, NULL);

	if (r < 0)
		return r;
	p = weir__calloc(1, sizeof(*p));
	if (!p)
		return weir__fail(-ENOMEM, "no memory for a schedule");
	p->sched = sched;
	p->n_copies = sched->opts.copies;
	pthread_mutex_init(&p->run_lock, NULL);
	r = plan_draw(p, g);
	if (r < 0)
		weir__graph_plan_free(p);
	else
		*ret = p;
	return r;
}

static int plan_reserve(struct weir__graph_plan *p, uint64_t bytes)
{
	int r = weir__sched_reserve(p->sched, bytes);

	if (r == 0)
		p->reserved += bytes;
	return r;
}

static int memory_alloc(struct weir__graph_plan *p, unsigned memory,
			struct weir_buf **ret)
{
	const struct weir__placed *placed = &p->placement->memory[memory];

	if (!placed->info.bytes)
		return 0;
	return weir__members_alloc(p->sched->buft, placed->member,
				   placed->info.members, WEIR_USAGE_COMPUTE,
				   ret);
}

static int plan_memory(struct weir__graph_plan *p)
{
	int r = memory_alloc(p, WEIR__IN_RESULTS, &p->results);

	for (uint32_t c = 0; c < p->n_copies && !r; c++)
		r = memory_alloc(p, WEIR__IN_COPY, &p->copy[c].buf);
	return r;
}

static int copy_prepare(struct weir__graph_plan *p, struct weir__copy *copy,
			size_t *ret_workspace)
{
	const struct weir_sched *s = p->sched;

	*ret_workspace = 0;
	if (!p->n_steps)
		return 0;
	return weir__dev_result(s->dev, "compute->prepare",
				s->compute->prepare(s->dev, copy->list,
						    p->n_steps, &prepare_opts,
						    &copy->prepared,
						    ret_workspace));
}

/* Runs use the workspace one after another, as they do the results. */
static int plan_prepare(struct weir__graph_plan *p, const struct weir_graph *g)
{
	uint64_t most = 0, said = p->sizes.workspace;
	size_t workspace;
	int r = weir__nodes_copy(p);

	for (uint32_t c = 0; c < p->n_copies && !r; c++) {
		r = weir__nodes_address(p, g, c);
		if (r == 0)
			r = copy_prepare(p, &p->copy[c], &workspace);
		if (r == 0 && workspace > most)
			most = workspace;
	}
	if (r < 0)
		return r;
	p->sizes.workspace = most;
	if (most > said)
		r = plan_reserve(p, most - said);
	if (r == 0 && most)
		r = weir__buf_alloc(p->sched->buft, most, NULL, &p->workspace);
	return r;
}

int weir__graph_plan_new(struct weir_sched *sched, const struct weir_graph *g,
			 struct weir__graph_plan **ret)
{
	struct weir__graph_plan *p;
	int r = plan_alloc(sched, g, &p);

	if (r < 0)
		return r;
	r = weir__leaves_join(p, g);
	if (r == 0)
		r = weir_graph_fingerprint(g, p->fingerprint);
	if (r == 0)
		r = plan_reserve(p, p->sizes.results + p->sizes.inputs +
					    p->sizes.workspace);
	if (r == 0)
		r = plan_memory(p);
	if (r == 0)
		r = plan_prepare(p, g);
	if (r < 0) {
		weir__graph_plan_free(p);
		return r;
	}
	p->refs = 1;
	*ret = p;
	return 0;
}

int weir__graph_plan_measure(struct weir_sched *sched,
			     const struct weir_graph *g,
			     struct weir__sizes *ret)
{
	struct weir__graph_plan *p;
	int r = plan_alloc(sched, g, &p);

	if (r < 0)
		return r;
	*ret = p->sizes;
	weir__graph_plan_free(p);
	return 0;
}

void weir__graph_plan_free(struct weir__graph_plan *p)
{
	for (uint32_t c = 0; p->copy && c < p->n_copies; c++) {
		if (p->copy[c].prepared)
			p->sched->compute->release(p->sched->dev,
						   p->copy[c].prepared);
		weir_buf_free(p->copy[c].buf);
	}
	weir_buf_free(p->results);
	weir_buf_free(p->workspace);
	if (p->last)
		weir__source_put(p->last);
	weir__sched_unreserve(p->sched, p->reserved);
	weir_placement_free(p->placement);
	pthread_mutex_destroy(&p->run_lock);
	weir__bump_free(&p->memory);
	weir__free(p);
}
