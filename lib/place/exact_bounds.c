/* SPDX-License-Identifier: MIT */
#include "core/util.h"
#include "place/exact_search.h"

/*
 * Without memory for the log the state cannot be restored: the search is lost,
 * and ends. The next one begins with a fresh state.
 */
static void exact_log(struct weir__exact_search *s, uint32_t i, bool placed)
{
	struct weir__exact_undo *undo =
		weir__grow(s->undo, &s->cap_undo, s->n_undo, sizeof(*undo));

	if (!undo) {
		s->lost = true;
		return;
	}
	s->undo = undo;
	s->undo[s->n_undo++] =
		(struct weir__exact_undo){ i, placed, s->est[i], s->sky[i] };
}

/* The bounds of item @i have changed: what has to be examined again? */
static void exact_mark(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	const uint64_t *row = p->overlap + (size_t)i * p->words;

	for (uint32_t sec = p->lo[i]; sec < p->hi[i]; sec++)
		weir__exact_add(s->dirty, sec);
	for (uint32_t w = 0; w < p->words; w++)
		s->wake[w] |= row[w] & s->late[w];
}

void weir__exact_raise(struct weir__exact_search *s, uint32_t i, int64_t est)
{
	const struct weir__exact_part *p = s->part;

	est = weir__exact_up(p, i, est);
	if (est <= s->est[i])
		return;
	exact_log(s, i, false);
	s->est[i] = est;
	if (est > s->sky[i] && !weir__exact_has(s->late, i)) {
		weir__exact_add(s->late, i);
		weir__exact_add(s->wake, i);
	}
	exact_mark(s, i);
	if (p->next_twin[i] != WEIR__EXACT_NONE)
		weir__exact_raise(s, p->next_twin[i], est + p->size[i]);
}

/* An item below @i ends at @top. */
static void exact_lift(struct weir__exact_search *s, uint32_t i, int64_t top)
{
	const struct weir__exact_part *p = s->part;

	top = weir__exact_up(p, i, top);
	if (top <= s->sky[i])
		return;
	exact_log(s, i, false);
	s->sky[i] = top;
	if (s->est[i] > top)
		return;
	weir__exact_remove(s->late, i);
	if (s->est[i] == top)
		return;
	s->est[i] = top;
	exact_mark(s, i);
	if (p->next_twin[i] != WEIR__EXACT_NONE)
		weir__exact_raise(s, p->next_twin[i], top + p->size[i]);
}

void weir__exact_put(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	const uint64_t *row = p->overlap + (size_t)i * p->words;
	int64_t top = s->est[i] + p->size[i];

	exact_log(s, i, true);
	s->off[i] = s->est[i];
	s->est[i] = INT64_MAX / 2;
	weir__exact_remove(s->open, i);
	for (uint32_t sec = p->lo[i]; sec < p->hi[i]; sec++) {
		s->total[sec] -= p->size[i];
		if (sec > p->lo[i])
			s->cut[sec]--;
	}
	exact_mark(s, i);
	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = row[w] & s->open[w]; set; set &= set - 1)
			exact_lift(s, w * 64 + __builtin_ctzll(set), top);
}

static void exact_take_back(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;

	weir__exact_add(s->open, i);
	for (uint32_t sec = p->lo[i]; sec < p->hi[i]; sec++) {
		s->total[sec] += p->size[i];
		if (sec > p->lo[i])
			s->cut[sec]++;
	}
}

void weir__exact_undo_to(struct weir__exact_search *s, size_t mark)
{
	while (s->n_undo > mark) {
		const struct weir__exact_undo *u = &s->undo[--s->n_undo];

		s->est[u->item] = u->est;
		s->sky[u->item] = u->sky;
		if (u->placed)
			exact_take_back(s, u->item);
		if (u->est > u->sky)
			weir__exact_add(s->late, u->item);
		else
			weir__exact_remove(s->late, u->item);
	}
}

static bool rule_late(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	const uint64_t *row = p->overlap + (size_t)i * p->words;
	int64_t limit = s->sky[i] + p->size[i], best = INT64_MAX;

	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = row[w] & s->open[w]; set; set &= set - 1) {
			uint32_t k = w * 64 + __builtin_ctzll(set);
			int64_t top = s->est[k] + p->size[k];

			if (s->est[k] < limit && top < best)
				best = top;
		}
	if (best == INT64_MAX) {
		for (uint32_t sec = p->lo[i]; sec < p->hi[i]; sec++)
			s->weight[sec] += s->step / (p->hi[i] - p->lo[i]);
		return false;
	}
	weir__exact_raise(s, i, best);
	return true;
}

static bool rule_section(struct weir__exact_search *s, uint32_t sec)
{
	const struct weir__exact_part *p = s->part;
	int64_t level = s->cap - s->total[sec];
	int64_t *est = s->scratch_est, *top = s->scratch_top;
	uint32_t *item = s->scratch, n = 0;
	bool high = false;

	for (uint32_t a = p->first[sec]; a < p->first[sec + 1]; a++) {
		uint32_t i = p->members[a];

		if (!weir__exact_has(s->open, i))
			continue;
		item[n] = i;
		est[n] = s->est[i];
		top[n++] = s->est[i] + p->size[i];
		high |= s->est[i] > level;
	}
	if (!high)
		return true;
	for (uint32_t a = 0; a < n; a++) {
		int64_t need = est[a] - level, below = 0, fits = 0;
		int64_t next = INT64_MAX;

		if (need <= 0)
			continue;
		for (uint32_t b = 0; b < n; b++) {
			int64_t size = top[b] - est[b];

			if (est[b] >= est[a])
				continue;
			below += size;
			if (top[b] <= est[a])
				fits += size;
			else if (top[b] < next)
				next = top[b];
		}
		if (below < need) {
			s->weight[sec] += s->step;
			return false;
		}
		if (fits < need)
			weir__exact_raise(s, item[a], next);
	}
	return true;
}

static void exact_forget(struct weir__exact_search *s)
{
	const struct weir__exact_part *p = s->part;

	for (uint32_t w = 0; w < p->words; w++)
		s->wake[w] = 0;
	for (uint32_t w = 0; w <= p->m / 64; w++)
		s->dirty[w] = 0;
}

bool weir__exact_settle(struct weir__exact_search *s)
{
	const struct weir__exact_part *p = s->part;
	bool again = true;

	while (again) {
		again = false;
		for (uint32_t w = 0; w <= p->m / 64; w++)
			while (s->dirty[w]) {
				uint32_t sec =
					w * 64 + __builtin_ctzll(s->dirty[w]);

				s->dirty[w] &= s->dirty[w] - 1;
				if (!rule_section(s, sec))
					goto fail;
			}
		for (uint32_t w = 0; w < p->words; w++)
			while (s->wake[w]) {
				uint32_t i =
					w * 64 + __builtin_ctzll(s->wake[w]);

				s->wake[w] &= s->wake[w] - 1;
				again = true;
				if (weir__exact_has(s->late, i) &&
				    weir__exact_has(s->open, i) &&
				    !rule_late(s, i))
					goto fail;
			}
	}
	return true;
fail:
	s->step *= 1.001;
	exact_forget(s);
	return false;
}
