/* SPDX-License-Identifier: MIT */
/* The stand-in driver: order, engines, copies of every kind, events. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"
#include "fakecuda/cu.h"

#define MIB ((size_t)1 << 20)

static CUcontext ctx;

/* Block @stream until unblock() sets *@released. */
static void block(CUstream stream, uint32_t *released)
{
	*released = 0;
	cu.cuStreamWaitValue32(stream, (uintptr_t)released, 1,
			       CU_STREAM_WAIT_VALUE_GEQ);
}

static void unblock(uint32_t *released)
{
	__atomic_store_n(released, 1, __ATOMIC_RELEASE);
}

static CUevent event_of(CUstream stream, unsigned flags)
{
	CUevent event;

	cu.cuEventCreate(&event, flags);
	cu.cuEventRecord(event, stream);
	return event;
}

static int byte_at(CUdeviceptr ptr)
{
	return *(volatile unsigned char *)cu.fakecuda_at(ptr);
}

static void queries(uint32_t *released)
{
	CUstream stream = cu_stream();
	CUevent event, never;
	float ms;

	block(stream, released);
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY,
	       "a stream with queued work is not ready");
	event = event_of(stream, CU_EVENT_DISABLE_TIMING);
	is_int(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY,
	       "an event after queued work is not ready");
	cu.cuEventCreate(&never, 0);
	is_int(cu.cuEventQuery(never), CUDA_SUCCESS,
	       "an event that was never recorded is ready");
	is_int(cu.cuEventElapsedTime(&ms, event, event),
	       CUDA_ERROR_INVALID_HANDLE,
	       "an event without timing has no elapsed time");
	unblock(released);
	cu.cuEventDestroy(event);
	cu.cuEventDestroy(never);
	cu.cuStreamDestroy(stream);
}

/* Stream b waits for an event of a, and for one that is never recorded. */
static void order(uint32_t *released)
{
	CUstream a = cu_stream(), b = cu_stream();
	CUdeviceptr ptr = cu_device(MIB);
	char *pinned = cu_pinned(MIB);
	CUevent event, never;

	memset(pinned, 1, MIB);
	block(a, released);
	cu.cuMemcpyHtoDAsync(ptr, pinned, MIB, a);
	event = event_of(a, CU_EVENT_DISABLE_TIMING);
	cu.cuStreamWaitEvent(b, event, 0);
	cu.cuMemsetD8Async(ptr, 2, 1, b);
	cu.cuEventCreate(&never, 0);
	cu.cuStreamWaitEvent(b, never, 0);
	usleep(5000);
	is_int(byte_at(ptr), 0xcd, "a stream waits for another's event");
	cu.cuEventDestroy(event);
	unblock(released);
	is_int(cu.cuStreamSynchronize(b), CUDA_SUCCESS,
	       "a stream that waits for a destroyed event ends");
	is_int(byte_at(ptr), 2,
	       "work of two streams runs in the order of their events");
	is_int(byte_at(ptr + 1), 1,
	       "bytes beside a fill are as they were copied");
	cu.cuEventDestroy(never);
	cu.cuStreamDestroy(a);
	cu.cuStreamDestroy(b);
	cu.cuMemFree(ptr);
	cu.cuMemFreeHost(pinned);
}

static void destroyed_with_work(uint32_t *released)
{
	CUstream stream = cu_stream();
	CUdeviceptr ptr = cu_device(16);

	block(stream, released);
	cu.cuMemsetD8Async(ptr, 7, 16, stream);
	is_int(cu.cuStreamDestroy(stream), CUDA_SUCCESS,
	       "a stream with work is destroyed at once");
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE,
	       "the handle of a destroyed stream is invalid");
	unblock(released);
	cu.cuCtxSynchronize();
	is_int(byte_at(ptr), 7, "the work of a destroyed stream still runs");
	cu.cuMemFree(ptr);
}

static void stream_zero(uint32_t *released)
{
	CUstream blocking;
	CUdeviceptr ptr = cu_device(16);

	cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
	block(blocking, released);
	cu.cuMemsetD8Async(ptr, 9, 16, NULL);
	usleep(5000);
	is_int(byte_at(ptr), 0xcd, "stream 0 waits for the blocking streams");
	unblock(released);
	cu.cuStreamSynchronize(NULL);
	is_int(byte_at(ptr), 9,
	       "stream 0 runs when the blocking streams are done");
	block(NULL, released);
	cu.cuMemsetD8Async(ptr, 8, 16, blocking);
	usleep(5000);
	is_int(byte_at(ptr), 9, "a blocking stream waits for stream 0");
	unblock(released);
	cu.cuCtxSynchronize();
	is_int(byte_at(ptr), 8, "a blocking stream runs when stream 0 is done");
	cu.cuStreamDestroy(blocking);
	cu.cuMemFree(ptr);
}

/* Milliseconds by the device's events that @n copies of @bytes take. */
static float timed(CUdeviceptr to, void *from, size_t bytes, int n)
{
	CUstream stream = cu_stream();
	CUevent start = event_of(stream, 0), end;
	float ms = -1;

	while (n--)
		cu.cuMemcpyHtoDAsync(to, from, bytes, stream);
	end = event_of(stream, 0);
	cu.cuEventSynchronize(end);
	cu.cuEventElapsedTime(&ms, start, end);
	cu.cuEventDestroy(start);
	cu.cuEventDestroy(end);
	cu.cuStreamDestroy(stream);
	return ms;
}

enum {
	MOST_TRIES = 100 /* a busy machine makes some slower */
};

/* @n copies of @bytes take some @want milliseconds, and never fewer. */
static bool takes(double want, CUdeviceptr dev, char *host, size_t bytes, int n)
{
	double ms = timed(dev, host, bytes, n);

	for (int i = 1; i < MOST_TRIES && ms >= want * 1.4; i++)
		ms = timed(dev, host, bytes, n);
	diag("%.3f ms for %.3f", ms, want);
	return ms > want * 0.97 && ms < want * 1.4;
}

/* Milliseconds by the clock that two concurrent copies take. */
static double both(CUdeviceptr dev, char *host, bool same_direction)
{
	CUstream a = cu_stream(), b = cu_stream();
	double start = cu_ms();

	cu.cuMemcpyHtoDAsync(dev, host, 4 * MIB, a);
	if (same_direction)
		cu.cuMemcpyHtoDAsync(dev + 4 * MIB, host, 4 * MIB, b);
	else
		cu.cuMemcpyDtoHAsync(host + 4 * MIB, dev + 4 * MIB, 4 * MIB, b);
	cu.cuCtxSynchronize();
	cu.cuStreamDestroy(a);
	cu.cuStreamDestroy(b);
	return cu_ms() - start;
}

static void engines(void)
{
	CUdeviceptr dev = cu_device(8 * MIB);
	char *host = cu_pinned(8 * MIB);
	double start, ms;

	timed(dev, host, 4 * MIB, 1); /* the pages are there */
	cu.fakecuda_set("RATE", "1e8");
	start = cu_ms();
	ok(takes(8 * MIB / 1e5, dev, host, 4 * MIB, 2),
	   "an engine copies at FAKECUDA_RATE by its own events");
	ok(cu_ms() - start >= 8 * MIB / 1e5,
	   "an engine copies at FAKECUDA_RATE by the clock");
	cu.fakecuda_set("DRY", "1");
	ok(both(dev, host, true) >= 8 * MIB / 1e5,
	   "copies in one direction share an engine");
	ms = both(dev, host, false);
	for (int i = 0; i < MOST_TRIES && ms >= 8 * MIB / 1e5; i++)
		ms = both(dev, host, false);
	ok(ms < 8 * MIB / 1e5,
	   "copies in both directions do not share an engine (%.1f ms)", ms);
	cu.fakecuda_set("RATE", "55e9");
	cu.fakecuda_set("LATENCY", "10");
	ok(takes(2000 * (0.01 + MIB / 55e6), dev, host, MIB, 2000),
	   "each copy takes FAKECUDA_LATENCY more");
	memset(host, 5, MIB);
	timed(dev, host, MIB, 1);
	ok(byte_at(dev) != 5, "a dry engine moves no bytes");
	cu.fakecuda_set("DRY", "0");
	cu.fakecuda_set("LATENCY", "0");
	cu.fakecuda_set("RATE", "0");
	cu.cuMemFree(dev);
	cu.cuMemFreeHost(host);
}

static void pageable_small(CUstream stream, CUdeviceptr dev, uint32_t *released)
{
	char small[1000];

	memset(small, 3, sizeof(small));
	block(stream, released);
	cu.cuMemcpyHtoDAsync(dev, small, sizeof(small), stream);
	memset(small, 4, sizeof(small));
	ok(cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY,
	   "a small copy from pageable memory returns before it is done");
	unblock(released);
	cu.cuStreamSynchronize(stream);
	is_int(byte_at(dev), 3,
	       "a small copy from pageable memory has read its source when it returns");
}

static void *unblock_later(void *released)
{
	usleep(20000);
	unblock(released);
	return NULL;
}

static void pageable(uint32_t *released)
{
	CUstream stream = cu_stream();
	CUdeviceptr dev = cu_device(8 * MIB);
	char *host = calloc(1, 8 * MIB);
	pthread_t thread;
	double start = cu_ms();

	pageable_small(stream, dev, released);
	memset(host, 6, 8 * MIB);
	block(stream, released);
	pthread_create(&thread, NULL, unblock_later, released);
	start = cu_ms();
	cu.cuMemcpyHtoDAsync(dev, host, 8 * MIB, stream);
	ok(cu_ms() - start > 15,
	   "a large copy from pageable memory blocks until earlier work is done");
	memset(host, 7, 8 * MIB);
	pthread_join(thread, NULL);
	cu.cuStreamSynchronize(stream);
	is_int(byte_at(dev + 8 * MIB - 1), 6,
	       "a large copy from pageable memory has read its source when it returns");
	cu.fakecuda_set("RATE", "4e8");
	start = cu_ms();
	cu.cuMemcpyDtoHAsync(host, dev, 8 * MIB, stream);
	ok(cu_ms() - start >= 8 * MIB / 4e5 && host[0] == 6,
	   "a copy to pageable memory returns when it is done");
	start = cu_ms();
	cu.cuMemcpyHtoDAsync(dev, host, 8 * MIB, stream);
	ok(cu_ms() - start >= 4 * MIB / 4e5,
	   "a large copy from pageable memory returns when only its last blocks are left");
	cu.fakecuda_set("RATE", "0");
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(dev);
	free(host);
}

static void shapes(void)
{
	CUstream stream = cu_stream();
	CUdeviceptr dev = cu_device(4096), other = cu_device(4096);
	unsigned char *host = cu_pinned(4096), back[4];
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dev,
		.dstPitch = 512,
		.WidthInBytes = 4,
		.Height = 8,
	};
	int i;

	for (i = 0; i < 4096; i++)
		host[i] = (unsigned char)(i / 16);
	cu.cuMemcpy2DAsync(&copy, stream);
	cu.cuStreamSynchronize(stream);
	ok(byte_at(dev + 7 * 512 + 3) == 7 && byte_at(dev + 4) == 0xcd,
	   "a rectangle is copied row by row");
	copy.Height = 9;
	is_int(cu.cuMemcpy2DAsync(&copy, stream), CUDA_ERROR_INVALID_VALUE,
	       "a rectangle beyond an allocation is refused");
	cu.cuMemsetD2D8Async(dev, 512, 5, 2, 8, stream);
	cu.cuStreamSynchronize(stream);
	ok(byte_at(dev + 7 * 512 + 1) == 5 && byte_at(dev + 7 * 512 + 2) == 7,
	   "a rectangle is filled row by row");
	cu.cuMemcpyDtoDAsync(other, dev, 4096, stream);
	cu.cuMemcpyDtoHAsync(back, other + 7 * 512, 4, stream);
	is_mem(back, "\5\5\7\7", 4, "a device copies its own memory");
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(dev);
	cu.cuMemFree(other);
	cu.cuMemFreeHost(host);
}

static void batches(void)
{
	CUstream stream = cu_stream();
	CUdeviceptr dev = cu_device(MIB);
	char *host = cu_pinned(MIB);
	CUdeviceptr dsts[3] = { dev, dev + 1000, dev + 5000 };
	CUdeviceptr srcs[3] = { (uintptr_t)host, (uintptr_t)host + 10,
				(uintptr_t)host + 20 };
	size_t sizes[3] = { 10, 10, 10 }, first = 0;
	CUmemcpyAttributes attr = { .srcAccessOrder =
					    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	unsigned long before = cu_counts().queued;

	memset(host, 1, 10);
	memset(host + 10, 2, 10);
	memset(host + 20, 3, 10);
	is_int(cu.cuMemcpyBatchAsync(dsts, srcs, sizes, 3, &attr, &first, 1,
				     stream),
	       CUDA_SUCCESS, "copies can be queued as a batch");
	cu.cuStreamSynchronize(stream);
	ok(byte_at(dev + 9) == 1 && byte_at(dev + 1009) == 2 &&
		   byte_at(dev + 5009) == 3 && byte_at(dev + 10) == 0xcd,
	   "each copy of a batch is done");
	is_int(cu_counts().queued - before, 1,
	       "a batch counts as one operation");
	is_int(cu.cuMemcpyBatchAsync(dsts, srcs, sizes, 3, &attr, &first, 1,
				     NULL),
	       CUDA_ERROR_INVALID_VALUE, "stream 0 refuses a batch");
	attr.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	is_int(cu.cuMemcpyBatchAsync(dsts, srcs, sizes, 3, &attr, &first, 1,
				     stream),
	       CUDA_ERROR_INVALID_VALUE,
	       "a batch without an access order is refused");
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(dev);
	cu.cuMemFreeHost(host);
}

static void CUDA_CB note_result(void *arg)
{
	int n;

	*(int *)arg = (int)cu.cuDeviceGetCount(&n);
}

static void values_and_functions(uint32_t *released)
{
	CUstream stream = cu_stream();
	int result = -1;

	block(stream, released);
	cu.cuLaunchHostFunc(stream, note_result, &result);
	cu.cuStreamWriteValue32(stream, (uintptr_t)released, 77, 0);
	usleep(2000);
	is_int(result, -1, "a host function runs after the work before it");
	unblock(released);
	cu.cuStreamSynchronize(stream);
	is_int(result, CUDA_ERROR_NOT_PERMITTED,
	       "a host function may not call the driver");
	is_int(*released, 77,
	       "a stream writes a value after the work before it");
	is_int(cu.cuStreamWriteValue32(stream, (uintptr_t)&result, 1, 0),
	       CUDA_ERROR_INVALID_VALUE,
	       "a stream refuses to write a value to pageable memory");
	cu.fakecuda_set("NO", "waitvalue");
	is_int(cu.cuStreamWriteValue32(stream, (uintptr_t)released, 1, 0),
	       CUDA_ERROR_NOT_SUPPORTED,
	       "writes of values can be switched off");
	cu.fakecuda_set("NO", "");
	cu.cuStreamDestroy(stream);
}

static void two_devices(void)
{
	CUcontext second, back;
	CUdeviceptr here = cu_device(16), there;
	CUstream stream = cu_stream(), foreign;
	CUevent event;
	int can = 0;

	cu.cuMemsetD8(here, 4, 16); /* returns before it is done */
	cu.cuCtxSynchronize();
	cu.cuDevicePrimaryCtxRetain(&second, 1);
	cu.cuCtxPushCurrent(second);
	there = cu_device(16);
	foreign = cu_stream();
	event = event_of(foreign, CU_EVENT_DISABLE_TIMING);
	cu.cuCtxPopCurrent(&back);
	cu.cuDeviceCanAccessPeer(&can, 0, 1);
	ok(can && cu.cuCtxEnablePeerAccess(second, 0) == CUDA_SUCCESS,
	   "a context can enable access to a peer");
	cu.cuMemcpyPeerAsync(there, second, here, ctx, 16, stream);
	cu.cuStreamSynchronize(stream);
	is_int(byte_at(there), 4, "a device copies to its peer");
	is_int(cu.cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS,
	       "a stream waits for another device's event");
	is_int(cu.cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE,
	       "a stream cannot record another device's event");
	is_int(cu.cuStreamSynchronize(foreign), CUDA_ERROR_INVALID_HANDLE,
	       "a stream of a context that is not current is refused");
	cu.fakecuda_set("NO", "peer");
	cu.cuDeviceCanAccessPeer(&can, 0, 1);
	is_int(can, 0, "peer access can be switched off");
	cu.fakecuda_set("NO", "");
	cu.cuDevicePrimaryCtxRelease(1);
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(here);
}

static void jitter(void)
{
	CUstream stream = cu_stream();
	CUdeviceptr dev = cu_device(16);
	double start = cu_ms();
	int i;

	cu.fakecuda_set("JITTER", "2000");
	for (i = 0; i < 40; i++)
		cu.cuMemsetD8Async(dev, 1, 16, stream);
	cu.cuStreamSynchronize(stream);
	cu.fakecuda_set("JITTER", "0");
	ok(cu_ms() - start > 15, "FAKECUDA_JITTER makes a device slow");
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(dev);
}

static void changed_sources(uint32_t *released)
{
	CUstream stream = cu_stream();
	CUdeviceptr dev = cu_device(MIB);
	char *host = cu_pinned(MIB);

	cu.fakecuda_set("RATE", "1e8");
	memset(host, 1, MIB);
	cu.cuMemcpyHtoDAsync(dev, host, MIB, stream);
	cu.cuStreamSynchronize(stream);
	is_int(cu_counts().reused, 0,
	       "a source that is unchanged until its copy is done is not counted");
	cu.cuMemcpyHtoDAsync(dev, host, MIB, stream);
	host[MIB / 2] = 9;
	cu.cuStreamSynchronize(stream);
	is_int(cu_counts().reused, 1,
	       "a source that is changed during its copy is counted");
	block(stream, released);
	cu.cuMemcpyHtoDAsync(dev, host, MIB, stream);
	host[MIB / 2] = 10;
	unblock(released);
	cu.cuStreamSynchronize(stream);
	is_int(cu_counts().reused, 1,
	       "a source that is changed before the stream reaches its copy is not counted");
	cu.fakecuda_set("RATE", "0");
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(dev);
	cu.cuMemFreeHost(host);
}

/* A source that is used again too early is a race, on purpose. */
__attribute__((visibility("default"))) const char *
__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:sum_row\n";
}

int main(void)
{
	uint32_t *released;

	setenv("FAKECUDA_DEVICES", "2", 1);
	plan(51);
	ctx = cu_start();
	released = cu_pinned(64);
	queries(released);
	order(released);
	destroyed_with_work(released);
	stream_zero(released);
	engines();
	pageable(released);
	shapes();
	batches();
	values_and_functions(released);
	two_devices();
	jitter();
	changed_sources(released);
	return done_testing();
}
