/* SPDX-License-Identifier: MIT */
/*
 * The watcher: one thread of the root that polls the queues which do not call
 * work->done by themselves. It is started with the first such stream, sleeps
 * while no work is out, and else polls each queue after a pause, which grows
 * while nothing completes.
 */
#ifndef WEIR__STREAM_WATCHER_H
#define WEIR__STREAM_WATCHER_H

#include <stdbool.h>

struct weir_stream;
struct weir__watcher;

int weir__watcher_new(struct weir__watcher **ret_watcher);
/* Stop, and join the thread. Work that is still out is not polled any more. */
void weir__watcher_stop(struct weir__watcher *w);
void weir__watcher_free(struct weir__watcher *w);

/* Start the thread, if it is not running. < 0 with a sentence: it cannot be. */
int weir__watcher_start(struct weir__watcher *w);
/*
 * Work was submitted to the queue of @s: poll it until none is out. Never
 * blocks; called with the stream's lock held.
 */
void weir__watch(struct weir__watcher *w, struct weir_stream *s);

#endif
