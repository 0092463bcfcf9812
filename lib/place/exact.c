/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "place/exact_search.h"

/* What is known of one part, in units. */
struct exact_side {
	int64_t lower;  /* proved: no placement is lower */
	int64_t height; /* of the best placement */
	int64_t *off;   /* of each item in the best placement */
};

/* All threads of one call. */
struct exact_team {
	const struct weir__exact_opts *opts;
	struct weir__exact_parts parts;
	pthread_mutex_t lock;
	struct exact_side *side; /* of each part; under @lock, as all below */
	int64_t enough;          /* end at this height */
	int64_t step;            /* the height is to fall by this much */
	uint64_t turn, nodes;
	atomic_int over;
};

/* A height to try in every part that is above it. */
struct exact_try {
	int64_t cap;
	uint64_t budget;
	unsigned strategy;
	bool high; /* @cap is far from the lower bound, and near the height */
};

static int64_t team_lower(const struct exact_team *team)
{
	int64_t lower = 0;

	for (size_t i = 0; i < team->parts.n; i++)
		if (team->side[i].lower > lower)
			lower = team->side[i].lower;
	return lower;
}

static int64_t team_height(const struct exact_team *team)
{
	int64_t height = 0;

	for (size_t i = 0; i < team->parts.n; i++)
		if (team->side[i].height > height)
			height = team->side[i].height;
	return height;
}

static bool team_ended(void *arg)
{
	struct exact_team *team = arg;

	if (atomic_load_explicit(&team->over, memory_order_relaxed))
		return true;
	if (team->opts->stop &&
	    atomic_load_explicit(team->opts->stop, memory_order_relaxed))
		return true;
	return team->opts->deadline != INT64_MAX &&
	       weir__now() >= team->opts->deadline;
}

/* Call with the lock held. False: the result is known. */
static bool team_next(struct exact_team *team, struct exact_try *ret)
{
	int64_t lower = team_lower(team), height = team_height(team);
	uint64_t round = team->turn / 2;

	if (height <= lower || height <= team->enough ||
	    (team->enough && lower > team->enough))
		return false;
	ret->strategy = (unsigned)(round % WEIR__EXACT_STRATEGIES);
	ret->budget = 300 << (round / WEIR__EXACT_STRATEGIES);
	ret->cap = team->enough > lower ? team->enough : lower;
	ret->high = team->turn++ & 1 && !team->enough;
	if (team->step > height - lower)
		team->step = height - lower;
	if (ret->high)
		ret->cap = height - team->step;
	return true;
}

static void team_learn(struct exact_team *team, size_t part,
		       const struct weir__exact_search *s,
		       const struct exact_try *try,
		       enum weir__exact_outcome outcome)
{
	const struct weir__exact_part *p = &team->parts.part[part];
	struct exact_side *side = &team->side[part];
	int64_t height = 0;

	if (outcome == WEIR__EXACT_NEVER && side->lower <= try->cap)
		side->lower = try->cap + 1;
	if (outcome != WEIR__EXACT_FOUND)
		return;
	for (uint32_t i = 0; i < p->n; i++)
		if (s->off[i] + p->size[i] > height)
			height = s->off[i] + p->size[i];
	if (height >= side->height)
		return;
	side->height = height;
	memcpy(side->off, s->off, p->n * sizeof(*s->off));
}

/* Lower bounds that others have proved meanwhile are not looked at. */
static void team_try(struct exact_team *team, struct weir__exact_search *search,
		     const struct exact_try *try)
{
	enum weir__exact_outcome outcome = WEIR__EXACT_FOUND;

	for (size_t i = 0; i < team->parts.n; i++) {
		struct weir__exact_search *s = &search[i];
		uint64_t nodes = s->nodes;
		int64_t height;

		pthread_mutex_lock(&team->lock);
		height = team->side[i].height;
		pthread_mutex_unlock(&team->lock);
		if (height <= try->cap || !s->part)
			continue;
		outcome = weir__exact_search_run(s, try->strategy, try->cap,
						 try->budget);
		pthread_mutex_lock(&team->lock);
		team_learn(team, i, s, try, outcome);
		team->nodes += s->nodes - nodes;
		pthread_mutex_unlock(&team->lock);
		if (outcome != WEIR__EXACT_FOUND)
			break;
	}
	if (!try->high)
		return;
	pthread_mutex_lock(&team->lock);
	if (outcome == WEIR__EXACT_FOUND)
		team->step *= 2;
	else if (team->step > 1)
		team->step = (team->step + 1) / 2;
	pthread_mutex_unlock(&team->lock);
}

static int team_work(struct exact_team *team)
{
	struct weir__exact_search *search;
	struct exact_try try;
	int err = 0;

	search = weir__calloc(team->parts.n, sizeof(*search));
	if (!search)
		return weir__fail(-ENOMEM, "no memory for %zu parts",
				  team->parts.n);
	for (size_t i = 0; i < team->parts.n && !err; i++) {
		err = weir__exact_search_new(&team->parts.part[i], &search[i]);
		search[i].ended = team_ended;
		search[i].arg = team;
	}
	while (!err && !team_ended(team)) {
		bool more;

		pthread_mutex_lock(&team->lock);
		more = team_next(team, &try);
		pthread_mutex_unlock(&team->lock);
		if (!more)
			break;
		team_try(team, search, &try);
	}
	if (!err)
		atomic_store(&team->over, 1);
	for (size_t i = 0; i < team->parts.n; i++)
		weir__exact_search_free(&search[i]);
	weir__free(search);
	return err;
}

static int team_new(struct exact_team *team, const uint64_t *offsets)
{
	team->side = weir__calloc(team->parts.n, sizeof(*team->side));
	if (!team->side)
		return weir__fail(-ENOMEM, "no memory for %zu parts",
				  team->parts.n);
	for (size_t i = 0; i < team->parts.n; i++) {
		const struct weir__exact_part *p = &team->parts.part[i];
		struct exact_side *side = &team->side[i];
		int64_t unit = team->parts.unit;

		side->lower = p->bound;
		side->off = weir__calloc(p->n, sizeof(*side->off));
		if (!side->off)
			return weir__fail(-ENOMEM, "no memory for %u items",
					  p->n);
		for (uint32_t k = 0; k < p->n; k++) {
			uint64_t off = offsets[p->item[k]];
			int64_t top = (int64_t)((off + (uint64_t)unit - 1) /
						(uint64_t)unit) +
				      p->size[k];

			side->off[k] = -1;
			if (top > side->height)
				side->height = top;
		}
	}
	return 0;
}

static void team_result(struct exact_team *team,
			const struct weir__exact_item *items, size_t n,
			uint64_t *offsets, struct weir__exact_result *ret)
{
	uint64_t unit = (uint64_t)team->parts.unit;

	for (size_t i = 0; i < team->parts.n; i++) {
		const struct weir__exact_part *p = &team->parts.part[i];

		for (uint32_t k = 0; k < p->n && team->side[i].off[k] >= 0; k++)
			offsets[p->item[k]] =
				(uint64_t)team->side[i].off[k] * unit;
	}
	*ret = (struct weir__exact_result){ .nodes = team->nodes };
	ret->bound = (uint64_t)team_lower(team) * unit;
	for (size_t i = 0; i < n; i++)
		if (items[i].bytes && offsets[i] + items[i].bytes > ret->height)
			ret->height = offsets[i] + items[i].bytes;
	ret->proved =
		ret->height == ret->bound ||
		(team->opts->capacity && ret->bound > team->opts->capacity);
}

int weir__exact_place(const struct weir__exact_item *items, size_t n,
		      const struct weir__exact_opts *opts, uint64_t *offsets,
		      struct weir__exact_result *ret)
{
	struct exact_team team = { .opts = opts, .step = INT64_MAX / 4 };
	int err = weir__exact_parts_new(items, n, &team.parts);

	if (err)
		return err;
	pthread_mutex_init(&team.lock, NULL);
	team.enough = (int64_t)(opts->capacity / (uint64_t)team.parts.unit);
	err = team_new(&team, offsets);
	if (!err && team_lower(&team) < team_height(&team))
		err = team_work(&team);
	if (!err)
		team_result(&team, items, n, offsets, ret);
	for (size_t i = 0; team.side && i < team.parts.n; i++)
		weir__free(team.side[i].off);
	weir__free(team.side);
	weir__exact_parts_free(&team.parts);
	pthread_mutex_destroy(&team.lock);
	return err;
}
