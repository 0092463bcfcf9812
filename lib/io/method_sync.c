/* SPDX-License-Identifier: MIT */
/*
 * The method without a ring: reads block on the threads of a pool, and the
 * reactor sleeps in its eventfd.
 */
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

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
	struct timespec ts = { .tv_sec = limit / 1000000000,
			       .tv_nsec = limit % 1000000000 };
	struct pollfd fd = { .fd = r->eventfd, .events = POLLIN };
	uint64_t count;

	if (!limit)
		return;
	if (!weir__turn_free(r) && weir__turn_take(r))
		return;
	if (limit > 0 && ppoll(&fd, 1, &ts, NULL) <= 0 && weir__turn_take(r))
		return;
	while (read(r->eventfd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	/* What was read may be of an earlier wake, of the ring that died. */
	weir__turn_take(r);
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
