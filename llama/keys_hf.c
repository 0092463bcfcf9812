/* SPDX-License-Identifier: MIT */
/*
 * Members of config.json: how they are read, and which of them may be left
 * unread. Any other may change what the model computes, so its model is
 * refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf.h"

/*
 * Keys that change nothing, whatever their value is: they describe files,
 * training, how tokens are chosen, or the kernel that computes attention. Names
 * that begin with '_' or "unsloth_", end with "_token_id" or contain "dropout"
 * change nothing either.
 */
static const char *const ignored[] = {
	"architectures",
	"attn_implementation",
	"auto_map",
	"bad_words_ids",
	"begin_suppress_tokens",
	"cache_implementation",
	"chunk_size_feed_forward",
	"cross_attention_hidden_size",
	"diversity_penalty",
	"do_sample",
	"dtype",
	"early_stopping",
	"embd_pdrop",
	"encoder_no_repeat_ngram_size",
	"exponential_decay_length_penalty",
	"finetuned",
	"finetuning_task",
	"gradient_checkpointing",
	"id2label",
	"initializer_range",
	"is_decoder",
	"is_llama_config",
	"keys_to_ignore_at_inference",
	"label2id",
	"length_penalty",
	"max_length",
	"max_new_tokens",
	"max_seq_len",
	"max_seq_length",
	"max_sequence_length",
	"min_length",
	"min_new_tokens",
	"min_p",
	"model_max_length",
	"name_or_path",
	"neftune_noise_alpha",
	"no_repeat_ngram_size",
	"num_beam_groups",
	"num_beams",
	"num_labels",
	"num_return_sequences",
	"output_attentions",
	"output_hidden_states",
	"output_router_logits",
	"output_scores",
	"penalty_alpha",
	"prefix",
	"pretraining_tp",
	"problem_type",
	"remove_invalid_values",
	"renormalize_logits",
	"repetition_penalty",
	"resid_pdrop",
	"return_dict",
	"return_dict_in_generate",
	"suppress_tokens",
	"task_specific_params",
	"temperature",
	"tf_legacy_loss",
	"tokenizer_class",
	"tokenizer_model_max_length",
	"tokenizer_padding_side",
	"top_k",
	"top_p",
	"torch_dtype",
	"torchscript",
	"transformers.js_config",
	"transformers_version",
	"trust_remote_code",
	"typical_p",
	"use_bfloat16",
	"use_cache",
	"use_flash_attention",
	"use_flash_attention_2",
	"use_flash_attn",
};

/* Keys that change nothing if they are false, true, or 1. */
static const char *const off[] = {
	"add_cross_attention", "bias",
	"is_encoder_decoder",  "qkv_bias",
	"rope_interleaved",    "tie_encoder_decoder",
	"use_mrope",           "use_qk_norm",
};
static const char *const on[] = { "is_causal" };
static const char *const one[] = {
	"attn_factor",
	"extrapolation_factor",
	"partial_rotary_factor",
};

json_t *hf_take(json_t *o, const char *key)
{
	json_t *v = json_incref(json_object_get(o, key));

	if (v)
		json_object_del(o, key);
	return v;
}

/* Drop @v, which has the wrong type, and fail. */
static int wrong(json_t *v, const char *in, const char *key, const char *want)
{
	json_decref(v);
	return llama_fail(-EBADMSG, "config.json: %s%s is not %s", in, key,
			  want);
}

int hf_integer(json_t *o, const char *in, const char *key, int64_t *ret)
{
	json_t *v = hf_take(o, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) && !json_is_null(v))
		return wrong(v, in, key, "an integer");
	*ret = json_integer_value(v);
	json_decref(v);
	return 0;
}

int hf_real(json_t *o, const char *in, const char *key, double *ret)
{
	json_t *v = hf_take(o, key);

	if (v && !json_is_number(v) && !json_is_null(v))
		return wrong(v, in, key, "a number");
	if (json_is_number(v))
		*ret = json_number_value(v);
	json_decref(v);
	return 0;
}

int hf_bool(json_t *o, const char *in, const char *key, bool *ret)
{
	json_t *v = hf_take(o, key);

	if (v && !json_is_boolean(v) && !json_is_null(v))
		return wrong(v, in, key, "true or false");
	if (json_is_boolean(v))
		*ret = json_is_true(v);
	json_decref(v);
	return 0;
}

static bool is_in(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(key, list[i]))
			return true;
	return false;
}

static bool begins_with(const char *s, const char *begin)
{
	return !strncmp(s, begin, strlen(begin));
}

static bool ends_with(const char *s, const char *end)
{
	const size_t len = strlen(s), n = strlen(end);

	return len >= n && !strcmp(s + len - n, end);
}

static bool is_neutral(const char *key, const json_t *v)
{
	if (json_is_null(v) || key[0] == '_' || begins_with(key, "unsloth_") ||
	    ends_with(key, "_token_id") || strstr(key, "dropout") ||
	    is_in(key, ignored, sizeof(ignored) / sizeof(*ignored)))
		return true;
	if (json_is_object(v))
		return json_object_size(v) == 0;
	if (json_is_array(v))
		return json_array_size(v) == 0;
	if (json_is_true(v))
		return is_in(key, on, sizeof(on) / sizeof(*on));
	if (json_is_false(v))
		return is_in(key, off, sizeof(off) / sizeof(*off));
	return json_is_number(v) && json_number_value(v) == 1 &&
	       is_in(key, one, sizeof(one) / sizeof(*one));
}

int hf_refuse_rest(json_t *o, const char *in)
{
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
	{
		char *text;
		int ret;

		if (is_neutral(key, v))
			continue;
		text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
		ret = llama_fail(-EOPNOTSUPP,
				 "config.json: %s%s is %.60s: this key may "
				 "change what the model computes, and weir "
				 "does not know it; remove it if it does not",
				 in, key, text ? text : "not known");
		free(text);
		return ret;
	}
	return 0;
}
