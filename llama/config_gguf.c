/* SPDX-License-Identifier: MIT */
/* Hyperparameters from the metadata of GGUF. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "llama.h"

#define ARCH "llama."

/* -ENOENT: there is no such key. */
static int find(const struct weir_model *model, const char *key,
		struct weir_value *ret_value)
{
	*ret_value = (struct weir_value){ .size = sizeof(*ret_value) };
	return weir_model_meta(model, key, ret_value);
}

/* Of any type of integer, as writers differ in that. Missing: *@n stays. */
static int integer(const struct weir_model *model, const char *key, int64_t *n)
{
	struct weir_value v;
	int ret = find(model, key, &v);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (v.type < WEIR_VALUE_U8 || v.type > WEIR_VALUE_I64)
		return llama_fail(-EBADMSG, "%s is not an integer", key);
	if (v.type == WEIR_VALUE_U64 && v.u > INT64_MAX)
		return llama_fail(-EBADMSG, "%s is %" PRIu64, key, v.u);
	*n = v.i;
	return 0;
}

static int real(const struct weir_model *model, const char *key, float *x)
{
	struct weir_value v;
	int ret = find(model, key, &v);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (v.type < WEIR_VALUE_U8 || v.type > WEIR_VALUE_F64)
		return llama_fail(-EBADMSG, "%s is not a number", key);
	*x = (float)v.f;
	return 0;
}

static int required(const struct weir_model *model, const char *key, int64_t *n)
{
	struct weir_value v;

	if (find(model, key, &v) == -ENOENT)
		return llama_fail(-EBADMSG, "the metadata have no %s", key);
	return integer(model, key, n);
}

static int check_architecture(const struct weir_model *model)
{
	struct weir_value v;
	int64_t experts = 0;
	int ret = find(model, "general.architecture", &v);

	if (ret < 0 || v.type != WEIR_VALUE_STRING)
		return llama_fail(-EBADMSG,
				  "the metadata have no general.architecture");
	if (strcmp(v.str, "llama"))
		return llama_fail(-EOPNOTSUPP,
				  "architecture '%s': only 'llama' is "
				  "supported",
				  v.str);
	ret = integer(model, ARCH "expert_count", &experts);
	if (ret == 0 && experts)
		return llama_fail(-EOPNOTSUPP,
				  "a mixture of %" PRId64
				  " experts is not supported",
				  experts);
	return ret;
}

/* The rows of the embeddings, if the metadata do not say it. */
static int64_t embedding_rows(const struct weir_model *model)
{
	struct weir_entry e = { .size = sizeof(e) };
	size_t i;

	if (weir_model_find(model, "token_embd.weight", &i) < 0 ||
	    weir_model_tensor(model, i, &e) < 0)
		return 0;
	return e.shape[0];
}

static int read_vocabulary(const struct weir_model *model,
			   struct llama_config *c)
{
	struct weir_value v;

	if (find(model, ARCH "vocab_size", &v) == 0)
		return integer(model, ARCH "vocab_size", &c->vocabulary);
	if (find(model, "tokenizer.ggml.tokens", &v) == 0 &&
	    v.type == WEIR_VALUE_ARRAY)
		c->vocabulary = (int64_t)v.len;
	else
		c->vocabulary = embedding_rows(model);
	return 0;
}

static int read_sizes(const struct weir_model *model, struct llama_config *c)
{
	const struct {
		const char *key;
		int64_t *n;
	} all[] = {
		{ ARCH "block_count", &c->layers },
		{ ARCH "embedding_length", &c->embedding },
		{ ARCH "feed_forward_length", &c->inner },
		{ ARCH "context_length", &c->context },
		{ ARCH "attention.head_count", &c->heads },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && ret == 0; i++)
		ret = required(model, all[i].key, all[i].n);
	c->kv_heads = c->heads;
	if (ret == 0)
		ret = integer(model, ARCH "attention.head_count_kv",
			      &c->kv_heads);
	return ret < 0 ? ret : read_vocabulary(model, c);
}

static int read_head(const struct weir_model *model, struct llama_config *c)
{
	int64_t value, rotated;
	int ret;

	if (c->heads > 0 && c->embedding % c->heads == 0)
		c->head = c->embedding / c->heads;
	ret = integer(model, ARCH "attention.key_length", &c->head);
	if (ret < 0)
		return ret;
	if (!c->head)
		return llama_fail(-EBADMSG,
				  ARCH "embedding_length is %" PRId64
				       ", no multiple of %" PRId64 " heads",
				  c->embedding, c->heads);
	value = rotated = c->head;
	ret = integer(model, ARCH "attention.value_length", &value);
	if (ret == 0 && value != c->head)
		return llama_fail(-EOPNOTSUPP,
				  "keys of %" PRId64 " and values of %" PRId64
				  " elements: they must have the same length",
				  c->head, value);
	if (ret == 0)
		ret = integer(model, ARCH "rope.dimension_count", &rotated);
	if (ret == 0 && (rotated < 1 || rotated > c->head))
		return llama_fail(-EBADMSG,
				  ARCH "rope.dimension_count is %" PRId64
				       ", a head has %" PRId64,
				  rotated, c->head);
	c->rope.n_dims = (uint32_t)rotated;
	return ret;
}

/* The type of scaling, with the default of llama.cpp. */
static int scaling_type(const struct weir_model *model, bool *ret_none,
			bool *ret_yarn)
{
	const char *type = "linear";
	struct weir_value v;

	if (find(model, ARCH "rope.scaling.type", &v) == 0) {
		if (v.type != WEIR_VALUE_STRING)
			return llama_fail(-EBADMSG, ARCH
					  "rope.scaling.type is not a string");
		type = v.str;
	}
	*ret_none = !strcmp(type, "none");
	*ret_yarn = !strcmp(type, "yarn");
	if (*ret_none || *ret_yarn || !strcmp(type, "linear"))
		return 0;
	return llama_fail(-EOPNOTSUPP,
			  "RoPE scaling of type '%s' is not supported", type);
}

/*
 * llama.cpp takes YaRN's magnitude as 1 where the factor is below 1; that of
 * weir_rope() is below 1 then.
 */
static int read_yarn(const struct weir_model *model, struct llama_config *c,
		     float factor)
{
	struct weir_op_rope *rope = &c->rope;
	int64_t context = c->context;
	int ret = integer(model, ARCH "rope.scaling.original_context_length",
			  &context);

	rope->ext_factor = 1;
	rope->context = context > 0 && context <= INT32_MAX ? (uint32_t)context
							    : 0;
	if (factor < 1)
		rope->attn_factor /= 1 + 0.1F * logf(factor);
	return ret;
}

/* As llama.cpp reads them: a factor that is missing or 0 does not scale. */
static int read_rope(const struct weir_model *model, struct llama_config *c)
{
	struct weir_op_rope *rope = &c->rope;
	bool none = false, yarn = false;
	float factor = 0;
	int ret;

	rope->mode = WEIR_ROPE_NORMAL;
	rope->base = 10000;
	if ((ret = real(model, ARCH "rope.freq_base", &rope->base)) < 0 ||
	    (ret = scaling_type(model, &none, &yarn)) < 0 ||
	    (ret = real(model, ARCH "rope.scale_linear", &factor)) < 0 ||
	    (ret = real(model, ARCH "rope.scaling.factor", &factor)) < 0 ||
	    (ret = real(model, ARCH "rope.scaling.attn_factor",
			&rope->attn_factor)) < 0)
		return ret;
	if (none || factor == 0)
		factor = 1;
	rope->freq_scale = 1 / factor;
	return yarn ? read_yarn(model, c, factor) : 0;
}

int llama_config_gguf(const struct weir_model *model, struct llama_config *c)
{
	int ret;

	c->gguf = true;
	c->tied = weir_model_find(model, "output.weight", &(size_t){ 0 }) < 0;
	c->eps = -1;
	if ((ret = check_architecture(model)) < 0 ||
	    (ret = read_sizes(model, c)) < 0 ||
	    (ret = read_head(model, c)) < 0 ||
	    (ret = read_rope(model, c)) < 0 ||
	    (ret = real(model, ARCH "attention.layer_norm_rms_epsilon",
			&c->eps)) < 0)
		return ret;
	return llama_keys_gguf(model, "llama");
}
