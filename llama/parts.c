/* SPDX-License-Identifier: MIT */
/*
 * The parts of a model: the layers in their order, divided evenly among the
 * devices. The embeddings belong to the first part, the norm and the matrix
 * after the last layer to the last one. A device that cannot compute, or not
 * with weights of these dtypes, only has weights.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

enum {
	PATTERN_BYTES = 64
};

/* Return the part that has the weights of a layer. */
static unsigned part_of_layer(const struct llama *l, int64_t layer)
{
	return (unsigned)(layer * l->n_parts / l->config.layers);
}

unsigned llama_computer_of(const struct llama *l, int64_t layer)
{
	return l->part[part_of_layer(l, layer)].computer;
}

/* Return the part that has weight @i. */
static unsigned part_of_tensor(const struct llama *l, size_t i)
{
	const int64_t order = l->weights.source[i].order;

	if (order > l->config.layers)
		return l->n_parts - 1;
	return order ? part_of_layer(l, order - 1) : 0;
}

/* A product with rows of weights of @dtype, as a layer has it. */
static int make_product(struct weir_graph *g, enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_node *w, *ids;
	int64_t shape[2] = { 1, 1 };
	int ret = weir_dtype_info(dtype, &info);

	if (ret < 0)
		return ret;
	shape[1] = info.block;
	w = weir_graph_input(g, "w", dtype, 2, shape);
	ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, shape);
	weir_graph_output(g, weir_mul_mat(g, w, weir_get_rows(g, w, ids)));
	return weir_graph_error(g, NULL);
}

/* Set *@ret to whether the device computes with weights of @dtype. */
static int can_multiply(struct weir_dev *dev, enum weir_dtype dtype, bool *ret)
{
	struct weir_graph *g = NULL;
	struct weir_sched *sched = NULL;
	struct weir_exec *exec = NULL;
	int err;

	if ((err = weir_graph_new(&g)) == 0 &&
	    (err = make_product(g, dtype)) == 0 &&
	    (err = weir_sched_new(&dev, 1, NULL, &sched)) == 0)
		err = weir_exec_new(sched, g, &exec);
	*ret = err == 0;
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	return err == -EOPNOTSUPP ? 0 : err;
}

/* True if a weight before @i of the same part has its dtype. */
static bool is_known(const struct llama *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (l->weights.source[k].part == l->weights.source[i].part &&
		    l->weights.tensor[k].ndim > 1 &&
		    l->weights.tensor[k].dtype == l->weights.tensor[i].dtype)
			return true;
	return false;
}

/* Devices that compute may lack some dtypes of weights; CPUs have all. */
static int check_dtypes(struct llama *l)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	int ret = 0;

	for (size_t i = 0; i < l->weights.n && ret == 0; i++) {
		const struct weir_tensor *t = &l->weights.tensor[i];
		struct llama_part *part = &l->part[l->weights.source[i].part];

		if (t->ndim < 2 || !part->computes || is_known(l, i))
			continue;
		ret = weir_dev_info(part->dev, &info);
		if (ret == 0 && info.type != WEIR_DEV_CPU)
			ret = can_multiply(part->dev, t->dtype,
					   &part->computes);
	}
	return ret;
}

static int init_part(struct llama_part *part, struct weir_dev *dev)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	int ret = weir_dev_info(dev, &info);

	if (ret < 0)
		return ret;
	part->dev = dev;
	part->computes = info.caps & WEIR_CAP_COMPUTE;
	return weir_dev_buft(dev,
			     info.type == WEIR_DEV_CPU ? WEIR_MEM_HUGE
						       : WEIR_MEM_DEVICE,
			     &part->buft);
}

/*
 * If the device of a part cannot compute, the next device of the list that can
 * computes its layers; after the last that can, this last one.
 */
static void choose_computers(struct llama *l)
{
	unsigned computer = 0;

	for (unsigned i = 0; i < l->n_parts; i++)
		if (l->part[i].computes)
			computer = i;
	for (unsigned i = l->n_parts; i-- > 0;) {
		if (l->part[i].computes)
			computer = i;
		l->part[i].computer = computer;
	}
}

int llama_divide(struct llama *l)
{
	struct weir_dev *cpu = weir_dev_get(l->weir, 0);
	struct weir_dev *const *dev = l->opts.devs ? l->opts.devs : &cpu;
	const unsigned n = l->opts.devs ? l->opts.n_devs : 1;
	int ret = 0;

	if ((int64_t)n > l->config.layers)
		return llama_fail(-EINVAL, "%u devices for %" PRId64 " layers",
				  n, l->config.layers);
	l->part = calloc(n, sizeof(*l->part));
	if (!l->part)
		return llama_fail(-ENOMEM, "no memory for %u devices", n);
	l->n_parts = n;
	for (unsigned i = 0; i < n && ret == 0; i++)
		ret = init_part(&l->part[i], dev[i]);
	for (size_t i = 0; i < l->weights.n; i++)
		l->weights.source[i].part = part_of_tensor(l, i);
	if (ret == 0)
		ret = check_dtypes(l);
	choose_computers(l);
	return ret;
}

int llama_part_alloc(const struct llama *l, unsigned p,
		     struct weir_tensor *tensor, size_t n,
		     bool (*is_of)(const struct llama *l, size_t i, unsigned p),
		     struct weir_buf **ret_buf)
{
	struct weir_tensor *t = calloc(n, sizeof(*t));
	size_t k = 0;
	int ret;

	if (!t)
		return llama_fail(-ENOMEM, "no memory for %zu tensors", n);
	for (size_t i = 0; i < n; i++)
		if (is_of(l, i, p))
			t[k++] = tensor[i];
	ret = weir_tensors_alloc(l->part[p].buft, t, k, ret_buf);
	k = 0;
	for (size_t i = 0; i < n && ret == 0; i++)
		if (is_of(l, i, p))
			tensor[i] = t[k++];
	free(t);
	return ret;
}

static int pin_layer(struct llama *l, int64_t layer)
{
	char pattern[PATTERN_BYTES];

	snprintf(pattern, sizeof(pattern), "%s.%" PRId64 ".*",
		 l->config.gguf ? "blk" : "model.layers", layer);
	return weir_sched_pin(l->sched, pattern,
			      l->part[llama_computer_of(l, layer)].dev);
}

/* Pins operations, not leaves: tied embeddings are used on two devices. */
int llama_pin(struct llama *l)
{
	const bool gguf = l->config.gguf;
	const unsigned first_part = llama_computer_of(l, 0);
	const unsigned last_part = llama_computer_of(l, l->config.layers - 1);
	struct weir_dev *last = l->part[last_part].dev;
	int ret = 0;

	if (l->n_parts == 1)
		return 0;
	for (int64_t i = 0; i < l->config.layers && ret == 0; i++)
		ret = pin_layer(l, i);
	if (ret < 0 ||
	    (ret = weir_sched_pin(l->sched,
				  gguf ? "token_embd" : "model.embed_tokens",
				  l->part[first_part].dev)) < 0 ||
	    (ret = weir_sched_pin(l->sched,
				  gguf ? "output_norm*" : "model.norm*",
				  last)) < 0)
		return ret;
	return weir_sched_pin(l->sched, "logits", last);
}

void llama_parts_free(struct llama *l)
{
	for (unsigned i = 0; i < l->n_parts; i++) {
		weir_buf_free(l->part[i].cache);
		weir_buf_free(l->part[i].unloaded);
	}
	free(l->part);
}
