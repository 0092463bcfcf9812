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
 * For the closing thread, after it has set eng->abort: post the jobs that wait
 * for queues as cancelled.
 */
void weir__queues_abandon(struct weir__engine *eng);
/* For the closing thread, after the reactors have ended: close all queues. */
void weir__queues_close(struct weir__engine *eng);

#endif
