/* SPDX-License-Identifier: MIT */
/*
 * Free memory of a GPU that has no context yet: from NVIDIA's management
 * library, opened at run time. Without that library it is unknown.
 */
#include <dlfcn.h>
#include <errno.h>

#include "cuda/cuda.h"

/* As in nvml.h; unchanged since 2011. */
struct nvml_memory {
	unsigned long long total, free, used;
};

static struct {
	pthread_mutex_t lock; /* guards what follows */
	bool tried, works;
	int (*init)(void);
	int (*by_pci)(const char *pci, void **ret_device);
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
	*(void **)&nvml.memory = dlsym(handle, "nvmlDeviceGetMemoryInfo");
	nvml.works = nvml.init && nvml.by_pci && nvml.memory &&
		     nvml.init() == 0;
	if (!nvml.works)
		dlclose(handle);
}

int weir__cuda_nvml_memory(const char *pci, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	struct nvml_memory m = { 0 };
	void *device = NULL;
	bool works;

	pthread_mutex_lock(&nvml.lock);
	if (!nvml.tried)
		open_nvml();
	works = nvml.works;
	pthread_mutex_unlock(&nvml.lock);
	if (!works)
		return weir__cuda_host.fail(
			-ENODATA,
			"free memory is not known without libnvidia-ml.so.1 or a context");
	if (nvml.by_pci(pci, &device) || nvml.memory(device, &m))
		return weir__cuda_host.fail(
			-ENODATA,
			"free memory is not known: libnvidia-ml.so.1 does not know the GPU at %s",
			pci);
	*ret_free = m.free;
	*ret_total = m.total;
	return 0;
}
