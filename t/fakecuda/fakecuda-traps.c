/* SPDX-License-Identifier: MIT */
/*
 * The stand-in driver: behaviour of a real driver that is easily overlooked.
 * Stream capture and what invalidates it, addresses of registered memory,
 * pitches, mapped memory of several allocations, errors that end a context,
 * alignment.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "fakecuda/cu.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static CUcontext ctx;

/* Results of another thread's calls in capture mode @mode. */
struct asking {
	CUstreamCaptureMode mode;
	CUevent event;
	CUresult query, alloc, record;
	CUstream stream;
};

static void *ask(void *arg)
{
	struct asking *a = arg;
	CUdeviceptr ptr;

	cu.cuCtxPushCurrent(ctx);
	cu.cuThreadExchangeStreamCaptureMode(&a->mode);
	a->query = cu.cuEventQuery(a->event);
	a->record = cu.cuEventRecord(a->event, a->stream);
	a->alloc = cu.cuMemAlloc(&ptr, 16);
	if (!a->alloc)
		cu.cuMemFree(ptr);
	return NULL;
}

static struct asking asked(CUstreamCaptureMode mode, CUevent event,
			   CUstream stream)
{
	struct asking a = { .mode = mode, .event = event, .stream = stream };
	pthread_t thread;

	if (pthread_create(&thread, NULL, ask, &a))
		bail("pthread_create");
	pthread_join(thread, NULL);
	return a;
}

static void capture_relaxed(void)
{
	CUstream captured = cu_stream(), other = cu_stream();
	CUstreamCaptureStatus status;
	CUdeviceptr ptr = cu_device(16);
	struct asking a;
	CUevent event;
	CUgraph graph;

	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cu.cuStreamIsCapturing(captured, &status);
	is_int(status, CU_STREAM_CAPTURE_STATUS_ACTIVE,
	       "a stream is capturing after cuStreamBeginCapture");
	cu.cuMemsetD8Async(ptr, 1, 16, captured);
	a = asked(CU_STREAM_CAPTURE_MODE_RELAXED, event, other);
	ok(!a.query && !a.alloc,
	   "a thread in relaxed mode may query and allocate beside a capture");
	is_int(cu.cuStreamEndCapture(captured, &graph), 0,
	       "a capture is valid after such calls of a relaxed thread");
	is_int(*(unsigned char *)cu.fakecuda_at(ptr), 0xcd,
	       "captured work does not run");
	cu.cuEventDestroy(event);
	cu.cuMemFree(ptr);
}

static void capture_global(void)
{
	CUstream captured = cu_stream(), other = cu_stream();
	struct asking a;
	CUevent event;
	CUgraph graph;

	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
	a = asked(CU_STREAM_CAPTURE_MODE_GLOBAL, event, other);
	is_int(a.query, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       "during a global capture another thread's query fails");
	is_int(a.record, 0,
	       "during a global capture another thread may record an event");
	is_int(cu.cuStreamEndCapture(captured, &graph),
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	       "a failed query of another thread invalidates a global capture");
	cu.cuEventDestroy(event);
}

static void capture_thread_local(void)
{
	CUstream captured = cu_stream(), other = cu_stream();
	struct asking a;
	CUevent event;
	CUgraph graph;

	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	a = asked(CU_STREAM_CAPTURE_MODE_GLOBAL, event, other);
	is_int(a.query, 0,
	       "during a thread-local capture another thread may query");
	is_int(cu.cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       "during a thread-local capture its own thread may not query");
	cu.cuStreamEndCapture(captured, &graph);
	cu.cuEventDestroy(event);
}

static void captured_queries(void)
{
	CUstream captured = cu_stream();
	CUevent event;
	CUgraph graph;

	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cu.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED);
	cu.cuEventRecord(event, captured);
	is_int(cu.cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT,
	       "a query of a captured event fails");
	is_int(cu.cuStreamQuery(captured),
	       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       "a query of a capturing stream fails in any mode");
	cu.cuStreamEndCapture(captured, &graph);
	is_int(cu.cuStreamQuery(captured), 0,
	       "a stream can be queried after its capture has ended");
	cu.cuEventDestroy(event);
}

static CUresult batch(CUdeviceptr dst, CUdeviceptr src, CUstream stream)
{
	CUdeviceptr dsts[2] = { dst, dst + 64 }, srcs[2] = { src, src + 128 };
	size_t sizes[2] = { 16, 16 }, first = 0;
	CUmemcpyAttributes attr = {
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};

	return cu.cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attr, &first, 1,
				     stream);
}

static void host_address(void)
{
	static _Alignas(4096) char p[4 * KIB];
	CUstream stream = cu_stream();
	CUdeviceptr dst = cu_device(256), at;
	int can = -1;

	memset(p, 7, 4 * KIB);
	cu.fakecuda_set("NO", "hostpointer");
	cu.cuDeviceGetAttribute(
		&can,
		CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0);
	is_int(can, 0,
	       "a device may be unable to use host addresses of registered memory");
	cu.cuMemHostRegister(p, 4 * KIB, 0);
	cu.cuMemHostGetDevicePointer(&at, p, 0);
	ok(at != (uintptr_t)p,
	   "registered memory may have another address on the device");
	cu.cuMemcpyHtoDAsync(dst, p, 16, stream);
	is_int(cu.cuStreamSynchronize(stream), 0,
	       "a plain copy takes the host address of registered memory");
	is_int(batch(dst, at, stream), 0,
	       "a batch takes the device address of registered memory");
	is_int(cu.cuStreamSynchronize(stream), 0,
	       "a batch with device addresses copies");
	is_int(batch(dst, (uintptr_t)p, stream), 0,
	       "a batch accepts host addresses that the device does not know");
	cu.cuStreamSynchronize(stream);
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a batch with host addresses ends with an illegal address");
	cu.fakecuda_set("NO", "");
}

static void new_context(void)
{
	cu.fakecuda_disarm();
	cu.cuCtxSetCurrent(NULL);
	cu.cuDevicePrimaryCtxRelease(0);
	cu.cuDevicePrimaryCtxRetain(&ctx, 0);
	cu.cuCtxSetCurrent(ctx);
}

static CUresult rows(CUdeviceptr dst, CUdeviceptr src, size_t pitch,
		     CUstream stream)
{
	CUDA_MEMCPY2D m = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = src,
		.dstDevice = dst,
		.srcPitch = pitch,
		.dstPitch = pitch,
		.WidthInBytes = 16,
		.Height = 2,
	};

	return cu.cuMemcpy2DAsync(&m, stream);
}

static void pitches(void)
{
	CUdeviceptr a = cu_device(64 * KIB), b = cu_device(64 * KIB);
	CUstream stream = cu_stream();
	int most = 0;

	cu.cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0);
	is_int(most, INT32_MAX, "the largest pitch is 2^31 - 1");
	cu.fakecuda_set("PITCH", "8192");
	is_int(rows(a, b, 8192, stream), 0,
	       "a copy with the largest pitch is accepted");
	is_int(rows(a, b, 8208, stream), CUDA_ERROR_INVALID_VALUE,
	       "a copy with a larger pitch is refused");
	cu.fakecuda_set("PITCH", "2147483647");
	cu.fakecuda_set("NO", "anypitch");
	is_int(rows(a, b, 8208, stream), CUDA_ERROR_INVALID_VALUE,
	       "a device may refuse a pitch that cuMemAllocPitch would not return");
	is_int(rows(a, b, 8192, stream), 0,
	       "a device accepts a pitch that cuMemAllocPitch would return");
	cu.fakecuda_set("NO", "");
	cu.cuStreamSynchronize(stream);
}

static void mapped(void)
{
	CUdeviceptr p = cu.fakecuda_map(0, 2 * MIB, 3), base = 0;
	CUstream stream = cu_stream();
	size_t size = 0;

	is_int(cu.cuMemGetAddressRange(&base, &size, p + 2 * MIB + 5), 0,
	       "an address in mapped memory is found");
	ok(base == p + 2 * MIB && size == 2 * MIB,
	   "the range of mapped memory is one of its allocations");
	is_int(cu.cuMemsetD8Async(p + MIB, 3, 4 * MIB, stream), 0,
	       "work may cross the allocations of mapped memory");
	is_int(cu.cuMemsetD8Async(p + MIB, 3, 5 * MIB + 1, stream),
	       CUDA_ERROR_INVALID_VALUE,
	       "work beyond the last allocation of mapped memory is refused");
	cu.cuStreamSynchronize(stream);
	is_int(cu.cuMemFree(p), CUDA_ERROR_INVALID_VALUE,
	       "mapped memory cannot be freed with cuMemFree");
	cu.fakecuda_unmap(p);
}

static CUresult allow(CUdeviceptr ptr, size_t size)
{
	CUmemAccessDesc desc = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	return cu.cuMemSetAccess(ptr, size, &desc, 1);
}

static CUresult map_new(CUdeviceptr ptr, size_t size)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;
	CUresult r;

	if (cu.cuMemCreate(&handle, size, &prop, 0))
		bail("no memory");
	r = cu.cuMemMap(ptr, size, 0, handle, 0);
	cu.cuMemRelease(handle);
	return r;
}

/* Addresses of 16 MiB; memory at the bytes 2 to 4, 4 to 8 and 10 to 12. */
static void virtual_memory(void)
{
	CUstream stream = cu_stream();
	CUdeviceptr p = 0;

	is_int(cu.cuMemAddressReserve(&p, 16 * MIB, 8 * MIB, 0, 0), 0,
	       "addresses are reserved");
	is_int(p % (8 * MIB), 0, "at the alignment that was asked for");
	ok(!map_new(p + 2 * MIB, 2 * MIB) && !map_new(p + 4 * MIB, 4 * MIB) &&
		   !map_new(p + 10 * MIB, 2 * MIB),
	   "memory is mapped to parts of them");
	is_int(map_new(p + 6 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "nothing is mapped where memory is mapped");
	is_int(map_new(p + 14 * MIB, 4 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "nothing is mapped beyond the addresses");
	is_int(cu.cuMemsetD8Async(p + 2 * MIB, 1, 1, stream),
	       CUDA_ERROR_INVALID_VALUE,
	       "memory without access is not there for work");
	is_int(allow(p + 2 * MIB, 4 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "access is not set for a part of a mapping");
	is_int(allow(p + 2 * MIB, 10 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "access is not set where nothing is mapped");
	is_int(allow(p + 2 * MIB, 6 * MIB), 0,
	       "access is set for adjoining mappings by one call");
	is_int(cu.cuMemsetD8Async(p + 2 * MIB, 1, 6 * MIB, stream), 0,
	       "work may cross mappings");
	is_int(cu.cuMemsetD8Async(p + 6 * MIB, 1, 2 * MIB + 1, stream),
	       CUDA_ERROR_INVALID_VALUE, "work beyond them is refused");
	cu.cuStreamSynchronize(stream);
	is_int(cu.cuMemUnmap(p + 4 * MIB, 2 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "a part of a mapping is not unmapped");
	is_int(cu.cuMemUnmap(p + 4 * MIB, 8 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "mappings with a gap are not unmapped by one call");
	is_int(cu.cuMemAddressFree(p, 16 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "addresses with mappings are not freed");
	is_int(cu.cuMemUnmap(p + 2 * MIB, 6 * MIB), 0,
	       "adjoining mappings are unmapped by one call");
	is_int(cu.cuMemUnmap(p + 10 * MIB, 2 * MIB), 0,
	       "a mapping without access is unmapped");
	is_int(cu.cuMemAddressFree(p, 8 * MIB), CUDA_ERROR_INVALID_VALUE,
	       "addresses are freed as a whole");
	is_int(cu.cuMemAddressFree(p, 16 * MIB), 0, "without mappings");
}

static void fatal(int code)
{
	CUstream stream = cu_stream();

	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_LATE, code);
	cu.cuMemsetD8Async(cu_device(16), 1, 16, stream);
	cu.cuStreamSynchronize(stream);
	is_int(cu.cuStreamQuery(stream), code,
	       "error %d stays an error of the context", code);
	new_context();
}

static void alignment(void)
{
	CUdeviceptr small = cu_device(100), next = cu_device(100);

	ok(small % 512 == 0 && next % 512 == 0,
	   "small allocations are aligned to 512 bytes");
	ok(cu_device(2 * MIB) % (2 * MIB) == 0,
	   "allocations of 2 MiB are aligned to 2 MiB");
}

/* The primary context is reset while this program uses it. */
static void reset(void)
{
	CUstream stream = cu_stream();
	CUevent event;

	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cu.cuDevicePrimaryCtxReset(0);
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED,
	       "a call after a reset returns CUDA_ERROR_CONTEXT_IS_DESTROYED");
	cu.cuDevicePrimaryCtxRetain(&ctx, 0);
	cu.cuCtxSetCurrent(ctx);
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE,
	       "a stream of a reset context is invalid in the next context");
	is_int(cu.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE,
	       "an event of a reset context is invalid in the next context");
}

int main(void)
{
	plan(55);
	ctx = cu_start();
	alignment();
	capture_relaxed();
	capture_global();
	capture_thread_local();
	captured_queries();
	pitches();
	mapped();
	virtual_memory();
	host_address();
	new_context();
	fatal(226);
	fatal(721);
	fatal(810);
	reset();
	return done_testing();
}
