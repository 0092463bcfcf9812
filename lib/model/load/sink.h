/* SPDX-License-Identifier: MIT */
/*
 * The sinks of a load: functions of the program that receive the bytes of
 * tensors. Each sink has a thread and a buffer of host memory, divided into
 * windows. The thread fills a window by a job of the engine, in the order of
 * the files, and passes the bytes on in that order; then it fills the window
 * again. A window has extents, each of neighbouring bytes of one file.
 *
 *	free		the thread chooses the extents and starts the job
 *	reading		the engine reads; a reactor sets done
 *	done		the thread passes the bytes on: free again
 *
 * Only this thread is blocked by the program's function. It is detached, and
 * keeps the engine open (weir__engine_hold).
 *
 * The functions are called for all sinks of a load, which may have none.
 */
#ifndef WEIR__MODEL_SINK_H
#define WEIR__MODEL_SINK_H

#include "model/load/load.h"

/* The sinks of @layout. -ENOMEM. */
int weir__sinks_new(struct weir_load *l, const struct weir__layout *layout);
/* The load has weights and the engine: allocate the windows. -ENOMEM. */
int weir__sinks_make(struct weir_load *l);
/*
 * Start the threads. A sink that has none fails its tensors. Each calls
 * weir__load_part_done when it has ended. @depth: most windows; 0: no limit.
 */
void weir__sinks_start(struct weir_load *l, uint32_t depth);
/* Any thread. */
void weir__sinks_cancel(struct weir_load *l);
/* All have ended: free the windows. True: the kernel may still write there. */
bool weir__sinks_end(struct weir_load *l);
void weir__sinks_free(struct weir_load *l);
/* Add what the sinks have read. */
void weir__sinks_report(struct weir_load *l, struct weir_load_report *rep);

#endif
