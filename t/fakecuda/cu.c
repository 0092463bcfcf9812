/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

char *cu_ptx(const char *name)
{
	const char *dir = getenv("srcdir");
	char path[4096], *text;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/t/fakecuda/ptx/%s", dir ? dir : "..",
		 name);
	file = fopen(path, "r");
	if (!file)
		return NULL;
	text = calloc(1, 1 << 20);
	n = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	text[n] = '\0';
	return text;
}

CUmodule cu_load(const char *name)
{
	char *text = cu_ptx(name);
	CUmodule module;

	if (!text)
		bail("%s cannot be read", name);
	if (cu.cuModuleLoadData(&module, text))
		bail("%s: %s", name, cu.fakecuda_finding());
	free(text);
	return module;
}

CUdeviceptr cu_upload(const void *bytes, size_t n)
{
	CUdeviceptr p = cu_device(n);

	if (cu.cuMemcpyHtoD(p, bytes, n))
		bail("no copy");
	return p;
}

int cu_launch(CUmodule module, const char *name, unsigned grid, unsigned block,
	      unsigned shared, void **params)
{
	CUfunction f;

	if (cu.cuModuleGetFunction(&f, module, name))
		bail("no kernel %s", name);
	return cu.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, NULL,
				 params, NULL);
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
