/* SPDX-License-Identifier: MIT */
/*
 * The order of accesses to placed bytes, by groups of accesses that overlap.
 * Groups need at most two edges for each access. They order a little more than
 * necessary: two parts of a cache count as one if a node reads both. Exact
 * intervals could need an edge for each pair of accesses: many small writes, then
 * many reads of everything.
 */
#include <stdbool.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "graph/compile/reach.h"

#define NONE WEIR__REACH_NONE

/* Sorted by address to find the groups, then by node to order them. */
struct access {
	struct weir__sort_key key;
	uint64_t hi;
	uint32_t node, group;
	uint32_t write; /* 1: it writes */
	uint32_t next;  /* an earlier read of the group, in access; NONE */
};

/* The state of a group at the current node. */
struct group {
	uint32_t written; /* the last node that wrote; NONE */
	uint32_t readers; /* list of the reads since then, in access; NONE */
	uint32_t has_write;
};

struct order {
	const struct weir__reach_in *in;
	struct weir__reach *reach;
	struct access *access;
	struct group *group;
	uint32_t n, n_groups;
};

static int no_memory(const struct order *o)
{
	return weir__fail(-ENOMEM,
			  "no memory for the accesses of a graph of %u nodes",
			  o->in->n);
}

static void access_add(struct order *o, uint32_t node, uint32_t of, bool write)
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

static void accesses_add(struct order *o, uint32_t node)
{
	const struct weir__reach_in *in = o->in;

	if (in->flags[node] & WEIR__REACH_SEEN)
		access_add(o, node, node, false);
	if (!o->reach->needed[node] || in->flags[node] & WEIR__REACH_STILL)
		return;
	for (uint32_t s = in->src_at[node]; s < in->src_at[node + 1]; s++)
		if (in->src[s] != NONE)
			access_add(o, node, in->src[s],
				   s - in->src_at[node] == in->writes[node]);
}

/*
 * @o's accesses are in the order of addresses. A group ends where no access of
 * it reaches the next one.
 */
static void groups_find(struct order *o)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < o->n; i++) {
		struct access *a = &o->access[i];

		if (!o->n_groups || a->key.major >= end) {
			o->group[o->n_groups++] =
				(struct group){ NONE, NONE, false };
			end = a->hi;
		}
		end = end < a->hi ? a->hi : end;
		a->group = o->n_groups - 1;
		o->group[a->group].has_write |= a->write;
		/* Reads of a node before its write. */
		a->key.major = a->node;
		a->key.minor = a->write;
	}
}

static void edge_add(struct order *o, uint32_t *n, uint32_t before,
		     uint32_t node)
{
	if (before != NONE && before != node)
		o->reach->before[(*n)++] = before;
}

static void access_order(struct order *o, uint32_t i, uint32_t *n)
{
	struct access *a = &o->access[i], *reader;
	struct group *g = &o->group[a->group];
	uint32_t from = *n;

	if (!g->has_write || g->written == a->node)
		return;
	if (!a->write) {
		if (o->in->flags[a->node] & WEIR__REACH_SEEN) {
			edge_add(o, n, g->written, a->node);
			return; /* no step, for which a write could wait */
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

static int order_alloc(struct order *o)
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

static int order_run(struct order *o)
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

int weir__reach_order(const struct weir__reach_in *in,
		      struct weir__reach *reach)
{
	struct order o = { .in = in, .reach = reach };
	int r = order_alloc(&o);

	if (!r)
		r = order_run(&o);
	weir__array_free(o.access);
	weir__array_free(o.group);
	return r;
}
