/* SPDX-License-Identifier: MIT */
/* The stand-in driver: entry points, devices, contexts, memory. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "fakecuda/cu.h"

#define MIB ((size_t)1 << 20)

static CUcontext primary;

/* The result of cuGetProcAddress for @name and a program of @version. */
static int lookup(const char *name, int version, void **ret)
{
	CUdriverProcAddressQueryResult status = 99;
	__typeof__(&cuGetProcAddress) get;

	*(void **)&get = dlsym(cu.library, "cuGetProcAddress_v2");
	if (get(name, ret, version, 0, &status) != CUDA_SUCCESS)
		return -1;
	return (int)status;
}

static void entries(void)
{
	void *first, *second;

	is_int(lookup("cuMemcpyBatchAsync", 12080, &first),
	       CU_GET_PROC_ADDRESS_SUCCESS,
	       "an entry point is found by its base name");
	lookup("cuMemcpyBatchAsync", 13000, &second);
	ok(first != second,
	   "an entry point is returned in the form of the version that is asked for");
	is_int(lookup("cuMemcpyBatchAsync", 12000, &first),
	       CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
	       "an entry point newer than the program is refused");
	ok(!first, "an entry point that is refused is NULL");
	is_int(lookup("cuMakeCoffee", 13000, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "an unknown entry point is not found");
	is_int(lookup("cuInit", 14000, &first), -1,
	       "a lookup for a program newer than the driver fails");
}

static void missing_entries(void)
{
	void *first;

	cu.fakecuda_set("NO", "peer,cuLaunchHostFunc,batch");
	is_int(lookup("cuLaunchHostFunc", 13000, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "an entry point can be switched off");
	is_int(lookup("cuMemcpyBatchAsync", 13000, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "an entry point is not found if its ability is switched off");
	cu.fakecuda_set("NO", "");
	cu.fakecuda_set("VERSION", "12020");
	is_int(lookup("cuMemcpyBatchAsync", 12020, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "an old driver has no entry point that is newer than it");
	cu.fakecuda_set("VERSION", "13000");
}

static void before_init(void)
{
	const char *text;
	int n;

	is_int(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED,
	       "calls before cuInit return CUDA_ERROR_NOT_INITIALIZED");
	cu.cuGetErrorString(CUDA_ERROR_NOT_INITIALIZED, &text);
	is_str(text, "initialization error",
	       "cuGetErrorString works before cuInit");
	cu.cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &text);
	is_str(text, "CUDA_ERROR_NOT_INITIALIZED",
	       "cuGetErrorName works before cuInit");
	is_int(cu.cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE,
	       "a number that is no result has no string");
}

static int attribute(CUdevice_attribute what)
{
	int value = -1;

	cu.cuDeviceGetAttribute(&value, what, 0);
	return value;
}

static void devices(void)
{
	char name[64] = "", bus[32] = "";
	CUuuid one, two;
	CUdevice dev;
	size_t total;
	int n = 0;

	is_int(cu.cuDeviceGetCount(&n), CUDA_SUCCESS, "devices are counted");
	is_int(n, 2, "the number of devices is FAKECUDA_DEVICES");
	is_int(cu.cuDeviceGet(&dev, 2), CUDA_ERROR_INVALID_DEVICE,
	       "a third device of two is invalid");
	cu.cuDeviceGetName(name, sizeof(name), 1);
	is_str(name, "Stand-in GPU 1", "a device has a name");
	cu.cuDeviceGetPCIBusId(bus, sizeof(bus), 1);
	is_str(bus, "FACE:02:00.0",
	       "a device has a PCI address that no machine has");
	cu.cuDeviceGetUuid(&one, 0);
	cu.cuDeviceGetUuid(&two, 1);
	ok(memcmp(&one, &two, sizeof(one)) != 0,
	   "a device has a UUID of its own");
	cu.cuDeviceTotalMem(&total, 0);
	is_int(total, 256 * MIB, "a device has FAKECUDA_MEM bytes");
}

static void abilities(void)
{
	is_int(attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED), 1,
	       "a device can register host memory");
	cu.fakecuda_set("NO", "hostregister,waitvalue");
	is_int(attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED), 0,
	       "registering host memory can be switched off");
	is_int(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 0,
	       "waits for 64-bit values can be switched off");
	cu.fakecuda_set("NO", "");
}

static void primary_context(void)
{
	CUcontext ctx = NULL;
	CUdeviceptr ptr;
	unsigned flags;
	int active = -1;

	is_int(cu.cuMemAlloc(&ptr, 1), CUDA_ERROR_INVALID_CONTEXT,
	       "cuMemAlloc without a context fails");
	cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
	is_int(active, 0,
	       "the primary context is inactive before it is retained");
	cu.cuDevicePrimaryCtxRetain(&primary, 0);
	cu.cuDevicePrimaryCtxRetain(&ctx, 0);
	ok(ctx == primary, "all who retain a primary context have the same");
	cu.cuDevicePrimaryCtxRelease(0);
	cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
	is_int(active, 1,
	       "the primary context is active until it is released as often as retained");
}

static void current_context(void)
{
	CUcontext ctx, second;
	CUdevice dev = -1;

	cu.cuCtxPushCurrent(primary);
	cu.cuDevicePrimaryCtxRetain(&second, 1);
	cu.cuCtxPushCurrent(second);
	cu.cuCtxGetDevice(&dev);
	is_int(dev, 1, "the context pushed last is current");
	cu.cuCtxPopCurrent(&ctx);
	cu.cuCtxGetCurrent(&ctx);
	ok(ctx == primary,
	   "popping the current context makes the one before it current");
	cu.cuDevicePrimaryCtxRelease(1);
	is_int(cu.cuCtxPushCurrent(second), CUDA_ERROR_INVALID_CONTEXT,
	       "a destroyed context cannot be made current");
	is_int(cu.cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT,
	       "a primary context that is not retained cannot be released");
}

static void destroyed_context(void)
{
	CUcontext ctx, made;
	CUdeviceptr ptr;

	cu.cuCtxCreate(&made, NULL, 0, 1);
	cu.cuMemAlloc(&ptr, MIB);
	cu.cuCtxDestroy(made);
	is_int(cu_counts().lost[FAKECUDA_DEVICE_MEMORY], 1,
	       "objects of a destroyed context are destroyed and counted as lost");
	cu.cuCtxGetCurrent(&ctx);
	ok(ctx == primary, "a destroyed context is not current");
}

static void device_memory(void)
{
	CUdeviceptr a = 0, b = 0;
	size_t free_before, free_after, total;

	cu.cuMemGetInfo(&free_before, &total);
	is_int(cu.cuMemAlloc(&a, 3 * MIB), CUDA_SUCCESS,
	       "device memory is allocated");
	cu.cuMemGetInfo(&free_after, &total);
	is_int(free_before - free_after, 3 * MIB,
	       "allocated device memory is no longer free");
	is_int(a % 256, 0, "device memory is aligned to 256 bytes at least");
	is_int(cu.cuMemAlloc(&b, 254 * MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "device memory over FAKECUDA_MEM is refused");
	cu.cuMemFree(a);
}

static void freed_memory(void)
{
	CUdeviceptr a = cu_device(3 * MIB), b;

	is_int(cu.cuMemFree(a + 256), CUDA_ERROR_INVALID_VALUE,
	       "an address inside an allocation cannot be freed");
	is_int(cu.cuMemFree(a), CUDA_SUCCESS,
	       "device memory is freed by its address");
	is_int(cu.cuMemFree(a), CUDA_ERROR_INVALID_VALUE,
	       "device memory cannot be freed twice");
	cu.cuMemAlloc(&b, 3 * MIB);
	ok(a != b, "the address of freed device memory is not used again soon");
	is_int(cu.cuMemcpyHtoD(a, "x", 1), CUDA_ERROR_INVALID_VALUE,
	       "a copy to freed device memory is refused");
	cu.cuMemFree(b);
}

static void bounds(void)
{
	CUdeviceptr b = cu_device(3 * MIB);

	is_int(cu.cuMemcpyHtoD(b + 3 * MIB - 1, "xy", 2),
	       CUDA_ERROR_INVALID_VALUE,
	       "a copy past the end of an allocation is refused");
	is_int(cu.cuMemcpyHtoD(b + 1, "xy", SIZE_MAX), CUDA_ERROR_INVALID_VALUE,
	       "a copy whose end wraps is refused");
	cu.cuMemFree(b);
}

/* The signal that ends a child that reads the byte at @p; 0: none. */
static int touch(const volatile char *p)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer would exit */
		_exit(*p == 42);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void no_access(void)
{
	CUdeviceptr ptr = cu_device(MIB);
	unsigned char back = 0;

	cu.cuMemcpyDtoH(&back, ptr, 1);
	is_int(back, 0xcd, "fresh device memory is not zero");
	is_int(touch((char *)(uintptr_t)ptr), SIGSEGV,
	       "host code that reads device memory ends by SIGSEGV");
	cu.cuMemcpyHtoD(ptr, "*", 1);
	is_int(*(char *)cu.fakecuda_at(ptr), '*',
	       "the stand-in itself can read device memory");
	cu.cuMemFree(ptr);
}

static CUmemorytype type_of(CUdeviceptr ptr)
{
	CUmemorytype type = 0;
	CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	void *data = &type;

	cu.cuPointerGetAttributes(1, &what, &data, ptr);
	return type;
}

static void pointers(void)
{
	CUdeviceptr ptr = cu_device(1000), start, same;
	void *pinned = cu_pinned(1000);
	CUmemorytype type;
	size_t size;
	int on_stack;

	is_int(type_of(ptr), CU_MEMORYTYPE_DEVICE,
	       "the memory type of device memory is DEVICE");
	is_int(type_of((uintptr_t)pinned), CU_MEMORYTYPE_HOST,
	       "the memory type of page-locked memory is HOST");
	is_int(type_of((uintptr_t)&on_stack), 0,
	       "pageable memory has no memory type");
	is_int(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					(uintptr_t)&on_stack),
	       CUDA_ERROR_INVALID_VALUE,
	       "cuPointerGetAttribute of pageable memory fails");
	cu.cuMemGetAddressRange(&start, &size, ptr + 999);
	ok(start == ptr && size == 1000,
	   "an allocation is found by any of its bytes");
	cu.cuMemHostGetDevicePointer(&same, pinned, 0);
	ok(same == (uintptr_t)pinned,
	   "page-locked memory has the same address for host and device");
	cu.cuMemFreeHost(pinned);
	cu.cuMemFree(ptr);
}

static void registering(void)
{
	char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *ro =
		mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__typeof__(cu.cuMemHostRegister) add = cu.cuMemHostRegister;

	is_int(add(p, MIB, 0), CUDA_SUCCESS, "host memory is registered");
	is_int(add(p + 4096, 4096, 0),
	       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
	       "registered memory cannot be registered again");
	is_int(add(ro, MIB, 0), CUDA_ERROR_INVALID_VALUE,
	       "read-only memory cannot be registered for writing");
	is_int(add(ro, MIB, CU_MEMHOSTREGISTER_READ_ONLY), CUDA_SUCCESS,
	       "read-only memory can be registered for reading");
	munmap(ro + MIB / 2, MIB / 2);
	cu.cuMemHostUnregister(ro);
	is_int(add(ro, MIB, CU_MEMHOSTREGISTER_READ_ONLY),
	       CUDA_ERROR_INVALID_VALUE,
	       "memory that is not mapped cannot be registered");
	is_int(cu.cuMemHostUnregister(p + 4096),
	       CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
	       "registered memory is unregistered by its start only");
	cu.cuMemHostUnregister(p);
	munmap(p, MIB);
	munmap(ro, MIB / 2);
}

static void register_limits(void)
{
	char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__typeof__(cu.cuMemHostRegister) add = cu.cuMemHostRegister;

	cu.fakecuda_set("PINNED", "65536");
	is_int(add(p, MIB, 0), CUDA_ERROR_OUT_OF_MEMORY,
	       "not more than FAKECUDA_PINNED can be registered");
	cu.fakecuda_set("PINNED", "1e18");
	cu.fakecuda_set("NO", "hostregister");
	is_int(add(p, MIB, 0), CUDA_ERROR_NOT_SUPPORTED,
	       "no memory can be registered where that is switched off");
	cu.fakecuda_set("NO", "");
	munmap(p, MIB);
}

/* The result of a driver's call in a child of fork. */
static int in_child(void)
{
	int status, n;
	pid_t pid = fork();

	if (!pid)
		_exit((int)cu.cuDeviceGetCount(&n));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	setenv("FAKECUDA_MEM", "268435456", 1);
	plan(64);
	cu_open();
	entries();
	missing_entries();
	before_init();
	cu.cuInit(0);
	devices();
	abilities();
	primary_context();
	current_context();
	destroyed_context();
	device_memory();
	freed_memory();
	bounds();
	no_access();
	pointers();
	registering();
	register_limits();
	is_int(in_child(), CUDA_ERROR_NOT_INITIALIZED,
	       "the driver is not initialized in a child of fork");
	is_int(cu_counts().live[FAKECUDA_DEVICE_MEMORY] +
		       cu_counts().live[FAKECUDA_HOST_MEMORY] +
		       cu_counts().live[FAKECUDA_REGISTERED],
	       0, "all objects of the driver have been freed");
	has_str(cu.fakecuda_misuse(),
		"cuMemHostUnregister: ", "the last misuse is described");
	return done_testing();
}
