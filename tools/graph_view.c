/* SPDX-License-Identifier: MIT */
/*
 * A graph as the outputs show it: what is known of each node, then parts, then
 * boxes and edges.
 */
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
	v->context = (uint64_t)m->context;
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

/*
 * Parts: runs of operations of one layer in one split. Two compute the same if
 * their operations, shapes and edges are equal; the dtypes of weights may
 * differ, as they do in quantised models.
 */

/* From an operation to one outside of its part. */
#define OUTSIDE (UINT64_C(1) << 40)

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t mix_shape(uint64_t hash, const struct weir_tensor *t)
{
	hash = mix(hash, t->ndim);
	for (uint32_t i = 0; i < t->ndim; i++)
		hash = mix(hash, (uint64_t)t->shape[i]);
	return hash;
}

/* Source @i of @n: where it is, as the part sees it, and its shape. */
static uint64_t mix_source(const struct graph_view *v, uint64_t hash,
			   const uint32_t *place, uint32_t first, uint32_t n,
			   uint32_t i)
{
	const uint32_t from = graph_source(v, n, i);
	const struct graph_node *s = &v->node[from];

	if (from == GRAPH_NONE)
		return mix(hash, GRAPH_NONE);
	hash = mix(hash, s->kind);
	if (s->kind == GRAPH_INPUT)
		hash = mix(hash, from);
	else if (s->kind == GRAPH_OP)
		hash = mix(hash,
			   place[from] < first ? OUTSIDE : place[from] - first);
	return mix_shape(
		hash, weir_node_tensor(weir_node_source(v->node[n].node, i)));
}

static uint64_t hash_part(const struct graph_view *v, const uint32_t *place,
			  const struct graph_part *p)
{
	uint64_t hash = p->n;

	for (uint32_t k = 0; k < p->n; k++) {
		const uint32_t i = v->op[p->first + k];
		const struct graph_node *n = &v->node[i];

		hash = mix(hash, n->category);
		for (const char *c = n->op; *c; c++)
			hash = mix(hash, (unsigned char)*c);
		hash = mix_shape(mix(hash, n->t->dtype), n->t);
		for (uint32_t s = 0; s < n->n_src; s++)
			hash = mix_source(v, hash, place, p->first, i, s);
	}
	return hash;
}

static void divide(struct graph_view *v)
{
	struct graph_part *p = NULL;

	for (uint32_t k = 0; k < v->n_ops; k++) {
		const struct graph_node *n = &v->node[v->op[k]];

		if (!p || p->split != n->split || p->layer != n->layer) {
			p = &v->part[v->n_parts++];
			*p = (struct graph_part){ .first = k,
						  .split = n->split,
						  .layer = n->layer };
		}
		p->n++;
	}
}

static int compare_parts(const void *va, const void *vb)
{
	const struct graph_part *a = *(struct graph_part *const *)va;
	const struct graph_part *b = *(struct graph_part *const *)vb;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* The first part of each kind; those of no layer are of their own. */
static int find_equal(struct graph_view *v)
{
	struct graph_part **all = calloc(v->n_parts + 1, sizeof(*all));

	if (!all)
		return fail_memory();
	for (uint32_t i = 0; i < v->n_parts; i++)
		all[i] = &v->part[i];
	qsort(all, v->n_parts, sizeof(struct graph_part *), compare_parts);
	for (uint32_t i = 0; i < v->n_parts; i++) {
		struct graph_part *p = all[i];
		bool equal = i && all[i - 1]->hash == p->hash && p->layer >= 0;

		p->like = equal ? all[i - 1]->like : (uint32_t)(p - v->part);
	}
	free(all);
	return 0;
}

int graph_parts(struct graph_view *v)
{
	uint32_t *place = calloc(v->n + 1, sizeof(*place));

	v->part = calloc(v->n_ops + 1, sizeof(*v->part));
	if (!v->part || !place) {
		free(place);
		return fail_memory();
	}
	for (uint32_t k = 0; k < v->n_ops; k++)
		place[v->op[k]] = k;
	divide(v);
	for (uint32_t i = 0; i < v->n_parts; i++)
		v->part[i].hash = hash_part(v, place, &v->part[i]);
	free(place);
	return find_equal(v);
}

/*
 * The boxes of a picture, in the order of computing, and the edges between
 * them. Views are not drawn: an edge goes to the operation whose bytes they
 * have. Weights, caches and inputs are part of the box that uses them.
 */

struct builder {
	const struct graph_view *v;
	struct graph_scene *s;
	uint32_t *box;  /* box of each node; box of the last node that writes a
			   leaf; GRAPH_NONE: none yet */
	uint32_t *mark; /* 1 + the last box to which each box has an edge */
	uint32_t *leaf; /* 1 + the last box that counts each node */
	uint32_t *copy; /* 1 + the last transfer so far of each node */
	uint32_t *next; /* 1 + the previous transfer of the same node */
	uint32_t *at;   /* box of each transfer */
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

/*
 * Return the copy of @n that split @split uses; GRAPH_NONE: it uses @n itself.
 */
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
		box->sum.prefetched += node->prefetched ? node->bytes : 0;
		graph_add_leaf(node->kind == GRAPH_CACHE ? &box->sum.caches
							 : &box->sum.weights,
			       node);
	}
}

static void draw_op(struct builder *b, uint32_t i, uint32_t to)
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
		draw_op(b, op, to);
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
			draw_op(b, b->v->op[p[i + n].first + k], to);
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

/* There is at most one edge for each source, and one for each transfer. */
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
