/* SPDX-License-Identifier: MIT */
#include "io/reactor.h"

#include <errno.h>
#include <stdio.h>

#include "alloc/touch.h"
#include "core/clock.h"
#include "core/sys.h"
#include "core/trace.h"

#define NONE UINT64_MAX
#define LONG_JOB 8u /* chunks */
/*
 * While a device copies that does not tell: look again after this, ns, and
 * later each time that nothing has ended.
 */
#define PAUSE_MIN 50000
#define PAUSE_MAX 200000

static const struct weir__outcome stopped = { .end = WEIR__CANCELLED };
static const struct weir__outcome abandoned = { .end = WEIR__ABANDONED };

/* For the thread, which is needed for that. */
static void leave_to_thread(struct weir__reactor *r, struct weir__msg *msg)
{
	msg->next = NULL;
	*r->for_thread_end = msg;
	r->for_thread_end = &msg->next;
	r->thread_needed = true;
}

/* Take everything from the inbox, oldest first. */
static struct weir__msg *take_inbox(struct weir__reactor *r)
{
	struct weir__msg *m =
		atomic_exchange_explicit(&r->inbox, NULL, memory_order_acquire);
	struct weir__msg *list = NULL;

	while (m) {
		struct weir__msg *next = m->next;

		m->next = list;
		list = m;
		m = next;
	}
	return list;
}

static void jobs_append(struct weir__reactor *r, struct weir__job_link *link)
{
	link->next = NULL;
	*r->jobs_end = link;
	r->jobs_end = &link->next;
	r->n_jobs++;
}

static void jobs_push(struct weir__reactor *r, struct weir__job_link *link)
{
	link->next = r->jobs;
	if (!r->jobs)
		r->jobs_end = &link->next;
	r->jobs = link;
	r->n_jobs++;
}

static struct weir__job_link *jobs_pop(struct weir__reactor *r)
{
	struct weir__job_link *link = r->jobs;

	r->jobs = link->next;
	if (!r->jobs)
		r->jobs_end = &r->jobs;
	r->n_jobs--;
	return link;
}

static void read_messages(struct weir__reactor *r, struct weir__msg *m)
{
	while (m) {
		struct weir__msg *next = m->next;

		if (m->kind == WEIR__MSG_JOB) {
			jobs_append(r, (struct weir__job_link *)m);
		} else {
			struct weir__op *op = (struct weir__op *)m;

			if (weir__owner_is_borrowed(&r->owner) &&
			    !weir__op_is_cached(op))
				leave_to_thread(r, m);
			else
				weir__op_advance(op, op->res);
		}
		m = next;
	}
}

static void take_messages(struct weir__reactor *r)
{
	struct weir__msg *left = r->for_thread;

	r->for_thread = NULL;
	r->for_thread_end = &r->for_thread;
	read_messages(r, left);
	if (weir__owner_take_news(&r->owner))
		read_messages(r, take_inbox(r));
}

/*
 * A long job keeps the file that it is at in the ring's table, so that its
 * reads need not look it up in the process's.
 */
static void link_file_get(struct weir__reactor *r, struct weir__job_link *link,
			  struct weir_file *file)
{
	if (!r->method_ops->file_get) {
		link->fixed = -1; /* the ring failed */
		return;
	}
	if (link->file == file || link->job->n_chunks < LONG_JOB)
		return;
	if (link->fixed >= 0)
		r->method_ops->file_put(r, link->fixed);
	link->file = file;
	link->fixed = r->method_ops->file_get(r, file);
}

static void link_file_put(struct weir__reactor *r, struct weir__job_link *link)
{
	if (link->fixed >= 0 && r->method_ops->file_put)
		r->method_ops->file_put(r, link->fixed);
	link->fixed = -1;
	link->file = NULL;
}

static void link_release(struct weir__reactor *r, struct weir__job_link *link)
{
	link_file_put(r, link);
	weir__job_item_done(link->job);
}

/*
 * A queue of the job's own may be behind work that nobody knows the end of.
 * What it holds of the slots leaves some for others.
 */
static bool caller_copies_full(const struct weir__reactor *r,
			       const struct weir__job *job)
{
	return job->submit_copy && r->n_caller_copies &&
	       r->n_caller_copies >= weir__slots_scarcer_count(r->slots) / 2;
}

enum dispatched {
	DISPATCHED, /* a chunk is on its way, or was told as cancelled */
	BLOCKED,    /* the job must wait for a slot, its memory, its depth */
	FOR_THREAD, /* the thread must deal it, which we are not */
	SPENT       /* the job has no more chunks: the link is no longer ours */
};

static enum dispatched dispatch_one(struct weir__reactor *r,
				    struct weir__job_link *link)
{
	struct weir__job *job = link->job;
	const struct weir__extent *e;
	struct weir__chunk chunk;
	struct weir__op *op;
	bool cancelled = atomic_load(&job->cancelled);
	bool lent = weir__owner_is_borrowed(&r->owner);
	uint64_t number = link->deferred;

	/* Writes, and the ring's tables. */
	if (lent && (job->write || link->fixed >= 0))
		return FOR_THREAD;
	if (!cancelled && job->depth &&
	    atomic_load_explicit(&job->out, memory_order_relaxed) >= job->depth)
		return BLOCKED;
	if (number == NONE)
		number = atomic_fetch_add(&job->cursor, 1);
	if (number >= job->n_chunks)
		return SPENT;
	link->deferred = number;
	weir__job_chunk(job, r->eng->chunk_bytes, number, &link->ext, &chunk);
	if (cancelled) {
		link->deferred = NONE;
		weir__chunk_complete(job, chunk.ext, chunk.lo, chunk.hi,
				     atomic_load(&r->eng->abort) ? &abandoned
								 : &stopped,
				     WEIR__CHUNK_BUFFERED);
		return DISPATCHED;
	}
	e = &job->ext[chunk.ext];
	if (lent && !weir__extent_is_cached(e))
		return FOR_THREAD;
	if (caller_copies_full(r, job))
		return BLOCKED;
	if (r->bytes_out >=
	    (e->file->network ? r->eng->network_window : r->eng->window))
		return BLOCKED;
	if (e->touch && !e->buffered &&
	    !weir__touch_ready(e->touch, e->addr + chunk.hi))
		return BLOCKED;
	if (weir__extent_is_cached(e))
		link_file_put(r, link);
	else
		link_file_get(r, link, e->file);
	op = weir__op_get(r);
	if (!weir__op_start(op, job, &chunk, link->fixed >= 0))
		return BLOCKED;
	link->deferred = NONE;
	return DISPATCHED;
}

/* A chunk of each job in turn, while there is room. */
static void dispatch(struct weir__reactor *r)
{
	unsigned blocked = 0; /* in a row */

	while (blocked < r->n_jobs && r->free) {
		struct weir__job_link *link = jobs_pop(r);

		switch (dispatch_one(r, link)) {
		case SPENT:
			link_release(r, link);
			continue;
		case DISPATCHED:
			blocked = 0;
			break;
		case FOR_THREAD:
			r->thread_needed = true;
			/* None of it is out: it is not to be passed again. */
			if (!atomic_load(&link->job->out)) {
				jobs_push(r, link);
				return;
			}
			blocked++;
			break;
		case BLOCKED:
			blocked++;
			break;
		}
		jobs_append(r, link);
	}
}

/*
 * The root closes and may wait no longer. What is out belongs to the kernel
 * for ever; the jobs are told, and keep their memory from being freed.
 */
static void orphan_all(struct weir__reactor *r)
{
	while (r->jobs) {
		struct weir__job_link *link = jobs_pop(r);

		atomic_store(&link->job->cancelled, true);
		while (dispatch_one(r, link) != SPENT)
			;
		link_release(r, link);
	}
	for (struct weir__op *op = r->ops; op; op = op->next_all)
		if (op->state != WEIR__OP_FREE &&
		    op->state != WEIR__OP_ORPHANED)
			weir__op_orphan(op, &abandoned);
}

/*
 * Is the read out too long, while nothing else of its job came? Clocks may be a
 * max_sleep behind: never too early.
 */
static bool is_late(const struct weir__op *op)
{
	const struct weir__reactor *r = op->reactor;
	int64_t limit = r->eng->weir->opts.read_timeout;
	int64_t since = op->dispatched, moved;

	if (limit < 0 || op->state != WEIR__OP_QUEUED || op->write)
		return false;
	moved = atomic_load_explicit(&op->job->moved, memory_order_relaxed);
	return r->clock - (moved > since ? moved : since) >=
	       limit + r->eng->max_sleep;
}

/*
 * Give up what is late. The kernel may still write to its memory, and a thread
 * of a pool may hang in it.
 */
static void give_up_late(struct weir__reactor *r)
{
	struct weir__engine *eng = r->eng;
	const struct weir__outcome late = { .end = WEIR__LATE,
					    .why = eng->late };
	unsigned readers = 0, copiers = 0;

	r->clock = weir__now();
	if (r->clock - r->late_checked < eng->max_sleep)
		return;
	r->late_checked = r->clock;
	for (struct weir__op *op = r->ops; op; op = op->next_all) {
		if (!is_late(op))
			continue;
		atomic_store(&eng->leaked, true);
		readers += !op->in_ring && op->direct;
		copiers += !op->in_ring && !op->direct;
		weir__op_orphan(op, &late);
	}
	/* When all are lost: or they would begin what is still queued of them. */
	while (readers--)
		weir__pool_more(eng->readers);
	while (copiers--)
		weir__pool_more(eng->copiers);
}

static int add_ops(struct weir__reactor *r)
{
	for (unsigned i = 0; i < r->n_ops; i++)
		if (!weir__op_add(r)) {
			r->method_ops->close(r);
			return -ENOMEM;
		}
	return 0;
}

static bool open_method(struct weir__reactor *r)
{
	struct weir__engine *eng = r->eng;
	int err = 0;

	r->method_ops = &weir__method_sync;
	if (eng->only_method) {
		r->method_ops = eng->only_method;
		err = eng->only_method->open(r);
	} else if (eng->wanted != WEIR_IO_SYNC) {
		r->method_ops = &weir__method_uring;
		err = weir__method_uring.open(r);
		if (err < 0 && !eng->only_ring) {
			r->method_ops = &weir__method_sync;
			err = 0;
		}
	}
	if (!err && r->method_ops == &weir__method_sync)
		err = weir__method_sync.open(r);
	if (!err)
		err = add_ops(r);
	if (err)
		atomic_store(&eng->start_err, err);
	atomic_fetch_add(&eng->ready, 1);
	weir__futex_wake(&eng->ready, INT32_MAX);
	return !err;
}

void weir__reactor_iterate(struct weir__reactor *r)
{
	const struct weir__engine *eng = r->eng;

	take_messages(r);
	/* Behind that: the kick that tells of them is seen by now, and gone. */
	if (atomic_load(&eng->stop) || atomic_load(&eng->abort) ||
	    atomic_load(&r->trim)) {
		r->thread_needed = true;
		return;
	}
	dispatch(r);
	/* The thread may have gone to sleep before there was a copy. */
	if (weir__copy_poll(r) && !r->polling)
		r->thread_needed = true;
}

static void inbox_push(struct weir__reactor *r, struct weir__msg *msg)
{
	struct weir__msg *head =
		atomic_load_explicit(&r->inbox, memory_order_relaxed);

	do
		msg->next = head;
	while (!atomic_compare_exchange_weak_explicit(&r->inbox, &head, msg,
						      memory_order_release,
						      memory_order_relaxed));
}

void weir__reactor_wake(struct weir__reactor *r)
{
	if (weir__owner_notify(&r->owner))
		weir__wakefd_signal(&r->wakefd);
}

void weir__reactor_post(struct weir__reactor *r, struct weir__msg *msg)
{
	inbox_push(r, msg);
	weir__reactor_wake(r);
}

void weir__reactor_post_or_borrow(struct weir__reactor *r,
				  struct weir__msg *msg)
{
	enum weir__owner_given given;

	inbox_push(r, msg);
	if (!weir__owner_notify_or_borrow(&r->owner))
		return;
	do {
		weir__reactor_iterate(r);
		given = weir__owner_give_back(&r->owner, r->thread_needed);
	} while (given == WEIR__OWNER_KEPT);
	if (given == WEIR__OWNER_WAKE)
		weir__wakefd_signal(&r->wakefd);
}

bool weir__reactor_check_wakefd(struct weir__reactor *r)
{
	enum weir__wakefd_check check = weir__wakefd_check(&r->wakefd);

	if (check == WEIR__WAKEFD_REPLACED)
		weir__log(
			r->eng->weir,
			"reactor %u: its eventfd was closed by the program; it has a new one",
			r->index);
	return check != WEIR__WAKEFD_SAME;
}

static void wait_for_more(struct weir__reactor *r)
{
	int64_t begun = weir__trace_now(r->eng->weir);
	bool copying = weir__copy_poll(r);

	if (!copying || weir__owner_has_news(&r->owner)) /* some have ended */
		r->pause = PAUSE_MIN;
	r->thread_needed = false;
	r->polling = copying;
	r->method_ops->wait(r, copying ? r->pause : -1);
	r->pause += r->pause / 4;
	if (r->pause > PAUSE_MAX)
		r->pause = PAUSE_MAX;
	weir__trace_span(r->eng->weir, WEIR__TRACK_REACTOR, r->index, 0, "wait",
			 begun, 0, r->bytes_out);
}

static void *reactor_main(void *arg)
{
	struct weir__reactor *r = arg;
	struct weir__engine *eng = r->eng;

	if (!open_method(r))
		return NULL;
	for (;;) {
		take_messages(r);
		if (atomic_load(&eng->abort)) {
			orphan_all(r);
			/* One that was about to start may be on its way. */
			if (!atomic_load(&eng->jobs))
				return NULL;
		}
		give_up_late(r);
		dispatch(r);
		if (atomic_exchange(&r->trim, false))
			weir__slots_trim(r->slots);
		if (atomic_load(&eng->stop) && !r->n_out && !r->jobs)
			break;
		wait_for_more(r);
	}
	r->method_ops->close(r);
	return NULL;
}

int weir__reactor_start(struct weir__reactor *r)
{
	char name[16];
	int err;

	r->jobs_end = &r->jobs;
	r->for_thread_end = &r->for_thread;
	r->pause = PAUSE_MIN;
	snprintf(name, sizeof(name), "weir-io%u", r->index % 100);
	err = weir__thread_start(&r->thread, name, reactor_main, r);
	r->started = !err;
	return err;
}
