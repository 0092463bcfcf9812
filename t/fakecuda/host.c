/* SPDX-License-Identifier: MIT */
/* Page-locked host memory: allocated by the driver, or registered. */
#include <stdio.h>
#include <sys/mman.h>

#include "fakecuda.h"

#define PAGE ((uintptr_t)4096)

static CUresult host_alloc(struct fc_call *call, void **ret, size_t bytes,
			   unsigned flags)
{
	struct fc_range range = { .memory = FC_HOST,
				  .ctx = call->ctx,
				  .device = call->ctx->device,
				  .flags = flags };
	void *p;

	if (!bytes || flags > 7)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes, flags %#x", bytes, flags);
	if (fc.count.pinned_bytes > fc.opt.pinned ||
	    bytes > fc.opt.pinned - fc.count.pinned_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* A child does not get the driver's pages. */
	madvise(p, bytes, MADV_DONTFORK);
	range.start = (uintptr_t)p;
	range.end = range.start + bytes;
	if (!fc_range_add(&range)) {
		munmap(p, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	fc.count.pinned_bytes += bytes;
	fc_made(FAKECUDA_HOST_MEMORY);
	fc_note(call, "%zu flags %#x -> %p ", bytes, flags, p);
	*ret = p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned int flags)
{
	FC_ENTER("cuMemHostAlloc", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, host_alloc(&call, ret, bytes, flags));
}

CUresult cuMemAllocHost_v2(void **ret, size_t bytes)
{
	FC_ENTER("cuMemAllocHost", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, host_alloc(&call, ret, bytes, 0));
}

/* Both kinds of memory; registered memory stays mapped. */
void fc_host_memory_free(struct fc_range *range)
{
	size_t bytes = range->end - range->start;

	fc.count.pinned_bytes -= bytes;
	if (range->memory == FC_HOST)
		munmap((void *)range->start, bytes);
	fc_range_remove(range);
}

/* Freeing and unregistering wait for the work of the context. */
static CUresult host_free(struct fc_call *call, void *p, enum fc_memory memory,
			  CUresult unknown)
{
	struct fc_range *range;
	CUresult result;

	fc_streams_wait(call->ctx);
	result = fc_context_error(call->ctx);
	if (result != CUDA_SUCCESS)
		return result;
	range = fc_range_of(p);
	if (!range || range->memory != memory || range->start != (uintptr_t)p)
		return fc_wrong(call, unknown, "%p is not such memory", p);
	fc_went(memory == FC_HOST ? FAKECUDA_HOST_MEMORY : FAKECUDA_REGISTERED);
	fc_host_memory_free(range);
	fc_note(call, "%p ", p);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
	FC_ENTER("cuMemFreeHost", FC_CTX | FC_UNSAFE);
	if (!p)
		return fc_leave(&call, CUDA_SUCCESS);
	return fc_leave(&call,
			host_free(&call, p, FC_HOST, CUDA_ERROR_INVALID_VALUE));
}

/* Access that all mappings from @start to @end allow: 1 read, 2 write. */
static int access_of(uintptr_t start, uintptr_t end)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	int allowed = 3;
	char r, w, line[512];

	if (!maps)
		return 3;
	while (start < end && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %c%c", &from, &to, &r, &w) != 4 ||
		    to <= start)
			continue;
		if (from > start)
			break;
		allowed &= (r == 'r') | (w == 'w') << 1;
		start = to;
	}
	fclose(maps);
	return start < end ? 0 : allowed;
}

/* Registering faults every page in. */
static void populate(uintptr_t start, uintptr_t end, bool read_only)
{
	start &= ~(PAGE - 1);
	madvise((void *)start, end - start,
		read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
}

static CUresult registrable(struct fc_call *call, uintptr_t start, size_t bytes,
			    unsigned flags)
{
	bool read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
	uintptr_t end = start + bytes;
	int allowed;

	if (!bytes || end < start || flags > 15)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%zu bytes, flags %#x", bytes, flags);
	if (fc_no("hostregister") || (read_only && fc_no("readonly")))
		return CUDA_ERROR_NOT_SUPPORTED;
	/* Pages are locked, so two ranges may not share one. */
	if (fc_range_overlaps(start & ~(PAGE - 1),
			      (end + PAGE - 1) & ~(PAGE - 1)))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	allowed = access_of(start, end);
	if (allowed != 3 && !(read_only && allowed))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "%zu bytes: %s",
				bytes, allowed ? "read-only" : "not mapped");
	if (fc.count.pinned_bytes > fc.opt.pinned ||
	    bytes > fc.opt.pinned - fc.count.pinned_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

static CUresult host_register(struct fc_call *call, void *p, size_t bytes,
			      unsigned flags)
{
	struct fc_range range = { .start = (uintptr_t)p,
				  .end = (uintptr_t)p + bytes,
				  .memory = FC_REGISTERED,
				  .ctx = call->ctx,
				  .device = call->ctx->device,
				  .flags = flags };
	CUresult result = registrable(call, range.start, bytes, flags);

	if (result != CUDA_SUCCESS)
		return result;
	if (!fc_range_add(&range))
		return CUDA_ERROR_OUT_OF_MEMORY;
	fc.count.pinned_bytes += bytes;
	fc_made(FAKECUDA_REGISTERED);
	fc_note(call, "%p %zu flags %#x ", p, bytes, flags);
	return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	FC_ENTER("cuMemHostRegister", FC_CTX | FC_UNSAFE);
	CUresult result = host_register(&call, p, bytes, flags);
	bool read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;

	result = fc_leave(&call, result);
	if (result == CUDA_SUCCESS)
		populate((uintptr_t)p, (uintptr_t)p + bytes, read_only);
	return result;
}

CUresult cuMemHostUnregister(void *p)
{
	FC_ENTER("cuMemHostUnregister", FC_CTX | FC_UNSAFE);
	return fc_leave(&call,
			host_free(&call, p, FC_REGISTERED,
				  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

/* The device's address is the host's, unless "hostpointer" is switched off. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret, void *p,
				      unsigned int flags)
{
	FC_ENTER("cuMemHostGetDevicePointer", FC_CTX);
	struct fc_range *range = fc_range_of(p);

	if (flags || !range || range->memory == FC_DEVICE)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"%p is not page-locked", p));
	*ret = (CUdeviceptr)(uintptr_t)p;
	if (range->memory == FC_REGISTERED && fc_no("hostpointer"))
		*ret |= FC_ALIAS;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned int *ret, void *p)
{
	FC_ENTER("cuMemHostGetFlags", FC_CTX);
	struct fc_range *range = fc_range_of(p);

	if (!range || range->memory == FC_DEVICE)
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"%p is not page-locked", p));
	*ret = range->flags;
	return fc_leave(&call, CUDA_SUCCESS);
}
