/* SPDX-License-Identifier: MIT */
/*
 * Free memory of a GPU that has no context yet: from NVIDIA's management
 * library, opened at run time. Without that library it is unknown.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"

#define drv weir__cuda_drv

/* The struct of nvml.h, which has not changed since 2011. */
struct nvml_memory {
	unsigned long long total, free, used;
};

static struct {
	pthread_mutex_t lock; /* guards what follows */
	bool tried, works;
	int (*init)(void);
	int (*by_pci)(const char *pci, void **ret_device);
	int (*by_uuid)(const char *uuid, void **ret_device); /* or NULL */
	int (*memory)(void *device, struct nvml_memory *ret_memory);
} nvml = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void open_nvml(void)
{
	void *handle;

	nvml.tried = true;
	if (weir__cuda_host.dlopen("libnvidia-ml.so.1", &handle) < 0)
		return;
	*(void **)&nvml.init = dlsym(handle, "nvmlInit_v2");
	*(void **)&nvml.by_pci =
		dlsym(handle, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&nvml.by_uuid = dlsym(handle, "nvmlDeviceGetHandleByUUID");
	*(void **)&nvml.memory = dlsym(handle, "nvmlDeviceGetMemoryInfo");
	nvml.works = nvml.init && nvml.by_pci && nvml.memory &&
		     nvml.init() == 0;
	if (!nvml.works)
		dlclose(handle);
}

/*
 * A MIG device has the UUID of its own that cuDeviceGetUuid reports since CUDA
 * 11.4. Returns false if there is none, or if NVML does not know it.
 */
static bool find_by_uuid(CUdevice device, void **ret_device)
{
	static const char *const kinds[] = { "GPU", "MIG" };
	char name[64], uuid[40];

	weir__cuda_uuid(device, uuid);
	if (!*uuid || !nvml.by_uuid)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s-%s", kinds[i], uuid);
		if (!nvml.by_uuid(name, ret_device))
			return true;
	}
	return false;
}

/*
 * The PCI address is that of the whole GPU, also for a MIG device. NVML counts
 * some reserved memory that the driver does not, so the totals differ a little.
 */
static bool is_whole_gpu(CUdevice device, unsigned long long total)
{
	size_t known;

	return drv.cuDeviceTotalMem(&known, device) ||
	       total - total / 4 <= known;
}

int weir__cuda_nvml_memory(CUdevice device, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	struct nvml_memory m = { 0 };
	void *known = NULL;
	char pci[16] = "";
	bool works, exact;

	pthread_mutex_lock(&nvml.lock);
	if (!nvml.tried)
		open_nvml();
	works = nvml.works;
	pthread_mutex_unlock(&nvml.lock);
	if (!works)
		return weir__cuda_host.fail(
			-ENODATA,
			"free memory is not known without libnvidia-ml.so.1 or a context");
	weir__cuda_pci(device, pci, sizeof(pci));
	exact = find_by_uuid(device, &known);
	if ((!exact && nvml.by_pci(pci, &known)) || nvml.memory(known, &m))
		return weir__cuda_host.fail(
			-ENODATA,
			"free memory is not known: libnvidia-ml.so.1 does not know the GPU at %s",
			pci);
	if (!exact && !is_whole_gpu(device, m.total))
		return weir__cuda_host.fail(
			-ENODATA,
			"free memory is not known without a context: libnvidia-ml.so.1 knows the GPU at %s, but not its MIG device",
			pci);
	*ret_free = m.free;
	*ret_total = m.total;
	return 0;
}
