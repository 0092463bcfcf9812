/* SPDX-License-Identifier: MIT */
#include "graph/compile/compiled.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "place/placement.h"
#include "place/tensors.h"

void *weir__compiled_take(struct weir__compiled *cg, size_t n, size_t size)
{
	return weir__bump_take(&cg->memory, n * size + !n);
}

/* Memory as from weir__compiled_take(), all 0. */
static void *compiled_zeroed(struct weir__compiled *cg, size_t n, size_t size)
{
	void *array = weir__compiled_take(cg, n, size);

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

static int no_memory(const struct weir__compiled *cg)
{
	return weir__fail(-ENOMEM,
			  "no memory for an executable graph of %u nodes",
			  cg->n);
}

static int lane_arrays(struct weir__compiled *cg, const struct weir__passes *p,
		       uint32_t l)
{
	const struct weir__sync *o = &p->sync;
	struct weir__graph_lane *lane = &cg->lane[l];
	size_t locations;

	lane->on = &cg->compiler->dev[o->lane_dev[l]];
	lane->n_steps = o->step_at[l + 1] - o->step_at[l];
	lane->n_points = o->point_at[l + 1] - o->point_at[l];
	lane->point = &cg->point[o->point_at[l]];
	lane->leaf = &cg->leaf[o->point_at[l]];
	lane->sizes = p->sizes[l];
	for (uint32_t i = o->step_at[l]; i < o->step_at[l + 1]; i++)
		lane->n_operands += p->g->node[o->node[i]]->n_src;
	locations = lane->n_operands + lane->n_steps;
	lane->location =
		weir__compiled_take(cg, locations, sizeof(*lane->location));
	lane->operand = weir__compiled_take(cg, cg->n_copies * lane->n_operands,
					    sizeof(*lane->operand));
	lane->copy = compiled_zeroed(cg, cg->n_copies, sizeof(*lane->copy));
	if (!lane->location || !lane->operand || !lane->copy)
		return no_memory(cg);
	memset(lane->location, 0, locations * sizeof(*lane->location));
	for (size_t c = 0; c < cg->n_copies; c++) {
		struct weir__lane_copy *copy = &lane->copy[c];

		copy->node = weir__compiled_take(cg, lane->n_steps,
						 sizeof(*copy->node));
		copy->list = weir__compiled_take(cg, lane->n_steps,
						 sizeof(*copy->list));
		if (!copy->node || !copy->list)
			return no_memory(cg);
	}
	return 0;
}

static int compiled_arrays(struct weir__compiled *cg,
			   const struct weir__passes *p)
{
	const struct weir__sync *o = &p->sync;
	size_t waits = (size_t)o->n_device_copies * o->n_lanes;
	int r = 0;

	cg->n = (uint32_t)p->g->n;
	cg->n_points = o->n_points;
	cg->n_device_copies = o->n_device_copies;
	cg->shared = o->shared;
	cg->lane = compiled_zeroed(cg, o->n_lanes, sizeof(*cg->lane));
	cg->at = weir__compiled_take(cg, cg->n, sizeof(*cg->at));
	cg->point = weir__compiled_take(cg, cg->n_points, sizeof(*cg->point));
	cg->leaf = weir__compiled_take(cg, cg->n_points, sizeof(*cg->leaf));
	cg->port =
		weir__compiled_take(cg, count_ports(p->g), sizeof(*cg->port));
	cg->device_copy = weir__compiled_take(cg, cg->n_device_copies,
					      sizeof(*cg->device_copy));
	cg->wait = weir__compiled_take(cg, waits, sizeof(*cg->wait));
	cg->transfer = weir__compiled_take(cg, cg->n_device_copies,
					   sizeof(*cg->transfer));
	cg->copier = weir__compiled_take(cg, 2 * (size_t)cg->compiler->n_devs,
					 sizeof(*cg->copier));
	cg->reserved = compiled_zeroed(cg, cg->compiler->n_devs,
				       sizeof(*cg->reserved));
	cg->taken = compiled_zeroed(cg, cg->n_copies, sizeof(*cg->taken));
	if (!cg->lane || !cg->at || !cg->point || !cg->leaf || !cg->port ||
	    !cg->device_copy || !cg->wait || !cg->transfer || !cg->copier ||
	    !cg->reserved || !cg->taken)
		return no_memory(cg);
	memcpy(cg->point, o->point, cg->n_points * sizeof(*cg->point));
	if (waits)
		memcpy(cg->wait, o->wait, waits * sizeof(*cg->wait));
	for (; cg->n_lanes < o->n_lanes && !r; cg->n_lanes++)
		r = lane_arrays(cg, p, cg->n_lanes);
	return r;
}

/* List the leaves that the lane uses where they are: they have sync points. */
static void lane_leaves(struct weir__compiled *cg,
			struct weir__graph_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_points; i++) {
		const struct weir__sync_point *point = &lane->point[i];

		if (point->kind != WEIR__SYNC_LEAF || !point->uses)
			continue;
		lane->leaf[lane->n_leaves++] = (struct weir__leaf_range){
			.node = point->of,
			.write = point->writes,
			.bytes = cg->at[point->of].bytes
		};
	}
}

/* Find the lanes whose planned memory the lane uses. */
static void lane_reads(struct weir__graph_lane *lane)
{
	size_t locations = lane->n_operands + lane->n_steps;

	for (size_t i = 0; i < locations; i++)
		if (lane->location[i].lane != WEIR__NO_LANE &&
		    lane->location[i].where != WEIR_NODE_LEAF)
			lane->reads |= UINT64_C(1) << lane->location[i].lane;
}

/*
 * Splits: neighbouring nodes, in the order in which they were made, that one
 * device computes. They describe an executable graph to its users; runs know
 * lanes only.
 */
struct splitting {
	const struct weir__passes *p;
	struct weir__split *split; /* NULL: they are only counted */
	uint32_t n;
	uint32_t *seen; /* 1 + the last split that reads each class */
};

/*
 * Count what node @i reads from memory of another device, or of another lane.
 */
static void split_inputs(struct splitting *s, uint32_t i)
{
	const struct weir__passes *p = s->p;
	struct weir__split *split = &s->split[s->n - 1];

	for (uint32_t e = p->in.src_at[i]; e < p->in.src_at[i + 1]; e++) {
		uint32_t class;

		if (p->in.src[e] == WEIR__REACH_NONE)
			continue;
		class = p->reach.alias[p->in.src[e]];
		if (s->seen[class] == s->n ||
		    (p->sync.device_copy_of[e] == WEIR__REACH_NONE &&
		     (p->marks[class] & WEIR__MARK_LEAF ||
		      p->sync.lane[class] == split->lane)))
			continue;
		s->seen[class] = s->n;
		split->inputs++;
		split->bytes += p->bytes[class];
	}
}

static void splits_find(struct splitting *s)
{
	const struct weir__passes *p = s->p;
	uint32_t lane = UINT32_MAX;

	s->n = 0;
	for (uint32_t i = 0; i < p->in.n; i++) {
		if (!weir__is_computed(&p->in, &p->reach, i))
			continue;
		if (p->sync.lane[i] != lane) {
			lane = p->sync.lane[i];
			if (s->split)
				s->split[s->n] =
					(struct weir__split){ .lane = lane,
							      .first = i };
			s->n++;
		}
		if (s->split) {
			s->split[s->n - 1].n++;
			split_inputs(s, i);
		}
	}
}

static int compiled_splits(struct weir__compiled *cg,
			   const struct weir__passes *p)
{
	struct splitting s = { .p = p };

	splits_find(&s);
	cg->n_splits = s.n;
	cg->split = weir__compiled_take(cg, s.n, sizeof(*cg->split));
	s.seen = weir__array_alloc((size_t)p->in.n + 1, sizeof(*s.seen));
	if (!cg->split || !s.seen) {
		weir__array_free(s.seen);
		return weir__fail(-ENOMEM, "no memory for %u splits", s.n);
	}
	for (uint32_t i = 0; i < p->in.n; i++)
		s.seen[i] = 0;
	s.split = cg->split;
	splits_find(&s);
	weir__array_free(s.seen);
	return 0;
}

static int compiled_nodes(struct weir__compiled *cg,
			  const struct weir__passes *p)
{
	int r = compiled_arrays(cg, p);

	if (r == 0)
		r = weir__nodes_place(cg, p);
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		lane_leaves(cg, &cg->lane[l]);
		r = weir__nodes_make(cg, p, &cg->lane[l]);
		if (r == 0) {
			lane_reads(&cg->lane[l]);
			r = weir__nodes_address(cg, &cg->lane[l], 0);
		}
	}
	return r < 0 ? r : compiled_splits(cg, p);
}

static int check_nodes(const struct weir__graph_lane *lane)
{
	const struct weir__compiler_dev *on = lane->on;
	char text[WEIR__NODE_DESCRIBE_MAX];

	for (uint32_t i = 0; i < lane->n_steps; i++) {
		const struct weir_backend_node *node = lane->copy[0].list[i];
		int r = weir__dev_result(on->dev, "compute->supports",
					 on->compute->supports(on->dev, node));

		if (r < 0)
			return weir__fail_for(r, "%s",
					      weir__node_describe(node, text));
	}
	return 0;
}

static const struct weir_backend_prepare_opts prepare_opts = {
	.size = sizeof(prepare_opts)
};

/* Ask the device for the size of the workspace, and allocate nothing yet. */
static int lane_workspace(struct weir__graph_lane *lane)
{
	const struct weir__compiler_dev *on = lane->on;
	size_t workspace = 0;
	int r;

	if (!on->compute->measure || !lane->n_steps)
		return 0;
	r = on->compute->measure(on->dev, lane->copy[0].list, lane->n_steps,
				 &prepare_opts, &workspace);
	lane->sizes.workspace = workspace;
	return weir__dev_result(on->dev, "compute->measure", r);
}

/* Find all that needs no memory of a device. */
static int compiled_analyse(struct weir__compiled *cg,
			    const struct weir_graph *g,
			    const struct weir__choice *choice)
{
	struct weir__passes p;
	int r = weir__passes_run(cg->compiler, g, choice, &p);

	if (r < 0)
		return r;
	r = compiled_nodes(cg, &p);
	cg->placement = p.places.placement;
	p.places.placement = NULL;
	weir__passes_free(&p);
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		r = check_nodes(&cg->lane[l]);
		if (r == 0)
			r = lane_workspace(&cg->lane[l]);
	}
	return r;
}

static int compiled_alloc(struct weir__compiler *compiler,
			  const struct weir_graph *g,
			  const struct weir__choice *choice,
			  struct weir__compiled **ret)
{
	struct weir__compiled *cg;
	int r = weir_graph_error(g, NULL);

	if (r < 0)
		return r;
	cg = weir__calloc(1, sizeof(*cg));
	if (!cg)
		return weir__fail(-ENOMEM, "no memory for an executable graph");
	cg->compiler = compiler;
	cg->n_copies = compiler->copies;
	cg->key = choice->key;
	r = compiled_analyse(cg, g, choice);
	if (r < 0)
		weir__compiled_free(cg);
	else
		*ret = cg;
	return r;
}

/* Reserve bytes[i] more of the budget of each device i. */
static int bytes_reserve(struct weir__compiled *cg, const uint64_t *bytes)
{
	int r = weir__compiler_reserve(cg->compiler, bytes);

	for (uint32_t i = 0; i < cg->compiler->n_devs && !r; i++)
		cg->reserved[i] += bytes[i];
	return r;
}

/* Reserve for all lanes at once: a common budget is checked for the sum. */
static int compiled_reserve(struct weir__compiled *cg)
{
	uint64_t bytes[WEIR__LANES] = { 0 };

	for (uint32_t l = 0; l < cg->n_lanes; l++) {
		const struct weir__graph_lane *lane = &cg->lane[l];

		bytes[lane->on - cg->compiler->dev] = lane->sizes.results +
						      lane->sizes.inputs +
						      lane->sizes.workspace;
	}
	return bytes_reserve(cg, bytes);
}

static int memory_alloc(struct weir__compiled *cg,
			const struct weir__graph_lane *lane, uint32_t memory,
			struct weir_buf **ret)
{
	const struct weir__placed *placed = &cg->placement->memory[memory];

	if (!placed->info.bytes)
		return 0;
	return weir__members_alloc(lane->on->buft, placed->member,
				   placed->info.members, ret);
}

static int lane_memory(struct weir__compiled *cg, struct weir__graph_lane *lane)
{
	uint32_t l = (uint32_t)(lane - cg->lane);
	int r = memory_alloc(cg, lane, WEIR__IN_RESULTS(l), &lane->results);

	for (uint32_t c = 0; c < cg->n_copies && !r; c++)
		r = memory_alloc(cg, lane, WEIR__IN_COPY(l),
				 &lane->copy[c].buf);
	return r;
}

static int copy_prepare(const struct weir__graph_lane *lane,
			struct weir__lane_copy *copy, size_t *ret_workspace)
{
	const struct weir__compiler_dev *on = lane->on;

	*ret_workspace = 0;
	if (!lane->n_steps)
		return 0;
	return weir__dev_result(
		on->dev, "compute->prepare",
		on->compute->prepare(on->dev, copy->list, lane->n_steps,
				     &prepare_opts, &copy->prepared,
				     ret_workspace));
}

/*
 * Let the device prepare the nodes for each copy. All copies share a workspace,
 * because runs use it one after another, as they do the results.
 */
static int lane_prepare(struct weir__compiled *cg,
			struct weir__graph_lane *lane)
{
	uint64_t more[WEIR__LANES] = { 0 };
	uint64_t most = 0, said = lane->sizes.workspace;
	size_t workspace;
	int r = 0;

	weir__nodes_copy(cg, lane);
	for (uint32_t c = 0; c < cg->n_copies && !r; c++) {
		r = weir__nodes_address(cg, lane, c);
		if (r == 0)
			r = copy_prepare(lane, &lane->copy[c], &workspace);
		if (r == 0 && workspace > most)
			most = workspace;
	}
	if (r < 0)
		return r;
	lane->sizes.workspace = most;
	if (most > said) {
		more[lane->on - cg->compiler->dev] = most - said;
		r = bytes_reserve(cg, more);
	}
	if (r == 0 && most)
		r = weir__buf_alloc(lane->on->buft, most, NULL,
				    &lane->workspace);
	return r;
}

int weir__compiled_new(struct weir__compiler *compiler,
		       const struct weir_graph *g,
		       const struct weir__choice *choice,
		       struct weir__compiled **ret)
{
	struct weir__compiled *cg;
	int r = compiled_alloc(compiler, g, choice, &cg);

	if (r < 0)
		return r;
	r = weir__leaves_join(cg, g);
	if (r == 0)
		r = weir_graph_fingerprint(g, cg->fingerprint);
	if (r == 0)
		r = compiled_reserve(cg);
	if (r == 0)
		r = weir__leaves_import(cg, g);
	/* All memory comes first, because lanes read that of others. */
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = lane_memory(cg, &cg->lane[l]);
	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = lane_prepare(cg, &cg->lane[l]);
	if (r < 0) {
		weir__compiled_free(cg);
		return r;
	}
	cg->refs = 1;
	*ret = cg;
	return 0;
}

int weir__compiled_measure(struct weir__compiler *compiler,
			   const struct weir_graph *g,
			   const struct weir__choice *choice,
			   struct weir__compiled **ret)
{
	struct weir__compiled *cg;
	int r = compiled_alloc(compiler, g, choice, &cg);

	if (r < 0)
		return r;
	r = weir_graph_fingerprint(g, cg->fingerprint);
	if (r == 0)
		r = weir__leaves_import_measure(cg, g);
	if (r < 0)
		weir__compiled_free(cg);
	else
		*ret = cg;
	return r;
}

static void lane_free(const struct weir__compiled *cg,
		      struct weir__graph_lane *lane)
{
	for (uint32_t c = 0; lane->copy && c < cg->n_copies; c++) {
		if (lane->copy[c].prepared)
			lane->on->compute->release(lane->on->dev,
						   lane->copy[c].prepared);
		weir__buf_put(lane->copy[c].buf);
	}
	weir__buf_put(lane->results);
	weir__buf_put(lane->workspace);
	weir__prefetch_list_free(lane->prefetch_list);
	if (lane->last)
		weir__timeline_put(lane->last);
}

void weir__compiled_free(struct weir__compiled *cg)
{
	for (uint32_t l = 0; l < cg->n_lanes; l++)
		lane_free(cg, &cg->lane[l]);
	if (cg->reserved)
		weir__compiler_unreserve(cg->compiler, cg->reserved);
	weir_placement_free(cg->placement);
	weir__bump_free(&cg->memory);
	weir__free(cg);
}
