/* SPDX-License-Identifier: MIT */
/*
 * Traces: spans of time that threads note down while a trace runs, written as
 * Chrome's trace events when it ends. When none runs, a span costs one load.
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

enum weir__track { /* one group of rows each */
	WEIR__TRACK_REACTOR,
	WEIR__TRACK_COPIER,
	WEIR__TRACK_TOUCH,
	WEIR__TRACK_LOAD,
	WEIR__TRACK_STREAM /* any number of groups; others have few */
};

/* The time if a trace runs, else 0: what weir__trace_span wants as @begun. */
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
 * From @begun to now, in row @lane of group @group of the track. @name is a
 * constant. Nothing if @begun is 0: that is decided, and with it what the
 * arguments need is left out, where it is called.
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
 * Name group @group of @track in the trace that runs, if one does and *@named
 * is not its number, which is put there: 0 at first, guarded by the caller.
 * @name is copied: what it names may be gone when the trace is written.
 */
void weir__trace_name(struct weir *weir, enum weir__track track, unsigned group,
		      const char *name, uint32_t *named);

/* The root goes: drop what was not stopped. */
void weir__trace_drop(struct weir *weir);

#endif
