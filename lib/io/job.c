/* SPDX-License-Identifier: MIT */
#include "io/job.h"

#include <errno.h>
#include <stdio.h>

#include "core/error.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "io/chunk.h"
#include "io/engine_state.h"
#include "io/queues.h"
#include "io/reactor.h"

/* The reason why a job has no queue to @dev. */
struct weir__refusal {
	struct weir__refusal *next;
	struct weir_dev *dev;
	int err;
	char why[240];
};

static struct weir__refusal *refusal_of(const struct weir__job *job,
					const struct weir_dev *dev)
{
	struct weir__refusal *refusal = job->refusals;

	while (refusal && refusal->dev != dev)
		refusal = refusal->next;
	return refusal;
}

bool weir__job_is_refused(const struct weir__job *job,
			  const struct weir_dev *dev)
{
	return refusal_of(job, dev) != NULL;
}

int weir__job_refusal(const struct weir__job *job, const struct weir_dev *dev)
{
	const struct weir__refusal *refusal = refusal_of(job, dev);

	if (!refusal)
		return weir__fail(-ENOMEM, "no queue to %s", dev->desc.name);
	return weir__fail(refusal->err, "%s", refusal->why);
}

/* If memory runs out, the job fails with a general sentence. */
void weir__job_note_refusal(struct weir__job *job, struct weir_dev *dev,
			    int err)
{
	struct weir__refusal *refusal = weir__calloc(1, sizeof(*refusal));

	if (!refusal)
		return;
	refusal->dev = dev;
	refusal->err = err;
	snprintf(refusal->why, sizeof(refusal->why), "%s", weir__error_text());
	refusal->next = job->refusals;
	job->refusals = refusal;
}

/*
 * If the job is leaked, a device may still read the copies of a scatter copy,
 * and the thread that opens queues may still add refusals: neither is freed.
 */
static void job_free_members(struct weir__job *job)
{
	struct weir__refusal *refusal;

	if (atomic_load(&job->leaked))
		return;
	weir__free(job->copy);
	job->copy = NULL;
	while ((refusal = job->refusals)) {
		job->refusals = refusal->next;
		weir__free(refusal);
	}
}

/* The closing thread waits for this, and so do reactors that are aborted. */
void weir__engine_release(struct weir__engine *eng)
{
	if (atomic_fetch_sub(&eng->jobs, 1) != 1)
		return;
	weir__futex_wake(&eng->jobs, INT32_MAX);
	if (atomic_load(&eng->abort))
		weir__reactors_wake(eng);
}

void weir__job_item_done(struct weir__job *job)
{
	struct weir__engine *eng = job->eng;

	if (atomic_fetch_sub(&job->remaining, 1) != 1)
		return;
	job_free_members(job);
	job->done(job);
	weir__engine_release(eng);
}

void weir__chunk_complete_merged(struct weir__job *job,
				 const struct weir__extent *e,
				 const struct weir__outcome *outcome,
				 enum weir__chunk_way way)
{
	size_t ext = weir__extent_index(job, e);

	for (uint32_t k = 0; k < e->n_merged; k++)
		job->chunk_done(job, ext + k, 0, e[k].len, outcome, way);
}

void weir__chunk_submitted(struct weir__job *job, const struct weir__extent *e,
			   uint64_t lo, uint64_t hi)
{
	size_t ext = weir__extent_index(job, e);
	uint32_t n = e->n_merged;

	if (n == 1)
		job->chunk_submitted(job, ext, lo, hi);
	for (uint32_t k = 0; k < n && n > 1; k++)
		job->chunk_submitted(job, ext + k, 0, e[k].len);
}

/* A short job is passed to as many reactors as it has chunks. */
static unsigned n_links(const struct weir__job *job)
{
	const struct weir__engine *eng = job->eng;

	if (job->n_chunks >= eng->n_started)
		return eng->n_started;
	return job->n_chunks ? (unsigned)job->n_chunks : 1;
}

/* The job may end as soon as its last link is posted: do not use it then. */
void weir__job_post(struct weir__job *job)
{
	struct weir__engine *eng = job->eng;
	unsigned n = n_links(job), first = 0;

	if (n < eng->n_started)
		first = atomic_fetch_add(&eng->next_reactor, n);
	for (unsigned i = 0; i < n; i++) {
		struct weir__job_link *link = &job->link[i];

		*link = (struct weir__job_link){ .msg.kind = WEIR__MSG_JOB,
						 .job = job,
						 .extent = job->ext,
						 .deferred = UINT64_MAX,
						 .fixed = -1 };
	}
	for (unsigned i = 0; i < n; i++)
		weir__reactor_post(eng->reactor[(first + i) % eng->n_started],
				   &job->link[i].msg);
}

/* Either the closing thread waits for the caller, or this call sees @closed. */
static bool engine_enter(struct weir__engine *eng, bool held)
{
	atomic_fetch_add(&eng->jobs, 1);
	if (held || !atomic_load(&eng->closed))
		return true;
	weir__engine_release(eng);
	return false;
}

int weir__engine_hold(struct weir__engine *eng)
{
	return engine_enter(eng, false)
		       ? 0
		       : weir__fail(-ESHUTDOWN, "the root has been closed");
}

static bool job_begin(struct weir__engine *eng, struct weir__job *job)
{
	/* Callers that wake the job before it starts have set it already. */
	if (!job->eng)
		job->eng = eng;
	atomic_init(&job->remaining, job->n_chunks + n_links(job));
	if (!job->reads)
		job->reads = &job->own_reads;
	if (engine_enter(eng, job->held))
		return true;
	job_free_members(job);
	return false;
}

int weir__job_start(struct weir__engine *eng, struct weir__job *job)
{
	int r = weir__job_divide(job, eng->chunk_bytes);

	if (r < 0)
		return r;
	if (!job_begin(eng, job))
		return weir__fail(-ESHUTDOWN, "the root has been closed");
	if (!weir__queues_prepare(eng, job))
		weir__job_post(job);
	return 0;
}

void weir__job_cancel(struct weir__job *job)
{
	atomic_store(&job->cancelled, true);
	weir__reactors_wake(job->eng);
}

void weir__job_wake(struct weir__job *job)
{
	weir__reactors_wake(job->eng);
}
