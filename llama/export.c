/* SPDX-License-Identifier: MIT */
/*
 * The tensors of a model in its other form: those of GGUF from the files of
 * Hugging Face, or the reverse. Names differ, and in GGUF files of Llama and
 * Mistral the rows of Q and K, whose pairs are neighbours there and half a head
 * apart in the files of Hugging Face.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

/* What is exported. */
struct exporter {
	const struct weir_model *model;
	const struct llama_config *config;
	struct llama_weights weights;
	struct llama_export *out;
};

/* Qwen's converters leave the rows as they are. */
static bool permutes(const struct llama_config *c)
{
	return strncmp(c->family, "qwen", 4) != 0;
}

/*
 * View the rows of a matrix, or the elements of a bias, in the other order: the
 * rows of a head are a table of two columns in GGUF and of two rows in the
 * files of Hugging Face, and it is transposed.
 */
static void permute_heads(const struct llama_config *c,
			  const struct weir_tensor *whole,
			  struct weir_tensor *view)
{
	const int64_t half = c->head / 2, row = whole->stride[0];

	view->ndim = whole->ndim + 2;
	view->shape[0] = whole->shape[0] / c->head;
	view->shape[1] = c->gguf ? 2 : half;
	view->shape[2] = c->gguf ? half : 2;
	view->stride[0] = c->head * row;
	view->stride[1] = row;
	view->stride[2] = c->gguf ? 2 * row : half * row;
	if (whole->ndim == 2) {
		view->shape[3] = whole->shape[1];
		view->stride[3] = whole->stride[1];
	}
}

static int add(struct exporter *x, size_t weight, const char *name,
	       bool permuted)
{
	struct llama_export_tensor *t = &x->out->tensor[x->out->n];
	struct weir_entry e = { .size = sizeof(e) };
	int ret;

	t->entry = x->weights.source[weight].entry;
	if ((ret = weir_model_tensor(x->model, t->entry, &e)) < 0 ||
	    (ret = weir_tensor_init(&t->view, e.dtype, e.ndim, e.shape)) < 0)
		return ret;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->ndim = e.ndim;
	memcpy(t->shape, e.shape, e.ndim * sizeof(*e.shape));
	if (permuted) {
		const struct weir_tensor whole = t->view;

		if (e.ndim == 2 && !whole.stride[0])
			return llama_fail(-EOPNOTSUPP,
					  "tensor '%s': its rows are not whole "
					  "blocks",
					  e.name);
		permute_heads(x->config, &whole, &t->view);
	}
	x->out->n++;
	return 0;
}

static int add_layers(struct exporter *x)
{
	const struct llama_config *c = x->config;
	char name[LLAMA_NAME_BYTES];
	int ret = 0;

	for (int64_t i = 0; i < c->layers; i++)
		for (unsigned k = 0; k < LLAMA_LAYER_TENSORS && ret == 0; k++) {
			const unsigned of =
				k >= LLAMA_BIAS + LLAMA_Q ? k - LLAMA_BIAS : k;

			if (!c->has[k])
				continue;
			llama_layer_name(!c->gguf, i, k, name);
			ret = add(x, llama_weight_of(&x->weights, (size_t)i, k),
				  name,
				  (of == LLAMA_Q || of == LLAMA_K) &&
					  permutes(c));
		}
	return ret;
}

static int add_others(struct exporter *x)
{
	const bool gguf = !x->config->gguf;
	const struct llama_weights *w = &x->weights;
	int ret = add(x, w->embedding, llama_other_name(gguf, LLAMA_EMBEDDING),
		      false);

	if (ret == 0)
		ret = add(x, w->norm, llama_other_name(gguf, LLAMA_NORM),
			  false);
	if (ret == 0 && w->output != w->embedding)
		ret = add(x, w->output, llama_other_name(gguf, LLAMA_OUTPUT),
			  false);
	return ret;
}

/* Only Llama 3's factors are a tensor of GGUF; those of YaRN are keys. */
static int add_factors(struct exporter *x)
{
	const struct llama_config *c = x->config;
	struct llama_export *out = x->out;

	if (c->scaling.type != LLAMA_SCALING_LLAMA3)
		return 0;
	out->n_factors = c->rope.n_dims / 2;
	out->factors = calloc((size_t)out->n_factors, sizeof(float));
	if (!out->factors)
		return llama_fail(-ENOMEM, "no memory for RoPE's factors");
	for (int64_t i = 0; i < out->n_factors; i++)
		out->factors[i] = (float)llama_rope_divisor(c, i);
	return 0;
}

static int by_entry(const void *va, const void *vb)
{
	const struct llama_export_tensor *a = va, *b = vb;

	return a->entry < b->entry ? -1 : a->entry > b->entry;
}

int llama_export(const struct weir_model *model, const struct llama_config *c,
		 struct llama_export *ret)
{
	struct exporter x = { .model = model, .config = c, .out = ret };
	int r = llama_weights_find(model, c, &x.weights);

	*ret = (struct llama_export){ .n = 0 };
	if (r == 0) {
		ret->tensor = calloc(x.weights.n + 1, sizeof(*ret->tensor));
		if (!ret->tensor)
			r = llama_fail(-ENOMEM, "no memory for %zu tensors",
				       x.weights.n);
	}
	if (r == 0)
		r = add_layers(&x);
	if (r == 0)
		r = add_others(&x);
	if (r == 0)
		r = add_factors(&x);
	llama_weights_free(&x.weights);
	if (r == 0)
		qsort(ret->tensor, ret->n, sizeof(*ret->tensor), by_entry);
	else
		llama_export_free(ret);
	return r;
}

void llama_export_free(struct llama_export *x)
{
	free(x->tensor);
	free(x->factors);
	*x = (struct llama_export){ .n = 0 };
}
