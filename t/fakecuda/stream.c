/* SPDX-License-Identifier: MIT */
/*
 * Streams. A destroyed stream stays in its context's list until its queued
 * work is done; its handle is invalid at once.
 */
#include "queue.h"

static uint64_t last_id;

/* NULL: no memory. Under fc.lock, as are all functions here. */
struct CUstream_st *fc_stream_new(struct CUctx_st *ctx, unsigned flags,
				  int priority)
{
	struct CUstream_st *stream = fc_handle_new(FC_STREAM, ctx);

	if (!stream)
		return NULL;
	stream->channel = fc_channel_get();
	if (!stream->channel) {
		stream->handle.live = false;
		return NULL;
	}
	stream->id = ++last_id;
	stream->flags = flags;
	stream->priority = priority;
	stream->next = ctx->streams;
	ctx->streams = stream;
	return stream;
}

static void detach(struct CUstream_st *stream)
{
	struct CUstream_st **p = &stream->handle.ctx->streams;

	while (*p != stream)
		p = &(*p)->next;
	*p = stream->next;
	fc_channel_put(stream->channel);
	stream->channel = NULL;
}

/* Called when it is destroyed and when an operation finishes. */
void fc_stream_settle(struct CUstream_st *stream)
{
	if (!stream->handle.live && stream->channel &&
	    stream->done == stream->queued)
		detach(stream);
}

void fc_stream_close(struct CUstream_st *stream)
{
	fc.captures -= stream->capture != CU_STREAM_CAPTURE_STATUS_NONE;
	stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	stream->handle.live = false;
	fc_stream_settle(stream);
}

void fc_stream_wait(struct CUstream_st *stream, uint64_t number)
{
	while (stream->done < number)
		pthread_cond_wait(&fc.moved, &fc.lock);
}

static struct CUstream_st *busy(struct CUctx_st *ctx)
{
	struct CUstream_st *stream = ctx->streams;

	while (stream && stream->done == stream->queued)
		stream = stream->next;
	return stream;
}

/* Wait for all streams of the context, also destroyed ones. */
void fc_streams_wait(struct CUctx_st *ctx)
{
	struct CUstream_st *stream;

	while ((stream = busy(ctx)))
		pthread_cond_wait(&fc.moved, &fc.lock);
}

/* The two streams that each context has. */
static struct CUstream_st *built_in(struct CUctx_st *ctx, bool legacy)
{
	struct CUstream_st **p = legacy ? &ctx->legacy : &ctx->thread;

	if (!*p)
		*p = fc_stream_new(ctx, 0, 0);
	return *p;
}

/* NULL: not of the current context; the caller returns INVALID_HANDLE. */
struct CUstream_st *fc_stream_get(struct fc_call *call, CUstream stream)
{
	if (!stream || stream == CU_STREAM_LEGACY)
		return built_in(call->ctx, true);
	if (stream == CU_STREAM_PER_THREAD)
		return built_in(call->ctx, false);
	if (!fc_handle_ok(stream, FC_STREAM)) {
		fc_wrong(call, CUDA_ERROR_INVALID_HANDLE, "%p is no stream",
			 (void *)stream);
		return NULL;
	}
	if (stream->handle.ctx != call->ctx) {
		fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
			 "the stream is of another context");
		return NULL;
	}
	return stream;
}

static CUresult create(struct fc_call *call, CUstream *ret, unsigned flags,
		       int priority)
{
	struct CUstream_st *stream;

	if (!ret || flags > CU_STREAM_NON_BLOCKING)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "flags %#x",
				flags);
	stream = fc_stream_new(call->ctx, flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fc_made(FAKECUDA_STREAM);
	fc_note(call, "-> stream %llu ", (unsigned long long)stream->id);
	*ret = stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *ret, unsigned int flags)
{
	FC_ENTER("cuStreamCreate", FC_CTX);
	return fc_leave(&call, create(&call, ret, flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned int flags,
				    int priority)
{
	FC_ENTER("cuStreamCreateWithPriority", FC_CTX);
	/* Clamped to the range, as a real driver does. */
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	return fc_leave(&call, create(&call, ret, flags, priority));
}

static CUresult destroy(struct fc_call *call, CUstream stream)
{
	if (!fc_handle_ok(stream, FC_STREAM) ||
	    stream == stream->handle.ctx->legacy ||
	    stream == stream->handle.ctx->thread)
		return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
				"%p is no stream", (void *)stream);
	fc_note(call, "stream %llu ", (unsigned long long)stream->id);
	fc_went(FAKECUDA_STREAM);
	fc_stream_close(stream);
	return CUDA_SUCCESS;
}

/* Returns at once; queued work still runs. */
CUresult cuStreamDestroy_v2(CUstream stream)
{
	FC_ENTER("cuStreamDestroy", FC_CTX);
	return fc_leave(&call, destroy(&call, stream));
}

CUresult cuStreamQuery(CUstream handle)
{
	FC_ENTER("cuStreamQuery", FC_CTX | FC_UNSAFE);
	struct CUstream_st *stream = fc_stream_get(&call, handle);

	CUresult result;

	if (!stream)
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	result = fc_capture_ask(stream);
	if (result != CUDA_SUCCESS)
		return fc_leave(&call, result);
	return fc_leave(&call, stream->done == stream->queued
				       ? CUDA_SUCCESS
				       : CUDA_ERROR_NOT_READY);
}

static CUresult synchronize(struct fc_call *call, CUstream handle)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	CUresult result;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	result = fc_capture_ask(stream);
	if (result != CUDA_SUCCESS)
		return result;
	fc_stream_wait(stream, stream->queued);
	return fc_context_error(call->ctx);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	FC_ENTER("cuStreamSynchronize", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, synchronize(&call, stream));
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ret)
{
	FC_ENTER("cuStreamGetCtx", FC_CTX);
	/* The stream may be of any context, which this call returns. */
	if (fc_handle_ok(handle, FC_STREAM))
		*ret = handle->handle.ctx;
	else if (fc_stream_get(&call, handle))
		*ret = call.ctx;
	else
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *ret)
{
	FC_ENTER("cuStreamGetFlags", FC_CTX);
	struct CUstream_st *stream = fc_stream_get(&call, handle);

	if (!stream)
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	*ret = stream->flags;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuStreamGetPriority(CUstream handle, int *ret)
{
	FC_ENTER("cuStreamGetPriority", FC_CTX);
	struct CUstream_st *stream = fc_stream_get(&call, handle);

	if (!stream)
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	*ret = stream->priority;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *ret)
{
	FC_ENTER("cuStreamGetId", FC_CTX);
	struct CUstream_st *stream = fc_stream_get(&call, handle);

	if (!stream)
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	*ret = stream->id;
	return fc_leave(&call, CUDA_SUCCESS);
}
