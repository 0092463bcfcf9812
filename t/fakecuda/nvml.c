/* SPDX-License-Identifier: MIT */
/*
 * libnvidia-ml.so.1, as far as a program needs it to query free memory without
 * making a context. Its devices are those of the stand-in driver; if that is
 * loaded in the process, its allocations are subtracted.
 *
 * FAKECUDA_NO=nvml makes it fail. FAKECUDA_REPORT gets a line at exit. With
 * FAKECUDA_MIG=BYTES the driver's devices are MIG devices of GPUs with so much
 * memory: then a PCI address and "GPU-..." name the GPU, and "MIG-..." with the
 * UUID that the driver reports names the MIG device.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICES_MAX 8u

enum result {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_FOUND = 6,
	DRIVER_NOT_LOADED = 9,
};

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned version; /* the size, and 2 << 24 */
	unsigned long long total, reserved, free, used;
};

struct device {
	unsigned ordinal;
	int whole; /* the GPU that has MIG devices */
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlDeviceGetCount_v2(unsigned *ret);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **ret);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus,
					    struct device **ret);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **ret);
EXPORT int nvmlDeviceGetMemoryInfo(struct device *dev, struct memory *ret);
EXPORT int nvmlDeviceGetMemoryInfo_v2(struct device *dev,
				      struct memory_v2 *ret);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICES_MAX], gpus[DEVICES_MAX];
static unsigned inits, live;

static double option(const char *name, double otherwise)
{
	const char *text = getenv(name);

	return text ? strtod(text, NULL) : otherwise;
}

static unsigned count(void)
{
	double n = option("FAKECUDA_DEVICES", 1);

	return n < DEVICES_MAX ? (unsigned)n : DEVICES_MAX;
}

/* Bytes of a GPU that has MIG devices; 0: the devices are whole GPUs. */
static unsigned long long mig(void)
{
	return (unsigned long long)option("FAKECUDA_MIG", 0);
}

static void __attribute__((destructor)) at_exit(void)
{
	const char *name = getenv("FAKECUDA_REPORT");
	FILE *file = name && inits ? fopen(name, "ae") : NULL;

	if (!file)
		return;
	fprintf(file, "nvml init %u live %u\n", inits, live);
	fclose(file);
}

int nvmlInit_v2(void)
{
	const char *no = getenv("FAKECUDA_NO");
	unsigned i;

	if (no && strstr(no, "nvml"))
		return DRIVER_NOT_LOADED;
	pthread_mutex_lock(&lock);
	inits++;
	live++;
	for (i = 0; i < DEVICES_MAX; i++) {
		devices[i].ordinal = i;
		gpus[i].ordinal = i;
		gpus[i].whole = 1;
	}
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

static int ready(void)
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = live != 0;
	pthread_mutex_unlock(&lock);
	return ret;
}

int nvmlShutdown(void)
{
	if (!ready())
		return UNINITIALIZED;
	pthread_mutex_lock(&lock);
	live--;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

const char *nvmlErrorString(int result)
{
	switch (result) {
	case SUCCESS:
		return "Success";
	case UNINITIALIZED:
		return "Uninitialized";
	case INVALID_ARGUMENT:
		return "Invalid Argument";
	case NOT_FOUND:
		return "Not Found";
	case DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	default:
		return "Unknown Error";
	}
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
	if (!ready())
		return UNINITIALIZED;
	*ret = count();
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **ret)
{
	if (!ready())
		return UNINITIALIZED;
	if (i >= count())
		return INVALID_ARGUMENT;
	*ret = &devices[i];
	return SUCCESS;
}

/* "FACE:02:00.0", with any number of digits before the first colon. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct device **ret)
{
	unsigned domain, number, slot, function;

	if (!ready())
		return UNINITIALIZED;
	if (sscanf(bus, "%x:%x:%x.%x", &domain, &number, &slot, &function) != 4)
		return INVALID_ARGUMENT;
	if (domain != 0xface || !number || number > count() || slot)
		return NOT_FOUND;
	*ret = mig() ? &gpus[number - 1] : &devices[number - 1];
	return SUCCESS;
}

/* The UUIDs of the stand-in driver, as device.c makes them. */
int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **ret)
{
	char name[64];

	if (!ready())
		return UNINITIALIZED;
	for (unsigned i = 0; i < count(); i++) {
		snprintf(name, sizeof(name),
			 "%s-77656972-2d73-7461-6e64-2d696e2d00%02x",
			 mig() ? "MIG" : "GPU", i);
		if (!strcmp(uuid, name)) {
			*ret = &devices[i];
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

/* Asks the driver, if this process has loaded it. */
static int ask_driver(unsigned ordinal, struct memory *ret)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*memory)(unsigned, size_t *, size_t *);
	size_t free_bytes, total;
	int found = 0;

	if (!cuda)
		return 0;
	*(void **)&memory = dlsym(cuda, "fakecuda_memory");
	if (memory && memory(ordinal, &free_bytes, &total) == 0) {
		ret->free = free_bytes;
		ret->total = total;
		found = 1;
	}
	dlclose(cuda);
	return found;
}

int nvmlDeviceGetMemoryInfo(struct device *dev, struct memory *ret)
{
	if (!ready())
		return UNINITIALIZED;
	if (!dev || !ret)
		return INVALID_ARGUMENT;
	if (dev->whole) {
		ret->total = mig();
		ret->free = ret->total;
	} else if (!ask_driver(dev->ordinal, ret)) {
		ret->total = (unsigned long long)option("FAKECUDA_MEM",
							8589934592.0);
		ret->free = ret->total;
	}
	ret->used = ret->total - ret->free;
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *dev, struct memory_v2 *ret)
{
	struct memory memory;
	int result;

	if (!ret || ret->version != (sizeof(*ret) | 2u << 24))
		return INVALID_ARGUMENT;
	result = nvmlDeviceGetMemoryInfo(dev, &memory);
	if (result != SUCCESS)
		return result;
	ret->total = memory.total;
	ret->free = memory.free;
	ret->used = memory.used;
	ret->reserved = 0;
	return SUCCESS;
}
