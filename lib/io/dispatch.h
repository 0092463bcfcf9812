/* SPDX-License-Identifier: MIT */
/* Choosing and starting the next chunk. Only for the reactor's owner. */
#ifndef WEIR__IO_DISPATCH_H
#define WEIR__IO_DISPATCH_H

#include "io/loop.h"

/* A new job, at the end of the list. */
void weir__dispatch_add(struct weir__loop *loop, struct weir__job_link *link);
/*
 * Start ops for one chunk of each job, round robin, while there are free ops,
 * slots and bytes in the window. A borrower sets loop->thread_needed for what
 * it may not start.
 */
void weir__dispatch(struct weir__loop *loop);
/* Cancel all jobs: each chunk that was not started ends at once. */
void weir__dispatch_cancel_all(struct weir__loop *loop);

#endif
