/* SPDX-License-Identifier: MIT */
#include "model/load/completions.h"

#include <errno.h>
#include <fcntl.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"

#define WAKE_SLEEPER 1u /* threads sleep on `waiting` */
#define WAKE_FD 2u      /* the descriptor is not readable */
#define WAKE_WAKE 4u    /* added at each wake: the bits above are a count */

#define NOT_WRITTEN SIZE_MAX

void weir__completions_init(struct weir__completions *e, _Atomic size_t *entry,
			    size_t n)
{
	e->n = n;
	e->entry = entry;
	for (size_t i = 0; i <= n; i++)
		atomic_init(&entry[i], NOT_WRITTEN);
	pthread_mutex_init(&e->lock, NULL);
}

void weir__completions_fini(struct weir__completions *e)
{
	weir__completions_close_fd(e);
	pthread_mutex_destroy(&e->lock);
}

/* True if weir__completions_take would return at once. */
static bool completions_ready(struct weir__completions *e)
{
	return atomic_load(&e->entry[atomic_load(&e->n_taken)]) != NOT_WRITTEN;
}

/*
 * The lock is held. Make the descriptor readable or not, as the queue is now.
 * If it is not readable, WAKE_FD is set, and the next completer does this.
 */
static void completions_set_fd(struct weir__completions *e)
{
	bool ready;

	atomic_fetch_or(&e->waiting, WAKE_FD);
	ready = completions_ready(e);
	if (ready)
		atomic_fetch_and(&e->waiting, ~WAKE_FD);
	if (ready == e->readable)
		return;
	e->readable = ready;
	if (ready)
		weir__wakefd_signal(&e->fd);
	else
		weir__wakefd_drain(&e->fd);
}

static void completions_update_fd(struct weir__completions *e)
{
	pthread_mutex_lock(&e->lock);
	if (atomic_load(&e->has_fd))
		completions_set_fd(e);
	pthread_mutex_unlock(&e->lock);
}

/*
 * If another thread changes @waiting at the same time, it is a completer, which
 * wakes all, or WAKE_FD changes: then try again.
 */
static void completions_wake_sleepers(struct weir__completions *e)
{
	uint32_t waiting = atomic_load(&e->waiting);

	while (waiting & WAKE_SLEEPER)
		if (atomic_compare_exchange_weak(&e->waiting, &waiting,
						 waiting - WAKE_SLEEPER +
							 WAKE_WAKE)) {
			weir__futex_wake(&e->waiting, INT32_MAX);
			return;
		}
}

static void write_entry(struct weir__completions *e, size_t at, size_t number)
{
	uint32_t waiting;

	atomic_store(&e->entry[at], number);
	waiting = atomic_load(&e->waiting);
	if (waiting & WAKE_SLEEPER)
		completions_wake_sleepers(e);
	if (waiting & WAKE_FD)
		completions_update_fd(e);
}

void weir__completions_add(struct weir__completions *e, size_t i)
{
	write_entry(e,
		    atomic_fetch_add_explicit(&e->n_ended, 1,
					      memory_order_release),
		    i);
}

void weir__completions_end(struct weir__completions *e)
{
	write_entry(e, e->n, e->n);
}

/* Take an entry. -EAGAIN: the next tensor, or the load, has not ended yet. */
static int completions_take_ready(struct weir__completions *e, size_t *ret_i)
{
	size_t at = atomic_load(&e->n_taken), number;

	do {
		number = atomic_load(&e->entry[at]);
		if (number == NOT_WRITTEN)
			return -EAGAIN;
		if (at == e->n)
			return 0;
	} while (!atomic_compare_exchange_weak(&e->n_taken, &at, at + 1));
	/* The taker of the last entry that is ready makes it unreadable. */
	if (atomic_load(&e->has_fd) && !completions_ready(e))
		completions_update_fd(e);
	*ret_i = number;
	return 1;
}

int weir__completions_take(struct weir__completions *e, int64_t timeout_ns,
			   size_t *ret_i)
{
	int64_t deadline;
	uint32_t seen;
	int r = completions_take_ready(e, ret_i);

	if (r != -EAGAIN)
		return r;
	deadline = weir__deadline(timeout_ns);
	for (;;) {
		if (timeout_ns == 0 || weir__now() >= deadline)
			return weir__fail(
				-ETIMEDOUT,
				"no further tensor has arrived or failed, and the load has not ended, within %lld ns",
				(long long)timeout_ns);
		seen = atomic_fetch_or(&e->waiting, WAKE_SLEEPER) |
		       WAKE_SLEEPER;
		r = completions_take_ready(e, ret_i);
		if (r != -EAGAIN)
			return r;
		weir__futex_wait(&e->waiting, seen, deadline);
	}
}

/* The lock is held. */
static int completions_make_fd(struct weir__completions *e)
{
	int r = weir__wakefd_open(&e->fd);

	if (r < 0)
		return weir__wakefd_fail(
			r, "cannot make a descriptor of the load");
	/* The library must not block if the program reads it. */
	r = weir__sys_set_flags(atomic_load(&e->fd.fd), O_NONBLOCK);
	if (r < 0) {
		weir__wakefd_close(&e->fd);
		return weir__fail_sys(r, "the descriptor of the load: fcntl");
	}
	atomic_store(&e->has_fd, true);
	completions_set_fd(e);
	return 0;
}

int weir__completions_fd(struct weir__completions *e)
{
	int r = 0;

	pthread_mutex_lock(&e->lock);
	if (!atomic_load(&e->has_fd))
		r = completions_make_fd(e);
	if (r == 0)
		r = atomic_load(&e->fd.fd);
	pthread_mutex_unlock(&e->lock);
	return r;
}

void weir__completions_close_fd(struct weir__completions *e)
{
	if (!atomic_load(&e->has_fd))
		return;
	pthread_mutex_lock(&e->lock);
	atomic_store(&e->has_fd, false);
	weir__wakefd_close(&e->fd);
	atomic_fetch_and(&e->waiting, ~WAKE_FD);
	pthread_mutex_unlock(&e->lock);
}
