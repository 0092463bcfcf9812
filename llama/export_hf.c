/* SPDX-License-Identifier: MIT */
/* The metadata of GGUF as a config.json, as transformers 5 reads it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf.h"

/* The shortest number of which @x is the nearest float. */
static double shortest(float x)
{
	char text[32];
	double d = (double)x;

	for (int digits = 1; digits < 10; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)x);
		d = strtod(text, NULL);
		if ((float)d == x)
			break;
	}
	return d;
}

/* True if all, or with @want none, of these biases are there. */
static bool all_biases(const bool *has, unsigned first, unsigned last,
		       bool want)
{
	for (unsigned i = first; i <= last; i++)
		if (has[LLAMA_BIAS + i] != want)
			return false;
	return true;
}

/* The class of transformers that has what the model has; NULL: none. */
static const char *find_class(const struct llama_config *c)
{
	const bool *has = c->has;
	const bool mlp = all_biases(has, LLAMA_GATE, LLAMA_DOWN, false);
	const bool none = all_biases(has, LLAMA_Q, LLAMA_DOWN, false);
	const bool attention = all_biases(has, LLAMA_Q, LLAMA_ATTN_OUT, true) ||
			       all_biases(has, LLAMA_Q, LLAMA_ATTN_OUT, false);

	if (strcmp(c->family, "llama") != 0)
		return c->family;
	if (c->window)
		return none ? "mistral" : NULL;
	return attention && (mlp ||
			     all_biases(has, LLAMA_GATE, LLAMA_DOWN, true))
		       ? "llama"
		       : NULL;
}

/* Read the F32 of rope_freqs.weight from its file. */
static int read_factors(const struct weir_model *model,
			const struct llama_config *c, float *factor)
{
	const size_t n = c->rope.n_dims / 2;
	struct weir_entry e = { .size = sizeof(e) };
	size_t i;
	int ret;

	if ((ret = weir_model_find(model, "rope_freqs.weight", &i)) < 0 ||
	    (ret = weir_model_tensor(model, i, &e)) < 0)
		return ret;
	if (e.dtype != WEIR_DTYPE_F32)
		return llama_fail(-EOPNOTSUPP, "rope_freqs.weight is not F32");
	return weir_file_read(weir_model_file(model, e.shard), e.offset, factor,
			      n * sizeof(*factor));
}

/* True if the parameters give these factors, up to their rounding. */
static bool gives(const struct llama_config *c, const float *factor)
{
	for (int64_t i = 0; i < c->rope.n_dims / 2; i++) {
		const double want = llama_rope_divisor(c, i);

		if (fabs((double)factor[i] - want) > 1e-5 * want)
			return false;
	}
	return true;
}

/*
 * Find the parameters of Llama 3's scaling, which GGUF has as factors: the
 * largest factor is one of them, and all models that were published have the
 * same ends of the ramp.
 */
static int find_llama3(const struct weir_model *model,
		       const struct llama_config *c, json_t *rope)
{
	static const double contexts[] = { 8192, 4096, 2048, 16384, 32768, 32 };
	struct llama_config try = *c;
	float *factor = calloc(c->rope.n_dims / 2 + 1, sizeof(*factor));
	int ret = factor ? read_factors(model, c, factor)
			 : llama_fail(-ENOMEM, "no memory for RoPE's factors");
	bool found = false;

	try.scaling = (struct llama_scaling){ .type = LLAMA_SCALING_LLAMA3,
					      .low = 1,
					      .high = 4 };
	for (uint32_t i = 0; ret == 0 && i < c->rope.n_dims / 2; i++)
		try.scaling.factor = fmax(try.scaling.factor, factor[i]);
	for (size_t i = 0;
	     ret == 0 && !found && i < sizeof(contexts) / sizeof(*contexts);
	     i++) {
		try.scaling.context = contexts[i];
		found = gives(&try, factor);
	}
	free(factor);
	if (ret == 0 && !found)
		ret = llama_fail(-EOPNOTSUPP,
				 "rope_freqs.weight: its factors are not those "
				 "of a scaling of type llama3");
	if (ret < 0)
		return ret;
	json_object_set_new(rope, "rope_type", json_string("llama3"));
	json_object_set_new(rope, "factor", json_real(try.scaling.factor));
	json_object_set_new(rope, "low_freq_factor", json_real(1));
	json_object_set_new(rope, "high_freq_factor", json_real(4));
	json_object_set_new(rope, "original_max_position_embeddings",
			    json_integer((json_int_t)try.scaling.context));
	return 0;
}

/* Set the members of rope_scaling; none: there is no scaling. */
static int scaling(const struct weir_model *model, const struct llama_config *c,
		   json_t *rope)
{
	const double factor = shortest(1 / c->rope.freq_scale);
	size_t i;

	if (weir_model_find(model, "rope_freqs.weight", &i) == 0)
		return find_llama3(model, c, rope);
	if (c->rope.ext_factor != 0) {
		json_object_set_new(rope, "rope_type", json_string("yarn"));
		json_object_set_new(rope, "factor", json_real(factor));
		json_object_set_new(rope, "original_max_position_embeddings",
				    json_integer(c->rope.context));
		if (c->rope.attn_factor != 1)
			json_object_set_new(
				rope, "attention_factor",
				json_real((double)c->rope.attn_factor *
					  llama_yarn_magnitude(factor, 1)));
	} else if (factor != 1) {
		json_object_set_new(rope, "rope_type", json_string("linear"));
		json_object_set_new(rope, "factor", json_real(factor));
	}
	return 0;
}

static void set_ids(const struct llama_config *c, json_t *o)
{
	json_t *ends = json_array();

	if (c->bos >= 0)
		json_object_set_new(o, "bos_token_id", json_integer(c->bos));
	if (c->pad >= 0)
		json_object_set_new(o, "pad_token_id", json_integer(c->pad));
	for (size_t i = 0; i < c->ends; i++)
		json_array_append_new(ends, json_integer(c->end[i]));
	if (c->ends == 1)
		json_object_set(o, "eos_token_id", json_array_get(ends, 0));
	else if (c->ends)
		json_object_set(o, "eos_token_id", ends);
	json_decref(ends);
}

static const struct {
	const char *type, *class;
} classes[] = {
	{ "llama", "LlamaForCausalLM" },
	{ "mistral", "MistralForCausalLM" },
	{ "qwen2", "Qwen2ForCausalLM" },
	{ "qwen3", "Qwen3ForCausalLM" },
};

/* The rest of what transformers would otherwise choose by itself. */
static void set_family(const struct llama_config *c, const char *type,
		       json_t *o)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (!strcmp(classes[i].type, type))
			json_array_append_new(list,
					      json_string(classes[i].class));
	json_object_set_new(o, "architectures", list);
	json_object_set_new(o, "model_type", json_string(type));
	if (!strcmp(type, "llama")) {
		json_object_set_new(o, "attention_bias",
				    json_boolean(c->has[LLAMA_BIAS + LLAMA_Q]));
		json_object_set_new(
			o, "mlp_bias",
			json_boolean(c->has[LLAMA_BIAS + LLAMA_GATE]));
	} else if (!strcmp(type, "mistral")) {
		json_object_set_new(o, "sliding_window",
				    c->window ? json_integer(c->window)
					      : json_null());
	} else {
		json_object_set_new(o, "use_sliding_window", json_false());
	}
}

static int set_all(const struct weir_model *model, const struct llama_config *c,
		   const char *type, json_t *o)
{
	const struct {
		const char *key;
		int64_t n;
	} all[] = {
		{ "num_hidden_layers", c->layers },
		{ "hidden_size", c->embedding },
		{ "intermediate_size", c->inner },
		{ "vocab_size", c->vocabulary },
		{ "max_position_embeddings", c->context },
		{ "num_attention_heads", c->heads },
		{ "num_key_value_heads", c->kv_heads },
		{ "head_dim", c->head },
	};
	/* Qwen2 has no such member. */
	const bool head = strcmp(type, "qwen2") != 0 ||
			  c->head * c->heads != c->embedding;
	const size_t n = sizeof(all) / sizeof(*all) - !head;
	json_t *rope = json_object();
	int ret;

	set_family(c, type, o);
	for (size_t i = 0; i < n; i++)
		json_object_set_new(o, all[i].key, json_integer(all[i].n));
	json_object_set_new(o, "hidden_act", json_string("silu"));
	json_object_set_new(o, "rms_norm_eps", json_real(shortest(c->eps)));
	json_object_set_new(o, "rope_theta",
			    json_real(shortest((float)c->rope.base)));
	json_object_set_new(o, "tie_word_embeddings", json_boolean(c->tied));
	set_ids(c, o);
	ret = scaling(model, c, rope);
	if (ret == 0 && json_object_size(rope))
		json_object_set(o, "rope_scaling", rope);
	json_decref(rope);
	return ret;
}

int llama_export_hf(const struct weir_model *model,
		    const struct llama_config *c, const char *dtype,
		    char **ret_text)
{
	const char *type = find_class(c);
	json_t *o = json_object();
	int ret;

	if (!o)
		return llama_fail(-ENOMEM, "no memory for config.json");
	if (!type)
		ret = llama_fail(-EOPNOTSUPP,
				 "no model of transformers has the biases%s of "
				 "this model",
				 c->window ? " and the window" : "");
	else
		ret = set_all(model, c, type, o);
	json_object_set_new(o, "torch_dtype", json_string(dtype));
	*ret_text = ret == 0 ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS |
						     JSON_REAL_PRECISION(15))
			     : NULL;
	json_decref(o);
	if (ret == 0 && !*ret_text)
		ret = llama_fail(-ENOMEM, "no memory for config.json");
	return ret;
}
