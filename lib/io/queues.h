/* SPDX-License-Identifier: MIT */
/* Opening and closing the queues of all reactors to devices. */
#ifndef WEIR__IO_QUEUES_H
#define WEIR__IO_QUEUES_H

#include <stdbool.h>

struct weir__engine;
struct weir__job;

/*
 * True: a device of the job has no queue yet. A reader thread opens it and then
 * posts the job, even if that failed. False: the caller posts it.
 */
bool weir__queues_prepare(struct weir__engine *eng, struct weir__job *job);
/*
 * The closing thread, after it has set eng->abort: jobs that wait for queues
 * are posted as cancelled.
 */
void weir__queues_abandon(struct weir__engine *eng);
/* The closing thread, after the reactors have ended. */
void weir__queues_close(struct weir__engine *eng);

#endif
