/* SPDX-License-Identifier: MIT */
#include "core/sys.h"
#include "core/error.h"
#include "place/exact_team.h"

/* The height of the caller's placement of part @p, and its bound. */
static void side_begin(struct weir__exact_side *side,
		       const struct weir__exact_part *p, int64_t unit,
		       const uint64_t *offsets)
{
	side->lower = p->bound;
	for (uint32_t i = 0; i < p->n; i++) {
		uint64_t up = offsets[p->item[i]] + (uint64_t)unit - 1;
		int64_t top = (int64_t)(up / (uint64_t)unit) + p->size[i];

		if (top > side->height)
			side->height = top;
	}
}

static void side_store(const struct weir__exact_side *side,
		       const struct weir__exact_part *p, int64_t unit,
		       uint64_t *offsets)
{
	for (uint32_t i = 0; i < p->n && side->off; i++)
		offsets[p->item[i]] = (uint64_t)(side->off[i] * unit);
}

static struct weir__exact_result
exact_result(const struct weir__exact_team *team,
	     const struct weir__exact_item *items, size_t n,
	     const uint64_t *offsets)
{
	struct weir__exact_result result = {
		.bound = (uint64_t)(weir__exact_lower(team) * team->parts.unit),
		.nodes = team->nodes,
	};

	for (size_t i = 0; i < n; i++)
		if (items[i].bytes &&
		    offsets[i] + items[i].bytes > result.height)
			result.height = offsets[i] + items[i].bytes;
	result.proved =
		result.height == result.bound ||
		(team->opts->capacity && result.bound > team->opts->capacity);
	return result;
}

int weir__exact_place(const struct weir__exact_item *items, size_t n,
		      const struct weir__exact_opts *opts, uint64_t *offsets,
		      struct weir__exact_result *ret)
{
	struct weir__exact_team team = { .opts = opts, .step = INT64_MAX / 4 };
	struct weir__exact_parts *parts = &team.parts;
	int err = weir__exact_parts_new(items, n, parts);

	if (err)
		return err;
	pthread_mutex_init(&team.lock, NULL);
	team.enough = (int64_t)(opts->capacity / (uint64_t)parts->unit);
	team.side = weir__calloc(parts->n + 1, sizeof(*team.side));
	if (!team.side) {
		err = weir__fail(-ENOMEM, "no memory for %zu parts", parts->n);
		goto out;
	}
	for (size_t i = 0; i < parts->n; i++)
		side_begin(&team.side[i], &parts->part[i], parts->unit,
			   offsets);
	err = weir__exact_team_run(&team);
	/* Placements that were found before an error are valid, too. */
	for (size_t i = 0; i < parts->n; i++)
		side_store(&team.side[i], &parts->part[i], parts->unit,
			   offsets);
	for (size_t i = 0; i < n; i++)
		if (items[i].next)
			offsets[items[i].next - 1] = offsets[i];
	if (!err)
		*ret = exact_result(&team, items, n, offsets);
out:
	for (size_t i = 0; team.side && i < parts->n; i++)
		weir__free(team.side[i].off);
	weir__free(team.side);
	weir__exact_parts_free(parts);
	pthread_mutex_destroy(&team.lock);
	return err;
}
