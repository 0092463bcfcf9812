/* SPDX-License-Identifier: MIT */
/* Hyperparameters from the metadata of GGUF. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "llama.h"

enum {
	KEY_BYTES = 96
};

/* An architecture that general.architecture names. */
struct gguf_arch {
	const char *name;
	bool pairs;      /* neighbours rotate together; else halves of heads */
	bool any_biases; /* a file may have the bias of any matrix */
	bool qkv_biases; /* a file has the biases of Q, K and V */
	bool norms;      /* heads of Q and K have norms */
	bool window;     /* attention.sliding_window holds for all layers */
};

static const struct gguf_arch archs[] = {
	{ .name = "llama", .pairs = true, .any_biases = true, .window = true },
	{ .name = "qwen2", .qkv_biases = true },
	{ .name = "qwen3", .norms = true },
};

/* The model that is read, and its architecture, whose name begins the keys. */
struct reader {
	const struct weir_model *model;
	const struct gguf_arch *arch;
	struct llama_config *config;
};

static void full_key(const struct reader *r, const char *key, char *full)
{
	snprintf(full, KEY_BYTES, "%s.%s", r->arch->name, key);
}

/* Find the value of a key. -ENOENT: there is no such key. */
static int find(const struct reader *r, const char *key,
		struct weir_value *ret_value)
{
	char full[KEY_BYTES];

	full_key(r, key, full);
	*ret_value = (struct weir_value){ .size = sizeof(*ret_value) };
	return weir_model_meta(r->model, full, ret_value);
}

/*
 * Read an integer of any type, since writers differ in the type. If the key is
 * missing, *@n stays.
 */
static int integer(const struct reader *r, const char *key, int64_t *n)
{
	struct weir_value v;
	int ret = find(r, key, &v);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (v.type < WEIR_VALUE_U8 || v.type > WEIR_VALUE_I64)
		return llama_fail(-EBADMSG, "%s.%s is not an integer",
				  r->arch->name, key);
	if (v.type == WEIR_VALUE_U64 && v.u > INT64_MAX)
		return llama_fail(-EBADMSG, "%s.%s is %" PRIu64, r->arch->name,
				  key, v.u);
	*n = v.i;
	return 0;
}

/* Read a number. If the key is missing, *@x stays. */
static int real(const struct reader *r, const char *key, float *x)
{
	struct weir_value v;
	int ret = find(r, key, &v);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (v.type < WEIR_VALUE_U8 || v.type > WEIR_VALUE_F64)
		return llama_fail(-EBADMSG, "%s.%s is not a number",
				  r->arch->name, key);
	*x = (float)v.f;
	return 0;
}

static int required(const struct reader *r, const char *key, int64_t *n)
{
	struct weir_value v;

	if (find(r, key, &v) == -ENOENT)
		return llama_fail(-EBADMSG, "the metadata have no %s.%s",
				  r->arch->name, key);
	return integer(r, key, n);
}

static int find_arch(struct reader *r)
{
	struct weir_value v = { .size = sizeof(v) };
	int64_t experts = 0;
	int ret = weir_model_meta(r->model, "general.architecture", &v);

	if (ret < 0 || v.type != WEIR_VALUE_STRING)
		return llama_fail(-EBADMSG,
				  "the metadata have no general.architecture");
	for (size_t i = 0; i < sizeof(archs) / sizeof(*archs); i++)
		if (!strcmp(v.str, archs[i].name))
			r->arch = &archs[i];
	r->config->family = r->arch ? r->arch->name : NULL;
	if (!r->arch)
		return llama_fail(-EOPNOTSUPP,
				  "architecture '%s': only 'llama', 'qwen2' "
				  "and 'qwen3' are supported",
				  v.str);
	ret = integer(r, "expert_count", &experts);
	if (ret == 0 && experts)
		return llama_fail(-EOPNOTSUPP,
				  "a mixture of %" PRId64
				  " experts is not supported",
				  experts);
	return ret;
}

/* Find the tensors of a layer. */
static void find_kinds(const struct reader *r)
{
	bool *has = r->config->has;

	for (unsigned i = LLAMA_BIAS + LLAMA_Q; i < LLAMA_LAYER_TENSORS; i++)
		has[i] = r->arch->any_biases &&
			 llama_first_has(r->model, r->config, i);
	for (unsigned i = LLAMA_Q; i <= LLAMA_V; i++)
		has[LLAMA_BIAS + i] |= r->arch->qkv_biases;
	has[LLAMA_Q_NORM] = has[LLAMA_K_NORM] = r->arch->norms;
}

/*
 * Return the number of rows of the embeddings, for models whose metadata lack
 * it.
 */
static int64_t embedding_rows(const struct weir_model *model)
{
	struct weir_entry e = { .size = sizeof(e) };
	size_t i;

	if (weir_model_find(model, "token_embd.weight", &i) < 0 ||
	    weir_model_tensor(model, i, &e) < 0)
		return 0;
	return e.shape[0];
}

static int read_vocabulary(const struct reader *r)
{
	struct weir_value v;
	int64_t *n = &r->config->vocabulary;

	if (find(r, "vocab_size", &v) == 0)
		return integer(r, "vocab_size", n);
	v = (struct weir_value){ .size = sizeof(v) };
	if (weir_model_meta(r->model, "tokenizer.ggml.tokens", &v) == 0 &&
	    v.type == WEIR_VALUE_ARRAY)
		*n = (int64_t)v.len;
	else
		*n = embedding_rows(r->model);
	return 0;
}

static int read_sizes(const struct reader *r)
{
	struct llama_config *c = r->config;
	const struct {
		const char *key;
		int64_t *n;
	} all[] = {
		{ "block_count", &c->layers },
		{ "embedding_length", &c->embedding },
		{ "feed_forward_length", &c->inner },
		{ "context_length", &c->context },
		{ "attention.head_count", &c->heads },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && ret == 0; i++)
		ret = required(r, all[i].key, all[i].n);
	c->kv_heads = c->heads;
	if (ret == 0)
		ret = integer(r, "attention.head_count_kv", &c->kv_heads);
	return ret < 0 ? ret : read_vocabulary(r);
}

static int read_head(const struct reader *r)
{
	struct llama_config *c = r->config;
	int64_t value, rotated;
	int ret;

	if (c->heads > 0 && c->embedding % c->heads == 0)
		c->head = c->embedding / c->heads;
	ret = integer(r, "attention.key_length", &c->head);
	if (ret < 0)
		return ret;
	if (!c->head)
		return llama_fail(-EBADMSG,
				  "%s.embedding_length is %" PRId64
				  ", no multiple of %" PRId64 " heads",
				  r->arch->name, c->embedding, c->heads);
	value = rotated = c->head;
	ret = integer(r, "attention.value_length", &value);
	if (ret == 0 && value != c->head)
		return llama_fail(-EOPNOTSUPP,
				  "keys of %" PRId64 " and values of %" PRId64
				  " elements: they must have the same length",
				  c->head, value);
	if (ret == 0)
		ret = integer(r, "rope.dimension_count", &rotated);
	if (ret == 0 && rotated != c->head)
		return llama_fail(-EOPNOTSUPP,
				  "%s.rope.dimension_count is %" PRId64
				  ", a head has %" PRId64
				  ": only whole heads can be rotated",
				  r->arch->name, rotated, c->head);
	c->rope.n_dims = rotated > 0 && rotated <= INT32_MAX ? (uint32_t)rotated
							     : 0;
	return ret;
}

/*
 * Qwen's models have a window in some layers; the metadata do not say in which.
 */
static int read_window(const struct reader *r)
{
	struct llama_config *c = r->config;
	int ret = integer(r, "attention.sliding_window", &c->window);

	if (ret < 0 || r->arch->window || !c->window || c->window >= c->context)
		return ret;
	return llama_fail(-EOPNOTSUPP,
			  "%s.attention.sliding_window is %" PRId64
			  ", the context %" PRId64
			  ": a window is supported for 'llama' only",
			  r->arch->name, c->window, c->context);
}

/* Read the type of scaling, with the default of llama.cpp. */
static int scaling_type(const struct reader *r, bool *ret_none, bool *ret_yarn)
{
	const char *type = "linear";
	struct weir_value v;

	if (find(r, "rope.scaling.type", &v) == 0) {
		if (v.type != WEIR_VALUE_STRING)
			return llama_fail(-EBADMSG,
					  "%s.rope.scaling.type is not a "
					  "string",
					  r->arch->name);
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
static int read_yarn(const struct reader *r, float factor)
{
	struct weir_op_rope *rope = &r->config->rope;
	int64_t context = r->config->context;
	int ret = integer(r, "rope.scaling.original_context_length", &context);

	rope->ext_factor = 1;
	rope->context = context > 0 && context <= INT32_MAX ? (uint32_t)context
							    : 0;
	if (factor < 1)
		rope->attn_factor /= 1 + 0.1F * logf(factor);
	return ret;
}

/*
 * They mean what llama.cpp takes them for: a factor that is missing or 0 does
 * not scale.
 */
static int read_rope(const struct reader *r)
{
	struct weir_op_rope *rope = &r->config->rope;
	bool none = false, yarn = false;
	float factor = 0;
	int ret;

	rope->mode = r->arch->pairs ? WEIR_ROPE_NORMAL : WEIR_ROPE_NEOX;
	rope->base = 10000;
	if ((ret = real(r, "rope.freq_base", &rope->base)) < 0 ||
	    (ret = scaling_type(r, &none, &yarn)) < 0 ||
	    (ret = real(r, "rope.scale_linear", &factor)) < 0 ||
	    (ret = real(r, "rope.scaling.factor", &factor)) < 0 ||
	    (ret = real(r, "rope.scaling.attn_factor", &rope->attn_factor)) < 0)
		return ret;
	if (none || factor == 0)
		factor = 1;
	rope->freq_scale = 1 / factor;
	return yarn ? read_yarn(r, factor) : 0;
}

int llama_config_gguf(const struct weir_model *model, struct llama_config *c)
{
	struct reader r = { .model = model, .config = c };
	int ret;

	c->gguf = true;
	c->tied = weir_model_find(model, "output.weight", &(size_t){ 0 }) < 0;
	c->eps = -1;
	if ((ret = find_arch(&r)) < 0 || (ret = read_sizes(&r)) < 0 ||
	    (ret = read_head(&r)) < 0 || (ret = read_window(&r)) < 0 ||
	    (ret = read_rope(&r)) < 0 ||
	    (ret = real(&r, "attention.layer_norm_rms_epsilon", &c->eps)) < 0)
		return ret;
	find_kinds(&r);
	return llama_keys_gguf(model, r.arch->name);
}
