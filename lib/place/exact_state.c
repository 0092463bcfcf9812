/* SPDX-License-Identifier: MIT */
/* The state of a search: placed items, bounds of open ones, and the log. */
#include <string.h>

#include "core/array.h"
#include "place/exact_search.h"

/*
 * Without memory for the log the state cannot be restored: the search is lost,
 * and ends. The next one begins with a fresh state.
 */
static void state_log(struct weir__exact_search *s, uint32_t i, bool placed)
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

/* The est of item @i has changed: mark what has to be examined again. */
static void state_mark(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	const uint64_t *overlap = weir__exact_overlap(p, i);

	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		weir__exact_add(s->dirty, c);
	for (uint32_t w = 0; w < p->words; w++)
		s->wake[w] |= overlap[w] & s->late[w];
}

/* The next twin comes above. */
static void state_raise_twin(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;

	if (p->next_twin[i] != WEIR__EXACT_NONE)
		weir__exact_raise(s, p->next_twin[i], s->est[i] + p->size[i]);
}

void weir__exact_raise(struct weir__exact_search *s, uint32_t i, int64_t est)
{
	est = weir__exact_up(s->part, i, est);
	if (est <= s->est[i])
		return;
	state_log(s, i, false);
	s->est[i] = est;
	if (est > s->sky[i] && !weir__exact_has(s->late, i)) {
		weir__exact_add(s->late, i);
		weir__exact_add(s->wake, i);
	}
	state_mark(s, i);
	state_raise_twin(s, i);
}

/* An item was placed below item @i; it ends at @top. */
static void state_lift(struct weir__exact_search *s, uint32_t i, int64_t top)
{
	top = weir__exact_up(s->part, i, top);
	if (top <= s->sky[i])
		return;
	state_log(s, i, false);
	s->sky[i] = top;
	if (s->est[i] > top)
		return;
	weir__exact_remove(s->late, i);
	if (s->est[i] == top)
		return;
	s->est[i] = top;
	state_mark(s, i);
	state_raise_twin(s, i);
}

/* Place item @i, which is not late, at its est. */
void weir__exact_put(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;
	const uint64_t *overlap = weir__exact_overlap(p, i);

	state_log(s, i, true);
	s->off[i] = s->est[i];
	s->est[i] = WEIR__EXACT_PLACED;
	weir__exact_remove(s->open, i);
	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		s->total[c] -= weir__exact_size_in(p, i, c);
	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		s->cut[c]--;
	state_mark(s, i);
	for (uint32_t w = 0; w < p->words; w++)
		for (uint64_t set = overlap[w] & s->open[w]; set;
		     set &= set - 1) {
			uint32_t k = weir__exact_first(set, w);

			state_lift(s, k,
				   s->off[i] + weir__exact_size_below(p, i, k));
		}
}

static void state_take_back(struct weir__exact_search *s, uint32_t i)
{
	const struct weir__exact_part *p = s->part;

	weir__exact_add(s->open, i);
	for (uint32_t c = p->lo[i]; c < p->hi[i]; c++)
		s->total[c] += weir__exact_size_in(p, i, c);
	for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
		s->cut[c]++;
}

void weir__exact_undo_to(struct weir__exact_search *s, size_t mark)
{
	while (s->n_undo > mark) {
		const struct weir__exact_undo *u = &s->undo[--s->n_undo];

		s->est[u->item] = u->est;
		s->sky[u->item] = u->sky;
		if (u->placed)
			state_take_back(s, u->item);
		if (u->est > u->sky)
			weir__exact_add(s->late, u->item);
		else
			weir__exact_remove(s->late, u->item);
	}
}

/* Nothing is placed. */
void weir__exact_state_begin(struct weir__exact_search *s)
{
	const struct weir__exact_part *p = s->part;

	s->n_undo = 0;
	s->lost = false;
	memset(s->late, 0, p->words * sizeof(*s->late));
	memset(s->wake, 0, p->words * sizeof(*s->wake));
	memset(s->cut, 0, (p->m + 1) * sizeof(*s->cut));
	for (uint32_t c = 0; c < p->m; c++) {
		s->total[c] = p->load[c];
		weir__exact_add(s->dirty, c);
	}
	for (uint32_t i = 0; i < p->n; i++) {
		s->est[i] = s->sky[i] = 0;
		weir__exact_add(s->open, i);
		for (uint32_t c = p->lo[i] + 1; c < p->hi[i]; c++)
			s->cut[c]++;
	}
	for (uint32_t i = 0; i < p->n; i++)
		state_raise_twin(s, i);
}
