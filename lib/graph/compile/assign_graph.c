/* SPDX-License-Identifier: MIT */
/* The pass "assign" for a graph: what it asks the devices, and its sentences. */
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "dev/dev.h"
#include "graph/compile/assign.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "graph/compile/sync.h"
#include "graph/compile/compiled.h"
#include "mem/buf.h"
#include "mem/tensor.h"

/* The arrays that the caller's struct lacks. */
struct arrays {
	uint64_t *supports, *bytes, *moved, *flops;
	uint8_t *owner;
	struct weir_operand *operand; /* of one node */
};

static void arrays_free(struct arrays *a)
{
	weir__array_free(a->supports);
	weir__array_free(a->bytes);
	weir__array_free(a->moved);
	weir__array_free(a->flops);
	weir__array_free(a->owner);
	weir__array_free(a->operand);
}

static int arrays_alloc(struct arrays *a, const struct weir_graph *g)
{
	size_t n = g->n + 1, most = 1; /* never 0 */

	for (size_t i = 0; i < g->n; i++)
		if (g->node[i]->n_src > most)
			most = g->node[i]->n_src;
	a->supports = weir__array_alloc(n, sizeof(*a->supports));
	a->bytes = weir__array_alloc(n, sizeof(*a->bytes));
	a->moved = weir__array_alloc(n, sizeof(*a->moved));
	a->flops = weir__array_alloc(n, sizeof(*a->flops));
	a->owner = weir__array_alloc(n, sizeof(*a->owner));
	a->operand = weir__array_alloc(most, sizeof(*a->operand));
	if (a->supports && a->bytes && a->moved && a->flops && a->owner &&
	    a->operand)
		return 0;
	return weir__fail(-ENOMEM, "no memory to assign %zu nodes to devices",
			  g->n);
}

static const struct weir_backend_compute_ops *
compute_of(const struct weir_dev *dev)
{
	return dev->backend->compute;
}

static uint64_t supports_of(struct weir_dev *const *devs, uint32_t n_devs,
			    const struct weir_backend_node *node)
{
	uint64_t mask = 0;

	for (uint32_t d = 0; d < n_devs; d++)
		if (compute_of(devs[d]) &&
		    compute_of(devs[d])->supports(devs[d], node) == 0)
			mask |= UINT64_C(1) << d;
	return mask;
}

static uint8_t owner_of(struct weir_dev *const *devs, uint32_t n_devs,
			const struct weir_node *leaf)
{
	for (uint32_t d = 0; leaf->t.buf && d < n_devs; d++)
		if (leaf->t.buf->buft->dev == devs[d])
			return (uint8_t)d;
	return WEIR__ASSIGN_NONE;
}

static int arrays_fill(struct arrays *a, const struct weir_graph *g,
		       struct weir_dev *const *devs,
		       const struct weir__assign_in *in)
{
	struct weir_backend_node flat;
	int r = 0;

	for (uint32_t i = 0; i < g->n && !r; i++) {
		const struct weir_node *node = g->node[i];

		r = weir__tensor_bytes(&node->t, &a->bytes[i]);
		a->supports[i] = a->moved[i] = a->flops[i] = 0;
		a->owner[i] = WEIR__ASSIGN_NONE;
		if (in->marks[i] & WEIR__MARK_LEAF)
			a->owner[i] = owner_of(devs, in->n_devs, node);
		if (!weir__is_computed(in->in, in->reach, i))
			continue;
		weir__node_flat(node, &flat, a->operand);
		a->supports[i] = supports_of(devs, in->n_devs, &flat);
		a->moved[i] = weir__op_bytes(node);
		a->flops[i] = weir__op_flops(node);
	}
	return r;
}

/* Why @dev does not compute the node, after what is in @text. */
static void add_reason(char *text, struct weir_dev *dev,
		       const struct weir_backend_node *node)
{
	if (!compute_of(dev))
		weir__append(text, WEIR__ERROR_MAX, "; %s does not compute",
			     dev->desc.name);
	else if (compute_of(dev)->supports(dev, node) < 0)
		weir__append(text, WEIR__ERROR_MAX, "; %s: %s", dev->desc.name,
			     weir__error_text());
}

static int refuse_op(const struct weir__assign *assign, const char *words,
		     const struct weir_backend_node *node,
		     struct weir_dev *const *devs, uint32_t n_devs)
{
	char reasons[WEIR__ERROR_MAX] = "";

	if (assign->why == WEIR__ASSIGN_PIN_OP) {
		add_reason(reasons, devs[assign->pinned], node);
		return weir__fail(-EOPNOTSUPP, "%s is pinned to %s%s", words,
				  devs[assign->pinned]->desc.name, reasons);
	}
	for (uint32_t d = 0; d < n_devs; d++)
		add_reason(reasons, devs[d], node);
	return weir__fail(-EOPNOTSUPP, "no device has %s%s", words, reasons);
}

static int refuse_leaf(const struct weir__assign *assign, const char *words,
		       const struct weir_node *leaf,
		       struct weir_dev *const *devs)
{
	const char *name = weir__tensor_words(&leaf->t, leaf->index);
	const char *owner = leaf->t.buf->buft->dev->desc.name;

	if (assign->why == WEIR__ASSIGN_PIN_LEAF)
		return weir__fail(
			-EOPNOTSUPP,
			"%s is pinned to %s, but writes leaf %s in memory of %s, where %s does not compute",
			words, devs[assign->pinned]->desc.name, name, owner,
			devs[assign->pinned]->desc.name);
	return weir__fail(
		-EOPNOTSUPP,
		"%s writes leaf %s in memory of %s, where no device that has the operation computes",
		words, name, owner);
}

/* The sentence for a node that could not be assigned. */
static int assign_refuse(const struct weir_graph *g,
			 struct weir_dev *const *devs, uint32_t n_devs,
			 const struct weir__assign *assign,
			 struct weir_operand *operand)
{
	const struct weir_node *node = g->node[assign->failed];
	char words[WEIR__NODE_WORDS];
	struct weir_backend_node flat;

	weir__node_flat(node, &flat, operand);
	weir__node_words(&flat, words);
	if (assign->why == WEIR__ASSIGN_NO_DEVICE ||
	    assign->why == WEIR__ASSIGN_PIN_OP)
		return refuse_op(assign, words, &flat, devs, n_devs);
	return refuse_leaf(assign, words, node->storage, devs);
}

int weir__assign_graph(const struct weir_graph *g, struct weir_dev *const *devs,
		       const struct weir__assign_in *in,
		       struct weir__assign *ret)
{
	struct weir__assign_in all = *in;
	struct weir__error_saved saved;
	struct arrays a = { 0 };
	int r;

	/* A device that does not have an operation is no failure. */
	weir__error_save(&saved);
	memset(ret, 0, sizeof(*ret));
	r = arrays_alloc(&a, g);
	if (r == 0)
		r = arrays_fill(&a, g, devs, in);
	if (r == 0) {
		all.supports = a.supports;
		all.bytes = a.bytes;
		all.moved = a.moved;
		all.flops = a.flops;
		all.owner = a.owner;
		r = weir__assign(&all, ret);
	}
	if (r == 0)
		weir__error_restore(&saved);
	else if (ret->why != WEIR__ASSIGN_FINE)
		r = assign_refuse(g, devs, in->n_devs, ret, a.operand);
	arrays_free(&a);
	return r;
}
