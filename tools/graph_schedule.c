/* SPDX-License-Identifier: MIT */
/* The devices, splits and copies of a schedule. */
#include <inttypes.h>
#include <stdlib.h>
#include "graph.h"
#include "output.h"

static uint32_t number_of(const struct graph_model *m,
			  const struct weir_dev *dev)
{
	uint32_t i = 0;

	while (i + 1 < m->n_devs && m->dev[i] != dev)
		i++;
	return i;
}

static int read_devs(struct graph_view *v, const struct graph_model *m)
{
	for (uint32_t i = 0; i < v->n_devs; i++) {
		struct weir_dev_info info = { .size = sizeof(info) };
		struct graph_dev *d = &v->dev[i];

		d->estimate.size = sizeof(d->estimate);
		if (weir_dev_info(m->dev[i], &info) < 0 ||
		    weir_sched_estimate_dev(m->llama.sched, m->llama.graph, i,
					    &d->estimate) < 0)
			return fail_weir();
		d->name = info.name;
	}
	return 0;
}

/* Why most of the operations of a split are on its device. */
static const char *cause_of(const struct graph_view *v,
			    const struct graph_split *s)
{
	static const char *const causes[] = {
		[WEIR_NODE_CAUSE_NONE] = "",
		[WEIR_NODE_CAUSE_PINNED] = "pinned there by name",
		[WEIR_NODE_CAUSE_WRITES] = "writes a cache there",
		[WEIR_NODE_CAUSE_WEIGHTS] = "its weights are there",
		[WEIR_NODE_CAUSE_COST] = "costs least there",
		[WEIR_NODE_CAUSE_ONLY] = "no other device can",
	};
	enum {
		CAUSES = sizeof(causes) / sizeof(causes[0])
	};
	uint32_t count[CAUSES] = { 0 };
	unsigned most = 0;

	for (uint32_t k = s->first; k < s->first + s->n; k++)
		count[v->node[v->op[k]].cause % CAUSES]++;
	for (unsigned i = 0; i < CAUSES; i++)
		if (count[i] > count[most])
			most = i;
	return causes[most];
}

static int read_causes(struct graph_view *v, const struct graph_model *m)
{
	for (uint32_t k = 0; k < v->n_ops; k++) {
		struct weir_node_place place = { .size = sizeof(place) };

		if (weir_exec_explain(m->schedule, v->op[k], &place) < 0)
			return fail_weir();
		v->node[v->op[k]].cause = (uint8_t)place.cause;
	}
	return 0;
}

/* A split begins at its first node, and ends where the next one begins. */
static int read_splits(struct graph_view *v, const struct graph_model *m)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < v->n_splits; i++) {
		struct weir_split s = { .size = sizeof(s) };

		if (weir_exec_split(m->schedule, i, &s) < 0)
			return fail_weir();
		while (k < v->n_ops && v->op[k] < s.first)
			k++;
		v->split[i] = (struct graph_split){ .dev = number_of(m, s.dev),
						    .first = k };
		if (i)
			v->split[i - 1].n = k - v->split[i - 1].first;
	}
	if (v->n_splits)
		v->split[v->n_splits - 1].n =
			v->n_ops - v->split[v->n_splits - 1].first;
	for (uint32_t i = 0; i < v->n_splits; i++)
		v->split[i].cause = v->n_devs > 1 ? cause_of(v, &v->split[i])
						  : "";
	return 0;
}

/* The last split of a device that was asked for, and its first step. */
struct cursor {
	uint32_t split;
	uint64_t begins;
};

/* The split of device @dev that has its step @step; steps ascend. */
static uint32_t split_at(const struct graph_view *v, struct cursor *at,
			 uint32_t dev, uint64_t step)
{
	while (at->split + 1 < v->n_splits) {
		const struct graph_split *s = &v->split[at->split];

		if (s->dev == dev && step < at->begins + s->n)
			break;
		at->begins += s->dev == dev ? s->n : 0;
		at->split++;
	}
	return at->split;
}

static void add_transfer(struct graph_view *v, const struct graph_model *m,
			 const struct weir_transfer *t, struct cursor *at)
{
	const uint32_t to = number_of(m, t->to);

	if (t->how == WEIR_TRANSFER_FED)
		v->node[t->node].fed = true;
	if (t->how != WEIR_TRANSFER_COPY)
		return;
	v->transfer[v->n_transfers++] = (struct graph_transfer){
		.node = (uint32_t)t->node,
		.split = split_at(v, &at[to], to, t->step),
		.from = number_of(m, t->from),
		.to = to,
		.bytes = t->bytes,
	};
}

/* They are in the order of the operations that read them first. */
static int read_transfers(struct graph_view *v, const struct graph_model *m,
			  uint32_t n)
{
	struct cursor *at = calloc(v->n_devs + 1, sizeof(*at));
	int r = at ? 0 : fail_memory();

	for (uint32_t i = 0; i < n && r == 0; i++) {
		struct weir_transfer t = { .size = sizeof(t) };

		if (weir_exec_transfer(m->schedule, i, &t) < 0)
			r = fail_weir();
		else
			add_transfer(v, m, &t, at);
	}
	free(at);
	return r;
}

int graph_schedule(struct graph_view *v, const struct graph_model *m)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	int r;

	if (weir_exec_info(m->schedule, &info) < 0)
		return fail_weir();
	v->n_devs = m->n_devs;
	v->n_splits = info.splits;
	v->dev = calloc(v->n_devs + 1, sizeof(*v->dev));
	v->split = calloc(v->n_splits + 1, sizeof(*v->split));
	v->transfer = calloc(info.transfers + 1, sizeof(*v->transfer));
	if (!v->dev || !v->split || !v->transfer)
		return fail_memory();
	if ((r = read_devs(v, m)) || (r = read_causes(v, m)) ||
	    (r = read_splits(v, m)))
		return r;
	return read_transfers(v, m, info.transfers);
}
