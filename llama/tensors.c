/* SPDX-License-Identifier: MIT */
/*
 * The tensors that a model of these hyperparameters has: their names and
 * shapes, in GGUF and in the files of Hugging Face. Norms and biases are
 * computed with in F32; matrices keep the dtype of the files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum {
	OTHERS = 4 /* embedding, norm, output, factors */
};

/* State of the search for the tensors. */
struct search {
	const struct weir_model *model;
	const struct llama_config *config;
	struct llama_weights *weights;
	bool *used; /* tensors of the model */
};

static const struct {
	const char *gguf, *hf;
} layer_names[LLAMA_LAYER_TENSORS] = {
	[LLAMA_ATTN_NORM] = { "attn_norm.weight", "input_layernorm.weight" },
	[LLAMA_FFN_NORM] = { "ffn_norm.weight",
			     "post_attention_layernorm.weight" },
	[LLAMA_Q_NORM] = { "attn_q_norm.weight", "self_attn.q_norm.weight" },
	[LLAMA_K_NORM] = { "attn_k_norm.weight", "self_attn.k_norm.weight" },
	[LLAMA_Q] = { "attn_q.weight", "self_attn.q_proj.weight" },
	[LLAMA_K] = { "attn_k.weight", "self_attn.k_proj.weight" },
	[LLAMA_V] = { "attn_v.weight", "self_attn.v_proj.weight" },
	[LLAMA_ATTN_OUT] = { "attn_output.weight", "self_attn.o_proj.weight" },
	[LLAMA_GATE] = { "ffn_gate.weight", "mlp.gate_proj.weight" },
	[LLAMA_UP] = { "ffn_up.weight", "mlp.up_proj.weight" },
	[LLAMA_DOWN] = { "ffn_down.weight", "mlp.down_proj.weight" },
	[LLAMA_BIAS + LLAMA_Q] = { "attn_q.bias", "self_attn.q_proj.bias" },
	[LLAMA_BIAS + LLAMA_K] = { "attn_k.bias", "self_attn.k_proj.bias" },
	[LLAMA_BIAS + LLAMA_V] = { "attn_v.bias", "self_attn.v_proj.bias" },
	[LLAMA_BIAS + LLAMA_ATTN_OUT] = { "attn_output.bias",
					  "self_attn.o_proj.bias" },
	[LLAMA_BIAS + LLAMA_GATE] = { "ffn_gate.bias", "mlp.gate_proj.bias" },
	[LLAMA_BIAS + LLAMA_UP] = { "ffn_up.bias", "mlp.up_proj.bias" },
	[LLAMA_BIAS + LLAMA_DOWN] = { "ffn_down.bias", "mlp.down_proj.bias" },
};

void llama_layer_name(bool gguf, int64_t layer, unsigned kind, char *name)
{
	snprintf(name, LLAMA_NAME_BYTES, "%s.%" PRId64 ".%s",
		 gguf ? "blk" : "model.layers", layer,
		 gguf ? layer_names[kind].gguf : layer_names[kind].hf);
}

const char *llama_other_name(bool gguf, enum llama_other other)
{
	static const char *const names[][2] = {
		[LLAMA_EMBEDDING] = { "model.embed_tokens.weight",
				      "token_embd.weight" },
		[LLAMA_NORM] = { "model.norm.weight", "output_norm.weight" },
		[LLAMA_OUTPUT] = { "lm_head.weight", "output.weight" },
	};

	return names[other][gguf];
}

bool llama_first_has(const struct weir_model *model,
		     const struct llama_config *c, unsigned kind)
{
	char name[LLAMA_NAME_BYTES];
	size_t i;

	llama_layer_name(c->gguf, 0, kind, name);
	return weir_model_find(model, name, &i) == 0;
}

/*
 * Return the rows and columns of a tensor of a layer; 0 rows mean one
 * dimension.
 */
static void layer_shape(const struct llama_config *c, unsigned kind,
			int64_t *rows, int64_t *columns)
{
	const int64_t q = c->heads * c->head, kv = c->kv_heads * c->head;
	const int64_t matrix[LLAMA_DOWN + 1][2] = {
		[LLAMA_Q] = { q, c->embedding },
		[LLAMA_K] = { kv, c->embedding },
		[LLAMA_V] = { kv, c->embedding },
		[LLAMA_ATTN_OUT] = { c->embedding, q },
		[LLAMA_GATE] = { c->inner, c->embedding },
		[LLAMA_UP] = { c->inner, c->embedding },
		[LLAMA_DOWN] = { c->embedding, c->inner },
	};

	*rows = 0;
	if (kind > LLAMA_DOWN) {
		*columns = matrix[kind - LLAMA_BIAS][0];
	} else if (kind >= LLAMA_Q) {
		*rows = matrix[kind][0];
		*columns = matrix[kind][1];
	} else {
		*columns = kind < LLAMA_Q_NORM ? c->embedding : c->head;
	}
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

/* Find a tensor that the model must have, with this shape. */
static int find_entry(struct search *s, const char *name, unsigned ndim,
		      const int64_t *shape, size_t *ret_i,
		      struct weir_entry *ret_entry)
{
	int ret = weir_model_find(s->model, name, ret_i);

	if (ret == -ENOENT)
		return llama_fail(-EBADMSG,
				  "the model has no tensor '%s', which its "
				  "hyperparameters ask for",
				  name);
	ret_entry->size = sizeof(*ret_entry);
	if (ret == 0)
		ret = weir_model_tensor(s->model, *ret_i, ret_entry);
	return ret < 0 ? ret : check_shape(ret_entry, ndim, shape);
}

/* Add the next tensor of the weights. @rows 0: one dimension. */
static int add(struct search *s, const char *name, int64_t rows,
	       int64_t columns, int64_t order)
{
	const int64_t shape[] = { rows ? rows : columns, columns };
	const unsigned ndim = rows ? 2 : 1;
	struct llama_weights *w = s->weights;
	struct weir_tensor *t = &w->tensor[w->n];
	struct weir_entry e;
	size_t i = 0;
	int ret = find_entry(s, name, ndim, shape, &i, &e);

	if (ret < 0)
		return ret;
	ret = weir_tensor_init(t, rows ? e.dtype : WEIR_DTYPE_F32, ndim, shape);
	if (ret < 0)
		return ret;
	t->name = e.name;
	s->used[i] = true;
	w->source[w->n++] = (struct llama_source){
		.entry = i, .order = order, .same = t->dtype == e.dtype
	};
	return 0;
}

static int add_layer(struct search *s, int64_t layer)
{
	const size_t first = s->weights->n;
	int ret = 0;

	for (unsigned i = 0; i < LLAMA_LAYER_TENSORS && ret == 0; i++) {
		char name[LLAMA_NAME_BYTES];
		int64_t rows, columns;

		if (!s->config->has[i])
			continue;
		s->weights->slot[i] = s->weights->n - first;
		llama_layer_name(s->config->gguf, layer, i, name);
		layer_shape(s->config, i, &rows, &columns);
		ret = add(s, name, rows, columns, 1 + layer);
	}
	s->weights->per_layer = s->weights->n - first;
	return ret;
}

size_t llama_weight_of(const struct llama_weights *w, size_t layer,
		       unsigned kind)
{
	return layer * w->per_layer + w->slot[kind];
}

/* Add a tensor that no layer has; its number is *ret_i. */
static int add_other(struct search *s, enum llama_other other, int64_t rows,
		     int64_t columns, int64_t order, size_t *ret_i)
{
	*ret_i = s->weights->n;
	return add(s, llama_other_name(s->config->gguf, other), rows, columns,
		   order);
}

/*
 * Add RoPE's factors: a tensor in GGUF; for the files of Hugging Face they are
 * computed.
 */
static int add_factors(struct search *s)
{
	const int64_t n = s->config->rope.n_dims / 2;
	struct llama_weights *w = s->weights;
	size_t i;

	w->factors = w->n;
	if (s->config->scaling.type != LLAMA_SCALING_NONE) {
		w->source[w->n] =
			(struct llama_source){ .entry = LLAMA_COMPUTED };
		return weir_tensor_init(&w->tensor[w->n++], WEIR_DTYPE_F32, 1,
					&n);
	}
	if (!s->config->gguf ||
	    weir_model_find(s->model, "rope_freqs.weight", &i) < 0)
		return 0;
	return add(s, "rope_freqs.weight", 0, n, 0);
}

static int add_all(struct search *s)
{
	const struct llama_config *c = s->config;
	struct llama_weights *w = s->weights;
	const int64_t last = 1 + c->layers;
	int ret = 0;

	for (int64_t i = 0; i < c->layers && ret == 0; i++)
		ret = add_layer(s, i);
	if (ret < 0 ||
	    (ret = add_other(s, LLAMA_EMBEDDING, c->vocabulary, c->embedding, 0,
			     &w->embedding)) < 0 ||
	    (ret = add_other(s, LLAMA_NORM, 0, c->embedding, last, &w->norm)) <
		    0)
		return ret;
	w->output = w->embedding;
	if (!c->tied)
		ret = add_other(s, LLAMA_OUTPUT, c->vocabulary, c->embedding,
				last, &w->output);
	return ret < 0 ? ret : add_factors(s);
}

/* True if the file repeats what is computed, or the tied embeddings. */
static bool redundant(const struct llama_config *c, const char *name)
{
	return !c->gguf && (strstr(name, ".rotary_emb.inv_freq") ||
			    (c->tied && !strcmp(name, "lm_head.weight")));
}

/* Refuse other tensors: ignoring one would make fluent-looking nonsense. */
static int check_others(const struct search *s)
{
	const size_t n = weir_model_count(s->model);
	struct weir_entry e = { .size = sizeof(e) };
	int ret;

	for (size_t i = 0; i < n; i++) {
		if (s->used[i])
			continue;
		if ((ret = weir_model_tensor(s->model, i, &e)) < 0)
			return ret;
		if (!redundant(s->config, e.name))
			return llama_fail(-EOPNOTSUPP,
					  "tensor '%s' is not part of a model "
					  "of %" PRId64 " layers with these "
					  "hyperparameters",
					  e.name, s->config->layers);
	}
	return 0;
}

int llama_weights_find(const struct weir_model *model,
		       const struct llama_config *c, struct llama_weights *w)
{
	const size_t have = weir_model_count(model);
	struct search s = { .model = model, .config = c, .weights = w };
	size_t most;
	int ret;

	*w = (struct llama_weights){ .n = 0 };
	if ((uint64_t)c->layers > have)
		return llama_fail(-EBADMSG,
				  "the hyperparameters have %" PRId64
				  " layers, the model only %zu tensors",
				  c->layers, have);
	most = (size_t)c->layers * LLAMA_LAYER_TENSORS + OTHERS;
	w->tensor = calloc(most, sizeof(*w->tensor));
	w->source = calloc(most, sizeof(*w->source));
	w->event = calloc(most, sizeof(struct weir_event *));
	s.used = calloc(have + 1, sizeof(*s.used));
	if (!w->tensor || !w->source || !w->event || !s.used)
		ret = llama_fail(-ENOMEM, "no memory for %zu tensors", most);
	else if ((ret = add_all(&s)) == 0)
		ret = check_others(&s);
	free(s.used);
	return ret;
}
