/* SPDX-License-Identifier: MIT */
#include "place/greedy.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/field.h"
#include "place/scan.h"
#include "place/sweep.h"

/*
 * A try costs a step for each conflict of each piece. The first one is always
 * made; more of them while the steps are fewer than this.
 */
#define STEPS(n) (((uint64_t)2 << 20) + 16 * (uint64_t)(n))
/* A sweep is good if it is over the bound by less than one part in so many. */
#define SWEPT 10
/* So is a placement of many boxes that scans would only make so much lower. */
#define SCANNED 1000
#define FEW 4096
/*
 * A try of linked boxes examines several times as many as others. If it is more
 * times than this, they have hardly a gap in common.
 */
#define LINKED 8
#define ROUNDS 200 /* of moving the highest pieces to the front */

/* Bytes that a piece may not contain, as the places where it may not begin. */
struct conflict {
	int64_t after; /* it may begin here or below */
	uint64_t end;  /* or here and above */
};

struct greedy {
	struct weir__pieces *p;
	struct weir__field f;
	uint64_t enough;
	uint64_t steps;        /* done */
	uint64_t height, best; /* of this try; of the best */
	uint64_t *offset;      /* of the best try, of each box */
	uint32_t *order;       /* heads of linked boxes, as they are placed */
	uint32_t *best_order;
	struct weir__box_key *key;
	size_t n_order;
	struct conflict *conflict;
	size_t n_conflicts;
	struct weir__scan scan;
	uint32_t tried; /* bits of tries that were made with all boxes */
};

/* Shell's sort: most lists are short, and few are long. */
static void conflict_sort(struct conflict *c, size_t n)
{
	static const size_t gaps[] = { 1577, 701, 301, 132, 57, 23, 10, 4, 1 };

	for (size_t k = 0; k < sizeof(gaps) / sizeof(*gaps); k++)
		for (size_t gap = gaps[k], i = gap; i < n; i++) {
			struct conflict x = c[i];
			size_t j = i;

			for (; j >= gap && c[j - gap].after > x.after; j -= gap)
				c[j] = c[j - gap];
			c[j] = x;
		}
}

static void conflict_add(struct greedy *g, uint64_t bytes, size_t other)
{
	const struct weir__box_place *s = &g->f.span[other];

	if (s->end)
		g->conflict[g->n_conflicts++] =
			(struct conflict){ (int64_t)s->at - (int64_t)bytes,
					   s->end };
}

/* The conflicts of box @i and its next ones, sorted. */
static void conflict_list(struct greedy *g, uint32_t i)
{
	const struct weir__field *f = &g->f;

	g->n_conflicts = 0;
	for (; i != WEIR__NO_PIECE; i = f->box[i].next) {
		uint64_t bytes = f->box[i].bytes;

		for (size_t k = f->alive_at[i]; k < f->alive_at[i + 1]; k++)
			conflict_add(g, bytes, f->alive[k]);
		for (size_t k = i + 1; k < f->box[i].to; k++)
			conflict_add(g, bytes, k);
		g->steps +=
			f->alive_at[i + 1] - f->alive_at[i] + f->box[i].to - i;
	}
	conflict_sort(g->conflict, g->n_conflicts);
	g->steps += 2 * g->n_conflicts;
}

/* A place for the boxes whose conflicts are listed. */
static uint64_t find_gap(const struct greedy *g, uint64_t bytes, uint64_t align,
			 uint64_t lowest, enum weir__fit fit)
{
	uint64_t at = weir__pieces_fit(g->p, lowest, bytes, align), best = 0;
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < g->n_conflicts; i++) {
		const struct conflict *c = &g->conflict[i];

		if (c->after >= (int64_t)at) {
			uint64_t left = (uint64_t)c->after - at;

			if (left < least) {
				least = left;
				best = at;
			}
			if (fit == WEIR__FIT_FIRST)
				break;
		}
		if (c->end > at)
			at = weir__pieces_fit(g->p, c->end, bytes, align);
	}
	return least < UINT64_MAX ? best : at;
}

static void greedy_place(struct greedy *g, uint32_t i, enum weir__fit fit)
{
	struct weir__field *f = &g->f;
	const struct weir__box *b = &f->box[i];
	uint64_t lowest = b->lowest, at;

	for (uint32_t j = b->next; j != WEIR__NO_PIECE; j = f->box[j].next)
		if (lowest < f->box[j].lowest)
			lowest = f->box[j].lowest;
	conflict_list(g, i);
	at = find_gap(g, b->bytes, b->align, lowest, fit);
	if (g->height < at + b->bytes)
		g->height = at + b->bytes;
	for (; i != WEIR__NO_PIECE; i = f->box[i].next)
		f->span[i] =
			(struct weir__box_place){ at, at + f->box[i].bytes };
}

static void greedy_keep(struct greedy *g)
{
	const struct weir__field *f = &g->f;

	g->best = g->height;
	for (size_t i = 0; i < f->n; i++)
		g->offset[i] = f->box[i].is_long ? f->long_at[i]
						 : f->span[i].at;
}

/* Place all in the order; keep the result if it is the best so far. */
static void greedy_try(struct greedy *g, enum weir__fit fit)
{
	struct weir__field *f = &g->f;

	memset(f->span, 0, f->n * sizeof(*f->span));
	g->height = f->long_end;
	for (size_t i = 0; i < g->n_order && g->height < g->best; i++)
		greedy_place(g, g->order[i], fit);
	if (g->height >= g->best)
		return;
	greedy_keep(g);
	memcpy(g->best_order, g->order, g->n_order * sizeof(*g->order));
}

enum order {
	ORDER_PRESSURE, /* boxes that live at the fullest time first */
	ORDER_BYTES,
	ORDER_AREA,
	ORDER_TIME,
	ORDER_BEGIN,
	ORDER_END,
	N_ORDERS,
};

/* Bytes x time as a number to compare: the bits of a positive double. */
static uint64_t area_of(const struct weir__box *b)
{
	double area = (double)b->bytes * (double)b->time;
	uint64_t bits;

	memcpy(&bits, &area, sizeof(bits));
	return bits;
}

static struct weir__box_key key_of(const struct weir__field *f, uint32_t i,
				   enum order order)
{
	const struct weir__box *b = &f->box[i];

	switch (order) {
	case ORDER_PRESSURE:
		return (struct weir__box_key){ b->pressure, b->bytes, i };
	case ORDER_BYTES:
		return (struct weir__box_key){ b->bytes, b->time, i };
	case ORDER_AREA:
		return (struct weir__box_key){ area_of(b), b->bytes, i };
	case ORDER_TIME:
		return (struct weir__box_key){ b->time, b->bytes, i };
	case ORDER_BEGIN:
		return (struct weir__box_key){ UINT32_MAX - b->from, b->bytes,
					       i };
	default:
		return (struct weir__box_key){ b->to, b->bytes, i };
	}
}

static void sort_boxes(struct greedy *g, enum order order)
{
	const struct weir__field *f = &g->f;
	size_t n = 0;

	for (uint32_t i = 0; i < f->n; i++)
		if (!f->box[i].follows && !f->box[i].is_long)
			g->key[n++] = key_of(f, i, order);
	weir__boxes_sort(g->key, n);
	for (size_t i = 0; i < n; i++)
		g->order[i] = g->key[i].box;
	g->n_order = n;
	g->steps += 16 * n;
}

static bool greedy_goes_on(const struct greedy *g)
{
	return g->best > g->enough && g->steps < STEPS(g->f.n);
}

/* Move the boxes of the last try that end too high to the front. */
static void greedy_promote(struct greedy *g)
{
	size_t n = 0;

	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < g->n_order; i++) {
			uint32_t box = g->order[i];

			if ((g->f.span[box].end <= g->enough) == pass)
				g->key[n++].box = box;
		}
	for (size_t i = 0; i < n; i++)
		g->order[i] = g->key[i].box;
	g->steps += 2 * n;
}

/* In the order of time, and if that is not good in the reverse order too. */
static int greedy_sweep(struct greedy *g, uint64_t base)
{
	int r = weir__sweep(&g->f, g->p, base, false, &g->height);

	if (r < 0)
		return r;
	greedy_keep(g);
	if (g->best - base <= (g->enough - base) / SWEPT * (SWEPT + 1))
		return 0;
	r = weir__sweep(&g->f, g->p, base, true, &g->height);
	if (!r && g->height < g->best)
		greedy_keep(g);
	return r;
}

static uint32_t try_bit(enum order order, enum weir__fit fit)
{
	return (uint32_t)1 << (2 * order + fit);
}

static void greedy_run(struct greedy *g)
{
	for (enum order order = 0; order < N_ORDERS; order++)
		for (enum weir__fit fit = WEIR__FIT_FIRST;
		     fit <= WEIR__FIT_BEST; fit++) {
			sort_boxes(g, order);
			greedy_try(g, fit);
			if (!g->f.has_long)
				g->tried |= try_bit(order, fit);
			if (!greedy_goes_on(g))
				return;
		}
	memcpy(g->order, g->best_order, g->n_order * sizeof(*g->order));
	for (unsigned i = 0; i < ROUNDS && greedy_goes_on(g); i++) {
		greedy_try(g, i % 2 ? WEIR__FIT_BEST : WEIR__FIT_FIRST);
		greedy_promote(g);
	}
}

/*
 * Linked boxes have one place: the lowest that all of them have room at, found
 * by going up from one to the next.
 */
static uint64_t scan_find(struct greedy *g, uint32_t i, uint64_t base,
			  enum weir__fit fit)
{
	const struct weir__box *box = g->f.box, *b = &box[i];
	uint64_t at = base, last;

	if (b->next == WEIR__NO_PIECE)
		return weir__scan_gap(&g->scan, g->p, b, b->bytes, b->align,
				      base, fit);
	do {
		last = at;
		for (uint32_t j = i; j != WEIR__NO_PIECE; j = box[j].next)
			at = weir__scan_gap(&g->scan, g->p, &box[j],
					    box[j].bytes, b->align, at,
					    WEIR__FIT_FIRST);
	} while (at != last);
	return at;
}

/*
 * Place all in the order, without lists of conflicts. False: that needs more
 * than @most boxes to be examined, and it was given up.
 */
static bool scan_try(struct greedy *g, uint64_t base, enum weir__fit fit,
		     uint64_t most)
{
	struct weir__field *f = &g->f;
	uint64_t end = g->scan.examined + most;

	weir__scan_clear(&g->scan);
	g->height = base;
	for (size_t k = 0; k < g->n_order && g->height < g->best; k++) {
		uint32_t i = g->order[k];
		uint64_t at = scan_find(g, i, base, fit);

		if (g->scan.examined > end)
			return false;
		if (g->height < at + f->box[i].bytes)
			g->height = at + f->box[i].bytes;
		for (; i != WEIR__NO_PIECE; i = f->box[i].next) {
			weir__scan_add(&g->scan, &f->box[i], at);
			f->span[i].at = at;
		}
	}
	if (g->height < g->best)
		greedy_keep(g);
	return true;
}

/* Nothing would be gained by another try, or too little for its time. */
static bool scan_done(const struct greedy *g, uint64_t base)
{
	uint64_t over = g->f.n > FEW ? (g->enough - base) / SCANNED : 0;

	return g->best <= g->enough + over;
}

/*
 * Where the conflicts are too many to be listed, or for so many tries: the
 * orders that are good for boxes of any kind, the most promising first, as long
 * as the budget of the plan is enough for one more try.
 */
static int greedy_scan(struct greedy *g, uint64_t base)
{
	static const struct {
		enum order order;
		enum weir__fit fit;
	} tries[] = {
		{ ORDER_BYTES, WEIR__FIT_FIRST },
		{ ORDER_TIME, WEIR__FIT_BEST },
		{ ORDER_AREA, WEIR__FIT_FIRST },
		{ ORDER_BEGIN, WEIR__FIT_BEST },
		{ ORDER_AREA, WEIR__FIT_BEST },
		{ ORDER_TIME, WEIR__FIT_FIRST },
		{ ORDER_BYTES, WEIR__FIT_BEST },
	};
	uint64_t left = g->p->scans, cost = (uint64_t)g->f.n * g->f.n / 2;
	int r;

	if (scan_done(g, base) || cost > left)
		return 0;
	r = weir__scan_init(&g->scan, g->f.n);
	if (r < 0)
		return r;
	weir__field_shorten(&g->f);
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		if (g->tried & try_bit(tries[i].order, tries[i].fit))
			continue;
		if (scan_done(g, base) || g->scan.examined + cost > left)
			break;
		sort_boxes(g, tries[i].order);
		if (!scan_try(g, base, tries[i].fit, LINKED * cost))
			break;
	}
	g->p->scans -= left < g->scan.examined ? left : g->scan.examined;
	return 0;
}

static int greedy_init(struct greedy *g, const struct weir__section *s)
{
	int r = weir__field_init(&g->f, g->p, s);

	if (r < 0)
		return r;
	g->offset = weir__malloc(s->n * sizeof(*g->offset));
	g->order = weir__malloc(s->n * sizeof(*g->order));
	g->best_order = weir__malloc(s->n * sizeof(*g->order));
	g->key = weir__malloc(s->n * sizeof(*g->key));
	g->conflict = weir__malloc((g->f.most + 1) * sizeof(*g->conflict));
	if (g->offset && g->order && g->best_order && g->key && g->conflict)
		return 0;
	return weir__fail(-ENOMEM, "no memory to place %zu items", s->n);
}

int weir__greedy_place(struct weir__pieces *p, struct weir__section *s,
		       uint64_t enough)
{
	struct greedy g = { .p = p, .enough = enough, .best = UINT64_MAX };
	int r = greedy_init(&g, s);

	if (!r && g.f.crowded)
		r = greedy_sweep(&g, s->base);
	else if (!r)
		greedy_run(&g);
	if (!r)
		r = greedy_scan(&g, s->base);
	if (!r) {
		s->height = g.best;
		for (size_t i = 0; i < s->n; i++)
			p->piece[s->piece[i]].offset = g.offset[i];
	}
	weir__field_free(&g.f);
	weir__scan_free(&g.scan);
	weir__free(g.offset);
	weir__free(g.order);
	weir__free(g.best_order);
	weir__free(g.key);
	weir__free(g.conflict);
	return r;
}
