/* SPDX-License-Identifier: MIT */
/* The stand-in driver: failures on demand, and its report at exit. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "fakecuda/cu.h"

#define MIB ((size_t)1 << 20)

static CUcontext ctx;

/* Replace a context whose error stays. */
static void new_context(void)
{
	cu.fakecuda_disarm();
	cu.cuCtxSetCurrent(NULL);
	cu.cuDevicePrimaryCtxRelease(0);
	cu.cuDevicePrimaryCtxRetain(&ctx, 0);
	cu.cuCtxSetCurrent(ctx);
}

static void once(void)
{
	CUdeviceptr ptr;

	cu.fakecuda_arm("cuMemAlloc", 2, FAKECUDA_ONCE, 2);
	is_int(cu.cuMemAlloc(&ptr, 16), 0,
	       "a call before the armed one succeeds");
	cu.cuMemFree(ptr);
	is_int(cu.cuMemAlloc(&ptr, 16), CUDA_ERROR_OUT_OF_MEMORY,
	       "the armed call fails with the armed code");
	is_int(cu.cuMemAlloc(&ptr, 16), 0,
	       "the call after the armed one succeeds");
	cu.cuMemFree(ptr);
}

static void from_then_on(void)
{
	CUdeviceptr ptr;

	cu.fakecuda_arm("cuMemAlloc", 1, FAKECUDA_FROM_THEN_ON, 2);
	cu.cuMemAlloc(&ptr, 16);
	is_int(cu.cuMemAlloc(&ptr, 16), CUDA_ERROR_OUT_OF_MEMORY,
	       "with FROM_THEN_ON each call after the armed one fails");
	cu.fakecuda_disarm();
	is_int(cu.cuMemAlloc(&ptr, 16), 0,
	       "calls succeed after fakecuda_disarm");
	cu.cuMemFree(ptr);
}

static void any_call(void)
{
	unsigned long before = cu.fakecuda_calls(NULL);
	CUstream stream;
	int n;

	cu.fakecuda_arm("*", 2, FAKECUDA_ONCE, 999);
	cu.cuDeviceGetCount(&n);
	is_int(cu.cuStreamCreate(&stream, 0), CUDA_ERROR_UNKNOWN,
	       "the n-th call of any name can fail");
	is_int(cu.fakecuda_calls(NULL) - before, 2,
	       "calls of all names are counted");
	ok(cu.fakecuda_calls("cuMemAlloc") > 4, "calls are counted by name");
}

static void sticky(void)
{
	CUdeviceptr ptr = cu_device(16);
	CUstream stream = cu_stream();
	unsigned long lost = cu_counts().lost[FAKECUDA_STREAM];

	cu.fakecuda_arm("cuStreamSynchronize", 1, FAKECUDA_STICKY, 719);
	is_int(cu.cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED,
	       "a sticky error is returned by the armed call");
	is_int(cu.cuMemFree(ptr), CUDA_ERROR_LAUNCH_FAILED,
	       "a sticky error is returned by every later call of the context");
	is_int(cu.cuStreamDestroy(stream), CUDA_ERROR_LAUNCH_FAILED,
	       "a sticky error is returned by calls that free");
	new_context();
	is_int(cu.cuMemAlloc(&ptr, 16), 0, "a new context has no sticky error");
	cu.cuMemFree(ptr);
	is_int(cu_counts().lost[FAKECUDA_STREAM] - lost, 1,
	       "objects of a failed context are counted as lost");
}

static void late(void)
{
	CUdeviceptr ptr = cu_device(16);
	CUstream stream = cu_stream();

	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_LATE, 999);
	is_int(cu.cuMemsetD8Async(ptr, 1, 16, stream), 0,
	       "a call armed with LATE returns success");
	is_int(cu.cuStreamSynchronize(stream), CUDA_ERROR_UNKNOWN,
	       "the failure of LATE is returned by a later call");
	is_int(cu.cuStreamSynchronize(stream), 0,
	       "the failure of LATE is returned once");
	ok(*(unsigned char *)cu.fakecuda_at(ptr) == 0xcd,
	   "an operation that failed late has no effect");
	cu.cuStreamDestroy(stream);
	cu.cuMemFree(ptr);
}

static void late_and_sticky(void)
{
	CUdeviceptr ptr = cu_device(16);
	CUstream stream = cu_stream();

	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_LATE, 700);
	cu.cuMemsetD8Async(ptr, 1, 16, stream);
	cu.cuStreamSynchronize(stream);
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "an illegal address stays an error of the context");
	new_context();
}

static void hang(void)
{
	CUdeviceptr ptr = cu_device(16);
	CUstream stream = cu_stream();
	CUevent event;

	cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	cu.cuMemsetD8Async(ptr, 1, 16, stream);
	cu.cuEventRecord(event, stream);
	usleep(5000);
	is_int(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY,
	       "an operation that hangs is not ready");
	cu.fakecuda_release();
	is_int(cu.cuEventSynchronize(event), 0,
	       "an operation that hangs ends when it is released");
	is_int(*(char *)cu.fakecuda_at(ptr), 1,
	       "an operation that hung has its effect when it is released");
	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	cu.cuMemsetD8Async(ptr, 2, 16, stream);
	cu.cuDevicePrimaryCtxReset(0);
	is_int(cu.cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED,
	       "a reset does not wait for an operation that hangs");
	is_int(cu.cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT,
	       "a context that was reset is not retained");
	new_context();
}

static struct {
	CUdeviceptr ptr;
	CUresult result;
	bool returned;
} stalled;

static void *alloc_main(void *arg)
{
	(void)arg;
	cu.cuCtxSetCurrent(ctx);
	stalled.result = cu.cuMemAlloc(&stalled.ptr, 16);
	__atomic_store_n(&stalled.returned, true, __ATOMIC_RELEASE);
	return NULL;
}

static void stall(void)
{
	unsigned long struck = cu.fakecuda_struck();
	pthread_t thread;
	CUdeviceptr ptr;

	cu.fakecuda_arm("cuMemAlloc", 1, FAKECUDA_STALL, 0);
	pthread_create(&thread, NULL, alloc_main, NULL);
	while (cu.fakecuda_struck() == struck)
		usleep(1000);
	is_int(cu.cuMemAlloc(&ptr, 16), 0,
	       "other threads call while a call is stalled");
	usleep(5000);
	ok(!__atomic_load_n(&stalled.returned, __ATOMIC_ACQUIRE),
	   "a call that is stalled does not return");
	cu.fakecuda_release();
	pthread_join(thread, NULL);
	ok(stalled.result == 0 && cu.cuMemFree(stalled.ptr) == 0,
	   "it does its work when it is released");
	cu.cuMemFree(ptr);
}

static void lost(void)
{
	CUdeviceptr ptr = cu_device(4 * MIB);
	char *host = cu_pinned(4 * MIB);
	CUstream stream = cu_stream();
	CUcontext again;
	unsigned char *seen = cu.fakecuda_at(ptr);

	memset(host, 1, 4 * MIB);
	cu.cuMemsetD8(ptr, 2, 4 * MIB);
	cu.cuCtxSynchronize();
	cu.fakecuda_arm("cuMemcpyHtoDAsync", 1, FAKECUDA_LOST, 46);
	is_int(cu.cuMemcpyHtoDAsync(ptr, host, 4 * MIB, stream), 0,
	       "a copy in which the device is lost is accepted");
	is_int(cu.cuStreamSynchronize(stream), CUDA_ERROR_DEVICE_UNAVAILABLE,
	       "a wait for a lost device fails");
	ok(seen[0] == 1 && seen[4 * MIB - 1] == 2,
	   "a copy in which the device is lost copies half of its bytes");
	is_int(cu.cuMemFree(ptr), CUDA_ERROR_DEVICE_UNAVAILABLE,
	       "calls to a lost device fail");
	is_int(cu.cuDevicePrimaryCtxRetain(&again, 0),
	       CUDA_ERROR_DEVICE_UNAVAILABLE, "a lost device makes no context");
	is_int(cu.cuDevicePrimaryCtxRetain(&again, 1), 0,
	       "another device works after one is lost");
	cu.cuDevicePrimaryCtxRelease(1);
}

/* Run @body in a child with @arm in its environment; @ret: its report. */
static void run_child(int (*body)(void), const char *arm, char *ret,
		      size_t size)
{
	char name[] = "/tmp/fakecuda.XXXXXX";
	int fd = mkstemp(name), status;
	pid_t pid = fork();
	ssize_t n;

	if (!pid) {
		setenv("FAKECUDA_REPORT", name, 1);
		if (arm)
			setenv("FAKECUDA_ARM", arm, 1);
		exit(body());
	}
	waitpid(pid, &status, 0);
	n = read(fd, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(name);
}

static int leave_objects(void)
{
	CUevent event;

	cu_start();
	cu_device(1000);
	cu_device(1000);
	cu_stream();
	cu.cuEventCreate(&event, 0);
	cu.cuEventDestroy(event);
	cu.cuMemFree(12345);
	return 0;
}

static int three_times(void)
{
	CUdeviceptr ptr;

	cu_start();
	cu.cuMemAlloc(&ptr, 1);
	cu.cuMemAlloc(&ptr, 1);
	cu.cuMemAlloc(&ptr, 1);
	return 0;
}

static int query_only(void)
{
	size_t total;
	int n;

	cu_open();
	cu.cuInit(0);
	cu.cuDeviceGetCount(&n);
	cu.cuDeviceTotalMem(&total, 0);
	return 0;
}

static void at_exit(void)
{
	char text[4096];

	run_child(leave_objects, NULL, text, sizeof(text));
	has_str(text, "device-memory made 2 live 2 lost 0\n",
		"the report at exit counts objects that were not freed");
	has_str(text, "stream made 1 live 1 lost 0\n",
		"the report at exit counts each kind of object");
	has_str(text, "event made 1 live 0 lost 0\n",
		"the report at exit counts objects that were freed");
	has_str(text, "misuse 1 last: cuMemFree: 0x3039 is no allocation\n",
		"the report at exit describes the last misuse");
	run_child(query_only, NULL, text, sizeof(text));
	has_str(text, "retained made 0 live 0 lost 0\n",
		"queries without a context retain none");
	run_child(three_times, "cuMemAlloc:2:once:2,cuInit:9:from:1", text,
		  sizeof(text));
	has_str(text, "device-memory made 2 live 2 lost 0\n",
		"FAKECUDA_ARM makes a call fail");
}

static int last_words = -1;

/* Registered before cuInit, so it runs after the driver's exit handler. */
static void after_the_driver(void)
{
	size_t a, b;

	last_words = (int)cu.cuMemGetInfo(&a, &b);
	_exit(last_words);
}

static int end_late(void)
{
	atexit(after_the_driver);
	cu_start();
	return 0;
}

static int exit_status(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		exit(body());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int strict_objects(void)
{
	setenv("FAKECUDA_STRICT", "1", 1);
	return freopen("/dev/null", "w", stderr) ? leave_objects() : 1;
}

static int strict_query(void)
{
	setenv("FAKECUDA_STRICT", "1", 1);
	return query_only();
}

static void strict(void)
{
	is_int(exit_status(leave_objects), 0,
	       "a program that misuses the driver decides on its exit status");
	is_int(exit_status(strict_objects), 99,
	       "with FAKECUDA_STRICT it exits with 99");
	is_int(exit_status(strict_query), 0,
	       "with FAKECUDA_STRICT a program without a mistake succeeds");
}

static void *unblock_later(void *released)
{
	usleep(5000);
	__atomic_store_n((uint32_t *)released, 1, __ATOMIC_RELEASE);
	return NULL;
}

static int share_a_channel(void)
{
	CUstream a, b;
	uint32_t *released;
	pthread_t thread;
	int stuck;

	setenv("FAKECUDA_CHANNELS", "1", 1);
	cu_start();
	a = cu_stream();
	b = cu_stream();
	released = cu_pinned(4);
	*released = 0;
	cu.cuStreamWaitValue32(a, (uintptr_t)released, 1, 0);
	cu.cuStreamWriteValue32(b, (uintptr_t)released + 0, 0, 0);
	usleep(5000);
	stuck = cu.cuStreamQuery(b) == CUDA_ERROR_NOT_READY;
	pthread_create(&thread, NULL, unblock_later, released);
	pthread_join(thread, NULL);
	return cu.cuStreamSynchronize(b) == 0 && stuck ? 7 : 1;
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	plan(43);
	at_exit();
	strict();
	is_int(exit_status(end_late), CUDA_ERROR_DEINITIALIZED,
	       "calls after the driver's end return CUDA_ERROR_DEINITIALIZED");
	is_int(exit_status(share_a_channel), 7,
	       "streams that share a channel block each other");
	ctx = cu_start();
	once();
	from_then_on();
	any_call();
	sticky();
	late();
	late_and_sticky();
	hang();
	stall();
	lost();
	return done_testing();
}
