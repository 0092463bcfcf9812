/* SPDX-License-Identifier: MIT */
/* Which device computes what, and the memory that it needs for that. */
#include <stdlib.h>
#include "graph.h"
#include "output.h"

/* A leaf counts once for each split, or device, that uses it: @mark. */
static void add_leaf(struct graph_sum *sum, const struct graph_node *n,
		     uint32_t *mark, uint32_t user)
{
	if (*mark == user + 1)
		return;
	*mark = user + 1;
	if (n->kind == GRAPH_WEIGHT) {
		graph_add_leaf(&sum->weights, n);
		sum->fed += n->fed ? n->bytes : 0;
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
		v->sum.fed += v->node[i].fed ? v->node[i].bytes : 0;
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
	int r = m->schedule ? graph_schedule(v, m) : one_device(v, m);

	return r ? r : sum_up(v);
}
