/* SPDX-License-Identifier: MIT */
/* Events, and waits for them. */
#include <stdio.h>
#include <stdlib.h>

#include "queue.h"

/* A mark with one reference. Under fc.lock. */
struct fc_mark *fc_mark_new(struct CUctx_st *ctx)
{
	struct fc_mark *mark = calloc(1, sizeof(*mark));

	if (!mark) {
		fprintf(stderr, "fakecuda: no memory\n");
		abort();
	}
	mark->refs = 1;
	mark->ctx = ctx;
	return mark;
}

void fc_mark_put(struct fc_mark *mark)
{
	if (!--mark->refs)
		free(mark);
}

static struct fc_mark *mark_get(struct fc_mark *mark)
{
	mark->refs++;
	return mark;
}

static CUresult no_event(struct fc_call *call, CUevent event)
{
	return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE, "%p is no event",
			(void *)event);
}

static CUresult create(struct fc_call *call, CUevent *ret, unsigned flags)
{
	struct CUevent_st *event;

	if (!ret || flags > 7 ||
	    (flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) ==
		    CU_EVENT_INTERPROCESS)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "flags %#x",
				flags);
	event = fc_handle_new(FC_EVENT, call->ctx);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->flags = flags;
	fc_made(FAKECUDA_EVENT);
	*ret = event;
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *ret, unsigned int flags)
{
	FC_ENTER("cuEventCreate", FC_CTX);
	return fc_leave(&call, create(&call, ret, flags));
}

/* Allowed before it has completed: waiting operations reference the mark. */
static CUresult destroy(struct fc_call *call, CUevent event)
{
	if (!fc_handle_ok(event, FC_EVENT))
		return no_event(call, event);
	event->handle.live = false;
	if (event->mark)
		fc_mark_put(event->mark);
	event->mark = NULL;
	fc_went(FAKECUDA_EVENT);
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	FC_ENTER("cuEventDestroy", FC_CTX);
	return fc_leave(&call, destroy(&call, event));
}

static CUresult record(struct fc_call *call, CUevent event, CUstream handle)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	struct fc_op *op;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fc_handle_ok(event, FC_EVENT))
		return no_event(call, event);
	if (event->handle.ctx != stream->handle.ctx)
		return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
				"event and stream are of two contexts");
	op = fc_op_new(FC_MARK, 0);
	op->mark = fc_mark_new(call->ctx);
	if (event->mark)
		fc_mark_put(event->mark);
	event->mark = mark_get(op->mark);
	fc_queue(call, stream, op);
	fc_note(call, "stream %llu ", (unsigned long long)stream->id);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	FC_ENTER("cuEventRecord", FC_CTX | FC_QUEUE);
	return fc_leave(&call, record(&call, event, stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
				unsigned int flags)
{
	FC_ENTER("cuEventRecordWithFlags", FC_CTX | FC_QUEUE);
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	return fc_leave(&call, record(&call, event, stream));
}

/* The event may be of any context that has not failed. */
static CUresult query(struct fc_call *call, CUevent event)
{
	CUresult result;

	if (!fc_handle_ok(event, FC_EVENT))
		return no_event(call, event);
	result = fc_context_error(event->handle.ctx);
	if (result != CUDA_SUCCESS || !event->mark)
		return result;
	if (event->mark->captured)
		return CUDA_ERROR_CAPTURED_EVENT;
	return event->mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventQuery(CUevent event)
{
	FC_ENTER("cuEventQuery", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, query(&call, event));
}

static CUresult synchronize(struct fc_call *call, CUevent event)
{
	struct CUctx_st *ctx;
	struct fc_mark *mark;

	if (!fc_handle_ok(event, FC_EVENT))
		return no_event(call, event);
	ctx = event->handle.ctx;
	if (event->mark && event->mark->captured)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (event->mark) {
		mark = mark_get(event->mark);
		while (!mark->done)
			pthread_cond_wait(&fc.moved, &fc.lock);
		fc_mark_put(mark);
	}
	return fc_context_error(ctx);
}

CUresult cuEventSynchronize(CUevent event)
{
	FC_ENTER("cuEventSynchronize", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, synchronize(&call, event));
}

static CUresult elapsed(struct fc_call *call, float *ret, CUevent start,
			CUevent end)
{
	if (!fc_handle_ok(start, FC_EVENT) || !fc_handle_ok(end, FC_EVENT))
		return no_event(call,
				fc_handle_ok(start, FC_EVENT) ? end : start);
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING ||
	    !start->mark || !end->mark || start->handle.ctx != end->handle.ctx)
		return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
				"not two timed records of a context");
	if (!start->mark->done || !end->mark->done)
		return CUDA_ERROR_NOT_READY;
	*ret = (float)((double)(int64_t)(end->mark->time - start->mark->time) /
		       1e6);
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ret, CUevent start, CUevent end)
{
	FC_ENTER("cuEventElapsedTime", FC_CTX);
	return fc_leave(&call, elapsed(&call, ret, start, end));
}

CUresult cuEventElapsedTime_v2(float *ret, CUevent start, CUevent end)
{
	FC_ENTER("cuEventElapsedTime", FC_CTX);
	return fc_leave(&call, elapsed(&call, ret, start, end));
}

/* An event that was never recorded blocks nothing. */
static CUresult wait_event(struct fc_call *call, CUstream handle, CUevent event,
			   unsigned flags)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	struct fc_op *op;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fc_handle_ok(event, FC_EVENT))
		return no_event(call, event);
	if (flags > CU_EVENT_WAIT_EXTERNAL)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "flags %#x",
				flags);
	if (!event->mark)
		return CUDA_SUCCESS;
	/* A real driver makes the stream a part of the capture. */
	if (event->mark->captured)
		return fc_wrong(call, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
				"a wait for what is captured");
	op = fc_op_new(FC_WAIT_MARK, 0);
	op->mark = mark_get(event->mark);
	fc_queue(call, stream, op);
	fc_note(call, "stream %llu ", (unsigned long long)stream->id);
	return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	FC_ENTER("cuStreamWaitEvent", FC_CTX | FC_QUEUE);
	return fc_leave(&call, wait_event(&call, stream, event, flags));
}
