/* SPDX-License-Identifier: MIT */
/*
 * Executable graphs: a compiled graph with the buffers and events of one
 * graph's leaves. They are made, estimated and described.
 */
#include <string.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "graph/exec/sched.h"
#include "mem/buf.h"
#include "mem/tensor.h"

typedef unsigned long long ull;

static void info_add_sizes(struct weir_exec_info *info,
			   const struct weir__lane_sizes *sizes)
{
	info->results += sizes->results;
	info->inputs += sizes->inputs;
	info->workspace += sizes->workspace;
	info->bytes += sizes->results + sizes->inputs + sizes->workspace;
	info->leaves += sizes->leaves;
	info->computed += sizes->computed;
	info->in_place += sizes->in_place;
	info->lowest += sizes->lowest;
	info->kept += sizes->kept;
	info->prefetched += sizes->prefetched;
	info->prefetch_buffer += sizes->buffer;
}

static void info_add_copy(struct weir_exec_info *info,
			  const struct weir__placed_copy *copy)
{
	info->transfers++;
	if (copy->of.kind == WEIR__DEVICE_COPY_TRANSFER)
		info->transfer_bytes += copy->to.bytes;
	if (copy->of.kind != WEIR__DEVICE_COPY_IMPORT)
		return;
	info->imports++;
	info->import_bytes += copy->to.bytes;
}

/* The numbers of one device, or of all if @on is NULL. */
static struct weir_exec_info info_of(const struct weir__compiled *cg,
				     const struct weir__compiler_dev *on)
{
	struct weir_exec_info info = { .size = sizeof(info),
				       .nodes = cg->n,
				       .copies = cg->n_copies };

	memcpy(info.fingerprint, cg->fingerprint, sizeof(cg->fingerprint));
	for (uint32_t l = 0; l < cg->n_lanes; l++) {
		const struct weir__graph_lane *lane = &cg->lane[l];

		if (on && lane->on != on)
			continue;
		info.lanes++;
		info_add_sizes(&info, &lane->sizes);
		for (uint32_t k = 0; k < cg->n_device_copies; k++)
			if (cg->device_copy[k].of.lane == l)
				info_add_copy(&info, &cg->device_copy[k]);
		for (uint32_t i = 0; i < cg->n_splits; i++)
			info.splits += cg->split[i].lane == l;
	}
	return info;
}

/* @on: the only device to be described; NULL: all. */
static int estimate(struct weir_sched *sched, const struct weir_graph *g,
		    const struct weir__compiler_dev *on,
		    struct weir_exec_info *ret_info)
{
	struct weir__compiled *cg = NULL;
	struct weir__choice choice;
	struct weir_exec_info info;
	int r = weir__sched_choice(sched, g, &choice);

	if (r < 0)
		return r;
	r = weir__compiled_measure(sched->compiler, g, &choice, &cg);
	weir__choice_free(&choice);
	if (r < 0)
		return r;
	info = info_of(cg, on);
	weir__compiled_free(cg);
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir_sched_estimate(struct weir_sched *sched, const struct weir_graph *g,
			struct weir_exec_info *ret_info)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(sched->weir);
	return r < 0 ? r : estimate(sched, g, NULL, ret_info);
}

int weir_sched_estimate_dev(struct weir_sched *sched,
			    const struct weir_graph *g, unsigned i,
			    struct weir_exec_info *ret_info)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(sched->weir);
	if (r == 0 && i >= sched->compiler->n_devs)
		r = weir__fail(-EINVAL, "device %u of %u", i,
			       sched->compiler->n_devs);
	return r < 0 ? r
		     : estimate(sched, g, &sched->compiler->dev[i], ret_info);
}

static struct weir_exec *exec_alloc(const struct weir__compiled *cg)
{
	size_t events = ((size_t)cg->n_points + cg->n_device_copies) *
			sizeof(struct weir_event *);
	size_t ports = cg->n_ports * sizeof(struct weir_tensor);
	size_t device_copies = cg->n_device_copies * sizeof(struct weir_tensor);
	size_t ranges = cg->n_leaves * sizeof(struct weir__accessed);
	struct weir_exec *exec;
	char *at = weir__calloc(1, sizeof(*exec) + events + ports +
					   device_copies + ranges);

	if (!at)
		return NULL;
	exec = (void *)at;
	atomic_init(&exec->refs, 1);
	exec->event = (void *)(at + sizeof(*exec));
	exec->port = (void *)(at + sizeof(*exec) + events);
	exec->device_copy = (void *)(at + sizeof(*exec) + events + ports);
	exec->accessed =
		(void *)(at + sizeof(*exec) + events + ports + device_copies);
	return exec;
}

/*
 * Find the buffers of the leaves. Leaves have the addresses for which the
 * compiled graph was made, but perhaps other buffers: -EINVAL if neighbours are
 * not in one buffer any more.
 */
static int lane_leaves(struct weir_exec *exec, const struct weir_graph *g,
		       const struct weir__graph_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_leaves; i++) {
		struct weir__accessed *to = &exec->accessed[exec->n_accessed];
		const struct weir__leaf_range *leaf = &lane->leaf[i];
		const struct weir_tensor *t = &g->node[leaf->node]->t;
		int r = weir__buf_range(t->buf, t->offset, leaf->bytes,
					&to->buf, &to->lo);

		if (r < 0)
			return r;
		to->hi = to->lo + leaf->bytes;
		to->write = leaf->write;
		weir_buf_ref(to->buf);
		exec->n_accessed++;
	}
	return 0;
}

static int exec_leaves(struct weir_exec *exec, const struct weir_graph *g)
{
	const struct weir__compiled *cg = exec->compiled;
	int r = 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = lane_leaves(exec, g, &cg->lane[l]);
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++) {
		const struct weir_node *node =
			g->node[cg->device_copy[k].of.node];

		if (node->op != WEIR_OP_LEAF || !node->t.buf)
			continue;
		exec->device_copy[k] = node->t;
		weir_buf_ref(node->t.buf);
	}
	return r;
}

static void exec_event(struct weir_exec *exec, uint32_t i,
		       const struct weir_node *leaf)
{
	exec->event[i] = leaf->event;
	exec->waits |= leaf->event != NULL;
}

static void exec_events(struct weir_exec *exec, const struct weir_graph *g)
{
	const struct weir__compiled *cg = exec->compiled;

	for (uint32_t i = 0; g->events && i < cg->n_points; i++)
		if (cg->point[i].kind == WEIR__SYNC_LEAF)
			exec_event(exec, i, g->node[cg->point[i].of]);
	for (uint32_t k = 0; g->events && k < cg->n_device_copies; k++)
		exec_event(exec, cg->n_points + k,
			   g->node[cg->device_copy[k].of.node]);
	for (uint32_t i = 0; i < cg->n_ports; i++) {
		const struct weir__port *port = &cg->port[i];

		exec->port[i] = port->t;
		if (cg->at[port->node].where != WEIR_NODE_LEAF)
			continue;
		exec->port[i].buf = g->node[port->node]->t.buf;
		exec->port[i].offset = g->node[port->node]->t.offset;
	}
}

/* Set the source of an import: the bytes of a placed leaf, without a shape. */
static void source_set(struct weir_exec *exec, uint32_t k,
		       struct weir__import_src *to)
{
	const struct weir_tensor *t = &exec->device_copy[k];

	to->event = exec->event[exec->compiled->n_points + k];
	to->t = weir__flat_tensor(t->buf, t->offset,
				  exec->compiled->device_copy[k].from.bytes);
	to->t.name = t->name;
}

static bool has_placed(const struct weir_exec *exec)
{
	for (uint32_t k = 0; k < exec->compiled->n_device_copies; k++)
		if (exec->device_copy[k].buf &&
		    exec->compiled->device_copy[k].of.kind ==
			    WEIR__DEVICE_COPY_IMPORT)
			return true;
	return false;
}

static int exec_imports(struct weir_exec *exec)
{
	const struct weir__compiled *cg = exec->compiled;
	struct weir__import_src *to = NULL;

	if (has_placed(exec)) {
		to = weir__calloc(cg->n_device_copies, sizeof(*to));
		if (!to)
			return weir__fail(-ENOMEM,
					  "no memory for an executable graph");
	}
	exec->import_src = to;
	for (uint32_t l = 0; l < cg->n_lanes; l++) {
		const struct weir__graph_lane *lane = &cg->lane[l];

		if (!lane->prefetch_list)
			continue;
		weir__prefetch_list_use(lane->prefetch_list);
		for (uint32_t i = 0; to && i < lane->prefetch_list->n;
		     i++, to++)
			if (exec->device_copy[lane->import_copy[i]].buf)
				source_set(exec, lane->import_copy[i], to);
	}
	exec->uses_lists = true;
	return 0;
}

const struct weir__import_src *
weir__exec_import_src(const struct weir_exec *exec, uint32_t l)
{
	const struct weir__import_src *src = exec->import_src;

	while (src && l--)
		if (exec->compiled->lane[l].prefetch_list)
			src += exec->compiled->lane[l].prefetch_list->n;
	return src;
}

static void exec_imports_end(struct weir_exec *exec)
{
	const struct weir__compiled *cg = exec->compiled;

	for (uint32_t l = 0; exec->uses_lists && l < cg->n_lanes; l++)
		if (cg->lane[l].prefetch_list)
			weir__prefetch_list_unuse(cg->lane[l].prefetch_list,
						  weir__exec_import_src(exec,
									l));
	weir__free(exec->import_src);
}

/* Make an executable graph. Takes over the reference to @cg. */
static int exec_make(struct weir_sched *sched, struct weir__compiled *cg,
		     const struct weir_graph *g, struct weir_exec **ret_exec)
{
	struct weir_exec *exec = exec_alloc(cg);
	int r;

	if (!exec) {
		weir__compiled_put(cg);
		return weir__fail(-ENOMEM, "no memory for an executable graph");
	}
	weir__refs_add(&sched->refs, 1);
	exec->sched = sched;
	exec->compiled = cg;
	r = exec_leaves(exec, g);
	if (r < 0) {
		weir__exec_put(exec);
		return r;
	}
	exec_events(exec, g);
	r = exec_imports(exec);
	if (r < 0)
		weir__exec_put(exec);
	else
		*ret_exec = exec;
	return r;
}

static int exec_find(struct weir_sched *sched, const struct weir_graph *g,
		     const uint64_t fingerprint[2],
		     const struct weir__choice *choice,
		     struct weir_exec **ret_exec)
{
	struct weir__compiled *cg;
	int r;

	cg = weir__compiler_find(sched->compiler, fingerprint, choice->key);
	r = cg ? exec_make(sched, cg, g, ret_exec) : -EINVAL;
	if (r != -EINVAL)
		return r;
	r = weir__compiled_new(sched->compiler, g, choice, &cg);
	if (r < 0)
		return r;
	weir__compiler_add(sched->compiler, cg);
	return exec_make(sched, cg, g, ret_exec);
}

int weir_exec_new(struct weir_sched *sched, const struct weir_graph *g,
		  struct weir_exec **ret_exec)
{
	struct weir__error_saved saved;
	struct weir__choice choice;
	uint64_t fingerprint[2];
	int r;

	WEIR__ENTER();
	r = weir__root_enter(sched->weir);
	if (r == 0)
		r = weir_graph_fingerprint(g, fingerprint);
	if (r == 0)
		r = weir__sched_choice(sched, g, &choice);
	if (r < 0)
		return r;
	/* An attempt that is refused may be followed by one that succeeds. */
	weir__error_save(&saved);
	r = exec_find(sched, g, fingerprint, &choice, ret_exec);
	if (r == 0)
		weir__error_restore(&saved);
	weir__choice_free(&choice);
	return r;
}

void weir__exec_put(struct weir_exec *exec)
{
	if (!weir__refs_drop(&exec->refs))
		return;
	exec_imports_end(exec);
	for (uint32_t i = 0; i < exec->n_accessed; i++)
		weir__buf_put(exec->accessed[i].buf);
	for (uint32_t k = 0; k < exec->compiled->n_device_copies; k++)
		weir__buf_put(exec->device_copy[k].buf);
	weir__compiled_put(exec->compiled);
	weir__sched_put(exec->sched);
	weir__free(exec);
}

void weir_exec_free(struct weir_exec *exec)
{
	if (exec && weir__root_is_ours(exec->sched->weir))
		weir__exec_put(exec);
}

int weir_exec_info(const struct weir_exec *exec,
		   struct weir_exec_info *ret_info)
{
	const struct weir__compiled *cg = exec->compiled;
	struct weir_exec_info info;
	int r;

	WEIR__ENTER();
	r = weir__root_read(exec->sched->weir);
	if (r < 0)
		return r;
	info = info_of(cg, NULL);
	pthread_mutex_lock(&cg->compiler->lock);
	for (uint32_t c = 0; c < cg->n_copies; c++)
		info.taken += cg->taken[c];
	info.times = cg->n_uses;
	pthread_mutex_unlock(&cg->compiler->lock);
	return weir__info_out(ret_info, &info, sizeof(info));
}

/* Inputs have places even if nothing needs them. */
static bool is_needed(const struct weir__compiled *cg, uint32_t i)
{
	for (uint32_t k = 0; k < cg->n_ports; k++)
		if (cg->port[k].node == i)
			return cg->port[k].flags & WEIR__PORT_NEEDED;
	return cg->at[i].why != WEIR_NODE_NOT_NEEDED;
}

int weir_exec_explain(const struct weir_exec *exec, uint64_t i,
		      struct weir_node_place *ret_place)
{
	const struct weir__compiled *cg = exec->compiled;
	struct weir_node_place place = { .size = sizeof(place) };
	const struct weir__placed_node *at;
	int r;

	WEIR__ENTER();
	r = weir__root_read(exec->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n)
		return weir__fail(-EINVAL, "node %llu of %u", (ull)i, cg->n);
	at = &cg->at[i];
	place.dev = at->computed ? cg->lane[at->lane].on->dev : NULL;
	place.cause = at->cause;
	place.where = at->where;
	place.why = at->why;
	place.offset = at->offset;
	place.bytes = at->bytes;
	place.over = at->over;
	place.step = at->step;
	place.needed = is_needed(cg, (uint32_t)i);
	place.until = at->until == UINT32_MAX ? UINT64_MAX : at->until;
	return weir__info_out(ret_place, &place, sizeof(place));
}

int weir_exec_split(const struct weir_exec *exec, uint64_t i,
		    struct weir_split *ret_split)
{
	const struct weir__compiled *cg = exec->compiled;
	struct weir_split out = { .size = sizeof(out) };
	const struct weir__split *split;
	int r;

	WEIR__ENTER();
	r = weir__root_read(exec->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n_splits)
		return weir__fail(-EINVAL, "split %llu of %u", (ull)i,
				  cg->n_splits);
	split = &cg->split[i];
	out.dev = cg->lane[split->lane].on->dev;
	out.first = split->first;
	out.n = split->n;
	out.inputs = split->inputs;
	out.bytes = split->bytes;
	return weir__info_out(ret_split, &out, sizeof(out));
}

/* The sum over the copies of the inputs; the reason is the last one's. */
static void lane_launches(const struct weir__compiled *cg,
			  const struct weir__graph_lane *lane,
			  struct weir_lane *out)
{
	const struct weir__compiler_dev *on = lane->on;

	for (uint32_t c = 0; c < cg->n_copies; c++) {
		struct weir_backend_launches l = { .size = sizeof(l) };

		if (!on->compute->launches || !lane->copy[c].prepared)
			continue;
		on->compute->launches(on->dev, lane->copy[c].prepared, &l);
		out->kernels = l.kernels;
		out->by_library = l.by_library;
		memcpy(out->library, l.library, sizeof(out->library));
		out->library[sizeof(out->library) - 1] = '\0';
		out->graphs += l.graphs;
		out->as_graph += l.as_graph;
		out->directly += l.directly;
		if (c && !l.directly && !l.as_graph)
			continue;
		memcpy(out->why, l.why, sizeof(out->why));
		out->why[sizeof(out->why) - 1] = '\0';
	}
}

int weir_exec_lane(const struct weir_exec *exec, uint64_t i,
		   struct weir_lane *ret_lane)
{
	const struct weir__compiled *cg = exec->compiled;
	struct weir_lane out = { .size = sizeof(out) };
	int r;

	WEIR__ENTER();
	r = weir__root_read(exec->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n_lanes)
		return weir__fail(-EINVAL, "lane %llu of %u", (ull)i,
				  cg->n_lanes);
	out.dev = cg->lane[i].on->dev;
	out.nodes = cg->lane[i].n_steps;
	lane_launches(cg, &cg->lane[i], &out);
	return weir__info_out(ret_lane, &out, sizeof(out));
}

static uint32_t how_of(const struct weir__placed_copy *device_copy)
{
	switch (device_copy->of.kind) {
	case WEIR__DEVICE_COPY_INPUT:
		return WEIR_TRANSFER_INPUT;
	case WEIR__DEVICE_COPY_TRANSFER:
		return WEIR_TRANSFER_COPY;
	default:
		return device_copy->prefetched ? WEIR_TRANSFER_PREFETCHED
					       : WEIR_TRANSFER_KEPT;
	}
}

int weir_exec_transfer(const struct weir_exec *exec, uint64_t i,
		       struct weir_transfer *ret_transfer)
{
	const struct weir__compiled *cg = exec->compiled;
	struct weir_transfer out = { .size = sizeof(out) };
	const struct weir__placed_copy *device_copy;
	int r;

	WEIR__ENTER();
	r = weir__root_read(exec->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n_device_copies)
		return weir__fail(-EINVAL, "transfer %llu of %u", (ull)i,
				  cg->n_device_copies);
	device_copy = &cg->device_copy[i];
	if (device_copy->from.where != WEIR_NODE_LEAF)
		out.from = cg->lane[device_copy->from.lane].on->dev;
	else if (exec->device_copy[i].buf)
		out.from = exec->device_copy[i].buf->buft->dev;
	if (device_copy->of.kind == WEIR__DEVICE_COPY_INPUT)
		out.from = NULL;
	out.to = cg->lane[device_copy->of.lane].on->dev;
	out.node = device_copy->of.node;
	out.bytes = device_copy->to.bytes;
	out.step = device_copy->of.first;
	out.how = how_of(device_copy);
	return weir__info_out(ret_transfer, &out, sizeof(out));
}
