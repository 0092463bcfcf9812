/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "place/exact_search.h"

static int64_t section_floor(struct weir__exact_search *s, uint32_t sec,
			     uint32_t *ret)
{
	const struct weir__exact_part *p = s->part;
	int64_t best = INT64_MAX;
	*ret = WEIR__EXACT_NONE;

	for (uint32_t a = p->first[sec]; a < p->first[sec + 1]; a++) {
		uint32_t i = p->members[a];

		if (s->est[i] < best ||
		    (s->est[i] == best && s->rank[i] < s->rank[*ret])) {
			if (!weir__exact_has(s->open, i))
				continue;
			best = s->est[i];
			*ret = i;
		}
	}
	return best;
}

static uint32_t descend(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;

	for (;;) {
		const uint64_t *row = p->overlap + (size_t)i * p->words;
		int64_t best = INT64_MAX;
		uint32_t to = WEIR__EXACT_NONE;

		for (uint32_t w = 0; w < p->words; w++)
			for (uint64_t set = row[w] & s->open[w]; set;
			     set &= set - 1) {
				uint32_t k = w * 64 + __builtin_ctzll(set);

				if (s->est[k] + p->size[k] > s->est[i])
					continue;
				if (s->est[k] < best ||
				    (s->est[k] == best &&
				     s->rank[k] < s->rank[to])) {
					best = s->est[k];
					to = k;
				}
			}
		if (to == WEIR__EXACT_NONE)
			return i;
		i = to;
	}
}

static uint32_t pick(struct weir__exact_search *s, uint32_t a, uint32_t b)
{
	uint32_t best = WEIR__EXACT_NONE;
	double best_score = 0;

	for (uint32_t sec = a; sec < b; sec++) {
		uint32_t i;
		int64_t floor;
		double score;

		if (!s->total[sec])
			continue;
		floor = section_floor(s, sec, &i);
		if (s->mode == 0)
			score = -(double)floor -
				(double)s->rank[i] / (s->part->n + 1);
		else if (s->mode == 1)
			score = -(double)(s->cap - s->total[sec] - floor);
		else if (s->mode == 2)
			score = s->weight[sec] /
				(double)(1 + s->cap - s->total[sec] - floor);
		else if (s->mode == 3)
			score = s->weight[sec];
		else
			score = s->weight[sec] / (double)(s->cap - floor);
		if (best == WEIR__EXACT_NONE || score > best_score) {
			best = i;
			best_score = score;
		}
	}
	return best == WEIR__EXACT_NONE ? best : descend(s, best);
}

static enum weir__exact_outcome range_run(struct weir__exact_search *s,
					  uint32_t a, uint32_t b);

static enum weir__exact_outcome split(struct weir__exact_search *s, uint32_t a,
				      uint32_t b, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	bool any = false;
	enum weir__exact_outcome r = WEIR__EXACT_FOUND;

	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		any |= s->cut[c] == 0;
	if (!any)
		return range_run(s, a, b);
	for (uint32_t c = a + 1, from = a; c <= b; c++) {
		if (c < b && s->cut[c])
			continue;
		r = range_run(s, from, c);
		if (r != WEIR__EXACT_FOUND)
			return r;
		from = c;
	}
	return r;
}

static enum weir__exact_outcome range_run(struct weir__exact_search *s,
					  uint32_t a, uint32_t b)
{
	uint32_t i = pick(s, a, b);
	enum weir__exact_outcome r;

	if (s->lost)
		return WEIR__EXACT_ENDED;
	if (i == WEIR__EXACT_NONE)
		return WEIR__EXACT_FOUND;
	for (;;) {
		size_t mark = s->n_undo;

		if (s->lost || ++s->nodes > s->budget ||
		    (s->ended && s->ended(s->arg)))
			return WEIR__EXACT_ENDED;
		weir__exact_put(s, i);
		if (weir__exact_settle(s)) {
			r = split(s, a, b, i);
			if (r != WEIR__EXACT_NEVER)
				return r;
		}
		weir__exact_undo_to(s, mark);
		weir__exact_raise(s, i, s->est[i] + 1);
		if (!weir__exact_settle(s))
			return s->lost ? WEIR__EXACT_ENDED : WEIR__EXACT_NEVER;
		i = pick(s, a, b);
	}
}

static const struct {
	int mode;
	const char *order;
} strategies[WEIR__EXACT_STRATEGIES] = {
	{ 2, "WAT" }, { 0, "WAT" }, { 0, "TWA" },
	{ 3, "WAT" }, { 4, "WAT" }, { 2, "TAW" },
};

static int exact_key_order(const void *pa, const void *pb)
{
	const struct weir__exact_key *a = pa, *b = pb;

	for (unsigned k = 0; k < 3; k++)
		if (a->key[k] != b->key[k])
			return a->key[k] > b->key[k] ? -1 : 1;
	return a->item < b->item ? -1 : 1;
}

static double exact_key(const struct weir__exact_part *p, uint32_t i, char c)
{
	uint32_t width = p->hi[i] - p->lo[i];
	int64_t load = 0;

	if (c == 'W')
		return width;
	if (c == 'A')
		return (double)width * (double)p->size[i];
	for (uint32_t sec = p->lo[i]; sec < p->hi[i]; sec++)
		if (p->load[sec] > load)
			load = p->load[sec];
	return (double)load;
}

static void exact_order(struct weir__exact_search *s, const char *order)
{
	const struct weir__exact_part *p = s->part;
	struct weir__exact_key *key = s->key;

	for (uint32_t i = 0; i < p->n; i++) {
		key[i].item = i;
		for (unsigned k = 0; k < 3; k++)
			key[i].key[k] = exact_key(p, i, order[k]);
	}
	qsort(key, p->n, sizeof(*key), exact_key_order);
	for (uint32_t i = 0; i < p->n; i++)
		s->rank[key[i].item] = i;
}

/* All arrays of the state, from @block; NULL: returns their size. */
static size_t search_carve(struct weir__exact_search *s, char *block)
{
	const struct weir__exact_part *p = s->part;
	size_t used = 0;

#define CARVE(array, n) \
	(s->array = weir__exact_carve(block, &used, n, sizeof(*s->array)))
	CARVE(est, p->n);
	CARVE(sky, p->n);
	CARVE(off, p->n);
	CARVE(rank, p->n);
	CARVE(key, p->n);
	CARVE(open, p->words);
	CARVE(late, p->words);
	CARVE(wake, p->words);
	CARVE(dirty, p->m / 64 + 1);
	CARVE(total, p->m);
	CARVE(weight, p->m);
	CARVE(cut, p->m + 1);
	CARVE(scratch, p->largest);
	CARVE(scratch_est, p->largest);
	CARVE(scratch_top, p->largest);
#undef CARVE
	return used;
}

int weir__exact_search_new(const struct weir__exact_part *part,
			   struct weir__exact_search *ret)
{
	struct weir__exact_search s = { .part = part, .step = 1 };
	char *block = weir__calloc(1, search_carve(&s, NULL));

	if (!block)
		return weir__fail(-ENOMEM, "no memory for a search of %u items",
				  part->n);
	search_carve(&s, block);
	for (uint32_t sec = 0; sec < part->m; sec++)
		s.weight[sec] = 1;
	*ret = s;
	return 0;
}

void weir__exact_search_free(struct weir__exact_search *s)
{
	weir__free(s->est); /* the beginning of the block */
	weir__free(s->undo);
}

enum weir__exact_outcome weir__exact_search_run(struct weir__exact_search *s,
						unsigned strategy, int64_t cap,
						uint64_t budget)
{
	const struct weir__exact_part *p = s->part;

	s->mode = strategies[strategy].mode;
	exact_order(s, strategies[strategy].order);

	s->n_undo = 0;
	s->lost = false;
	s->cap = cap;
	s->budget = s->nodes + budget;
	memset(s->cut, 0, (p->m + 1) * 4);
	memset(s->late, 0, p->words * 8);
	memset(s->wake, 0, p->words * 8);
	for (uint32_t sec = 0; sec < p->m; sec++) {
		s->total[sec] = p->load[sec];
		weir__exact_add(s->dirty, sec);
	}
	for (uint32_t i = 0; i < p->n; i++) {
		s->est[i] = s->sky[i] = 0;
		weir__exact_add(s->open, i);
		for (uint32_t sec = p->lo[i] + 1; sec < p->hi[i]; sec++)
			s->cut[sec]++;
	}
	for (uint32_t i = 0; i < p->n; i++)
		if (p->next_twin[i] != WEIR__EXACT_NONE)
			weir__exact_raise(s, p->next_twin[i],
					  s->est[i] + p->size[i]);
	if (!weir__exact_settle(s))
		return s->lost ? WEIR__EXACT_ENDED : WEIR__EXACT_NEVER;
	return range_run(s, 0, p->m);
}
