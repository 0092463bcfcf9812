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

/* What cuGetProcAddress says of @name for a program of @version. */
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
	ok(first != second, "... in the form of the version asked for");
	is_int(lookup("cuMemcpyBatchAsync", 12000, &first),
	       CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
	       "one that is newer than the program is refused");
	ok(!first, "... and not given");
	is_int(lookup("cuMakeCoffee", 13000, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "one that nobody knows is not found");
	is_int(lookup("cuInit", 14000, &first), -1,
	       "a program newer than the driver is an error");
	cu.fakecuda_set("NO", "peer,cuLaunchHostFunc,batch");
	is_int(lookup("cuLaunchHostFunc", 13000, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "an entry point can be taken away");
	is_int(lookup("cuMemcpyBatchAsync", 13000, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "... or goes with the ability that it is");
	cu.fakecuda_set("NO", "");
	cu.fakecuda_set("VERSION", "12020");
	is_int(lookup("cuMemcpyBatchAsync", 12020, &first),
	       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
	       "an old driver does not know what came later");
	cu.fakecuda_set("VERSION", "13000");
}

static void before_init(void)
{
	const char *text;
	int n;

	is_int(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED,
	       "before cuInit nothing works");
	cu.cuGetErrorString(CUDA_ERROR_NOT_INITIALIZED, &text);
	is_str(text, "initialization error", "... but the words for it");
	cu.cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &text);
	is_str(text, "CUDA_ERROR_NOT_INITIALIZED", "... and its name");
	is_int(cu.cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE,
	       "a number that is no result has no words");
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
	is_int(n, 2, "... as many as FAKECUDA_DEVICES says");
	is_int(cu.cuDeviceGet(&dev, 2), CUDA_ERROR_INVALID_DEVICE,
	       "there is no third of two");
	cu.cuDeviceGetName(name, sizeof(name), 1);
	is_str(name, "Stand-in GPU 1", "a device has a name");
	cu.cuDeviceGetPCIBusId(bus, sizeof(bus), 1);
	is_str(bus, "FACE:02:00.0", "... an address that no machine has");
	cu.cuDeviceGetUuid(&one, 0);
	cu.cuDeviceGetUuid(&two, 1);
	ok(memcmp(&one, &two, sizeof(one)) != 0, "... an identity of its own");
	cu.cuDeviceTotalMem(&total, 0);
	is_int(total, 256 * MIB, "... and FAKECUDA_MEM bytes");
	is_int(attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED), 1,
	       "it can register host memory");
	cu.fakecuda_set("NO", "hostregister,waitvalue");
	is_int(attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED), 0,
	       "... unless that is switched off");
	is_int(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 0,
	       "... as can waits for values be");
	cu.fakecuda_set("NO", "");
}

static void contexts(void)
{
	CUcontext ctx = NULL, second, made;
	CUdevice dev = -1;
	CUdeviceptr ptr;
	unsigned flags;
	int active = -1;

	is_int(cu.cuMemAlloc(&ptr, 1), CUDA_ERROR_INVALID_CONTEXT,
	       "without a context there is no memory");
	cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
	is_int(active, 0, "the primary context is not there before it is held");
	cu.cuDevicePrimaryCtxRetain(&primary, 0);
	cu.cuDevicePrimaryCtxRetain(&ctx, 0);
	ok(ctx == primary, "all who hold it have the same");
	cu.cuDevicePrimaryCtxRelease(0);
	cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
	is_int(active, 1, "... until the last lets go");
	cu.cuCtxPushCurrent(primary);
	cu.cuDevicePrimaryCtxRetain(&second, 1);
	cu.cuCtxPushCurrent(second);
	cu.cuCtxGetDevice(&dev);
	is_int(dev, 1, "the context pushed last is current");
	cu.cuCtxPopCurrent(&ctx);
	cu.cuCtxGetCurrent(&ctx);
	ok(ctx == primary, "... and under it is the one before");
	cu.cuDevicePrimaryCtxRelease(1);
	is_int(cu.cuCtxPushCurrent(second), CUDA_ERROR_INVALID_CONTEXT,
	       "a context that is gone is none");
	is_int(cu.cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT,
	       "who does not hold it cannot let go");
	cu.cuCtxCreate(&made, NULL, 0, 1);
	cu.cuMemAlloc(&ptr, MIB);
	cu.cuCtxDestroy(made);
	is_int(cu_counts().lost[FAKECUDA_DEVICE_MEMORY], 1,
	       "what a destroyed context had goes with it, and is counted");
	cu.cuCtxGetCurrent(&ctx);
	ok(ctx == primary, "... and it is current no more");
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
	       "... and taken from the free");
	is_int(a % 256, 0, "it is aligned to 256 bytes at least");
	is_int(cu.cuMemAlloc(&b, 254 * MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "there is not more than FAKECUDA_MEM");
	is_int(cu.cuMemFree(a + 256), CUDA_ERROR_INVALID_VALUE,
	       "what is not the start of an allocation is not freed");
	is_int(cu.cuMemFree(a), CUDA_SUCCESS, "what is, is");
	is_int(cu.cuMemFree(a), CUDA_ERROR_INVALID_VALUE, "... once");
	cu.cuMemAlloc(&b, 3 * MIB);
	ok(a != b, "its address is not soon another's");
	is_int(cu.cuMemcpyHtoD(a, "x", 1), CUDA_ERROR_INVALID_VALUE,
	       "... and nothing is copied to it");
	is_int(cu.cuMemcpyHtoD(b + 3 * MIB - 1, "xy", 2),
	       CUDA_ERROR_INVALID_VALUE,
	       "nothing is copied past an allocation's end");
	is_int(cu.cuMemcpyHtoD(b + 1, "xy", SIZE_MAX), CUDA_ERROR_INVALID_VALUE,
	       "... by a size that wraps");
	cu.cuMemFree(b);
}

/* The signal that ends a child that touches the byte at @p. */
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
	       "the host cannot touch it");
	cu.cuMemcpyHtoD(ptr, "*", 1);
	is_int(*(char *)cu.fakecuda_at(ptr), '*', "the driver can");
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
	       "device memory is known as such");
	is_int(type_of((uintptr_t)pinned), CU_MEMORYTYPE_HOST,
	       "so is page-locked memory");
	is_int(type_of((uintptr_t)&on_stack), 0, "other memory is nothing");
	is_int(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					(uintptr_t)&on_stack),
	       CUDA_ERROR_INVALID_VALUE, "... and to ask for one thing fails");
	cu.cuMemGetAddressRange(&start, &size, ptr + 999);
	ok(start == ptr && size == 1000,
	   "an allocation is found by any of its bytes");
	cu.cuMemHostGetDevicePointer(&same, pinned, 0);
	ok(same == (uintptr_t)pinned,
	   "page-locked memory has one address for both");
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
	       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "... once");
	is_int(add(ro, MIB, 0), CUDA_ERROR_INVALID_VALUE,
	       "what cannot be written is refused");
	is_int(add(ro, MIB, CU_MEMHOSTREGISTER_READ_ONLY), CUDA_SUCCESS,
	       "... unless it is registered to be read");
	munmap(ro + MIB / 2, MIB / 2);
	cu.cuMemHostUnregister(ro);
	is_int(add(ro, MIB, CU_MEMHOSTREGISTER_READ_ONLY),
	       CUDA_ERROR_INVALID_VALUE, "what is not mapped is refused");
	is_int(cu.cuMemHostUnregister(p + 4096),
	       CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
	       "a range is given back by its start");
	cu.cuMemHostUnregister(p);
	cu.fakecuda_set("PINNED", "65536");
	is_int(add(p, MIB, 0), CUDA_ERROR_OUT_OF_MEMORY,
	       "not more than FAKECUDA_PINNED can be registered");
	cu.fakecuda_set("PINNED", "1e18");
	cu.fakecuda_set("NO", "hostregister");
	is_int(add(p, MIB, 0), CUDA_ERROR_NOT_SUPPORTED,
	       "... and nothing where that is switched off");
	cu.fakecuda_set("NO", "");
	munmap(p, MIB);
	munmap(ro, MIB / 2);
}

/* What the driver answers in the child of a fork. */
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
	before_init();
	cu.cuInit(0);
	devices();
	contexts();
	device_memory();
	no_access();
	pointers();
	registering();
	is_int(in_child(), CUDA_ERROR_NOT_INITIALIZED,
	       "the child of a fork has no driver");
	is_int(cu_counts().live[FAKECUDA_DEVICE_MEMORY] +
		       cu_counts().live[FAKECUDA_HOST_MEMORY] +
		       cu_counts().live[FAKECUDA_REGISTERED],
	       0, "nothing is left");
	has_str(cu.fakecuda_misuse(), "cuMemHostUnregister: ",
		"the last mistake of the program is put into words");
	return done_testing();
}
