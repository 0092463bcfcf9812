/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory of a GPU: addresses are reserved, physical memory is created
 * and mapped there. It can be parked: the addresses outlive the memory.
 */
#include "cuda/memory.h"

#define drv weir__cuda_drv

CUmemAllocationProp weir__cuda_memory_prop(const struct weir__cuda *c)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = c->device },
	};
}

bool weir__cuda_has_virtual(void)
{
	return drv.cuMemGetAllocationGranularity && drv.cuMemAddressReserve &&
	       drv.cuMemAddressFree && drv.cuMemCreate && drv.cuMemRelease &&
	       drv.cuMemMap && drv.cuMemUnmap && drv.cuMemSetAccess;
}

CUresult weir__cuda_set_access(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size)
{
	CUmemAccessDesc desc = {
		.location = weir__cuda_memory_prop(c).location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult r = drv.cuMemSetAccess(ptr, size, &desc, 1);
	int n = 0, can;

	if (r || !drv.cuDeviceCanAccessPeer || drv.cuDeviceGetCount(&n))
		return r;
	for (int i = 0; i < n; i++) {
		can = 0;
		if (i == c->device ||
		    drv.cuDeviceCanAccessPeer(&can, i, c->device) || !can)
			continue;
		/* Without it the driver copies through host memory. */
		desc.location.id = i;
		drv.cuMemSetAccess(ptr, size, &desc, 1);
	}
	return r;
}

CUresult weir__cuda_map_new(const struct weir__cuda *c, CUdeviceptr ptr,
			    size_t size)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);
	CUmemGenericAllocationHandle handle;
	CUresult r = drv.cuMemCreate(&handle, size, &prop, 0);

	if (r)
		return r;
	r = drv.cuMemMap(ptr, size, 0, handle, 0);
	/* The first call may have returned the error of earlier work. */
	if (drv.cuMemRelease(handle))
		drv.cuMemRelease(handle);
	return r;
}

CUresult weir__cuda_map_memory(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size)
{
	CUresult r = weir__cuda_map_new(c, ptr, size);

	if (r)
		return r;
	r = weir__cuda_set_access(c, ptr, size);
	if (r)
		drv.cuMemUnmap(ptr, size);
	return r;
}

int weir__cuda_alloc_virtual(struct weir__cuda *c, size_t bytes,
			     struct weir_backend_mem *mem)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);
	CUdeviceptr ptr = 0;
	size_t unit = 0, size = 0;
	CUresult r;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	r = drv.cuMemGetAllocationGranularity(&unit, &prop,
					      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (!r) {
		size = (bytes + unit - 1) / unit * unit;
		r = drv.cuMemAddressReserve(&ptr, size, 0, 0, 0);
	}
	if (!r) {
		r = weir__cuda_map_memory(c, ptr, size);
		if (r)
			drv.cuMemAddressFree(ptr, size);
	}
	weir__cuda_leave();
	if (r)
		return weir__cuda_fail(c, r, "%zu bytes of virtual memory",
				       size ? size : bytes);
	mem->base = (unsigned char *)(uintptr_t)ptr;
	mem->handle = (void *)(uintptr_t)size;
	mem->how = VIRTUAL;
	mem->got |= WEIR_GOT_PARKABLE;
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return 0;
}

int weir__cuda_park(struct weir_dev *dev, const struct weir_backend_buft *desc,
		    size_t bytes, struct weir_backend_mem *mem)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	CUresult r;
	int ret = weir__cuda_enter(c);

	(void)desc;
	if (ret < 0)
		return ret;
	r = drv.cuMemUnmap((CUdeviceptr)(uintptr_t)mem->base,
			   (size_t)(uintptr_t)mem->handle);
	weir__cuda_leave();
	if (r)
		return weir__cuda_fail(c, r, "cuMemUnmap of %zu bytes", bytes);
	mem->how = RESERVED;
	return 0;
}

int weir__cuda_unpark(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	CUresult r;
	int ret = weir__cuda_enter(c);

	(void)desc;
	if (ret < 0)
		return ret;
	r = weir__cuda_map_memory(c, (CUdeviceptr)(uintptr_t)mem->base,
				  (size_t)(uintptr_t)mem->handle);
	weir__cuda_leave();
	if (r)
		return weir__cuda_fail(
			c, r, "%zu bytes of memory for parked addresses",
			bytes);
	mem->how = VIRTUAL;
	return 0;
}

bool weir__cuda_free_virtual(struct weir__cuda *c, struct weir_backend_mem *mem)
{
	const CUdeviceptr ptr = (CUdeviceptr)(uintptr_t)mem->base;
	const size_t size = (size_t)(uintptr_t)mem->handle;
	CUresult r = CUDA_SUCCESS;

	if (weir__cuda_push(c))
		return atomic_load(&c->lost);
	if (mem->how == VIRTUAL)
		r = drv.cuMemUnmap(ptr, size);
	if (!r)
		r = drv.cuMemAddressFree(ptr, size);
	weir__cuda_leave();
	weir__cuda_note(c, r);
	return !r;
}
