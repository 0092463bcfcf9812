/* SPDX-License-Identifier: MIT */
/*
 * The method without a ring: reads block on the threads of a pool, and the
 * reactor sleeps until its eventfd is written.
 */
#include <poll.h>
#include <time.h>

#include "io/reactor.h"

static int sync_open(struct weir__reactor *r)
{
	(void)r;
	return 0;
}

static void sync_close(struct weir__reactor *r)
{
	(void)r;
}

static void sync_submit(struct weir__reactor *r, struct weir__op *op)
{
	weir__pool_push(op->direct ? r->eng->readers : r->eng->copiers,
			&op->task);
}

static void sync_wait(struct weir__reactor *r, int64_t limit)
{
	struct pollfd fd = { .events = POLLIN };
	struct timespec ts;

	if (!limit)
		return;
	weir__reactor_check_wakefd(r);
	fd.fd = weir__wakefd_is_lost(&r->wakefd) ? -1
						 : atomic_load(&r->wakefd.fd);
	if (limit < 0)
		limit = weir__reactor_max_sleep(r);
	ts = (struct timespec){ limit / 1000000000, limit % 1000000000 };
	if (!weir__owner_release(&r->owner))
		return;
	/* A write that comes later only ends the next sleep early. */
	if (ppoll(&fd, 1, &ts, NULL) > 0)
		weir__wakefd_drain(&r->wakefd);
	weir__owner_acquire(&r->owner);
}

const struct weir__method_ops weir__method_sync = {
	.size = sizeof(weir__method_sync),
	.io = WEIR_IO_SYNC,
	.name = "sync",
	.open = sync_open,
	.close = sync_close,
	.submit = sync_submit,
	.wait = sync_wait,
};
