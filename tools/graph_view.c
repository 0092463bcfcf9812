/* SPDX-License-Identifier: MIT */
/* What is known of each node of a graph. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "graph.h"
#include "output.h"

static enum graph_category category_of(uint32_t op)
{
	switch (op) {
	case WEIR_OP_MUL_MAT:
	case WEIR_OP_MUL_MAT_ID:
		return GRAPH_PRODUCT;
	case WEIR_OP_ATTENTION:
		return GRAPH_ATTENTION;
	case WEIR_OP_GET_ROWS:
	case WEIR_OP_SET_ROWS:
	case WEIR_OP_COPY:
	case WEIR_OP_CONT:
	case WEIR_OP_CONCAT:
	case WEIR_OP_REPEAT:
		return GRAPH_ROWS;
	case WEIR_OP_CALL:
		return GRAPH_CALL;
	default:
		return GRAPH_ELEMENTS;
	}
}

static enum graph_kind kind_of(uint32_t op)
{
	switch (op) {
	case WEIR_OP_LEAF:
		return GRAPH_WEIGHT;
	case WEIR_OP_INPUT:
		return GRAPH_INPUT;
	case WEIR_OP_VIEW:
		return GRAPH_VIEW;
	default:
		return GRAPH_OP;
	}
}

uint32_t graph_source(const struct graph_view *v, uint32_t n, uint32_t i)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_node *src = weir_node_source(v->node[n].node, i);

	if (!src || weir_node_info(src, &info) < 0)
		return GRAPH_NONE;
	return v->node[info.index].origin;
}

/* The leaf that an operation writes is no weight. */
static void mark_written(struct graph_view *v, uint32_t n, uint32_t op)
{
	uint32_t leaf = GRAPH_NONE;

	if (op == WEIR_OP_SET_ROWS)
		leaf = graph_source(v, n, 0);
	else if (op == WEIR_OP_COPY)
		leaf = graph_source(v, n, 1);
	if (leaf == GRAPH_NONE)
		return;
	leaf = v->node[leaf].home;
	v->node[n].home = leaf;
	if (v->node[leaf].kind == GRAPH_WEIGHT)
		v->node[leaf].kind = GRAPH_CACHE;
}

static int add_node(struct graph_view *v, const struct weir_graph *g,
		    uint32_t i)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct graph_node *n = &v->node[i];
	size_t bytes;

	n->node = weir_graph_node(g, i);
	n->t = weir_node_tensor(n->node);
	if (weir_node_info(n->node, &info) < 0 ||
	    weir_tensor_bytes(n->t, &bytes) < 0)
		return fail_weir();
	n->op = info.op_name;
	n->bytes = bytes;
	n->moved = info.bytes;
	n->flops = info.flops;
	n->n_src = info.n_src;
	n->kind = (uint8_t)kind_of(info.op);
	n->category = (uint8_t)category_of(info.op);
	n->output = info.flags & WEIR_NODE_OUTPUT;
	n->layer = GRAPH_BEFORE;
	n->origin = n->home = i;
	if (n->kind == GRAPH_VIEW)
		n->origin = graph_source(v, i, 0);
	mark_written(v, i, info.op);
	return 0;
}

/*
 * The name of an operation has its layer; an operation without a name is of the
 * layer of the one before it.
 */
static void add_op(struct graph_view *v, uint32_t i)
{
	struct graph_node *n = &v->node[i];
	const char *name = n->t->name;

	if (name && name[0])
		n->layer = graph_layer_of(name, NULL);
	else if (v->n_ops)
		n->layer = v->node[v->op[v->n_ops - 1]].layer;
	if (n->layer >= 0 && (uint64_t)n->layer >= v->layers)
		v->layers = (uint64_t)n->layer + 1;
	v->op[v->n_ops++] = i;
}

void graph_add_leaf(struct graph_leaves *leaves, const struct graph_node *n)
{
	leaves->n++;
	leaves->bytes += n->bytes;
	leaves->dtypes[n->t->dtype / 64 & 1] |= UINT64_C(1) << n->t->dtype % 64;
}

static void sum_up(struct graph_view *v)
{
	for (uint32_t i = 0; i < v->n; i++) {
		const struct graph_node *n = &v->node[i];

		if (n->kind == GRAPH_WEIGHT)
			graph_add_leaf(&v->sum.weights, n);
		else if (n->kind == GRAPH_CACHE)
			graph_add_leaf(&v->sum.caches, n);
		v->views += n->kind == GRAPH_VIEW;
		v->inputs += n->kind == GRAPH_INPUT;
		v->sum.flops += n->flops;
		v->sum.moved += n->kind == GRAPH_OP ? n->moved : 0;
	}
	v->sum.ops = v->n_ops;
}

static void set_title(struct graph_view *v)
{
	const char *slash = strrchr(v->model, '/');
	char tokens[GRAPH_TEXT];

	snprintf(v->title, sizeof(v->title),
		 "%.200s: the graph of a pass of %s, which attends to %" PRIu64,
		 slash && slash[1] ? slash + 1 : v->model,
		 count_text(v->tokens, "token", tokens), v->context);
}

int graph_view_new(struct graph_view *v, const struct graph_args *a,
		   const struct graph_model *m)
{
	const struct weir_graph *g = m->llama.graph;
	size_t n = weir_graph_count(g);
	int r = 0;

	v->model = a->model;
	v->tokens = (uint64_t)m->llama.pass.tokens;
	v->context = (uint64_t)m->llama.pass.attended;
	set_title(v);

	if (n >= GRAPH_NONE)
		return fail("a graph of %zu nodes is too large", n);
	v->n = (uint32_t)n;
	v->node = calloc(n + 1, sizeof(*v->node));
	v->op = calloc(n + 1, sizeof(*v->op));
	if (!v->node || !v->op)
		return fail_memory();
	for (uint32_t i = 0; i < v->n && r == 0; i++) {
		r = add_node(v, g, i);
		if (r == 0 && v->node[i].kind == GRAPH_OP)
			add_op(v, i);
	}
	if (r == 0)
		sum_up(v);
	return r;
}

void graph_view_free(struct graph_view *v)
{
	free(v->node);
	free(v->op);
	free(v->dev);
	free(v->split);
	free(v->part);
	free(v->transfer);
}
