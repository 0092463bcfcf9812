/* SPDX-License-Identifier: MIT */
/*
 * Schedules as the program has them: a compiled graph, with the buffers and events of one
 * graph's leaves.
 */
#include <string.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "graph/exec/sched.h"
#include "mem/buf.h"

void weir__sizes_add(const struct weir__sizes *sizes,
		     struct weir_sched_estimate *e)
{
	e->results += sizes->results;
	e->inputs += sizes->inputs;
	e->workspace += sizes->workspace;
	e->bytes += sizes->results + sizes->inputs + sizes->workspace;
	e->leaves += sizes->leaves;
	e->computed += sizes->computed;
	e->in_place += sizes->in_place;
	e->lowest += sizes->lowest;
	e->kept += sizes->kept;
	e->fed += sizes->fed;
	e->ring += sizes->ring;
}

/* Of the devices [@first, @end). */
static int estimate(struct weir_sched *sched, const struct weir_graph *g,
		    uint32_t first, uint32_t end,
		    struct weir_sched_estimate *ret_estimate)
{
	struct weir_sched_estimate e = { .size = sizeof(e),
					 .nodes = weir_graph_count(g) };
	struct weir__choice choice;
	struct weir__sizes *sizes;
	int r;

	sizes = weir__calloc(sched->n_devs, sizeof(*sizes));
	if (!sizes)
		return weir__fail(-ENOMEM, "no memory for an estimate");
	r = weir__choice(sched, g, &choice);
	if (r == 0) {
		r = weir__compiled_measure(sched, g, &choice, sizes);
		weir__choice_free(&choice);
	}
	for (uint32_t i = first; i < end; i++)
		weir__sizes_add(&sizes[i], &e);
	weir__free(sizes);
	return r < 0 ? r : weir__info_out(ret_estimate, &e, sizeof(e));
}

int weir_sched_estimate(struct weir_sched *sched, const struct weir_graph *g,
			struct weir_sched_estimate *ret_estimate)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(sched->weir);
	return r < 0 ? r : estimate(sched, g, 0, sched->n_devs, ret_estimate);
}

int weir_sched_estimate_dev(struct weir_sched *sched,
			    const struct weir_graph *g, unsigned i,
			    struct weir_sched_estimate *ret_estimate)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(sched->weir);
	if (r == 0 && i >= sched->n_devs)
		r = weir__fail(-EINVAL, "device %u of %u", i, sched->n_devs);
	return r < 0 ? r : estimate(sched, g, i, i + 1, ret_estimate);
}

static struct weir_exec *schedule_alloc(const struct weir__compiled *cg)
{
	size_t events = ((size_t)cg->n_points + cg->n_device_copies) *
			sizeof(struct weir_event *);
	size_t ports = cg->n_ports * sizeof(struct weir_tensor);
	size_t device_copies = cg->n_device_copies * sizeof(struct weir_tensor);
	size_t ranges = cg->n_leaves * sizeof(struct weir__touched);
	struct weir_exec *s;
	char *at = weir__calloc(1, sizeof(*s) + events + ports + device_copies +
					   ranges);

	if (!at)
		return NULL;
	s = (void *)at;
	atomic_init(&s->refs, 1);
	s->event = (void *)(at + sizeof(*s));
	s->port = (void *)(at + sizeof(*s) + events);
	s->device_copy = (void *)(at + sizeof(*s) + events + ports);
	s->touched = (void *)(at + sizeof(*s) + events + ports + device_copies);
	return s;
}

/*
 * The leaves have the addresses for which the compiled graph was made, but perhaps other
 * buffers: -EINVAL if neighbours are not in one buffer any more.
 */
static int lane_leaves(struct weir_exec *s, const struct weir_graph *g,
		       const struct weir__graph_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_leaves; i++) {
		struct weir__touched *to = &s->touched[s->n_touched];
		const struct weir__leaf *leaf = &lane->leaf[i];
		const struct weir_tensor *t = &g->node[leaf->node]->t;
		int r = weir__buf_range(t->buf, t->offset, leaf->bytes,
					&to->buf, &to->lo);

		if (r < 0)
			return r;
		to->hi = to->lo + leaf->bytes;
		to->write = leaf->write;
		weir_buf_ref(to->buf);
		s->n_touched++;
	}
	return 0;
}

static int schedule_leaves(struct weir_exec *s, const struct weir_graph *g)
{
	const struct weir__compiled *cg = s->compiled;
	int r = 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = lane_leaves(s, g, &cg->lane[l]);
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++) {
		const struct weir_node *node =
			g->node[cg->device_copy[k].of.node];

		if (node->op != WEIR_OP_LEAF || !node->t.buf)
			continue;
		s->device_copy[k] = node->t;
		weir_buf_ref(node->t.buf);
	}
	return r;
}

static void schedule_event(struct weir_exec *s, uint32_t i,
			   const struct weir_node *leaf)
{
	s->event[i] = leaf->event;
	s->waits |= leaf->event != NULL;
}

static void schedule_events(struct weir_exec *s, const struct weir_graph *g)
{
	const struct weir__compiled *cg = s->compiled;

	for (uint32_t i = 0; g->events && i < cg->n_points; i++)
		if (cg->point[i].kind == WEIR__SYNC_LEAF)
			schedule_event(s, i, g->node[cg->point[i].of]);
	for (uint32_t k = 0; g->events && k < cg->n_device_copies; k++)
		schedule_event(s, cg->n_points + k,
			       g->node[cg->device_copy[k].of.node]);
	for (uint32_t i = 0; i < cg->n_ports; i++) {
		const struct weir__port *port = &cg->port[i];

		s->port[i] = port->t;
		if (cg->at[port->node].where != WEIR_NODE_LEAF)
			continue;
		s->port[i].buf = g->node[port->node]->t.buf;
		s->port[i].offset = g->node[port->node]->t.offset;
	}
}

/* Takes over the reference to @cg. */
static int schedule_make(struct weir__compiled *cg, const struct weir_graph *g,
			 struct weir_exec **ret_schedule)
{
	struct weir_exec *s = schedule_alloc(cg);
	int r;

	if (!s) {
		weir__compiled_put(cg);
		return weir__fail(-ENOMEM, "no memory for a schedule");
	}
	s->compiled = cg;
	r = schedule_leaves(s, g);
	if (r < 0) {
		weir__exec_put(s);
		return r;
	}
	schedule_events(s, g);
	r = weir__exec_imports(s);
	if (r < 0)
		weir__exec_put(s);
	else
		*ret_schedule = s;
	return r;
}

static int schedule_find(struct weir_sched *sched, const struct weir_graph *g,
			 const uint64_t fingerprint[2],
			 const struct weir__choice *choice,
			 struct weir_exec **ret_schedule)
{
	struct weir__compiled *cg;
	int r;

	cg = weir__sched_find(sched, fingerprint, choice->key);
	r = cg ? schedule_make(cg, g, ret_schedule) : -EINVAL;
	if (r != -EINVAL)
		return r;
	r = weir__compiled_new(sched, g, choice, &cg);
	if (r < 0)
		return r;
	weir__sched_add(sched, cg);
	return schedule_make(cg, g, ret_schedule);
}

int weir_exec_new(struct weir_sched *sched, const struct weir_graph *g,
		  struct weir_exec **ret_schedule)
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
		r = weir__choice(sched, g, &choice);
	if (r < 0)
		return r;
	/* What is refused at first may have room after all, or be made anew. */
	weir__error_save(&saved);
	r = schedule_find(sched, g, fingerprint, &choice, ret_schedule);
	if (r == 0)
		weir__error_restore(&saved);
	weir__choice_free(&choice);
	return r;
}

void weir__exec_put(struct weir_exec *s)
{
	if (!weir__refs_drop(&s->refs))
		return;
	weir__exec_imports_end(s);
	for (uint32_t i = 0; i < s->n_touched; i++)
		weir__buf_put(s->touched[i].buf);
	for (uint32_t k = 0; k < s->compiled->n_device_copies; k++)
		weir__buf_put(s->device_copy[k].buf);
	weir__compiled_put(s->compiled);
	weir__free(s);
}

void weir_exec_free(struct weir_exec *schedule)
{
	if (schedule && weir__root_is_ours(schedule->compiled->sched->weir))
		weir__exec_put(schedule);
}
