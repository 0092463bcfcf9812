/* SPDX-License-Identifier: MIT */
/*
 * Small reads of bytes in the page cache are made by the thread that queues
 * them: that costs less than waking a thread of the engine (io/nowait.h).
 */
#include "core/error.h"
#include "io/nowait.h"
#include "stream/fileio.h"

/*
 * The operation that this thread is queueing, and reads if the same call issues
 * it. Another thread issues it if others were queued in between.
 */
static _Thread_local const struct weir__stream_op *queueing;

static void nowait_start(struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	int r;

	if (op == queueing &&
	    weir__nowait_read(op->file, weir__fileio_addr(op),
			      range->hi - range->lo, range->lo)) {
		weir__stream_op_finish(op, NULL);
		return;
	}
	r = weir__fileio_make(op);
	if (r < 0) {
		weir__stream_op_fail(op, r, 0, "%s", weir_error());
		return;
	}
	/* The access was added without dma, so it has to be a buffered read. */
	op->io->ext->buffered = true;
	op->access[0].dma = false;
	op->start(op);
}

bool weir__fileio_may_nowait(const struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	uint64_t n = range->hi - range->lo;
	struct weir_stream *s = op->stream;
	bool idle;

	if (range->write || op->by_engine || op->work.rows > 1 ||
	    !weir__buf_is_host(op->access[0].buf))
		return false;
	pthread_mutex_lock(&s->lock);
	idle = !s->open;
	pthread_mutex_unlock(&s->lock);
	return idle && weir__nowait_allowed(s->timeline.weir, n) &&
	       weir__nowait_expected(op->file, range->lo, n);
}

int weir__fileio_queue_nowait(struct weir__stream_op *op)
{
	int r;

	op->start = nowait_start;
	queueing = op;
	r = weir__stream_op_queue(op);
	queueing = NULL;
	return r;
}
