/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: addresses are reserved, memory is created, and mapped there.
 * A reservation consists of ranges: each is a mapping, or a part without
 * memory. A mapping is device memory once its device has access to it. Physical
 * memory is freed when neither its handle nor a mapping is left. Memory belongs
 * to the device, not to a context.
 *
 * Memory that can be exported is a memfd of its own, which is mapped over the
 * device's; what is exported is a duplicate of its descriptor. The name of the
 * memfd says that it is memory of the stand-in, and of which GPU. A process
 * that imports it has the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fakecuda.h"

#define UNIT ((size_t)2 << 20) /* the granularity */
#define HANDLES 16384u
#define RESERVATIONS 1024u
#define EXPORTED "fakecuda-export-"
#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/* Physical memory; handles are 1 + the number of an entry. */
static struct fc_physical {
	struct fc_device *device;
	size_t size;
	unsigned held; /* how often its handle must be released */
	bool mapped;   /* once at most */
	bool exportable, imported;
	int fd; /* the memfd of exportable memory */
} physical[HANDLES];

static struct reservation {
	uintptr_t start, end; /* start is 0: the entry is free */
} reservation[RESERVATIONS];

static bool location_ok(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       location->id >= 0 && (unsigned)location->id < fc.opt.devices;
}

static bool prop_ok(const CUmemAllocationProp *prop)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       location_ok(&prop->location) &&
	       (!prop->requestedHandleTypes ||
		(prop->requestedHandleTypes == POSIX && !fc_no("export")));
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

static struct reservation *reservation_at(uintptr_t start)
{
	for (size_t i = 0; i < RESERVATIONS; i++)
		if (reservation[i].start == start)
			return &reservation[i];
	return NULL;
}

/* The stand-in's addresses belong to devices: that of the context. */
static CUresult reserve(struct fc_call *call, CUdeviceptr *ret, size_t size,
			size_t align)
{
	struct fc_range range = { .memory = FC_RESERVED,
				  .device = call->ctx->device };
	struct reservation *r = reservation_at(0);

	if (!ret || !size || size % UNIT || align > size)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes, which are aligned to %zu", size,
				align);
	if (align < UNIT)
		align = UNIT;
	range.start = fc_room(range.device, size + align - UNIT);
	range.start = (range.start + align - 1) / align * align;
	range.end = range.start + size;
	if (!r || !range.start || !fc_range_add(&range))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*r = (struct reservation){ range.start, range.end };
	fc_made(FAKECUDA_ADDRESSES);
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
	return fc_leave(&call, reserve(&call, ret, size, alignment));
}

static struct fc_range *range_at(uintptr_t at)
{
	return fc_range_of((void *)at);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	FC_ENTER("cuMemAddressFree", FC_INIT);
	struct reservation *r = ptr ? reservation_at(ptr) : NULL;
	struct fc_range *range = r ? range_at(ptr) : NULL;

	/* A reservation without mappings is one range. */
	if (!range || r->end - ptr != size || range->end != r->end ||
	    range->mapped)
		return fc_leave(
			&call,
			fc_wrong(
				&call, CUDA_ERROR_INVALID_VALUE,
				"%#llx is no unmapped reservation of %zu bytes",
				ptr, size));
	fc_range_remove(range);
	r->start = 0;
	fc_went(FAKECUDA_ADDRESSES);
	return fc_leave(&call, CUDA_SUCCESS);
}

/* A memfd of memory that can be exported, whose bytes are not 0. */
static int memfd_new(const struct fc_device *dev, size_t size)
{
	char name[32], bytes[4096];
	int fd;

	snprintf(name, sizeof(name), EXPORTED "%u", fc.opt.gpu[dev->ordinal]);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	memset(bytes, 0xcd, sizeof(bytes));
	if (ftruncate(fd, (off_t)size) < 0 ||
	    pwrite(fd, bytes, sizeof(bytes), 0) < 0 ||
	    pwrite(fd, bytes, sizeof(bytes), (off_t)(size - sizeof(bytes))) <
		    0) {
		close(fd);
		return -1;
	}
	return fd;
}

static struct fc_physical *unused(void)
{
	for (size_t i = 0; i < HANDLES; i++)
		if (!physical[i].device)
			return &physical[i];
	return NULL;
}

static CUmemGenericAllocationHandle handle_of(const struct fc_physical *p)
{
	return (CUmemGenericAllocationHandle)(p - physical) + 1;
}

static CUresult create(struct fc_call *call, CUmemGenericAllocationHandle *ret,
		       size_t size, const CUmemAllocationProp *prop)
{
	struct fc_physical *p = unused();
	struct fc_device *dev;

	if (!ret || !size || size % UNIT || !prop_ok(prop))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes are not whole units", size);
	dev = &fc.device[prop->location.id];
	if (!p || dev->used >= fc.opt.mem || size > fc.opt.mem - dev->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = (struct fc_physical){
		.size = size,
		.held = 1,
		.exportable = prop->requestedHandleTypes,
	};
	if (p->exportable) {
		p->fd = memfd_new(dev, size);
		if (p->fd < 0)
			return CUDA_ERROR_OPERATING_SYSTEM;
	}
	p->device = dev;
	dev->used += size;
	fc.count.device_bytes += size;
	if (fc.count.device_bytes > fc.count.device_peak)
		fc.count.device_peak = fc.count.device_bytes;
	fc_made(FAKECUDA_DEVICE_MEMORY);
	*ret = handle_of(p);
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
static void settle(struct fc_physical *p)
{
	if (p->held || p->mapped)
		return;
	if (!p->imported) {
		p->device->used -= p->size;
		fc.count.device_bytes -= p->size;
	}
	if (p->exportable)
		close(p->fd);
	fc_went(FAKECUDA_DEVICE_MEMORY);
	p->device = NULL;
}

static struct fc_physical *physical_of(CUmemGenericAllocationHandle handle)
{
	return handle && handle <= HANDLES && physical[handle - 1].device &&
			       physical[handle - 1].held
		       ? &physical[handle - 1]
		       : NULL;
}

/*
 * A release of a valid handle fails only with the error of earlier work, so the
 * handle is gone then, too: whoever repeats the call uses an invalid handle.
 */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	FC_ENTER("cuMemRelease", FC_INIT | FC_DONE);
	struct fc_physical *p = physical_of(handle);

	if (!p)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"%llu is no handle", handle));
	p->held--;
	settle(p);
	return fc_leave(&call,
			call.fault.mode == FAKECUDA_ONCE ||
					call.fault.mode == FAKECUDA_FROM_THEN_ON
				? call.fault.code
				: CUDA_SUCCESS);
}

/* Let the driver's addresses of @dev be bytes of @fd. */
static bool map_file(struct fc_device *dev, uintptr_t at, size_t size, int fd,
		     size_t off)
{
	char *shadow = fc_shadow(dev, (void *)at);

	if (mmap(shadow, size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
		 (off_t)off) == MAP_FAILED)
		return false;
	madvise(shadow, size, MADV_DONTDUMP);
	madvise(shadow, size, MADV_DONTFORK);
	return true;
}

/* Split the range, which has no memory, at @at, if it is inside. */
static bool split(struct fc_range *range, uintptr_t at)
{
	struct fc_range rest = *range;

	if (at <= range->start || at >= range->end)
		return true;
	rest.start = at;
	range->end = at;
	if (fc_range_add(&rest))
		return true;
	range->end = rest.end;
	return false;
}

/* Join the range, which has no memory, with the next one. */
static void join(struct fc_range *range, const struct reservation *r)
{
	struct fc_range *next = range->end < r->end ? range_at(range->end)
						    : NULL;
	uintptr_t end;

	if (!next || next->mapped)
		return;
	end = next->end;
	fc_range_remove(next);
	range->end = end;
}

static struct reservation *reservation_of(uintptr_t at)
{
	for (size_t i = 0; i < RESERVATIONS; i++)
		if (at >= reservation[i].start && at < reservation[i].end)
			return &reservation[i];
	return NULL;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	FC_ENTER("cuMemMap", FC_INIT);
	struct fc_physical *p = physical_of(handle);
	struct fc_range *range = range_at(ptr);

	/* A program cannot know the size of memory that it imports. */
	if (p && p->imported && size > p->size)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	if (!p || !range || range->memory != FC_RESERVED || range->mapped ||
	    ptr % UNIT || !size || size % UNIT || size > range->end - ptr ||
	    offset || flags || size > p->size || p->mapped)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
					 "%zu bytes cannot be mapped at %#llx",
					 size, ptr));
	if (!split(range, ptr) || !split(range_at(ptr), ptr + size))
		return fc_leave(&call, CUDA_ERROR_OUT_OF_MEMORY);
	range = range_at(ptr);
	if (p->exportable && !map_file(range->device, ptr, size, p->fd, 0))
		return fc_leave(&call, CUDA_ERROR_OPERATING_SYSTEM);
	range->mapped = p;
	p->mapped = true;
	return fc_leave(&call, CUDA_SUCCESS);
}

/*
 * True if the part consists of whole mappings. That is a rule of cuMemUnmap;
 * several adjoining ones can be unmapped by one call.
 */
static bool whole_mappings(CUdeviceptr ptr, size_t size)
{
	struct reservation *r = reservation_of(ptr);
	uintptr_t at = ptr;

	if (!r || size > r->end - ptr)
		return false;
	while (at < ptr + size) {
		const struct fc_range *range = range_at(at);

		if (!range || !range->mapped || range->start != at)
			return false;
		at = range->end;
	}
	return size && at == ptr + size;
}

/*
 * Only the access of the device itself is noted: copies between devices do
 * without.
 */
static void set_access(struct fc_range *range, const CUmemAccessDesc *d)
{
	if (d->location.id != range->device->ordinal)
		return;
	if (range->memory == FC_RESERVED && !range->mapped->exportable)
		fc_poison(range->device, range->start,
			  range->end - range->start);
	range->memory = FC_DEVICE;
	range->readonly = d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *d,
			size_t n)
{
	FC_ENTER("cuMemSetAccess", FC_INIT);
	uintptr_t end = ptr + size;

	if (d && d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    fc_no("readaccess"))
		return fc_leave(&call, CUDA_ERROR_NOT_SUPPORTED);
	if (!whole_mappings(ptr, size) || !d || n != 1 ||
	    !location_ok(&d->location) ||
	    (d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
	     d->flags != CU_MEM_ACCESS_FLAGS_PROT_READ))
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
					 "%zu bytes at %#llx are not mapped",
					 size, ptr));
	for (uintptr_t at = ptr; at < end;) {
		struct fc_range *range = range_at(at);

		at = range->end;
		set_access(range, d);
	}
	return fc_leave(&call, CUDA_SUCCESS);
}

static void unmap(struct fc_range *range, const struct reservation *r)
{
	size_t size = range->end - range->start;
	struct fc_range *before;

	if (range->mapped->exportable)
		map_file(range->device, range->start, size, range->device->fd,
			 range->start - (uintptr_t)range->device->base);
	else
		fc_punch(range->device, range->start, size);
	range->mapped->mapped = false;
	settle(range->mapped);
	range->mapped = NULL;
	range->readonly = false;
	range->memory = FC_RESERVED;
	join(range, r);
	before = range->start > r->start ? range_at(range->start - 1) : NULL;
	if (before && !before->mapped)
		join(before, r);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	FC_ENTER("cuMemUnmap", FC_INIT | FC_UNSAFE);
	struct reservation *r = reservation_of(ptr);
	uintptr_t end = ptr + size;

	if (!whole_mappings(ptr, size))
		return fc_leave(
			&call,
			fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
				 "%zu bytes at %#llx are not whole mappings",
				 size, ptr));
	for (uintptr_t at = ptr, next; at < end; at = next) {
		struct fc_range *range = range_at(at);

		next = range->end;
		unmap(range, r);
	}
	return fc_leave(&call, CUDA_SUCCESS);
}

/* The handle of the memory that is mapped at an address. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret,
				     void *addr)
{
	FC_ENTER("cuMemRetainAllocationHandle", FC_INIT);
	struct fc_range *range = fc_range_of(addr);
	struct fc_physical *p = range ? range->mapped : NULL;

	if (!ret || !p)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
					 "nothing is mapped at %p", addr));
	p->held++;
	*ret = handle_of(p);
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *ret,
				      CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type,
				      unsigned long long flags)
{
	FC_ENTER("cuMemExportToShareableHandle", FC_INIT);
	struct fc_physical *p = physical_of(handle);
	int fd;

	if (!ret || !p || flags || type != POSIX || !p->exportable ||
	    p->imported)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
					 "%llu cannot be exported so", handle));
	fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fc_leave(&call, CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)ret = fd;
	return fc_leave(&call, CUDA_SUCCESS);
}

/* The GPU whose memory @fd is; false: it is no memory of the stand-in. */
static bool gpu_of(int fd, unsigned *ret_gpu)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0)
		return false;
	return sscanf(name, "/memfd:" EXPORTED "%u", ret_gpu) == 1;
}

static CUresult import(CUmemGenericAllocationHandle *ret, int fd)
{
	struct fc_physical *p = unused();
	unsigned gpu, ordinal = 0;
	struct stat st;

	/* A program cannot know what a descriptor is: no misuse. */
	if (!gpu_of(fd, &gpu) || fstat(fd, &st) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	while (ordinal < fc.opt.devices && fc.opt.gpu[ordinal] != gpu)
		ordinal++;
	if (ordinal == fc.opt.devices)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = (struct fc_physical){
		.size = (size_t)st.st_size,
		.held = 1,
		.exportable = true,
		.imported = true,
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
	};
	if (p->fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	p->device = &fc.device[ordinal];
	fc_made(FAKECUDA_DEVICE_MEMORY);
	*ret = handle_of(p);
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret,
					void *handle,
					CUmemAllocationHandleType type)
{
	FC_ENTER("cuMemImportFromShareableHandle", FC_INIT | FC_UNSAFE);
	if (!ret || type != POSIX)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"no such type of handle"));
	return fc_leave(&call, import(ret, (int)(intptr_t)handle));
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret,
				       CUmemGenericAllocationHandle handle)
{
	FC_ENTER("cuMemGetAllocationPropertiesFromHandle", FC_INIT);
	struct fc_physical *p = physical_of(handle);

	if (!ret || !p)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"%llu is no handle", handle));
	*ret = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = p->exportable ? POSIX
						      : CU_MEM_HANDLE_TYPE_NONE,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			      .id = p->device->ordinal },
	};
	return fc_leave(&call, CUDA_SUCCESS);
}
