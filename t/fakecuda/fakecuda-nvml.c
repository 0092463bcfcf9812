/* SPDX-License-Identifier: MIT */
/* The stand-in for NVML: free memory without a context. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "fakecuda/cu.h"

struct memory {
	unsigned long long total, free, used;
};

static void *library;

static void *get(const char *name)
{
	void *function = dlsym(library, name);

	if (!function)
		bail("NVML has no %s", name);
	return function;
}

static void open_nvml(void)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");
	char path[4096];

	snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1",
		 dir ? dir : "t/fakecuda/.libs");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		bail("%s", dlerror());
}

int main(void)
{
	int (*init)(void), (*by_bus)(const char *, void **);
	int (*info)(void *, struct memory *), (*end)(void);
	struct memory memory;
	void *dev = NULL;

	setenv("FAKECUDA_DEVICES", "2", 1);
	setenv("FAKECUDA_MEM", "1e9", 1);
	plan(8);
	open_nvml();
	*(void **)&init = get("nvmlInit_v2");
	*(void **)&by_bus = get("nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&info = get("nvmlDeviceGetMemoryInfo");
	*(void **)&end = get("nvmlShutdown");
	is_int(by_bus("FACE:02:00.0", &dev), 1, "a call before nvmlInit fails");
	is_int(init(), 0, "nvmlInit succeeds");
	is_int(by_bus("FACE:03:00.0", &dev), 6, "a third device is not found");
	is_int(by_bus("0000face:01:00.0", &dev), 0,
	       "a device is found by its PCI address");
	info(dev, &memory);
	ok(memory.total == 1000000000 && memory.free == memory.total,
	   "all memory is free while no driver is open");
	cu_start();
	cu_device(1 << 20);
	info(dev, &memory);
	is_int(memory.used, 1 << 20,
	       "memory that the driver has allocated is used");
	is_int(end(), 0, "nvmlShutdown succeeds");
	is_int(end(), 1, "a second nvmlShutdown fails");
	return done_testing();
}
