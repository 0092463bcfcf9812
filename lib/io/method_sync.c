/* SPDX-License-Identifier: MIT */
/*
 * The method without a ring: threads of a pool read and block, and the
 * reactor's thread sleeps until its eventfd is signalled.
 */
#include <poll.h>
#include <time.h>

#include "io/engine_state.h"
#include "io/loop.h"
#include "io/method.h"
#include "io/op.h"

static int sync_open(struct weir__loop *loop)
{
	(void)loop;
	return 0;
}

static void sync_close(struct weir__loop *loop)
{
	(void)loop;
}

static void sync_submit(struct weir__loop *loop, struct weir__op *op)
{
	weir__pool_push(op->direct ? loop->reactor.eng->readers
				   : loop->reactor.eng->copiers,
			&op->task);
}

static void sync_wait(struct weir__loop *loop, int64_t limit)
{
	struct pollfd fd = { .events = POLLIN };
	struct timespec ts;

	if (!limit)
		return;
	weir__reactor_check_wakefd(&loop->reactor);
	fd.fd = weir__wakefd_is_lost(&loop->reactor.wakefd)
			? -1
			: atomic_load(&loop->reactor.wakefd.fd);
	if (limit < 0)
		limit = weir__reactor_max_sleep(&loop->reactor);
	ts = (struct timespec){ limit / 1000000000, limit % 1000000000 };
	if (!weir__owner_release(&loop->reactor.owner))
		return;
	/* A signal after this only ends the next sleep early. */
	if (ppoll(&fd, 1, &ts, NULL) > 0)
		weir__wakefd_drain(&loop->reactor.wakefd);
	weir__owner_acquire(&loop->reactor.owner);
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
