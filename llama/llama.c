/* SPDX-License-Identifier: MIT */
/*
 * A model that reads tokens. Passes share an executable graph while they have
 * the same number of tokens: positions and the length so far are inputs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "llama.h"

/* The time between two calls of opts.stop. */
#define POLL_NS (INT64_C(20) * 1000 * 1000)

static int check_opts(const struct llama_opts *opts,
		      const struct llama_config *c)
{
	if (opts->context > c->context)
		return llama_fail(-EINVAL,
				  "%" PRId64 " tokens, but the model has a "
				  "context of %" PRId64,
				  opts->context, c->context);
	return 0;
}

/* Set the number of threads of each device that is a CPU. */
static int set_threads(const struct llama *l)
{
	const struct weir_threads threads = {
		.size = sizeof(threads), .count = (uint32_t)l->opts.threads
	};
	int ret = 0;

	for (unsigned i = 0; i < l->n_parts && ret == 0; i++) {
		struct weir_dev_info info = { .size = sizeof(info) };

		ret = weir_dev_info(l->part[i].dev, &info);
		if (ret == 0 && info.type == WEIR_DEV_CPU && threads.count)
			ret = weir_dev_set_threads(l->part[i].dev, &threads);
	}
	return ret;
}

/*
 * Set the budget of each device: that of the options less the weights that are
 * loaded.
 */
static int new_sched(struct llama *l)
{
	struct weir_sched_opts opts = WEIR_SCHED_OPTS_INIT;
	struct weir_dev **devs = calloc(l->n_parts, sizeof(*devs));
	uint64_t *weights = calloc(l->n_parts, sizeof(*weights));
	int ret;

	for (unsigned i = 0; devs && weights && i < l->n_parts; i++) {
		devs[i] = l->part[i].dev;
		weights[i] = (uint64_t)(l->opts.budget - l->part[i].bytes);
	}
	if (l->opts.budget)
		opts.weights = weights;
	if (devs && weights)
		ret = weir_sched_new(devs, l->n_parts, &opts, &l->sched);
	else
		ret = llama_fail(-ENOMEM, "no memory for %u devices",
				 l->n_parts);
	free(devs);
	free(weights);
	return ret < 0 ? ret : llama_pin(l);
}

int llama_open(struct weir *weir, const char *path, struct llama *l)
{
	int ret;

	*l = (struct llama){ .weir = weir };
	if ((ret = weir_model_open(weir, path, NULL, &l->model)) < 0 ||
	    (ret = llama_config_read(l->model, &l->config)) < 0)
		return ret;
	return llama_weights_find(l->model, &l->config, &l->weights);
}

int llama_start(struct llama *l, const struct llama_opts *opts)
{
	int ret;

	l->opts = *opts;
	if ((ret = check_opts(opts, &l->config)) < 0 ||
	    (ret = llama_divide(l)) < 0 || (ret = set_threads(l)) < 0 ||
	    (ret = llama_weights_load(l)) < 0 ||
	    (ret = llama_cache_init(&l->config, opts->cache, opts->context,
				    &l->cache)) < 0 ||
	    (ret = llama_cache_alloc(l)) < 0 ||
	    (ret = weir_graph_new(&l->graph)) < 0)
		return ret;
	return new_sched(l);
}

static int new_pass(struct llama *l, const struct llama_pass *pass)
{
	int ret;

	weir_run_free(l->run);
	weir_exec_free(l->exec);
	free(l->positions);
	l->run = NULL;
	l->exec = NULL;
	l->pass = *pass;
	l->positions = calloc((size_t)pass->tokens, sizeof(*l->positions));
	if (!l->positions)
		return llama_fail(-ENOMEM,
				  "no memory for positions of %" PRId64
				  " tokens",
				  pass->tokens);
	weir_graph_reset(l->graph);
	llama_graph(l->graph, &l->config, &l->weights, &l->cache, &l->pass);
	if ((ret = weir_exec_new(l->sched, l->graph, &l->exec)) < 0)
		return ret;
	return weir_run_new(l->exec, &l->run);
}

/* Make the run of a pass that reads @n tokens, or use that of the last pass. */
static int prepare_pass(struct llama *l, int64_t n, bool all)
{
	const struct llama_pass pass = { .tokens = n,
					 .all = all,
					 .precision = l->opts.precision };

	if (l->run && l->pass.tokens == n && l->pass.all == all)
		return 0;
	return new_pass(l, &pass);
}

static int set_inputs(struct llama *l, const int32_t *token)
{
	const int64_t n = l->pass.tokens;
	const size_t bytes = (size_t)n * sizeof(*token);
	const int32_t length = (int32_t)(l->position + n);
	int ret;

	for (int64_t i = 0; i < n; i++)
		l->positions[i] = (int32_t)(l->position + i);
	if ((ret = weir_run_input(l->run, l->pass.ids, token, bytes)) < 0 ||
	    (ret = weir_run_input(l->run, l->pass.positions, l->positions,
				  bytes)) < 0)
		return ret;
	return weir_run_input(l->run, l->pass.length, &length, sizeof(length));
}

static int get_logits(struct llama *l, float *ret_logits)
{
	struct weir_tensor t;
	size_t bytes;
	int ret;

	if ((ret = weir_run_output(l->run, l->pass.logits, &t)) < 0 ||
	    (ret = weir_tensor_bytes(&t, &bytes)) < 0)
		return ret;
	return weir_tensor_get(&t, 0, ret_logits, bytes);
}

static int wait_pass(struct llama *l)
{
	int ret;

	while ((ret = weir_run_wait(l->run, l->opts.stop ? POLL_NS : -1)) ==
	       -ETIMEDOUT)
		if (l->opts.stop())
			(void)weir_run_cancel(l->run);
	return ret;
}

static int run_pass(struct llama *l)
{
	struct weir_run_report r = { .size = sizeof(r) };
	int ret;

	if ((ret = weir_run_start(l->run)) < 0 || (ret = wait_pass(l)) < 0 ||
	    (ret = weir_run_report(l->run, &r)) < 0)
		return ret;
	l->position += l->pass.tokens;
	l->waits += r.waits;
	l->pass_ns += r.total_ns;
	l->prefetch_wait_ns += r.prefetch_wait_ns;
	l->kept = r.kept;
	l->prefetched += r.prefetched;
	l->wait_ns += r.wait_ns;
	l->compute_ns += r.compute_ns;
	return 0;
}

static int read_pass(struct llama *l, const int32_t *token, int64_t n, bool all,
		     float *ret_logits)
{
	int ret;

	if ((ret = prepare_pass(l, n, all)) < 0 ||
	    (ret = set_inputs(l, token)) < 0 || (ret = run_pass(l)) < 0)
		return ret;
	return get_logits(l, ret_logits);
}

static int check_tokens(const struct llama *l, const int32_t *token, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (token[i] < 0 || token[i] >= l->config.vocabulary)
			return llama_fail(-EINVAL,
					  "token %" PRId32 ": the vocabulary "
					  "has %" PRId64,
					  token[i], l->config.vocabulary);
	if (n > l->cache.length - l->position)
		return llama_fail(-EINVAL,
				  "%" PRId64 " more tokens: there is room for "
				  "%" PRId64,
				  n, l->cache.length - l->position);
	return 0;
}

int llama_read(struct llama *l, const int32_t *token, int64_t n, bool all,
	       float *ret_logits)
{
	int ret = check_tokens(l, token, n);

	while (n && ret == 0) {
		int64_t now = n < l->opts.batch ? n : l->opts.batch;

		ret = read_pass(l, token, now, all, ret_logits);
		token += now;
		n -= now;
		if (all)
			ret_logits += now * l->config.vocabulary;
	}
	return ret;
}

void llama_close(struct llama *l)
{
	weir_run_free(l->run);
	weir_exec_free(l->exec);
	weir_sched_free(l->sched);
	weir_graph_free(l->graph);
	llama_cache_free(&l->cache);
	llama_weights_free(&l->weights);
	llama_parts_free(l);
	weir_model_close(l->model);
	free(l->positions);
}
