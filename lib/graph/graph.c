/* SPDX-License-Identifier: MIT */
/*
 * Graphs and nodes: a graph keeps its first failure; a node is appended to the
 * graph and its fingerprint, marked, and described.
 */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/array.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/ops.h"
#include "io/file.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

int weir_graph_new(struct weir_graph **ret_graph)
{
	struct weir_graph *g;

	WEIR__ENTER();
	g = weir__calloc(1, sizeof(*g));
	if (!g)
		return weir__fail(-ENOMEM, "no memory for a graph");
	*ret_graph = g;
	return 0;
}

void weir_graph_free(struct weir_graph *g)
{
	if (!g)
		return;
	weir__bump_free(&g->memory);
	weir__array_free(g->node);
	weir__free(g);
}

void weir_graph_reset(struct weir_graph *g)
{
	weir__bump_reset(&g->memory);
	g->n = 0;
	g->events = 0;
	memset(g->hash, 0, sizeof(g->hash));
	memset(g->marks, 0, sizeof(g->marks));
	g->err = 0;
}

struct weir_node *weir__graph_keep_failure(struct weir_graph *g, int err)
{
	g->err = err;
	g->failed = g->n;
	weir__error_save(&g->failure);
	return NULL;
}

int weir_graph_error(const struct weir_graph *g,
		     struct weir_failure *ret_failure)
{
	if (ret_failure)
		memset(ret_failure, 0, sizeof(*ret_failure));
	if (!g->err)
		return 0;
	if (ret_failure)
		weir__failure_set(ret_failure, g->err, 0, g->failed, "%s",
				  g->failure.text);
	weir__error_restore(&g->failure);
	return g->err;
}

void weir_graph_clear_error(struct weir_graph *g)
{
	g->err = 0;
}

#define SHAPE_BYTES (3 + 22 * WEIR_MAX_DIMS)

/* The buffer of a new text; this thread's last text stays in the other. */
static char *describe_begin(size_t *ret_size)
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

const char *weir__shape_describe(unsigned ndim, const int64_t *shape)
{
	size_t size;
	char *text = describe_begin(&size);

	append_shape(text, size, ndim, shape);
	return text;
}

const char *weir__tensor_describe(const struct weir_tensor *t, size_t index)
{
	size_t size;
	char *text = describe_begin(&size);

	if (t->name)
		weir__append(text, size, "'%s'",
			     weir__quote(t->name, strlen(t->name)));
	else
		weir__append(text, size, "node %zu", index);
	weir__append(text, size, " %s ", weir__dtype(t->dtype)->name);
	append_shape(text, size, t->ndim, t->shape);
	return text;
}

#define HASHED_SRC 4u /* sources in struct hash_input; few nodes have more */
/* XXH3 has a faster path for up to 240 bytes, which most nodes need. */
#define RECORD_PARAMS sizeof(struct weir_op_call) /* the longest */

/* Add @bytes to a hash. */
static void hash_add(uint64_t hash[2], const void *data, size_t bytes)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, hash[0]);

	hash[0] = h.low64;
	hash[1] = h.high64 ^ (hash[1] * 0x9e3779b97f4a7c15u);
}

struct hash_input {
	uint64_t word[4 + 2 * WEIR_MAX_DIMS + HASHED_SRC +
		      RECORD_PARAMS / sizeof(uint64_t)];
	size_t n;
};

static void hash_input_dims(struct hash_input *r, const int64_t *dim,
			    uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		r->word[r->n++] = (uint64_t)dim[i];
}

static void hash_input_params(struct hash_input *r,
			      const struct weir_node *node, uint32_t bytes)
{
	uint64_t *to = r->word + r->n;

	if (!bytes)
		return;
	r->n += (bytes + sizeof(*to) - 1) / sizeof(*to);
	r->word[r->n - 1] = 0;
	memcpy(to, node->params, bytes);
}

/* Bytes of parameters that a node keeps: a view has only its tensor. */
static uint32_t params_kept(const struct weir__op_info *row)
{
	return row->flags & WEIR__OP_VIEWS ? 0 : row->params;
}

/*
 * Add a node to the fingerprint. Strides are left out where they follow from
 * the shape: for a result with bytes of its own.
 */
static void hash_node(uint64_t hash[2], const struct weir_node *node,
		      const struct weir__new_node *m)
{
	const struct weir_tensor *t = &node->t;
	const struct weir_tensor *in = &node->storage->t;
	struct hash_input r; /* mostly unused, so not cleared */
	uint64_t more;

	r.n = 0;
	r.word[r.n++] = node->op | (uint64_t)t->dtype << 32;
	r.word[r.n++] = t->ndim | (uint64_t)node->n_src << 32;
	hash_input_dims(&r, t->shape, t->ndim);
	if (in != t) {
		hash_input_dims(&r, t->stride, t->ndim);
		r.word[r.n++] = t->offset - in->offset;
	} else if (node->op == WEIR_OP_LEAF) {
		hash_input_dims(&r, t->stride, t->ndim);
		r.word[r.n++] = m->address[0];
		r.word[r.n++] = m->address[1];
	}
	for (uint32_t i = 0; i < node->n_src && i < HASHED_SRC; i++)
		r.word[r.n++] = node->src[i] ? 1 + node->src[i]->index : 0;
	hash_input_params(&r, node, params_kept(node->row));
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

static int node_room(struct weir_graph *g, const struct weir__new_node *m,
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

int weir__node_append(struct weir_graph *g, const struct weir__new_node *m,
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

/* Check the place of a leaf, which is in one member of its buffer. */
static int leaf_place(const struct weir_tensor *t, uint64_t bytes,
		      uint64_t ret_address[2])
{
	struct weir_buf *member;
	uint64_t at;
	int r;

	ret_address[0] = ret_address[1] = 0;
	if (!t->buf)
		return 0;
	r = weir__root_read(t->buf->buft->dev->weir);
	if (r < 0 ||
	    (r = weir__buf_range(t->buf, t->offset, bytes, &member, &at)) < 0)
		return r;
	ret_address[0] = (uintptr_t)t->buf->buft;
	ret_address[1] = (uintptr_t)member->mem.base + at;
	return 0;
}

/* Refuse a leaf whose last stride is 0: operations could not follow it. */
static int check_strides(const struct weir_tensor *t, uint64_t bytes)
{
	uint32_t last = t->ndim - 1;

	if (!bytes || !t->ndim || t->stride[last] ||
	    t->shape[last] % weir__dtype(t->dtype)->block)
		return 0;
	return weir__fail(-EINVAL, "%s: stride %u is 0", weir__tensor_label(t),
			  last);
}

/* -EINVAL: the file does not have the @bytes bytes of @t. */
static int check_in_file(const struct weir_tensor *t, uint64_t bytes,
			 const struct weir__in_file *in)
{
	const struct weir_file *file = in->file;
	uint64_t end;
	int r;

	if (!file)
		return weir__fail(-EINVAL, "%s: the file is NULL",
				  weir__tensor_label(t));
	r = weir__root_read(file->weir);
	if (r < 0)
		return r;
	if (t->buf)
		return weir__fail(-EINVAL,
				  "%s is placed, so its bytes are not in %s",
				  weir__tensor_label(t), file->base);
	if (weir__add_over(in->offset, bytes, &end) || end > file->id.bytes)
		return weir__fail(
			-EINVAL,
			"%s: %llu bytes from byte %llu of %s, which has %llu",
			weir__tensor_label(t), (unsigned long long)bytes,
			(unsigned long long)in->offset, file->base,
			(unsigned long long)file->id.bytes);
	return 0;
}

/* Make a leaf; @in is NULL if it is in no file. */
static int leaf_make(struct weir_graph *g, const struct weir_tensor *t,
		     struct weir_event *event, const struct weir__in_file *in,
		     struct weir_node **ret_node)
{
	struct weir__in_file params = in ? *in : (struct weir__in_file){ 0 };
	struct weir__new_node m = { .row = weir__op_row(WEIR_OP_LEAF),
				    .op = WEIR_OP_LEAF,
				    .event = event,
				    .params = &params };
	uint64_t bytes;
	int r;

	if (!t)
		return weir__fail(-EINVAL, "the tensor is NULL");
	m.t = *t;
	m.t.of = 0;
	if (!t->buf)
		m.t.offset = 0;
	r = weir__tensor_bytes(t, &bytes);
	if (r < 0 || (r = check_strides(t, bytes)) < 0)
		return r;
	r = in ? check_in_file(t, bytes, in) : leaf_place(t, bytes, m.address);
	if (r < 0 || (r = weir__node_append(g, &m, ret_node)) < 0)
		return r;
	if (in)
		(*ret_node)->flags = WEIR_NODE_CONSTANT;
	return 0;
}

struct weir_node *weir_graph_leaf(struct weir_graph *g,
				  const struct weir_tensor *t,
				  struct weir_event *event)
{
	struct weir_node *node;
	int r;

	if (g->err)
		return NULL;
	WEIR__ENTER();
	r = leaf_make(g, t, event, NULL, &node);
	return r < 0 ? weir__graph_keep_failure(g, r) : node;
}

struct weir_node *weir_graph_leaf_file(struct weir_graph *g,
				       const struct weir_tensor *t,
				       struct weir_file *file, uint64_t offset)
{
	const struct weir__in_file in = { .file = file, .offset = offset };
	struct weir_node *node;
	int r;

	if (g->err)
		return NULL;
	WEIR__ENTER();
	r = leaf_make(g, t, NULL, &in, &node);
	return r < 0 ? weir__graph_keep_failure(g, r) : node;
}

struct weir_node *weir_graph_input(struct weir_graph *g, const char *name,
				   enum weir_dtype dtype, unsigned ndim,
				   const int64_t *shape)
{
	struct weir__new_node m = { .row = weir__op_row(WEIR_OP_INPUT),
				    .op = WEIR_OP_INPUT };
	struct weir_node *node;
	int r;

	if (g->err)
		return NULL;
	WEIR__ENTER();
	r = weir__tensor_init(&m.t, dtype, ndim, shape);
	if (r < 0 && name)
		weir__fail_for(r, "input '%s'",
			       weir__quote(name, strlen(name)));
	m.t.name = name;
	if (!r)
		r = weir__node_append(g, &m, &node);
	return r < 0 ? weir__graph_keep_failure(g, r) : node;
}

size_t weir_graph_count(const struct weir_graph *g)
{
	return g->n;
}

struct weir_node *weir_graph_node(const struct weir_graph *g, size_t i)
{
	return i < g->n ? g->node[i] : NULL;
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
	const char *text = weir__tensor_describe(&node->t, node->index);

	if (node->op != WEIR_OP_LEAF)
		return weir__fail(-EINVAL, "constant: %s is no leaf", text);
	if (node->written)
		return weir__fail(
			-EINVAL, "constant: an operation writes leaf %s", text);
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
				  weir__tensor_describe(&node->t, node->index));
	return 0;
}

/* The hash of one mark, which is added to those of the others. */
static void mark_hash(const struct weir_node *node, uint16_t flag,
		      uint64_t ret_hash[2])
{
	const uint64_t record[2] = { node->index, flag };

	ret_hash[0] = ret_hash[1] = 0;
	hash_add(ret_hash, record, sizeof(record));
}

static struct weir_node *node_mark(struct weir_graph *g, struct weir_node *node,
				   uint16_t flag, const char *what)
{
	uint64_t hash[2];
	int r;

	if (g->err)
		return NULL;
	r = check_mark(g, node, flag, what);
	if (r < 0)
		return weir__graph_keep_failure(g, r);
	if (node->flags & flag)
		return node;
	node->flags |= flag;
	mark_hash(node, flag, hash);
	g->marks[0] += hash[0];
	g->marks[1] += hash[1];
	return node;
}

struct weir_node *weir_graph_unmark(struct weir_graph *g,
				    struct weir_node *node)
{
	static const uint16_t flags[] = { WEIR_NODE_OUTPUT,
					  WEIR_NODE_OBSERVED };
	uint64_t hash[2];
	int r;

	if (g->err)
		return NULL;
	WEIR__ENTER();
	r = node ? weir__node_check(g, node, "unmark")
		 : weir__fail(-EINVAL, "the node is NULL");
	if (r < 0)
		return weir__graph_keep_failure(g, r);
	for (unsigned i = 0; i < 2; i++) {
		if (!(node->flags & flags[i]))
			continue;
		node->flags &= (uint16_t)~flags[i];
		mark_hash(node, flags[i], hash);
		g->marks[0] -= hash[0];
		g->marks[1] -= hash[1];
	}
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
	return r < 0 ? weir__graph_keep_failure(node->graph, r) : node;
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
