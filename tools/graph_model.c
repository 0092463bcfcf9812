/* SPDX-License-Identifier: MIT */
/*
 * The graph of a pass of a model, and the executable graph that says which
 * device computes what. No weights are loaded.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "../llama/llama.h"
#include "fail_llama.h"
#include "graph.h"
#include "output.h"

/* The default context is a multiple of so many tokens. */
#define CONTEXT_UNIT UINT64_C(256)

/* The options of weir run. */
static const struct llama_opts defaults = LLAMA_OPTS_INIT;

static uint64_t default_context(uint64_t tokens, uint64_t most)
{
	const uint64_t round =
		(tokens + CONTEXT_UNIT - 1) / CONTEXT_UNIT * CONTEXT_UNIT;

	return round < most ? round : most;
}

/* The sizes of the pass, which must be those of a pass of the model. */
static int choose_pass(struct graph_model *m, const struct graph_args *a)
{
	const uint64_t most = (uint64_t)m->llama.config.context;
	const uint64_t context = a->context ? a->context
					    : default_context(a->tokens, most);
	char tokens[COUNT_TEXT];

	if (a->tokens > most || context > most)
		return fail("%s: %s, but the model has a context of %" PRIu64,
			    a->model,
			    count_text(a->tokens > most ? a->tokens : context,
				       "token", tokens),
			    most);
	if (context < a->tokens)
		return fail("a pass of %s attends to at least as many, not to "
			    "%" PRIu64,
			    count_text(a->tokens, "token", tokens), context);
	m->llama.pass = (struct llama_pass){ .tokens = (int64_t)a->tokens };
	m->context = (int64_t)context;
	return 0;
}

/* The graph alone: neither weights nor cache have memory. */
static int build(struct graph_model *m, const struct graph_args *a)
{
	struct llama *l = &m->llama;

	if (llama_cache_init(&l->config, defaults.cache, m->context,
			     &l->cache) < 0 ||
	    weir_graph_new(&l->graph) < 0)
		return fail_llama(a->model);
	llama_graph(l->graph, &l->config, &l->weights, &l->cache, &l->pass);
	return weir_graph_error(l->graph, NULL) < 0 ? fail_weir() : 0;
}

/*
 * Make an executable graph of it on the devices, as weir run does, but without
 * loading weights, whose memory is never accessed.
 */
static int make_exec(struct graph_model *m, const struct graph_args *a)
{
	struct llama_opts opts = defaults;
	struct llama *l = &m->llama;
	int r;

	opts.devs = m->dev;
	opts.n_devs = m->n_devs;
	opts.context = m->context;
	opts.unloaded = true;
	opts.budget = (int64_t)a->budget;
	r = llama_start(l, &opts);
	if (r == 0) {
		llama_graph(l->graph, &l->config, &l->weights, &l->cache,
			    &l->pass);
		r = weir_exec_new(l->sched, l->graph, &m->exec);
	}
	return r < 0 ? fail_budget(a->model, a->budget, r) : 0;
}

int graph_model_open(struct graph_model *m, const struct graph_args *a)
{
	const char *list = a->devices ? a->devices : "CPU";
	struct llama *l = &m->llama;
	int r;

	*m = (struct graph_model){ 0 };
	if (weir_open(&a->root, &m->weir) < 0)
		return fail_weir();
	if (llama_open(m->weir, a->model, l) < 0)
		return fail_llama(a->model);
	r = choose_pass(m, a);
	if (r)
		return r;
	if (!a->devices && !a->budget)
		return build(m, a);
	if (llama_devices(m->weir, list, &m->dev, &m->n_devs) < 0)
		return fail_devices(list);
	return make_exec(m, a);
}

void graph_model_close(struct graph_model *m)
{
	weir_exec_free(m->exec);
	if (m->weir)
		llama_close(&m->llama);
	free(m->dev);
	weir_close(m->weir);
}

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

static int read_lanes(struct graph_view *v, const struct graph_model *m,
		      uint32_t lanes)
{
	for (uint32_t i = 0; i < lanes; i++) {
		struct weir_lane lane = { .size = sizeof(lane) };

		if (weir_exec_lane(m->exec, i, &lane) < 0)
			return fail_weir();
		v->dev[number_of(m, lane.dev)].lane = lane;
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

		if (weir_exec_explain(m->exec, v->op[k], &place) < 0)
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

		if (weir_exec_split(m->exec, i, &s) < 0)
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

	if (t->how == WEIR_TRANSFER_PREFETCHED)
		v->node[t->node].prefetched = true;
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

		if (weir_exec_transfer(m->exec, i, &t) < 0)
			r = fail_weir();
		else
			add_transfer(v, m, &t, at);
	}
	free(at);
	return r;
}

/* The devices, splits and copies of an executable graph. */
static int read_exec(struct graph_view *v, const struct graph_model *m)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	int r;

	if (weir_exec_info(m->exec, &info) < 0)
		return fail_weir();
	v->n_devs = m->n_devs;
	v->n_splits = info.splits;
	v->dev = calloc(v->n_devs + 1, sizeof(*v->dev));
	v->split = calloc(v->n_splits + 1, sizeof(*v->split));
	v->transfer = calloc(info.transfers + 1, sizeof(*v->transfer));
	if (!v->dev || !v->split || !v->transfer)
		return fail_memory();
	if ((r = read_devs(v, m)) || (r = read_lanes(v, m, info.lanes)) ||
	    (r = read_causes(v, m)) || (r = read_splits(v, m)))
		return r;
	return read_transfers(v, m, info.transfers);
}

/* A leaf is added once for each split, or device, that uses it: @mark. */
static void add_leaf(struct graph_sum *sum, const struct graph_node *n,
		     uint32_t *mark, uint32_t user)
{
	if (*mark == user + 1)
		return;
	*mark = user + 1;
	if (n->kind == GRAPH_WEIGHT) {
		graph_add_leaf(&sum->weights, n);
		sum->prefetched += n->prefetched ? n->bytes : 0;
	} else if (n->kind == GRAPH_CACHE) {
		graph_add_leaf(&sum->caches, n);
	}
}

static void add_op(const struct graph_view *v, struct graph_sum *sum,
		   uint32_t i, uint32_t *mark, uint32_t user)
{
	const struct graph_node *n = &v->node[i];

	sum->ops++;
	sum->flops += n->flops;
	sum->moved += n->moved;
	for (uint32_t k = 0; k < n->n_src; k++) {
		const uint32_t from = graph_source(v, i, k);

		if (from != GRAPH_NONE)
			add_leaf(sum, &v->node[from], &mark[from], user);
	}
}

static void add_ops(struct graph_view *v, const struct graph_split *s,
		    struct graph_sum *sum, uint32_t *mark, uint32_t user)
{
	for (uint32_t k = s->first; k < s->first + s->n; k++)
		add_op(v, sum, v->op[k], mark, user);
}

static int sum_up(struct graph_view *v)
{
	uint32_t *mark = calloc(v->n + 1, sizeof(*mark));
	struct graph_split *s = v->split;

	if (!mark)
		return fail_memory();
	for (uint32_t i = 0; i < v->n_splits; i++) {
		for (uint32_t k = s[i].first; k < s[i].first + s[i].n; k++)
			v->node[v->op[k]].split = i;
		add_ops(v, &s[i], &s[i].sum, mark, i);
	}
	for (uint32_t dev = 0; dev < v->n_devs; dev++)
		for (uint32_t i = 0; i < v->n_splits; i++)
			if (s[i].dev == dev)
				add_ops(v, &s[i], &v->dev[dev].sum, mark,
					v->n_splits + dev);
	for (uint32_t i = 0; i < v->n; i++)
		v->sum.prefetched += v->node[i].prefetched ? v->node[i].bytes
							   : 0;
	free(mark);
	return 0;
}

/* The whole graph is one split. */
static int one_device(struct graph_view *v, const struct graph_model *m)
{
	struct weir_dev *cpu = weir_dev_get(m->weir, 0);
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_sched *sched;
	int ret;

	v->n_devs = v->n_splits = 1;
	v->dev = calloc(1, sizeof(*v->dev));
	v->split = calloc(1, sizeof(*v->split));
	if (!v->dev || !v->split)
		return fail_memory();
	v->dev->estimate.size = sizeof(v->dev->estimate);
	if (weir_dev_info(cpu, &info) < 0 ||
	    weir_sched_new(&cpu, 1, NULL, &sched) < 0)
		return fail_weir();
	ret = weir_sched_estimate(sched, m->llama.graph, &v->dev->estimate);
	weir_sched_free(sched);
	v->dev->name = info.name;
	*v->split = (struct graph_split){ .cause = "", .n = v->n_ops };
	return ret < 0 ? fail_weir() : 0;
}

int graph_splits(struct graph_view *v, const struct graph_model *m)
{
	int r = m->exec ? read_exec(v, m) : one_device(v, m);

	return r ? r : sum_up(v);
}
