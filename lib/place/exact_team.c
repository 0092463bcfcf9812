/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/clock.h"
#include "core/cpus.h"
#include "core/error.h"
#include "core/sys.h"
#include "place/exact_team.h"

#define TEAM_NODES 300 /* of the first tries */

/* For WEIR__EXACT_ITEMS levels of recursion, with a sanitizer too. */
#define TEAM_STACK ((size_t)8 << 20)

int64_t weir__exact_lower(const struct weir__exact_team *team)
{
	int64_t lower = 0;

	for (size_t i = 0; i < team->parts.n; i++)
		if (team->side[i].lower > lower)
			lower = team->side[i].lower;
	return lower;
}

/* The largest height of all parts. */
static int64_t team_height(const struct weir__exact_team *team)
{
	int64_t height = 0;

	for (size_t i = 0; i < team->parts.n; i++)
		if (team->side[i].height > height)
			height = team->side[i].height;
	return height;
}

/* For struct weir__exact_search. Any thread, with or without the lock. */
static bool team_ended(void *arg)
{
	struct weir__exact_team *team = arg;
	const _Atomic bool *stop = team->opts->stop;

	if (atomic_load_explicit(&team->over, memory_order_relaxed))
		return true;
	if (stop && atomic_load_explicit(stop, memory_order_relaxed))
		return true;
	return team->opts->deadline != INT64_MAX &&
	       weir__now() >= team->opts->deadline;
}

/* The height that ends the search. With the lock. */
static int64_t team_end(const struct weir__exact_team *team)
{
	return team->opts->capacity ? team->enough : weir__exact_lower(team);
}

/* A part with too many items, which is not searched, is the highest. */
static bool team_is_stuck(const struct weir__exact_team *team, int64_t height)
{
	for (size_t i = 0; i < team->parts.n; i++)
		if (team->parts.part[i].n > WEIR__EXACT_ITEMS &&
		    team->side[i].height == height)
			return true;
	return false;
}

/*
 * The next try; false: the result is known, or no search can improve it. Two of
 * three are at the height that would end the search, the others at a goal,
 * which comes closer to the present height as long as it is missed. Each
 * strategy has its turn with few nodes, then with more and more: one that is
 * lucky needs few. With the lock.
 */
static bool team_next(struct weir__exact_team *team,
		      struct weir__exact_try *ret)
{
	int64_t lower = weir__exact_lower(team);
	int64_t height = team_height(team);
	int64_t end = team_end(team);
	bool goal = 2 * team->tries[1] < team->tries[0];
	uint64_t round = team->tries[goal]++;
	uint64_t cycle = round / WEIR__EXACT_STRATEGIES;

	if (height <= end || lower > end || team_is_stuck(team, height))
		return false;
	if (team->step > (height - end + 1) / 2)
		team->step = (height - end + 1) / 2;
	ret->cap = goal ? height - team->step : end;
	ret->strategy = (unsigned)(round % WEIR__EXACT_STRATEGIES);
	ret->budget = TEAM_NODES;
	for (uint64_t c = 0; c < cycle && c < 100; c++)
		ret->budget += ret->budget / 4;
	return true;
}

/* A placement of part @part was found. With the lock. */
static int team_found(struct weir__exact_team *team, size_t part,
		      const struct weir__exact_search *s)
{
	const struct weir__exact_part *p = &team->parts.part[part];
	struct weir__exact_side *side = &team->side[part];
	int64_t height = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (s->off[i] + p->size[i] > height)
			height = s->off[i] + p->size[i];
	if (height >= side->height)
		return 0;
	if (!side->off)
		side->off = weir__calloc(p->n, sizeof(*side->off));
	if (!side->off)
		return weir__fail(-ENOMEM, "no memory for %u offsets", p->n);
	side->height = height;
	memcpy(side->off, s->off, p->n * sizeof(*s->off));
	return 0;
}

/* True if part @i is too high for @cap, and small enough to be searched. */
static bool team_wants(struct weir__exact_team *team, size_t i, int64_t cap)
{
	bool wants;

	pthread_mutex_lock(&team->lock);
	wants = team->side[i].height > cap &&
		team->parts.part[i].n <= WEIR__EXACT_ITEMS;
	pthread_mutex_unlock(&team->lock);
	return wants;
}

/* @s is this thread's search of part @i; it is made when it is needed. */
static int team_search(struct weir__exact_team *team, size_t i,
		       struct weir__exact_search *s,
		       const struct weir__exact_try *try,
		       enum weir__exact_outcome *ret_outcome)
{
	struct weir__exact_try own = *try;
	uint64_t nodes = s->nodes;
	int err = 0;

	if (!s->part)
		err = weir__exact_search_new(&team->parts.part[i], team_ended,
					     team, s);
	if (err)
		return err;
	own.budget += s->part->n; /* a placement without a detour */
	*ret_outcome = weir__exact_search_run(s, &own);
	pthread_mutex_lock(&team->lock);
	team->nodes += s->nodes - nodes;
	if (*ret_outcome == WEIR__EXACT_FOUND)
		err = team_found(team, i, s);
	else if (*ret_outcome == WEIR__EXACT_NEVER &&
		 team->side[i].lower <= try->cap)
		team->side[i].lower = try->cap + 1;
	pthread_mutex_unlock(&team->lock);
	return err;
}

/* Bring every part under try->cap, or end at the first that does not fit. */
static int team_try(struct weir__exact_team *team,
		    struct weir__exact_search *search,
		    const struct weir__exact_try *try)
{
	enum weir__exact_outcome outcome = WEIR__EXACT_FOUND;
	int err = 0;

	for (size_t i = 0; i < team->parts.n; i++) {
		if (!team_wants(team, i, try->cap))
			continue;
		err = team_search(team, i, &search[i], try, &outcome);
		if (err || outcome != WEIR__EXACT_FOUND)
			break;
	}
	pthread_mutex_lock(&team->lock);
	if (outcome == WEIR__EXACT_FOUND)
		team->step *= 2;
	else if (try->cap > team_end(team))
		team->step = (team->step + 1) / 2;
	pthread_mutex_unlock(&team->lock);
	return err;
}

static int team_work(struct weir__exact_team *team)
{
	struct weir__exact_search *search =
		weir__calloc(team->parts.n, sizeof(*search));
	struct weir__exact_try try;
	bool more = true;
	int err = 0;

	if (!search)
		return weir__fail(-ENOMEM, "no memory for %zu parts",
				  team->parts.n);
	while (more && !err && !team_ended(team)) {
		pthread_mutex_lock(&team->lock);
		more = team_next(team, &try);
		pthread_mutex_unlock(&team->lock);
		if (more)
			err = team_try(team, search, &try);
	}
	if (!err)
		atomic_store(&team->over, true);
	for (size_t i = 0; i < team->parts.n; i++)
		weir__exact_search_free(&search[i]);
	weir__free(search);
	return err;
}

/* A thread that lacks memory leaves the work to the others. */
static void *team_thread(void *arg)
{
	(void)team_work(arg);
	return NULL;
}

static unsigned team_start(struct weir__exact_team *team, pthread_t *thread,
			   unsigned n)
{
	unsigned started = 0;

	/* A placement needs no root, so nobody else may have noted the CPUs. */
	weir__cpus_note();
	while (started < n &&
	       !weir__thread_start_stack(&thread[started], "weir-place",
					 TEAM_STACK, team_thread, team))
		started++;
	return started;
}

int weir__exact_team_run(struct weir__exact_team *team)
{
	unsigned others = team->opts->threads ? team->opts->threads - 1 : 0;
	pthread_t *thread = weir__calloc(others + 1, sizeof(*thread));
	int err;

	if (!thread)
		return weir__fail(-ENOMEM, "no memory for %u threads", others);
	others = team_start(team, thread, others);
	err = team_work(team);
	while (others > 0)
		pthread_join(thread[--others], NULL);
	weir__free(thread);
	return err;
}
