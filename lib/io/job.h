/* SPDX-License-Identifier: MIT */
/*
 * A job from its start to its end: its chunks are completed and counted, and
 * the last of them ends it.
 */
#ifndef WEIR__IO_JOB_H
#define WEIR__IO_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/engine.h"
#include "io/reactor.h"

struct weir_dev;

/*
 * Count the job, which has been cut, as started. False: the root is closing,
 * and the job belongs to the caller again.
 */
bool weir__job_begin(struct weir__engine *eng, struct weir__job *job);
/* Pass it to the reactors. It may end before this returns. */
void weir__job_post(struct weir__job *job);

/*
 * Any thread: one of the job's chunks is no longer in flight. Below the job's
 * depth again: reactors may have deferred a chunk for that.
 */
static inline void weir__job_out_dec(struct weir__job *job)
{
	if (atomic_fetch_sub(&job->out, 1) == job->depth && job->depth)
		weir__reactors_wake(job->eng);
}
/* A chunk or a link is finished; the last one ends the job. */
void weir__job_item_done(struct weir__job *job);

static inline size_t weir__extent_index(const struct weir__job *job,
					const struct weir__extent *e)
{
	return (size_t)(e - job->ext);
}
/* weir__chunk_complete, of a chunk of several extents. */
void weir__chunk_complete_merged(struct weir__job *job,
				 const struct weir__extent *e,
				 const struct weir__outcome *outcome,
				 enum weir__chunk_way way);
/* Report the chunk to the job, which may have ended when this returns. */
static inline void weir__chunk_complete(struct weir__job *job,
					const struct weir__extent *e,
					uint64_t lo, uint64_t hi,
					const struct weir__outcome *outcome,
					enum weir__chunk_way way)
{
	if (e->n_merged == 1)
		job->chunk_done(job, weir__extent_index(job, e), lo, hi,
				outcome, way);
	else
		weir__chunk_complete_merged(job, e, outcome, way);
	weir__job_item_done(job);
}
/* Its copy is in the driver. The job has chunk_submitted. */
void weir__chunk_submitted(struct weir__job *job, const struct weir__extent *e,
			   uint64_t lo, uint64_t hi);

/*
 * Devices to which the job has no queue, each with its reason: chunks for such
 * a device fail. Before the job is posted one thread notes them.
 */
void weir__job_note_refusal(struct weir__job *job, struct weir_dev *dev,
			    int err);
bool weir__job_is_refused(const struct weir__job *job,
			  const struct weir_dev *dev);
/* The errno, with its sentence. */
int weir__job_refusal(const struct weir__job *job, const struct weir_dev *dev);

#endif
