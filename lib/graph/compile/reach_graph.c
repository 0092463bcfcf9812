/* SPDX-License-Identifier: MIT */
/* The arrays of a graph, which the passes read. */
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "graph/compile/reach.h"
#include "mem/buf.h"
#include "mem/tensor.h"

static int arrays_alloc(struct weir__reach_in *a, size_t n, size_t edges)
{
	a->src_at = weir__array_alloc(n + 1, sizeof(*a->src_at));
	a->src = weir__array_alloc(edges + 1, sizeof(*a->src));
	a->of = weir__array_alloc(n + 1, sizeof(*a->of));
	a->writes = weir__array_alloc(n + 1, sizeof(*a->writes));
	a->flags = weir__array_alloc(n + 1, sizeof(*a->flags));
	a->span = weir__array_alloc(n + 1, sizeof(*a->span));
	if (a->src_at && a->src && a->of && a->writes && a->flags && a->span)
		return 0;
	weir__reach_in_free(a);
	return weir__fail(-ENOMEM, "no memory for the arrays of %zu nodes", n);
}

static uint8_t flags_of(const struct weir_node *node)
{
	bool writes = node->row->flags & WEIR__OP_WRITES;
	uint8_t flags = 0;

	if (node->flags & WEIR__NODE_ASKED || writes)
		flags |= WEIR__REACH_ROOT;
	if (node->flags & WEIR_NODE_OUTPUT)
		flags |= WEIR__REACH_KEEP;
	if (node->op == WEIR_OP_LEAF || node->op == WEIR_OP_INPUT ||
	    node->row->flags & WEIR__OP_VIEWS)
		flags |= WEIR__REACH_STILL;
	if (flags & WEIR__REACH_STILL && node->flags & WEIR_NODE_OBSERVED)
		flags |= WEIR__REACH_SEEN;
	return flags;
}

/* The index of the source whose bytes the result has, or of the node itself. */
static uint32_t source_of(const struct weir_node *node)
{
	if (node->row->flags & (WEIR__OP_VIEWS | WEIR__OP_WRITES))
		return node->src[node->row->target]->index;
	return node->index;
}

/*
 * The address of a leaf. Leaves that are not placed get addresses that no memory
 * has, from *@next on, so that they overlap nothing.
 */
static uint64_t leaf_begins(const struct weir_node *leaf, uint64_t bytes,
			    uint64_t *next)
{
	struct weir_buf *member;
	uint64_t at;

	if (leaf->t.buf &&
	    !weir__buf_range(leaf->t.buf, leaf->t.offset, bytes, &member, &at))
		return (uintptr_t)member->mem.base + at;
	at = *next;
	*next += bytes;
	return at;
}

/*
 * The bytes of leaves, and of nodes that are stored in leaves; others have no
 * span. @span has the spans of all nodes before @node.
 */
static struct weir__span span_of(const struct weir_node *node,
				 const struct weir__span *span, uint64_t *next)
{
	const struct weir_node *leaf = node->storage;
	struct weir__span s = { 0, 0 };
	uint64_t bytes;

	if (leaf->op != WEIR_OP_LEAF ||
	    weir__tensor_bytes(&node->t, &bytes) < 0)
		return s;
	if (leaf == node)
		s.lo = leaf_begins(leaf, bytes, next);
	else
		s.lo = span[leaf->index].lo + (node->t.offset - leaf->t.offset);
	s.hi = s.lo + bytes;
	return s;
}

static void node_fill(struct weir__reach_in *a, const struct weir_node *node,
		      uint32_t *edges, uint64_t *next)
{
	uint32_t i = node->index;

	a->src_at[i] = *edges;
	for (uint32_t s = 0; s < node->n_src; s++)
		a->src[(*edges)++] = node->src[s] ? node->src[s]->index
						  : WEIR__REACH_NONE;
	a->flags[i] = flags_of(node);
	a->of[i] = source_of(node);
	a->writes[i] = node->row->flags & WEIR__OP_WRITES ? node->row->target
							  : WEIR__REACH_NONE;
	a->span[i] = span_of(node, a->span, next);
}

int weir__reach_graph(const struct weir_graph *g, struct weir__reach_in *ret)
{
	struct weir__reach_in a = { .n = (uint32_t)g->n };
	size_t n_edges = 0;
	uint32_t edges = 0;
	uint64_t next = UINT64_C(1) << 63;
	int r;

	for (size_t i = 0; i < g->n; i++)
		n_edges += g->node[i]->n_src;
	if (n_edges >= UINT32_MAX)
		return weir__fail(-EOVERFLOW, "%zu sources are too many",
				  n_edges);
	r = arrays_alloc(&a, g->n, n_edges);
	if (r < 0)
		return r;
	for (size_t i = 0; i < g->n; i++)
		node_fill(&a, g->node[i], &edges, &next);
	a.src_at[g->n] = edges;
	*ret = a;
	return 0;
}

void weir__reach_in_free(struct weir__reach_in *in)
{
	weir__array_free(in->src_at);
	weir__array_free(in->src);
	weir__array_free(in->of);
	weir__array_free(in->writes);
	weir__array_free(in->flags);
	weir__array_free(in->span);
	memset(in, 0, sizeof(*in));
}
