/* SPDX-License-Identifier: MIT */
/*
 * The pass "reach" finds the nodes that are needed, those that share bytes, the
 * last use of each, and the order of accesses. The end of this file makes the
 * arrays of a graph, which all passes read.
 */
#include "graph/compile/reach.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/tensor.h"

#define NONE WEIR__REACH_NONE

static void mark(uint8_t *needed, uint32_t i)
{
	if (i != NONE)
		needed[i] = 1;
}

/* Sources come before their users, so one loop from the end reaches all. */
static void reach_needed(const struct weir__reach_in *in, uint8_t *needed)
{
	memset(needed, 0, in->n);
	for (uint32_t i = in->n; i-- > 0;) {
		if (in->flags[i] & WEIR__REACH_ROOT)
			needed[i] = 1;
		if (!needed[i])
			continue;
		for (uint32_t s = in->src_at[i]; s < in->src_at[i + 1]; s++)
			mark(needed, in->src[s]);
	}
}

static void reach_alias(const struct weir__reach_in *in, uint32_t *alias)
{
	for (uint32_t i = 0; i < in->n; i++)
		alias[i] = in->of[i] == i ? i : alias[in->of[i]];
}

/* A view uses no bytes itself; the nodes that read the view use them. */
static void reach_last(const struct weir__reach_in *in, struct weir__reach *r)
{
	uint32_t *last = r->last;

	for (uint32_t i = 0; i < in->n; i++)
		last[i] = i;
	for (uint32_t i = 0; i < in->n; i++) {
		if (!r->needed[i] || in->flags[i] & WEIR__REACH_NO_WORK)
			continue;
		for (uint32_t s = in->src_at[i]; s < in->src_at[i + 1]; s++)
			if (in->src[s] != NONE)
				last[r->alias[in->src[s]]] = i;
		last[r->alias[i]] = i;
	}
	for (uint32_t i = 0; i < in->n; i++)
		if (in->flags[i] & WEIR__REACH_KEEP)
			last[r->alias[i]] = NONE;
	for (uint32_t i = 0; i < in->n; i++)
		last[i] = last[r->alias[i]];
}

/* Sorted by address to find the groups, then by node to order them. */
struct access {
	struct weir__sort_key key;
	uint64_t hi;
	uint32_t node, group;
	uint32_t write; /* 1: it writes */
	uint32_t next;  /* the access that read the group before; NONE */
};

/* The state of a group at the current node. */
struct overlap_group {
	uint32_t written; /* the last node that wrote; NONE */
	uint32_t readers; /* the newest access that read since then; NONE */
	uint32_t has_write;
};

struct accesses {
	const struct weir__reach_in *in;
	struct weir__reach *reach;
	struct access *access;
	struct overlap_group *group;
	uint32_t n, n_groups;
};

static int no_memory(const struct accesses *o)
{
	return weir__fail(-ENOMEM,
			  "no memory for the accesses of a graph of %u nodes",
			  o->in->n);
}

static void access_add(struct accesses *o, uint32_t node, uint32_t of,
		       bool write)
{
	const struct weir__span *span =
		&o->in->span[o->in->device_copies && !write
				     ? o->reach->alias[of]
				     : of];

	if (span->lo >= span->hi)
		return;
	o->access[o->n++] = (struct access){
		.key = { .major = span->lo },
		.hi = span->hi,
		.node = node,
		.write = write,
	};
}

static void accesses_add(struct accesses *o, uint32_t node)
{
	const struct weir__reach_in *in = o->in;

	if (in->flags[node] & WEIR__REACH_OBSERVED)
		access_add(o, node, node, false);
	if (!o->reach->needed[node] || in->flags[node] & WEIR__REACH_NO_WORK)
		return;
	for (uint32_t s = in->src_at[node]; s < in->src_at[node + 1]; s++)
		if (in->src[s] != NONE)
			access_add(o, node, in->src[s],
				   s - in->src_at[node] == in->writes[node]);
}

/*
 * Divide the accesses, which are sorted by address, into groups. A group ends
 * where none of its accesses reaches the next one.
 */
static void groups_find(struct accesses *o)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < o->n; i++) {
		struct access *a = &o->access[i];

		if (!o->n_groups || a->key.major >= end) {
			o->group[o->n_groups++] =
				(struct overlap_group){ NONE, NONE, false };
			end = a->hi;
		}
		end = end < a->hi ? a->hi : end;
		a->group = o->n_groups - 1;
		o->group[a->group].has_write |= a->write;
		/* The reads of a node come before its write. */
		a->key.major = a->node;
		a->key.minor = a->write;
	}
}

static void edge_add(struct accesses *o, uint32_t *n, uint32_t before,
		     uint32_t node)
{
	if (before != NONE && before != node)
		o->reach->before[(*n)++] = before;
}

static void access_order(struct accesses *o, uint32_t i, uint32_t *n)
{
	struct access *a = &o->access[i], *reader;
	struct overlap_group *g = &o->group[a->group];
	uint32_t from = *n;

	if (!g->has_write || g->written == a->node)
		return;
	if (!a->write) {
		if (o->in->flags[a->node] & WEIR__REACH_OBSERVED) {
			edge_add(o, n, g->written, a->node);
			return; /* writes cannot wait for it: it is no step */
		}
		if (g->readers != NONE && o->access[g->readers].node == a->node)
			return; /* the node's second read in this group */
		edge_add(o, n, g->written, a->node);
		a->next = g->readers;
		g->readers = i;
		return;
	}
	for (uint32_t r = g->readers; r != NONE; r = reader->next) {
		reader = &o->access[r];
		edge_add(o, n, reader->node, a->node);
	}
	/* The readers come after the last write. */
	if (*n == from)
		edge_add(o, n, g->written, a->node);
	g->written = a->node;
	g->readers = NONE;
}

static int order_alloc(struct accesses *o)
{
	uint32_t n = o->in->n;
	size_t most = (size_t)o->in->src_at[n] + n + 1;

	o->access = weir__array_alloc(most, sizeof(*o->access));
	o->group = weir__array_alloc(most, sizeof(*o->group));
	o->reach->before_at =
		weir__array_alloc((size_t)n + 1, sizeof(*o->reach->before_at));
	o->reach->before =
		weir__array_alloc(2 * most, sizeof(*o->reach->before));
	return o->access && o->group && o->reach->before_at && o->reach->before
		       ? 0
		       : no_memory(o);
}

static int order_run(struct accesses *o)
{
	uint32_t n_edges = 0, a = 0;

	for (uint32_t i = 0; i < o->in->n; i++)
		accesses_add(o, i);
	if (weir__sort(o->access, o->n, sizeof(*o->access)) < 0)
		return no_memory(o);
	groups_find(o);
	if (weir__sort(o->access, o->n, sizeof(*o->access)) < 0)
		return no_memory(o);
	for (uint32_t i = 0; i < o->in->n; i++) {
		o->reach->before_at[i] = n_edges;
		for (; a < o->n && o->access[a].node == i; a++)
			access_order(o, a, &n_edges);
	}
	o->reach->before_at[o->in->n] = n_edges;
	return 0;
}

/*
 * Fill in before_at and before. Accesses whose bytes overlap, directly or
 * through accesses between, are one group. In a group each read comes after the
 * last write, and each write after the last write and the reads since then.
 *
 * Groups need at most two edges for each access. They order a little more than
 * necessary: two parts of a cache are one group if a node reads both. Exact
 * intervals could need an edge for each pair of accesses: many small writes,
 * then many reads of everything.
 */
static int reach_order(const struct weir__reach_in *in,
		       struct weir__reach *reach)
{
	struct accesses o = { .in = in, .reach = reach };
	int r = order_alloc(&o);

	if (!r)
		r = order_run(&o);
	weir__array_free(o.access);
	weir__array_free(o.group);
	return r;
}

int weir__reach(const struct weir__reach_in *in, struct weir__reach *ret)
{
	struct weir__reach r = { .n = in->n };
	size_t n = (size_t)in->n + 1; /* never 0 */
	int err;

	r.needed = weir__array_alloc(n, sizeof(*r.needed));
	r.alias = weir__array_alloc(n, sizeof(*r.alias));
	r.last = weir__array_alloc(n, sizeof(*r.last));
	if (!r.needed || !r.alias || !r.last) {
		err = weir__fail(-ENOMEM, "no memory for a pass over %u nodes",
				 in->n);
		goto out;
	}
	reach_needed(in, r.needed);
	reach_alias(in, r.alias);
	reach_last(in, &r);
	err = reach_order(in, &r);
	if (!err) {
		*ret = r;
		return 0;
	}
out:
	weir__reach_free(&r);
	return err;
}

void weir__reach_free(struct weir__reach *reach)
{
	weir__array_free(reach->needed);
	weir__array_free(reach->alias);
	weir__array_free(reach->last);
	weir__array_free(reach->before_at);
	weir__array_free(reach->before);
	memset(reach, 0, sizeof(*reach));
}

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
		flags |= WEIR__REACH_NO_WORK;
	if (flags & WEIR__REACH_NO_WORK && node->flags & WEIR_NODE_OBSERVED)
		flags |= WEIR__REACH_OBSERVED;
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
 * The address of a leaf. Leaves that are not placed get addresses that no
 * memory has, from *@next on, so that they overlap nothing.
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
		a->src[(*edges)++] = node->src[s] ? node->src[s]->index : NONE;
	a->flags[i] = flags_of(node);
	a->of[i] = source_of(node);
	a->writes[i] = node->row->flags & WEIR__OP_WRITES ? node->row->target
							  : NONE;
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
