/* SPDX-License-Identifier: MIT */
/*
 * Keys of the architecture in the metadata of GGUF that are not known. Such a
 * key may change what the model computes, so its model is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "llama.h"

/* Keys that config_gguf.c reads. */
static const char *const used[] = {
	"attention.head_count",
	"attention.head_count_kv",
	"attention.key_length",
	"attention.layer_norm_rms_epsilon",
	"attention.sliding_window",
	"attention.value_length",
	"block_count",
	"context_length",
	"embedding_length",
	"expert_count",
	"feed_forward_length",
	"rope.dimension_count",
	"rope.freq_base",
	"rope.scale_linear",
	"rope.scaling.attn_factor",
	"rope.scaling.factor",
	"rope.scaling.original_context_length",
	"rope.scaling.type",
	"vocab_size",
};

/*
 * Keys that change nothing, whatever their value is. There are no experts:
 * their number is checked.
 */
static const char *const ignored[] = {
	"decoder_start_token_id", "expert_gating_func",
	"expert_used_count",      "expert_weights_norm",
	"expert_weights_scale",   "rope.scaling.finetuned",
	"tensor_data_layout",
};

/*
 * Keys that change nothing if they have this value or 0. llama.cpp reads none
 * of them for these architectures: those of YaRN have its defaults, and it
 * writes the caps when it saves a model.
 */
static const struct {
	const char *key;
	double value;
} neutral[] = {
	{ "attention.causal", 1 },
	{ "attn_logit_softcapping", 50 },
	{ "embedding_scale", 1 },
	{ "final_logit_softcapping", 30 },
	{ "logit_scale", 1 },
	{ "residual_scale", 1 },
	{ "rope.scaling.yarn_attn_factor", 1 },
	{ "rope.scaling.yarn_beta_fast", 32 },
	{ "rope.scaling.yarn_beta_slow", 1 },
	{ "rope.scaling.yarn_ext_factor", 1 },
};

static bool is_in(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(key, list[i]))
			return true;
	return false;
}

/* A feature whose number is 0 is absent; only causal attention is a default. */
static bool is_neutral(const char *key, const struct weir_value *v)
{
	if (v->type == WEIR_VALUE_STRING || v->type == WEIR_VALUE_ARRAY)
		return false;
	for (size_t i = 0; i < sizeof(neutral) / sizeof(*neutral); i++)
		if (!strcmp(key, neutral[i].key) && v->f == neutral[i].value)
			return true;
	return v->f == 0 && strcmp(key, "attention.causal") != 0;
}

static void print_value(char *to, size_t size, const struct weir_value *v)
{
	if (v->type == WEIR_VALUE_STRING)
		snprintf(to, size, "'%s'", v->str);
	else if (v->type == WEIR_VALUE_ARRAY)
		snprintf(to, size, "an array of %zu", v->len);
	else if (v->type == WEIR_VALUE_BOOL)
		snprintf(to, size, "%s", v->u ? "true" : "false");
	else
		snprintf(to, size, "%.9g", v->f);
}

static int check_key(const char *key, const struct weir_value *v)
{
	char value[80];

	if (is_in(key, used, sizeof(used) / sizeof(*used)) ||
	    is_in(key, ignored, sizeof(ignored) / sizeof(*ignored)) ||
	    is_neutral(key, v))
		return 0;
	print_value(value, sizeof(value), v);
	return llama_fail(-EOPNOTSUPP,
			  "%s is %s: this key may change what the model "
			  "computes, and weir does not know it",
			  v->key, value);
}

int llama_keys_gguf(const struct weir_model *model, const char *arch)
{
	struct weir_model_info info = { .size = sizeof(info) };
	const size_t len = strlen(arch);
	int ret = weir_model_info(model, &info);

	for (size_t i = 0; ret == 0 && i < info.meta; i++) {
		struct weir_value v = { .size = sizeof(v) };

		ret = weir_model_meta_at(model, i, &v);
		if (ret == 0 && !strncmp(v.key, arch, len) && v.key[len] == '.')
			ret = check_key(v.key + len + 1, &v);
	}
	return ret;
}
