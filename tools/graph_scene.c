/* SPDX-License-Identifier: MIT */
/*
 * The boxes of a picture, in the order of computing, and the edges between
 * them. Views are not drawn: an edge goes to the operation whose bytes they
 * have. Weights, caches and inputs are part of the box that uses them.
 */
#include <stdlib.h>

#include "graph.h"
#include "output.h"

struct builder {
	const struct graph_view *v;
	struct graph_scene *s;
	uint32_t *box;  /* of each node, of a leaf the last that writes it;
			   GRAPH_NONE: none yet */
	uint32_t *mark; /* of each box: 1 + the last that it has an edge to */
	uint32_t *leaf; /* of each node: 1 + the last box that counts it */
	uint32_t *copy; /* of each node: 1 + the last transfer of it so far */
	uint32_t *next; /* of each transfer: 1 + one of the same node */
	uint32_t *at;   /* of each transfer: its box */
};

static void add_edge(struct builder *b, uint32_t from, uint32_t to, bool copy)
{
	struct graph_scene *s = b->s;

	if (from == GRAPH_NONE || from == to || b->mark[from] == to + 1)
		return;
	b->mark[from] = to + 1;
	s->edge[s->n_edges++] = (struct graph_edge){ from, to, copy };
	s->box[to].n_edges++;
}

/* The copy of @n that split @split uses; GRAPH_NONE: it uses @n itself. */
static uint32_t find_copy(const struct builder *b, uint32_t n, uint32_t split)
{
	const uint32_t dev = b->v->split[split].dev;

	for (uint32_t i = b->copy[b->v->node[n].home]; i; i = b->next[i - 1])
		if (b->v->transfer[i - 1].to == dev)
			return i - 1;
	return GRAPH_NONE;
}

static void add_source(struct builder *b, uint32_t n, uint32_t to)
{
	const struct graph_node *node = &b->v->node[n];
	struct graph_box *box = &b->s->box[to];
	uint32_t copy;

	if (node->kind == GRAPH_OP) {
		copy = find_copy(b, n, box->split);
		add_edge(b, copy == GRAPH_NONE ? b->box[n] : b->at[copy], to,
			 copy != GRAPH_NONE);
	} else if (node->kind != GRAPH_INPUT && b->leaf[n] != to + 1) {
		b->leaf[n] = to + 1;
		box->sum.fed += node->fed ? node->bytes : 0;
		graph_add_leaf(node->kind == GRAPH_CACHE ? &box->sum.caches
							 : &box->sum.weights,
			       node);
	}
}

static void add_op(struct builder *b, uint32_t i, uint32_t to)
{
	const struct graph_node *n = &b->v->node[i];
	struct graph_box *box = &b->s->box[to];
	uint32_t from;

	b->box[i] = b->box[n->home] = to;
	box->sum.ops++;
	box->sum.flops += n->flops;
	box->sum.moved += n->moved;
	for (uint32_t k = 0; k < n->n_src; k++)
		if ((from = graph_source(b->v, i, k)) != GRAPH_NONE)
			add_source(b, from, to);
}

static struct graph_box *new_box(struct builder *b, enum graph_box_kind kind,
				 uint32_t what, uint32_t split)
{
	struct graph_box *box = &b->s->box[b->s->n++];

	*box = (struct graph_box){ .kind = kind,
				   .what = what,
				   .split = split,
				   .layer = GRAPH_BEFORE,
				   .edge = b->s->n_edges };
	return box;
}

/* Copies to a split are drawn before it. */
static uint32_t add_copies(struct builder *b, uint32_t first, uint32_t split)
{
	const struct graph_view *v = b->v;
	uint32_t i = first;

	for (; i < v->n_transfers && v->transfer[i].split <= split; i++) {
		const uint32_t node = v->transfer[i].node, to = b->s->n;

		new_box(b, GRAPH_BOX_COPY, i, split);
		b->at[i] = to;
		add_edge(b, b->box[node], to, true);
		b->next[i] = b->copy[node];
		b->copy[node] = i + 1;
	}
	return i;
}

static void draw_part(struct builder *b, uint32_t i)
{
	const struct graph_part *p = &b->v->part[i];

	for (uint32_t k = 0; k < p->n; k++) {
		const uint32_t op = b->v->op[p->first + k], to = b->s->n;
		struct graph_box *box;

		box = new_box(b, GRAPH_BOX_OP, op, p->split);
		box->layer = p->layer;
		box->part = i;
		add_op(b, op, to);
	}
}

/* Parts from @i on that repeat others of neighbouring layers: one box. */
static uint32_t draw_repeated(struct builder *b, uint32_t i)
{
	const struct graph_part *p = b->v->part;
	const uint32_t to = b->s->n;
	struct graph_box *box = new_box(b, GRAPH_BOX_PARTS, i, p[i].split);
	uint32_t n = 0;

	do {
		for (uint32_t k = 0; k < p[i + n].n; k++)
			add_op(b, b->v->op[p[i + n].first + k], to);
		n++;
	} while (i + n < b->v->n_parts && p[i + n].like == p[i].like &&
		 p[i + n].split == p[i].split &&
		 p[i + n].layer == p[i].layer + (int32_t)n);
	box->n = n;
	return n;
}

static void draw_all(struct builder *b, bool all)
{
	const struct graph_view *v = b->v;
	uint32_t split = GRAPH_NONE, transfer = 0;

	for (uint32_t i = 0; i < v->n_parts;) {
		const struct graph_part *p = &v->part[i];

		if (p->split != split)
			transfer = add_copies(b, transfer, p->split);
		split = p->split;
		if (all || p->like == i) {
			draw_part(b, i++);
			continue;
		}
		i += draw_repeated(b, i);
	}
}

/* Edges: at most one for each source, and one for each transfer. */
static uint64_t most_edges(const struct graph_view *v)
{
	uint64_t n = v->n_transfers;

	for (uint32_t k = 0; k < v->n_ops; k++)
		n += v->node[v->op[k]].n_src;
	return n;
}

int graph_scene_new(const struct graph_view *v, bool all, struct graph_scene *s)
{
	const size_t boxes = (size_t)v->n_ops + v->n_transfers + 1;
	struct builder b = { .v = v, .s = s };
	int r = 0;

	*s = (struct graph_scene){ 0 };
	s->box = calloc(boxes, sizeof(*s->box));
	s->edge = calloc(most_edges(v) + 1, sizeof(*s->edge));
	b.box = malloc((v->n + 1) * sizeof(*b.box));
	b.mark = calloc(boxes, sizeof(*b.mark));
	b.leaf = calloc(v->n + 1, sizeof(*b.leaf));
	b.copy = calloc(v->n + 1, sizeof(*b.copy));
	b.next = calloc(v->n_transfers + 1, sizeof(*b.next));
	b.at = calloc(v->n_transfers + 1, sizeof(*b.at));
	if (!s->box || !s->edge || !b.box || !b.mark || !b.leaf || !b.copy ||
	    !b.next || !b.at)
		r = fail_memory();
	for (uint32_t i = 0; r == 0 && i < v->n; i++)
		b.box[i] = GRAPH_NONE;
	if (r == 0)
		draw_all(&b, all);
	free(b.box);
	free(b.mark);
	free(b.leaf);
	free(b.copy);
	free(b.next);
	free(b.at);
	return r;
}

void graph_scene_free(struct graph_scene *s)
{
	free(s->box);
	free(s->edge);
}
