/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/exact_search.h"

/*
 * A hash of the state of cliques [lo, hi). Whether their open items can be
 * placed depends only on the bounds of these items, which placed items change.
 * The hash has 128 bits, because equal hashes of different states would make a
 * proof wrong.
 */
static struct weir__exact_dead search_hash(const struct weir__exact_search *s,
					   uint32_t lo, uint32_t hi)
{
	const struct weir__exact_part *p = s->part;
	struct weir__exact_dead hash = { weir__mix((uint64_t)s->cap + 1),
					 (uint64_t)s->cap };

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = s->open[w]; set; set &= set - 1) {
			uint32_t i = weir__exact_first(set, w);
			uint64_t x;

			if (p->lo[i] < lo || p->hi[i] > hi)
				continue;
			x = weir__mix((uint64_t)s->est[i] +
				      i * 0x9e3779b97f4a7c15);
			x += (uint64_t)s->sky[i] * 0xd6e8feb86659fd93;
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
	const struct weir__exact_part *p = s->part;
	enum weir__exact_outcome outcome = WEIR__EXACT_FOUND;
	bool split = false;

	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		split |= !s->cut[c];
	if (!split)
		return search_range(s, lo, hi);
	for (uint32_t c = lo + 1; c <= hi; c++) {
		if (c < hi && s->cut[c])
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

	weir__exact_put(s, i);
	if (weir__exact_settle(s))
		outcome = search_split(s, lo, hi, i);
	if (s->lost)
		return WEIR__EXACT_ENDED;
	if (outcome == WEIR__EXACT_NEVER)
		weir__exact_undo_to(s, mark);
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
		uint32_t i = weir__exact_choose(s, lo, hi);
		enum weir__exact_outcome outcome;

		if (i == WEIR__EXACT_NONE)
			return WEIR__EXACT_FOUND;
		if (++s->nodes > s->last_node || s->ended(s->arg))
			return WEIR__EXACT_ENDED;
		outcome = search_place(s, lo, hi, i);
		if (outcome != WEIR__EXACT_NEVER)
			return outcome;
		weir__exact_raise(s, i, s->est[i] + 1);
		if (!weir__exact_settle(s))
			return s->lost ? WEIR__EXACT_ENDED : WEIR__EXACT_NEVER;
	}
}

/* A state that led to nothing is recognised, however it is reached. */
static enum weir__exact_outcome search_range(struct weir__exact_search *s,
					     uint32_t lo, uint32_t hi)
{
	struct weir__exact_dead hash = search_hash(s, lo, hi);
	struct weir__exact_dead *dead = &s->dead[hash.a & s->dead_mask];
	enum weir__exact_outcome outcome;

	if (dead->a == hash.a && dead->b == hash.b)
		return WEIR__EXACT_NEVER;
	outcome = search_branch(s, lo, hi);
	if (outcome == WEIR__EXACT_NEVER)
		*dead = hash;
	return outcome;
}

enum weir__exact_outcome
weir__exact_search_run(struct weir__exact_search *s,
		       const struct weir__exact_try *try)
{
	s->cap = try->cap;
	s->last_node = s->nodes + try->budget;
	weir__exact_order(s, try);
	weir__exact_state_begin(s);
	if (!weir__exact_settle(s))
		return s->lost ? WEIR__EXACT_ENDED : WEIR__EXACT_NEVER;
	return search_range(s, 0, s->part->m);
}

/* All arrays of the state, in memory at @base. Returns their bytes. */
static size_t search_carve(struct weir__exact_search *s, char *base)
{
	struct weir__exact_block block = { .base = base };
	const struct weir__exact_part *p = s->part;

	WEIR__EXACT_CARVE(&block, s->est, p->n);
	WEIR__EXACT_CARVE(&block, s->sky, p->n);
	WEIR__EXACT_CARVE(&block, s->off, p->n);
	WEIR__EXACT_CARVE(&block, s->rank, p->n);
	WEIR__EXACT_CARVE(&block, s->key, p->n);
	WEIR__EXACT_CARVE(&block, s->open, p->words);
	WEIR__EXACT_CARVE(&block, s->late, p->words);
	WEIR__EXACT_CARVE(&block, s->wake, p->words);
	WEIR__EXACT_CARVE(&block, s->dirty, p->m / 64 + 1);
	WEIR__EXACT_CARVE(&block, s->total, p->m);
	WEIR__EXACT_CARVE(&block, s->weights,
			  (size_t)p->m * WEIR__EXACT_STRATEGIES);
	WEIR__EXACT_CARVE(&block, s->cut, p->m + 1);
	WEIR__EXACT_CARVE(&block, s->clique_item, p->largest);
	WEIR__EXACT_CARVE(&block, s->clique_est, p->largest);
	WEIR__EXACT_CARVE(&block, s->clique_top, p->largest);
	WEIR__EXACT_CARVE(&block, s->dead, s->dead_mask + 1);
	return block.used;
}

int weir__exact_search_new(const struct weir__exact_part *part,
			   bool (*ended)(void *arg), void *arg,
			   struct weir__exact_search *ret)
{
	struct weir__exact_search s = { .part = part,
					.ended = ended,
					.arg = arg };
	char *block;

	/* 1 to 2 KiB for each item. */
	while (s.dead_mask + 1 < 64 * part->n)
		s.dead_mask = 2 * s.dead_mask + 1;
	block = weir__calloc(1, search_carve(&s, NULL));
	if (!block)
		return weir__fail(-ENOMEM, "no memory to search %u items",
				  part->n);
	search_carve(&s, block);
	for (uint32_t c = 0; c < part->m * WEIR__EXACT_STRATEGIES; c++)
		s.weights[c] = 1;
	for (unsigned k = 0; k < WEIR__EXACT_STRATEGIES; k++)
		s.step[k] = 1;
	*ret = s;
	return 0;
}

void weir__exact_search_free(struct weir__exact_search *s)
{
	weir__free(s->est); /* the beginning of the block */
	weir__free(s->undo);
}
