/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: addresses are reserved, memory is created, and mapped there.
 * A reservation is a range without memory; while memory is mapped to it, which
 * here takes all of it, the range is device memory once access is set. Physical
 * memory is freed when neither its handle nor a mapping is left. Memory belongs
 * to the device, not to a context.
 */
#include <stdlib.h>

#include "fakecuda.h"

#define UNIT ((size_t)2 << 20) /* the granularity */
#define HANDLES 1024u

/* Physical memory; handles are 1 + the number of an entry. */
static struct physical {
	struct fc_device *device;
	size_t size;
	bool held;    /* its handle is not released */
	uintptr_t at; /* where it is mapped; 0: nowhere */
} physical[HANDLES];

static bool location_ok(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       location->id >= 0 && (unsigned)location->id < fc.opt.devices;
}

static bool prop_ok(const CUmemAllocationProp *prop)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       location_ok(&prop->location);
}

CUresult cuMemGetAllocationGranularity(size_t *ret,
				       const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	FC_ENTER("cuMemGetAllocationGranularity", FC_INIT);
	(void)option;
	if (!ret || !prop_ok(prop))
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"no such kind of memory"));
	*ret = UNIT;
	return fc_leave(&call, CUDA_SUCCESS);
}

/* The stand-in's addresses belong to devices: that of the context. */
static CUresult reserve(struct fc_call *call, CUdeviceptr *ret, size_t size)
{
	struct fc_range range = { .memory = FC_RESERVED,
				  .device = call->ctx->device };

	if (!ret || !size || size % UNIT)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes are not whole units", size);
	range.start = fc_room(range.device, size);
	range.end = range.start + size;
	if (!range.start || !fc_range_add(&range))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = range.start;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t size, size_t alignment,
			     CUdeviceptr addr, unsigned long long flags)
{
	FC_ENTER("cuMemAddressReserve", FC_CTX);
	(void)addr;
	if (flags || (alignment & (alignment - 1)))
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"flags or an alignment"));
	return fc_leave(&call, reserve(&call, ret, size));
}

static struct fc_range *exact(CUdeviceptr ptr, size_t size)
{
	struct fc_range *range = fc_range_of((void *)(uintptr_t)ptr);

	return range && range->start == ptr && range->end - ptr == size ? range
									: NULL;
}

static struct physical *mapped_at(CUdeviceptr ptr)
{
	for (size_t i = 0; i < HANDLES; i++)
		if (physical[i].device && physical[i].at == ptr)
			return &physical[i];
	return NULL;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	FC_ENTER("cuMemAddressFree", FC_INIT);
	struct fc_range *range = exact(ptr, size);

	if (!range || range->memory != FC_RESERVED || mapped_at(ptr))
		return fc_leave(
			&call,
			fc_wrong(
				&call, CUDA_ERROR_INVALID_VALUE,
				"%#llx is no unmapped reservation of %zu bytes",
				ptr, size));
	fc_range_remove(range);
	return fc_leave(&call, CUDA_SUCCESS);
}

static CUresult create(struct fc_call *call, CUmemGenericAllocationHandle *ret,
		       size_t size, const CUmemAllocationProp *prop)
{
	struct fc_device *dev;
	size_t i = 0;

	if (!ret || !size || size % UNIT || !prop_ok(prop))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes are not whole units", size);
	dev = &fc.device[prop->location.id];
	while (i < HANDLES && physical[i].device)
		i++;
	if (i == HANDLES || dev->used >= fc.opt.mem ||
	    size > fc.opt.mem - dev->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	physical[i] = (struct physical){ dev, size, true, 0 };
	dev->used += size;
	fc.count.device_bytes += size;
	if (fc.count.device_bytes > fc.count.device_peak)
		fc.count.device_peak = fc.count.device_bytes;
	fc_made(FAKECUDA_DEVICE_MEMORY);
	*ret = i + 1;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	FC_ENTER("cuMemCreate", FC_INIT | FC_UNSAFE);
	if (flags)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"flags"));
	return fc_leave(&call, create(&call, ret, size, prop));
}

/* Free memory that has neither a handle nor a mapping. */
static void settle(struct physical *p)
{
	if (p->held || p->at)
		return;
	p->device->used -= p->size;
	fc.count.device_bytes -= p->size;
	fc_went(FAKECUDA_DEVICE_MEMORY);
	p->device = NULL;
}

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
	return handle && handle <= HANDLES && physical[handle - 1].device &&
			       physical[handle - 1].held
		       ? &physical[handle - 1]
		       : NULL;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	FC_ENTER("cuMemRelease", FC_INIT);
	struct physical *p = physical_of(handle);

	if (!p)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"%llu is no handle", handle));
	p->held = false;
	settle(p);
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	FC_ENTER("cuMemMap", FC_INIT);
	struct physical *p = physical_of(handle);
	struct fc_range *range = exact(ptr, size);

	if (!p || !range || range->memory != FC_RESERVED || mapped_at(ptr) ||
	    offset || flags || p->size != size || p->at)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
					 "%zu bytes cannot be mapped at %#llx",
					 size, ptr));
	p->at = ptr;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *d,
			size_t n)
{
	FC_ENTER("cuMemSetAccess", FC_INIT);
	struct fc_range *range = exact(ptr, size);
	struct physical *p = mapped_at(ptr);

	if (!range || !p || !d || !n || !location_ok(&d->location) ||
	    d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
					 "nothing is mapped at %#llx", ptr));
	if (range->memory == FC_RESERVED)
		fc_poison(range->device, ptr, size);
	range->memory = FC_DEVICE;
	range->mapped = true;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	FC_ENTER("cuMemUnmap", FC_INIT | FC_UNSAFE);
	struct fc_range *range = exact(ptr, size);
	struct physical *p = mapped_at(ptr);

	if (!range || !p)
		return fc_leave(
			&call,
			fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
				 "nothing of %zu bytes is mapped at %#llx",
				 size, ptr));
	range->memory = FC_RESERVED;
	range->mapped = false;
	fc_punch(range->device, ptr, size);
	p->at = 0;
	settle(p);
	return fc_leave(&call, CUDA_SUCCESS);
}
