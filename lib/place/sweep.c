/* SPDX-License-Identifier: MIT */
#include "place/sweep.h"

#include <errno.h>
#include <stdbool.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

/*
 * Free ranges of addresses, by address: a treap in which each node has the
 * longest gap of its subtree. All calls take logarithmic time.
 */
struct gap {
	uint64_t at, end;
	uint64_t longest; /* longest gap of its subtree */
	uint32_t left, right, rank;
};

struct gaps {
	struct gap *gap;       /* 0 is no gap */
	uint32_t root, unused; /* unused ones are linked by right */
	uint64_t stride;       /* no gap crosses a multiple; 0: may */
	uint64_t top;          /* gaps are below */
};

#define NO_LIMIT ((uint64_t)1 << 62)

static void gap_update(struct gap *gap, uint32_t i)
{
	struct gap *x = &gap[i];

	x->longest = x->end - x->at;
	if (x->longest < gap[x->left].longest)
		x->longest = gap[x->left].longest;
	if (x->longest < gap[x->right].longest)
		x->longest = gap[x->right].longest;
}

/* All of @a is below all of @b. */
static uint32_t gap_merge(struct gap *gap, uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	if (gap[a].rank > gap[b].rank) {
		gap[a].right = gap_merge(gap, gap[a].right, b);
		gap_update(gap, a);
		return a;
	}
	gap[b].left = gap_merge(gap, a, gap[b].left);
	gap_update(gap, b);
	return b;
}

/* Split the tree @i into the gaps that begin before @at, and the others. */
static void gap_split(struct gap *gap, uint32_t i, uint64_t at,
		      uint32_t *ret_low, uint32_t *ret_high)
{
	if (!i) {
		*ret_low = *ret_high = 0;
	} else if (gap[i].at < at) {
		gap_split(gap, gap[i].right, at, &gap[i].right, ret_high);
		gap_update(gap, i);
		*ret_low = i;
	} else {
		gap_split(gap, gap[i].left, at, ret_low, &gap[i].left);
		gap_update(gap, i);
		*ret_high = i;
	}
}

static uint32_t gap_insert(struct gap *gap, uint32_t i, uint32_t fresh)
{
	if (!i || gap[i].rank < gap[fresh].rank) {
		gap_split(gap, i, gap[fresh].at, &gap[fresh].left,
			  &gap[fresh].right);
		gap_update(gap, fresh);
		return fresh;
	}
	if (gap[fresh].at < gap[i].at)
		gap[i].left = gap_insert(gap, gap[i].left, fresh);
	else
		gap[i].right = gap_insert(gap, gap[i].right, fresh);
	gap_update(gap, i);
	return i;
}

static uint32_t gap_erase(struct gap *gap, uint32_t i, uint64_t at)
{
	if (gap[i].at == at)
		return gap_merge(gap, gap[i].left, gap[i].right);
	if (at < gap[i].at)
		gap[i].left = gap_erase(gap, gap[i].left, at);
	else
		gap[i].right = gap_erase(gap, gap[i].right, at);
	gap_update(gap, i);
	return i;
}

/*
 * Update the tree after gap @i became longer or shorter, between its
 * neighbours.
 */
static void gap_resize(struct gap *gap, uint32_t node, uint32_t i)
{
	if (node != i)
		gap_resize(gap,
			   gap[i].at < gap[node].at ? gap[node].left
						    : gap[node].right,
			   i);
	gap_update(gap, node);
}

static uint32_t gap_add(struct gaps *g, uint64_t at, uint64_t end)
{
	uint32_t i = g->unused;

	if (at == end)
		return 0;
	g->unused = g->gap[i].right;
	g->gap[i] =
		(struct gap){ .at = at, .end = end, .rank = g->gap[i].rank };
	g->root = gap_insert(g->gap, g->root, i);
	return i;
}

static void gap_drop(struct gaps *g, uint32_t i)
{
	g->root = gap_erase(g->gap, g->root, g->gap[i].at);
	g->gap[i].right = g->unused;
	g->unused = i;
}

/* The lowest gap of at least @bytes, or 0. */
static uint32_t gap_lowest(const struct gaps *g, uint64_t bytes)
{
	const struct gap *gap = g->gap;
	uint32_t i = g->root;

	if (gap[i].longest < bytes)
		return 0;
	for (;;) {
		if (gap[gap[i].left].longest >= bytes)
			i = gap[i].left;
		else if (gap[i].end - gap[i].at >= bytes)
			return i;
		else
			i = gap[i].right;
	}
}

/*
 * All from @base on is free, for at most @n ranges in use at a time. -ENOMEM
 * without a sentence.
 */
static int gaps_init(struct gaps *g, size_t n, uint64_t base, uint64_t stride)
{
	uint32_t rank = 1;

	/* A gap below each range in use, the last gap, and a new one. */
	*g = (struct gaps){ .stride = stride, .unused = 1, .top = base };
	g->gap = weir__calloc(2 * n + 4, sizeof(*g->gap));
	if (!g->gap)
		return -ENOMEM;
	for (uint32_t i = 1; i < 2 * n + 4; i++) {
		rank ^= rank << 13;
		rank ^= rank >> 17;
		rank ^= rank << 5;
		g->gap[i].rank = rank;
		g->gap[i].right = i + 1;
	}
	return 0;
}

static void gaps_free(struct gaps *g)
{
	weir__free(g->gap);
}

/* Open a gap at the top that has room for @need bytes, any padding included. */
static uint32_t gap_open(struct gaps *g, uint64_t need)
{
	for (;;) {
		uint64_t begin = g->top;
		uint32_t i;

		g->top = g->stride ? (begin / g->stride + 1) * g->stride
				   : NO_LIMIT;
		i = gap_add(g, begin, g->top);
		/* A whole member is aligned, and has room for everything. */
		if (!g->stride || g->top - begin >= need ||
		    g->top - begin == g->stride)
			return i;
	}
}

/*
 * Take @bytes from the lowest gap that has room for them wherever it begins: a
 * multiple of @unit, as all sizes are.
 */
static uint64_t gaps_take(struct gaps *g, uint64_t bytes, uint64_t align,
			  uint64_t unit)
{
	uint64_t need = bytes + align - unit, begin, end, at;
	uint32_t i = gap_lowest(g, need);

	if (!i)
		i = gap_open(g, need);
	begin = g->gap[i].at;
	end = g->gap[i].end;
	at = weir__up(begin, align);
	if (at == begin && at + bytes == end) {
		gap_drop(g, i);
	} else if (at == begin) {
		g->gap[i].at = at + bytes;
		gap_resize(g->gap, g->root, i);
	} else {
		g->gap[i].end = at;
		gap_resize(g->gap, g->root, i);
		gap_add(g, at + bytes, end);
	}
	return at;
}

/* True if a gap and a range that meet at @at may be merged. */
static bool gap_joins(const struct gaps *g, uint64_t at)
{
	return !g->stride || at % g->stride;
}

/* Give back what was taken. */
static void gaps_give(struct gaps *g, uint64_t at, uint64_t end)
{
	uint32_t below = 0, above = 0;

	for (uint32_t i = g->root; i;) {
		if (g->gap[i].at < at) {
			below = i;
			i = g->gap[i].right;
		} else {
			above = i;
			i = g->gap[i].left;
		}
	}
	if (below && (g->gap[below].end != at || !gap_joins(g, at)))
		below = 0;
	if (above && (g->gap[above].at != end || !gap_joins(g, end)))
		above = 0;
	if (below) {
		g->gap[below].end = above ? g->gap[above].end : end;
		if (above)
			gap_drop(g, above);
		gap_resize(g->gap, g->root, below);
	} else if (above) {
		g->gap[above].at = at;
		gap_resize(g->gap, g->root, above);
	} else {
		gap_add(g, at, end);
	}
}

struct sweep {
	struct weir__conflict_graph *graph;
	const struct weir__rects *p;
	struct gaps gaps;
	bool backwards;
	struct weir__rect_key *key; /* heads of linked rectangles, by their
				       begin */
	size_t n;
	uint32_t *ending; /* 1 + the last head that ends at each of n + 1
			     times */
	uint32_t *next;   /* 1 + another head that ends with each head */
	uint64_t height;
};

/* Return when the sweep reaches rectangle @i and those linked to it. */
static uint32_t begin_of(const struct sweep *s, uint32_t i)
{
	if (!s->backwards)
		return s->graph->rect[i].from;
	while (s->graph->rect[i].next != WEIR__NO_RECT)
		i = s->graph->rect[i].next;
	return (uint32_t)s->graph->n - s->graph->rect[i].to;
}

/* Return when the sweep leaves them. */
static uint32_t end_of(const struct sweep *s, uint32_t i)
{
	if (s->backwards)
		return (uint32_t)s->graph->n - s->graph->rect[i].from;
	while (s->graph->rect[i].next != WEIR__NO_RECT)
		i = s->graph->rect[i].next;
	return s->graph->rect[i].to;
}

static void sweep_sort(struct sweep *s)
{
	for (uint32_t i = 0; i < s->graph->n; i++) {
		uint32_t end;

		if (s->graph->rect[i].follows)
			continue;
		s->key[s->n++] =
			(struct weir__rect_key){ UINT32_MAX - begin_of(s, i),
						 s->graph->rect[i].bytes, i };
		end = end_of(s, i);
		s->next[i] = s->ending[end];
		s->ending[end] = i + 1;
	}
	weir__rect_keys_sort(s->key, s->n);
}

static void sweep_end(struct sweep *s, uint32_t moment)
{
	for (uint32_t i = s->ending[moment]; i; i = s->next[i - 1]) {
		struct weir__address_range *range = &s->graph->range[i - 1];

		gaps_give(&s->gaps, range->at, range->end);
	}
}

static void sweep_place(struct sweep *s, uint32_t i)
{
	struct weir__section_rect *rect = s->graph->rect;
	uint64_t bytes = rect[i].bytes;
	uint64_t at = gaps_take(&s->gaps, bytes, rect[i].align, s->p->unit);

	if (s->height < at + bytes)
		s->height = at + bytes;
	for (; i != WEIR__NO_RECT; i = rect[i].next)
		s->graph->range[i] =
			(struct weir__address_range){ at, at + bytes };
}

static void sweep_run(struct sweep *s)
{
	uint32_t moment = 0;

	sweep_sort(s);
	for (size_t k = 0; k < s->n; k++) {
		uint32_t begin = UINT32_MAX - (uint32_t)s->key[k].first;

		while (moment < begin)
			sweep_end(s, ++moment);
		sweep_place(s, s->key[k].rect);
	}
}

int weir__sweep(struct weir__conflict_graph *cg, const struct weir__rects *p,
		uint64_t base, bool backwards, uint64_t *ret_height)
{
	struct sweep s = { .graph = cg, .p = p, .backwards = backwards };
	int r = gaps_init(&s.gaps, cg->n, base, p->stride);

	s.key = weir__malloc(cg->n * sizeof(*s.key));
	s.ending = weir__calloc(cg->n + 1, sizeof(*s.ending));
	s.next = weir__calloc(cg->n, sizeof(*s.next));
	if (!r && s.key && s.ending && s.next) {
		sweep_run(&s);
		*ret_height = s.height;
	} else {
		r = weir__fail(-ENOMEM, "no memory to place %zu items", cg->n);
	}
	gaps_free(&s.gaps);
	weir__free(s.key);
	weir__free(s.ending);
	weir__free(s.next);
	return r;
}
