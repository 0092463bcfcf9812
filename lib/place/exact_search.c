/* SPDX-License-Identifier: MIT */
#include "place/exact_search.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

/* The est of a placed item: no rule applies to it. */
#define PLACED (INT64_MAX / 2)

/* The state of an item before a change. */
struct exact_undo {
	uint32_t item;
	bool placed; /* the change was that it was placed */
	int64_t est, floor;
};

/* Two hashes of a state from which no placement was found. */
struct exact_nogood {
	uint64_t a, b;
};

/* Sort keys of an item; greater numbers come first. */
struct exact_key {
	double key[3];
	uint32_t item;
};

/*
 * An item that is not placed yet is open. Its floor is the lowest offset above
 * all placed items that it overlaps. Its est, the earliest start, is the lowest
 * offset that it can have: its floor, or more if it is postponed, which means
 * that another open item will be placed below it: the search has decided so, or
 * has proved it.
 */
struct weir__exact_search {
	const struct weir__exact_component *component;
	int64_t cap;
	int64_t *est, *floor, *off; /* bounds and offset of each item */
	uint32_t *rank; /* order of the items: low ones come first */
	uint64_t *open, *postponed; /* sets of items */
	uint64_t *wake;             /* postponed items whose est may rise */
	uint64_t *dirty;            /* cliques to be examined */
	int64_t *total;             /* sum of the open items of each clique */
	double *weights;    /* how often each clique failed, by strategy */
	double *weight;     /* the row of @weights of this strategy */
	uint32_t *crossing; /* open items in both clique c - 1 and c */
	double step[WEIR__EXACT_STRATEGIES]; /* what a failure adds */
	unsigned strategy;
	bool lost;                /* the log is incomplete, or time is over */
	bool by_slack, by_height; /* the strategy: struct order_strategy */

	struct exact_undo *undo; /* a log, of n_undo changes */
	size_t n_undo, cap_undo;

	struct exact_nogood *nogood; /* a table by hash */
	uint32_t nogood_mask;

	/* Scratch memory, used for one clique or order at a time. */
	struct exact_key *key;
	uint32_t *clique_item;
	int64_t *clique_est, *clique_top;

	uint64_t nodes, budget; /* visited in this call, and at most */
	bool (*ended)(void *arg);
	void *arg;
};

/* @offset rounded up to the alignment of item @i. */
static inline int64_t align_up(const struct weir__exact_component *component,
			       uint32_t i, int64_t offset)
{
	int64_t align = component->align[i];

	return align == 1 ? offset : (offset + align - 1) / align * align;
}

/* The size of item @i in clique @c, which is one of its cliques. */
static inline int64_t size_in(const struct weir__exact_component *component,
			      uint32_t i, uint32_t c)
{
	int64_t size = component->size[i];

	if (!component->step)
		return size;
	for (uint32_t k = component->step_at[i]; k < component->step_at[i + 1];
	     k++)
		if (component->step[k].clique <= c)
			size = component->step[k].size;
	return size;
}

/* If item @k is placed above item @i, it begins at least so far above it. */
static inline int64_t size_below(const struct weir__exact_component *component,
				 uint32_t i, uint32_t k)
{
	if (!component->step)
		return component->size[i];
	return size_in(component, i,
		       component->lo[i] > component->lo[k] ? component->lo[i]
							   : component->lo[k]);
}

static inline const uint64_t *
overlap_of(const struct weir__exact_component *component, uint32_t i)
{
	return component->overlap + (size_t)i * component->words;
}

/* Sets of items and of cliques. */
static inline bool set_has(const uint64_t *set, uint32_t i)
{
	return set[i / 64] >> (i % 64) & 1;
}

static inline void set_remove(uint64_t *set, uint32_t i)
{
	set[i / 64] &= ~((uint64_t)1 << (i % 64));
}

/* The smallest number in @word, the word @w of a set, which is not empty. */
static inline uint32_t set_first(uint64_t word, uint32_t w)
{
	return w * 64 + (uint32_t)__builtin_ctzll(word);
}

/* The state: placed items, bounds of open ones, and the log of changes. */

static void state_raise(struct weir__exact_search *s, uint32_t i, int64_t est);

/*
 * Log the state of item @i. Without memory for the log the state cannot be
 * restored: the search is lost, and ends. The next one begins with a fresh
 * state.
 */
static void state_log(struct weir__exact_search *s, uint32_t i, bool placed)
{
	struct exact_undo *undo =
		weir__grow(s->undo, &s->cap_undo, s->n_undo, sizeof(*undo));

	if (!undo) {
		s->lost = true;
		return;
	}
	s->undo = undo;
	s->undo[s->n_undo++] =
		(struct exact_undo){ i, placed, s->est[i], s->floor[i] };
}

/* The est of item @i has changed: mark what has to be examined again. */
static void state_mark(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_component *p = s->component;
	const uint64_t *overlap = overlap_of(p, i);

	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		weir__exact_add(s->dirty, c);
	for (uint32_t w = 0; w < p->words; w++)
		s->wake[w] |= overlap[w] & s->postponed[w];
}

/* The next identical item comes above item @i. */
static void state_raise_identical(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_component *p = s->component;

	if (p->next_identical[i] != WEIR__EXACT_NONE)
		state_raise(s, p->next_identical[i], s->est[i] + p->size[i]);
}

static void state_raise(struct weir__exact_search *s, uint32_t i, int64_t est)
{
	est = align_up(s->component, i, est);
	if (est <= s->est[i])
		return;
	state_log(s, i, false);
	s->est[i] = est;
	if (est > s->floor[i] && !set_has(s->postponed, i)) {
		weir__exact_add(s->postponed, i);
		weir__exact_add(s->wake, i);
	}
	state_mark(s, i);
	state_raise_identical(s, i);
}

/* An item was placed below item @i; it ends at @top. */
static void state_raise_floor(struct weir__exact_search *s, uint32_t i,
			      int64_t top)
{
	top = align_up(s->component, i, top);
	if (top <= s->floor[i])
		return;
	state_log(s, i, false);
	s->floor[i] = top;
	if (s->est[i] > top)
		return;
	set_remove(s->postponed, i);
	if (s->est[i] == top)
		return;
	s->est[i] = top;
	state_mark(s, i);
	state_raise_identical(s, i);
}

/* Place item @i, which is not postponed, at its est. */
static void state_place(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_component *p = s->component;
	const uint64_t *overlap = overlap_of(p, i);

	state_log(s, i, true);
	s->off[i] = s->est[i];
	s->est[i] = PLACED;
	set_remove(s->open, i);
	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		s->total[c] -= size_in(p, i, c);
	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		s->crossing[c]--;
	state_mark(s, i);
	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = overlap[w] & s->open[w]; set;
		     set &= set - 1) {
			uint32_t k = set_first(set, w);

			state_raise_floor(s, k,
					  s->off[i] + size_below(p, i, k));
		}
}

static void state_take_back(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_component *p = s->component;

	weir__exact_add(s->open, i);
	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		s->total[c] += size_in(p, i, c);
	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		s->crossing[c]++;
}

static void state_undo_to(struct weir__exact_search *s, size_t mark)
{
	while (s->n_undo > mark) {
		const struct exact_undo *u = &s->undo[--s->n_undo];

		s->est[u->item] = u->est;
		s->floor[u->item] = u->floor;
		if (u->placed)
			state_take_back(s, u->item);
		if (u->est > u->floor)
			weir__exact_add(s->postponed, u->item);
		else
			set_remove(s->postponed, u->item);
	}
}

/* Begin with nothing placed. */
static void state_begin(struct weir__exact_search *s)
{
	const struct weir__exact_component *p = s->component;

	s->n_undo = 0;
	s->lost = false;
	memset(s->postponed, 0, p->words * sizeof(*s->postponed));
	memset(s->wake, 0, p->words * sizeof(*s->wake));
	memset(s->crossing, 0, (p->m + 1) * sizeof(*s->crossing));
	for (uint32_t c = 0; c < p->m; c++) {
		s->total[c] = p->load[c];
		weir__exact_add(s->dirty, c);
	}
	for (uint32_t i = 0; i < p->n; i++) {
		s->est[i] = s->floor[i] = 0;
		weir__exact_add(s->open, i);
		for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
			s->crossing[c]++;
	}
	for (uint32_t i = 0; i < p->n; i++)
		state_raise_identical(s, i);
}

/*
 * Rules that raise the est of open items, and find states in which the open
 * items do not fit. A rule raises an est only if no placement that the search
 * still has to find has the item any lower. Rules read nothing but the est of
 * open items, so their order does not matter.
 */

/*
 * A postponed item comes above an open item that would overlap it at its floor.
 * If there is none, it could be lowered to its floor in every placement that
 * follows from this state, and the search finds the lowered placement in
 * another state: false.
 */
static bool bounds_postponed(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_component *p = s->component;
	const uint64_t *overlap = overlap_of(p, i);
	int64_t least = INT64_MAX;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = overlap[w] & s->open[w]; set;
		     set &= set - 1) {
			uint32_t k = set_first(set, w);
			int64_t limit = s->floor[i] + size_below(p, i, k);
			int64_t top = s->est[k] + size_below(p, k, i);

			if (s->est[k] < limit && top < least)
				least = top;
		}
	if (least < INT64_MAX) {
		state_raise(s, i, least);
		return true;
	}
	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		s->weight[c] += s->step[s->strategy] / (p->hi[i] - p->lo[i]);
	return false;
}

/* Collect the open items of clique @c. False: none begins above @level. */
static bool bounds_collect(struct weir__exact_search *s, uint32_t c,
			   int64_t level, uint32_t *ret_n)
{
	const struct weir__exact_component *p = s->component;
	bool above = false;
	uint32_t n = 0;

	for (uint32_t m = p->first[c]; m < p->first[c + 1]; m++) {
		uint32_t i = p->members[m];

		if (!set_has(s->open, i))
			continue;
		s->clique_item[n] = i;
		s->clique_est[n] = s->est[i];
		s->clique_top[n++] = s->est[i] + size_in(p, i, c);
		above |= s->est[i] > level;
	}
	*ret_n = n;
	return above;
}

/*
 * Clique @c may be empty up to @level, no higher: cap less the sizes of its
 * open items. So an item can begin at its est only if items of at least est -
 * level units come below. Those that begin lower (@below) must reach that, or
 * all items from est on are too much for the rest of the memory: false. If only
 * those that also end in time (@fits) do not, one of the others comes below,
 * and the item begins where that one ends at the earliest.
 *
 * The first rule is the bound of Jackson's preemptive schedule for one machine
 * (a clique is a machine, sizes are durations, est are release dates), the
 * second is "not first" of disjunctive scheduling. In the MiniMalloc paper,
 * "section inference" is the first rule for the lowest est only.
 */
static bool bounds_clique(struct weir__exact_search *s, uint32_t c)
{
	const int64_t *est = s->clique_est, *top = s->clique_top;
	int64_t level = s->cap - s->total[c];
	uint32_t n;

	if (!bounds_collect(s, c, level, &n))
		return true;
	for (uint32_t a = 0; a < n; a++) {
		int64_t below = 0, fits = 0, next = INT64_MAX;

		if (est[a] <= level)
			continue;
		for (uint32_t b = 0; b < n; b++) {
			if (est[b] >= est[a])
				continue;
			below += top[b] - est[b];
			if (top[b] <= est[a])
				fits += top[b] - est[b];
			else if (top[b] < next)
				next = top[b];
		}
		if (below < est[a] - level) {
			s->weight[c] += s->step[s->strategy];
			return false;
		}
		if (fits < est[a] - level)
			state_raise(s, s->clique_item[a], next);
	}
	return true;
}

static bool bounds_cliques(struct weir__exact_search *s)
{
	for (uint32_t w = 0; w <= s->component->m / 64; w++)
		while (s->dirty[w]) {
			uint32_t c = set_first(s->dirty[w], w);

			set_remove(s->dirty, c);
			if (!bounds_clique(s, c))
				return false;
		}
	return true;
}

/* Examine the postponed items whose est may rise. *@again: there were some. */
static bool bounds_all_postponed(struct weir__exact_search *s, bool *again)
{
	*again = false;
	for (uint32_t w = 0; w < s->component->words; w++)
		while (s->wake[w]) {
			uint32_t i = set_first(s->wake[w], w);

			set_remove(s->wake, i);
			if (!set_has(s->postponed, i) || !set_has(s->open, i))
				continue;
			*again = true;
			if (!bounds_postponed(s, i))
				return false;
		}
	return true;
}

/* Note a failure: later ones weigh a little more than earlier ones. */
static void bounds_failed(struct weir__exact_search *s)
{
	const struct weir__exact_component *p = s->component;
	double *step = &s->step[s->strategy];

	*step *= 1.001;
	if (*step > 1e100) {
		*step *= 1e-100;
		for (uint32_t c = 0; c < p->m; c++)
			s->weight[c] *= 1e-100;
	}
	memset(s->wake, 0, p->words * sizeof(*s->wake));
	memset(s->dirty, 0, (p->m / 64 + 1) * sizeof(*s->dirty));
}

static bool propagate(struct weir__exact_search *s)
{
	bool again;

	do {
		if (!bounds_cliques(s) || !bounds_all_postponed(s, &again))
			goto out_failed;
		if (again && s->ended(s->arg))
			s->lost = true;
	} while (again && !s->lost);
	if (!s->lost)
		return true;
out_failed:
	bounds_failed(s);
	return false;
}

/* Strategies that choose the next item; the search tries them in turn. */

/*
 * A strategy chooses a clique, and places its lowest open item. The clique is
 * the one that has failed most often, which may be divided by its slack; or the
 * one whose lowest item is the lowest of all, as in the MiniMalloc paper. Items
 * of equal est are placed in the order of three keys: W, the number of the
 * item's cliques; A, that number times its size; T, the largest load of its
 * cliques.
 */
static const struct order_strategy {
	bool by_slack, by_height;
	const char *keys;
} strategies[WEIR__EXACT_STRATEGIES] = {
	{ false, false, "WAT" },
	{ true, false, "WAT" },
	{ false, true, "TWA" },
	{ false, false, "TAW" },
};

static int order_compare(const void *pa, const void *pb)
{
	const struct exact_key *a = pa, *b = pb;

	for (unsigned k = 0; k < 3; k++)
		if (a->key[k] != b->key[k])
			return a->key[k] > b->key[k] ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static double order_key(const struct weir__exact_component *p, uint32_t i,
			char kind)
{
	uint32_t width = p->hi[i] - p->lo[i];
	int64_t load = 0;

	if (kind == 'W')
		return width;
	if (kind == 'A')
		return (double)width * (double)p->size[i];
	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		if (p->load[c] > load)
			load = p->load[c];
	return (double)load;
}

static void order_items(struct weir__exact_search *s,
			const struct weir__exact_try *try)
{
	const struct order_strategy *strategy = &strategies[try->strategy];
	const struct weir__exact_component *p = s->component;

	s->strategy = try->strategy;
	s->weight = s->weights + (size_t)try->strategy * p->m;
	s->by_slack = strategy->by_slack;
	s->by_height = strategy->by_height;
	for (uint32_t i = 0; i < p->n; i++) {
		struct exact_key *key = &s->key[i];

		key->item = i;
		for (unsigned k = 0; k < 3; k++)
			key->key[k] = order_key(p, i, strategy->keys[k]);
	}
	qsort(s->key, p->n, sizeof(*s->key), order_compare);
	for (uint32_t i = 0; i < p->n; i++)
		s->rank[s->key[i].item] = i;
}

/* Whichever of @i and @than comes first; @i if @than is NONE. */
static uint32_t order_first(const struct weir__exact_search *s, uint32_t i,
			    uint32_t than)
{
	if (than == WEIR__EXACT_NONE || s->est[i] < s->est[than] ||
	    (s->est[i] == s->est[than] && s->rank[i] < s->rank[than]))
		return i;
	return than;
}

/* The lowest open item of clique @c: placed items have the greatest est. */
static uint32_t lowest_of_clique(const struct weir__exact_search *s, uint32_t c)
{
	const struct weir__exact_component *p = s->component;
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t m = p->first[c]; m < p->first[c + 1]; m++)
		best = order_first(s, p->members[m], best);
	return best;
}

static uint32_t lowest_of_all(const struct weir__exact_search *s, uint32_t lo,
			      uint32_t hi)
{
	const struct weir__exact_component *p = s->component;
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = s->open[w]; set; set &= set - 1) {
			uint32_t i = set_first(set, w);

			if (p->lo[i] >= lo && p->hi[i] <= hi)
				best = order_first(s, i, best);
		}
	return best;
}

static uint32_t lowest_by_weight(const struct weir__exact_search *s,
				 uint32_t lo, uint32_t hi)
{
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t c = lo; c < hi; c++)
		if (s->total[c] && (best == WEIR__EXACT_NONE ||
				    s->weight[c] > s->weight[best]))
			best = c;
	return best == WEIR__EXACT_NONE ? best : lowest_of_clique(s, best);
}

static uint32_t lowest_by_slack(const struct weir__exact_search *s, uint32_t lo,
				uint32_t hi)
{
	uint32_t best = WEIR__EXACT_NONE;
	double most = 0;

	for (uint32_t c = lo; c < hi; c++) {
		uint32_t i;
		int64_t slack;

		if (!s->total[c])
			continue;
		i = lowest_of_clique(s, c);
		slack = s->cap - s->total[c] - s->est[i];
		if (s->weight[c] / (double)(1 + slack) > most) {
			most = s->weight[c] / (double)(1 + slack);
			best = i;
		}
	}
	return best;
}

/* The lowest open item that fits below @i, which is open; or NONE. */
static uint32_t lowest_below(const struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_component *p = s->component;
	const uint64_t *overlap = overlap_of(p, i);
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = overlap[w] & s->open[w]; set;
		     set &= set - 1) {
			uint32_t k = set_first(set, w);

			if (s->est[k] + size_below(p, k, i) <= s->est[i])
				best = order_first(s, k, best);
		}
	return best;
}

/*
 * A postponed item has another below it, where its est comes from. Each step
 * down goes to a lower est, so the loop ends.
 */
static uint32_t choose_item(struct weir__exact_search *s, uint32_t lo,
			    uint32_t hi)
{
	uint32_t i, below;

	if (s->by_height)
		i = lowest_of_all(s, lo, hi);
	else if (s->by_slack)
		i = lowest_by_slack(s, lo, hi);
	else
		i = lowest_by_weight(s, lo, hi);
	if (i == WEIR__EXACT_NONE)
		return i;
	while ((below = lowest_below(s, i)) != WEIR__EXACT_NONE)
		i = below;
	return i;
}

/*
 * A hash of the state of cliques [lo, hi). Whether their open items can be
 * placed depends only on the bounds of these items, which placed items change.
 * The hash has 128 bits, because equal hashes of different states would make a
 * proof wrong.
 */
static struct exact_nogood search_hash(const struct weir__exact_search *s,
				       uint32_t lo, uint32_t hi)
{
	const struct weir__exact_component *p = s->component;
	struct exact_nogood hash = { weir__mix((uint64_t)s->cap + 1),
				     (uint64_t)s->cap };

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = s->open[w]; set; set &= set - 1) {
			uint32_t i = set_first(set, w);
			uint64_t x;

			if (p->lo[i] < lo || p->hi[i] > hi)
				continue;
			x = weir__mix((uint64_t)s->est[i] +
				      i * 0x9e3779b97f4a7c15);
			x += (uint64_t)s->floor[i] * 0xd6e8feb86659fd93;
			hash.a += weir__mix(x);
			hash.b += weir__mix(~x * 0xaef17502108ef2d9);
		}
	return hash;
}

static enum weir__exact_outcome search_range(struct weir__exact_search *s,
					     uint32_t lo, uint32_t hi);

/*
 * Item @i was placed in cliques [lo, hi). Where no open item is in two
 * neighbouring cliques, those on the two sides are problems of their own: if
 * one cannot be solved, no other solution of the other helps.
 */
static enum weir__exact_outcome
search_split(struct weir__exact_search *s, uint32_t lo, uint32_t hi, uint32_t i)
{
	const struct weir__exact_component *p = s->component;
	enum weir__exact_outcome outcome = WEIR__EXACT_FOUND;
	bool split = false;

	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		split |= !s->crossing[c];
	if (!split)
		return search_range(s, lo, hi);
	for (uint32_t c = lo + 1; c <= hi; c++) {
		if (c < hi && s->crossing[c])
			continue;
		outcome = search_range(s, lo, c);
		if (outcome != WEIR__EXACT_FOUND)
			break;
		lo = c;
	}
	return outcome;
}

/* Place item @i at its est. */
static enum weir__exact_outcome
search_place(struct weir__exact_search *s, uint32_t lo, uint32_t hi, uint32_t i)
{
	enum weir__exact_outcome outcome = WEIR__EXACT_NEVER;
	size_t mark = s->n_undo;

	state_place(s, i);
	if (propagate(s))
		outcome = search_split(s, lo, hi, i);
	if (s->lost)
		return WEIR__EXACT_ENDED;
	if (outcome == WEIR__EXACT_NEVER)
		state_undo_to(s, mark);
	return outcome;
}

/*
 * Solve cliques [lo, hi), whose open items are in no other clique. An item is
 * either placed at its est, or some other comes below it, which raises its est:
 * one of these must be true. FOUND leaves the items placed.
 */
static enum weir__exact_outcome search_branch(struct weir__exact_search *s,
					      uint32_t lo, uint32_t hi)
{
	for (;;) {
		uint32_t i = choose_item(s, lo, hi);
		enum weir__exact_outcome outcome;

		if (i == WEIR__EXACT_NONE)
			return WEIR__EXACT_FOUND;
		if (++s->nodes > s->budget || s->ended(s->arg))
			return WEIR__EXACT_ENDED;
		outcome = search_place(s, lo, hi, i);
		if (outcome != WEIR__EXACT_NEVER)
			return outcome;
		state_raise(s, i, s->est[i] + 1);
		if (!propagate(s))
			return s->lost ? WEIR__EXACT_ENDED : WEIR__EXACT_NEVER;
	}
}

/*
 * Search, unless this state has led to nothing before, however it was reached.
 */
static enum weir__exact_outcome search_range(struct weir__exact_search *s,
					     uint32_t lo, uint32_t hi)
{
	struct exact_nogood hash = search_hash(s, lo, hi);
	struct exact_nogood *nogood = &s->nogood[hash.a & s->nogood_mask];
	enum weir__exact_outcome outcome;

	if (nogood->a == hash.a && nogood->b == hash.b)
		return WEIR__EXACT_NEVER;
	outcome = search_branch(s, lo, hi);
	if (outcome == WEIR__EXACT_NEVER)
		*nogood = hash;
	return outcome;
}

enum weir__exact_outcome
weir__exact_search_run(struct weir__exact_search *s,
		       const struct weir__exact_try *try, uint64_t *ret_nodes)
{
	enum weir__exact_outcome outcome;

	s->cap = try->cap;
	s->nodes = 0;
	s->budget = try->budget;
	order_items(s, try);
	state_begin(s);
	if (propagate(s))
		outcome = search_range(s, 0, s->component->m);
	else
		outcome = s->lost ? WEIR__EXACT_ENDED : WEIR__EXACT_NEVER;
	*ret_nodes = s->nodes;
	return outcome;
}

const int64_t *weir__exact_search_offsets(const struct weir__exact_search *s)
{
	return s->off;
}

/* All arrays of the state, in memory at @base. Returns their bytes. */
static size_t search_carve(struct weir__exact_search *s, char *base)
{
	struct weir__exact_block block = { .base = base };
	const struct weir__exact_component *p = s->component;

	WEIR__EXACT_CARVE(&block, s->est, p->n);
	WEIR__EXACT_CARVE(&block, s->floor, p->n);
	WEIR__EXACT_CARVE(&block, s->off, p->n);
	WEIR__EXACT_CARVE(&block, s->rank, p->n);
	WEIR__EXACT_CARVE(&block, s->key, p->n);
	WEIR__EXACT_CARVE(&block, s->open, p->words);
	WEIR__EXACT_CARVE(&block, s->postponed, p->words);
	WEIR__EXACT_CARVE(&block, s->wake, p->words);
	WEIR__EXACT_CARVE(&block, s->dirty, p->m / 64 + 1);
	WEIR__EXACT_CARVE(&block, s->total, p->m);
	WEIR__EXACT_CARVE(&block, s->weights,
			  (size_t)p->m * WEIR__EXACT_STRATEGIES);
	WEIR__EXACT_CARVE(&block, s->crossing, p->m + 1);
	WEIR__EXACT_CARVE(&block, s->clique_item, p->largest);
	WEIR__EXACT_CARVE(&block, s->clique_est, p->largest);
	WEIR__EXACT_CARVE(&block, s->clique_top, p->largest);
	WEIR__EXACT_CARVE(&block, s->nogood, s->nogood_mask + 1);
	return block.used;
}

int weir__exact_search_new(const struct weir__exact_component *component,
			   bool (*ended)(void *arg), void *arg,
			   struct weir__exact_search **ret)
{
	struct weir__exact_search *s = weir__calloc(1, sizeof(*s));
	char *block = NULL;

	if (s) {
		s->component = component;
		s->ended = ended;
		s->arg = arg;
		/* 1 to 2 KiB for each item. */
		while (s->nogood_mask + 1 < 64 * component->n)
			s->nogood_mask = 2 * s->nogood_mask + 1;
		block = weir__calloc(1, search_carve(s, NULL));
	}
	if (!block) {
		weir__free(s);
		return weir__fail(-ENOMEM, "no memory to search %u items",
				  component->n);
	}
	search_carve(s, block);
	for (uint32_t c = 0; c < component->m * WEIR__EXACT_STRATEGIES; c++)
		s->weights[c] = 1;
	for (unsigned k = 0; k < WEIR__EXACT_STRATEGIES; k++)
		s->step[k] = 1;
	*ret = s;
	return 0;
}

void weir__exact_search_free(struct weir__exact_search *s)
{
	if (!s)
		return;
	weir__free(s->est); /* the beginning of the block */
	weir__free(s->undo);
	weir__free(s);
}
