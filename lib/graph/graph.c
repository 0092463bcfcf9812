/* SPDX-License-Identifier: MIT */
/* Graphs: made, reset, their leaves and inputs, and the failure they keep. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

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

struct weir_node *weir__graph_keep(struct weir_graph *g, int err)
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

/* The place of a leaf: in one member of its buffer, if it is placed. */
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

/* Operations go by strides; without the last one no others are checked. */
static int check_strides(const struct weir_tensor *t, uint64_t bytes)
{
	uint32_t last = t->ndim - 1;

	if (!bytes || !t->ndim || t->stride[last] ||
	    t->shape[last] % weir__dtype(t->dtype)->block)
		return 0;
	return weir__fail(-EINVAL, "%s: stride %u is 0", weir__tensor_label(t),
			  last);
}

/* Are @bytes bytes of @t in the file? */
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

/* @in: NULL: it is in no file. */
static int leaf_make(struct weir_graph *g, const struct weir_tensor *t,
		     struct weir_event *event, const struct weir__in_file *in,
		     struct weir_node **ret_node)
{
	struct weir__in_file params = in ? *in : (struct weir__in_file){ 0 };
	struct weir__made m = { .row = weir__op_row(WEIR_OP_LEAF),
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
	return r < 0 ? weir__graph_keep(g, r) : node;
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
	return r < 0 ? weir__graph_keep(g, r) : node;
}

struct weir_node *weir_graph_input(struct weir_graph *g, const char *name,
				   enum weir_dtype dtype, unsigned ndim,
				   const int64_t *shape)
{
	struct weir__made m = { .row = weir__op_row(WEIR_OP_INPUT),
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
	return r < 0 ? weir__graph_keep(g, r) : node;
}

size_t weir_graph_count(const struct weir_graph *g)
{
	return g->n;
}

struct weir_node *weir_graph_node(const struct weir_graph *g, size_t i)
{
	return i < g->n ? g->node[i] : NULL;
}
