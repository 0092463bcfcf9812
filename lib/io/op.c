/* SPDX-License-Identifier: MIT */
/*
 * The life of one chunk between being dealt and being told to its job: see
 * enum weir__op_state.
 */
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/reactor.h"

#define MAX_TRIES 16
/* Copies up to this are made on the reactor's thread. */
#define INLINE_COPY (64u << 10)

static const struct weir__outcome done = { .end = WEIR__DONE };
static const struct weir__outcome end_of_file = { .end = WEIR__END_OF_FILE };

static const struct weir__extent *extent(const struct weir__op *op)
{
	return &op->job->ext[op->ext];
}

/* The slot's part that is ours, to where it belongs. */
static void copy_out(struct weir__op *op)
{
	memcpy(extent(op)->addr + op->lo, op->payload, op->hi - op->lo);
}

/*
 * The slot that was promised, when the copier is there: so those are used that
 * were used last, and a few of them stay in the cache.
 */
static void bind_slot(struct weir__op *op)
{
	op->slot =
		weir__slot_take_reserved(op->reactor->slots, op->hi - op->lo);
	op->payload = op->buf = op->slot->addr;
}

/* Given up before a copier was there: what it was promised is for others. */
static void not_begun(struct weir__op *op)
{
	if (op->buf)
		return;
	weir__slot_unreserve(op->reactor->slots, op->hi - op->lo);
	weir__reactor_wake(op->reactor);
}

/*
 * What blocks: on a thread of a pool, which then owns the op until it posts
 * it back; or on the reactor's own, for a small copy.
 */
static void op_run(struct weir__task *task)
{
	struct weir__op *op = weir__container(task, struct weir__op, task);
	const struct weir_file *file = extent(op)->file;
	int fd = op->direct ? file->direct_fd : file->fd;

	if (op->state == WEIR__OP_ORPHANED) {
		not_begun(op);
		return;
	}
	if (!op->buf)
		bind_slot(op);
	if (op->state == WEIR__OP_COPYING) {
		int64_t begun = weir__trace_now(op->reactor->eng->weir);

		copy_out(op);
		weir__trace_span(op->reactor->eng->weir, WEIR__TRACK_COPIER,
				 op->reactor->index, op->lane, "copy", begun,
				 extent(op)->off + op->lo, op->hi - op->lo);
		op->res = 0;
	} else if (op->write) {
		op->res = weir__sys_pwrite(fd, op->buf, op->len, op->off);
	} else {
		op->res = weir__sys_pread(fd, op->buf, op->len, op->off);
	}
	if (op->res == -EINTR)
		op->tries = MAX_TRIES; /* those were made there */
	if (weir__op_is_cached(op))
		weir__reactor_post_or_borrow(op->reactor, &op->msg);
	else
		weir__reactor_post(op->reactor, &op->msg);
}

bool weir__op_is_cached(const struct weir__op *op)
{
	return !op->direct && !op->write && op->fixed < 0 &&
	       !op->reactor->eng->only_ring;
}

/* One more op for the reactor; without memory it goes on with fewer. */
bool weir__op_add(struct weir__reactor *r)
{
	struct weir__op *op = weir__calloc(1, sizeof(*op));

	if (!op)
		return false;
	op->msg.kind = WEIR__MSG_OP;
	op->task.run = op_run;
	op->reactor = r;
	op->lane = ++r->n_lanes; /* row 0 has the reactor's waits */
	op->next_all = r->ops;
	r->ops = op;
	op->next_free = r->free;
	r->free = op;
	return true;
}

struct weir__op *weir__op_get(struct weir__reactor *r)
{
	struct weir__op *op = r->free;

	if (!op)
		return NULL;
	r->free = op->next_free;
	op->state = WEIR__OP_QUEUED;
	op->tries = 0;
	op->fixed = -1;
	op->slot = NULL;
	op->repack_slot = NULL;
	op->native = 0;
	r->n_out++;
	return op;
}

static void op_put(struct weir__op *op)
{
	struct weir__reactor *r = op->reactor;

	op->state = WEIR__OP_FREE;
	op->job = NULL;
	op->next_free = r->free;
	r->free = op;
	r->n_out--;
}

static void drop_slot(struct weir__op *op)
{
	if (op->slot)
		weir__slot_put(op->reactor->slots, op->slot);
	if (op->repack_slot)
		weir__slot_put(op->reactor->slots, op->repack_slot);
	op->slot = op->repack_slot = NULL;
}

static bool take_slot(struct weir__op *op, uint64_t bytes)
{
	struct weir__reactor *r = op->reactor;

	if (!op->slot)
		op->slot = weir__slot_get(r->slots, bytes);
	if (!op->slot)
		return false;
	if (r->method_ops->slot && !op->slot->registered)
		r->method_ops->slot(r, op->slot);
	return true;
}

/*
 * What is left of lo..hi goes through the page cache: straight to or from host
 * memory, or by a slot on its way to or from a device.
 */
static bool aim_buffered(struct weir__op *op, uint64_t from)
{
	const struct weir__extent *e = extent(op);

	op->direct = false;
	op->off = from;
	op->end = e->off + op->hi;
	op->len = (uint32_t)(op->end - from);
	if (!e->dev) {
		drop_slot(op);
		op->buf = e->addr + (from - e->off);
		return true;
	}
	if (!op->slot && !op->write && !op->reactor->eng->only_ring) {
		op->buf = NULL;
		return weir__slot_reserve(op->reactor->slots, op->hi - op->lo);
	}
	if (!take_slot(op, op->hi - op->lo))
		return false;
	op->payload = op->slot->addr;
	op->buf = op->payload + (from - e->off - op->lo);
	return true;
}

/* Whole blocks around lo..hi, into a slot. */
static bool aim_slot(struct weir__op *op)
{
	const struct weir__extent *e = extent(op);
	uint64_t unit = weir__slot_unit(e->file);
	uint64_t from = weir__down(e->off + op->lo, unit);
	uint64_t to = weir__up(e->off + op->hi, unit);

	if (!take_slot(op, to - from))
		return false;
	op->direct = true;
	op->off = from;
	op->end = e->off + op->hi;
	op->buf = op->slot->addr;
	op->payload = op->slot->addr + (e->off + op->lo - from);
	op->len = (uint32_t)(to - from);
	return true;
}

static bool aim_in_place(struct weir__op *op)
{
	const struct weir__extent *e = extent(op);

	op->direct = true;
	op->off = e->off + op->lo;
	op->end = e->off + op->hi;
	op->buf = e->addr + op->lo;
	op->len = (uint32_t)(op->hi - op->lo);
	return true;
}

/* False: no slot is free. */
static bool op_aim(struct weir__op *op, bool in_place)
{
	const struct weir__extent *e = extent(op);

	if (weir__extent_is_cached(e))
		return aim_buffered(op, e->off + op->lo);
	return in_place ? aim_in_place(op) : aim_slot(op);
}

/*
 * No slot is free. Those that are out come back, unless a ring that died has
 * kept them all: then it goes without.
 */
static bool aim_elsewhere(struct weir__op *op)
{
	const struct weir__extent *e = extent(op);

	return op->reactor->n_out == 1 && !e->dev &&
	       aim_buffered(op, e->off + op->lo);
}

/* To the ring, or to the threads that may block. */
static void op_route(struct weir__op *op)
{
	struct weir__reactor *r = op->reactor;
	const struct weir_file *file = extent(op)->file;

	if (r->eng->only_ring ||
	    (op->direct && (file->nowait || r->method_ops->io == WEIR_IO_SYNC)))
		r->method_ops->submit(r, op);
	else
		weir__pool_push(op->direct ? r->eng->readers : r->eng->copiers,
				&op->task);
}

/* Between its slot and the device, in @state. */
static void start_copy(struct weir__op *op, enum weir__op_state state)
{
	struct weir__outcome failed;
	int err;

	op->state = state;
	err = weir__copy_start(op);
	if (err == 0)
		return;
	failed = weir__failed(err, weir_error());
	failed.in_copy = true;
	weir__op_finish(op, &failed);
}

/* @err is the kernel's or a backend's. */
static void op_fail(struct weir__op *op, int err)
{
	struct weir__outcome failed = weir__failed(err, NULL);

	failed.native = op->native;
	failed.in_copy = op->state != WEIR__OP_QUEUED;
	weir__op_finish(op, &failed);
}

bool weir__op_start(struct weir__op *op, struct weir__job *job,
		    const struct weir__chunk *chunk, bool fixed)
{
	struct weir__reactor *r = op->reactor;
	bool aimed;

	op->job = job;
	op->ext = chunk->ext;
	op->lo = chunk->lo;
	op->hi = chunk->hi;
	op->write = job->write;
	aimed = op_aim(op, chunk->in_place) || aim_elsewhere(op);
	if (!aimed && (r->n_out > 1 || !extent(op)->dev)) {
		op_put(op);
		return false;
	}
	if (fixed && r->method_ops->file_get)
		op->fixed = r->method_ops->file_get(r, extent(op)->file);
	op->begun = weir__trace_now(r->eng->weir);
	op->dispatched = r->clock;
	r->bytes_out += op->hi - op->lo;
	r->n_caller_copies += job->submit_copy != NULL;
	atomic_fetch_add_explicit(&job->out, 1, memory_order_relaxed);
	if (!aimed) /* lost devices have them all, or a ring that died */
		op_fail(op, -ENOMEM);
	else if (op->write && op->slot)
		start_copy(op, WEIR__OP_FETCHING);
	else
		op_route(op);
	return true;
}

static enum weir__chunk_way way_of(const struct weir__op *op)
{
	return !op->direct ? WEIR__CHUNK_BUFFERED
	       : op->slot  ? WEIR__CHUNK_STAGED
			   : WEIR__CHUNK_IN_PLACE;
}

static const char *span_name(const struct weir__op *op)
{
	static const char *const name[] = {
		[WEIR__CHUNK_IN_PLACE] = "in place",
		[WEIR__CHUNK_STAGED] = "staged",
		[WEIR__CHUNK_BUFFERED] = "buffered",
	};

	return op->write ? "write" : name[way_of(op)];
}

/* Bytes in its slot that nobody wanted. */
static uint64_t over_read(const struct weir__op *op)
{
	const struct weir__extent *e = extent(op);
	uint64_t wanted = e->n_merged == 1 ? op->hi - op->lo
					   : weir__chunk_sum(e);

	return (uint64_t)(op->buf - op->slot->addr) - wanted;
}

/*
 * The job is told, and then it may be gone: everything of the op's is given
 * back before.
 */
void weir__op_finish(struct weir__op *op, const struct weir__outcome *outcome)
{
	struct weir__reactor *r = op->reactor;
	struct weir__job *job = op->job;
	enum weir__chunk_way way = way_of(op);
	uint64_t lo = op->lo, hi = op->hi;
	size_t ext = op->ext;

	if (outcome->end == WEIR__DONE && op->slot)
		atomic_fetch_add_explicit(&job->over_read, over_read(op),
					  memory_order_relaxed);
	weir__trace_span(r->eng->weir, WEIR__TRACK_REACTOR, r->index, op->lane,
			 span_name(op), op->begun, extent(op)->off + lo,
			 hi - lo);
	if (op->fixed >= 0 && r->method_ops->file_put)
		r->method_ops->file_put(r, op->fixed);
	drop_slot(op);
	if (op->state != WEIR__OP_COPYING)
		r->bytes_out -= hi - lo;
	r->n_caller_copies -= job->submit_copy != NULL;
	op_put(op);
	weir__job_out_dec(job);
	weir__chunk_complete(job, ext, lo, hi, outcome, way);
}

/*
 * The kernel keeps it: the job is told, and the op, its slot and the memory
 * that it reads to are never used again. Another takes its turn.
 */
void weir__op_orphan(struct weir__op *op, const struct weir__outcome *outcome)
{
	struct weir__reactor *r = op->reactor;
	struct weir__job *job = op->job;

	if (op->state != WEIR__OP_COPYING)
		r->bytes_out -= op->hi - op->lo;
	op->state = WEIR__OP_ORPHANED;
	r->n_caller_copies -= job->submit_copy != NULL;
	r->n_out--;
	weir__op_add(r);
	atomic_store(&job->leaked, true);
	weir__job_out_dec(job);
	weir__chunk_complete(job, op->ext, op->lo, op->hi, outcome, way_of(op));
}

/*
 * All that lies between the payload's ends has been read, or written. What was
 * read to a slot moves on; reads may take its place in the window.
 */
static void op_data_arrived(struct weir__op *op)
{
	struct weir__reactor *r = op->reactor;

	if (!op->slot || op->write) {
		weir__op_finish(op, &done);
		return;
	}
	r->bytes_out -= op->hi - op->lo;
	op->state = WEIR__OP_COPYING;
	if (extent(op)->dev) {
		start_copy(op, WEIR__OP_COPYING);
	} else if (op->hi - op->lo > INLINE_COPY) {
		weir__pool_push(r->eng->copiers, &op->task);
	} else {
		op_run(&op->task);
	}
}

static void op_retry(struct weir__op *op)
{
	atomic_fetch_add_explicit(&op->job->retries, 1, memory_order_relaxed);
	op_route(op);
}

/* O_DIRECT was refused: this file goes through the page cache from now on. */
static void op_direct_refused(struct weir__op *op)
{
	struct weir_file *file = extent(op)->file;

	if (atomic_exchange(&file->direct_ok, false))
		atomic_fetch_add(&op->job->fallbacks, 1);
	aim_buffered(op, extent(op)->off + op->lo);
	op_retry(op);
}

/* Only whole blocks can be asked for: go back to the last boundary. */
static void op_continue_short(struct weir__op *op, uint32_t got)
{
	uint32_t back = 0;

	op->off += got;
	op->buf += got;
	op->len -= got;
	if (op->direct)
		back = (uint32_t)(op->off % extent(op)->file->off_align);
	if (back == got && got) {
		/* Less than a block a time: the page cache can do that. */
		uint64_t from = extent(op)->off + op->lo;

		aim_buffered(op, op->slot || op->off < from ? from : op->off);
	} else {
		op->off -= back;
		op->buf -= back;
		op->len += back;
	}
	op->tries = 0;
	op_retry(op);
}

/* Its copy, out of its slot or into it, has ended. */
static void op_copied(struct weir__op *op, int err)
{
	/* A lost device may still write to it. */
	if (op->state == WEIR__OP_FETCHING && op->work.leaked)
		op->slot = NULL;
	if (err < 0) {
		op_fail(op, err);
	} else if (op->state == WEIR__OP_FETCHING) {
		op->state = WEIR__OP_QUEUED;
		op_route(op);
	} else {
		weir__op_finish(op, &done);
	}
}

void weir__op_advance(struct weir__op *op, int64_t res)
{
	if (op->state == WEIR__OP_ORPHANED)
		return; /* it came after all, but its job is gone */
	if (op->state != WEIR__OP_QUEUED) {
		op_copied(op, (int)res);
		return;
	}
	if (res > 0)
		atomic_store_explicit(&op->job->moved, op->reactor->clock,
				      memory_order_relaxed);
	if ((res == -EAGAIN || res == -EINTR) && ++op->tries < MAX_TRIES) {
		op_retry(op);
	} else if ((res == -EINVAL || res == -EOPNOTSUPP) && op->direct) {
		op_direct_refused(op);
	} else if (res < 0) {
		op_fail(op, (int)res);
	} else if (res == 0) {
		weir__op_finish(op, &end_of_file);
	} else if (op->off + (uint64_t)res >= op->end) {
		op->buf += res;
		op_data_arrived(op);
	} else {
		op_continue_short(op, (uint32_t)res);
	}
}
