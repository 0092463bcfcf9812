/* SPDX-License-Identifier: MIT */
/*
 * The watcher: one thread of the root that polls queues which do not tell by
 * themselves when work has ended. It starts with the first such work, sleeps
 * while there is none, and else looks at each queue again after a pause that
 * grows while nothing ends.
 */
#ifndef WEIR__STREAM_WATCHER_H
#define WEIR__STREAM_WATCHER_H

#include <stdbool.h>

struct weir_stream;
struct weir__watcher;

int weir__watcher_new(struct weir__watcher **ret_watcher);
/* Stop, and join the thread; what still was out stays out. */
void weir__watcher_stop(struct weir__watcher *w);
void weir__watcher_free(struct weir__watcher *w);

/* Can work be watched? Starts the thread. < 0 with a sentence: it cannot. */
int weir__watcher_start(struct weir__watcher *w);
/*
 * Work was given to the queue of @s: poll it until none is out. Never blocks;
 * called with the stream's lock held.
 */
void weir__watch(struct weir__watcher *w, struct weir_stream *s);

#endif
