/* SPDX-License-Identifier: MIT */
/*
 * Native streams as actors of the race checker. Other code queues work in their
 * queues too, and several streams may be around one queue.
 */
#include "races/races_in.h"

void weir__races_native(struct weir__timeline *tl)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

	if (!r)
		return;
	a->native = true;
	weir__races_leave(r);
}

void weir__races_queue(struct weir__timeline *tl, const void *dev,
		       const void *handle)
{
	struct weir__races_actor *a;
	struct weir__races *r = weir__races_enter_actor(tl, &a);

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

void weir__races_queue_begin(struct weir__races *r, struct weir__races_actor *a,
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
	struct weir__races *r = weir__races_enter_actor(tl, &a);

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
	struct weir__races *r = weir__races_enter_actor(tl, &a);

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

bool weir__races_after_call(const struct weir__races *r,
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

bool weir__races_by_native(const struct weir__races *r,
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
