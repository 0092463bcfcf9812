/* SPDX-License-Identifier: MIT */
/* The calls that copy and fill. */
#include <stdlib.h>
#include <string.h>

#include "copy.h"

static const void *at(CUdeviceptr ptr)
{
	return (const void *)(uintptr_t)ptr;
}

/* True if the driver knows the address, as the call requires. */
static bool known(struct fc_call *call, CUdeviceptr ptr)
{
	if (fc_range_of(at(ptr)))
		return true;
	fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
		 "%#llx is not memory of a device", ptr);
	return false;
}

static CUresult plain(struct fc_call *call, const void *dst, const void *src,
		      size_t bytes, CUstream stream, bool sync)
{
	struct fc_request request = {
		.dst = dst, .src = src, .width = bytes, .height = 1
	};

	return fc_copy(call, stream, &request, 1, FC_ORDER_STREAM, sync);
}

static CUresult to_device(struct fc_call *call, CUdeviceptr dst,
			  const void *src, size_t bytes, CUstream stream,
			  bool sync)
{
	if (bytes && !known(call, dst))
		return CUDA_ERROR_INVALID_VALUE;
	return plain(call, at(dst), src, bytes, stream, sync);
}

static CUresult to_host(struct fc_call *call, void *dst, CUdeviceptr src,
			size_t bytes, CUstream stream, bool sync)
{
	if (bytes && !known(call, src))
		return CUDA_ERROR_INVALID_VALUE;
	return plain(call, dst, at(src), bytes, stream, sync);
}

static CUresult inside(struct fc_call *call, CUdeviceptr dst, CUdeviceptr src,
		       size_t bytes, CUstream stream)
{
	if (bytes && (!known(call, dst) || !known(call, src)))
		return CUDA_ERROR_INVALID_VALUE;
	return plain(call, at(dst), at(src), bytes, stream, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
			      CUstream stream)
{
	FC_ENTER("cuMemcpyHtoDAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call,
			to_device(&call, dst, src, bytes, stream, false));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	FC_ENTER("cuMemcpyHtoD", FC_CTX | FC_QUEUE | FC_UNSAFE);
	return fc_leave(&call, to_device(&call, dst, src, bytes, NULL, true));
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes,
			      CUstream stream)
{
	FC_ENTER("cuMemcpyDtoHAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call, to_host(&call, dst, src, bytes, stream, false));
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
	FC_ENTER("cuMemcpyDtoH", FC_CTX | FC_QUEUE | FC_UNSAFE);
	return fc_leave(&call, to_host(&call, dst, src, bytes, NULL, true));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
			      CUstream stream)
{
	FC_ENTER("cuMemcpyDtoDAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call, inside(&call, dst, src, bytes, stream));
}

/* Asynchronous in spite of its name: no host memory is involved. */
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	FC_ENTER("cuMemcpyDtoD", FC_CTX | FC_QUEUE);
	return fc_leave(&call, inside(&call, dst, src, bytes, NULL));
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
		       CUstream stream)
{
	FC_ENTER("cuMemcpyAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call,
			plain(&call, at(dst), at(src), bytes, stream, false));
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	FC_ENTER("cuMemcpy", FC_CTX | FC_QUEUE | FC_UNSAFE);
	return fc_leave(&call,
			plain(&call, at(dst), at(src), bytes, NULL, true));
}

/* Without peer access the copy uses host memory. */
static CUresult peer(struct fc_call *call, CUdeviceptr dst, CUcontext dst_ctx,
		     CUdeviceptr src, CUcontext src_ctx, size_t bytes,
		     CUstream stream)
{
	if (!fc_handle_ok(dst_ctx, FC_CONTEXT) ||
	    !fc_handle_ok(src_ctx, FC_CONTEXT))
		return fc_wrong(call, CUDA_ERROR_INVALID_CONTEXT,
				"not two contexts");
	if (dst_ctx->device->lost != CUDA_SUCCESS)
		return dst_ctx->device->lost;
	if (src_ctx->device->lost != CUDA_SUCCESS)
		return src_ctx->device->lost;
	return inside(call, dst, src, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			   CUcontext src_ctx, size_t bytes, CUstream stream)
{
	FC_ENTER("cuMemcpyPeerAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call,
			peer(&call, dst, dst_ctx, src, src_ctx, bytes, stream));
}

/* A pitch must not be larger than the device's largest. */
static bool pitch_ok(struct fc_call *call, size_t dst, size_t src)
{
	if (dst <= fc.opt.pitch && src <= fc.opt.pitch)
		return true;
	fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "pitches %zu and %zu", dst,
		 src);
	return false;
}

/* A driver may refuse a pitch that cuMemAllocPitch would not return. */
static bool pitch_liked(size_t dst, size_t src)
{
	return !fc_no("anypitch") || !((dst | src) % 512);
}

/* One layer only: rows, between two contexts. */
static CUresult peer_3d(struct fc_call *call, const CUDA_MEMCPY3D_PEER *c,
			CUstream stream)
{
	struct fc_request request = {
		.dst = at(c->dstDevice),
		.src = at(c->srcDevice),
		.width = c->WidthInBytes,
		.height = c->Height,
		.dst_pitch = c->dstPitch,
		.src_pitch = c->srcPitch,
	};
	CUresult result;

	if (c->dstMemoryType != CU_MEMORYTYPE_DEVICE || c->Depth != 1 ||
	    c->srcMemoryType != CU_MEMORYTYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!pitch_ok(call, c->dstPitch, c->srcPitch) ||
	    !pitch_liked(c->dstPitch, c->srcPitch))
		return CUDA_ERROR_INVALID_VALUE;
	/* Check contexts and ends with a copy of no bytes. */
	result = peer(call, c->dstDevice, c->dstContext, c->srcDevice,
		      c->srcContext, 0, stream);
	if (result != CUDA_SUCCESS || !known(call, c->dstDevice) ||
	    !known(call, c->srcDevice))
		return result != CUDA_SUCCESS ? result
					      : CUDA_ERROR_INVALID_VALUE;
	return fc_copy(call, stream, &request, 1, FC_ORDER_STREAM, false);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	FC_ENTER("cuMemcpy3DPeerAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call, peer_3d(&call, copy, stream));
}

static const char *side(CUmemorytype type, const void *host, CUdeviceptr device,
			size_t x, size_t y, size_t pitch)
{
	const char *base = type == CU_MEMORYTYPE_HOST ? host : at(device);

	return base + y * pitch + x;
}

static CUresult copy_2d(struct fc_call *call, const CUDA_MEMCPY2D *c,
			CUstream stream)
{
	struct fc_request request = {
		.dst = side(c->dstMemoryType, c->dstHost, c->dstDevice,
			    c->dstXInBytes, c->dstY, c->dstPitch),
		.src = side(c->srcMemoryType, c->srcHost, c->srcDevice,
			    c->srcXInBytes, c->srcY, c->srcPitch),
		.width = c->WidthInBytes,
		.height = c->Height,
		.dst_pitch = c->dstPitch,
		.src_pitch = c->srcPitch,
	};

	if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY ||
	    c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((c->dstMemoryType == CU_MEMORYTYPE_DEVICE &&
	     !known(call, c->dstDevice)) ||
	    (c->srcMemoryType == CU_MEMORYTYPE_DEVICE &&
	     !known(call, c->srcDevice)))
		return CUDA_ERROR_INVALID_VALUE;
	if (!pitch_ok(call, c->dstPitch, c->srcPitch) ||
	    (c->dstMemoryType == CU_MEMORYTYPE_DEVICE &&
	     c->srcMemoryType == CU_MEMORYTYPE_DEVICE &&
	     !pitch_liked(c->dstPitch, c->srcPitch)))
		return CUDA_ERROR_INVALID_VALUE;
	return fc_copy(call, stream, &request, 1, FC_ORDER_STREAM, false);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	FC_ENTER("cuMemcpy2DAsync", FC_CTX | FC_QUEUE);
	return fc_leave(&call, copy_2d(&call, copy, stream));
}
