/* SPDX-License-Identifier: MIT */
/* A plan's operations as the backend gets them. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "graph/ops.h"
#include "graph/plan.h"
#include "graph/sched.h"
#include "mem/buf.h"

/* An address of nothing, for nodes that are only looked at; well aligned. */
#define NOWHERE ((uint64_t)1 << 20)

/* A copy of @bytes bytes in the plan's memory. *@ret is NULL if there are none. */
static int keep(struct weir__graph_plan *p, const void *from, size_t bytes,
		const void **ret)
{
	void *to = bytes ? weir__bump_take(&p->memory, bytes) : NULL;

	if (bytes && !to)
		return weir__fail(-ENOMEM, "no memory for a node's %zu bytes",
				  bytes);
	if (bytes)
		memcpy(to, from, bytes);
	*ret = to;
	return 0;
}

static void operand_set(struct weir_operand *o, const struct weir_tensor *t)
{
	memset(o, 0, sizeof(*o));
	o->data = (void *)(uintptr_t)NOWHERE;
	o->dtype = t->dtype;
	o->ndim = t->ndim;
	memcpy(o->shape, t->shape, t->ndim * sizeof(*o->shape));
	memcpy(o->stride, t->stride, t->ndim * sizeof(*o->stride));
}

void weir__node_flat(const struct weir_node *from, struct weir__node *to,
		     struct weir_operand *src)
{
	const struct weir__op *row = from->row;
	bool views = row->flags & WEIR__OP_VIEWS;

	*to = (struct weir__node){ .size = sizeof(*to),
				   .op = from->op,
				   .n_src = from->n_src,
				   .index = from->index,
				   .name = from->t.name,
				   .params = views ? NULL : from->params,
				   .params_size = views ? 0 : row->params,
				   .src = src };
	operand_set(&to->dst, &from->t);
	for (uint32_t s = 0; s < from->n_src; s++)
		if (from->src[s])
			operand_set(&src[s], &from->src[s]->t);
		else
			memset(&src[s], 0, sizeof(src[s]));
}

/* With a name and parameters in the plan's memory. */
static int node_make(struct weir__graph_plan *p, const struct weir_node *from,
		     struct weir__node *to, struct weir_operand *src)
{
	const void *kept;
	int r;

	weir__node_flat(from, to, src);
	r = keep(p, to->name, to->name ? strlen(to->name) + 1 : 0, &kept);
	if (r < 0)
		return r;
	to->name = kept;
	return keep(p, to->params, to->params_size, &to->params);
}

int weir__nodes_make(struct weir__graph_plan *p, const struct weir__draft *d)
{
	struct weir__copy *copy = &p->copy[0];
	struct weir_operand *operand = p->operand;
	int r = 0;

	for (uint32_t i = 0; i < p->n_steps && !r; i++) {
		const struct weir_node *from = d->g->node[d->order.node[i]];

		r = node_make(p, from, &copy->node[i], operand);
		copy->list[i] = &copy->node[i];
		operand += from->n_src;
	}
	return r;
}

int weir__nodes_copy(struct weir__graph_plan *p)
{
	for (uint32_t c = 1; c < p->n_copies; c++) {
		struct weir__copy *copy = &p->copy[c];
		struct weir_operand *operand = p->operand + c * p->n_operands;

		memcpy(operand, p->operand, p->n_operands * sizeof(*operand));
		memcpy(copy->node, p->copy[0].node,
		       p->n_steps * sizeof(*copy->node));
		for (uint32_t i = 0; i < p->n_steps; i++) {
			copy->node[i].src = operand;
			copy->list[i] = &copy->node[i];
			operand += copy->node[i].n_src;
		}
	}
	return 0;
}

/* A joined buffer has several parts, which are not neighbours. */
static int address_of(const struct weir__graph_plan *p, uint32_t node,
		      const struct weir__copy *copy, void **ret)
{
	const struct weir__node_at *at = &p->at[node];
	struct weir_buf *buf = p->results, *member;
	uint64_t off;
	int r;

	if (at->where == WEIR_NODE_LEAF) {
		*ret = (void *)(uintptr_t)(at->offset ? at->offset : NOWHERE);
		return 0;
	}
	if (at->where == WEIR_NODE_INPUTS)
		buf = copy->buf;
	if (!buf) {
		*ret = (void *)(uintptr_t)(NOWHERE + at->offset);
		return 0;
	}
	r = weir__buf_range(buf, at->offset, at->bytes, &member, &off);
	if (r == 0)
		*ret = member->mem.base + off;
	return r;
}

int weir__nodes_address(struct weir__graph_plan *p, const struct weir_graph *g,
			uint32_t copy)
{
	struct weir_operand *operand = p->operand + copy * p->n_operands;
	struct weir__copy *c = &p->copy[copy];
	int r = 0;

	for (uint32_t i = 0; i < p->n_steps && !r; i++) {
		const struct weir_node *from = g->node[c->node[i].index];

		r = address_of(p, from->index, c, &c->node[i].dst.data);
		for (uint32_t s = 0; s < from->n_src && !r; s++, operand++)
			if (from->src[s])
				r = address_of(p, from->src[s]->index, c,
					       &operand->data);
	}
	return r;
}

const char *weir__node_words(const struct weir__node *node,
			     char text[WEIR__NODE_WORDS])
{
	const char *op = weir__op_row(node->op)->name;
	unsigned long long i = node->index;

	if (node->name)
		snprintf(text, WEIR__NODE_WORDS, "node %llu (%s '%s')", i, op,
			 weir__quote(node->name, strnlen(node->name, 60)));
	else
		snprintf(text, WEIR__NODE_WORDS, "node %llu (%s)", i, op);
	return text;
}
