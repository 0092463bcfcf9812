/* SPDX-License-Identifier: MIT */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <weir/backend.h>

struct weir__cuda_driver weir__cuda_drv;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards opened */
static bool opened;

struct entry {
	const char *name;
	int version; /* version of CUDA whose signature is called */
	size_t at;   /* offset of the pointer in the table */
	bool required;
};

/* #name is the name as written; cuda.h may define it as a macro for another. */
#define REQUIRED(name, version) \
	{ #name, version, offsetof(struct weir__cuda_driver, name), true },
#define OPTIONAL(name, version) \
	{ #name, version, offsetof(struct weir__cuda_driver, name), false },

/* clang-format off */
static const struct entry entries[] = {
	WEIR__CUDA_REQUIRED(REQUIRED)
	WEIR__CUDA_OPTIONAL(OPTIONAL)
	{ "cuMemcpyBatchAsync", 12080,
	  offsetof(struct weir__cuda_driver, copy_batch), false },
};
/* clang-format on */

/* cuGetProcAddress, which has one argument more since CUDA 12. */
struct finder {
	CUresult (*v2)(const char *name, void **pfn, int version,
		       cuuint64_t flags, CUdriverProcAddressQueryResult *why);
	CUresult (*v1)(const char *name, void **pfn, int version,
		       cuuint64_t flags);
};

static CUresult find_entry(const struct finder *f, const char *name,
			   int version, void **ret)
{
	CUdriverProcAddressQueryResult why;

	*ret = NULL;
	return f->v2 ? f->v2(name, ret, version, CU_GET_PROC_ADDRESS_DEFAULT,
			     &why)
		     : f->v1(name, ret, version, CU_GET_PROC_ADDRESS_DEFAULT);
}

/* The version, for sentences about errors. Every driver exports the call. */
static int driver_version(void *handle)
{
	CUresult (*get)(int *);
	int version = 0;

	*(void **)&get = dlsym(handle, "cuDriverGetVersion");
	return get && get(&version) == CUDA_SUCCESS ? version : 0;
}

static int fail_missing(const struct weir_backend_host *host, int driver,
			const char *name, int version)
{
	return host->fail(-ENOSYS,
			  "the driver (CUDA %d.%d) has no %s as of CUDA %d.%d",
			  driver / 1000, driver % 1000 / 10, name,
			  version / 1000, version % 1000 / 10);
}

static int fill_table(const struct weir_backend_host *host,
		      const struct finder *f, struct weir__cuda_driver *drv)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct entry *e = &entries[i];
		void *pfn;
		CUresult r = find_entry(f, e->name, e->version, &pfn);

		if (r == CUDA_ERROR_STUB_LIBRARY)
			return host->fail(
				-ENODEV,
				"libcuda.so.1 is a toolkit's stub (CUDA_ERROR_STUB_LIBRARY), not a driver");
		if ((r || !pfn) && e->required)
			return fail_missing(host, drv->version, e->name,
					    e->version);
		*(void **)(void *)((char *)drv + e->at) = r ? NULL : pfn;
	}
	return 0;
}

static int open_driver(const struct weir_backend_host *host)
{
	struct weir__cuda_driver drv = { 0 };
	struct finder f = { 0 };
	void *handle;
	int r;

	if (host->dlopen("libcuda.so.1", &handle) < 0)
		return host->fail(-ENODEV, "no CUDA driver: %s", dlerror());
	*(void **)&f.v2 = dlsym(handle, "cuGetProcAddress_v2");
	*(void **)&f.v1 = dlsym(handle, "cuGetProcAddress");
	drv.version = driver_version(handle);
	if (!f.v2 && !f.v1)
		r = fail_missing(host, drv.version, "cuGetProcAddress", 11030);
	else
		r = fill_table(host, &f, &drv);
	if (r < 0) {
		dlclose(handle);
		return r;
	}
	weir__cuda_drv = drv;
	return 0;
}

int weir__cuda_driver_open(const struct weir_backend_host *host)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (!opened)
		r = open_driver(host);
	opened = r == 0;
	pthread_mutex_unlock(&lock);
	return r;
}

bool weir__cuda_is_fatal(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
	case CUDA_ERROR_EXTERNAL_DEVICE:
		return true;
	default:
		return false;
	}
}

bool weir__cuda_is_capture(CUresult result)
{
	return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	       result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

int weir__cuda_errno(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
		return -EINVAL;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
	case CUDA_ERROR_SYSTEM_NOT_READY:
	case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
	case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return -ENODEV;
	case CUDA_ERROR_DEINITIALIZED:
		return -ESHUTDOWN;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	default:
		return weir__cuda_is_fatal(result) ? -ENODEV : -EIO;
	}
}

void weir__cuda_describe_result(int32_t result, char *text, size_t room)
{
	const char *name = NULL, *words = NULL;

	weir__cuda_drv.cuGetErrorName((CUresult)result, &name);
	weir__cuda_drv.cuGetErrorString((CUresult)result, &words);
	if (name && words)
		snprintf(text, room, "%s: %s", name, words);
	else
		snprintf(text, room, "%s, CUDA result %d",
			 name ? name : "no name", (int)result);
}
