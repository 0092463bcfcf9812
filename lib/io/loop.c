/* SPDX-License-Identifier: MIT */
/*
 * A reactor's loop, run by its thread or, for a few iterations, by a borrower.
 * Each iteration handles messages, dispatches chunks, and polls copies.
 */
#include "io/loop.h"

#include <errno.h>
#include <stdio.h>

#include "alloc/slots.h"
#include "alloc/prefault.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/chunk.h"
#include "io/device_copy.h"
#include "io/engine_state.h"
#include "io/job.h"
#include "io/method.h"
#include "io/op.h"
#include "io/source.h"

#define NONE UINT64_MAX
#define LONG_JOB 8u /* chunks */

static void jobs_append(struct weir__loop *loop, struct weir__job_link *link)
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
 * A long job keeps the file that it currently reads in the ring's table, so its
 * reads need no lookup in the process's table of descriptors.
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
	BLOCKED,    /* the job waits for a slot, its memory, or to be below its
		       depth */
	FOR_THREAD, /* not a borrower, only the thread may dispatch it */
	SPENT       /* the job has no more chunks: release the link */
};

/*
 * True if no more bytes of the file may be in flight. While writes are being
 * filled the disk has less to do, so there are some more of these: with 8
 * chunks in the window and none more, a save of unaligned tensors had 8 writes
 * in flight for only 58 % of its time.
 */
static bool window_is_full(const struct weir__loop *loop,
			   const struct weir__job *job,
			   const struct weir__extent *e)
{
	const struct weir__engine *eng = loop->reactor.eng;
	uint64_t window = e->file->network ? eng->network_window : eng->window;

	if (loop->bytes_out < window)
		return false;
	return !job->fill ||
	       loop->bytes_out >=
		       window + weir__down(window / 2, eng->chunk_bytes);
}

/*
 * True if the chunk may be started now. weir__op_start checks for a free slot.
 */
static bool has_room(const struct weir__loop *loop, const struct weir__job *job,
		     const struct weir__extent *e,
		     const struct weir__chunk *chunk)
{
	if (caller_copies_full(loop, job))
		return false;
	if (e->file->object ? weir__source_is_full(loop, chunk)
			    : window_is_full(loop, job, e))
		return false;
	/* Copiers fault the memory in as they write to it. */
	return !e->prefault || e->buffered || e->unpack ||
	       weir__prefault_ready(e->prefault, e->prefault_range,
				    e->addr + chunk->hi);
}

/*
 * True if the chunk has to wait until an earlier one has started, which then
 * wakes this reactor.
 */
static bool waits_for_order(struct weir__job *job, uint64_t number)
{
	if (!job->check || atomic_load(&job->in_order) == number)
		return false;
	atomic_store(&job->order_waits, true);
	return atomic_load(&job->in_order) != number;
}

static void started_in_order(struct weir__job *job, uint64_t number)
{
	if (!job->check)
		return;
	atomic_store(&job->in_order, number + 1);
	if (atomic_exchange(&job->order_waits, false))
		weir__reactors_wake(job->eng);
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
	if (waits_for_order(job, link->deferred) ||
	    !has_room(loop, job, e, chunk))
		return BLOCKED;
	if (cached || e->file->object)
		link_file_put(loop, link);
	else
		link_file_get(loop, link, e->file);
	if (!weir__op_start(loop, job, chunk, link->fixed >= 0))
		return BLOCKED;
	started_in_order(job, link->deferred);
	link->deferred = NONE;
	return DISPATCHED;
}

/*
 * True if the job's chunks are completed without being started: then @ret is
 * set to the reason.
 */
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

static void dispatch(struct weir__loop *loop)
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
			 * If nothing of this job is in flight, it stays first.
			 * Otherwise copiers would use up the window for their
			 * own jobs.
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

static void jobs_cancel(struct weir__loop *loop)
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

/*
 * A backend that does not call back is polled while its device copies: after
 * this time, ns, then after longer ones until a copy has ended.
 */
#define PAUSE_MIN 50000
#define PAUSE_MAX 200000
/* At an end by force: how long reads of sources may take to end, ns. */
#define SOURCES_NS 500000000

static const struct weir__outcome abandoned = { .end = WEIR__ABANDONED };

/* The caller is the owner, or the engine while no thread runs. */
static struct weir__loop *loop_of(struct weir__reactor *r)
{
	return (struct weir__loop *)r;
}

static void leave_to_thread(struct weir__loop *loop, struct weir__msg *msg)
{
	msg->next = NULL;
	*loop->for_thread_end = msg;
	loop->for_thread_end = &msg->next;
	loop->thread_needed = true;
}

static void handle_messages(struct weir__loop *loop, struct weir__msg *m)
{
	bool borrowed = weir__owner_is_borrowed(&loop->reactor.owner);

	while (m) {
		struct weir__msg *next = m->next;

		if (m->kind == WEIR__MSG_JOB) {
			jobs_append(loop, (struct weir__job_link *)m);
		} else {
			struct weir__op *op = (struct weir__op *)m;

			if (borrowed && !weir__op_is_cached(op))
				leave_to_thread(loop, m);
			else
				weir__op_advance(loop, op, op->res);
		}
		m = next;
	}
}

static void take_messages(struct weir__loop *loop)
{
	struct weir__msg *for_thread = loop->for_thread;

	if (for_thread) {
		loop->for_thread = NULL;
		loop->for_thread_end = &loop->for_thread;
		handle_messages(loop, for_thread);
	}
	if (weir__owner_is_notified(&loop->reactor.owner))
		handle_messages(loop,
				weir__reactor_take_messages(&loop->reactor));
}

/* One iteration of a borrower, which does not sleep. */
static void loop_iterate(struct weir__loop *loop)
{
	const struct weir__engine *eng = loop->reactor.eng;

	take_messages(loop);
	/*
	 * These flags are set before the reactor is woken. take_messages may
	 * have consumed that wake, so they are read after it.
	 */
	if (atomic_load(&eng->stop) || atomic_load(&eng->abort) ||
	    atomic_load(&loop->reactor.trim)) {
		loop->thread_needed = true;
		return;
	}
	dispatch(loop);
	/* The thread may have fallen asleep before there was a copy to poll. */
	if (weir__copy_poll(loop) && !loop->polling)
		loop->thread_needed = true;
}

/*
 * On a thread of a pool: execute the op, and post it back. If the reactor's
 * thread sleeps after a cached read, the copier does the rest too: it borrows
 * the reactor, completes the op, dispatches the next chunks and polls the
 * copies to devices. If the thread did that, each chunk would cost four
 * switches between threads, and one more slot, which is not in the CPU's cache.
 */
static void execute_task(struct weir__task *task)
{
	struct weir__op *op = weir__container(task, struct weir__op, task);
	struct weir__reactor *r = op->reactor;
	enum weir__owner_given given;

	if (!weir__op_execute(op))
		return;
	if (!weir__op_is_cached(op)) {
		weir__reactor_post(r, &op->msg);
		return;
	}
	if (!weir__reactor_post_or_borrow(r, &op->msg))
		return;
	do {
		loop_iterate(loop_of(r));
		given = weir__owner_give_back(&r->owner,
					      loop_of(r)->thread_needed);
	} while (given == WEIR__OWNER_KEPT);
	if (given == WEIR__OWNER_WAKE)
		weir__wakefd_signal(&r->wakefd);
}

/* Sources end reads that are cancelled soon: wait for these. */
static void end_sources(struct weir__loop *loop)
{
	int64_t deadline = weir__deadline(SOURCES_NS);

	weir__sources_hurry(loop);
	while (loop->n_at_source && weir__now() < deadline) {
		weir__sleep(PAUSE_MAX);
		take_messages(loop);
	}
}

/*
 * The root closes and waits no longer. The kernel may use the memory of ops in
 * flight forever: their jobs are completed, and that memory is not freed.
 */
static void orphan_all(struct weir__loop *loop)
{
	for (struct weir__op *op = loop->ops; op; op = op->next_all)
		if (weir__source_has(op))
			atomic_store(&op->job->cancelled, true);
	jobs_cancel(loop);
	end_sources(loop);
	for (struct weir__op *op = loop->ops; op; op = op->next_all)
		if (op->state != WEIR__OP_FREE &&
		    op->state != WEIR__OP_ORPHANED)
			weir__op_orphan(loop, op, &abandoned);
}

/* True if it is a read, and no byte of its job has arrived for too long. */
static bool is_late(const struct weir__loop *loop, const struct weir__op *op)
{
	return op->state == WEIR__OP_QUEUED && op->counted &&
	       weir__engine_is_late(loop->reactor.eng, op->job->reads,
				    loop->clock);
}

/*
 * Set the clock. The thread sleeps for at most max_sleep. If much more time has
 * passed, it could not run: the process was stopped (SIGSTOP, a frozen cgroup,
 * a paused virtual machine), or a driver blocked the thread. Bytes may have
 * arrived meanwhile unnoticed, so the time of running reads starts again.
 */
static void set_clock(struct weir__loop *loop)
{
	const struct weir__engine *eng = loop->reactor.eng;
	int64_t before = loop->clock, gap = eng->weir->opts.read_timeout / 2;

	if (gap < 2 * eng->max_sleep)
		gap = 2 * eng->max_sleep;
	loop->clock = weir__now();
	if (loop->clock - before < gap)
		return;
	for (struct weir__op *op = loop->ops; op; op = op->next_all)
		if (op->state == WEIR__OP_QUEUED && op->counted)
			weir__reads_wait_anew(op->job->reads, loop->clock);
}

/*
 * Orphan late reads, and with them those of the same job that were started a
 * moment ago: the job has failed, and starts no more. The kernel may still
 * write to their memory, and a thread of a pool may hang in one: the pool may
 * start another thread instead.
 */
static void give_up_late(struct weir__loop *loop)
{
	struct weir__engine *eng = loop->reactor.eng;
	const struct weir__outcome late = { .end = WEIR__LATE,
					    .why = eng->late_why };
	unsigned readers = 0, copiers = 0;

	set_clock(loop);
	if (loop->clock - loop->late_checked < eng->max_sleep)
		return;
	loop->late_checked = loop->clock;
	weir__sources_note_progress(loop);
	for (struct weir__op *op = loop->ops; op; op = op->next_all) {
		if (!is_late(loop, op))
			continue;
		if (weir__source_has(op)) {
			weir__reads_stop(op->job->reads, op->extent->file,
					 &late);
			if (weir__source_may_end(loop, op))
				continue;
		} else {
			readers += !op->in_ring && op->direct;
			copiers += !op->in_ring && !op->direct;
		}
		atomic_store(&eng->leaked, true);
		weir__op_orphan(loop, op, &late);
	}
	/* Not earlier: new threads would execute ops that are still queued. */
	while (readers--)
		weir__pool_more(eng->readers);
	while (copiers--)
		weir__pool_more(eng->copiers);
}

static int add_ops(struct weir__loop *loop)
{
	for (unsigned i = 0; i < loop->n_ops; i++)
		if (!weir__op_add(loop, execute_task)) {
			loop->method_ops->close(loop);
			return -ENOMEM;
		}
	return 0;
}

/* Without a ring threads read, unless the program asked for the ring. */
static int open_method(struct weir__loop *loop)
{
	struct weir__engine *eng = loop->reactor.eng;
	int err = 0;

	loop->method_ops = &weir__method_sync;
	if (eng->only_method) {
		loop->method_ops = eng->only_method;
		err = eng->only_method->open(loop);
	} else if (eng->wanted != WEIR_IO_SYNC) {
		loop->method_ops = &weir__method_uring;
		err = weir__method_uring.open(loop);
		if (err < 0 && !eng->only_ring) {
			loop->method_ops = &weir__method_sync;
			err = 0;
		}
	}
	if (!err && loop->method_ops == &weir__method_sync)
		err = weir__method_sync.open(loop);
	return err;
}

/* Reports the outcome to the thread that starts the engine. */
static bool loop_open(struct weir__loop *loop)
{
	struct weir__engine *eng = loop->reactor.eng;
	int err = open_method(loop);

	atomic_store(&loop->reactor.io, loop->method_ops->io);
	if (!err)
		err = add_ops(loop);
	if (err)
		atomic_store(&eng->start_err, err);
	atomic_fetch_add(&eng->ready, 1);
	weir__futex_wake(&eng->ready, INT32_MAX);
	return !err;
}

static void wait_for_more(struct weir__loop *loop)
{
	struct weir__reactor *r = &loop->reactor;
	int64_t begun = weir__trace_now(r->eng->weir);
	bool copying = weir__copy_poll(loop);

	/* A notification often means that a copy has ended: poll soon again. */
	if (!copying || weir__owner_is_notified(&r->owner))
		loop->pause = PAUSE_MIN;
	loop->thread_needed = false;
	loop->polling = copying;
	loop->method_ops->wait(loop, copying ? loop->pause : -1);
	loop->pause += loop->pause / 4;
	if (loop->pause > PAUSE_MAX)
		loop->pause = PAUSE_MAX;
	weir__trace_span(r->eng->weir, WEIR__TRACK_REACTOR, r->index, 0, "wait",
			 begun, 0, loop->bytes_out + loop->bytes_remote);
}

static void *loop_main(void *arg)
{
	struct weir__loop *loop = arg;
	struct weir__reactor *r = &loop->reactor;
	struct weir__engine *eng = r->eng;

	weir__cpus_enter(&eng->weir->io_cpus);
	if (!loop_open(loop))
		return NULL;
	for (;;) {
		take_messages(loop);
		if (atomic_load(&eng->abort)) {
			orphan_all(loop);
			/* A job that is being started may still be posted. */
			if (!atomic_load(&eng->jobs))
				return NULL;
		}
		give_up_late(loop);
		if (loop->n_at_source)
			weir__sources_hurry(loop);
		dispatch(loop);
		if (atomic_exchange(&r->trim, false))
			weir__slots_trim(r->slots);
		if (atomic_load(&eng->stop) && !loop->n_out && !loop->n_jobs)
			break;
		wait_for_more(loop);
	}
	loop->method_ops->close(loop);
	return NULL;
}

static int make_slots(struct weir__engine *eng, struct weir__slots **ret_slots)
{
	size_t share = eng->staging / eng->n_reactors;
	int err =
		weir__slots_new(eng->weir, share, eng->chunk_bytes, ret_slots);

	if (err < 0)
		return weir__fail_for(err, "I/O engine: staging slots");
	if (share && !weir__slots_count(*ret_slots))
		weir__engine_explain(eng, false, "no staging slots: %s",
				     weir__error_text());
	return 0;
}

int weir__reactor_new(struct weir__engine *eng, unsigned index,
		      struct weir__reactor **ret_reactor)
{
	struct weir__loop *loop = weir__calloc_aligned(1, sizeof(*loop));
	struct weir__reactor *r;
	int err;

	if (!loop)
		return weir__fail(-ENOMEM, "I/O engine: no memory");
	r = &loop->reactor;
	r->eng = eng;
	r->index = index;
	loop->n_ops = eng->n_ops;
	loop->for_thread_end = &loop->for_thread;
	loop->pause = PAUSE_MIN;
	err = weir__wakefd_open(&r->wakefd);
	if (err < 0) {
		err = weir__wakefd_fail(err, "I/O engine");
		goto out_loop;
	}
	err = make_slots(eng, &r->slots);
	if (err < 0)
		goto out_wakefd;
	*ret_reactor = r;
	return 0;
out_wakefd:
	weir__wakefd_close(&r->wakefd);
out_loop:
	weir__free(loop);
	return err;
}

int weir__reactor_start(struct weir__reactor *r)
{
	char name[16];
	int err;

	snprintf(name, sizeof(name), "weir-io%u", r->index % 100);
	err = weir__thread_start(&r->thread, name, loop_main, loop_of(r));
	r->started = !err;
	return err;
}

void weir__reactor_free(struct weir__reactor *r)
{
	struct weir__loop *loop = loop_of(r);

	if (!r)
		return;
	while (loop->ops) {
		struct weir__op *op = loop->ops;

		loop->ops = op->next_all;
		weir__free(op);
	}
	weir__slots_free(r->slots);
	weir__wakefd_close(&r->wakefd);
	weir__free(loop);
}
