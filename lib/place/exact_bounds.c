/* SPDX-License-Identifier: MIT */
/*
 * Rules that raise the est of open items, and find states in which the open
 * items do not fit. A rule raises an est only if no placement that the search
 * still has to find has the item any lower. Rules read nothing but the est of
 * open items, so their order does not matter.
 */
#include <string.h>

#include "place/exact_search.h"

/*
 * A late item comes above an open item that would overlap it at its sky. If
 * there is none, it could be lowered to its sky in every placement that follows
 * from this state, and the search finds the lowered placement in another state:
 * false.
 */
static bool bounds_late(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	const uint64_t *overlap = weir__exact_overlap(p, i);
	int64_t least = INT64_MAX;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = overlap[w] & s->open[w]; set;
		     set &= set - 1) {
			uint32_t k = weir__exact_first(set, w);
			int64_t limit =
				s->sky[i] + weir__exact_size_below(p, i, k);
			int64_t top =
				s->est[k] + weir__exact_size_below(p, k, i);

			if (s->est[k] < limit && top < least)
				least = top;
		}
	if (least < INT64_MAX) {
		weir__exact_raise(s, i, least);
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
	const struct weir__exact_part *p = s->part;
	bool above = false;
	uint32_t n = 0;

	for (uint32_t m = p->first[c]; m < p->first[c + 1]; m++) {
		uint32_t i = p->members[m];

		if (!weir__exact_has(s->open, i))
			continue;
		s->clique_item[n] = i;
		s->clique_est[n] = s->est[i];
		s->clique_top[n++] = s->est[i] + weir__exact_size_in(p, i, c);
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
			weir__exact_raise(s, s->clique_item[a], next);
	}
	return true;
}

static bool bounds_cliques(struct weir__exact_search *s)
{
	for (uint32_t w = 0; w <= s->part->m / 64; w++)
		while (s->dirty[w]) {
			uint32_t c = weir__exact_first(s->dirty[w], w);

			weir__exact_remove(s->dirty, c);
			if (!bounds_clique(s, c))
				return false;
		}
	return true;
}

/* *@again: an item was examined. */
static bool bounds_lates(struct weir__exact_search *s, bool *again)
{
	*again = false;
	for (uint32_t w = 0; w < s->part->words; w++)
		while (s->wake[w]) {
			uint32_t i = weir__exact_first(s->wake[w], w);

			weir__exact_remove(s->wake, i);
			if (!weir__exact_has(s->late, i) ||
			    !weir__exact_has(s->open, i))
				continue;
			*again = true;
			if (!bounds_late(s, i))
				return false;
		}
	return true;
}

/* Later failures count a little more than earlier ones. */
static void bounds_failed(struct weir__exact_search *s)
{
	const struct weir__exact_part *p = s->part;
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

bool weir__exact_settle(struct weir__exact_search *s)
{
	bool again;

	do {
		if (!bounds_cliques(s) || !bounds_lates(s, &again))
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
