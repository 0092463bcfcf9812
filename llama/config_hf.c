/* SPDX-License-Identifier: MIT */
/* Hyperparameters from the config.json beside safetensors files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf.h"

#define CONFIG_MAX (16u << 20)

/* A model_type: what its class in transformers supports, and its defaults. */
struct hf_type {
	const char *name;
	int64_t kv_heads, head; /* 0: as many as heads, embedding by heads */
	bool qkv_biases;        /* the model always has biases of Q, K and V */
	bool attention_bias;    /* the key decides on the biases of Q, K, V and
				out */
	bool mlp_bias;          /* the key decides on the other biases */
	bool norms;             /* heads of Q and K have norms */
	bool window;            /* sliding_window holds for all layers */
	bool some_windows;      /* it holds for the layers after
				max_window_layers */
};

static const struct hf_type types[] = {
	{ .name = "llama", .attention_bias = true, .mlp_bias = true },
	{ .name = "mistral", .kv_heads = 8, .window = true },
	{ .name = "qwen2",
	  .kv_heads = 32,
	  .qkv_biases = true,
	  .some_windows = true },
	{ .name = "qwen3",
	  .kv_heads = 32,
	  .head = 128,
	  .attention_bias = true,
	  .norms = true,
	  .some_windows = true },
};

/* The config.json that is read: @o has the members that have not been read. */
struct reader {
	json_t *o;
	const struct hf_type *type;
	struct llama_config *config;
};

static int find_type(struct reader *r)
{
	json_t *v = hf_take(r->o, "model_type");
	const char *got = json_string_value(v);
	int ret = 0;

	for (size_t i = 0; got && i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(got, types[i].name))
			r->type = &types[i];
	r->config->family = r->type ? r->type->name : NULL;
	if (!r->type)
		ret = llama_fail(-EOPNOTSUPP,
				 "config.json: model_type is '%s': only "
				 "'llama', 'mistral', 'qwen2' and 'qwen3' are "
				 "supported",
				 got ? got : "");
	json_decref(v);
	return ret;
}

static int check_activation(const struct reader *r)
{
	json_t *v = hf_take(r->o, "hidden_act");
	const char *got = json_string_value(v);
	int ret = 0;

	if (v && (!got || strcmp(got, "silu") != 0))
		ret = llama_fail(-EOPNOTSUPP,
				 "config.json: hidden_act is '%s': only 'silu' "
				 "is supported",
				 got ? got : "");
	json_decref(v);
	return ret;
}

/* Qwen2 has the biases of Q, K and V, whatever attention_bias is. */
static int read_biases(const struct reader *r)
{
	bool attention = false, mlp = false, *has = r->config->has;
	int ret;

	if ((ret = hf_bool(r->o, "", "attention_bias", &attention)) < 0 ||
	    (ret = hf_bool(r->o, "", "mlp_bias", &mlp)) < 0)
		return ret;
	if ((attention && !r->type->attention_bias && !r->type->qkv_biases) ||
	    (mlp && !r->type->mlp_bias))
		return llama_fail(-EOPNOTSUPP,
				  "config.json: %s_bias is true, which is not "
				  "supported for model_type '%s'",
				  mlp ? "mlp" : "attention", r->type->name);
	for (unsigned i = LLAMA_Q; i <= LLAMA_ATTN_OUT; i++)
		has[LLAMA_BIAS + i] = attention && r->type->attention_bias;
	for (unsigned i = LLAMA_Q; i <= LLAMA_V; i++)
		has[LLAMA_BIAS + i] |= r->type->qkv_biases;
	for (unsigned i = LLAMA_GATE; i <= LLAMA_DOWN; i++)
		has[LLAMA_BIAS + i] = mlp;
	has[LLAMA_Q_NORM] = has[LLAMA_K_NORM] = r->type->norms;
	return 0;
}

static int read_sizes(const struct reader *r)
{
	struct llama_config *c = r->config;
	const struct {
		const char *key;
		int64_t *n;
	} all[] = {
		{ "num_hidden_layers", &c->layers },
		{ "hidden_size", &c->embedding },
		{ "intermediate_size", &c->inner },
		{ "vocab_size", &c->vocabulary },
		{ "max_position_embeddings", &c->context },
		{ "num_attention_heads", &c->heads },
		{ "num_key_value_heads", &c->kv_heads },
		{ "head_dim", &c->head },
	};
	int ret = 0;

	c->kv_heads = r->type->kv_heads;
	c->head = r->type->head;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && ret == 0; i++)
		ret = hf_integer(r->o, "", all[i].key, all[i].n);
	if (!c->kv_heads)
		c->kv_heads = c->heads;
	if (ret < 0 || c->head)
		return ret;
	if (c->heads <= 0 || c->embedding % c->heads)
		return llama_fail(-EBADMSG,
				  "config.json: hidden_size is %" PRId64
				  ", no multiple of %" PRId64 " heads",
				  c->embedding, c->heads);
	c->head = c->embedding / c->heads;
	return 0;
}

/*
 * Return the number of leading layers that attend to all tokens. Only layers
 * with a window may follow; otherwise, or if it is no list of strings, return
 * -1.
 */
static int64_t count_full(const json_t *list)
{
	const size_t n = json_array_size(list);
	size_t full = 0;

	for (size_t i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(list, i));

		if (s && i == full && !strcmp(s, "full_attention"))
			full++;
		else if (!s || strcmp(s, "sliding_attention") != 0)
			return -1;
	}
	return (int64_t)full;
}

/* Qwen's classes go by the list; others do not know it, so it must agree. */
static int check_layer_types(const struct reader *r, const json_t *list)
{
	struct llama_config *c = r->config;
	int64_t full = count_full(list);

	if (!json_is_array(list) || (int64_t)json_array_size(list) != c->layers)
		return llama_fail(-EBADMSG,
				  "config.json: layer_types is not a list of "
				  "%" PRId64 " types",
				  c->layers);
	if (r->type->some_windows && c->window && full >= 0)
		c->full_layers = full;
	if (full == (c->window ? c->full_layers : c->layers))
		return 0;
	return llama_fail(
		-EOPNOTSUPP,
		"config.json: layer_types has an order of windows "
		"that is not supported, or that other keys contradict");
}

/*
 * Read which layers attend to the last tokens only. A window may cover the
 * context. Mistral's class does not know use_sliding_window.
 */
static int read_window(const struct reader *r)
{
	struct llama_config *c = r->config;
	bool use = !r->type->some_windows;
	int64_t window = r->type->window || r->type->some_windows ? 4096 : 0;
	int64_t full = 28;
	json_t *list;
	int ret;

	if ((ret = hf_bool(r->o, "", "use_sliding_window", &use)) < 0 ||
	    (ret = hf_integer(r->o, "", "sliding_window", &window)) < 0 ||
	    (ret = hf_integer(r->o, "", "max_window_layers", &full)) < 0)
		return ret;
	c->window = use || r->type->window ? window : 0;
	c->full_layers = r->type->some_windows ? full : 0;
	if (c->window && c->window < c->context && !r->type->window &&
	    !r->type->some_windows)
		return llama_fail(-EOPNOTSUPP,
				  "config.json: sliding_window is %" PRId64
				  ", the context %" PRId64
				  ": a window is not supported for model_type "
				  "'%s'",
				  c->window, c->context, r->type->name);
	list = hf_take(r->o, "layer_types");
	if (list && !json_is_null(list) && c->window < c->context)
		ret = check_layer_types(r, list);
	json_decref(list);
	return ret;
}

/* Read the id of a token of the vocabulary. */
static int read_token(const char *key, const json_t *v,
		      const struct llama_config *c, int32_t *ret_token)
{
	const json_int_t id = json_integer_value(v);

	if (!json_is_integer(v) || id < 0 || id >= c->vocabulary)
		return llama_fail(-EBADMSG,
				  "config.json: %s is not the id of one of "
				  "%" PRId64 " tokens",
				  key, c->vocabulary);
	*ret_token = (int32_t)id;
	return 0;
}

static int add_end(const json_t *v, struct llama_config *c)
{
	const char key[] = "eos_token_id";

	if (c->ends == LLAMA_ENDS)
		return llama_fail(-EOPNOTSUPP,
				  "config.json: %s has over %d tokens", key,
				  LLAMA_ENDS);
	return read_token(key, v, c, &c->end[c->ends++]);
}

static int add_ends(const json_t *eos, struct llama_config *c)
{
	int ret = 0;

	if (!eos || json_is_null(eos))
		return 0;
	if (!json_is_array(eos))
		return add_end(eos, c);
	for (size_t i = 0; i < json_array_size(eos) && ret == 0; i++)
		ret = add_end(json_array_get(eos, i), c);
	return ret;
}

/*
 * Read the token that begins a text and those that end it. They are not known
 * if the key is missing or null.
 */
static int read_tokens(const struct reader *r)
{
	struct llama_config *c = r->config;
	json_t *bos = hf_take(r->o, "bos_token_id");
	json_t *eos = hf_take(r->o, "eos_token_id");
	json_t *pad = hf_take(r->o, "pad_token_id");
	int ret = 0;

	if (bos && !json_is_null(bos))
		ret = read_token("bos_token_id", bos, c, &c->bos);
	/* The first Llama has -1, which is none. */
	if (ret == 0 && json_integer_value(pad) >= 0 && json_is_integer(pad))
		ret = read_token("pad_token_id", pad, c, &c->pad);
	if (ret == 0)
		ret = add_ends(eos, c);
	json_decref(bos);
	json_decref(eos);
	json_decref(pad);
	return ret;
}

static int read_all(json_t *o, struct llama_config *c)
{
	struct reader r = { .o = o, .config = c };
	double eps = 1e-6;
	int ret;

	if ((ret = find_type(&r)) < 0 || (ret = check_activation(&r)) < 0 ||
	    (ret = read_biases(&r)) < 0 || (ret = read_sizes(&r)) < 0 ||
	    (ret = read_window(&r)) < 0 || (ret = hf_rope(o, c)) < 0 ||
	    (ret = read_tokens(&r)) < 0 ||
	    (ret = hf_real(o, "", "rms_norm_eps", &eps)) < 0 ||
	    (ret = hf_bool(o, "", "tie_word_embeddings", &c->tied)) < 0)
		return ret;
	c->eps = (float)eps;
	return hf_refuse_rest(o, "");
}

/* Jansson quotes the file after "near": it may be a file of another kind. */
static int unquoted(const char *text)
{
	const char *near = strstr(text, " near '");

	return near ? (int)(near - text) : (int)strlen(text);
}

static int parse(const char *path, const char *text, size_t n,
		 struct llama_config *c)
{
	json_error_t error;
	json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
	int ret;

	if (o)
		ret = read_all(o, c);
	else
		ret = llama_fail(-EBADMSG, "%s: line %d: %.*s", path,
				 error.line, unquoted(error.text), error.text);
	json_decref(o);
	return ret;
}

static int read_file(struct weir_file *file, struct llama_config *c)
{
	struct weir_file_info info = { .size = sizeof(info) };
	char *text;
	int ret = weir_file_info(file, &info);

	if (ret < 0)
		return ret;
	if (info.bytes > CONFIG_MAX)
		return llama_fail(-EFBIG, "%s: %" PRIu64 " bytes, at most %u",
				  info.path, info.bytes, CONFIG_MAX);
	text = malloc((size_t)info.bytes + 1);
	if (!text)
		return llama_fail(-ENOMEM, "no memory for %s", info.path);
	ret = weir_file_read(file, 0, text, (size_t)info.bytes);
	if (ret == 0)
		ret = parse(info.path, text, (size_t)info.bytes, c);
	free(text);
	return ret;
}

int llama_config_hf(const struct weir_model *model, struct llama_config *c)
{
	struct weir_file *file;
	int ret = weir_model_beside(model, "config.json", &file);

	if (ret < 0)
		return ret;
	ret = read_file(file, c);
	weir_file_close(file);
	return ret;
}
