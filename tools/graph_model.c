/* SPDX-License-Identifier: MIT */
/*
 * The graph of a pass of a model. No weights are loaded.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "../llama/llama.h"
#include "fail_llama.h"
#include "graph.h"
#include "output.h"

/* Those of weir run. */
static const struct llama_opts defaults = LLAMA_OPTS_INIT;

static uint64_t default_context(uint64_t tokens, uint64_t most)
{
	const uint64_t unit = (uint64_t)defaults.round;
	const uint64_t round = (tokens + unit - 1) / unit * unit;

	return round < most ? round : most;
}

/* The sizes of the pass, which must be those of a pass of the model. */
static int choose_pass(const struct graph_args *a, const struct llama_config *c,
		       struct llama_pass *pass)
{
	const uint64_t most = (uint64_t)c->context;
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
	*pass = (struct llama_pass){ .tokens = (int64_t)a->tokens,
				     .attended = (int64_t)context };
	return 0;
}

/* The graph alone: neither weights nor cache have memory. */
static int build(struct graph_model *m, const struct graph_args *a)
{
	struct llama *l = &m->llama;

	if (llama_cache_init(&l->config, defaults.cache, l->pass.attended,
			     &l->cache) < 0 ||
	    weir_graph_new(&l->graph) < 0)
		return fail_llama(a->model);
	llama_graph(l->graph, &l->config, &l->weights, &l->cache, &l->pass);
	return weir_graph_error(l->graph, NULL) < 0 ? fail_weir() : 0;
}

/*
 * A schedule of it on the devices, as weir run makes it, but without loading
 * weights: their memory is never touched.
 */
static int schedule(struct graph_model *m, const struct graph_args *a)
{
	struct llama_opts opts = defaults;
	struct llama *l = &m->llama;
	int r;

	opts.devs = m->dev;
	opts.n_devs = m->n_devs;
	opts.context = l->pass.attended;
	opts.unloaded = true;
	opts.budget = (int64_t)a->budget;
	r = llama_start(l, &opts);
	if (r == 0) {
		llama_graph(l->graph, &l->config, &l->weights, &l->cache,
			    &l->pass);
		r = weir_exec_new(l->sched, l->graph, &m->schedule);
	}
	return r < 0 ? fail_budget(a->model, a->budget, r) : 0;
}

int graph_model_open(struct graph_model *m, const struct graph_args *a)
{
	const char *list = a->devices ? a->devices : "CPU";
	struct llama *l = &m->llama;
	int r;

	*m = (struct graph_model){ 0 };
	if (weir_open(NULL, &m->weir) < 0)
		return fail_weir();
	if (llama_open(m->weir, a->model, l) < 0)
		return fail_llama(a->model);
	r = choose_pass(a, &l->config, &l->pass);
	if (r)
		return r;
	if (!a->devices && !a->budget)
		return build(m, a);
	if (llama_devices(m->weir, list, &m->dev, &m->n_devs) < 0)
		return fail_devices(list);
	return schedule(m, a);
}

void graph_model_close(struct graph_model *m)
{
	weir_exec_free(m->schedule);
	if (m->weir)
		llama_close(&m->llama);
	free(m->dev);
	weir_close(m->weir);
}
