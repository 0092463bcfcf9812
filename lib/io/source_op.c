/* SPDX-License-Identifier: MIT */
/*
 * Reads of objects by the engine. The reactor's owner passes an op to its
 * source; a thread of the source ends it, and posts it back as a pool's thread
 * does. A read that is not needed any more is cancelled, and ends soon; only
 * one that its source never ends is orphaned.
 */
#include <errno.h>

#include "alloc/slots.h"
#include "cache/cache.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/chunk.h"
#include "io/engine_state.h"
#include "io/loop.h"
#include "io/op.h"
#include "io/source.h"

/* How long a source may take to end a read that was cancelled, ns. */
#define GRACE_NS INT64_C(1000000000)

/*
 * What sources leave of the ops and slots to files of this machine, whose reads
 * would otherwise wait for a network: 1 / SHARE.
 */
#define SHARE 4u

static const struct weir__outcome end_of_file = { .end = WEIR__END_OF_FILE };

static struct weir__object *object_of(const struct weir__op *op)
{
	return op->extent->file->object;
}

bool weir__source_is_full(const struct weir__loop *loop,
			  const struct weir__chunk *chunk)
{
	const struct weir__engine *eng = loop->reactor.eng;
	const struct weir__object *object = chunk->extent->file->object;
	unsigned slots = weir__slots_scarcer_count(loop->reactor.slots);
	uint64_t window = eng->network_window;

	if (object->info.window_bytes && !eng->weir->opts.depth)
		window = object->info.window_bytes / eng->n_started;
	if (!loop->n_remote)
		return false; /* however small the window is */
	if (loop->bytes_remote >= window ||
	    loop->n_remote >= loop->n_ops - loop->n_ops / SHARE)
		return true;
	return !chunk->in_place && slots > 1 &&
	       loop->n_remote_slots >= slots - (slots + SHARE - 1) / SHARE;
}

static void count_in(struct weir__loop *loop, struct weir__op *op)
{
	/* From op_start on it was counted as the others. */
	loop->bytes_out -= op->hi - op->lo;
	op->in_window = false;
	loop->bytes_remote += op->hi - op->lo;
	loop->n_remote++;
	loop->n_remote_slots += op->slot != NULL;
}

static void count_out(struct weir__loop *loop, const struct weir__op *op)
{
	loop->bytes_remote -= op->hi - op->lo;
	loop->n_remote--;
	loop->n_remote_slots -= op->slot != NULL;
}

/* A thread of the source. */
static void read_arrived(struct weir_source_read *read, uint64_t bytes)
{
	struct weir__op *op = weir__container(read, struct weir__op, read);

	(void)bytes;
	atomic_store_explicit(&op->moved, weir__now(), memory_order_relaxed);
}

/* A thread of the source, or the owner inside of weir__source_submit(). */
static void read_done(struct weir_source_read *read, int err, const char *why)
{
	struct weir__op *op = weir__container(read, struct weir__op, read);
	struct weir__engine *eng = op->reactor->eng;

	/* The root may be closed as soon as the op is posted. */
	atomic_fetch_add(&eng->posting, 1);
	if (!atomic_exchange(&op->at_source, false)) {
		weir__log(eng->weir, "a source has ended a read twice");
		goto out;
	}
	op->res = op->len;
	if (err) {
		op->res = err < 0 && err >= -4095 ? err : -EIO;
		op->why = why && *why ? weir__strdup(why) : NULL;
	}
	weir__reactor_post(op->reactor, &op->msg);
out:
	atomic_fetch_sub(&eng->posting, 1);
}

void weir__source_submit(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir_file *file = op->extent->file;

	op->hurried = 0;
	op->why = NULL;
	atomic_store_explicit(&op->moved, 0, memory_order_relaxed);
	atomic_store(&op->at_source, true);
	loop->n_at_source++;
	count_in(loop, op);
	op->read = (struct weir_source_read){
		.size = sizeof(op->read),
		.off = op->off,
		.len = op->len,
		.buf = op->buf,
		.arrived = read_arrived,
		.done = read_done,
	};
	if (op->end > file->id.bytes) {
		atomic_store(&op->at_source, false);
		op->res = 0;
		weir__reactor_post(op->reactor, &op->msg);
		return;
	}
	file->object->ops.read(file->object->self, &op->read);
}

bool weir__source_has(const struct weir__op *op)
{
	return op->state == WEIR__OP_QUEUED && op->extent->file->object;
}

/* How a read ended that was cancelled, or would have been. */
static struct weir__outcome outcome_of(const struct weir__op *op, int err)
{
	const struct weir__job *job = op->job;
	struct weir__outcome outcome = weir__failed(err, op->why);

	if (!op->hurried)
		return outcome;
	if (weir__reads_ended(job->reads)) {
		outcome = weir__reads_outcome(job->reads);
		if (outcome.end == WEIR__LATE)
			outcome.after = NULL;
	} else {
		outcome = (struct weir__outcome){
			.end = atomic_load(&job->eng->abort) ? WEIR__ABANDONED
							     : WEIR__CANCELLED
		};
	}
	return outcome;
}

void weir__source_ended(struct weir__loop *loop, struct weir__op *op,
			int64_t res)
{
	struct weir__outcome outcome;
	char *why = op->why;

	loop->n_at_source--;
	count_out(loop, op);
	if (res > 0) {
		op->bytes_read += (uint64_t)res;
		atomic_fetch_add_explicit(
			&op->job->cached,
			weir__copies_found(&object_of(op)->ops, &op->read),
			memory_order_relaxed);
		op->buf += res;
		weir__reads_moved(op->job->reads, loop->clock);
		weir__op_arrived(loop, op);
		return;
	}
	outcome = res ? outcome_of(op, (int)res) : end_of_file;
	op->why = NULL;
	weir__op_finish(loop, op, &outcome);
	weir__free(why);
}

static void hurry(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__object *object = object_of(op);

	op->hurried = loop->clock ? loop->clock : 1;
	if (object->ops.cancel && atomic_load(&op->at_source))
		object->ops.cancel(object->self, &op->read);
}

static bool is_useless(const struct weir__op *op)
{
	const struct weir__job *job = op->job;

	return atomic_load(&job->cancelled) ||
	       (job->stopped && atomic_load(job->stopped)) ||
	       weir__reads_ended(job->reads);
}

void weir__sources_hurry(struct weir__loop *loop)
{
	for (struct weir__op *op = loop->ops; op && loop->n_at_source;
	     op = op->next_all)
		if (weir__source_has(op) && !op->hurried && is_useless(op))
			hurry(loop, op);
}

void weir__sources_note_progress(struct weir__loop *loop)
{
	for (struct weir__op *op = loop->ops; op && loop->n_at_source;
	     op = op->next_all) {
		int64_t moved = 0;

		if (weir__source_has(op))
			moved = atomic_exchange_explicit(&op->moved, 0,
							 memory_order_relaxed);
		if (moved)
			weir__reads_moved(op->job->reads, moved);
	}
}

bool weir__source_may_end(struct weir__loop *loop, struct weir__op *op)
{
	if (!object_of(op)->ops.cancel)
		return false;
	if (!op->hurried)
		hurry(loop, op);
	return loop->clock - op->hurried < GRACE_NS;
}

void weir__source_keep(struct weir__loop *loop, struct weir__op *op)
{
	if (!weir__source_has(op))
		return;
	count_out(loop, op);
	op->kept = weir__file_ref(op->extent->file);
}

/* Its job may be gone by now, and with it the extent. */
void weir__source_give_back(struct weir__loop *loop, struct weir__op *op)
{
	if (!op->kept)
		return;
	loop->n_at_source--;
	if (op->slot)
		weir__slot_put(loop->reactor.slots, op->slot);
	op->slot = NULL;
	weir__free(op->why);
	op->why = NULL;
	weir__file_put(op->kept);
	op->kept = NULL;
}
