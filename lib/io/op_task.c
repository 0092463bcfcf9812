/* SPDX-License-Identifier: MIT */
/*
 * The part of an op that blocks. A thread of a pool that runs it owns the op
 * until it posts it back. It does not own the reactor, and uses only those of
 * its members that any thread may use.
 */
#include <errno.h>

#include "alloc/slots.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/engine_state.h"
#include "io/op.h"
#include "io/past_cache.h"
#include "io/reactor.h"
#include "io/unpack.h"

#define CACHED_PIECE (256u << 10)

bool weir__op_unpacks_cached(const struct weir__op *op)
{
	return op->extent->unpack && !op->direct &&
	       !op->reactor->eng->only_ring;
}

uint64_t weir__op_reserves(const struct weir__op *op)
{
	struct weir__rows rows;

	if (!op->extent->unpack)
		return op->hi - op->lo;
	rows = weir__chunk_rows(op->extent, op->lo, op->hi);
	return rows.n * rows.out;
}

/* To the place of the rows or, for a device, to the slot after what was read */
static void unpack_slot(struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__rows rows = weir__chunk_rows(e, op->lo, op->hi);
	unsigned char *from = op->payload;

	if (!e->dev) {
		weir__unpack(e, &rows, from, rows.addr, e->mem_pitch);
		return;
	}
	op->payload =
		op->slot->addr + weir__up((uint64_t)(op->buf - op->slot->addr),
					  WEIR__RESULT_ALIGN);
	op->packed = true;
	weir__unpack(e, &rows, from, op->payload, rows.out);
}

/* Out of the slot to where the bytes belong. */
static void copy_out(struct weir__op *op)
{
	struct weir__reactor *r = op->reactor;
	const struct weir__extent *e = op->extent;
	int64_t begun = weir__trace_now(r->eng->weir);

	if (e->unpack)
		unpack_slot(op);
	else
		weir__copy_past_cache(e->addr + op->lo, op->payload,
				      op->hi - op->lo);
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
	op->slot = weir__slot_take_reserved(op->reactor->slots,
					    weir__op_reserves(op));
	op->payload = op->buf = op->slot->addr;
}

/*
 * Orphaned with a slot that is reserved and not taken, or that an earlier call has
 * filled in part: free the slot for others.
 */
static void drop_cached_slot(struct weir__op *op)
{
	if (!op->buf)
		weir__slot_unreserve(op->reactor->slots, weir__op_reserves(op));
	else if (op->fetched && op->slot && op->slot->shared)
		weir__slot_put(op->reactor->slots, op->slot);
	else
		return;
	op->slot = NULL;
	weir__reactor_wake(op->reactor);
}

/*
 * At the first page that is missing a read of the page cache requests all that
 * are, and leaves them to a later call, which waits for them or reports why they
 * cannot be read: so the copier goes on with other chunks meanwhile.
 */
static bool may_wait(const struct weir__op *op)
{
	return op->fetched || !op->extent->file->nowait;
}

static int64_t missed(struct weir__op *op)
{
	op->fetched = op->missed = true;
	return -EAGAIN;
}

/*
 * In short calls: a kernel without preemption runs no other thread on this CPU
 * during a call, not even one that computes with earlier bytes.
 */
static int64_t read_cached(struct weir__op *op, int fd)
{
	bool wait = may_wait(op);
	size_t done = 0, n;
	int64_t r;

	do {
		n = op->len - done < CACHED_PIECE ? op->len - done
						  : CACHED_PIECE;
		r = (wait ? weir__sys_pread : weir__sys_pread_nowait)(
			fd, op->buf + done, n, op->off + done);
		if (r > 0)
			done += (size_t)r;
	} while (r == (int64_t)n && done < op->len);
	if (!wait && done < op->len) {
		weir__sys_fetch(fd, op->off + done, op->len - done);
		r = missed(op);
	}
	return done ? (int64_t)done : r;
}

/* All of it again in the later call, since rows have no byte where one may stop. */
static int64_t read_and_unpack(struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__rows rows = weir__chunk_rows(e, op->lo, op->hi);
	bool wait = may_wait(op);
	int r = weir__unpack_cached(e, &rows, op->off,
				    e->dev ? op->payload : rows.addr,
				    e->dev ? rows.out : e->mem_pitch, wait);

	op->packed = true;
	if (r == 1)
		return (int64_t)(op->end - op->off);
	if (wait)
		return r;
	weir__unpack_fetch(e, &rows, op->off, op->end - op->off);
	return missed(op);
}

bool weir__op_execute(struct weir__op *op)
{
	const struct weir_file *file;
	int fd;

	if (op->state == WEIR__OP_ORPHANED) {
		drop_cached_slot(op);
		return false;
	}
	file = op->extent->file;
	fd = op->direct ? file->direct_fd : file->fd;
	if (!op->buf)
		bind_slot(op);
	op->skipped = op->state == WEIR__OP_QUEUED &&
		      weir__reads_ended(op->job->reads);
	if (op->skipped)
		return true;
	if (op->state == WEIR__OP_COPYING || op->state == WEIR__OP_CONVERTING)
		copy_out(op);
	else if (weir__op_unpacks_cached(op))
		op->res = read_and_unpack(op);
	else if (op->write)
		op->res = weir__sys_pwrite(fd, op->buf, op->len, op->off);
	else if (op->direct)
		op->res = weir__sys_pread(fd, op->buf, op->len, op->off);
	else
		op->res = read_cached(op, fd);
	if (op->res == -EINTR)
		op->tries = WEIR__OP_MAX_TRIES; /* the call was repeated */
	return true;
}

bool weir__op_is_cached(const struct weir__op *op)
{
	return !op->direct && !op->write && op->fixed < 0 &&
	       !op->reactor->eng->only_ring;
}
