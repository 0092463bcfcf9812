/* SPDX-License-Identifier: MIT */
/* Opening and closing the queues of all reactors to devices. */
#ifndef WEIR__IO_QUEUES_H
#define WEIR__IO_QUEUES_H

#include <stdbool.h>

struct weir__engine;
struct weir__job;

/*
 * Returns true if a device of the job has no queue yet: a reader thread tries
 * to open it and then posts the job. Returns false if the caller has to post
 * it.
 */
bool weir__queues_prepare(struct weir__engine *eng, struct weir__job *job);
/*
 * Post the jobs that wait for queues as cancelled. The closing thread calls it
 * after it has set eng->abort.
 */
void weir__queues_abandon(struct weir__engine *eng);
/* Close all queues. The closing thread calls it when all reactors ended. */
void weir__queues_close(struct weir__engine *eng);

#endif
