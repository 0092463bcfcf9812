/* SPDX-License-Identifier: MIT */
/*
 * The life of one chunk from dispatch to completion: see enum weir__op_state.
 */
#include <errno.h>

#include "core/error.h"
#include "alloc/slots.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/chunk.h"
#include "io/device_copy.h"
#include "io/engine_state.h"
#include "io/job.h"
#include "io/loop.h"
#include "io/method.h"
#include "io/op.h"

/* The reactor's owner makes copies up to this size itself. */
#define INLINE_COPY (64u << 10)

static const struct weir__outcome done = { .end = WEIR__DONE };
static const struct weir__outcome end_of_file = { .end = WEIR__END_OF_FILE };

bool weir__op_add(struct weir__loop *loop, void (*run)(struct weir__task *))
{
	struct weir__op *op = weir__calloc(1, sizeof(*op));

	if (!op)
		return false;
	op->msg.kind = WEIR__MSG_OP;
	op->task.run = run;
	op->check.task = &op->task;
	op->reactor = &loop->reactor;
	op->track = ++loop->n_tracks; /* track 0 has the reactor's waits */
	op->next_all = loop->ops;
	loop->ops = op;
	op->next_free = loop->free;
	loop->free = op;
	return true;
}

static struct weir__op *op_get(struct weir__loop *loop)
{
	struct weir__op *op = loop->free;

	loop->free = op->next_free;
	op->state = WEIR__OP_QUEUED;
	op->tries = 0;
	op->requested = op->missed = false;
	op->counted = op->skipped = false;
	op->checked = op->placed = false;
	op->fixed = -1;
	op->native = 0;
	op->packed = false;
	op->bytes_read = 0;
	loop->n_out++;
	return op;
}

static void op_put(struct weir__loop *loop, struct weir__op *op)
{
	op->state = WEIR__OP_FREE;
	op->job = NULL;
	op->next_free = loop->free;
	loop->free = op;
	loop->n_out--;
}

static void drop_slots(struct weir__loop *loop, struct weir__op *op)
{
	if (op->slot)
		weir__slot_put(loop->reactor.slots, op->slot);
	if (op->repack_slot)
		weir__slot_put(loop->reactor.slots, op->repack_slot);
	op->slot = op->repack_slot = NULL;
}

static bool take_slot(struct weir__loop *loop, struct weir__op *op,
		      uint64_t bytes)
{
	if (!op->slot)
		op->slot = weir__slot_get(loop->reactor.slots, bytes);
	if (!op->slot)
		return false;
	if (loop->method_ops->slot && !op->slot->registered)
		loop->method_ops->slot(loop, op->slot);
	return true;
}

/*
 * Aim the op at a slot: read all rows there, to be copied out of it. @direct:
 * read whole blocks.
 */
static bool aim_slot_rows(struct weir__loop *loop, struct weir__op *op,
			  bool direct)
{
	const struct weir__extent *e = op->extent;
	uint64_t unit = direct ? weir__slot_unit(e->file) : 1;
	uint64_t from = weir__down(e->off + op->lo, unit), to, need;

	op->end = e->off + weir__chunk_data_end(e, op->hi);
	need = to = weir__up(op->end, unit) - from;
	if (e->dev && e->convert)
		need += WEIR__RESULT_ALIGN + weir__op_slot_bytes(op);
	if (!take_slot(loop, op, need))
		return false;
	op->direct = direct;
	op->off = from;
	op->buf = op->slot->addr;
	op->payload = op->slot->addr + (e->off + op->lo - from);
	op->len = (uint32_t)to;
	return true;
}

/*
 * Aim the op at the page cache: read the whole chunk again from there. The
 * copier that reads it unpacks it, or for a device packs it in a slot.
 */
static bool aim_buffered_rows(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;

	op->direct = false;
	if (weir__op_reads_whole(op))
		return aim_slot_rows(loop, op, false);
	op->off = e->off + op->lo;
	op->end = e->off + weir__chunk_data_end(e, op->hi);
	if (!e->dev) {
		drop_slots(loop, op);
		op->buf = e->addr; /* not NULL: no slot is taken */
		return true;
	}
	op->payload = op->buf = op->slot ? op->slot->addr : NULL;
	return op->slot ||
	       weir__slot_reserve(loop->reactor.slots, weir__op_slot_bytes(op));
}

/*
 * Aim the op at a slot that the job fills, to be written from there: whole
 * blocks, or through the page cache lo..hi alone.
 */
static bool aim_filled(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	uint64_t unit = weir__slot_unit(e->file), bytes = op->hi - op->lo;

	if (!take_slot(loop, op, weir__up(bytes, unit)))
		return false;
	op->direct = !weir__extent_is_cached(e);
	op->off = e->off + op->lo;
	op->end = e->off + op->hi;
	op->payload = op->buf = op->slot->addr;
	op->len = (uint32_t)(op->direct ? weir__up(bytes, unit) : bytes);
	return true;
}

/*
 * Aim the op at the page cache: read the rest of lo..hi, from byte @from of the
 * file on, without a slot to host memory, through a slot to a device. If a read
 * to a device has no slot yet, one is only reserved: the copier takes it
 * (op_task.c).
 */
static bool aim_buffered(struct weir__loop *loop, struct weir__op *op,
			 uint64_t from)
{
	const struct weir__extent *e = op->extent;

	if (e->unpack)
		return aim_buffered_rows(loop, op);
	op->direct = false;
	op->off = from;
	op->end = e->off + op->hi;
	op->len = (uint32_t)(op->end - from);
	if (op->job->fill) {
		op->buf = op->payload + (from - e->off - op->lo);
		return true;
	}
	if (!e->dev) {
		drop_slots(loop, op);
		op->buf = e->addr + (from - e->off);
		return true;
	}
	if (!op->slot && !op->write && !loop->reactor.eng->only_ring) {
		op->buf = NULL;
		return weir__slot_reserve(loop->reactor.slots, op->hi - op->lo);
	}
	if (!take_slot(loop, op, op->hi - op->lo))
		return false;
	op->payload = op->slot->addr;
	op->buf = op->payload + (from - e->off - op->lo);
	return true;
}

/* Aim the op at a slot: read the whole blocks around lo..hi there. */
static bool aim_slot(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	uint64_t unit = weir__slot_unit(e->file);
	uint64_t from = weir__down(e->off + op->lo, unit);
	uint64_t to = weir__up(e->off + op->hi, unit);

	if (!take_slot(loop, op, to - from))
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
	const struct weir__extent *e = op->extent;

	op->direct = true;
	op->off = e->off + op->lo;
	op->end = e->off + op->hi;
	op->buf = e->addr + op->lo;
	op->len = (uint32_t)(op->hi - op->lo);
	return true;
}

/* Returns false if no slot is free. */
static bool op_aim(struct weir__loop *loop, struct weir__op *op, bool in_place)
{
	const struct weir__extent *e = op->extent;

	if (op->job->fill)
		return aim_filled(loop, op);
	if (weir__extent_is_cached(e))
		return aim_buffered(loop, op, e->off + op->lo);
	if (e->unpack)
		return aim_slot_rows(loop, op, true);
	return in_place ? aim_in_place(op) : aim_slot(loop, op);
}

/*
 * No slot is free. Slots in use are returned later, unless a failed ring keeps
 * them all, or there was no memory for any: then the op reads through the page
 * cache, without a slot.
 */
static bool aim_without_slot(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;

	return (loop->n_out == 1 || !weir__slots_count(loop->reactor.slots)) &&
	       !e->dev && !op->job->fill && !e->file->object &&
	       aim_buffered(loop, op, e->off + op->lo);
}

/*
 * Give the op to the ring, to a source, or to a pool, whose threads may block.
 */
static void op_route(struct weir__loop *loop, struct weir__op *op)
{
	struct weir__engine *eng = loop->reactor.eng;
	const struct weir_file *file = op->extent->file;

	if (file->object)
		weir__source_submit(loop, op);
	else if (!file->fuse &&
		 (eng->only_ring ||
		  (op->direct &&
		   (file->nowait || loop->method_ops->io == WEIR_IO_SYNC))))
		loop->method_ops->submit(loop, op);
	else
		weir__pool_push(op->direct ? eng->readers : eng->copiers,
				&op->task);
}

/* Copy between the slot and the device. The op is in @state meanwhile. */
static void start_copy(struct weir__loop *loop, struct weir__op *op,
		       enum weir__op_state state)
{
	struct weir__outcome failed;
	int err;

	op->state = state;
	err = weir__copy_start(loop, op);
	if (err == 0)
		return;
	failed = weir__failed(err, weir_error());
	failed.in_copy = true;
	weir__op_finish(loop, op, &failed);
}

/* Readers are the threads that may block for any time. */
static void start_fill(struct weir__loop *loop, struct weir__op *op)
{
	op->state = WEIR__OP_FILLING;
	weir__pool_push(loop->reactor.eng->readers, &op->task);
}

/* Complete the chunk as failed, with an errno of the kernel or a backend. */
static void op_fail(struct weir__loop *loop, struct weir__op *op, int err)
{
	struct weir__outcome failed = weir__failed(err, NULL);

	failed.native = op->native;
	failed.in_copy = op->state != WEIR__OP_QUEUED;
	weir__op_finish(loop, op, &failed);
}

/*
 * No slot will ever be free: devices or a ring keep them, or there were none.
 */
static void op_fail_slotless(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__outcome failed = weir__failed(
		-ENOMEM,
		weir__slots_count(loop->reactor.slots)
			? "all staging slots are lost to reads or copies that never ended"
			: "there was no memory for staging slots when the engine started");

	weir__op_finish(loop, op, &failed);
}

bool weir__op_start(struct weir__loop *loop, struct weir__job *job,
		    const struct weir__chunk *chunk, bool fixed)
{
	struct weir__op *op = op_get(loop);
	bool aimed;

	op->job = job;
	op->extent = chunk->extent;
	op->lo = chunk->lo;
	op->hi = chunk->hi;
	op->write = job->write;
	aimed = op_aim(loop, op, chunk->in_place) || aim_without_slot(loop, op);
	if (!aimed && loop->n_out > 1) {
		op_put(loop, op);
		return false;
	}
	if (fixed && loop->method_ops->file_get)
		op->fixed = loop->method_ops->file_get(loop, op->extent->file);
	op->begun = weir__trace_now(loop->reactor.eng->weir);
	op->counted = aimed && !op->write;
	if (op->counted)
		weir__reads_begin(job->reads, loop->clock);
	loop->bytes_out += op->hi - op->lo;
	op->in_window = true;
	loop->n_caller_copies += job->submit_copy != NULL;
	atomic_fetch_add_explicit(&job->out, 1, memory_order_relaxed);
	if (!aimed)
		op_fail_slotless(loop, op);
	else if (job->fill)
		start_fill(loop, op);
	else if (op->write && op->slot)
		start_copy(loop, op, WEIR__OP_FETCHING);
	else
		op_route(loop, op);
	return true;
}

static void leave_window(struct weir__loop *loop, struct weir__op *op)
{
	if (op->in_window)
		loop->bytes_out -= op->hi - op->lo;
	op->in_window = false;
}

/* The op's bytes have arrived, or never will. */
static void stop_counting(struct weir__op *op)
{
	if (op->counted)
		weir__reads_end(op->job->reads);
	op->counted = false;
}

/* Start no more of the job's reads if they would fail in the same way. */
static void note_failure(const struct weir__loop *loop,
			 const struct weir__op *op,
			 const struct weir__outcome *outcome)
{
	const struct weir__engine *eng = loop->reactor.eng;
	struct weir__reads *reads = op->job->reads;
	bool end;

	if (outcome->in_copy)
		end = reads->whole || outcome->err == -ENODEV;
	else
		end = weir__reads_failed(reads, outcome->err) ||
		      weir__engine_is_late(eng, reads, loop->clock);
	if (end && weir__reads_stop(reads, op->extent->file, outcome))
		weir__reactors_wake(op->reactor->eng);
}

static enum weir__chunk_way way_of(const struct weir__op *op)
{
	if (!op->direct)
		return WEIR__CHUNK_BUFFERED;
	/* The job may have filled its own memory instead of the slot. */
	return op->slot && (!op->job->fill || op->payload == op->slot->addr)
		       ? WEIR__CHUNK_STAGED
		       : WEIR__CHUNK_IN_PLACE;
}

static const char *span_name(const struct weir__op *op)
{
	static const char *const name[] = {
		[WEIR__CHUNK_IN_PLACE] = "in place",
		[WEIR__CHUNK_STAGED] = "staged",
		[WEIR__CHUNK_BUFFERED] = "buffered",
	};

	if (op->extent->file->object)
		return "remote";
	return op->write ? "write" : name[way_of(op)];
}

/* Called only while a trace runs. */
static void op_trace(const struct weir__op *op)
{
	const struct weir__reactor *r = op->reactor;

	weir__trace_span(r->eng->weir, WEIR__TRACK_REACTOR, r->index, op->track,
			 span_name(op), op->begun, op->extent->off + op->lo,
			 op->hi - op->lo);
}

/* One of the job's chunks is no longer in flight. */
static void job_out_dec(struct weir__job *job)
{
	/* Reactors may have deferred a chunk until it is below its depth. */
	if (atomic_fetch_sub(&job->out, 1) == job->depth && job->depth)
		weir__reactors_wake(job->eng);
}

/*
 * The job may end when its chunk is completed, so the op is freed first, with
 * all that it has.
 */
void weir__op_finish(struct weir__loop *loop, struct weir__op *op,
		     const struct weir__outcome *outcome)
{
	struct weir__job *job = op->job;
	enum weir__chunk_way way = way_of(op);
	uint64_t lo = op->lo, hi = op->hi;
	const struct weir__extent *e = op->extent;

	if (outcome->end == WEIR__DONE && !op->write)
		atomic_fetch_add_explicit(&job->over_read,
					  weir__op_over_read(op),
					  memory_order_relaxed);
	if (outcome->end == WEIR__FAILED && !outcome->after)
		note_failure(loop, op, outcome);
	stop_counting(op);
	if (op->begun)
		op_trace(op);
	if (op->fixed >= 0 && loop->method_ops->file_put)
		loop->method_ops->file_put(loop, op->fixed);
	drop_slots(loop, op);
	leave_window(loop, op);
	loop->n_caller_copies -= job->submit_copy != NULL;
	op_put(loop, op);
	job_out_dec(job);
	weir__chunk_complete(job, e, lo, hi, outcome, way);
}

/*
 * The op, its slot and the memory that it reads to are never used again, since
 * the kernel or a device may still write to them. A new op replaces it. A job
 * that has lost memory for ever reads no more.
 */
void weir__op_orphan(struct weir__loop *loop, struct weir__op *op,
		     const struct weir__outcome *outcome)
{
	struct weir__job *job = op->job;

	weir__source_keep(loop, op);
	leave_window(loop, op);
	if (weir__reads_stop(job->reads, op->extent->file, outcome))
		weir__reactors_wake(op->reactor->eng);
	stop_counting(op);
	op->state = WEIR__OP_ORPHANED;
	loop->n_caller_copies -= job->submit_copy != NULL;
	loop->n_out--;
	weir__op_add(loop, op->task.run);
	atomic_store(&job->leaked, true);
	job_out_dec(job);
	weir__chunk_complete(job, op->extent, op->lo, op->hi, outcome,
			     way_of(op));
}

static void place_bytes(struct weir__loop *loop, struct weir__op *op);

/*
 * The copy out of the slot or into it, the check, the conversion, or job->fill,
 * has ended.
 */
static void op_copied(struct weir__loop *loop, struct weir__op *op, int err)
{
	bool fetched = op->state == WEIR__OP_FETCHING;

	/* A lost device may still write to the slot. */
	if (fetched && op->work.leaked)
		op->slot = NULL;
	if (err < 0) {
		op_fail(loop, op, err);
	} else if (fetched || op->state == WEIR__OP_FILLING) {
		op->state = WEIR__OP_QUEUED;
		op_route(loop, op);
	} else if (op->state == WEIR__OP_CHECKING) {
		place_bytes(loop, op);
	} else if (op->state == WEIR__OP_CONVERTING) {
		leave_window(loop, op);
		start_copy(loop, op, WEIR__OP_COPYING);
	} else {
		weir__op_finish(loop, op, &done);
	}
}

/*
 * Check, copy or convert the bytes: a copier does it, or the owner if they are
 * few.
 */
static void start_task(struct weir__loop *loop, struct weir__op *op,
		       enum weir__op_state state)
{
	op->state = state;
	if (op->hi - op->lo > INLINE_COPY) {
		weir__pool_push(loop->reactor.eng->copiers, &op->task);
	} else {
		if (weir__op_execute(op))
			op_copied(loop, op, 0);
	}
}

/*
 * Bytes that were read to a slot are copied from there, and are no longer
 * counted in the window.
 */
static void place_bytes(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;

	if (!op->slot || op->write || op->placed) {
		weir__op_finish(loop, op, &done);
		return;
	}
	if (e->dev && e->convert && !op->packed) {
		start_task(loop, op, WEIR__OP_CONVERTING);
		return;
	}
	leave_window(loop, op);
	if (e->dev)
		start_copy(loop, op, WEIR__OP_COPYING);
	else
		start_task(loop, op, WEIR__OP_COPYING);
}

/* All bytes of lo..hi have been read or written. */
void weir__op_arrived(struct weir__loop *loop, struct weir__op *op)
{
	stop_counting(op);
	if (!op->job->check || op->write || op->checked) {
		place_bytes(loop, op);
		return;
	}
	/* Reads go on while chunks wait for each other. */
	leave_window(loop, op);
	start_task(loop, op, WEIR__OP_CHECKING);
}

static void op_retry(struct weir__loop *loop, struct weir__op *op)
{
	if (!op->missed)
		atomic_fetch_add_explicit(&op->job->retries, 1,
					  memory_order_relaxed);
	op->missed = false;
	op_route(loop, op);
}

/* From now on this file is read through the page cache. */
static void op_direct_refused(struct weir__loop *loop, struct weir__op *op)
{
	struct weir_file *file = op->extent->file;

	if (atomic_exchange(&file->direct_ok, false))
		atomic_fetch_add(&op->job->fallbacks, 1);
	aim_buffered(loop, op, op->extent->off + op->lo);
	op_retry(loop, op);
}

/*
 * The read or write was short: request the rest. A direct read requests whole
 * blocks, so it goes back to the last boundary of one.
 */
static void op_continue_short(struct weir__loop *loop, struct weir__op *op,
			      uint32_t got)
{
	uint32_t back = 0;

	op->off += got;
	op->buf += got;
	op->len -= got;
	if (op->direct)
		back = (uint32_t)(op->off % op->extent->file->off_align);
	if (back == got && got) {
		/* No whole block came: the page cache can read less. */
		uint64_t from = op->extent->off + op->lo;

		aim_buffered(loop, op,
			     op->slot || op->off < from ? from : op->off);
	} else {
		op->off -= back;
		op->buf -= back;
		op->len += back;
	}
	op->tries = 0;
	op_retry(loop, op);
}

void weir__op_advance(struct weir__loop *loop, struct weir__op *op, int64_t res)
{
	enum weir__op_state state = op->state;

	/* Its chunk was completed as failed. */
	if (state == WEIR__OP_ORPHANED) {
		weir__source_give_back(loop, op);
		return;
	}
	if (state != WEIR__OP_QUEUED) {
		op_copied(loop, op, (int)res);
		return;
	}
	if (op->skipped) {
		struct weir__outcome outcome =
			weir__reads_outcome(op->job->reads);

		weir__op_finish(loop, op, &outcome);
		return;
	}
	if (op->extent->file->object) {
		weir__source_ended(loop, op, res);
		return;
	}
	if (res > 0 && !weir__op_unpacks_cached(op))
		op->bytes_read += (uint64_t)res;
	if (res > 0)
		weir__reads_moved(op->job->reads, loop->clock);
	if ((res == -EAGAIN || res == -EINTR) &&
	    ++op->tries < WEIR__OP_MAX_TRIES) {
		op_retry(loop, op);
	} else if ((res == -EINVAL || res == -EOPNOTSUPP) && op->direct) {
		op_direct_refused(loop, op);
	} else if (res < 0) {
		op_fail(loop, op, (int)res);
	} else if (res == 0) {
		weir__op_finish(loop, op, &end_of_file);
	} else if (op->off + (uint64_t)res >= op->end) {
		op->buf += res;
		weir__op_arrived(loop, op);
	} else {
		op_continue_short(loop, op, (uint32_t)res);
	}
}
