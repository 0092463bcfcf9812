/* SPDX-License-Identifier: MIT */
/* Nodes: appended to a graph and its fingerprint, and described. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/array.h"
#include "core/util.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/dtype.h"

#define HASHED_SRC 4u /* sources that fit the record; few nodes have more */
/* XXH3 has a faster path for up to 240 bytes, as most records have. */
#define RECORD_PARAMS sizeof(struct weir_op_call) /* the longest */

/* Add @bytes to a hash. */
static void hash_add(uint64_t hash[2], const void *data, size_t bytes)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, hash[0]);

	hash[0] = h.low64;
	hash[1] = h.high64 ^ (hash[1] * 0x9e3779b97f4a7c15u);
}

struct record {
	uint64_t word[4 + 2 * WEIR_MAX_DIMS + HASHED_SRC +
		      RECORD_PARAMS / sizeof(uint64_t)];
	size_t n;
};

static void record_dims(struct record *r, const int64_t *dim, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		r->word[r->n++] = (uint64_t)dim[i];
}

static void record_params(struct record *r, const struct weir_node *node,
			  uint32_t bytes)
{
	uint64_t *to = r->word + r->n;

	if (!bytes)
		return;
	r->n += (bytes + sizeof(*to) - 1) / sizeof(*to);
	r->word[r->n - 1] = 0;
	memcpy(to, node->params, bytes);
}

/* A view is its tensor: it keeps no parameters. */
static uint32_t params_kept(const struct weir__op_info *row)
{
	return row->flags & WEIR__OP_VIEWS ? 0 : row->params;
}

/*
 * Add a node to the fingerprint. Strides are left out where they follow from
 * the shape: for a result with bytes of its own.
 */
static void hash_node(uint64_t hash[2], const struct weir_node *node,
		      const struct weir__made *m)
{
	const struct weir_tensor *t = &node->t;
	const struct weir_tensor *in = &node->storage->t;
	struct record r; /* mostly unused, so not cleared */
	uint64_t more;

	r.n = 0;
	r.word[r.n++] = node->op | (uint64_t)t->dtype << 32;
	r.word[r.n++] = t->ndim | (uint64_t)node->n_src << 32;
	record_dims(&r, t->shape, t->ndim);
	if (in != t) {
		record_dims(&r, t->stride, t->ndim);
		r.word[r.n++] = t->offset - in->offset;
	} else if (node->op == WEIR_OP_LEAF) {
		record_dims(&r, t->stride, t->ndim);
		r.word[r.n++] = m->address[0];
		r.word[r.n++] = m->address[1];
	}
	for (uint32_t i = 0; i < node->n_src && i < HASHED_SRC; i++)
		r.word[r.n++] = node->src[i] ? 1 + node->src[i]->index : 0;
	record_params(&r, node, params_kept(node->row));
	hash_add(hash, r.word, r.n * sizeof(*r.word));
	for (uint32_t i = HASHED_SRC; i < node->n_src; i++) {
		more = node->src[i] ? 1 + node->src[i]->index : 0;
		hash_add(hash, &more, sizeof(more));
	}
}

/* A copy of @name in the memory of the graph, or NULL for none. -ENOMEM. */
static int name_copy(struct weir_graph *g, const char *name,
		     const char **ret_name)
{
	size_t n = name ? strlen(name) + 1 : 0;
	char *copy = n ? weir__bump_take(&g->memory, n) : NULL;

	if (n && !copy)
		return weir__fail(-ENOMEM, "no memory for a name of %zu bytes",
				  n);
	if (copy)
		memcpy(copy, name, n);
	*ret_name = copy;
	return 0;
}

static int node_room(struct weir_graph *g, const struct weir__made *m,
		     struct weir_node **ret_node)
{
	size_t bytes = sizeof(**ret_node) +
		       m->n_src * sizeof(struct weir_node *) +
		       params_kept(m->row);
	struct weir_node **list = g->node;

	if (g->n == g->cap)
		list = weir__array_grow(list, &g->cap, g->n, sizeof(*list));
	if (g->n >= UINT32_MAX - 1)
		return weir__fail(-EOVERFLOW, "%zu nodes are too many", g->n);
	if (list)
		g->node = list;
	*ret_node = list ? weir__bump_take(&g->memory, bytes) : NULL;
	return *ret_node ? 0
			 : weir__fail(-ENOMEM, "%s: no memory for node %zu",
				      m->row->name, g->n);
}

int weir__node_append(struct weir_graph *g, const struct weir__made *m,
		      struct weir_node **ret_node)
{
	struct weir_node *node;
	int r = node_room(g, m, &node);

	if (r < 0)
		return r;
	node->graph = g;
	node->row = m->row;
	node->storage = m->storage ? m->storage : node;
	node->event = m->event;
	node->t = m->t;
	node->index = (uint32_t)g->n;
	node->op = m->op;
	node->flags = 0;
	node->written = false;
	node->n_src = m->n_src;
	if (m->n_src)
		memcpy(node->src, m->src, m->n_src * sizeof(*m->src));
	node->params = node->src + m->n_src;
	if (params_kept(m->row))
		memcpy(node->src + m->n_src, m->params, params_kept(m->row));
	r = name_copy(g, m->t.name, &node->t.name);
	if (r < 0)
		return r;
	hash_node(g->hash, node, m);
	if (m->row->flags & WEIR__OP_WRITES)
		node->storage->written = true;
	g->events += m->event != NULL;
	g->node[g->n++] = node;
	*ret_node = node;
	return 0;
}

/*
 * After weir_graph_reset() the memory of an old node may have other contents.
 * So a node is trusted only if the graph's list has it at its index.
 */
int weir__node_check(const struct weir_graph *g, const struct weir_node *node,
		     const char *what)
{
	if (node->graph == g && node->index < g->n &&
	    g->node[node->index] == node)
		return 0;
	if (node->graph == g)
		return weir__fail(
			-EINVAL,
			"%s: it is a node from before the last weir_graph_reset",
			what);
	return weir__fail(-EINVAL, "%s: it is not a node of this graph", what);
}

const struct weir__in_file *weir__node_file(const struct weir_node *node)
{
	const struct weir__in_file *in = node->params;

	return node->op == WEIR_OP_LEAF && in->file ? in : NULL;
}

static int check_constant(const struct weir_node *node)
{
	const char *words = weir__tensor_words(&node->t, node->index);

	if (node->op != WEIR_OP_LEAF)
		return weir__fail(-EINVAL, "constant: %s is no leaf", words);
	if (node->written)
		return weir__fail(-EINVAL,
				  "constant: an operation writes leaf %s",
				  words);
	return 0;
}

static int check_mark(const struct weir_graph *g, const struct weir_node *node,
		      uint32_t flag, const char *what)
{
	int r = node ? weir__node_check(g, node, what)
		     : weir__fail(-EINVAL, "%s: the node is NULL", what);

	if (r < 0)
		return r;
	if (flag == WEIR_NODE_CONSTANT)
		return check_constant(node);
	if (weir__node_file(node->storage))
		return weir__fail(-EINVAL, "%s: the bytes of %s are in a file",
				  what,
				  weir__tensor_words(&node->t, node->index));
	return 0;
}

static struct weir_node *node_mark(struct weir_graph *g, struct weir_node *node,
				   uint16_t flag, const char *what)
{
	uint64_t record[2], hash[2] = { 0, 0 };
	int r;

	if (g->err)
		return NULL;
	r = check_mark(g, node, flag, what);
	if (r < 0)
		return weir__graph_keep(g, r);
	if (node->flags & flag)
		return node;
	node->flags |= flag;
	record[0] = node->index;
	record[1] = flag;
	hash_add(hash, record, sizeof(record));
	g->marks[0] += hash[0];
	g->marks[1] += hash[1];
	return node;
}

struct weir_node *weir_graph_output(struct weir_graph *g,
				    struct weir_node *node)
{
	WEIR__ENTER();
	return node_mark(g, node, WEIR_NODE_OUTPUT, "output");
}

struct weir_node *weir_graph_observe(struct weir_graph *g,
				     struct weir_node *node)
{
	WEIR__ENTER();
	return node_mark(g, node, WEIR_NODE_OBSERVED, "observed");
}

struct weir_node *weir_graph_constant(struct weir_graph *g,
				      struct weir_node *leaf)
{
	WEIR__ENTER();
	return node_mark(g, leaf, WEIR_NODE_CONSTANT, "constant");
}

int weir_graph_fingerprint(const struct weir_graph *g,
			   uint64_t ret_fingerprint[2])
{
	uint64_t hash[2] = { g->n, 0 };
	int r = weir_graph_error(g, NULL);

	if (r < 0)
		return r;
	hash_add(hash, g->hash, sizeof(g->hash));
	hash_add(hash, g->marks, sizeof(g->marks));
	memcpy(ret_fingerprint, hash, sizeof(hash));
	return 0;
}

const struct weir_tensor *weir_node_tensor(const struct weir_node *node)
{
	return node ? &node->t : NULL;
}

struct weir_node *weir_node_set_name(struct weir_node *node, const char *name)
{
	int r;

	if (!node || node->graph->err)
		return NULL;
	WEIR__ENTER();
	r = name_copy(node->graph, name, &node->t.name);
	return r < 0 ? weir__graph_keep(node->graph, r) : node;
}

int weir_node_info(const struct weir_node *node,
		   struct weir_node_info *ret_info)
{
	struct weir_node_info info = { .size = sizeof(info),
				       .index = node->index,
				       .op = node->op,
				       .flags = node->flags,
				       .n_src = node->n_src,
				       .op_name = node->row->name };

	WEIR__ENTER();
	info.bytes = weir__op_bytes(node);
	info.flops = weir__op_flops(node);
	return weir__info_out(ret_info, &info, sizeof(info));
}

struct weir_node *weir_node_source(const struct weir_node *node, unsigned i)
{
	return i < node->n_src ? node->src[i] : NULL;
}

#define SHAPE_BYTES (3 + 22 * WEIR_MAX_DIMS)

/* The buffer of a new text; this thread's last text stays in the other. */
static char *words_begin(size_t *ret_size)
{
	static _Thread_local char ring[2][112 + SHAPE_BYTES];
	static _Thread_local bool second;
	char *text = ring[second];

	second = !second;
	text[0] = '\0';
	*ret_size = sizeof(ring[0]);
	return text;
}

static void append_shape(char *text, size_t size, unsigned ndim,
			 const int64_t *shape)
{
	weir__append(text, size, "[");
	for (unsigned i = 0; i < ndim && i < WEIR_MAX_DIMS; i++)
		weir__append(text, size, "%s%lld", i ? ", " : "",
			     (long long)shape[i]);
	weir__append(text, size, "]");
}

const char *weir__shape_words(unsigned ndim, const int64_t *shape)
{
	size_t size;
	char *text = words_begin(&size);

	append_shape(text, size, ndim, shape);
	return text;
}

const char *weir__tensor_words(const struct weir_tensor *t, size_t index)
{
	size_t size;
	char *text = words_begin(&size);

	if (t->name)
		weir__append(text, size, "'%s'",
			     weir__quote(t->name, strlen(t->name)));
	else
		weir__append(text, size, "node %zu", index);
	weir__append(text, size, " %s ", weir__dtype(t->dtype)->name);
	append_shape(text, size, t->ndim, t->shape);
	return text;
}
