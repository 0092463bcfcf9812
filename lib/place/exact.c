/* SPDX-License-Identifier: MIT */
#include "place/exact.h"

#include <pthread.h>
#include <string.h>

#include "core/clock.h"
#include "core/cpus.h"
#include "core/error.h"
#include "core/sys.h"
#include "place/exact_search.h"

#define TEAM_NODES 300 /* most nodes of the first tries */

/* Enough for WEIR__EXACT_ITEMS levels of recursion, with a sanitizer too. */
#define TEAM_STACK ((size_t)8 << 20)

/* The results for one component so far, in units. */
struct exact_best {
	int64_t lower;  /* proved: no placement is lower */
	int64_t height; /* height of the best placement */
	int64_t *off;   /* its offsets; NULL: the caller's offsets */
};

/*
 * The threads of one exact placement. Each takes the next try, a height and a
 * strategy, and searches on its own. What it finds is shared.
 */
struct exact_team {
	const struct weir__exact_opts *opts;
	struct weir__exact_components components;
	int64_t enough; /* units: the capacity, if there is one */
	atomic_bool over;

	pthread_mutex_t lock;    /* guards the members below */
	struct exact_best *best; /* the best result of each component */
	int64_t step;      /* difference between the height and the next goal */
	uint64_t tries[2]; /* number of tries at the end, and at goals */
	uint64_t nodes;
};

/* The largest bound of all components. */
static int64_t team_lower(const struct exact_team *team)
{
	int64_t lower = 0;

	for (size_t i = 0; i < team->components.n; i++)
		if (team->best[i].lower > lower)
			lower = team->best[i].lower;
	return lower;
}

/* The largest height of all components. */
static int64_t team_height(const struct exact_team *team)
{
	int64_t height = 0;

	for (size_t i = 0; i < team->components.n; i++)
		if (team->best[i].height > height)
			height = team->best[i].height;
	return height;
}

/* True if the search has to end. Any thread, with or without the lock. */
static bool team_ended(void *arg)
{
	struct exact_team *team = arg;
	const _Atomic bool *stop = team->opts->stop;

	if (atomic_load_explicit(&team->over, memory_order_relaxed))
		return true;
	if (stop && atomic_load_explicit(stop, memory_order_relaxed))
		return true;
	return team->opts->deadline != INT64_MAX &&
	       weir__now() >= team->opts->deadline;
}

/* The height that ends the search. With the lock. */
static int64_t team_end(const struct exact_team *team)
{
	return team->opts->capacity ? team->enough : team_lower(team);
}

/* True if the highest component has too many items to be searched. */
static bool team_is_stuck(const struct exact_team *team, int64_t height)
{
	for (size_t i = 0; i < team->components.n; i++)
		if (team->components.component[i].n > WEIR__EXACT_ITEMS &&
		    team->best[i].height == height)
			return true;
	return false;
}

/*
 * Choose the next try. False: the result is known, or no search can improve it.
 * Two of three tries are at the height that would end the search, the others at
 * a goal, which comes closer to the present height as long as it is missed. The
 * strategies are tried in turn, with few nodes first and then with more and
 * more: one that is lucky needs few. With the lock.
 */
static bool team_next(struct exact_team *team, struct weir__exact_try *ret)
{
	int64_t lower = team_lower(team);
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

/*
 * Store the placement @off of component @component, if it is lower. With the
 * lock.
 */
static int team_found(struct exact_team *team, size_t component,
		      const int64_t *off)
{
	const struct weir__exact_component *p =
		&team->components.component[component];
	struct exact_best *best = &team->best[component];
	int64_t height = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (off[i] + p->size[i] > height)
			height = off[i] + p->size[i];
	if (height >= best->height)
		return 0;
	if (!best->off)
		best->off = weir__calloc(p->n, sizeof(*best->off));
	if (!best->off)
		return weir__fail(-ENOMEM, "no memory for %u offsets", p->n);
	best->height = height;
	memcpy(best->off, off, p->n * sizeof(*off));
	return 0;
}

/*
 * True if component @i is too high for @cap, and small enough to be searched.
 */
static bool team_wants(struct exact_team *team, size_t i, int64_t cap)
{
	bool wants;

	pthread_mutex_lock(&team->lock);
	wants = team->best[i].height > cap &&
		team->components.component[i].n <= WEIR__EXACT_ITEMS;
	pthread_mutex_unlock(&team->lock);
	return wants;
}

/* *s is this thread's search of component @i; it is made when it is needed. */
static int team_search(struct exact_team *team, size_t i,
		       struct weir__exact_search **s,
		       const struct weir__exact_try *try,
		       enum weir__exact_outcome *ret_outcome)
{
	const struct weir__exact_component *p = &team->components.component[i];
	struct weir__exact_try own = *try;
	uint64_t nodes;
	int err = 0;

	if (!*s)
		err = weir__exact_search_new(p, team_ended, team, s);
	if (err)
		return err;
	own.budget += p->n; /* a placement without a detour */
	*ret_outcome = weir__exact_search_run(*s, &own, &nodes);
	pthread_mutex_lock(&team->lock);
	team->nodes += nodes;
	if (*ret_outcome == WEIR__EXACT_FOUND)
		err = team_found(team, i, weir__exact_search_offsets(*s));
	else if (*ret_outcome == WEIR__EXACT_NEVER &&
		 team->best[i].lower <= try->cap)
		team->best[i].lower = try->cap + 1;
	pthread_mutex_unlock(&team->lock);
	return err;
}

/*
 * Bring every component under try->cap, or end at the first that does not fit.
 */
static int team_try(struct exact_team *team, struct weir__exact_search **search,
		    const struct weir__exact_try *try)
{
	enum weir__exact_outcome outcome = WEIR__EXACT_FOUND;
	int err = 0;

	for (size_t i = 0; i < team->components.n; i++) {
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

static int team_work(struct exact_team *team)
{
	struct weir__exact_search **search =
		weir__calloc(team->components.n, sizeof(*search));
	struct weir__exact_try try;
	bool more = true;
	int err = 0;

	if (!search)
		return weir__fail(-ENOMEM, "no memory for %zu components",
				  team->components.n);
	while (more && !err && !team_ended(team)) {
		pthread_mutex_lock(&team->lock);
		more = team_next(team, &try);
		pthread_mutex_unlock(&team->lock);
		if (more)
			err = team_try(team, search, &try);
	}
	if (!err)
		atomic_store(&team->over, true);
	for (size_t i = 0; i < team->components.n; i++)
		weir__exact_search_free(search[i]);
	weir__free(search);
	return err;
}

/* A thread that lacks memory leaves the work to the others. */
static void *team_thread(void *arg)
{
	(void)team_work(arg);
	return NULL;
}

static unsigned team_start(struct exact_team *team, pthread_t *thread,
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

static int team_run(struct exact_team *team)
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

/* Begin with the caller's placement of component @p. */
static void best_begin(struct exact_best *best,
		       const struct weir__exact_component *p, int64_t unit,
		       const uint64_t *offsets)
{
	best->lower = p->bound;
	for (uint32_t i = 0; i < p->n; i++) {
		uint64_t up = offsets[p->item[i]] + (uint64_t)unit - 1;
		int64_t top = (int64_t)(up / (uint64_t)unit) + p->size[i];

		if (top > best->height)
			best->height = top;
	}
}

static void best_store(const struct exact_best *best,
		       const struct weir__exact_component *p, int64_t unit,
		       uint64_t *offsets)
{
	for (uint32_t i = 0; i < p->n && best->off; i++)
		offsets[p->item[i]] = (uint64_t)(best->off[i] * unit);
}

static struct weir__exact_result
exact_result(const struct exact_team *team,
	     const struct weir__exact_item *items, size_t n,
	     const uint64_t *offsets)
{
	struct weir__exact_result result = {
		.bound = (uint64_t)(team_lower(team) * team->components.unit),
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
	struct exact_team team = { .opts = opts, .step = INT64_MAX / 4 };
	struct weir__exact_components *components = &team.components;
	int err = weir__exact_components_new(items, n, components);

	if (err)
		return err;
	pthread_mutex_init(&team.lock, NULL);
	team.enough = (int64_t)(opts->capacity / (uint64_t)components->unit);
	team.best = weir__calloc(components->n + 1, sizeof(*team.best));
	if (!team.best) {
		err = weir__fail(-ENOMEM, "no memory for %zu components",
				 components->n);
		goto out;
	}
	for (size_t i = 0; i < components->n; i++)
		best_begin(&team.best[i], &components->component[i],
			   components->unit, offsets);
	err = team_run(&team);
	/* Placements that were found before an error are valid, too. */
	for (size_t i = 0; i < components->n; i++)
		best_store(&team.best[i], &components->component[i],
			   components->unit, offsets);
	for (size_t i = 0; i < n; i++)
		if (items[i].next)
			offsets[items[i].next - 1] = offsets[i];
	if (!err)
		*ret = exact_result(&team, items, n, offsets);
out:
	for (size_t i = 0; team.best && i < components->n; i++)
		weir__free(team.best[i].off);
	weir__free(team.best);
	weir__exact_components_free(components);
	pthread_mutex_destroy(&team.lock);
	return err;
}
