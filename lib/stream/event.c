/* SPDX-License-Identifier: MIT */
/*
 * Events: recording, and how a thread, a poller and a clock learn that one is
 * done. Streams that wait are in wait.c.
 */
#include "stream/event.h"

#include <fcntl.h>

#include "core/clock.h"
#include "core/error.h"
#include "races/races.h"
#include "core/refs.h"
#include "core/root.h"
#include "core/sys.h"
#include "io/wakefd.h"
#include "stream/stream.h"

/*
 * A waiter that follows one record of an event that is timed or has a
 * descriptor. When the event is recorded again, the older stamp is removed from
 * its timeline's list; if it is being woken then, it frees itself afterwards.
 */
struct stamp {
	struct weir__waiter waiter; /* first member */
	_Atomic uint32_t refs;      /* event->stamp, and the list */
	struct weir_event *event;   /* referenced while it is on the list */
	struct weir__timeline *timeline; /* referenced */
	int64_t at;                      /* when the record ended; 0: not yet */
};

struct weir_event {
	_Atomic uint32_t refs; /* the caller's, and stamps' on lists */
	struct weir *weir;     /* referenced */
	unsigned flags;
	_Atomic bool done;    /* true: the record is known to be done; changed
			      with the lock */
	pthread_mutex_t lock; /* guards all below */
	struct weir__timeline *timeline; /* referenced; NULL: never recorded */
	uint64_t number;
	struct stamp *stamp; /* stamp of the record; NULL: it has none */
	int fd;              /* -1: not made */
	bool readable;       /* true while fd is readable */
};

static void event_put(struct weir_event *ev)
{
	if (!weir__refs_drop(&ev->refs))
		return;
	weir__sys_close(ev->fd);
	if (ev->timeline)
		weir__timeline_put(ev->timeline);
	pthread_mutex_destroy(&ev->lock);
	weir__root_put(ev->weir);
	weir__free(ev);
}

static void stamp_put(struct stamp *stamp)
{
	if (!stamp || !weir__refs_drop(&stamp->refs))
		return;
	weir__timeline_put(stamp->timeline);
	weir__free(stamp);
}

/* The event's lock is held. */
static void set_readable(struct weir_event *ev, bool readable)
{
	if (ev->fd < 0 || ev->readable == readable)
		return;
	ev->readable = readable;
	/* A program that polls the descriptor need not call the library. */
	if (readable && ev->timeline)
		weir__races_host_knows(ev->timeline, ev->number);
	weir__sys_eventfd_set(ev->fd, readable);
}

/* The event's lock is held: the record of @stamp is done or has failed. */
static void stamp_over(struct weir_event *ev, struct stamp *stamp)
{
	if (!stamp->at)
		stamp->at = weir__now();
	if (ev->stamp == stamp)
		set_readable(ev, true);
}

static void stamp_woken(struct weir__waiter *waiter)
{
	struct stamp *stamp = (struct stamp *)waiter;
	struct weir_event *ev = stamp->event;

	pthread_mutex_lock(&ev->lock);
	stamp_over(ev, stamp);
	pthread_mutex_unlock(&ev->lock);
	stamp_put(stamp);
	event_put(ev);
}

/* A stamp for the record (@tl, @number): one reference for the event, one
 * for the list. */
static int stamp_new(struct weir_event *ev, struct weir__timeline *tl,
		     uint64_t number, struct stamp **ret_stamp)
{
	struct stamp *stamp = weir__calloc(1, sizeof(*stamp));

	if (!stamp)
		return weir__fail(-ENOMEM, "no memory to follow the event");
	stamp->waiter.number = number;
	stamp->waiter.wake = stamp_woken;
	stamp->event = ev;
	stamp->timeline = weir__timeline_ref(tl);
	atomic_init(&stamp->refs, 2);
	*ret_stamp = stamp;
	return 0;
}

/*
 * Put the stamp on its timeline's list. The event's lock is held: the timeline
 * takes only its own locks, and stamp_woken blocks on the event's.
 */
static void stamp_list(struct weir_event *ev, struct stamp *stamp)
{
	weir__refs_add(&ev->refs, 1);
	if (weir__timeline_wait(stamp->timeline, &stamp->waiter) == 0)
		return;
	stamp_over(ev, stamp);
	/* Neither is the last reference: the event and the caller have one. */
	weir__refs_drop(&stamp->refs);
	weir__refs_drop(&ev->refs);
}

/*
 * The event's lock is held. If the stamp is being woken, stamp_woken drops its
 * references.
 */
static void stamp_unlist(struct weir_event *ev, struct stamp *stamp)
{
	if (!stamp || !weir__timeline_unwait(stamp->timeline, &stamp->waiter))
		return;
	weir__refs_drop(&stamp->refs);
	weir__refs_drop(&ev->refs);
}

int weir_event_new(struct weir *weir, unsigned flags,
		   struct weir_event **ret_event)
{
	struct weir_event *ev;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	if (flags & ~WEIR_EVENT_TIMED)
		return weir__fail(-EINVAL,
				  "event flags %#x: only %#x are known", flags,
				  WEIR_EVENT_TIMED);
	ev = weir__calloc(1, sizeof(*ev));
	if (!ev)
		return weir__fail(-ENOMEM, "no memory for an event");
	atomic_init(&ev->refs, 1);
	ev->weir = weir__root_ref(weir);
	ev->flags = flags;
	ev->fd = -1;
	pthread_mutex_init(&ev->lock, NULL);
	*ret_event = ev;
	return 0;
}

void weir_event_free(struct weir_event *event)
{
	struct stamp *stamp;

	if (!event || !weir__root_is_ours(event->weir))
		return;
	pthread_mutex_lock(&event->lock);
	stamp = event->stamp;
	event->stamp = NULL;
	stamp_unlist(event, stamp);
	pthread_mutex_unlock(&event->lock);
	stamp_put(stamp);
	event_put(event);
}

int weir__event_record(struct weir_event *event, struct weir__timeline *tl,
		       uint64_t number)
{
	struct stamp *stamp = NULL, *old;
	struct weir__timeline *previous;
	int r = 0;

	if (tl->weir != event->weir)
		return weir__fail(-EINVAL, "the event belongs to another root");
	pthread_mutex_lock(&event->lock);
	if (event->flags & WEIR_EVENT_TIMED || event->fd >= 0)
		r = stamp_new(event, tl, number, &stamp);
	if (r < 0) {
		pthread_mutex_unlock(&event->lock);
		return r;
	}
	previous = event->timeline;
	old = event->stamp;
	event->timeline = weir__timeline_ref(tl);
	event->number = number;
	atomic_store(&event->done, false);
	event->stamp = stamp;
	stamp_unlist(event, old);
	set_readable(event, false);
	if (stamp)
		stamp_list(event, stamp);
	pthread_mutex_unlock(&event->lock);
	stamp_put(old);
	if (previous)
		weir__timeline_put(previous);
	return 0;
}

static struct weir__timeline *event_source(struct weir_event *event,
					   uint64_t *ret_number)
{
	struct weir__timeline *tl;

	pthread_mutex_lock(&event->lock);
	tl = event->timeline ? weir__timeline_ref(event->timeline) : NULL;
	*ret_number = event->number;
	pthread_mutex_unlock(&event->lock);
	return tl;
}

int weir__event_get(struct weir_event *event, struct weir *weir,
		    struct weir__timeline **ret_timeline, uint64_t *ret_number)
{
	if (event->weir != weir)
		return weir__fail(-EINVAL, "the event belongs to another root");
	*ret_timeline = event_source(event, ret_number);
	return 0;
}

/* The record (@tl, @number) is done; the event may have a newer one. */
static void event_is_done(struct weir_event *event,
			  const struct weir__timeline *tl, uint64_t number)
{
	pthread_mutex_lock(&event->lock);
	if (event->timeline == tl && event->number == number)
		atomic_store(&event->done, true);
	pthread_mutex_unlock(&event->lock);
}

int weir__event_get_pending(struct weir_event *event, struct weir *weir,
			    struct weir__timeline **ret_timeline,
			    uint64_t *ret_number)
{
	struct weir__timeline *tl = NULL;
	int r;

	*ret_timeline = NULL;
	if (event->weir == weir && atomic_load(&event->done))
		return 0;
	r = weir__event_get(event, weir, &tl, ret_number);
	if (r < 0 || !tl)
		return r;
	if (tl->ops->state(tl, *ret_number, NULL) == 1) {
		event_is_done(event, tl, *ret_number);
		weir__timeline_put(tl);
		return 0;
	}
	*ret_timeline = tl;
	return 0;
}

/* Returns 1: done, 0: not yet, < 0: failed, with *@f set; else its err is 0. */
static int event_state(struct weir_event *ev, struct weir_failure *f)
{
	struct weir__timeline *tl;
	uint64_t number;
	int state = 1;

	*f = (struct weir_failure){ 0 };
	weir__unwaited = 0;
	tl = event_source(ev, &number);
	if (tl) {
		state = tl->ops->state(tl, number, f);
		if (state)
			weir__races_host_knows(tl, number);
		weir__timeline_put(tl);
	}
	return state;
}

int weir_event_query(struct weir_event *event)
{
	struct weir_failure f;
	int r;

	WEIR__ENTER();
	r = weir__root_read(event->weir);
	if (r < 0)
		return r;
	r = event_state(event, &f);
	return r < 0 ? weir__fail_with(&f) : r;
}

int weir_event_error(struct weir_event *event, struct weir_failure *ret_failure)
{
	struct weir_failure f;
	int r;

	WEIR__ENTER();
	r = weir__root_read(event->weir);
	if (r < 0)
		return r;
	r = event_state(event, &f);
	*ret_failure = f;
	return r < 0 ? weir__fail_with(&f) : 0;
}

int weir_event_wait(struct weir_event *event, int64_t timeout_ns)
{
	struct weir__timeline *tl;
	uint64_t number;
	int r;

	WEIR__ENTER();
	r = weir__root_read(event->weir);
	if (r < 0)
		return r;
	tl = event_source(event, &number);
	if (!tl)
		return 0;
	r = weir__timeline_block(tl, number, timeout_ns);
	weir__timeline_put(tl);
	return r;
}

/* The lock is held. Make the descriptor, and a stamp that makes it readable. */
static int event_make_fd(struct weir_event *ev)
{
	int fd = weir__sys_eventfd(), r;

	if (fd < 0)
		return weir__wakefd_fail(
			fd, "cannot make a descriptor of the event");
	r = weir__sys_set_flags(fd, O_NONBLOCK);
	if (r == 0 && ev->timeline && !ev->stamp) {
		r = stamp_new(ev, ev->timeline, ev->number, &ev->stamp);
		if (r == 0)
			stamp_list(ev, ev->stamp);
	}
	if (r < 0) {
		weir__sys_close(fd);
		return r;
	}
	ev->fd = fd;
	set_readable(ev, !ev->stamp || ev->stamp->at);
	return 0;
}

int weir_event_fd(struct weir_event *event)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(event->weir);
	if (r < 0)
		return r;
	pthread_mutex_lock(&event->lock);
	if (event->fd < 0)
		r = event_make_fd(event);
	if (r == 0)
		r = event->fd;
	pthread_mutex_unlock(&event->lock);
	return r;
}

/* Return when the event ended, and the device of its stream. */
static int event_ended_at(struct weir_event *ev, const char *which,
			  int64_t *ret_at, struct weir_dev **ret_dev)
{
	struct weir_failure f;
	int state;

	if (!(ev->flags & WEIR_EVENT_TIMED))
		return weir__fail(
			-EINVAL,
			"the %s event was made without WEIR_EVENT_TIMED",
			which);
	state = event_state(ev, &f);
	pthread_mutex_lock(&ev->lock);
	*ret_dev = ev->timeline ? weir__timeline_dev(ev->timeline) : NULL;
	/* Done, but its stamp is not woken yet: the event ends now. */
	if (state != 0 && ev->stamp && !ev->stamp->at)
		stamp_over(ev, ev->stamp);
	*ret_at = ev->stamp ? ev->stamp->at : 0;
	pthread_mutex_unlock(&ev->lock);
	if (!*ret_dev)
		return weir__fail(-EINVAL,
				  "the %s event was not recorded in a stream",
				  which);
	if (state == 0)
		return weir__fail(-EAGAIN, "the %s event is not done yet",
				  which);
	return state < 0 ? weir__fail_with(&f) : 0;
}

int weir_event_elapsed(struct weir_event *from, struct weir_event *to,
		       int64_t *ret_ns)
{
	struct weir_dev *dev[2];
	int64_t at[2];
	int r;

	WEIR__ENTER();
	r = weir__root_read(from->weir);
	if (r == 0)
		r = event_ended_at(from, "first", &at[0], &dev[0]);
	if (r == 0)
		r = event_ended_at(to, "second", &at[1], &dev[1]);
	if (r < 0)
		return r;
	if (dev[0] != dev[1])
		return weir__fail(
			-EINVAL,
			"the events are in streams of two devices, %s and %s",
			dev[0]->desc.name, dev[1]->desc.name);
	*ret_ns = at[1] - at[0];
	return 0;
}
