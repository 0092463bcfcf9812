/* SPDX-License-Identifier: MIT */
/*
 * Copies of graphs. Leaves that overlap are one region of bytes, which is
 * copied as a whole, so that they overlap in the copy too. Leaves in files are
 * read: they are in memory in the copy.
 */
#include <weir/compare.h>
#include <weir/stream.h>

#include "core/array.h"
#include "core/sort.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/tensor.h"

/* The bytes of a leaf: sorted by device or file, then by address or offset. */
struct leaf_bytes {
	struct weir__sort_key key;
	uint64_t bytes;
	struct weir_file *file;  /* NULL: in memory */
	struct weir_buf *member; /* NULL: in a file */
	uint64_t at;             /* in the member or file */
	uint32_t leaf;
	uint32_t region;
	uint64_t off; /* in the region */
};

struct graph_copy {
	const struct weir_graph *g;
	struct weir_graph *made;
	struct leaf_bytes *place; /* places of leaves with bytes */
	size_t n;
	struct weir_tensor *src, *dst; /* regions, as bytes */
	struct weir_file **file; /* file of each region; NULL: src is placed */
	size_t n_regions;
	struct weir_tensor *leaf; /* tensor of the copy of each node */
};

static int place_find(const struct weir_node *node, struct leaf_bytes *ret)
{
	const struct weir__in_file *in = weir__node_file(node);
	struct leaf_bytes p = { .leaf = node->index };
	int r = weir__tensor_bytes(&node->t, &p.bytes);

	if (in) {
		p.file = in->file;
		p.at = in->offset;
		p.key.major = (uintptr_t)in->file;
		p.key.minor = in->offset;
		*ret = p;
		return r;
	}
	if (r < 0 || (r = weir__buf_range(node->t.buf, node->t.offset, p.bytes,
					  &p.member, &p.at)) < 0)
		return r;
	p.key.major = (uintptr_t)p.member->buft->dev;
	p.key.minor = (uintptr_t)p.member->mem.base + p.at;
	*ret = p;
	return 0;
}

static bool has_bytes(const struct weir_node *node)
{
	return node->op == WEIR_OP_LEAF &&
	       (node->t.buf || weir__node_file(node));
}

static int places_find(struct graph_copy *c)
{
	int r = 0;

	for (size_t i = 0; !r && i < c->g->n; i++)
		if (has_bytes(c->g->node[i]))
			r = place_find(c->g->node[i], &c->place[c->n++]);
	if (!r && weir__sort(c->place, c->n, sizeof(*c->place)) < 0)
		r = weir__fail(-ENOMEM, "no memory to sort %zu leaves", c->n);
	return r;
}

/* Make a region. It begins at a leaf, and grows by those that begin in it. */
static int region_make(struct graph_copy *c, size_t first, size_t *ret_next)
{
	const struct leaf_bytes *p = &c->place[first];
	uint64_t begin = p->key.minor, end = begin + p->bytes;
	size_t i = first, region = c->n_regions++;
	int64_t bytes;
	int r;

	for (; i < c->n && c->place[i].key.major == p->key.major &&
	       (i == first || c->place[i].key.minor < end);
	     i++) {
		struct leaf_bytes *in = &c->place[i];

		in->region = (uint32_t)region;
		in->off = in->key.minor - begin;
		if (in->key.minor + in->bytes > end)
			end = in->key.minor + in->bytes;
	}
	bytes = (int64_t)(end - begin);
	r = weir__tensor_init(&c->src[region], WEIR_DTYPE_U8, 1, &bytes);
	c->dst[region] = c->src[region];
	c->src[region].buf = p->member;
	c->src[region].offset = p->at;
	c->file[region] = p->file;
	*ret_next = i;
	return r;
}

static int regions_make(struct graph_copy *c)
{
	int r = 0;

	for (size_t i = 0; !r && i < c->n;)
		r = region_make(c, i, &i);
	return r;
}

static int leaves_wait(const struct graph_copy *c)
{
	const struct weir_node *node;
	int r = 0;

	for (size_t i = 0; !r && i < c->n; i++) {
		node = c->g->node[c->place[i].leaf];
		if (node->event)
			r = weir_event_wait(node->event, -1);
		if (r < 0)
			weir__fail_for(r, "leaf %s",
				       weir__tensor_describe(&node->t,
							     node->index));
	}
	return r;
}

/* Read a region in *@stream, which is made for the first one in a file. */
static int region_read(const struct graph_copy *c, size_t i,
		       struct weir_stream **stream)
{
	const struct weir_tensor *dst = &c->dst[i];
	int r = *stream ? 0
			: weir_stream_new(dst->buf->buft->dev, NULL, stream);

	return r < 0 ? r
		     : weir_stream_read(*stream, c->file[i], c->src[i].offset,
					dst, 0, (size_t)dst->shape[0]);
}

static int regions_copy(const struct graph_copy *c)
{
	struct weir_stream *stream = NULL;
	int r = leaves_wait(c);

	for (size_t i = 0; !r && i < c->n_regions; i++)
		r = c->file[i] ? region_read(c, i, &stream)
			       : weir_tensor_copy(&c->dst[i], &c->src[i]);
	if (r == 0 && stream)
		r = weir_stream_sync(stream, -1);
	weir_stream_free(stream);
	return r;
}

/* Place the tensors of the leaves of @g in the regions of the copy. */
static void leaves_place(const struct graph_copy *c)
{
	const struct leaf_bytes *p;
	struct weir_tensor *t;

	for (size_t i = 0; i < c->g->n; i++)
		if (c->g->node[i]->op == WEIR_OP_LEAF)
			c->leaf[i] = c->g->node[i]->t;
	for (size_t i = 0; i < c->n; i++) {
		p = &c->place[i];
		t = &c->leaf[p->leaf];
		t->buf = c->dst[p->region].buf;
		t->offset = c->dst[p->region].offset + p->off;
	}
}

static struct weir_node *node_of(const struct graph_copy *c,
				 const struct weir_node *node)
{
	return node ? c->made->node[node->index] : NULL;
}

/* Make a node again that is neither leaf nor input. */
static int result_copy(const struct graph_copy *c, const struct weir_node *node,
		       struct weir_node **src, struct weir_node **ret)
{
	struct weir__new_node m = { .row = node->row,
				    .op = node->op,
				    .n_src = node->n_src,
				    .src = src,
				    .t = node->t,
				    .params = (void *)(uintptr_t)node->params };

	for (uint32_t i = 0; i < node->n_src; i++)
		src[i] = node_of(c, node->src[i]);
	if (node->storage != node) {
		m.storage = node_of(c, node->storage);
		m.t.buf = m.storage->t.buf;
		m.t.offset = m.storage->t.offset +
			     (node->t.offset - node->storage->t.offset);
	}
	return weir__node_append(c->made, &m, ret);
}

static int node_copy(const struct graph_copy *c, size_t i,
		     struct weir_node **src)
{
	const struct weir_node *node = c->g->node[i];
	struct weir_node *made;

	if (node->op == WEIR_OP_LEAF)
		made = weir_graph_leaf(c->made, &c->leaf[i], NULL);
	else if (node->op == WEIR_OP_INPUT)
		made = weir_graph_input(c->made, node->t.name,
					(enum weir_dtype)node->t.dtype,
					node->t.ndim, node->t.shape);
	else if (result_copy(c, node, src, &made) < 0)
		made = weir__graph_keep_failure(c->made, -ENOMEM);
	if (made && node->flags & WEIR_NODE_CONSTANT)
		made = weir_graph_constant(c->made, made);
	if (made && node->flags & WEIR_NODE_OUTPUT)
		made = weir_graph_output(c->made, made);
	if (made && node->flags & WEIR_NODE_OBSERVED)
		made = weir_graph_observe(c->made, made);
	return made ? 0 : c->made->err;
}

static int nodes_copy(const struct graph_copy *c)
{
	struct weir_node **src;
	size_t most = 1;
	int r = 0;

	for (size_t i = 0; i < c->g->n; i++)
		if (c->g->node[i]->n_src > most)
			most = c->g->node[i]->n_src;
	src = weir__array_alloc(most, sizeof(struct weir_node *));
	if (!src)
		return weir__fail(-ENOMEM, "no memory for %zu sources", most);
	for (size_t i = 0; !r && i < c->g->n; i++)
		r = node_copy(c, i, src);
	weir__array_free(src);
	return r;
}

static int graph_copy_alloc(struct graph_copy *c)
{
	size_t n = c->g->n + 1; /* never 0 */

	c->place = weir__array_alloc(n, sizeof(*c->place));
	c->src = weir__array_alloc(n, sizeof(*c->src));
	c->dst = weir__array_alloc(n, sizeof(*c->dst));
	c->file = weir__array_alloc(n, sizeof(*c->file));
	c->leaf = weir__array_alloc(n, sizeof(*c->leaf));
	if (c->place && c->src && c->dst && c->file && c->leaf)
		return weir_graph_new(&c->made);
	return weir__fail(-ENOMEM, "no memory to copy %zu nodes", c->g->n);
}

static void graph_copy_free(struct graph_copy *c)
{
	weir__array_free(c->place);
	weir__array_free(c->src);
	weir__array_free(c->dst);
	weir__array_free(c->file);
	weir__array_free(c->leaf);
}

int weir_graph_copy(const struct weir_graph *g, struct weir_buft *buft,
		    struct weir_graph **ret_graph, struct weir_buf **ret_buf)
{
	struct graph_copy c = { .g = g };
	struct weir_buf *buf = NULL;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buft->dev->weir);
	if (r < 0 || (r = weir_graph_error(g, NULL)) < 0)
		return r;
	if ((r = graph_copy_alloc(&c)) < 0 || (r = places_find(&c)) < 0 ||
	    (r = regions_make(&c)) < 0 ||
	    (r = weir_tensors_alloc(buft, c.dst, c.n_regions, &buf)) < 0 ||
	    (r = regions_copy(&c)) < 0)
		goto out;
	leaves_place(&c);
	r = nodes_copy(&c);
out:
	graph_copy_free(&c);
	if (r < 0) {
		weir_graph_free(c.made);
		weir__buf_put(buf);
		return weir__fail_as("weir_graph_copy", r);
	}
	*ret_graph = c.made;
	*ret_buf = buf;
	return 0;
}
