/* SPDX-License-Identifier: MIT */
/* Strategies that choose the next item; the search tries them in turn. */
#include <stdlib.h>

#include "place/exact_search.h"

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
	const struct weir__exact_key *a = pa, *b = pb;

	for (unsigned k = 0; k < 3; k++)
		if (a->key[k] != b->key[k])
			return a->key[k] > b->key[k] ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static double order_key(const struct weir__exact_part *p, uint32_t i, char kind)
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

void weir__exact_order(struct weir__exact_search *s,
		       const struct weir__exact_try *try)
{
	const struct order_strategy *strategy = &strategies[try->strategy];
	const struct weir__exact_part *p = s->part;

	s->strategy = try->strategy;
	s->weight = s->weights + (size_t)try->strategy * p->m;
	s->by_slack = strategy->by_slack;
	s->by_height = strategy->by_height;
	for (uint32_t i = 0; i < p->n; i++) {
		struct weir__exact_key *key = &s->key[i];

		key->item = i;
		for (unsigned k = 0; k < 3; k++)
			key->key[k] = order_key(p, i, strategy->keys[k]);
	}
	qsort(s->key, p->n, sizeof(*s->key), order_compare);
	for (uint32_t i = 0; i < p->n; i++)
		s->rank[s->key[i].item] = i;
}

/* @i, or @than if that is NONE or comes after @i. */
static uint32_t order_first(const struct weir__exact_search *s, uint32_t i,
			    uint32_t than)
{
	if (than == WEIR__EXACT_NONE || s->est[i] < s->est[than] ||
	    (s->est[i] == s->est[than] && s->rank[i] < s->rank[than]))
		return i;
	return than;
}

/* Placed items have the greatest est. */
static uint32_t lowest_of_clique(const struct weir__exact_search *s, uint32_t c)
{
	const struct weir__exact_part *p = s->part;
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t m = p->first[c]; m < p->first[c + 1]; m++)
		best = order_first(s, p->members[m], best);
	return best;
}

static uint32_t lowest_of_all(const struct weir__exact_search *s, uint32_t lo,
			      uint32_t hi)
{
	const struct weir__exact_part *p = s->part;
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = s->open[w]; set; set &= set - 1) {
			uint32_t i = weir__exact_first(set, w);

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
	const struct weir__exact_part *p = s->part;
	const uint64_t *overlap = weir__exact_overlap(p, i);
	uint32_t best = WEIR__EXACT_NONE;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = overlap[w] & s->open[w]; set;
		     set &= set - 1) {
			uint32_t k = weir__exact_first(set, w);

			if (s->est[k] + weir__exact_size_below(p, k, i) <=
			    s->est[i])
				best = order_first(s, k, best);
		}
	return best;
}

/*
 * A late item has another below it, where its est comes from. Each step down
 * goes to a lower est, so the loop ends.
 */
uint32_t weir__exact_choose(struct weir__exact_search *s, uint32_t lo,
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
