/* SPDX-License-Identifier: MIT */
/*
 * A job from its start to its end, for the files of the engine: its chunks are
 * completed and counted, and the last of them ends it.
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
 * Pass a job whose queues are open to the reactors. It may end before this
 * returns.
 */
void weir__job_post(struct weir__job *job);
/*
 * A chunk, or a reactor's link to the job, is finished. The last one ends the
 * job.
 */
void weir__job_item_done(struct weir__job *job);

static inline size_t weir__extent_index(const struct weir__job *job,
					const struct weir__extent *e)
{
	return (size_t)(e - job->ext);
}
/* weir__chunk_complete() for a chunk of several extents. */
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
/* The chunk's copy is submitted to the driver. The job has chunk_submitted. */
void weir__chunk_submitted(struct weir__job *job, const struct weir__extent *e,
			   uint64_t lo, uint64_t hi);

/*
 * Note that no queue to @dev could be opened, with the sentence of the calling
 * thread's error: the job's chunks for this device fail. One thread calls it,
 * before the job is posted.
 */
void weir__job_note_refusal(struct weir__job *job, struct weir_dev *dev,
			    int err);
bool weir__job_is_refused(const struct weir__job *job,
			  const struct weir_dev *dev);
/* Returns the errno of the refusal, and sets its sentence. */
int weir__job_refusal(const struct weir__job *job, const struct weir_dev *dev);

#endif
