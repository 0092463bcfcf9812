/* SPDX-License-Identifier: MIT */
#include "place/greedy.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/conflict_graph.h"
#include "place/sweep.h"

/*
 * Placed rectangles, sorted by address, in blocks. A gap for another rectangle
 * is found by examining all of them, which takes linear time, but needs no list
 * of conflicts.
 */
struct scan_block;

struct scan {
	struct scan_block *block;
	uint32_t *order; /* indices of blocks, by address */
	size_t n_blocks;
	uint64_t examined; /* rectangles, in all calls */
};

enum fit {
	FIT_FIRST, /* the lowest gap that is large enough */
	FIT_BEST,  /* the one that leaves the least */
};

/* Rectangles of a block: a power of two. A full block is split in half. */
#define BLOCK 64u

/*
 * Up to 64 placed rectangles. Unused entries have the empty life [INT32_MAX,
 * 0), so that the loop over a block has a fixed length, and the compiler
 * vectorises it.
 */
struct scan_block {
	uint32_t n;
	int32_t from, to; /* life of all rectangles together */
	int32_t begin[BLOCK], end[BLOCK];
	uint64_t at[BLOCK], top[BLOCK];
};

static void block_clear(struct scan_block *b)
{
	b->n = 0;
	b->from = INT32_MAX;
	b->to = 0;
	for (uint32_t i = 0; i < BLOCK; i++) {
		b->begin[i] = INT32_MAX;
		b->end[i] = 0;
	}
}

static int scan_init(struct scan *s, size_t n)
{
	/* At least half of each block but one is used. */
	size_t most = n / (BLOCK / 2) + 2;

	*s = (struct scan){ .n_blocks = 0 };
	s->block = weir__malloc(most * sizeof(*s->block));
	s->order = weir__malloc(most * sizeof(*s->order));
	if (s->block && s->order)
		return 0;
	return weir__fail(-ENOMEM, "no memory to place %zu items", n);
}

static void scan_free(struct scan *s)
{
	weir__free(s->block);
	weir__free(s->order);
}

static void scan_clear(struct scan *s)
{
	s->n_blocks = 1;
	s->order[0] = 0;
	block_clear(&s->block[0]);
}

/* The rectangles of the block that live in [from, to), as bits. */
static uint64_t block_match(const struct scan_block *b, int32_t from,
			    int32_t to)
{
	uint8_t lives[BLOCK];
	uint64_t set = 0;

	for (uint32_t i = 0; i < BLOCK; i++)
		lives[i] = (b->begin[i] < to) & (b->end[i] > from);
	for (uint32_t k = 0; k < BLOCK; k += 8) {
		uint64_t eight;

		/* The product has byte k of @eight as bit 56 + k. */
		memcpy(&eight, lives + k, sizeof(eight));
		set |= eight * UINT64_C(0x0102040810204080) >> 56 << k;
	}
	return set;
}

/* The gap that is searched for, and what was found so far. */
struct gap_search {
	const struct weir__rects *p;
	uint64_t bytes, align;
	uint64_t at; /* all gaps below were seen */
	uint64_t best, least;
	enum fit fit;
};

/*
 * Search below and between the rectangles of the block that are in @set. False:
 * the gap was found.
 */
static bool search_block(struct gap_search *search, const struct scan_block *b,
			 uint64_t set)
{
	const uint64_t bytes = search->bytes;
	uint64_t at = search->at;

	for (; set; set &= set - 1) {
		unsigned i = (unsigned)__builtin_ctzll(set);
		uint64_t begin = b->at[i], top = b->top[i];

		if (begin >= at + bytes) {
			uint64_t left = begin - at - bytes;

			if (left < search->least) {
				search->least = left;
				search->best = at;
			}
			if (search->fit == FIT_FIRST)
				return false;
		}
		if (top > at)
			at = weir__rects_fit(search->p, top, bytes,
					     search->align);
	}
	search->at = at;
	return true;
}

static uint64_t scan_gap(struct scan *s, const struct weir__rects *p,
			 const struct weir__section_rect *rect, uint64_t bytes,
			 uint64_t align, uint64_t lowest, enum fit fit)
{
	int32_t from = (int32_t)rect->from, to = (int32_t)rect->to;
	struct gap_search search = { .p = p,
				     .bytes = bytes,
				     .align = align,
				     .at = weir__rects_fit(p, lowest, bytes,
							   align),
				     .least = UINT64_MAX,
				     .fit = fit };

	for (size_t k = 0; k < s->n_blocks; k++) {
		const struct scan_block *b = &s->block[s->order[k]];

		if (b->from >= to || b->to <= from)
			continue;
		s->examined += BLOCK;
		if (!search_block(&search, b, block_match(b, from, to)))
			break;
	}
	return search.least < UINT64_MAX ? search.best : search.at;
}

static void block_insert(struct scan_block *b, uint32_t i, int32_t begin,
			 int32_t end, uint64_t at, uint64_t top)
{
	for (uint32_t k = b->n++; k > i; k--) {
		b->begin[k] = b->begin[k - 1];
		b->end[k] = b->end[k - 1];
		b->at[k] = b->at[k - 1];
		b->top[k] = b->top[k - 1];
	}
	b->begin[i] = begin;
	b->end[i] = end;
	b->at[i] = at;
	b->top[i] = top;
	if (b->from > begin)
		b->from = begin;
	if (b->to < end)
		b->to = end;
}

/* Move the upper half of block order[k] to a new block after it. */
static void scan_split(struct scan *s, size_t k)
{
	uint32_t fresh = (uint32_t)s->n_blocks++;
	struct scan_block whole = s->block[s->order[k]];
	struct scan_block *low = &s->block[s->order[k]];
	struct scan_block *high = &s->block[fresh];

	memmove(&s->order[k + 2], &s->order[k + 1],
		(fresh - k - 1) * sizeof(*s->order));
	s->order[k + 1] = fresh;
	block_clear(low);
	block_clear(high);
	for (uint32_t i = 0; i < BLOCK; i++) {
		struct scan_block *half = i < BLOCK / 2 ? low : high;

		block_insert(half, half->n, whole.begin[i], whole.end[i],
			     whole.at[i], whole.top[i]);
	}
}

static void scan_add(struct scan *s, const struct weir__section_rect *rect,
		     uint64_t at)
{
	size_t low = 0, high = s->n_blocks;
	struct scan_block *b;
	uint32_t i = 0;

	/* The last block that begins at or below @at, else the first. */
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (s->block[s->order[mid]].at[0] <= at)
			low = mid;
		else
			high = mid;
	}
	if (s->block[s->order[low]].n == BLOCK) {
		scan_split(s, low);
		if (s->block[s->order[low + 1]].at[0] <= at)
			low++;
	}
	b = &s->block[s->order[low]];
	while (i < b->n && b->at[i] <= at)
		i++;
	block_insert(b, i, (int32_t)rect->from, (int32_t)rect->to, at,
		     at + rect->bytes);
}

/*
 * A try costs a step for each conflict of each rectangle. The first try is
 * always made, and further ones while the steps are fewer than this.
 */
#define STEPS(n) (((uint64_t)2 << 20) + 16 * (uint64_t)(n))
/* A sweep is good if it is over the bound by less than one part in so many. */
#define SWEPT 10
/*
 * A placement of many rectangles is good if it is over the bound by less than
 * one part in so many: a scan could gain no more than that.
 */
#define SCANNED 1000
#define FEW 4096
/*
 * A scan for linked rectangles examines several times as many rectangles as
 * other scans. If it examines more than so many times as many, the linked
 * rectangles have hardly a gap in common.
 */
#define LINKED 8
/* How often the highest rectangles are moved to the front of the order. */
#define ROUNDS 200

/*
 * Offsets at which a rectangle may not begin, because it would overlap another
 * one: those between @after and @end.
 */
struct forbidden {
	int64_t after; /* it may begin here, or below */
	uint64_t end;  /* it may begin here, or above */
};

struct greedy {
	struct weir__rects *p;
	struct weir__conflict_graph graph;
	uint64_t enough;
	uint64_t steps;        /* done */
	uint64_t height, best; /* height of this try, and of the best one */
	uint64_t *offset;      /* offsets of the best try */
	uint32_t *order; /* heads of linked rectangles, as they are placed */
	uint32_t *best_order;
	struct weir__rect_key *key;
	size_t n_order;
	struct forbidden *forbidden;
	size_t n_forbidden;
	struct scan scan;
	uint32_t tried; /* bits of tries that were made with all rectangles */
};

/* Shell's sort: most lists are short, and few are long. */
static void forbidden_sort(struct forbidden *c, size_t n)
{
	static const size_t gaps[] = { 1577, 701, 301, 132, 57, 23, 10, 4, 1 };

	for (size_t k = 0; k < sizeof(gaps) / sizeof(*gaps); k++)
		for (size_t gap = gaps[k], i = gap; i < n; i++) {
			struct forbidden x = c[i];
			size_t j = i;

			for (; j >= gap && c[j - gap].after > x.after; j -= gap)
				c[j] = c[j - gap];
			c[j] = x;
		}
}

static void forbidden_add(struct greedy *g, uint64_t bytes, size_t other)
{
	const struct weir__address_range *s = &g->graph.range[other];

	if (s->end)
		g->forbidden[g->n_forbidden++] =
			(struct forbidden){ (int64_t)s->at - (int64_t)bytes,
					    s->end };
}

/* List what is forbidden to rectangle @i and those linked to it, sorted. */
static void forbidden_list(struct greedy *g, uint32_t i)
{
	const struct weir__conflict_graph *cg = &g->graph;

	g->n_forbidden = 0;
	for (; i != WEIR__NO_RECT; i = cg->rect[i].next) {
		uint64_t bytes = cg->rect[i].bytes;

		for (size_t k = cg->alive_at[i]; k < cg->alive_at[i + 1]; k++)
			forbidden_add(g, bytes, cg->alive[k]);
		for (size_t k = i + 1; k < cg->rect[i].to; k++)
			forbidden_add(g, bytes, k);
		g->steps += cg->alive_at[i + 1] - cg->alive_at[i] +
			    cg->rect[i].to - i;
	}
	forbidden_sort(g->forbidden, g->n_forbidden);
	g->steps += 2 * g->n_forbidden;
}

/* An offset for the rectangle whose forbidden ones are listed. */
static uint64_t find_gap(const struct greedy *g, uint64_t bytes, uint64_t align,
			 uint64_t lowest, enum fit fit)
{
	uint64_t at = weir__rects_fit(g->p, lowest, bytes, align), best = 0;
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < g->n_forbidden; i++) {
		const struct forbidden *c = &g->forbidden[i];

		if (c->after >= (int64_t)at) {
			uint64_t left = (uint64_t)c->after - at;

			if (left < least) {
				least = left;
				best = at;
			}
			if (fit == FIT_FIRST)
				break;
		}
		if (c->end > at)
			at = weir__rects_fit(g->p, c->end, bytes, align);
	}
	return least < UINT64_MAX ? best : at;
}

static void greedy_place(struct greedy *g, uint32_t i, enum fit fit)
{
	struct weir__conflict_graph *cg = &g->graph;
	const struct weir__section_rect *rect = &cg->rect[i];
	uint64_t lowest = rect->lowest, at;

	for (uint32_t j = rect->next; j != WEIR__NO_RECT; j = cg->rect[j].next)
		if (lowest < cg->rect[j].lowest)
			lowest = cg->rect[j].lowest;
	forbidden_list(g, i);
	at = find_gap(g, rect->bytes, rect->align, lowest, fit);
	if (g->height < at + rect->bytes)
		g->height = at + rect->bytes;
	for (; i != WEIR__NO_RECT; i = cg->rect[i].next)
		cg->range[i] =
			(struct weir__address_range){ at,
						      at + cg->rect[i].bytes };
}

static void greedy_keep(struct greedy *g)
{
	const struct weir__conflict_graph *cg = &g->graph;

	g->best = g->height;
	for (size_t i = 0; i < cg->n; i++)
		g->offset[i] = cg->rect[i].is_long ? cg->long_at[i]
						   : cg->range[i].at;
}

/* Place all in the order, and keep the result if it is the best so far. */
static void greedy_try(struct greedy *g, enum fit fit)
{
	struct weir__conflict_graph *cg = &g->graph;

	memset(cg->range, 0, cg->n * sizeof(*cg->range));
	g->height = cg->long_end;
	for (size_t i = 0; i < g->n_order && g->height < g->best; i++)
		greedy_place(g, g->order[i], fit);
	if (g->height >= g->best)
		return;
	greedy_keep(g);
	memcpy(g->best_order, g->order, g->n_order * sizeof(*g->order));
}

enum order {
	ORDER_PRESSURE, /* rectangles that live at the fullest time first */
	ORDER_BYTES,
	ORDER_AREA,
	ORDER_TIME,
	ORDER_BEGIN,
	ORDER_END,
	N_ORDERS,
};

/* Bytes x time as an integer: the bits of a positive double compare alike. */
static uint64_t area_of(const struct weir__section_rect *rect)
{
	double area = (double)rect->bytes * (double)rect->time;
	uint64_t bits;

	memcpy(&bits, &area, sizeof(bits));
	return bits;
}

static struct weir__rect_key key_of(const struct weir__conflict_graph *cg,
				    uint32_t i, enum order order)
{
	const struct weir__section_rect *rect = &cg->rect[i];

	switch (order) {
	case ORDER_PRESSURE:
		return (struct weir__rect_key){ rect->pressure, rect->bytes,
						i };
	case ORDER_BYTES:
		return (struct weir__rect_key){ rect->bytes, rect->time, i };
	case ORDER_AREA:
		return (struct weir__rect_key){ area_of(rect), rect->bytes, i };
	case ORDER_TIME:
		return (struct weir__rect_key){ rect->time, rect->bytes, i };
	case ORDER_BEGIN:
		return (struct weir__rect_key){ UINT32_MAX - rect->from,
						rect->bytes, i };
	default:
		return (struct weir__rect_key){ rect->to, rect->bytes, i };
	}
}

static void sort_rects(struct greedy *g, enum order order)
{
	const struct weir__conflict_graph *cg = &g->graph;
	size_t n = 0;

	for (uint32_t i = 0; i < cg->n; i++)
		if (!cg->rect[i].follows && !cg->rect[i].is_long)
			g->key[n++] = key_of(cg, i, order);
	weir__rect_keys_sort(g->key, n);
	for (size_t i = 0; i < n; i++)
		g->order[i] = g->key[i].rect;
	g->n_order = n;
	g->steps += 16 * n;
}

static bool greedy_goes_on(const struct greedy *g)
{
	return g->best > g->enough && g->steps < STEPS(g->graph.n);
}

/* Move the rectangles of the last try that end too high to the front. */
static void greedy_promote(struct greedy *g)
{
	size_t n = 0;

	for (size_t low = 0; low < 2; low++)
		for (size_t i = 0; i < g->n_order; i++) {
			uint32_t rect = g->order[i];

			if ((g->graph.range[rect].end <= g->enough) == low)
				g->key[n++].rect = rect;
		}
	for (size_t i = 0; i < n; i++)
		g->order[i] = g->key[i].rect;
	g->steps += 2 * n;
}

/*
 * Place all in the order of time and, if the result is not good, in the reverse
 * order too.
 */
static int greedy_sweep(struct greedy *g, uint64_t base)
{
	int r = weir__sweep(&g->graph, g->p, base, false, &g->height);

	if (r < 0)
		return r;
	greedy_keep(g);
	if (g->best - base <= (g->enough - base) / SWEPT * (SWEPT + 1))
		return 0;
	r = weir__sweep(&g->graph, g->p, base, true, &g->height);
	if (!r && g->height < g->best)
		greedy_keep(g);
	return r;
}

static uint32_t try_bit(enum order order, enum fit fit)
{
	return (uint32_t)1 << (2 * order + fit);
}

static void greedy_run(struct greedy *g)
{
	for (enum order order = 0; order < N_ORDERS; order++)
		for (enum fit fit = FIT_FIRST; fit <= FIT_BEST; fit++) {
			sort_rects(g, order);
			greedy_try(g, fit);
			if (!g->graph.has_long)
				g->tried |= try_bit(order, fit);
			if (!greedy_goes_on(g))
				return;
		}
	memcpy(g->order, g->best_order, g->n_order * sizeof(*g->order));
	for (unsigned i = 0; i < ROUNDS && greedy_goes_on(g); i++) {
		greedy_try(g, i % 2 ? FIT_BEST : FIT_FIRST);
		greedy_promote(g);
	}
}

/*
 * Linked rectangles have one offset: the lowest at which all of them have room.
 * It is found by going up from one rectangle to the next.
 */
static uint64_t scan_find(struct greedy *g, uint32_t i, uint64_t base,
			  enum fit fit)
{
	const struct weir__section_rect *rect = g->graph.rect, *b = &rect[i];
	uint64_t at = base, last;

	if (b->next == WEIR__NO_RECT)
		return scan_gap(&g->scan, g->p, b, b->bytes, b->align, base,
				fit);
	do {
		last = at;
		for (uint32_t j = i; j != WEIR__NO_RECT; j = rect[j].next)
			at = scan_gap(&g->scan, g->p, &rect[j], rect[j].bytes,
				      b->align, at, FIT_FIRST);
	} while (at != last);
	return at;
}

/*
 * Place all in the order, without lists of conflicts. False: it was given up,
 * because more than @most rectangles would have to be examined.
 */
static bool scan_try(struct greedy *g, uint64_t base, enum fit fit,
		     uint64_t most)
{
	struct weir__conflict_graph *cg = &g->graph;
	uint64_t end = g->scan.examined + most;

	scan_clear(&g->scan);
	g->height = base;
	for (size_t k = 0; k < g->n_order && g->height < g->best; k++) {
		uint32_t i = g->order[k];
		uint64_t at = scan_find(g, i, base, fit);

		if (g->scan.examined > end)
			return false;
		if (g->height < at + cg->rect[i].bytes)
			g->height = at + cg->rect[i].bytes;
		for (; i != WEIR__NO_RECT; i = cg->rect[i].next) {
			scan_add(&g->scan, &cg->rect[i], at);
			cg->range[i].at = at;
		}
	}
	if (g->height < g->best)
		greedy_keep(g);
	return true;
}

/* True if another try would gain nothing, or too little for its time. */
static bool scan_done(const struct greedy *g, uint64_t base)
{
	uint64_t over = g->graph.n > FEW ? (g->enough - base) / SCANNED : 0;

	return g->best <= g->enough + over;
}

/*
 * Place by scans, where there are too many conflicts for lists, or for that
 * many tries. It tries the orders that are good for rectangles of any kind, the
 * most promising first, as long as the budget of the planner is enough for one
 * more try.
 */
static int greedy_scan(struct greedy *g, uint64_t base)
{
	static const struct {
		enum order order;
		enum fit fit;
	} tries[] = {
		{ ORDER_BYTES, FIT_FIRST }, { ORDER_TIME, FIT_BEST },
		{ ORDER_AREA, FIT_FIRST },  { ORDER_BEGIN, FIT_BEST },
		{ ORDER_AREA, FIT_BEST },   { ORDER_TIME, FIT_FIRST },
		{ ORDER_BYTES, FIT_BEST },
	};
	uint64_t left = g->p->scan_budget,
		 cost = (uint64_t)g->graph.n * g->graph.n / 2;
	int r;

	if (scan_done(g, base) || cost > left)
		return 0;
	r = scan_init(&g->scan, g->graph.n);
	if (r < 0)
		return r;
	weir__conflict_graph_clear_long(&g->graph);
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		if (g->tried & try_bit(tries[i].order, tries[i].fit))
			continue;
		if (scan_done(g, base) || g->scan.examined + cost > left)
			break;
		sort_rects(g, tries[i].order);
		if (!scan_try(g, base, tries[i].fit, LINKED * cost))
			break;
	}
	g->p->scan_budget -= left < g->scan.examined ? left : g->scan.examined;
	return 0;
}

static int greedy_init(struct greedy *g, const struct weir__section *s)
{
	int r = weir__conflict_graph_init(&g->graph, g->p, s);

	if (r < 0)
		return r;
	g->offset = weir__malloc(s->n * sizeof(*g->offset));
	g->order = weir__malloc(s->n * sizeof(*g->order));
	g->best_order = weir__malloc(s->n * sizeof(*g->order));
	g->key = weir__malloc(s->n * sizeof(*g->key));
	g->forbidden =
		weir__malloc((g->graph.most + 1) * sizeof(*g->forbidden));
	if (g->offset && g->order && g->best_order && g->key && g->forbidden)
		return 0;
	return weir__fail(-ENOMEM, "no memory to place %zu items", s->n);
}

int weir__greedy_place(struct weir__rects *p, struct weir__section *s,
		       uint64_t enough)
{
	struct greedy g = { .p = p, .enough = enough, .best = UINT64_MAX };
	int r = greedy_init(&g, s);

	if (!r && g.graph.dense)
		r = greedy_sweep(&g, s->base);
	else if (!r)
		greedy_run(&g);
	if (!r)
		r = greedy_scan(&g, s->base);
	if (!r) {
		s->height = g.best;
		for (size_t i = 0; i < s->n; i++)
			p->rect[s->rect[i]].offset = g.offset[i];
	}
	weir__conflict_graph_free(&g.graph);
	scan_free(&g.scan);
	weir__free(g.offset);
	weir__free(g.order);
	weir__free(g.best_order);
	weir__free(g.key);
	weir__free(g.forbidden);
	return r;
}
