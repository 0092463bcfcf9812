/* SPDX-License-Identifier: MIT */
#include "place/planner.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/exact.h"
#include "place/sections.h"

/*
 * A try of n boxes examines at most n^2 / 2 of them, in about two nanoseconds
 * each. This is enough for all seven tries of 20,000 boxes, which take three
 * seconds at most, and for one try of 52,000.
 */
#define SCANS ((uint64_t)7 * 20000 * 20000 / 2)

/* The highest section; NULL: there is none. */
static struct weir__section *highest(const struct weir__sections *all)
{
	struct weir__section *s = NULL;

	for (size_t i = 0; i < all->n; i++)
		if (!s || s->height < all->section[i].height)
			s = &all->section[i];
	return s;
}

static void planned_sum(struct weir__planned *planned,
			const struct weir__sections *all)
{
	planned->height = planned->bound = all->height;
	for (size_t i = 0; i < all->n; i++) {
		const struct weir__section *s = &all->section[i];

		if (planned->height < s->height)
			planned->height = s->height;
		if (planned->bound < s->bound)
			planned->bound = s->bound;
	}
}

/* No section needs to be lower than the bound of another. */
static int plan_greedy(struct weir__pieces *p, struct weir__sections *all,
		       struct weir__planned *planned)
{
	int r = 0;

	p->scans = SCANS;
	planned_sum(planned, all);
	for (size_t i = 0; i < all->n && !r; i++)
		r = weir__greedy_place(p, &all->section[i], planned->bound);
	planned_sum(planned, all);
	return r;
}

/* Search until the section's height is at most @enough; s->base: minimise. */
static int section_search(struct weir__pieces *p, struct weir__section *s,
			  const struct weir__planning *how, uint64_t enough,
			  uint64_t *nodes)
{
	struct weir__exact_opts o = { .capacity = enough - s->base,
				      .deadline = how->deadline,
				      .threads = how->threads };
	struct weir__exact_item *item = weir__malloc(s->n * sizeof(*item));
	uint64_t *offset = weir__malloc(s->n * sizeof(*offset));
	struct weir__exact_result result;
	int r = item && offset ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->n && !r; i++) {
		const struct weir__place_piece *x = &p->piece[s->piece[i]];

		item[i] = (struct weir__exact_item){ x->lower, x->upper,
						     x->bytes, x->align, 0 };
		/* The greedy planner has numbered the section's pieces. */
		if (x->next != WEIR__NO_PIECE)
			item[i].next = (size_t)p->piece[x->next].box + 1;
		offset[i] = x->offset - s->base;
	}
	if (!r)
		r = weir__exact_place(item, s->n, &o, offset, &result);
	else
		weir__fail(r, "no memory to search for places of %zu items",
			   s->n);
	for (size_t i = 0; i < s->n && !r; i++)
		p->piece[s->piece[i]].offset = s->base + offset[i];
	if (!r) {
		*nodes += result.nodes;
		s->height = s->base + result.height;
		if (s->bound < s->base + result.bound)
			s->bound = s->base + result.bound;
	}
	weir__free(item);
	weir__free(offset);
	return r;
}

/*
 * Search for lower places in the highest section, as long as there is one that
 * was not searched: the others do not count. Sections with too many pieces keep
 * their greedy places.
 */
static int plan_exact(struct weir__pieces *p, struct weir__sections *all,
		      const struct weir__planning *how,
		      struct weir__planned *planned)
{
	struct weir__section *s;
	int r = 0;

	while (!r && (s = highest(all)) && !s->searched &&
	       s->n <= WEIR__EXACT_ITEMS && weir__now() < how->deadline) {
		uint64_t enough = planned->bound > how->enough ? planned->bound
							       : how->enough;
		bool minimise = enough <= s->bound;

		if (s->height <= enough ||
		    (how->capacity && planned->bound > how->capacity))
			break;
		r = section_search(p, s, how, minimise ? s->base : enough,
				   &planned->nodes);
		/* If it cannot be so low, the next search minimises. */
		s->searched = minimise;
		planned_sum(planned, all);
	}
	return r;
}

static int plan_once(struct weir__pieces *p, const struct weir__planning *how,
		     struct weir__planned *ret_planned)
{
	struct weir__sections all;
	int r = weir__sections_make(&all, p);

	if (!r)
		r = plan_greedy(p, &all, ret_planned);
	if (!r && how->deadline && !p->chunk)
		r = plan_exact(p, &all, how, ret_planned);
	weir__sections_free(&all);
	return r;
}

int weir__pieces_plan(struct weir__pieces *p, const struct weir__planning *how,
		      struct weir__planned *ret_planned)
{
	struct weir__planned planned = { .nodes = 0 };
	int r = plan_once(p, how, &planned);

	if (!r && how->max && planned.height > how->max) {
		uint64_t bound = planned.bound;

		p->chunk = weir__down(how->max, p->align);
		r = plan_once(p, how, &planned);
		planned.bound = bound;
	}
	if (!r)
		*ret_planned = planned;
	return r;
}
