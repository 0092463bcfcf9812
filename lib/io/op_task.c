/* SPDX-License-Identifier: MIT */
/*
 * The part of an op that blocks. A thread of a pool that runs it owns the op
 * until it posts it back. It does not own the reactor, and uses only those of
 * its members that any thread may use.
 */
#include <errno.h>
#include <string.h>

#include "alloc/slots.h"
#include "core/sys.h"
#include "core/trace.h"
#include "io/engine_state.h"
#include "io/op.h"
#include "io/reactor.h"

/* Out of the slot to where the bytes belong. */
static void copy_out(struct weir__op *op)
{
	struct weir__reactor *r = op->reactor;
	const struct weir__extent *e = op->extent;
	int64_t begun = weir__trace_now(r->eng->weir);

	memcpy(e->addr + op->lo, op->payload, op->hi - op->lo);
	weir__trace_span(r->eng->weir, WEIR__TRACK_COPIER, r->index, op->lane,
			 "copy", begun, e->off + op->lo, op->hi - op->lo);
	op->res = 0;
}

/*
 * Take the reserved slot only when the copier is about to fill it: then the
 * slots used last are used again, and a few of them stay in the CPU's cache.
 */
static void bind_slot(struct weir__op *op)
{
	op->slot =
		weir__slot_take_reserved(op->reactor->slots, op->hi - op->lo);
	op->payload = op->buf = op->slot->addr;
}

/* Orphaned with a slot reserved but not taken: free the slot for others. */
static void drop_reservation(struct weir__op *op)
{
	if (op->buf)
		return;
	weir__slot_unreserve(op->reactor->slots, op->hi - op->lo);
	weir__reactor_wake(op->reactor);
}

bool weir__op_execute(struct weir__op *op)
{
	const struct weir_file *file;
	int fd;

	if (op->state == WEIR__OP_ORPHANED) {
		drop_reservation(op);
		return false;
	}
	file = op->extent->file;
	fd = op->direct ? file->direct_fd : file->fd;
	if (!op->buf)
		bind_slot(op);
	if (op->state == WEIR__OP_COPYING)
		copy_out(op);
	else if (op->write)
		op->res = weir__sys_pwrite(fd, op->buf, op->len, op->off);
	else
		op->res = weir__sys_pread(fd, op->buf, op->len, op->off);
	if (op->res == -EINTR)
		op->tries = WEIR__OP_MAX_TRIES; /* the call was repeated */
	return true;
}

bool weir__op_is_cached(const struct weir__op *op)
{
	return !op->direct && !op->write && op->fixed < 0 &&
	       !op->reactor->eng->only_ring;
}
