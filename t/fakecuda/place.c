/* SPDX-License-Identifier: MIT */
/* Classification of addresses, for copies and for attribute queries. */
#include <string.h>

#include "copy.h"

static CUresult outside(struct fc_call *call, const void *ptr, size_t bytes,
			const struct fc_range *range)
{
	return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
			"%zu bytes at %p, of which %zu are there", bytes, ptr,
			(size_t)(fc_range_end(range) - (uintptr_t)ptr));
}

static CUresult place_known(struct fc_call *call, const void *ptr, size_t bytes,
			    struct fc_range *range, struct fc_side *ret)
{
	if (bytes > fc_range_end(range) - (uintptr_t)ptr)
		return outside(call, ptr, bytes, range);
	/* A destroyed context has no memory. */
	ret->memory = range->memory;
	ret->device = range->device;
	ret->readonly = range->readonly;
	ret->at = range->memory == FC_DEVICE ? fc_shadow(range->device, ptr)
					     : ptr;
	return CUDA_SUCCESS;
}

/* Bytes from the start of the first row to the end of the last. */
static bool extent(size_t width, size_t height, size_t pitch, size_t *ret)
{
	size_t rows;

	if (height == 1) {
		*ret = width;
		return true;
	}
	return pitch >= width &&
	       !__builtin_mul_overflow(height - 1, pitch, &rows) &&
	       !__builtin_add_overflow(rows, width, ret);
}

CUresult fc_place(struct fc_call *call, const void *ptr, size_t width,
		  size_t height, size_t pitch, struct fc_side *ret)
{
	struct fc_range *range = fc_range_of(ptr);
	uintptr_t start = (uintptr_t)ptr;
	size_t bytes;

	if (!extent(width, height, pitch, &bytes) || start + bytes < start)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu rows of %zu bytes, pitch %zu", height,
				width, pitch);
	if (range && range->memory == FC_RESERVED)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%p is reserved, but has no memory", ptr);
	if (range)
		return place_known(call, ptr, bytes, range, ret);
	if (!ptr || fc_device_of(ptr))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"nothing is allocated at %p", ptr);
	if (fc_range_overlaps(start, start + bytes))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes at %p are page-locked in part",
				bytes, ptr);
	ret->memory = FC_UNKNOWN;
	ret->device = NULL;
	ret->readonly = false;
	ret->at = ptr;
	return CUDA_SUCCESS;
}

CUresult fc_place_written(struct fc_call *call, const void *ptr, size_t width,
			  size_t height, size_t pitch, struct fc_side *ret)
{
	CUresult result = fc_place(call, ptr, width, height, pitch, ret);

	if (result == CUDA_SUCCESS && ret->readonly)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%p is mapped for reading only", ptr);
	return result;
}

static size_t size_of(CUpointer_attribute what)
{
	switch (what) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return 4;
	default:
		return 8;
	}
}

/* Little endian: the first four bytes of a value are its low word. */
static bool attribute(CUpointer_attribute what, const struct fc_range *range,
		      const void *ptr, uint64_t *ret)
{
	bool device = range && range->memory == FC_DEVICE;

	*ret = 0;
	if (!range || range->memory == FC_RESERVED) {
		if (what == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*ret = (uint64_t)-2;
		return false;
	}
	switch (what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*ret = (uintptr_t)range->ctx;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret = (uintptr_t)ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*ret = device ? 0 : (uintptr_t)ptr;
		return !device;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*ret = range->id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*ret = (uint64_t)range->device->ordinal;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*ret = range->start;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*ret = range->end - range->start;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret = 1;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		break;
	default:
		return false;
	}
	return true;
}

/* Several attributes: one that does not apply is 0, without an error. */
CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *what,
				void **data, CUdeviceptr ptr)
{
	FC_ENTER("cuPointerGetAttributes", FC_CTX);
	const void *p = (void *)(uintptr_t)ptr;
	struct fc_range *range = fc_range_of(p);
	uint64_t value;
	unsigned i;

	for (i = 0; i < n; i++) {
		attribute(what[i], range, p, &value);
		memcpy(data[i], &value, size_of(what[i]));
	}
	return fc_leave(&call, CUDA_SUCCESS);
}

/* One attribute: it is an error if it does not apply. */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute what,
			       CUdeviceptr ptr)
{
	FC_ENTER("cuPointerGetAttribute", FC_CTX);
	const void *p = (void *)(uintptr_t)ptr;
	uint64_t value;

	if (!attribute(what, fc_range_of(p), p, &value))
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	memcpy(data, &value, size_of(what));
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_start, size_t *ret_size,
				 CUdeviceptr ptr)
{
	FC_ENTER("cuMemGetAddressRange", FC_CTX);
	struct fc_range *range = fc_range_of((void *)(uintptr_t)ptr);

	if (!range)
		return fc_leave(&call, CUDA_ERROR_NOT_FOUND);
	if (ret_start)
		*ret_start = range->start;
	if (ret_size)
		*ret_size = range->end - range->start;
	return fc_leave(&call, CUDA_SUCCESS);
}
