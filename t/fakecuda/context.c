/* SPDX-License-Identifier: MIT */
/*
 * Contexts: the stack of each thread, the primary context of each device, and
 * how a context fails or ends.
 */
#include "kernel.h"

static _Thread_local struct CUctx_st *stack[FC_DEPTH_MAX];
static _Thread_local unsigned depth;

struct CUctx_st *fc_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

/* Every later call of @ctx returns @code. Under fc.lock. */
void fc_context_fail(struct CUctx_st *ctx, CUresult code)
{
	if (ctx->error == CUDA_SUCCESS)
		ctx->error = code;
	fc_log("# context of device %d failed: %d", ctx->device->ordinal,
	       (int)code);
	pthread_cond_broadcast(&fc.moved);
}

void fc_device_lose(struct fc_device *dev, CUresult code)
{
	dev->lost = code;
	fc_log("# device %d lost: %d", dev->ordinal, (int)code);
	pthread_cond_broadcast(&fc.moved);
}

/* The error that a call of @ctx returns; a late error is returned once. */
CUresult fc_context_error(struct CUctx_st *ctx)
{
	CUresult late = ctx->late;

	if (!ctx->handle.live)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (ctx->device->lost != CUDA_SUCCESS)
		return ctx->device->lost;
	if (ctx->error != CUDA_SUCCESS)
		return ctx->error;
	ctx->late = CUDA_SUCCESS;
	return late;
}

static struct CUctx_st *context_new(struct fc_device *dev, bool primary)
{
	struct CUctx_st *ctx = fc_handle_new(FC_CONTEXT, NULL);

	if (!ctx)
		return NULL;
	ctx->device = dev;
	ctx->primary = primary;
	return ctx;
}

static void events_end(struct CUctx_st *ctx)
{
	struct CUevent_st *event = NULL;

	while ((event = fc_handle_next(event, FC_EVENT))) {
		if (event->handle.ctx != ctx)
			continue;
		event->handle.live = false;
		if (event->mark)
			fc_mark_put(event->mark);
		event->mark = NULL;
		fc_went_with_context(FAKECUDA_EVENT);
	}
}

static void streams_end(struct CUctx_st *ctx)
{
	struct CUstream_st *stream = NULL;

	while ((stream = fc_handle_next(stream, FC_STREAM))) {
		if (stream->handle.ctx != ctx)
			continue;
		if (stream != ctx->legacy && stream != ctx->thread)
			fc_went_with_context(FAKECUDA_STREAM);
		fc_stream_close(stream);
	}
}

/* Drop queued work, wait for running work, then free all objects. */
static void context_end(struct CUctx_st *ctx)
{
	ctx->handle.live = false;
	pthread_cond_broadcast(&fc.moved);
	fc_streams_wait(ctx);
	streams_end(ctx);
	events_end(ctx);
	fc_graphs_end(ctx);
	fc_modules_end(ctx);
	fc_memory_drop(ctx);
}

static struct fc_device *device(CUdevice dev)
{
	return dev >= 0 && (unsigned)dev < fc.opt.devices ? &fc.device[dev]
							  : NULL;
}

static CUresult no_device(struct fc_call *call, CUdevice dev)
{
	return fc_wrong(call, CUDA_ERROR_INVALID_DEVICE, "device %d of %u", dev,
			fc.opt.devices);
}

static CUresult retain(struct fc_call *call, CUcontext *ret, CUdevice ordinal)
{
	struct fc_device *dev = device(ordinal);

	if (!dev)
		return no_device(call, ordinal);
	if (dev->lost != CUDA_SUCCESS)
		return dev->lost;
	if (!dev->primary)
		dev->primary = context_new(dev, true);
	if (!dev->primary)
		return CUDA_ERROR_OUT_OF_MEMORY;
	dev->retained++;
	fc_made(FAKECUDA_RETAINED);
	*ret = dev->primary;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice dev)
{
	FC_ENTER("cuDevicePrimaryCtxRetain", FC_INIT | FC_UNSAFE);
	return fc_leave(&call, retain(&call, ret, dev));
}

static void primary_end(struct fc_device *dev)
{
	struct CUctx_st *ctx = dev->primary;

	dev->primary = NULL;
	if (ctx)
		context_end(ctx);
}

static CUresult release(struct fc_call *call, CUdevice ordinal)
{
	struct fc_device *dev = device(ordinal);

	if (!dev)
		return no_device(call, ordinal);
	if (!dev->retained)
		return fc_wrong(call, CUDA_ERROR_INVALID_CONTEXT,
				"the primary context of device %d is not "
				"retained",
				ordinal);
	fc_went(FAKECUDA_RETAINED);
	if (!--dev->retained)
		primary_end(dev);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	FC_ENTER("cuDevicePrimaryCtxRelease", FC_INIT | FC_UNSAFE);
	return fc_leave(&call, release(&call, dev));
}

/* All that have retained the context find it destroyed. */
static CUresult reset(struct fc_call *call, CUdevice ordinal)
{
	struct fc_device *dev = device(ordinal);

	if (!dev)
		return no_device(call, ordinal);
	for (; dev->retained; dev->retained--)
		fc_went_with_context(FAKECUDA_RETAINED);
	primary_end(dev);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	FC_ENTER("cuDevicePrimaryCtxReset", FC_INIT | FC_UNSAFE);
	return fc_leave(&call, reset(&call, dev));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags,
				    int *active)
{
	FC_ENTER("cuDevicePrimaryCtxGetState", FC_INIT);
	struct fc_device *dev = device(ordinal);

	if (!dev)
		return fc_leave(&call, no_device(&call, ordinal));
	*flags = dev->primary ? dev->primary->flags : 0;
	*active = dev->primary != NULL;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags)
{
	FC_ENTER("cuDevicePrimaryCtxSetFlags", FC_INIT);
	struct fc_device *dev = device(ordinal);

	if (!dev)
		return fc_leave(&call, no_device(&call, ordinal));
	if (dev->primary)
		dev->primary->flags = flags;
	return fc_leave(&call, CUDA_SUCCESS);
}

static CUresult push(struct fc_call *call, struct CUctx_st *ctx)
{
	if (!fc_handle_ok(ctx, FC_CONTEXT))
		return fc_wrong(call, CUDA_ERROR_INVALID_CONTEXT,
				"%p is no context", (void *)ctx);
	if (depth == FC_DEPTH_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	FC_ENTER("cuCtxPushCurrent", FC_INIT);
	return fc_leave(&call, push(&call, ctx));
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
	FC_ENTER("cuCtxPopCurrent", FC_INIT);
	if (!depth)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_CONTEXT,
					 "no context is current"));
	depth--;
	if (ret)
		*ret = stack[depth];
	return fc_leave(&call, CUDA_SUCCESS);
}

/* Replaces the top of the stack; NULL pops it. */
static CUresult set_current(struct fc_call *call, struct CUctx_st *ctx)
{
	CUresult result;

	if (ctx && !fc_handle_ok(ctx, FC_CONTEXT))
		return fc_wrong(call, CUDA_ERROR_INVALID_CONTEXT,
				"%p is no context", (void *)ctx);
	if (depth)
		depth--;
	if (!ctx)
		return CUDA_SUCCESS;
	result = push(call, ctx);
	return result;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	FC_ENTER("cuCtxSetCurrent", FC_INIT);
	return fc_leave(&call, set_current(&call, ctx));
}

CUresult cuCtxGetCurrent(CUcontext *ret)
{
	FC_ENTER("cuCtxGetCurrent", FC_INIT);
	*ret = fc_current();
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *ret)
{
	FC_ENTER("cuCtxGetDevice", FC_CTX);
	*ret = call.ctx->device->ordinal;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned int *ret)
{
	FC_ENTER("cuCtxGetFlags", FC_CTX);
	*ret = call.ctx->flags;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	FC_ENTER("cuCtxGetStreamPriorityRange", FC_CTX);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
	FC_ENTER("cuCtxSynchronize", FC_CTX | FC_UNSAFE);
	fc_streams_wait(call.ctx);
	return fc_leave(&call, fc_context_error(call.ctx));
}

static CUresult create(struct fc_call *call, CUcontext *ret, unsigned flags,
		       CUdevice ordinal)
{
	struct fc_device *dev = device(ordinal);
	struct CUctx_st *ctx;

	if (!dev)
		return no_device(call, ordinal);
	if (dev->lost != CUDA_SUCCESS)
		return dev->lost;
	ctx = context_new(dev, false);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->flags = flags;
	fc_made(FAKECUDA_CONTEXT);
	*ret = ctx;
	return push(call, ctx);
}

CUresult cuCtxCreate_v2(CUcontext *ret, unsigned int flags, CUdevice dev)
{
	FC_ENTER("cuCtxCreate", FC_INIT);
	return fc_leave(&call, create(&call, ret, flags, dev));
}

CUresult cuCtxCreate_v4(CUcontext *ret, CUctxCreateParams *params,
			unsigned int flags, CUdevice dev)
{
	FC_ENTER("cuCtxCreate", FC_INIT);
	(void)params;
	return fc_leave(&call, create(&call, ret, flags, dev));
}

static CUresult destroy(struct fc_call *call, struct CUctx_st *ctx)
{
	if (!fc_handle_ok(ctx, FC_CONTEXT) || ctx->primary)
		return fc_wrong(call, CUDA_ERROR_INVALID_CONTEXT,
				"%p is no context that was created",
				(void *)ctx);
	if (depth && stack[depth - 1] == ctx)
		depth--;
	fc_went(FAKECUDA_CONTEXT);
	context_end(ctx);
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	FC_ENTER("cuCtxDestroy", FC_INIT);
	return fc_leave(&call, destroy(&call, ctx));
}

static CUresult enable_peer(struct fc_call *call, struct CUctx_st *peer)
{
	unsigned bit;

	if (!fc_handle_ok(peer, FC_CONTEXT) ||
	    peer->device == call->ctx->device)
		return fc_wrong(call, CUDA_ERROR_INVALID_DEVICE,
				"not a context of another device");
	if (fc_no("peer"))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1u << peer->device->ordinal;
	if (call->ctx->peers & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	call->ctx->peers |= bit;
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	FC_ENTER("cuCtxEnablePeerAccess", FC_CTX);
	if (flags)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	return fc_leave(&call, enable_peer(&call, peer));
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	FC_ENTER("cuCtxDisablePeerAccess", FC_CTX);
	unsigned bit = fc_handle_ok(peer, FC_CONTEXT)
			       ? 1u << peer->device->ordinal
			       : 0;

	if (!(call.ctx->peers & bit))
		return fc_leave(&call, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	call.ctx->peers &= ~bit;
	return fc_leave(&call, CUDA_SUCCESS);
}
