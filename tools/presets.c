/* SPDX-License-Identifier: MIT */
#include "presets.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SYNTH_NAME = 128
};
static const uint64_t synth_max = UINT64_C(1) << 62;

static const struct synth_dtype dtypes[] = {
	{ "BOOL", 8 },    { "F4", 4 },   { "F6_E2M3", 6 }, { "F6_E3M2", 6 },
	{ "U8", 8 },      { "I8", 8 },   { "F8_E5M2", 8 }, { "F8_E4M3", 8 },
	{ "F8_E8M0", 8 }, { "I16", 16 }, { "U16", 16 },    { "F16", 16 },
	{ "BF16", 16 },   { "I32", 32 }, { "U32", 32 },    { "F32", 32 },
	{ "F64", 64 },    { "I64", 64 }, { "U64", 64 },
};

static const struct synth_dtype *find_dtype(const char *name)
{
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (!strcmp(dtypes[i].name, name))
			return &dtypes[i];
	return NULL;
}

static int grow(struct synth_model *m)
{
	size_t room = m->room ? 2 * m->room : 256;
	struct synth_tensor *tensors;

	if (m->count < m->room)
		return 0;
	tensors = realloc(m->tensors, room * sizeof(*tensors));
	if (!tensors)
		return -ENOMEM;
	m->tensors = tensors;
	m->room = room;
	return 0;
}

/* Rounded up, and at least 1. A factor of 1 changes nothing. */
static int scale_dim(uint64_t *dim, double scale)
{
	double scaled = ceil((double)*dim * scale);

	if (scale == 1)
		return 0;
	if (scaled >= (double)synth_max)
		return -EOVERFLOW;
	*dim = scaled < 1 ? 1 : (uint64_t)scaled;
	return 0;
}

static int count_bytes(struct synth_tensor *t)
{
	uint64_t bits = t->dtype->bits;

	for (unsigned i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(bits, t->shape[i], &bits))
			return -EOVERFLOW;
	t->bytes = bits / 8;
	return 0;
}

/* Add a tensor of @ndim <= SYNTH_DIMS dimensions, the first one scaled. */
static int add(struct synth_model *m, const struct synth_dtype *dtype,
	       unsigned ndim, const uint64_t *shape, const char *name)
{
	struct synth_tensor t = { .dtype = dtype, .ndim = ndim };
	int r = grow(m);

	if (r < 0)
		return r;
	memcpy(t.shape, shape, ndim * sizeof(*shape));
	if (ndim)
		r = scale_dim(&t.shape[0], m->scale);
	if (r == 0)
		r = count_bytes(&t);
	if (r < 0)
		return r;
	if (__builtin_add_overflow(m->bytes, t.bytes, &m->bytes) ||
	    m->bytes > synth_max)
		return -EOVERFLOW;
	t.name = strdup(name);
	if (!t.name)
		return -ENOMEM;
	m->tensors[m->count++] = t;
	return 0;
}

/* The dimensions of a decoder of the Llama family. */
struct decoder {
	const char *name;
	unsigned layers, vocab, hidden;
	unsigned q, kv;   /* rows of the projections */
	unsigned head;    /* elements of q_norm and k_norm; 0: the model does
			     not have them */
	unsigned inner;   /* rows of gate and up */
	unsigned experts; /* experts; 0: one dense MLP */
};

static const struct decoder decoders[] = {
	{ "tinyllama-1.1b", 22, 32000, 2048, 2048, 256, 0, 5632, 0 },
	{ "llama-3.1-8b", 32, 128256, 4096, 4096, 1024, 0, 14336, 0 },
	{ "qwen3-30b-a3b", 48, 151936, 2048, 4096, 512, 128, 768, 128 },
};

/*
 * Adds tensors to a model. After a failure part() does nothing, so that its
 * callers need not check each call.
 */
struct builder {
	struct synth_model *model;
	const struct synth_dtype *dtype;
	int err; /* the first failure */
};

/* A matrix of @rows x @cols; @cols 0: a vector. */
static void part(struct builder *b, unsigned rows, unsigned cols,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void part(struct builder *b, unsigned rows, unsigned cols,
		 const char *fmt, ...)
{
	const uint64_t shape[] = { rows, cols };
	char name[SYNTH_NAME];
	va_list ap;

	if (b->err)
		return;
	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	b->err = add(b->model, b->dtype, cols ? 2 : 1, shape, name);
}

static void add_mlp(struct builder *b, const struct decoder *d,
		    const char *prefix)
{
	part(b, d->inner, d->hidden, "%s.gate_proj.weight", prefix);
	part(b, d->inner, d->hidden, "%s.up_proj.weight", prefix);
	part(b, d->hidden, d->inner, "%s.down_proj.weight", prefix);
}

static void add_experts(struct builder *b, const struct decoder *d,
			unsigned layer)
{
	char prefix[64];

	part(b, d->experts, d->hidden, "model.layers.%u.mlp.gate.weight",
	     layer);
	for (unsigned i = 0; i < d->experts; i++) {
		snprintf(prefix, sizeof(prefix),
			 "model.layers.%u.mlp.experts.%u", layer, i);
		add_mlp(b, d, prefix);
	}
}

static void add_attention(struct builder *b, const struct decoder *d,
			  const char *prefix)
{
	part(b, d->q, d->hidden, "%s.q_proj.weight", prefix);
	part(b, d->kv, d->hidden, "%s.k_proj.weight", prefix);
	part(b, d->kv, d->hidden, "%s.v_proj.weight", prefix);
	part(b, d->hidden, d->q, "%s.o_proj.weight", prefix);
	if (d->head) {
		part(b, d->head, 0, "%s.q_norm.weight", prefix);
		part(b, d->head, 0, "%s.k_norm.weight", prefix);
	}
}

static void add_layer(struct builder *b, const struct decoder *d, unsigned i)
{
	char prefix[64];

	snprintf(prefix, sizeof(prefix), "model.layers.%u.self_attn", i);
	add_attention(b, d, prefix);
	if (d->experts) {
		add_experts(b, d, i);
	} else {
		snprintf(prefix, sizeof(prefix), "model.layers.%u.mlp", i);
		add_mlp(b, d, prefix);
	}
	part(b, d->hidden, 0, "model.layers.%u.input_layernorm.weight", i);
	part(b, d->hidden, 0, "model.layers.%u.post_attention_layernorm.weight",
	     i);
}

static int make_decoder(struct synth_model *m, const struct decoder *d)
{
	struct builder b = { m, find_dtype("BF16"), 0 };

	part(&b, d->vocab, d->hidden, "model.embed_tokens.weight");
	for (unsigned i = 0; i < d->layers; i++)
		add_layer(&b, d, i);
	part(&b, d->hidden, 0, "model.norm.weight");
	part(&b, d->vocab, d->hidden, "lm_head.weight");
	return b.err;
}

/*
 * All ranks, odd sizes, empty tensors, and most dtypes of the format. Rows have
 * whole bytes, so that they still have if the first dimension is scaled.
 */
static const struct tiny {
	const char *name;
	const char *dtype;
	unsigned ndim;
	uint64_t shape[SYNTH_DIMS];
} tiny[] = {
	{ "model.embed_tokens.weight", "F32", 2, { 1031, 257 } },
	{ "model.layers.0.self_attn.q_proj.weight", "BF16", 2, { 513, 511 } },
	{ "model.layers.0.self_attn.k_proj.weight", "BF16", 2, { 127, 511 } },
	{ "model.layers.0.self_attn.v_proj.weight", "F16", 2, { 127, 511 } },
	{ "model.layers.0.self_attn.o_proj.weight", "F16", 2, { 511, 513 } },
	{ "model.layers.0.self_attn.bias", "BOOL", 4, { 1, 1, 129, 129 } },
	{ "model.layers.0.mlp.experts.weight", "F8_E4M3", 3, { 7, 251, 253 } },
	{ "model.layers.0.mlp.experts.scale", "F8_E8M0", 2, { 7, 251 } },
	{ "model.layers.0.mlp.up_proj.weight", "F8_E5M2", 2, { 509, 511 } },
	{ "model.layers.0.mlp.up_proj.scale", "F32", 0, { 0 } },
	{ "model.layers.0.mlp.down_proj.weight", "F4", 2, { 511, 510 } },
	{ "model.layers.0.mlp.gate_proj.weight", "F6_E2M3", 2, { 255, 252 } },
	{ "model.layers.0.mlp.bias", "F6_E3M2", 2, { 13, 52 } },
	{ "model.layers.0.input_layernorm.weight", "F64", 1, { 257 } },
	{ "model.layers.0.conv.weight", "F32", 4, { 33, 3, 7, 7 } },
	{ "model.layers.0.conv.quantized", "I8", 4, { 67, 31, 5, 3 } },
	{ "model.layers.0.conv.shift", "I16", 3, { 11, 13, 17 } },
	{ "model.layers.0.conv.offset", "I32", 1, { 31 } },
	{ "model.layers.0.empty", "F32", 2, { 3, 0 } },
	{ "model.tokens", "U16", 1, { 32003 } },
	{ "model.positions", "I64", 1, { 1025 } },
	{ "model.hashes", "U64", 2, { 5, 101 } },
	{ "model.steps", "I64", 0, { 0 } },
	{ "model.seeds", "U32", 1, { 3 } },
	{ "model.bytes", "U8", 1, { 1000003 } },
	{ "model.norm.weight", "F32", 1, { 257 } },
	{ "lm_head.weight", "BF16", 2, { 1031, 257 } },
};

static int make_tiny(struct synth_model *m)
{
	for (size_t i = 0; i < sizeof(tiny) / sizeof(tiny[0]); i++) {
		int r = add(m, find_dtype(tiny[i].dtype), tiny[i].ndim,
			    tiny[i].shape, tiny[i].name);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Tensors of 32 KiB, to measure what each tensor costs beside its bytes. */
static int make_many(struct synth_model *m, uint64_t count)
{
	struct builder b = { m, find_dtype("BF16"), 0 };

	for (uint64_t i = 0; i < count && !b.err; i++)
		part(&b, 128, 128, "model.blocks.%07llu.weight",
		     (unsigned long long)i);
	return b.err;
}

static int make(struct synth_model *m, const char *preset, uint64_t count)
{
	for (size_t i = 0; i < sizeof(decoders) / sizeof(decoders[0]); i++)
		if (!strcmp(preset, decoders[i].name))
			return make_decoder(m, &decoders[i]);
	if (!strcmp(preset, "tiny"))
		return make_tiny(m);
	if (!strcmp(preset, "many"))
		return make_many(m, count);
	return -ENOENT;
}

int preset_make(const char *preset, uint64_t count, double scale,
		struct synth_model *ret_model)
{
	struct synth_model m = { .scale = scale };
	int r = make(&m, preset, count);

	if (r < 0) {
		preset_free(&m);
		return r;
	}
	*ret_model = m;
	return 0;
}

void preset_free(struct synth_model *model)
{
	for (size_t i = 0; i < model->count; i++)
		free(model->tensors[i].name);
	free(model->tensors);
	*model = (struct synth_model){ 0 };
}
