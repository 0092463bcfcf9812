/* SPDX-License-Identifier: MIT */
/* The stand-in driver: failures on demand, and what is said at exit. */
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

/* After a failure that the context did not survive. */
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
	is_int(cu.cuMemAlloc(&ptr, 16), 0, "a call before the n-th works");
	cu.cuMemFree(ptr);
	is_int(cu.cuMemAlloc(&ptr, 16), CUDA_ERROR_OUT_OF_MEMORY,
	       "the n-th fails with what was armed");
	is_int(cu.cuMemAlloc(&ptr, 16), 0, "... and the next works");
	cu.cuMemFree(ptr);
	cu.fakecuda_arm("cuMemAlloc", 1, FAKECUDA_FROM_THEN_ON, 2);
	cu.cuMemAlloc(&ptr, 16);
	is_int(cu.cuMemAlloc(&ptr, 16), CUDA_ERROR_OUT_OF_MEMORY,
	       "from then on all fail");
	cu.fakecuda_disarm();
	is_int(cu.cuMemAlloc(&ptr, 16), 0, "... until that is taken back");
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
	is_int(cu.fakecuda_calls(NULL) - before, 2, "calls are counted");
	ok(cu.fakecuda_calls("cuMemAlloc") > 4, "... by name");
}

static void sticky(void)
{
	CUdeviceptr ptr = cu_device(16);
	CUstream stream = cu_stream();
	unsigned long lost = cu_counts().lost[FAKECUDA_STREAM];

	cu.fakecuda_arm("cuStreamSynchronize", 1, FAKECUDA_STICKY, 719);
	is_int(cu.cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED,
	       "a sticky error comes out of its call");
	is_int(cu.cuMemFree(ptr), CUDA_ERROR_LAUNCH_FAILED,
	       "... and of every later one of the context");
	is_int(cu.cuStreamDestroy(stream), CUDA_ERROR_LAUNCH_FAILED,
	       "... of those that give things back too");
	new_context();
	is_int(cu.cuMemAlloc(&ptr, 16), 0, "a new context is sound");
	cu.cuMemFree(ptr);
	is_int(cu_counts().lost[FAKECUDA_STREAM] - lost, 1,
	       "what the old one had went with it");
}

static void late(void)
{
	CUdeviceptr ptr = cu_device(16);
	CUstream stream = cu_stream();

	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_LATE, 999);
	is_int(cu.cuMemsetD8Async(ptr, 1, 16, stream), 0,
	       "a call can seem to work");
	is_int(cu.cuStreamSynchronize(stream), CUDA_ERROR_UNKNOWN,
	       "... and its failure come out of a later one");
	is_int(cu.cuStreamSynchronize(stream), 0, "... once");
	ok(*(unsigned char *)cu.fakecuda_at(ptr) == 0xcd,
	   "what failed did not happen");
	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_LATE, 700);
	cu.cuMemsetD8Async(ptr, 1, 16, stream);
	cu.cuStreamSynchronize(stream);
	is_int(cu.cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "some errors a context does not survive");
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
	       "what hangs is never done");
	cu.fakecuda_release();
	is_int(cu.cuEventSynchronize(event), 0, "... until it is released");
	is_int(*(char *)cu.fakecuda_at(ptr), 1, "... and then happens");
	cu.fakecuda_arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	cu.cuMemsetD8Async(ptr, 2, 16, stream);
	cu.cuDevicePrimaryCtxReset(0);
	is_int(cu.cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED,
	       "a context that is reset does not wait for it");
	is_int(cu.cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT,
	       "... and nobody holds it any more");
	new_context();
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
	       "a device is lost in mid-copy");
	is_int(cu.cuStreamSynchronize(stream), CUDA_ERROR_DEVICE_UNAVAILABLE,
	       "... which who waits is told");
	ok(seen[0] == 1 && seen[4 * MIB - 1] == 2, "half of the bytes came");
	is_int(cu.cuMemFree(ptr), CUDA_ERROR_DEVICE_UNAVAILABLE,
	       "from then on all calls fail");
	is_int(cu.cuDevicePrimaryCtxRetain(&again, 0),
	       CUDA_ERROR_DEVICE_UNAVAILABLE, "... and no context is made");
	is_int(cu.cuDevicePrimaryCtxRetain(&again, 1), 0,
	       "other devices go on");
	cu.cuDevicePrimaryCtxRelease(1);
}

/* A process of its own, with @arm in its environment; its report. */
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

static int leave_things(void)
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

static int look_only(void)
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

	run_child(leave_things, NULL, text, sizeof(text));
	has_str(text, "device-memory made 2 live 2 lost 0\n",
		"at exit it says what was not given back");
	has_str(text, "stream made 1 live 1 lost 0\n", "... of each kind");
	has_str(text, "event made 1 live 0 lost 0\n", "... and what was");
	has_str(text, "misuse 1 last: cuMemFree: 0x3039 is no allocation\n",
		"... and which mistakes there were");
	run_child(look_only, NULL, text, sizeof(text));
	has_str(text, "retained made 0 live 0 lost 0\n",
		"who only looks makes no context");
	run_child(three_times, "cuMemAlloc:2:once:2,cuInit:9:from:1", text,
		  sizeof(text));
	has_str(text, "device-memory made 2 live 2 lost 0\n",
		"the environment can make a call fail as well");
}

static int last_words = -1;

/* Registered before cuInit, so it runs after the driver's own end. */
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

static void *let_go(void *gate)
{
	usleep(5000);
	__atomic_store_n((uint32_t *)gate, 1, __ATOMIC_RELEASE);
	return NULL;
}

static int share_a_channel(void)
{
	CUstream a, b;
	uint32_t *gate;
	pthread_t thread;
	int stuck;

	setenv("FAKECUDA_CHANNELS", "1", 1);
	cu_start();
	a = cu_stream();
	b = cu_stream();
	gate = cu_pinned(4);
	*gate = 0;
	cu.cuStreamWaitValue32(a, (uintptr_t)gate, 1, 0);
	cu.cuStreamWriteValue32(b, (uintptr_t)gate + 0, 0, 0);
	usleep(5000);
	stuck = cu.cuStreamQuery(b) == CUDA_ERROR_NOT_READY;
	pthread_create(&thread, NULL, let_go, gate);
	pthread_join(thread, NULL);
	return cu.cuStreamSynchronize(b) == 0 && stuck ? 7 : 1;
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	plan(37);
	at_exit();
	is_int(exit_status(end_late), CUDA_ERROR_DEINITIALIZED,
	       "after its end the driver says that it has ended");
	is_int(exit_status(share_a_channel), 7,
	       "streams that share a channel hold each other up");
	ctx = cu_start();
	once();
	any_call();
	sticky();
	late();
	hang();
	lost();
	return done_testing();
}
