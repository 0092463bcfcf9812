/* SPDX-License-Identifier: MIT */
#include "model/load/ended.h"

#include <errno.h>
#include <fcntl.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"

#define ENDED_SLEEPER 1u /* threads sleep on `waiting` */
#define ENDED_FD 2u      /* the descriptor is not readable */
#define ENDED_WAKE 4u    /* added at each wake: the bits above are a count */

void weir__ended_init(struct weir__ended *e, _Atomic size_t *entry, size_t n)
{
	e->n = n;
	e->entry = entry;
	pthread_mutex_init(&e->lock, NULL);
}

void weir__ended_fini(struct weir__ended *e)
{
	weir__ended_close_fd(e);
	pthread_mutex_destroy(&e->lock);
}

/* Would weir__ended_take return at once? */
static bool ended_ready(struct weir__ended *e)
{
	size_t at = atomic_load(&e->n_taken);

	return at == e->n || atomic_load(&e->entry[at]);
}

/*
 * The lock is held. Make the descriptor readable or not, as the queue is now.
 * If it is not readable, ENDED_FD is set, and the next completer does this.
 */
static void ended_set_fd(struct weir__ended *e)
{
	bool ready;

	atomic_fetch_or(&e->waiting, ENDED_FD);
	ready = ended_ready(e);
	if (ready)
		atomic_fetch_and(&e->waiting, ~ENDED_FD);
	if (ready == e->readable)
		return;
	e->readable = ready;
	if (ready)
		weir__wakefd_signal(&e->fd);
	else
		weir__wakefd_drain(&e->fd);
}

static void ended_update_fd(struct weir__ended *e)
{
	pthread_mutex_lock(&e->lock);
	if (atomic_load(&e->has_fd))
		ended_set_fd(e);
	pthread_mutex_unlock(&e->lock);
}

/*
 * If another thread changes @waiting at the same time, it is a completer, which
 * wakes all, or ENDED_FD changes: then try again.
 */
static void ended_wake_sleepers(struct weir__ended *e)
{
	uint32_t waiting = atomic_load(&e->waiting);

	while (waiting & ENDED_SLEEPER)
		if (atomic_compare_exchange_weak(&e->waiting, &waiting,
						 waiting - ENDED_SLEEPER +
							 ENDED_WAKE)) {
			weir__futex_wake(&e->waiting, INT32_MAX);
			return;
		}
}

void weir__ended_add(struct weir__ended *e, size_t i)
{
	size_t at =
		atomic_fetch_add_explicit(&e->n_ended, 1, memory_order_release);
	uint32_t waiting;

	atomic_store(&e->entry[at], i + 1);
	waiting = atomic_load(&e->waiting);
	if (waiting & ENDED_SLEEPER)
		ended_wake_sleepers(e);
	if (waiting & ENDED_FD)
		ended_update_fd(e);
}

/* -EAGAIN: the next tensor has not ended yet. */
static int ended_take_ready(struct weir__ended *e, size_t *ret_i)
{
	size_t at = atomic_load(&e->n_taken), number;

	do {
		if (at == e->n)
			return 0;
		number = atomic_load(&e->entry[at]);
		if (!number)
			return -EAGAIN;
	} while (!atomic_compare_exchange_weak(&e->n_taken, &at, at + 1));
	/* The taker of the last entry that is ready makes it unreadable. */
	if (atomic_load(&e->has_fd) && !ended_ready(e))
		ended_update_fd(e);
	*ret_i = number - 1;
	return 1;
}

int weir__ended_take(struct weir__ended *e, int64_t timeout_ns, size_t *ret_i)
{
	int64_t deadline;
	uint32_t seen;
	int r = ended_take_ready(e, ret_i);

	if (r != -EAGAIN)
		return r;
	deadline = weir__deadline(timeout_ns);
	for (;;) {
		if (timeout_ns == 0 || weir__now() >= deadline)
			return weir__fail(
				-ETIMEDOUT,
				"no further tensor has arrived or failed within %lld ns",
				(long long)timeout_ns);
		seen = atomic_fetch_or(&e->waiting, ENDED_SLEEPER) |
		       ENDED_SLEEPER;
		r = ended_take_ready(e, ret_i);
		if (r != -EAGAIN)
			return r;
		weir__futex_wait(&e->waiting, seen, deadline);
	}
}

/* The lock is held. */
static int ended_make_fd(struct weir__ended *e)
{
	int r = weir__wakefd_open(&e->fd);

	if (r < 0)
		return weir__wakefd_fail(
			r, "cannot make a descriptor of the load");
	/* So that the library does not block if the program reads it. */
	r = weir__sys_set_flags(atomic_load(&e->fd.fd), O_NONBLOCK);
	if (r < 0) {
		weir__wakefd_close(&e->fd);
		return weir__fail_sys(r, "the descriptor of the load: fcntl");
	}
	atomic_store(&e->has_fd, true);
	ended_set_fd(e);
	return 0;
}

int weir__ended_fd(struct weir__ended *e)
{
	int r = 0;

	pthread_mutex_lock(&e->lock);
	if (!atomic_load(&e->has_fd))
		r = ended_make_fd(e);
	if (r == 0)
		r = atomic_load(&e->fd.fd);
	pthread_mutex_unlock(&e->lock);
	return r;
}

void weir__ended_close_fd(struct weir__ended *e)
{
	if (!atomic_load(&e->has_fd))
		return;
	pthread_mutex_lock(&e->lock);
	atomic_store(&e->has_fd, false);
	weir__wakefd_close(&e->fd);
	atomic_fetch_and(&e->waiting, ~ENDED_FD);
	pthread_mutex_unlock(&e->lock);
}
