/* SPDX-License-Identifier: MIT */
#include "races/races.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "races/races_in.h"
#include "core/sys.h"

#define PRUNE_MIN 1024u

static void races_free(struct weir *weir)
{
	struct weir__races *r = weir->races;
	struct weir__races_line *line;
	struct weir__clock *clock;

	while ((line = r->line)) {
		r->line = line->next;
		weir__free(line);
	}
	weir__races_map_fini(&r->map);
	while ((clock = r->clocks.list)) {
		r->clocks.list = clock->next;
		weir__free(clock);
	}
	weir__free(r->actor);
	weir__free(r->info);
	pthread_mutex_destroy(&r->lock);
	weir__free(r);
	weir->races = NULL;
	weir->observer = NULL;
}

static void observe_wait(struct weir__timeline *tl, uint64_t number)
{
	weir__races_host_knew(tl, number);
	weir__races_flush(tl->weir);
}

static const struct weir__timeline_observer observer = {
	.waited = observe_wait,
	.gone = weir__races_del,
	.free = races_free,
};

int weir__races_start(struct weir *weir)
{
	struct weir__races *r = weir__calloc(1, sizeof(*r));

	if (!r)
		return weir__fail(-ENOMEM, "no memory to check for races");
	pthread_mutex_init(&r->lock, NULL);
	r->line_end = &r->line;
	r->prune_at = PRUNE_MIN;
	r->clocks.n = 1;
	r->actor = weir__calloc(WEIR__RACES_ACTORS, sizeof(*r->actor));
	r->info = weir__calloc(WEIR__RACES_INFOS, sizeof(*r->info));
	r->host = weir__clock_new(&r->clocks);
	weir->races = r;
	weir->observer = &observer;
	if (!r->actor || !r->info || !r->host) {
		races_free(weir);
		return weir__fail(-ENOMEM, "no memory to check for races");
	}
	r->host->host = ++r->states;
	return 0;
}

struct weir__races *weir__races_enter(const struct weir *weir)
{
	struct weir__races *r = weir->races;

	if (!r)
		return NULL;
	pthread_mutex_lock(&r->lock);
	if (!r->off)
		return r;
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

struct weir__races *
weir__races_enter_actor(const struct weir__timeline *tl,
			struct weir__races_actor **ret_actor)
{
	struct weir__races *r = weir__races_enter(tl->weir);

	if (!r)
		return NULL;
	*ret_actor = weir__races_actor(r, tl);
	if (*ret_actor)
		return r;
	weir__races_leave(r);
	return NULL;
}

struct oldest {
	const struct weir__races *r;
	const struct weir__clock *host;
};

/* If all operations that are still to begin know it, it can race with none. */
static bool is_old(void *arg, const struct weir__races_epoch *epoch)
{
	const struct oldest *oldest = arg;

	return weir__races_known(oldest->r, oldest->host, epoch);
}

static void races_prune(struct weir__races *r)
{
	struct oldest oldest = { r, weir__clocks_oldest_host(&r->clocks) };

	weir__races_map_prune(&r->map, WEIR__RACES_RANGES / 2, is_old, &oldest);
	r->prune_at = 2 * r->map.n;
	if (r->prune_at < PRUNE_MIN)
		r->prune_at = PRUNE_MIN;
	if (r->prune_at > WEIR__RACES_RANGES)
		r->prune_at = WEIR__RACES_RANGES;
}

void weir__races_leave(struct weir__races *r)
{
	if (r->map.n > r->prune_at)
		races_prune(r);
	if (r->clocks.no_memory || r->map.no_memory) {
		r->off = true;
		weir__races_say(
			r, "races: no memory: nothing is checked any more");
	}
	pthread_mutex_unlock(&r->lock);
}

void weir__races_flush(struct weir *weir)
{
	struct weir__races *r = weir->races;
	struct weir__races_line *list, *line;

	if (!atomic_load_explicit(&r->lines, memory_order_relaxed))
		return;
	pthread_mutex_lock(&r->lock);
	list = r->line;
	r->line = NULL;
	r->line_end = &r->line;
	atomic_store_explicit(&r->lines, false, memory_order_relaxed);
	pthread_mutex_unlock(&r->lock);
	while ((line = list)) {
		list = line->next;
		weir__log(weir, "%s", line->text);
		weir__free(line);
	}
}

void weir__races_host_knew(struct weir__timeline *tl, uint64_t number)
{
	struct weir__races *r = weir__races_enter(tl->weir);

	if (!r)
		return;
	weir__races_host_learn(r, weir__races_actor(r, tl), number);
	weir__races_leave(r);
}

void weir__races_next_knew(struct weir__timeline *tl,
			   struct weir__timeline *other, uint64_t number)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	if (!a->extra)
		a->extra = weir__clock_new(&r->clocks);
	if (a->extra)
		weir__races_learn(r, &a->extra, weir__races_actor(r, other),
				  number);
	weir__races_leave(r);
}

void weir__races_queued(struct weir__timeline *tl,
			struct weir__races_order *order)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	order->host = weir__clock_ref(r->host);
	order->extra = a->extra;
	a->extra = NULL;
	weir__races_leave(r);
}

static void order_put(struct weir__races_order *order)
{
	weir__clock_put(order->host);
	weir__clock_put(order->extra);
	order->host = NULL;
	order->extra = NULL;
}

void weir__races_order_drop(struct weir *weir, struct weir__races_order *order)
{
	if (!order->host && !order->extra)
		return;
	pthread_mutex_lock(&weir->races->lock);
	order_put(order);
	pthread_mutex_unlock(&weir->races->lock);
}

void weir__races_begin(struct weir__timeline *tl, uint64_t number,
		       struct weir__races_order *order)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	a->tail = number;
	if (order->host && order->host->host > a->host) {
		a->host = order->host->host;
		weir__races_join(r, a, number, order->host);
	}
	if (order->extra)
		weir__races_join(r, a, number, order->extra);
	weir__races_queue_begin(r, a, number);
	order_put(order);
	weir__races_leave(r);
}

static void actor_learn(struct weir__races *r, struct weir__races_actor *a,
			uint64_t at, const struct weir__races_actor *other,
			uint64_t number)
{
	struct weir__clock *clock = weir__clock_new(&r->clocks);

	if (a->tail < at)
		a->tail = at;
	if (!clock)
		return;
	weir__races_learn(r, &clock, other, number);
	weir__races_join(r, a, at, clock);
	weir__clock_put(clock);
}

void weir__races_waited(struct weir__timeline *tl, uint64_t at,
			struct weir__timeline *other, uint64_t number)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	if (tl != other)
		actor_learn(r, a, at, weir__races_actor(r, other), number);
	weir__races_leave(r);
}

void weir__races_inside(struct weir__timeline *tl, uint64_t at,
			struct weir__timeline *other, uint64_t number)
{
	struct weir__races_actor *a, *outer;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	outer = weir__races_actor(r, other);
	actor_learn(r, a, at, outer, number - 1);
	if (outer)
		weir__races_join(r, a, at, weir__races_now(outer));
	weir__races_leave(r);
}

void weir__races_call_begin(struct weir__timeline *tl, uint64_t at)
{
	struct weir__races *r = weir__races_enter(tl->weir);
	struct weir__races_actor *a;

	if (!r)
		return;
	a = weir__races_actor(r, tl);
	weir__races_host_learn(r, a, at - 1);
	if (a)
		weir__races_host_join(r, weir__races_at(a, at));
	weir__races_leave(r);
}

void weir__races_call_end(struct weir__timeline *tl, uint64_t at)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	weir__races_join(r, a, at, r->host);
	weir__races_leave(r);
}

uint64_t weir__races_device(const void *dev)
{
	return (uintptr_t)dev;
}

uint64_t weir__races_file(uint64_t dev, uint64_t inode)
{
	uint64_t hash = (dev ^ (inode << 32 | inode >> 32)) *
			UINT64_C(0x9e3779b97f4a7c15);

	return (hash ^ hash >> 29) | UINT64_C(1) << 63;
}

static uint32_t info_keep(struct weir__races *r,
			  const struct weir__races_by *by)
{
	uint32_t i = r->n_infos++ % WEIR__RACES_INFOS;
	struct weir__races_info *info = &r->info[i];

	info->actor = weir__races_index(r, by->actor);
	info->number = by->number;
	info->what = by->what;
	info->base = by->bytes->base;
	snprintf(info->name, sizeof(info->name), "%s",
		 by->bytes->name ? by->bytes->name : "");
	return i;
}

struct check {
	struct weir__races *r;
	const struct weir__races_by *by;
};

/*
 * After a report the actor learns the other's number, as if the program made
 * the missing wait: other races that the same wait prevents are not reported.
 */
static void on_conflict(void *arg, const struct weir__races_epoch *other,
			bool wrote, uint64_t lo, uint64_t hi)
{
	const struct check *c = arg;
	const struct weir__races_by *by = c->by;
	const struct weir__races_actor *a = &c->r->actor[other->actor];

	if (a == by->actor || weir__races_known(c->r, *by->clock, other) ||
	    weir__races_after_call(c->r, by, other))
		return;
	weir__races_report(c->r, by, other, wrote, lo, hi);
	if (by->actor)
		weir__races_learn(c->r, by->clock, a, other->number);
	else
		weir__races_host_learn(c->r, a, other->number);
}

static bool visit_old(void *arg, const struct weir__races_epoch *epoch)
{
	const struct check *c = arg;

	return weir__races_known(c->r, c->r->host, epoch);
}

/* The first rows of an access, which are checked; later ones are not. */
#define ROWS 256u

/* Compare an access with others, and record it if it is not the host's. */
static void access_check(struct weir__races *r, const struct weir__races_by *by)
{
	const struct weir__races_bytes *b = by->bytes;
	struct check check = { r, by };
	struct weir__races_visit v = { .space = b->space,
				       .write = b->write,
				       .by.actor = WEIR__RACES_NOBODY,
				       .conflict = on_conflict,
				       .old = visit_old,
				       .arg = &check };
	bool one = b->rows <= 1 || b->pitch == b->width;
	uint64_t rows = one ? 1 : b->rows < ROWS ? b->rows : ROWS;

	if (!b->width || !b->rows)
		return;
	if (by->actor) {
		v.by.actor = weir__races_index(r, by->actor);
		v.by.number = by->number;
		v.by.info = info_keep(r, by);
	}
	for (uint64_t i = 0; i < rows; i++) {
		v.lo = b->lo + i * b->pitch;
		v.hi = v.lo + (one ? b->width * b->rows : b->width);
		weir__races_map_visit(&r->map, &v);
	}
}

void weir__races_access(struct weir__timeline *tl, uint64_t number,
			const char *what, const struct weir__races_bytes *bytes)
{
	struct weir__races_by by = { .number = number,
				     .what = what,
				     .bytes = bytes };
	struct weir__races *r = weir__races_enter_actor(tl, &by.actor);
	struct weir__clock *clock;

	if (!r)
		return;
	if (by.actor->tail < number)
		by.actor->tail = number;
	clock = weir__clock_ref(weir__races_now(by.actor));
	by.clock = &clock;
	access_check(r, &by);
	weir__races_version_set(by.actor, number, clock);
	weir__races_leave(r);
}

/* Each tensor of a load knows what the host knows when the load starts. */
void weir__races_load_writes(struct weir__timeline *tl, uint64_t i,
			     const struct weir__races_bytes *bytes)
{
	struct weir__races_by by = { .number = i,
				     .what = "load",
				     .bytes = bytes };
	struct weir__races *r = weir__races_enter_actor(tl, &by.actor);
	struct weir__clock *clock;

	if (!r)
		return;
	clock = weir__clock_ref(r->host);
	by.clock = &clock;
	access_check(r, &by);
	weir__clock_put(clock);
	weir__races_leave(r);
}

void weir__races_host_access(struct weir *weir, const char *what,
			     const struct weir__races_bytes *bytes)
{
	struct weir__races *r = weir__races_enter(weir);
	struct weir__races_by by = { .what = what, .bytes = bytes };

	if (!r)
		return;
	by.clock = &r->host;
	access_check(r, &by);
	weir__races_leave(r);
	weir__races_flush(weir);
}

static void on_waited(void *arg, const struct weir__races_epoch *other,
		      bool wrote, uint64_t lo, uint64_t hi)
{
	struct weir__races *r = arg;

	(void)wrote;
	(void)lo;
	(void)hi;
	weir__races_host_learn(r, &r->actor[other->actor], other->number);
}

void weir__races_host_waited(struct weir *weir,
			     const struct weir__races_bytes *bytes)
{
	struct weir__races *r = weir__races_enter(weir);
	struct weir__races_visit v = { .space = bytes->space,
				       .lo = bytes->lo,
				       .hi = bytes->lo + bytes->width,
				       .write = bytes->write,
				       .by.actor = WEIR__RACES_NOBODY,
				       .conflict = on_waited,
				       .arg = r };

	if (!r)
		return;
	weir__races_map_visit(&r->map, &v);
	weir__races_leave(r);
}

void weir__races_forget(struct weir *weir, uint64_t space, uint64_t lo,
			uint64_t hi)
{
	struct weir__races *r = weir__races_enter(weir);

	if (!r)
		return;
	weir__races_map_forget(&r->map, space, lo, hi);
	weir__races_leave(r);
}
