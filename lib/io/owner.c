/* SPDX-License-Identifier: MIT */
/*
 * Whose turn it is at a reactor, and how others reach it: see enum weir__owner.
 *
 * Who changes the word from FREE has the turn. What was posted or kicked while
 * somebody had it is his to find: after he has given it up he looks once more.
 */
#include <errno.h>
#include <unistd.h>

#include "core/sys.h"
#include "io/reactor.h"

static void push(struct weir__reactor *r, struct weir__msg *msg)
{
	struct weir__msg *head =
		atomic_load_explicit(&r->inbox, memory_order_relaxed);

	do
		msg->next = head;
	while (!atomic_compare_exchange_weak(&r->inbox, &head, msg));
}

static bool change(struct weir__reactor *r, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong(&r->owner, &from, to);
}

/*
 * The program may have closed the eventfd, as daemons close all descriptors, and
 * have opened something else under its number.
 */
static bool is_ours(struct weir__reactor *r)
{
	return weir__sys_file_id(atomic_load(&r->eventfd)) ==
	       atomic_load(&r->eventfd_id);
}

int weir__wakefd_open(struct weir__reactor *r)
{
	int fd = weir__sys_eventfd();

	if (fd < 0)
		return fd;
	atomic_store(&r->eventfd_id, weir__sys_file_id(fd));
	atomic_store(&r->eventfd, fd);
	return 0;
}

void weir__wakefd_close(struct weir__reactor *r)
{
	if (is_ours(r))
		weir__sys_close(atomic_load(&r->eventfd));
}

void weir__wakefd_drain(struct weir__reactor *r)
{
	if (is_ours(r))
		weir__sys_eventfd_set(atomic_load(&r->eventfd), false);
}

bool weir__wakefd_check(struct weir__reactor *r)
{
	bool ours = is_ours(r);
	int err;

	if (ours && !atomic_load(&r->wakeup_lost))
		return false;
	/* Under the same number, since others may be about to write to it. */
	err = ours ? weir__sys_eventfd_renew(atomic_load(&r->eventfd))
		   : weir__wakefd_open(r);
	if (!ours && !err)
		weir__log(
			r->eng->weir,
			"reactor %u: its eventfd was closed by the program; it has a new one",
			r->index);
	atomic_store(&r->wakeup_lost, err < 0);
	return err == 0;
}

/*
 * The turn is the thread's, which sleeps. Where it cannot be woken it looks by
 * itself (weir__reactor_max_sleep).
 */
static void rouse(struct weir__reactor *r)
{
	if (!is_ours(r) ||
	    weir__sys_eventfd_set(atomic_load(&r->eventfd), true) < 0)
		atomic_store(&r->wakeup_lost, true);
}

static void wake(struct weir__reactor *r)
{
	if (change(r, WEIR__OWNER_NONE, WEIR__OWNER_THREAD))
		rouse(r);
}

void weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg)
{
	push(r, msg);
	wake(r);
}

void weir__reactor_wake(struct weir__reactor *r)
{
	atomic_fetch_add(&r->wakes, 1);
	wake(r);
}

static bool is_quiet(struct weir__reactor *r, uint32_t wakes_seen)
{
	return !atomic_load(&r->inbox) && atomic_load(&r->wakes) == wakes_seen;
}

bool weir__reactor_quiet(struct weir__reactor *r)
{
	return is_quiet(r, r->wakes_seen);
}

bool weir__reactor_release(struct weir__reactor *r)
{
	uint32_t seen = r->wakes_seen;

	atomic_store(&r->owner, WEIR__OWNER_NONE);
	return is_quiet(r, seen);
}

bool weir__reactor_acquire(struct weir__reactor *r)
{
	for (;;) {
		if (change(r, WEIR__OWNER_NONE, WEIR__OWNER_THREAD))
			return true;
		if (atomic_load(&r->owner) == WEIR__OWNER_THREAD)
			return false;
		if (!change(r, WEIR__OWNER_BORROWER, WEIR__OWNER_WANTED))
			continue;
		while (atomic_load(&r->owner) == WEIR__OWNER_WANTED)
			weir__futex_wait(&r->owner, WEIR__OWNER_WANTED,
					 INT64_MAX);
		return true;
	}
}

/* What it could not do is the thread's. */
static void give_to_thread(struct weir__reactor *r)
{
	if (atomic_exchange(&r->owner, WEIR__OWNER_THREAD) ==
	    WEIR__OWNER_WANTED)
		weir__futex_wake(&r->owner, 1);
	else
		rouse(r);
}

/* True: there is more to do. */
static bool give_back(struct weir__reactor *r)
{
	uint32_t seen = r->wakes_seen;
	bool needed = r->thread_needed;

	if (needed || !change(r, WEIR__OWNER_BORROWER, WEIR__OWNER_NONE)) {
		give_to_thread(r);
		return false;
	}
	return !is_quiet(r, seen);
}

void weir__reactor_post_or_borrow(struct weir__reactor *r,
				  struct weir__msg *msg)
{
	push(r, msg);
	do {
		if (!change(r, WEIR__OWNER_NONE, WEIR__OWNER_BORROWER))
			return;
		do
			weir__reactor_iterate(r);
		while (!r->thread_needed && !weir__reactor_quiet(r) &&
		       atomic_load(&r->owner) == WEIR__OWNER_BORROWER);
	} while (give_back(r));
}
