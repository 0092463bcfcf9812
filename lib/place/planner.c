/* SPDX-License-Identifier: MIT */
#include "place/planner.h"

#include "core/util.h"
#include "place/sections.h"

static void planned_add(struct weir__planned *planned, uint64_t height,
			uint64_t bound)
{
	if (planned->height < height)
		planned->height = height;
	if (planned->bound < bound)
		planned->bound = bound;
}

static int plan_greedy(struct weir__pieces *p, struct weir__sections *all,
		       struct weir__planned *ret)
{
	int r = 0;

	*ret = (struct weir__planned){ .height = all->height,
				       .bound = all->height };
	for (size_t i = 0; i < all->n; i++)
		planned_add(ret, 0, all->section[i].bound);
	for (size_t i = 0; i < all->n && !r; i++) {
		r = weir__greedy_place(p, &all->section[i], ret->bound);
		planned_add(ret, all->section[i].height, 0);
	}
	return r;
}

static int plan_once(struct weir__pieces *p, struct weir__planned *ret_planned)
{
	struct weir__sections all;
	int r = weir__sections_make(&all, p);

	if (!r)
		r = plan_greedy(p, &all, ret_planned);
	weir__sections_free(&all);
	return r;
}

int weir__pieces_plan(struct weir__pieces *p, const struct weir__planning *how,
		      struct weir__planned *ret_planned)
{
	struct weir__planned planned;
	int r = plan_once(p, &planned);

	if (!r && how->max && planned.height > how->max) {
		uint64_t bound = planned.bound;

		p->chunk = weir__down(how->max, p->align);
		r = plan_once(p, &planned);
		planned.bound = bound;
	}
	if (!r)
		*ret_planned = planned;
	return r;
}
