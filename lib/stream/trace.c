/* SPDX-License-Identifier: MIT */
/*
 * A stream in a trace: a row for its queue, where one operation follows
 * another, and rows for the file operations that run beside it.
 */
#include "core/clock.h"
#include "core/trace.h"
#include "stream/stream.h"

/* The lowest lane that is not in use; 0 is the queue's. */
static unsigned lane_get(struct weir_stream *s)
{
	for (unsigned i = 0; i < WEIR__STREAM_FILES; i++) {
		uint64_t bit = 1ull << i % 64;

		if (s->lanes[i / 64] & bit)
			continue;
		s->lanes[i / 64] |= bit;
		return i + 1;
	}
	return 0;
}

void weir__stream_trace_issued(struct weir_stream *s,
			       struct weir__stream_op *op)
{
	op->begun = weir__trace_now(s->timeline.weir);
	if (op->begun && op->file)
		op->lane = lane_get(s);
}

void weir__stream_trace_finished(struct weir_stream *s,
				 struct weir__stream_op *op)
{
	if (!op->begun)
		return;
	weir__trace_name(s->timeline.weir, WEIR__TRACK_STREAM, s->id, s->label,
			 &s->named);
	if (op->lane)
		s->lanes[(op->lane - 1) / 64] &= ~(1ull << (op->lane - 1) % 64);
	else if (op->begun < s->queue_end)
		/* It was issued early, and began when its predecessor ended. */
		op->begun = s->queue_end;
	weir__trace_span(s->timeline.weir, WEIR__TRACK_STREAM, s->id, op->lane,
			 op->what, op->begun, op->file_range.lo, op->bytes);
	if (!op->lane)
		s->queue_end = weir__now();
}
