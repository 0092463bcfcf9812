/* SPDX-License-Identifier: MIT */
#include "graph/compile/plan.h"

#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "graph/ops.h"
#include "graph/exec/sched.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "place/placement.h"
#include "place/tensors.h"

void *weir__plan_take(struct weir__graph_plan *p, size_t n, size_t size)
{
	return weir__bump_take(&p->memory, n * size + !n);
}

/* The same, all 0. */
static void *plan_zeroed(struct weir__graph_plan *p, size_t n, size_t size)
{
	void *array = weir__plan_take(p, n, size);

	return array ? memset(array, 0, n * size) : NULL;
}

static uint32_t count_ports(const struct weir_graph *g)
{
	uint32_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += g->node[i]->flags & WEIR__NODE_ASKED ||
		     g->node[i]->op == WEIR_OP_INPUT;
	return n;
}

static int no_memory(const struct weir__graph_plan *p)
{
	return weir__fail(-ENOMEM, "no memory for a schedule of %u nodes",
			  p->n);
}

static int lane_arrays(struct weir__graph_plan *p, const struct weir__draft *d,
		       uint32_t l)
{
	const struct weir__order *o = &d->order;
	struct weir__graph_lane *lane = &p->lane[l];
	size_t spots;

	lane->on = &p->sched->dev[o->lane_dev[l]];
	lane->n_steps = o->step_at[l + 1] - o->step_at[l];
	lane->n_gates = o->gate_at[l + 1] - o->gate_at[l];
	lane->gate = &p->gate[o->gate_at[l]];
	lane->leaf = &p->leaf[o->gate_at[l]];
	lane->sizes = d->sizes[l];
	for (uint32_t i = o->step_at[l]; i < o->step_at[l + 1]; i++)
		lane->n_operands += d->g->node[o->node[i]]->n_src;
	spots = lane->n_operands + lane->n_steps;
	lane->spot = weir__plan_take(p, spots, sizeof(*lane->spot));
	lane->operand = weir__plan_take(p, p->n_copies * lane->n_operands,
					sizeof(*lane->operand));
	lane->copy = plan_zeroed(p, p->n_copies, sizeof(*lane->copy));
	if (!lane->spot || !lane->operand || !lane->copy)
		return no_memory(p);
	memset(lane->spot, 0, spots * sizeof(*lane->spot));
	for (size_t c = 0; c < p->n_copies; c++) {
		struct weir__lane_copy *copy = &lane->copy[c];

		copy->node =
			weir__plan_take(p, lane->n_steps, sizeof(*copy->node));
		copy->list =
			weir__plan_take(p, lane->n_steps, sizeof(*copy->list));
		if (!copy->node || !copy->list)
			return no_memory(p);
	}
	return 0;
}

static int plan_arrays(struct weir__graph_plan *p, const struct weir__draft *d)
{
	const struct weir__order *o = &d->order;
	size_t waits = (size_t)o->n_images * o->n_lanes;
	int r = 0;

	p->n = (uint32_t)d->g->n;
	p->n_gates = o->n_gates;
	p->n_images = o->n_images;
	p->shared = o->shared;
	p->lane = plan_zeroed(p, o->n_lanes, sizeof(*p->lane));
	p->at = weir__plan_take(p, p->n, sizeof(*p->at));
	p->gate = weir__plan_take(p, p->n_gates, sizeof(*p->gate));
	p->leaf = weir__plan_take(p, p->n_gates, sizeof(*p->leaf));
	p->port = weir__plan_take(p, count_ports(d->g), sizeof(*p->port));
	p->image = weir__plan_take(p, p->n_images, sizeof(*p->image));
	p->wait = weir__plan_take(p, waits, sizeof(*p->wait));
	p->transfer = weir__plan_take(p, p->n_images, sizeof(*p->transfer));
	p->copier = weir__plan_take(p, 2 * (size_t)p->sched->n_devs,
				    sizeof(*p->copier));
	p->reserved = plan_zeroed(p, p->sched->n_devs, sizeof(*p->reserved));
	p->taken = plan_zeroed(p, p->n_copies, sizeof(*p->taken));
	if (!p->lane || !p->at || !p->gate || !p->leaf || !p->port ||
	    !p->image || !p->wait || !p->transfer || !p->copier ||
	    !p->reserved || !p->taken)
		return no_memory(p);
	memcpy(p->gate, o->gate, p->n_gates * sizeof(*p->gate));
	if (waits)
		memcpy(p->wait, o->wait, waits * sizeof(*p->wait));
	for (; p->n_lanes < o->n_lanes && !r; p->n_lanes++)
		r = lane_arrays(p, d, p->n_lanes);
	return r;
}

/* The leaves that the lane uses where they are: those with a gate. */
static void lane_leaves(struct weir__graph_plan *p,
			struct weir__graph_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_gates; i++) {
		const struct weir__gate *gate = &lane->gate[i];

		if (gate->kind != WEIR__GATE_LEAF)
			continue;
		lane->leaf[lane->n_leaves++] =
			(struct weir__leaf){ .node = gate->of,
					     .write = gate->writes,
					     .bytes = p->at[gate->of].bytes };
	}
}

/* The lanes whose planned memory the lane uses. */
static void lane_reads(struct weir__graph_lane *lane)
{
	size_t spots = lane->n_operands + lane->n_steps;

	for (size_t i = 0; i < spots; i++)
		if (lane->spot[i].lane != WEIR__NO_LANE &&
		    lane->spot[i].where != WEIR_NODE_LEAF)
			lane->reads |= UINT64_C(1) << lane->spot[i].lane;
}

static int plan_nodes(struct weir__graph_plan *p, const struct weir__draft *d)
{
	int r = plan_arrays(p, d);

	if (r == 0)
		r = weir__plan_where(p, d);
	for (uint32_t l = 0; l < p->n_lanes && !r; l++) {
		lane_leaves(p, &p->lane[l]);
		r = weir__nodes_make(p, d, &p->lane[l]);
		if (r == 0) {
			lane_reads(&p->lane[l]);
			r = weir__nodes_address(p, &p->lane[l], 0);
		}
	}
	return r < 0 ? r : weir__plan_splits(p, d);
}

static int check_nodes(const struct weir__graph_lane *lane)
{
	const struct weir__sched_dev *on = lane->on;
	char words[WEIR__NODE_WORDS];

	for (uint32_t i = 0; i < lane->n_steps; i++) {
		const struct weir_backend_node *node = lane->copy[0].list[i];
		int r = weir__dev_result(on->dev, "compute->supports",
					 on->compute->supports(on->dev, node));

		if (r < 0)
			return weir__fail_for(r, "%s",
					      weir__node_words(node, words));
	}
	return 0;
}

static const struct weir_backend_prepare_opts prepare_opts = {
	.size = sizeof(prepare_opts)
};

/* What the device says of the workspace before anything is allocated. */
static int lane_workspace(struct weir__graph_lane *lane)
{
	const struct weir__sched_dev *on = lane->on;
	size_t workspace = 0;
	int r;

	if (!on->compute->measure || !lane->n_steps)
		return 0;
	r = on->compute->measure(on->dev, lane->copy[0].list, lane->n_steps,
				 &prepare_opts, &workspace);
	lane->sizes.workspace = workspace;
	return weir__dev_result(on->dev, "compute->measure", r);
}

/* All that is found without allocating memory of a device. */
static int plan_draw(struct weir__graph_plan *p, const struct weir_graph *g,
		     const struct weir__choice *choice)
{
	struct weir__draft d;
	int r = weir__draft(p->sched, g, choice, &d);

	if (r < 0)
		return r;
	r = plan_nodes(p, &d);
	p->placement = d.places.placement;
	d.places.placement = NULL;
	weir__draft_free(&d);
	for (uint32_t l = 0; l < p->n_lanes && !r; l++) {
		r = check_nodes(&p->lane[l]);
		if (r == 0)
			r = lane_workspace(&p->lane[l]);
	}
	return r;
}

static int plan_alloc(struct weir_sched *sched, const struct weir_graph *g,
		      const struct weir__choice *choice,
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
	p->key = choice->key;
	r = plan_draw(p, g, choice);
	if (r < 0)
		weir__graph_plan_free(p);
	else
		*ret = p;
	return r;
}

/* bytes[i] more of the budget of each device i. */
static int bytes_reserve(struct weir__graph_plan *p, const uint64_t *bytes)
{
	int r = weir__sched_reserve(p->sched, bytes);

	for (uint32_t i = 0; i < p->sched->n_devs && !r; i++)
		p->reserved[i] += bytes[i];
	return r;
}

/* All lanes at once: a budget that all devices share is checked for the sum. */
static int plan_reserve(struct weir__graph_plan *p)
{
	uint64_t bytes[WEIR__LANES] = { 0 };

	for (uint32_t l = 0; l < p->n_lanes; l++) {
		const struct weir__graph_lane *lane = &p->lane[l];

		bytes[lane->on - p->sched->dev] = lane->sizes.results +
						  lane->sizes.inputs +
						  lane->sizes.workspace;
	}
	return bytes_reserve(p, bytes);
}

static int memory_alloc(struct weir__graph_plan *p,
			const struct weir__graph_lane *lane, uint32_t memory,
			struct weir_buf **ret)
{
	const struct weir__placed *placed = &p->placement->memory[memory];

	if (!placed->info.bytes)
		return 0;
	return weir__members_alloc(lane->on->buft, placed->member,
				   placed->info.members, WEIR_USAGE_COMPUTE,
				   ret);
}

static int lane_memory(struct weir__graph_plan *p,
		       struct weir__graph_lane *lane)
{
	uint32_t l = (uint32_t)(lane - p->lane);
	int r = memory_alloc(p, lane, WEIR__IN_RESULTS(l), &lane->results);

	for (uint32_t c = 0; c < p->n_copies && !r; c++)
		r = memory_alloc(p, lane, WEIR__IN_COPY(l), &lane->copy[c].buf);
	return r;
}

static int copy_prepare(const struct weir__graph_lane *lane,
			struct weir__lane_copy *copy, size_t *ret_workspace)
{
	const struct weir__sched_dev *on = lane->on;

	*ret_workspace = 0;
	if (!lane->n_steps)
		return 0;
	return weir__dev_result(
		on->dev, "compute->prepare",
		on->compute->prepare(on->dev, copy->list, lane->n_steps,
				     &prepare_opts, &copy->prepared,
				     ret_workspace));
}

/* Runs use the workspace one after another, as they do the results. */
static int lane_prepare(struct weir__graph_plan *p,
			struct weir__graph_lane *lane)
{
	uint64_t more[WEIR__LANES] = { 0 };
	uint64_t most = 0, said = lane->sizes.workspace;
	size_t workspace;
	int r = 0;

	weir__nodes_copy(p, lane);
	for (uint32_t c = 0; c < p->n_copies && !r; c++) {
		r = weir__nodes_address(p, lane, c);
		if (r == 0)
			r = copy_prepare(lane, &lane->copy[c], &workspace);
		if (r == 0 && workspace > most)
			most = workspace;
	}
	if (r < 0)
		return r;
	lane->sizes.workspace = most;
	if (most > said) {
		more[lane->on - p->sched->dev] = most - said;
		r = bytes_reserve(p, more);
	}
	if (r == 0 && most)
		r = weir__buf_alloc(lane->on->buft, most, NULL,
				    &lane->workspace);
	return r;
}

int weir__graph_plan_new(struct weir_sched *sched, const struct weir_graph *g,
			 const struct weir__choice *choice,
			 struct weir__graph_plan **ret)
{
	struct weir__graph_plan *p;
	int r = plan_alloc(sched, g, choice, &p);

	if (r < 0)
		return r;
	r = weir__leaves_join(p, g);
	if (r == 0)
		r = weir_graph_fingerprint(g, p->fingerprint);
	if (r == 0)
		r = plan_reserve(p);
	if (r == 0)
		r = weir__plan_imports(p, g);
	/* All memory first: lanes read that of others. */
	for (uint32_t l = 0; l < p->n_lanes && !r; l++)
		r = lane_memory(p, &p->lane[l]);
	for (uint32_t l = 0; l < p->n_lanes && !r; l++)
		r = lane_prepare(p, &p->lane[l]);
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
			     const struct weir__choice *choice,
			     struct weir__sizes *ret)
{
	struct weir__graph_plan *p;
	int r = plan_alloc(sched, g, choice, &p);

	if (r < 0)
		return r;
	r = weir__plan_imports_measure(p, g);
	memset(ret, 0, sched->n_devs * sizeof(*ret));
	for (uint32_t l = 0; l < p->n_lanes; l++)
		ret[p->lane[l].on - sched->dev] = p->lane[l].sizes;
	weir__graph_plan_free(p);
	return r;
}

static void lane_free(const struct weir__graph_plan *p,
		      struct weir__graph_lane *lane)
{
	for (uint32_t c = 0; lane->copy && c < p->n_copies; c++) {
		if (lane->copy[c].prepared)
			lane->on->compute->release(lane->on->dev,
						   lane->copy[c].prepared);
		weir__buf_put(lane->copy[c].buf);
	}
	weir__buf_put(lane->results);
	weir__buf_put(lane->workspace);
	weir__feed_list_free(lane->feed);
	if (lane->last)
		weir__source_put(lane->last);
}

void weir__graph_plan_free(struct weir__graph_plan *p)
{
	for (uint32_t l = 0; l < p->n_lanes; l++)
		lane_free(p, &p->lane[l]);
	if (p->reserved)
		weir__sched_unreserve(p->sched, p->reserved);
	weir_placement_free(p->placement);
	weir__bump_free(&p->memory);
	weir__free(p);
}
