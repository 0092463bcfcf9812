/* SPDX-License-Identifier: MIT */
#include "io/dispatch.h"

#include "alloc/slots.h"
#include "alloc/prefault.h"
#include "io/chunk.h"
#include "io/engine_state.h"
#include "io/job.h"
#include "io/method.h"
#include "io/op.h"

#define NONE UINT64_MAX
#define LONG_JOB 8u /* chunks */

void weir__dispatch_add(struct weir__loop *loop, struct weir__job_link *link)
{
	struct weir__job_link *last = loop->last_job;

	link->next = last ? last->next : link;
	if (last)
		last->next = link;
	loop->last_job = link;
	loop->n_jobs++;
}

static void jobs_drop_first(struct weir__loop *loop)
{
	struct weir__job_link *last = loop->last_job;

	if (--loop->n_jobs)
		last->next = last->next->next;
	else
		loop->last_job = NULL;
}

/*
 * A long job keeps the file that it currently reads in the ring's table, so
 * that its reads need no lookup in the process's table of descriptors.
 */
static void link_file_get(struct weir__loop *loop, struct weir__job_link *link,
			  struct weir_file *file)
{
	if (!loop->method_ops->file_get) {
		link->fixed = -1; /* the ring may have failed meanwhile */
		return;
	}
	if (link->file == file || link->job->n_chunks < LONG_JOB)
		return;
	if (link->fixed >= 0)
		loop->method_ops->file_put(loop, link->fixed);
	link->file = file;
	link->fixed = loop->method_ops->file_get(loop, file);
}

static void link_file_put(struct weir__loop *loop, struct weir__job_link *link)
{
	if (link->fixed >= 0 && loop->method_ops->file_put)
		loop->method_ops->file_put(loop, link->fixed);
	link->fixed = -1;
	link->file = NULL;
}

/* The job may have ended by the time this returns. */
static void link_release(struct weir__loop *loop, struct weir__job_link *link)
{
	link_file_put(loop, link);
	weir__job_item_done(link->job);
}

/*
 * The job's copies run in a queue of the caller, after work that may take any
 * time. They use at most half of the slots, so that other jobs go on.
 */
static bool caller_copies_full(const struct weir__loop *loop,
			       const struct weir__job *job)
{
	return job->submit_copy && loop->n_caller_copies &&
	       loop->n_caller_copies >=
		       weir__slots_scarcer_count(loop->reactor.slots) / 2;
}

enum dispatched {
	DISPATCHED, /* a chunk is in flight, or was completed without a read */
	BLOCKED,    /* the job waits for a slot, its memory or its depth */
	FOR_THREAD, /* a borrower may not dispatch it, the thread must */
	SPENT       /* the job has no more chunks: release the link */
};

/* May the chunk be started now? weir__op_start checks for a free slot. */
static bool has_room(const struct weir__loop *loop, const struct weir__job *job,
		     const struct weir__extent *e,
		     const struct weir__chunk *chunk)
{
	const struct weir__engine *eng = loop->reactor.eng;

	if (caller_copies_full(loop, job))
		return false;
	if (loop->bytes_out >=
	    (e->file->network ? eng->network_window : eng->window))
		return false;
	/* Copiers touch memory as they write to it. */
	return !e->prefault || e->buffered || e->unpack ||
	       weir__prefault_ready(e->prefault, e->prefault_range,
				    e->addr + chunk->hi);
}

static enum dispatched start_op(struct weir__loop *loop,
				struct weir__job_link *link,
				const struct weir__chunk *chunk)
{
	struct weir__job *job = link->job;
	const struct weir__extent *e = chunk->extent;
	bool cached = weir__extent_is_cached(e);

	if (!cached && weir__owner_is_borrowed(&loop->reactor.owner))
		return FOR_THREAD;
	if (!has_room(loop, job, e, chunk))
		return BLOCKED;
	if (cached)
		link_file_put(loop, link);
	else
		link_file_get(loop, link, e->file);
	if (!weir__op_start(loop, job, chunk, link->fixed >= 0))
		return BLOCKED;
	link->deferred = NONE;
	return DISPATCHED;
}

/* Are the job's chunks completed without being started? Then @ret is why. */
static bool skipped(const struct weir__job *job, struct weir__outcome *ret)
{
	if (atomic_load(&job->cancelled) ||
	    (job->stopped && atomic_load(job->stopped)))
		*ret = (struct weir__outcome){
			.end = atomic_load(&job->eng->abort) ? WEIR__ABANDONED
							     : WEIR__CANCELLED
		};
	else if (weir__reads_ended(job->reads))
		*ret = weir__reads_outcome(job->reads);
	else
		return false;
	return true;
}

static enum dispatched dispatch_one(struct weir__loop *loop,
				    struct weir__job_link *link)
{
	const struct weir__engine *eng = loop->reactor.eng;
	struct weir__job *job = link->job;
	struct weir__chunk chunk;
	struct weir__outcome outcome;
	bool start = !skipped(job, &outcome);
	uint64_t number = link->deferred;

	/* A borrower may neither start writes nor use the ring's tables. */
	if ((job->write || link->fixed >= 0) &&
	    weir__owner_is_borrowed(&loop->reactor.owner))
		return FOR_THREAD;
	if (start && job->depth &&
	    atomic_load_explicit(&job->out, memory_order_relaxed) >= job->depth)
		return BLOCKED;
	if (number == NONE)
		number = atomic_fetch_add(&job->cursor, 1);
	if (number >= job->n_chunks)
		return SPENT;
	link->deferred = number;
	weir__job_chunk(job, eng->chunk_bytes, number, &link->extent, &chunk);
	if (start)
		return start_op(loop, link, &chunk);
	link->deferred = NONE;
	weir__chunk_complete(job, chunk.extent, chunk.lo, chunk.hi, &outcome,
			     WEIR__CHUNK_BUFFERED);
	return DISPATCHED;
}

void weir__dispatch(struct weir__loop *loop)
{
	unsigned blocked = 0; /* links in a row */

	while (blocked < loop->n_jobs && loop->free) {
		struct weir__job_link *link = loop->last_job->next;

		switch (dispatch_one(loop, link)) {
		case SPENT:
			jobs_drop_first(loop);
			link_release(loop, link);
			continue;
		case DISPATCHED:
			blocked = 0;
			break;
		case FOR_THREAD:
			loop->thread_needed = true;
			/*
			 * Nothing of this job is in flight: keep it first.
			 * Otherwise copiers would spend all of the window on
			 * their jobs.
			 */
			if (!atomic_load(&link->job->out))
				return;
			blocked++;
			break;
		case BLOCKED:
			blocked++;
			break;
		}
		loop->last_job = link;
	}
}

void weir__dispatch_cancel_all(struct weir__loop *loop)
{
	while (loop->n_jobs) {
		struct weir__job_link *link = loop->last_job->next;

		atomic_store(&link->job->cancelled, true);
		while (dispatch_one(loop, link) != SPENT)
			;
		jobs_drop_first(loop);
		link_release(loop, link);
	}
}
