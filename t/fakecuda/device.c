/* SPDX-License-Identifier: MIT */
/*
 * Devices: their two mappings, names and attributes.
 *
 * A device's memory is a memfd. The program's addresses of it are reserved
 * without access; the driver works through a second mapping. The range is many
 * times larger than the memory, so that addresses of freed memory are not used
 * again soon.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fakecuda.h"

static int map_device(struct fc_device *dev)
{
	dev->span = (size_t)(fc.opt.mem > fc.opt.span / 4 ? fc.opt.mem * 4
							  : fc.opt.span);
	dev->fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (dev->fd < 0 || ftruncate(dev->fd, (off_t)dev->span) < 0)
		return -1;
	dev->base = mmap(NULL, dev->span, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	dev->shadow = mmap(NULL, dev->span, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE, dev->fd, 0);
	if (dev->base == MAP_FAILED || dev->shadow == MAP_FAILED)
		return -1;
	dev->written = mmap(NULL, dev->span / 8, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (dev->written == MAP_FAILED)
		return -1;
	madvise(dev->written, dev->span / 8, MADV_DONTDUMP);
	madvise(dev->written, dev->span / 8, MADV_DONTFORK);
	madvise(dev->shadow, dev->span, MADV_DONTDUMP);
	/* A child must neither read nor write the parent's device memory. */
	madvise(dev->shadow, dev->span, MADV_DONTFORK);
	return 0;
}

int fc_devices_start(void)
{
	unsigned i;
	int d;

	for (i = 0; i < fc.opt.devices; i++) {
		struct fc_device *dev = &fc.device[i];

		if (dev->base)
			continue;
		dev->ordinal = (int)i;
		for (d = 0; d < FC_DIRECTIONS; d++)
			pthread_mutex_init(&dev->engine[d].busy, NULL);
		if (map_device(dev) < 0)
			return -1;
	}
	return 0;
}

/* The device whose address range contains @ptr, or NULL. */
struct fc_device *fc_device_of(const void *ptr)
{
	uintptr_t at = (uintptr_t)ptr;
	unsigned i;

	for (i = 0; i < fc.opt.devices; i++) {
		uintptr_t base = (uintptr_t)fc.device[i].base;

		if (base && at >= base && at - base < fc.device[i].span)
			return &fc.device[i];
	}
	return NULL;
}

static bool exists(CUdevice dev)
{
	return dev >= 0 && (unsigned)dev < fc.opt.devices;
}

static CUresult no_device(struct fc_call *call, CUdevice dev)
{
	return fc_wrong(call, CUDA_ERROR_INVALID_DEVICE, "device %d of %u", dev,
			fc.opt.devices);
}

CUresult cuDeviceGetCount(int *ret)
{
	FC_ENTER("cuDeviceGetCount", FC_INIT);
	*ret = (int)fc.opt.devices;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *ret, int ordinal)
{
	FC_ENTER("cuDeviceGet", FC_INIT);
	if (!exists(ordinal))
		return fc_leave(&call, no_device(&call, ordinal));
	*ret = ordinal;
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	FC_ENTER("cuDeviceGetName", FC_INIT);
	if (!exists(dev))
		return fc_leave(&call, no_device(&call, dev));
	snprintf(name, (size_t)len, "Stand-in GPU %u", fc.opt.gpu[dev]);
	return fc_leave(&call, CUDA_SUCCESS);
}

static void uuid_of(CUuuid *ret, CUdevice dev)
{
	memcpy(ret->bytes, "weir-stand-in-\0\0", sizeof(ret->bytes));
	ret->bytes[15] = (char)fc.opt.gpu[dev];
}

CUresult cuDeviceGetUuid(CUuuid *ret, CUdevice dev)
{
	FC_ENTER("cuDeviceGetUuid", FC_INIT);
	if (!exists(dev))
		return fc_leave(&call, no_device(&call, dev));
	uuid_of(ret, dev);
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *ret, CUdevice dev)
{
	return cuDeviceGetUuid(ret, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *ret, CUdevice dev)
{
	FC_ENTER("cuDeviceTotalMem", FC_INIT);
	if (!exists(dev))
		return fc_leave(&call, no_device(&call, dev));
	*ret = fc.opt.mem;
	return fc_leave(&call, CUDA_SUCCESS);
}

/* A PCI domain that no machine has, so that sysfs has no such device. */
CUresult cuDeviceGetPCIBusId(char *ret, int len, CUdevice dev)
{
	FC_ENTER("cuDeviceGetPCIBusId", FC_INIT);
	if (!exists(dev))
		return fc_leave(&call, no_device(&call, dev));
	if (snprintf(ret, (size_t)len, "FACE:%02X:00.0", fc.opt.gpu[dev] + 1) >=
	    len)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	return fc_leave(&call, CUDA_SUCCESS);
}

static int ability(const char *word)
{
	return !fc_no(word);
}

/* 0 for an attribute that the stand-in does not know. */
static int attribute(CUdevice_attribute attribute, CUdevice dev)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		return (int)fc.opt.capability / 10;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		return (int)fc.opt.capability % 10;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
		return 0xface;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return (int)fc.opt.gpu[dev] + 1;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		return FC_DIRECTIONS;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		return fc.opt.sms;
	case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
		return 1;
	case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
		return ability("hostregister");
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
		return ability("hostregister") && ability("hostpointer");
	case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
		return (int)fc.opt.pitch;
	case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
		return ability("hostregister") && ability("readonly");
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
		return ability("waitvalue");
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
		return ability("virtual") && ability("export");
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
		return fc.opt.node;
	default:
		return 0;
	}
}

CUresult cuDeviceGetAttribute(int *ret, CUdevice_attribute what, CUdevice dev)
{
	FC_ENTER("cuDeviceGetAttribute", FC_INIT);
	if (!exists(dev))
		return fc_leave(&call, no_device(&call, dev));
	*ret = attribute(what, dev);
	return fc_leave(&call, CUDA_SUCCESS);
}

CUresult cuDeviceCanAccessPeer(int *ret, CUdevice dev, CUdevice peer)
{
	FC_ENTER("cuDeviceCanAccessPeer", FC_INIT);
	if (!exists(dev) || !exists(peer))
		return fc_leave(&call, no_device(&call, peer));
	*ret = dev != peer && ability("peer");
	return fc_leave(&call, CUDA_SUCCESS);
}

int fakecuda_memory(unsigned gpu, size_t *ret_free, size_t *ret_total)
{
	unsigned ordinal = 0;
	uint64_t used;

	while (ordinal < fc.opt.devices && fc.opt.gpu[ordinal] != gpu)
		ordinal++;
	if (ordinal == fc.opt.devices)
		return -1;
	pthread_mutex_lock(&fc.lock);
	used = fc.device[ordinal].used;
	*ret_total = fc.opt.mem;
	*ret_free = fc.opt.mem > used ? fc.opt.mem - used : 0;
	pthread_mutex_unlock(&fc.lock);
	return 0;
}
