/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tap.h"
#include "cu.h"

struct cu cu;

static void *open_library(void)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");
	char path[4096];

	if (!dir)
		dir = "t/fakecuda/.libs"; /* a test that is run by hand */
	snprintf(path, sizeof(path), "%s/libcuda.so.1", dir);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void find(__typeof__(&cuGetProcAddress) get, const char *name,
		 void *where)
{
	CUdriverProcAddressQueryResult status;
	void *function = NULL;

	if (get(name, &function, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status) !=
		    CUDA_SUCCESS ||
	    !function)
		bail("the driver has no %s", name);
	*(void **)where = function;
}

/* The stringified name is not expanded, so the base name is looked up. */
#define BASE(name) find(get, #name, &cu.name);
#define CONTROL(name) *(void **)&cu.name = dlsym(cu.library, #name);

void cu_open(void)
{
	__typeof__(&cuGetProcAddress) get;

	cu.library = open_library();
	if (!cu.library)
		bail("%s", dlerror());
	*(void **)&get = dlsym(cu.library, "cuGetProcAddress_v2");
	if (!get)
		bail("no cuGetProcAddress_v2");
	CU_CALLS(BASE)
	CONTROL_CALLS(CONTROL)
}

CUcontext cu_start(void)
{
	CUcontext ctx;

	cu_open();
	if (cu.cuInit(0) != CUDA_SUCCESS ||
	    cu.cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS ||
	    cu.cuCtxPushCurrent(ctx) != CUDA_SUCCESS)
		bail("no context");
	return ctx;
}

CUstream cu_stream(void)
{
	CUstream stream;

	if (cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		bail("no stream");
	return stream;
}

CUdeviceptr cu_device(size_t bytes)
{
	CUdeviceptr ptr;

	if (cu.cuMemAlloc(&ptr, bytes))
		bail("no device memory");
	return ptr;
}

void *cu_pinned(size_t bytes)
{
	void *p;

	if (cu.cuMemHostAlloc(&p, bytes, 0))
		bail("no page-locked memory");
	return p;
}

struct fakecuda_counts cu_counts(void)
{
	struct fakecuda_counts counts;

	cu.fakecuda_counts(&counts);
	return counts;
}

double cu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
