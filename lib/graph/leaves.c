/* SPDX-License-Identifier: MIT */
/* The leaves that a plan uses: may the device use them, and their bytes. */
#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "graph/plan.h"
#include "graph/sched.h"
#include "mem/buf.h"

/* Reads with a gap up to this are one range. */
#define GAP 4096u

/* The program's memory, where the device can compute. */
static int check_leaf(const struct weir_sched *s, const struct weir_node *leaf)
{
	const struct weir_buf *buf = leaf->t.buf;
	const char *words = weir__tensor_words(&leaf->t, leaf->index);
	const struct weir_buft *buft;

	if (!buf)
		return weir__fail(-EINVAL,
				  "leaf %s is not placed, so it cannot be used",
				  words);
	buft = buf->buft;
	if (buft->dev == s->dev ||
	    (s->compute->supports_buft &&
	     s->compute->supports_buft(s->dev, buft->dev, &buft->desc)))
		return 0;
	return weir__fail(-EINVAL, "leaf %s is in memory of %s, %s computes",
			  words, buft->dev->desc.name, s->dev->desc.name);
}

/* A leaf, to be sorted by address. */
struct spread {
	struct weir__sort_key key;
	struct weir_buf *buf; /* no joined one */
	uint64_t bytes;
	uint32_t node;
	uint32_t write;
};

static int spread_leaves(const struct weir__graph_plan *p,
			 const struct weir_graph *g, struct spread *list)
{
	int r = 0;

	for (uint32_t i = 0; i < p->n_leaves && !r; i++) {
		const struct weir_node *leaf = g->node[p->leaf[i].node];
		struct spread *to = &list[i];
		uint64_t off = 0;

		r = check_leaf(p->sched, leaf);
		if (r == 0)
			r = weir__buf_range(leaf->t.buf, leaf->t.offset,
					    p->leaf[i].bytes, &to->buf, &off);
		if (r < 0)
			return r;
		to->key.major = (uintptr_t)to->buf->mem.base + off;
		to->key.minor = 0;
		to->bytes = p->leaf[i].bytes;
		to->node = p->leaf[i].node;
		to->write = p->leaf[i].write;
	}
	return r;
}

/* Leaves are often neighbours: then @next becomes part of the range. */
static bool leaf_join(struct weir__leaf *leaf, const struct spread *first,
		      const struct spread *next)
{
	uint64_t begins = next->key.major - first->key.major;

	if (first->buf != next->buf || leaf->write != (next->write != 0) ||
	    begins > leaf->bytes + (leaf->write ? 0 : GAP))
		return false;
	if (begins + next->bytes > leaf->bytes)
		leaf->bytes = begins + next->bytes;
	return true;
}

static void join_leaves(struct weir__graph_plan *p, const struct spread *list)
{
	const struct spread *first = list;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_leaves; i++) {
		const struct spread *next = &list[i];

		if (n && leaf_join(&p->leaf[n - 1], first, next))
			continue;
		first = next;
		p->leaf[n++] = (struct weir__leaf){ .node = next->node,
						    .write = next->write != 0,
						    .bytes = next->bytes };
	}
	p->n_leaves = n;
}

int weir__leaves_join(struct weir__graph_plan *p, const struct weir_graph *g)
{
	struct spread *list =
		weir__array_alloc(p->n_leaves + (size_t)1, sizeof(*list));
	int r = -ENOMEM;

	if (list)
		r = spread_leaves(p, g, list);
	if (list && r == 0)
		r = weir__sort(list, p->n_leaves, sizeof(*list));
	if (r == 0)
		join_leaves(p, list);
	weir__array_free(list);
	return r == -ENOMEM
		       ? weir__fail(r, "no memory for %u leaves", p->n_leaves)
		       : r;
}
