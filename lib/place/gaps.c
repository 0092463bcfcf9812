/* SPDX-License-Identifier: MIT */
#include "place/gaps.h"

#include <errno.h>
#include <stdbool.h>

#include "core/sys.h"
#include "core/util.h"

#define NO_LIMIT ((uint64_t)1 << 62)

static void gap_update(struct weir__gap *gap, uint32_t i)
{
	struct weir__gap *x = &gap[i];

	x->longest = x->end - x->at;
	if (x->longest < gap[x->left].longest)
		x->longest = gap[x->left].longest;
	if (x->longest < gap[x->right].longest)
		x->longest = gap[x->right].longest;
}

/* All of @a is below all of @b. */
static uint32_t gap_merge(struct weir__gap *gap, uint32_t a, uint32_t b)
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
static void gap_split(struct weir__gap *gap, uint32_t i, uint64_t at,
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

static uint32_t gap_insert(struct weir__gap *gap, uint32_t i, uint32_t fresh)
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

static uint32_t gap_erase(struct weir__gap *gap, uint32_t i, uint64_t at)
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

/* Gap @i became longer or shorter, and is still between its neighbours. */
static void gap_resize(struct weir__gap *gap, uint32_t node, uint32_t i)
{
	if (node != i)
		gap_resize(gap,
			   gap[i].at < gap[node].at ? gap[node].left
						    : gap[node].right,
			   i);
	gap_update(gap, node);
}

static uint32_t gap_add(struct weir__gaps *g, uint64_t at, uint64_t end)
{
	uint32_t i = g->unused;

	if (at == end)
		return 0;
	g->unused = g->gap[i].right;
	g->gap[i] = (struct weir__gap){ .at = at,
					.end = end,
					.rank = g->gap[i].rank };
	g->root = gap_insert(g->gap, g->root, i);
	return i;
}

static void gap_drop(struct weir__gaps *g, uint32_t i)
{
	g->root = gap_erase(g->gap, g->root, g->gap[i].at);
	g->gap[i].right = g->unused;
	g->unused = i;
}

/* The lowest gap of at least @bytes, or 0. */
static uint32_t gap_lowest(const struct weir__gaps *g, uint64_t bytes)
{
	const struct weir__gap *gap = g->gap;
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

int weir__gaps_init(struct weir__gaps *g, size_t n, uint64_t base,
		    uint64_t chunk)
{
	uint32_t rank = 1;

	/* A gap below each range in use, the last gap, and a new one. */
	*g = (struct weir__gaps){ .chunk = chunk, .unused = 1, .top = base };
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

void weir__gaps_free(struct weir__gaps *g)
{
	weir__free(g->gap);
}

/* A gap at the top with room for @bytes, which are @need with any padding. */
static uint32_t gap_open(struct weir__gaps *g, uint64_t need)
{
	for (;;) {
		uint64_t begin = g->top;
		uint32_t i;

		g->top = g->chunk ? (begin / g->chunk + 1) * g->chunk
				  : NO_LIMIT;
		i = gap_add(g, begin, g->top);
		/* A whole chunk is aligned, and has room for everything. */
		if (!g->chunk || g->top - begin >= need ||
		    g->top - begin == g->chunk)
			return i;
	}
}

uint64_t weir__gaps_take(struct weir__gaps *g, uint64_t bytes, uint64_t align,
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
static bool gap_joins(const struct weir__gaps *g, uint64_t at)
{
	return !g->chunk || at % g->chunk;
}

void weir__gaps_give(struct weir__gaps *g, uint64_t at, uint64_t end)
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
