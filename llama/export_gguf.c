/* SPDX-License-Identifier: MIT */
/*
 * The hyperparameters of a config.json as metadata of GGUF, by the names and
 * types that llama.cpp's converter writes.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "llama.h"

enum {
	KEY_BYTES = 96
};

/* The save that gets the pairs, and the architecture that begins the keys. */
struct writer {
	struct weir_save *save;
	const struct llama_config *config;
	const char *arch;
};

static int set(const struct writer *w, const char *key, struct weir_value v)
{
	char full[KEY_BYTES];

	v.size = sizeof(v);
	v.key = key;
	if (strncmp(key, "general.", 8) != 0) {
		snprintf(full, sizeof(full), "%s.%s", w->arch, key);
		v.key = full;
	}
	return weir_save_meta(w->save, &v);
}

static int text(const struct writer *w, const char *key, const char *s)
{
	return set(w, key,
		   (struct weir_value){ .type = WEIR_VALUE_STRING,
					.str = s,
					.len = strlen(s) });
}

static int integer(const struct writer *w, const char *key, int64_t n)
{
	return set(w, key,
		   (struct weir_value){
			   .type = WEIR_VALUE_U32, .u = (uint64_t)n, .i = n });
}

static int real(const struct writer *w, const char *key, float x)
{
	return set(w, key,
		   (struct weir_value){ .type = WEIR_VALUE_F32,
					.f = (double)x });
}

/* A key whose value is what readers take if it is missing is left out. */
static int yarn(const struct writer *w)
{
	const struct llama_config *c = w->config;
	const struct llama_scaling *s = &c->scaling;
	const double usual = llama_yarn_magnitude(s->factor, 1);
	const double magnitude = (double)c->rope.attn_factor / usual;
	int ret;

	if (s->fast != 32 || s->slow != 1 || !s->truncate || s->factor < 1)
		return llama_fail(-EOPNOTSUPP,
				  "RoPE of type yarn with factor %g, beta_fast "
				  "%g, beta_slow %g%s: readers of GGUF know "
				  "only factors of at least 1, 32 and 1",
				  s->factor, s->fast, s->slow,
				  s->truncate ? "" : ", not truncated");
	if ((ret = text(w, "rope.scaling.type", "yarn")) < 0 ||
	    (ret = real(w, "rope.scaling.factor", (float)s->factor)) < 0 ||
	    (ret = integer(w, "rope.scaling.original_context_length",
			   (int64_t)s->context)) < 0)
		return ret;
	return fabs(magnitude - 1) < 1e-6
		       ? 0
		       : real(w, "rope.scaling.attn_factor", (float)magnitude);
}

static int scaling(const struct writer *w)
{
	const float factor = 1 / w->config->rope.freq_scale;
	int ret;

	if (w->config->scaling.type == LLAMA_SCALING_YARN)
		return yarn(w);
	if (factor == 1)
		return 0;
	ret = text(w, "rope.scaling.type", "linear");
	return ret < 0 ? ret : real(w, "rope.scaling.factor", factor);
}

static int sizes(const struct writer *w)
{
	const struct llama_config *c = w->config;
	const struct {
		const char *key;
		int64_t n;
	} all[] = {
		{ "block_count", c->layers },
		{ "context_length", c->context },
		{ "embedding_length", c->embedding },
		{ "feed_forward_length", c->inner },
		{ "attention.head_count", c->heads },
		{ "attention.head_count_kv", c->kv_heads },
		{ "attention.key_length", c->head },
		{ "attention.value_length", c->head },
		{ "vocab_size", c->vocabulary },
		{ "rope.dimension_count", c->rope.n_dims },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && ret >= 0; i++)
		ret = integer(w, all[i].key, all[i].n);
	return ret;
}

/* GGUF says neither which biases nor in which layers there are windows. */
static int check(const struct llama_config *c, const char *arch)
{
	const bool llama = !strcmp(arch, "llama");

	for (unsigned i = LLAMA_Q; i <= LLAMA_DOWN && !llama; i++) {
		const bool qwen2 = !strcmp(arch, "qwen2") && i <= LLAMA_V;

		if (c->has[LLAMA_BIAS + i] != qwen2)
			return llama_fail(-EOPNOTSUPP,
					  "the architecture '%s' of GGUF has "
					  "other biases than this model",
					  arch);
	}
	if (c->window && (!llama || c->full_layers))
		return llama_fail(-EOPNOTSUPP,
				  "a window in some layers cannot be written "
				  "as GGUF of the architecture '%s'",
				  arch);
	return 0;
}

int llama_export_gguf(const struct llama_config *c, struct weir_save *save)
{
	const struct writer w = {
		.save = save,
		.config = c,
		.arch = !strcmp(c->family, "mistral") ? "llama" : c->family,
	};
	int ret;

	if ((ret = check(c, w.arch)) < 0 ||
	    (ret = text(&w, "general.architecture", w.arch)) < 0 ||
	    (ret = text(&w, "general.type", "model")) < 0 ||
	    (ret = sizes(&w)) < 0 ||
	    (ret = real(&w, "attention.layer_norm_rms_epsilon", c->eps)) < 0 ||
	    (ret = real(&w, "rope.freq_base", (float)c->rope.base)) < 0 ||
	    (ret = scaling(&w)) < 0)
		return ret;
	return c->window ? integer(&w, "attention.sliding_window", c->window)
			 : 0;
}
