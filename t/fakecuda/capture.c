/* SPDX-License-Identifier: MIT */
/*
 * Capture of streams into graphs: only what concerns calls made during a
 * capture. Work that is queued on a capturing stream is dropped.
 */
#include "fakecuda.h"

static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Its address identifies the thread. */
static _Thread_local char me;

/* True if the capture of @stream forbids this thread an unsafe call. */
static bool forbids(const struct CUstream_st *stream)
{
	if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE ||
	    mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (stream->capturer == &me)
		return stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* Every capture that forbids the call is invalidated, not only the first. */
CUresult fc_capture_admit(void)
{
	CUresult result = CUDA_SUCCESS;
	struct CUstream_st *stream = NULL;

	if (!fc.captures)
		return CUDA_SUCCESS;
	while ((stream = fc_handle_next(stream, FC_STREAM))) {
		if (!forbids(stream))
			continue;
		stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* An error in any mode: captured work has no end that could be queried. */
CUresult fc_capture_ask(struct CUstream_st *stream)
{
	if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_SUCCESS;
	if (stream->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult begin(struct fc_call *call, CUstream handle,
		      CUstreamCaptureMode how)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream == call->ctx->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->capture_mode = how;
	stream->capturer = &me;
	fc.captures++;
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode how)
{
	FC_ENTER("cuStreamBeginCapture", FC_CTX);
	return fc_leave(&call, begin(&call, stream, how));
}

static CUresult end(struct fc_call *call, CUstream handle, CUgraph *ret)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	CUstreamCaptureStatus was;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	was = stream->capture;
	if (was == CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->capturer != &me &&
	    stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	fc.captures--;
	*ret = NULL;
	return was == CU_STREAM_CAPTURE_STATUS_ACTIVE
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* The graph is always NULL: the stand-in has none. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
	FC_ENTER("cuStreamEndCapture", FC_CTX);
	return fc_leave(&call, end(&call, stream, ret));
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *ret)
{
	FC_ENTER("cuStreamIsCapturing", FC_CTX);
	struct CUstream_st *stream = fc_stream_get(&call, handle);

	if (!stream)
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	*ret = stream->capture;
	return fc_leave(&call, CUDA_SUCCESS);
}

/* The call concerns this thread only, so it cannot be armed to fail. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *how)
{
	FC_ENTER("cuThreadExchangeStreamCaptureMode", FC_FREE);
	CUstreamCaptureMode was = mode;

	mode = *how;
	*how = was;
	return fc_leave(&call, CUDA_SUCCESS);
}
