/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory of a GPU: addresses are reserved, physical memory is created
 * and mapped there. It can be parked: the addresses outlive the memory. Or it
 * is shared: the driver exports its memory as a descriptor, and other processes
 * import that and map it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "cuda/memory.h"

#define drv weir__cuda_drv
#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

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

/* Let @c, and the devices that can access its memory, use mapped memory. */
static CUresult set_access(const struct weir__cuda *c, CUdeviceptr ptr,
			   size_t size, CUmemAccess_flags flags)
{
	CUmemAccessDesc desc = {
		.location = weir__cuda_memory_prop(c).location,
		.flags = flags,
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

CUresult weir__cuda_set_access(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size)
{
	return set_access(c, ptr, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* Create memory of the kind @prop and map it, without access. */
static CUresult map_new(const CUmemAllocationProp *prop, CUdeviceptr ptr,
			size_t size)
{
	CUmemGenericAllocationHandle handle;
	CUresult r = drv.cuMemCreate(&handle, size, prop, 0);

	if (r)
		return r;
	r = drv.cuMemMap(ptr, size, 0, handle, 0);
	drv.cuMemRelease(handle);
	return r;
}

CUresult weir__cuda_map_new(const struct weir__cuda *c, CUdeviceptr ptr,
			    size_t size)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);

	return map_new(&prop, ptr, size);
}

/* The same, with access, or nothing. */
static CUresult create_and_map(const struct weir__cuda *c,
			       const CUmemAllocationProp *prop, CUdeviceptr ptr,
			       size_t size)
{
	CUresult r = map_new(prop, ptr, size);

	if (r)
		return r;
	r = weir__cuda_set_access(c, ptr, size);
	if (r)
		drv.cuMemUnmap(ptr, size);
	return r;
}

CUresult weir__cuda_map_memory(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);

	return create_and_map(c, &prop, ptr, size);
}

/* Reserve addresses for @bytes of memory of the kind @prop, in whole units. */
static CUresult reserve(const CUmemAllocationProp *prop, size_t bytes,
			CUdeviceptr *ret_ptr, size_t *ret_size)
{
	size_t unit;
	CUresult r = drv.cuMemGetAllocationGranularity(
		&unit, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (r)
		return r;
	*ret_size = (bytes + unit - 1) / unit * unit;
	return drv.cuMemAddressReserve(ret_ptr, *ret_size, 0, 0, 0);
}

static int alloc_mapped(struct weir__cuda *c, size_t bytes,
			const CUmemAllocationProp *prop,
			struct weir_backend_mem *mem)
{
	CUdeviceptr ptr = 0;
	size_t size = 0;
	CUresult r;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	r = reserve(prop, bytes, &ptr, &size);
	if (!r) {
		r = create_and_map(c, prop, ptr, size);
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
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return 0;
}

int weir__cuda_alloc_virtual(struct weir__cuda *c, size_t bytes,
			     struct weir_backend_mem *mem)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);
	int ret = alloc_mapped(c, bytes, &prop, mem);

	if (ret >= 0)
		mem->got |= WEIR_GOT_PARKABLE;
	return ret;
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

/* Fail with -EOPNOTSUPP if memory of the device cannot be shared. */
static int check_shares(struct weir__cuda *c)
{
	if (!weir__cuda_has_virtual() || !drv.cuMemRetainAllocationHandle ||
	    !drv.cuMemExportToShareableHandle ||
	    !drv.cuMemImportFromShareableHandle ||
	    !drv.cuMemGetAllocationPropertiesFromHandle)
		return c->host->fail(
			-EOPNOTSUPP,
			"memory of %s cannot be shared: the driver lacks the calls for it",
			c->host->dev_name(c->dev));
	if (!c->exports)
		return c->host->fail(
			-EOPNOTSUPP,
			"memory of %s cannot be shared: the device cannot export it as a file descriptor",
			c->host->dev_name(c->dev));
	return 0;
}

int weir__cuda_alloc_shared(struct weir__cuda *c, size_t bytes,
			    struct weir_backend_mem *mem)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);
	int ret = check_shares(c);

	if (ret < 0)
		return ret;
	prop.requestedHandleTypes = DESCRIPTOR;
	ret = alloc_mapped(c, bytes, &prop, mem);
	if (ret >= 0)
		mem->got |= WEIR_GOT_SHARED;
	return ret;
}

int weir__cuda_share(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, struct weir_backend_mem *mem, int *ret_fd)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	CUmemGenericAllocationHandle handle;
	CUresult r;
	int fd = -1, ret = weir__cuda_enter(c);

	(void)desc;
	if (ret < 0)
		return ret;
	r = drv.cuMemRetainAllocationHandle(&handle, mem->base);
	if (!r) {
		r = drv.cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR,
						     0);
		drv.cuMemRelease(handle);
	}
	weir__cuda_leave();
	if (r)
		return weir__cuda_fail(c, r, "a descriptor of %zu bytes",
				       bytes);
	/* Nothing says whether the driver has set it. */
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*ret_fd = fd;
	return 0;
}

/* Where memory of another process is mapped. */
struct imported {
	CUdeviceptr ptr;
	size_t size;
};

/* Map imported memory, for reading only if that is wanted and possible. */
static CUresult map_imported(struct weir__cuda *c,
			     CUmemGenericAllocationHandle handle,
			     const struct imported *at, bool readonly,
			     struct weir_backend_mem *mem)
{
	CUresult r = drv.cuMemMap(at->ptr, at->size, 0, handle, 0);
	char words[160];

	if (r)
		return r;
	if (readonly) {
		r = set_access(c, at->ptr, at->size,
			       CU_MEM_ACCESS_FLAGS_PROT_READ);
		if (!r)
			return r;
		weir__cuda_note(c, r);
		weir__cuda_describe_result((int32_t)r, words, sizeof(words));
		snprintf(mem->why, sizeof(mem->why),
			 "mapped for writing too: cuMemSetAccess: %s", words);
	}
	r = set_access(c, at->ptr, at->size,
		       CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (r)
		drv.cuMemUnmap(at->ptr, at->size);
	return r;
}

/* The first @bytes of imported memory. */
static CUresult place_imported(struct weir__cuda *c,
			       CUmemGenericAllocationHandle handle,
			       size_t bytes, bool readonly, struct imported *at,
			       struct weir_backend_mem *mem)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);
	CUresult r;

	prop.requestedHandleTypes = DESCRIPTOR;
	r = reserve(&prop, bytes, &at->ptr, &at->size);
	if (r)
		return r;
	r = map_imported(c, handle, at, readonly, mem);
	if (r)
		drv.cuMemAddressFree(at->ptr, at->size);
	return r;
}

/* Import memory, and find out whose it is. A context is current. */
static CUresult import(int fd, CUmemGenericAllocationHandle *ret_handle,
		       CUmemLocation *ret_location)
{
	CUmemAllocationProp prop = { 0 };
	CUresult r = drv.cuMemImportFromShareableHandle(
		ret_handle, (void *)(uintptr_t)fd, DESCRIPTOR);

	if (r)
		return r;
	r = drv.cuMemGetAllocationPropertiesFromHandle(&prop, *ret_handle);
	if (r)
		drv.cuMemRelease(*ret_handle);
	*ret_location = prop.location;
	return r;
}

static int wrap_imported(struct weir__cuda *c, int fd, uint64_t off,
			 size_t bytes, bool readonly, struct imported *at,
			 struct weir_backend_mem *mem)
{
	CUmemGenericAllocationHandle handle;
	CUmemLocation location;
	bool ours = false;
	CUresult r, placed = CUDA_SUCCESS;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	r = import(fd, &handle, &location);
	if (!r) {
		ours = location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		       location.id == c->device;
		if (ours)
			placed = place_imported(c, handle, off + bytes,
						readonly, at, mem);
		drv.cuMemRelease(handle);
	}
	weir__cuda_leave();
	if (r && r != CUDA_ERROR_INVALID_DEVICE)
		return weir__cuda_fail(
			c, r, "descriptor %d as memory of another process", fd);
	if (r || !ours)
		return c->host->fail(
			-EINVAL, "descriptor %d is memory of another device",
			fd);
	return placed ? weir__cuda_fail(c, placed,
					"%zu bytes at %llu of descriptor %d",
					bytes, (unsigned long long)off, fd)
		      : 0;
}

int weir__cuda_wrap_fd(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, int fd,
		       uint64_t off, size_t bytes, bool readonly,
		       struct weir_backend_mem *mem)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	struct imported *at;
	int ret;

	if (desc->kind != WEIR_MEM_DEVICE)
		return c->host->fail(-EOPNOTSUPP, "%s is not device memory",
				     desc->name);
	ret = check_shares(c);
	if (ret < 0)
		return ret;
	at = c->host->calloc(1, sizeof(*at));
	if (!at)
		return c->host->fail(-ENOMEM, "no memory for a mapping");
	ret = wrap_imported(c, fd, off, bytes, readonly, at, mem);
	if (ret < 0) {
		c->host->free(at);
		return ret;
	}
	mem->base = (unsigned char *)(uintptr_t)(at->ptr + off);
	mem->handle = at;
	mem->how = IMPORTED;
	mem->node = -1;
	mem->got |= WEIR_GOT_SHARED;
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return 0;
}

bool weir__cuda_free_imported(struct weir__cuda *c,
			      struct weir_backend_mem *mem)
{
	struct imported *at = mem->handle;
	bool gone = true;
	CUresult r;

	if (weir__cuda_push(c)) {
		gone = atomic_load(&c->lost);
	} else {
		r = drv.cuMemUnmap(at->ptr, at->size);
		if (!r)
			r = drv.cuMemAddressFree(at->ptr, at->size);
		weir__cuda_leave();
		weir__cuda_note(c, r);
		gone = !r;
	}
	c->host->free(at);
	return gone;
}
