/* SPDX-License-Identifier: MIT */
/*
 * Batched copies. A batch becomes one operation of the stream for each kind of
 * copy in it, and takes the engine's latency once.
 */
#include <stdlib.h>

#include "copy.h"

struct batch {
	CUdeviceptr *dsts, *srcs;
	size_t *sizes, count;
	CUmemcpyAttributes *attrs;
	size_t *indices, n_attrs;
};

static bool order_ok(const CUmemcpyAttributes *attr)
{
	return attr->srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       attr->srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
	       attr->flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
}

/* Attributes must cover all copies, in order, from the first. */
static bool attributes_ok(const struct batch *b)
{
	size_t i;

	if (!b->n_attrs || b->n_attrs > b->count || b->indices[0])
		return false;
	for (i = 0; i < b->n_attrs; i++) {
		if (!order_ok(&b->attrs[i]) || b->indices[i] >= b->count ||
		    (i && b->indices[i] <= b->indices[i - 1]))
			return false;
	}
	return true;
}

/*
 * A host address of registered memory that has another address on the device.
 * Other calls take it. This one accepts it too, but its copy then ends the
 * context with an illegal address.
 */
static void check_address(struct fc_call *call, CUdeviceptr ptr)
{
	const struct fc_range *range = fc_range_of((void *)(uintptr_t)ptr);

	if (range && range->memory == FC_REGISTERED && fc_no("hostpointer"))
		call->fault = (struct fc_fault){ FAKECUDA_LATE,
						 CUDA_ERROR_ILLEGAL_ADDRESS };
}

static CUresult one(struct fc_call *call, CUstream stream,
		    const struct batch *b, size_t first, size_t end,
		    const CUmemcpyAttributes *attr)
{
	struct fc_request *requests = calloc(end - first, sizeof(*requests));
	enum fc_order order = attr->srcAccessOrder ==
					      CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
				      ? FC_ORDER_STREAM
				      : FC_ORDER_NOW;
	CUresult result;
	size_t i;

	if (!requests)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = first; i < end; i++) {
		check_address(call, b->dsts[i]);
		check_address(call, b->srcs[i]);
		requests[i - first] = (struct fc_request){
			.dst = (void *)(uintptr_t)(b->dsts[i] & ~FC_ALIAS),
			.src = (void *)(uintptr_t)(b->srcs[i] & ~FC_ALIAS),
			.width = b->sizes[i],
			.height = 1,
		};
	}
	result = fc_copy(call, stream, requests, end - first, order, false);
	free(requests);
	return result;
}

static CUresult batch(struct fc_call *call, const struct batch *b,
		      CUstream stream)
{
	CUresult result = CUDA_SUCCESS;
	size_t i, end;

	if (fc_no("batch"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!stream || stream == CU_STREAM_LEGACY)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "stream 0");
	if (!b->count || !attributes_ok(b))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu copies, %zu attributes", b->count,
				b->n_attrs);
	for (i = 0; i < b->n_attrs && result == CUDA_SUCCESS; i++) {
		end = i + 1 < b->n_attrs ? b->indices[i + 1] : b->count;
		result = one(call, stream, b, b->indices[i], end, &b->attrs[i]);
	}
	return result;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs,
			       size_t *sizes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *indices,
			       size_t n_attrs, CUstream stream)
{
	FC_ENTER("cuMemcpyBatchAsync", FC_CTX | FC_QUEUE);
	struct batch b = { dsts, srcs, sizes, count, attrs, indices, n_attrs };

	return fc_leave(&call, batch(&call, &b, stream));
}

/* The form of CUDA 12.8, with the index of a failed copy: never set. */
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			    size_t count, CUmemcpyAttributes *attrs,
			    size_t *indices, size_t n_attrs, size_t *fail,
			    CUstream stream)
{
	FC_ENTER("cuMemcpyBatchAsync", FC_CTX | FC_QUEUE);
	struct batch b = { dsts, srcs, sizes, count, attrs, indices, n_attrs };

	if (fail)
		*fail = SIZE_MAX;
	return fc_leave(&call, batch(&call, &b, stream));
}
