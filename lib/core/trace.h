/* SPDX-License-Identifier: MIT */
/*
 * Traces: threads record spans of time while a trace runs; weir_trace_stop()
 * writes them as Chrome's trace events. Without a trace a span costs one load.
 *
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
#ifndef WEIR__TRACE_H
#define WEIR__TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/root.h"
#include "core/sys.h"

enum weir__track { /* a kind of rows in the displayed trace */
	WEIR__TRACK_REACTOR,
	WEIR__TRACK_COPIER,
	WEIR__TRACK_PREFAULT,
	WEIR__TRACK_LOAD,
	WEIR__TRACK_STREAM /* has a group for each stream; others have few */
};

/* The time if a trace runs, else 0: @begun of weir__trace_span(). */
static inline int64_t weir__trace_now(struct weir *weir)
{
	return atomic_load_explicit(&weir->trace, memory_order_relaxed)
		       ? weir__now()
		       : 0;
}

void weir__trace_add(struct weir *weir, enum weir__track track, unsigned group,
		     unsigned lane, const char *name, int64_t begun,
		     uint64_t off, uint64_t bytes);

/*
 * Record a span from @begun to now in row @lane of group @group of the track;
 * nothing if @begun is 0. @name is a constant. Inline, so that the caller
 * computes no argument when no trace runs.
 */
static inline void weir__trace_span(struct weir *weir, enum weir__track track,
				    unsigned group, unsigned lane,
				    const char *name, int64_t begun,
				    uint64_t off, uint64_t bytes)
{
	if (__builtin_expect(begun != 0, 0))
		weir__trace_add(weir, track, group, lane, name, begun, off,
				bytes);
}

/*
 * Name group @group of @track in the trace that runs. *@named is the number of
 * the last trace in which the group was named (0 at first; the caller's lock
 * guards it). @name is copied: the object may be freed before the trace is
 * written.
 */
void weir__trace_name(struct weir *weir, enum weir__track track, unsigned group,
		      const char *name, uint32_t *named);

/* Drop a trace that was not stopped: the root is being freed. */
void weir__trace_drop(struct weir *weir);

#endif
