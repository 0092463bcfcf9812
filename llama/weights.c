/* SPDX-License-Identifier: MIT */
/*
 * The weights: which tensors a model has, where they are in memory, and their
 * load, in the order in which a pass uses them. Norms are converted to F32;
 * other tensors stay as they are in the files.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum {
	NAME_BYTES = 96,
	OTHERS = 4 /* embedding, norm, output, factors */
};

/* Used while the weights are loaded, and freed after that. */
struct loading {
	const struct weir_model *model;
	const struct llama_config *config;
	struct llama_weights *weights;
	struct weir_target *target;
	size_t targets; /* tensors of the model that are used */
	bool *used;
};

static const struct {
	const char *gguf, *hf;
} layer_names[LLAMA_LAYER_TENSORS] = {
	[LLAMA_ATTN_NORM] = { "attn_norm", "input_layernorm" },
	[LLAMA_Q] = { "attn_q", "self_attn.q_proj" },
	[LLAMA_K] = { "attn_k", "self_attn.k_proj" },
	[LLAMA_V] = { "attn_v", "self_attn.v_proj" },
	[LLAMA_ATTN_OUT] = { "attn_output", "self_attn.o_proj" },
	[LLAMA_FFN_NORM] = { "ffn_norm", "post_attention_layernorm" },
	[LLAMA_GATE] = { "ffn_gate", "mlp.gate_proj" },
	[LLAMA_UP] = { "ffn_up", "mlp.up_proj" },
	[LLAMA_DOWN] = { "ffn_down", "mlp.down_proj" },
};

/* Rows and columns of a tensor of a layer; 0 rows: one dimension. */
static void layer_shape(const struct llama_config *c, unsigned kind,
			int64_t *rows, int64_t *columns)
{
	const int64_t q = c->heads * c->head, kv = c->kv_heads * c->head;
	const int64_t shape[LLAMA_LAYER_TENSORS][2] = {
		[LLAMA_ATTN_NORM] = { 0, c->embedding },
		[LLAMA_Q] = { q, c->embedding },
		[LLAMA_K] = { kv, c->embedding },
		[LLAMA_V] = { kv, c->embedding },
		[LLAMA_ATTN_OUT] = { c->embedding, q },
		[LLAMA_FFN_NORM] = { 0, c->embedding },
		[LLAMA_GATE] = { c->inner, c->embedding },
		[LLAMA_UP] = { c->inner, c->embedding },
		[LLAMA_DOWN] = { c->embedding, c->inner },
	};

	*rows = shape[kind][0];
	*columns = shape[kind][1];
}

static void print_shape(char *to, size_t size, unsigned ndim,
			const int64_t *shape)
{
	size_t n = 0;

	to[0] = '\0';
	for (unsigned i = 0; i < ndim && n < size; i++)
		n += (size_t)snprintf(to + n, size - n, "%s%" PRId64,
				      i ? ", " : "", shape[i]);
}

static int check_shape(const struct weir_entry *e, unsigned ndim,
		       const int64_t *shape)
{
	char got[200], want[64];

	if (e->ndim == ndim && !memcmp(e->shape, shape, ndim * sizeof(*shape)))
		return 0;
	print_shape(got, sizeof(got), e->ndim, e->shape);
	print_shape(want, sizeof(want), ndim, shape);
	return llama_fail(-EBADMSG,
			  "tensor '%s' has shape [%s], but [%s] by the "
			  "hyperparameters",
			  e->name, got, want);
}

/* The entry of a tensor that the model must have, with this shape. */
static int find_entry(struct loading *l, const char *name, unsigned ndim,
		      const int64_t *shape, size_t *ret_i,
		      struct weir_entry *ret_entry)
{
	int ret = weir_model_find(l->model, name, ret_i);

	if (ret == -ENOENT)
		return llama_fail(-EBADMSG,
				  "the model has no tensor '%s', which its "
				  "hyperparameters ask for",
				  name);
	ret_entry->size = sizeof(*ret_entry);
	if (ret == 0)
		ret = weir_model_tensor(l->model, *ret_i, ret_entry);
	return ret < 0 ? ret : check_shape(ret_entry, ndim, shape);
}

/*
 * Add a target: the next tensor of the weights. @rows 0: one dimension. What
 * has the least @order is read first.
 */
static int add(struct loading *l, const char *name, int64_t rows,
	       int64_t columns, int64_t order)
{
	const int64_t shape[] = { rows ? rows : columns, columns };
	struct weir_tensor *t = &l->weights->tensor[l->targets];
	struct weir_target *target = &l->target[l->targets];
	const unsigned ndim = rows ? 2 : 1;
	struct weir_entry e;
	size_t i = 0;
	int ret = find_entry(l, name, ndim, shape, &i, &e);

	if (ret < 0)
		return ret;
	ret = weir_tensor_init(t, rows ? e.dtype : WEIR_DTYPE_F32, ndim, shape);
	if (ret < 0)
		return ret;
	t->name = e.name;
	l->used[i] = true;
	*target = (struct weir_target){ .size = sizeof(*target),
					.tensor = i,
					.dst = t,
					.priority = (int32_t)-order };
	l->targets++;
	return 0;
}

static int add_layer(struct loading *l, int64_t layer)
{
	int ret = 0;

	for (unsigned i = 0; i < LLAMA_LAYER_TENSORS && ret == 0; i++) {
		char name[NAME_BYTES];
		int64_t rows, columns;

		if (l->config->gguf)
			snprintf(name, sizeof(name),
				 "blk.%" PRId64 ".%s.weight", layer,
				 layer_names[i].gguf);
		else
			snprintf(name, sizeof(name),
				 "model.layers.%" PRId64 ".%s.weight", layer,
				 layer_names[i].hf);
		layer_shape(l->config, i, &rows, &columns);
		ret = add(l, name, rows, columns, 1 + layer);
	}
	return ret;
}

/* Adds a tensor that no layer has; its number is *ret_i. */
static int add_other(struct loading *l, const char *gguf, const char *hf,
		     int64_t rows, int64_t columns, int64_t order,
		     size_t *ret_i)
{
	*ret_i = l->targets;
	return add(l, l->config->gguf ? gguf : hf, rows, columns, order);
}

/* Factors are in GGUF a tensor; else they are computed, and not loaded. */
static int add_factors(struct loading *l)
{
	const int64_t n = l->config->rope.n_dims / 2;
	struct llama_weights *w = l->weights;
	size_t i;

	w->factors = w->n;
	if (l->config->llama3.factor > 0)
		return weir_tensor_init(&w->tensor[w->n++], WEIR_DTYPE_F32, 1,
					&n);
	if (!l->config->gguf ||
	    weir_model_find(l->model, "rope_freqs.weight", &i) < 0)
		return 0;
	w->n++;
	return add(l, "rope_freqs.weight", 0, n, 0);
}

static int add_all(struct loading *l)
{
	const struct llama_config *c = l->config;
	struct llama_weights *w = l->weights;
	const int64_t last = 1 + c->layers;
	int ret = 0;

	for (int64_t i = 0; i < c->layers && ret == 0; i++)
		ret = add_layer(l, i);
	if (ret < 0 ||
	    (ret = add_other(l, "token_embd.weight",
			     "model.embed_tokens.weight", c->vocabulary,
			     c->embedding, 0, &w->embedding)) < 0 ||
	    (ret = add_other(l, "output_norm.weight", "model.norm.weight", 0,
			     c->embedding, last, &w->norm)) < 0)
		return ret;
	w->output = w->embedding;
	if (!c->tied)
		ret = add_other(l, "output.weight", "lm_head.weight",
				c->vocabulary, c->embedding, last, &w->output);
	w->n = l->targets;
	return ret < 0 ? ret : add_factors(l);
}

/* A copy of what this program computes itself. */
static bool redundant(const struct llama_config *c, const char *name)
{
	return !c->gguf && (strstr(name, ".rotary_emb.inv_freq") ||
			    (c->tied && !strcmp(name, "lm_head.weight")));
}

/* A tensor that is ignored would make fluent-looking nonsense. */
static int check_others(const struct loading *l)
{
	const size_t n = weir_model_count(l->model);
	struct weir_entry e = { .size = sizeof(e) };
	int ret;

	for (size_t i = 0; i < n; i++) {
		if (l->used[i])
			continue;
		if ((ret = weir_model_tensor(l->model, i, &e)) < 0)
			return ret;
		if (!redundant(l->config, e.name))
			return llama_fail(-EOPNOTSUPP,
					  "tensor '%s' is not part of a Llama "
					  "model of %" PRId64 " layers",
					  e.name, l->config->layers);
	}
	return 0;
}

/* Llama 3: long waves are stretched, short ones are not. */
static int set_factors(const struct llama_config *c,
		       const struct weir_tensor *t)
{
	const struct llama3_scaling *s = &c->llama3;
	int ret = 0;

	for (int64_t i = 0; i < t->shape[0] && ret == 0; i++) {
		double turn =
			pow(c->rope.base, 2.0 * (double)i / c->rope.n_dims);
		double waves = s->context / (2 * M_PI * turn);
		double share = (waves - s->low) / (s->high - s->low);
		float factor;

		share = fmin(fmax(share, 0), 1);
		factor = (float)(1 / ((1 - share) / s->factor + share));
		ret = weir_tensor_set(t, (size_t)i * sizeof(factor), &factor,
				      sizeof(factor));
	}
	return ret;
}

static int start_load(struct loading *l, struct weir_model *model)
{
	struct llama_weights *w = l->weights;
	struct weir_plan *plan = NULL;
	int ret;

	if ((ret = weir_plan_new(model, &plan)) == 0 &&
	    (ret = weir_plan_put_tensors(plan, l->target, l->targets)) == 0)
		ret = weir_load_start(plan, NULL, &w->load);
	weir_plan_free(plan);
	return ret;
}

/* One event for each tensor that is loaded. */
static int record_events(struct weir *weir, struct loading *l)
{
	struct llama_weights *w = l->weights;
	int ret = 0;

	for (size_t i = 0; i < l->targets && ret == 0; i++) {
		ret = weir_event_new(weir, 0, &w->event[i]);
		if (ret == 0)
			ret = weir_load_record(w->load, i, w->event[i]);
	}
	return ret;
}

static int load(struct weir *weir, struct weir_model *model, struct loading *l)
{
	struct llama_weights *w = l->weights;
	struct weir_buft *huge;
	int ret;

	if ((ret = add_all(l)) < 0 || (ret = check_others(l)) < 0 ||
	    (ret = weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_HUGE, &huge)) <
		    0 ||
	    (ret = weir_tensors_alloc(huge, w->tensor, w->n, &w->buf)) < 0 ||
	    (ret = start_load(l, model)) < 0)
		return ret;
	if (l->config->llama3.factor > 0)
		ret = set_factors(l->config, &w->tensor[w->factors]);
	return ret < 0 ? ret : record_events(weir, l);
}

int llama_weights_load(struct weir *weir, struct weir_model *model,
		       const struct llama_config *c, struct llama_weights *w)
{
	const size_t have = weir_model_count(model);
	struct loading l = { .model = model, .config = c, .weights = w };
	size_t most;
	int ret = -ENOMEM;

	*w = (struct llama_weights){ .n = 0 };
	if ((uint64_t)c->layers > have)
		return llama_fail(-EBADMSG,
				  "the hyperparameters have %" PRId64
				  " layers, the model only %zu tensors",
				  c->layers, have);
	most = (size_t)c->layers * LLAMA_LAYER_TENSORS + OTHERS;
	w->tensor = calloc(most, sizeof(*w->tensor));
	w->event = calloc(most, sizeof(struct weir_event *));
	l.target = calloc(most, sizeof(*l.target));
	l.used = calloc(have + 1, sizeof(*l.used));
	if (w->tensor && w->event && l.target && l.used)
		ret = load(weir, model, &l);
	else
		llama_fail(ret, "no memory for the names of %zu tensors", most);
	free(l.target);
	free(l.used);
	return ret;
}

void llama_weights_free(struct llama_weights *w)
{
	for (size_t i = 0; w->event && i < w->n; i++)
		weir_event_free(w->event[i]);
	weir_load_free(w->load);
	weir_buf_free(w->buf);
	free(w->event);
	free(w->tensor);
}
