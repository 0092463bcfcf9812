/* SPDX-License-Identifier: MIT */
/* Hyperparameters from the config.json beside safetensors files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hf.h"

/* @fallback: the value if the key is missing, or NULL. */
static int check_string(json_t *o, const char *key, const char *fallback,
			const char *want)
{
	json_t *v = hf_take(o, key);
	const char *got = v ? json_string_value(v) : fallback;
	int ret = 0;

	if (!got || strcmp(got, want) != 0)
		ret = llama_fail(-EOPNOTSUPP,
				 "config.json: %s is '%s': only '%s' is "
				 "supported",
				 key, got ? got : "", want);
	json_decref(v);
	return ret;
}

static int check_false(json_t *o, const char *key)
{
	bool got = false;
	int ret = hf_bool(o, "", key, &got);

	if (ret < 0 || !got)
		return ret;
	return llama_fail(-EOPNOTSUPP,
			  "config.json: %s is true, which is not supported",
			  key);
}

static int check_architecture(json_t *o)
{
	int ret;

	if ((ret = check_string(o, "model_type", NULL, "llama")) < 0 ||
	    (ret = check_string(o, "hidden_act", "silu", "silu")) < 0 ||
	    (ret = check_false(o, "attention_bias")) < 0)
		return ret;
	return check_false(o, "mlp_bias");
}

static int read_sizes(json_t *o, struct llama_config *c)
{
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

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && ret == 0; i++)
		ret = hf_integer(o, "", all[i].key, all[i].n);
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

/* The id of a token that the vocabulary has. */
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

/* Tokens of the text; several may end it. Missing or null: not known. */
static int read_tokens(json_t *o, struct llama_config *c)
{
	json_t *bos = hf_take(o, "bos_token_id");
	json_t *eos = hf_take(o, "eos_token_id");
	int ret = 0;

	if (bos && !json_is_null(bos))
		ret = read_token("bos_token_id", bos, c, &c->bos);
	if (ret == 0)
		ret = add_ends(eos, c);
	json_decref(bos);
	json_decref(eos);
	return ret;
}

static int read_all(json_t *o, struct llama_config *c)
{
	double eps = 1e-6;
	int ret;

	if ((ret = check_architecture(o)) < 0 || (ret = read_sizes(o, c)) < 0 ||
	    (ret = hf_rope(o, c)) < 0 || (ret = read_tokens(o, c)) < 0 ||
	    (ret = hf_real(o, "", "rms_norm_eps", &eps)) < 0 ||
	    (ret = hf_bool(o, "", "tie_word_embeddings", &c->tied)) < 0)
		return ret;
	c->eps = (float)eps;
	return hf_refuse_rest(o, "");
}

/* config.json is in the folder of the file that was opened. */
static int config_path(const struct weir_model *model, char *path, size_t size)
{
	struct weir_model_info info = { .size = sizeof(info) };
	const char *slash;
	int ret = weir_model_info(model, &info), folder;

	if (ret < 0)
		return ret;
	slash = strrchr(info.path, '/');
	folder = slash ? (int)(slash + 1 - info.path) : 0;
	if ((size_t)snprintf(path, size, "%.*sconfig.json", folder,
			     info.path) >= size)
		return llama_fail(-ENAMETOOLONG, "%s: too long", info.path);
	return 0;
}

int llama_config_hf(const struct weir_model *model, struct llama_config *c)
{
	char path[4096];
	json_error_t error;
	json_t *o;
	int ret = config_path(model, path, sizeof(path));

	if (ret < 0)
		return ret;
	o = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (o)
		ret = read_all(o, c);
	else if (error.line > 0)
		ret = llama_fail(-EBADMSG, "%s: line %d: %s", path, error.line,
				 error.text);
	else
		ret = llama_fail(-ENOENT, "%s", error.text);
	json_decref(o);
	return ret;
}
