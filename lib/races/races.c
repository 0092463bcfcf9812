/* SPDX-License-Identifier: MIT */
/*
 * The calls of the race checker: numbers that are known, native streams,
 * accesses, and the sentences of reports.
 */
#include "races/races.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "races/races_state.h"

#define PRUNE_MIN 1024u
#define WHO (sizeof(((struct weir__races_actor *)0)->label) + 64)

typedef unsigned long long ull;

/* Queue a line for the log: weir__races_flush writes it. */
static void report_say(struct weir__races *r, const char *text)
{
	size_t n = strlen(text) + 1;
	struct weir__races_line *line = weir__malloc(sizeof(*line) + n);

	if (!line)
		return;
	line->next = NULL;
	memcpy(line->text, text, n);
	*r->line_end = line;
	r->line_end = &line->next;
	atomic_store_explicit(&r->lines, true, memory_order_relaxed);
}

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

/* Enter, and find the actor of @tl. NULL, without the lock: there is none. */
static struct weir__races *enter_actor(const struct weir__timeline *tl,
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

/* An access that all operations to come know can race with none of them. */
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
		report_say(r, "races: no memory: nothing is checked any more");
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

/*
 * Native streams as actors: other code queues work in their queues too, and
 * several streams may be around one queue.
 */

void weir__races_native(struct weir__timeline *tl)
{
	struct weir__races_actor *a;
	struct weir__races *r = enter_actor(tl, &a);

	if (!r)
		return;
	a->native = true;
	weir__races_leave(r);
}

void weir__races_queue(struct weir__timeline *tl, const void *dev,
		       const void *handle)
{
	struct weir__races_actor *a;
	struct weir__races *r = enter_actor(tl, &a);

	if (!r)
		return;
	a->dev = dev;
	a->handle = handle;
	weir__races_leave(r);
}

/*
 * With which others the device orders the default queue, NULL, depends on how
 * they were made: assume all.
 */
static bool same_queue(const struct weir__races_actor *a,
		       const struct weir__races_actor *b)
{
	return a != b && b->dev == a->dev &&
	       (a->handle == b->handle || !a->handle || !b->handle);
}

/*
 * Operation @number of @a begins: it comes after all work that has begun in the
 * same queue.
 */
static void queue_begin(struct weir__races *r, struct weir__races_actor *a,
			uint64_t number)
{
	struct weir__clock *clock;

	if (!a->dev)
		return;
	clock = weir__clock_new(&r->clocks);
	if (!clock)
		return;
	for (uint32_t i = 0; i < WEIR__CLOCK_ORDERED; i++)
		if (same_queue(a, &r->actor[i]))
			weir__races_learn(r, &clock, &r->actor[i],
					  r->actor[i].tail);
	weir__races_join(r, a, number, clock);
	weir__clock_put(clock);
}

void weir__races_call_given(struct weir__timeline *tl, uint64_t at)
{
	struct weir__races_actor *a;
	struct weir__races *r = enter_actor(tl, &a);

	if (!r)
		return;
	if (a->given <= a->over)
		a->open = at;
	a->given = at;
	weir__races_leave(r);
}

void weir__races_call_over(struct weir__timeline *tl, uint64_t at)
{
	struct weir__races_actor *a;
	struct weir__races *r = enter_actor(tl, &a);

	if (!r)
		return;
	if (at > a->over) {
		a->over = at;
		a->open = at + 1;
	}
	weir__races_leave(r);
}

/*
 * True if number @number of @a (NULL: the host) comes after a function of
 * @native.
 */
static bool is_after(const struct weir__races_actor *native,
		     const struct weir__races_actor *a, uint64_t number,
		     const struct weir__clock *clock)
{
	uint64_t last = a == native ? number - 1
				    : weir__clock_word(clock, native->word);

	return last >= native->open;
}

/*
 * True if one of the two accesses comes after a function, in a native stream,
 * that has not returned. The function may order them.
 */
static bool comes_after_call(const struct weir__races *r,
			     const struct weir__races_by *by,
			     const struct weir__races_epoch *other)
{
	const struct weir__races_actor *o = &r->actor[other->actor], *a;

	for (a = r->actor; a < r->actor + WEIR__CLOCK_ORDERED; a++) {
		if (a->given <= a->over)
			continue;
		if (is_after(a, by->actor, by->number, *by->clock))
			return true;
		if (!weir__races_is_load(o) &&
		    is_after(a, o, other->number,
			     weir__races_at(o, other->number)))
			return true;
	}
	return false;
}

/*
 * True if @a knows of @epoch. Work of others that follows in its queue comes
 * after it.
 */
static bool native_knows(const struct weir__races *r,
			 const struct weir__races_actor *a,
			 const struct weir__races_epoch *epoch)
{
	return weir__races_known(r, weir__races_now(a), epoch) ||
	       (a->extra && weir__races_known(r, a->extra, epoch));
}

/* True if native streams may have ordered the two accesses, outside of weir. */
static bool native_may_order(const struct weir__races *r,
			     const struct weir__races_by *by,
			     const struct weir__races_epoch *other)
{
	const struct weir__races_actor *o = &r->actor[other->actor], *a;

	for (a = r->actor; a < r->actor + WEIR__CLOCK_ORDERED; a++)
		if (a->native &&
		    (a == by->actor || a == o || native_knows(r, a, other)))
			return true;
	return false;
}

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = hash_add(hash, (unsigned char)*text);
	return hash_add(hash, 256);
}

/* The description of an access, or NULL if another one has its place now. */
static const struct weir__races_info *
info_of(const struct weir__races *r, const struct weir__races_epoch *epoch)
{
	const struct weir__races_info *info = &r->info[epoch->info];

	return info->actor == epoch->actor && info->number == epoch->number
		       ? info
		       : NULL;
}

/*
 * True if this is the first report of two accesses by these actors, calls and
 * names.
 */
static bool is_new(struct weir__races *r, const struct weir__races_by *by,
		   const struct weir__races_epoch *other,
		   const struct weir__races_info *info)
{
	uint64_t hash = hash_text(1, by->actor ? by->actor->label : NULL);

	hash = hash_text(hash, r->actor[other->actor].label);
	hash = hash_text(hash, by->what);
	hash = hash_text(hash, by->bytes->name);
	hash = hash_text(hash, info ? info->what : NULL);
	hash = hash_text(hash, info ? info->name : NULL);
	for (unsigned i = 0; i < r->n_said; i++)
		if (r->said[i] == hash)
			return false;
	if (r->n_said == WEIR__RACES_REPORTS)
		return false;
	r->said[r->n_said++] = hash;
	return true;
}

/* Names an actor and its number: "stream 'a' operation 7". */
static void who(char text[WHO], const struct weir__races_actor *a,
		uint64_t number)
{
	if (!a)
		snprintf(text, WHO, "the program");
	else if (weir__races_is_load(a))
		snprintf(text, WHO, "tensor %llu of %s", (ull)number, a->label);
	else
		snprintf(text, WHO, "%s %s %llu", a->label, a->unit,
			 (ull)number);
}

/*
 * "bytes [0, 64) of 'w'"; of a tensor whose address is unknown: "64 bytes at".
 */
static void where(char text[128], const struct weir__races_bytes *b,
		  const struct weir__races_info *info, uint64_t lo, uint64_t hi)
{
	const char *name = b->name;
	uint64_t base = b->base;

	if (!name && info && info->name[0]) {
		name = info->name;
		base = info->base;
	}
	if (name && base && lo >= base)
		snprintf(text, 128, "bytes [%llu, %llu) of '%.40s'",
			 (ull)(lo - base), (ull)(hi - base), name);
	else
		snprintf(text, 128, "%llu bytes at %#llx%s%.40s%s",
			 (ull)(hi - lo), (ull)lo, name ? " ('" : "",
			 name ? name : "", name ? "')" : "");
}

static void needed(char text[3 * WHO], const struct weir__races_by *by,
		   const char *other)
{
	if (!by->actor)
		snprintf(text, 3 * WHO,
			 "the program needs to wait for %s before this call",
			 other);
	else if (weir__races_is_load(by->actor))
		snprintf(text, 3 * WHO,
			 "the program needs to wait for %s before it starts %s",
			 other, by->actor->label);
	else
		snprintf(text, 3 * WHO, "%s needs to wait for %s",
			 by->actor->label, other);
}

/* The end of a report that is wrong if the program has made such an order. */
static const char not_seen[] =
	"; orders of native streams that are made outside of weir are not seen";

/* Report that @by races with @other, which wrote or read [lo, hi). */
static void races_report(struct weir__races *r, const struct weir__races_by *by,
			 const struct weir__races_epoch *other, bool wrote,
			 uint64_t lo, uint64_t hi)
{
	const struct weir__races_info *info = info_of(r, other);
	char a[WHO], b[WHO], range[128], edge[3 * WHO], text[1100];

	if (!is_new(r, by, other, info))
		return;
	who(a, by->actor, by->number);
	who(b, &r->actor[other->actor], other->number);
	where(range, by->bytes, info, lo, hi);
	needed(edge, by, b);
	snprintf(
		text, sizeof(text),
		"race: %s (%s) %s %s, which %s (%s) %s, and nothing orders the two: %s%s",
		a, by->what, by->bytes->write ? "writes" : "reads", range, b,
		info && info->what ? info->what : "no longer known",
		wrote ? "writes" : "reads", edge,
		native_may_order(r, by, other) ? not_seen : "");
	report_say(r, text);
	if (r->n_said == WEIR__RACES_REPORTS)
		report_say(r, "race: others are not reported any more");
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
	struct weir__races *r = enter_actor(tl, &a);

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
	struct weir__races *r = enter_actor(tl, &a);

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
	struct weir__races *r = enter_actor(tl, &a);

	if (!r)
		return;
	a->tail = number;
	if (order->host && order->host->host > a->host) {
		a->host = order->host->host;
		weir__races_join(r, a, number, order->host);
	}
	if (order->extra)
		weir__races_join(r, a, number, order->extra);
	queue_begin(r, a, number);
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
	struct weir__races *r = enter_actor(tl, &a);

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
	struct weir__races *r = enter_actor(tl, &a);

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
	struct weir__races *r = enter_actor(tl, &a);

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
	    comes_after_call(c->r, by, other))
		return;
	races_report(c->r, by, other, wrote, lo, hi);
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
	struct weir__races *r = enter_actor(tl, &by.actor);
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
	struct weir__races *r = enter_actor(tl, &by.actor);
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
