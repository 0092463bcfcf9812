/* SPDX-License-Identifier: MIT */
/* Describe the driver's devices; nothing here needs a context. */
#include "cuda/cuda.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define drv weir__cuda_drv
#define MAX_DEVS 64u /* bits of c->reached, and what the library takes */

int weir__cuda_attribute(CUdevice device, CUdevice_attribute which,
			 int otherwise)
{
	int value;

	return drv.cuDeviceGetAttribute(&value, which, device) ? otherwise
							       : value;
}

void weir__cuda_pci(CUdevice device, char *pci, size_t room)
{
	if (drv.cuDeviceGetPCIBusId(pci, (int)room, device))
		*pci = '\0';
	for (char *p = pci; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

int32_t weir__cuda_node(CUdevice device, const char *pci)
{
	int node = weir__cuda_attribute(device,
					CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
	char path[64], text[32];

	if (node >= 0)
		return node;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci);
	if (!*pci || weir__cuda_host.text(path, text, sizeof(text)) <= 0)
		return -1;
	node = atoi(text);
	return node < 0 ? -1 : node;
}

static void describe_memory(struct weir__cuda_desc *d, size_t total)
{
	d->device = (struct weir_backend_buft){ .size = sizeof(d->device),
						.kind = WEIR_MEM_DEVICE,
						.align = WEIR__CUDA_ALIGN,
						.max = total };
	d->pinned = (struct weir_backend_buft){ .size = sizeof(d->pinned),
						.kind = WEIR_MEM_PINNED,
						.flags = WEIR_BUFT_HOST |
							 WEIR_BUFT_LOCKED,
						.align = WEIR__CUDA_ALIGN,
						.max = SIZE_MAX / 2 };
	d->mapped = (struct weir_backend_buft){ .size = sizeof(d->mapped),
						.kind = WEIR_MEM_MAPPED,
						.flags = WEIR_BUFT_HOST |
							 WEIR_BUFT_READONLY,
						.align = 1,
						.max = SIZE_MAX / 2 };
	snprintf(d->device.name, sizeof(d->device.name), "%s", d->dev.name);
	snprintf(d->pinned.name, sizeof(d->pinned.name), "%s_Pinned",
		 d->dev.name);
	snprintf(d->mapped.name, sizeof(d->mapped.name), "%s_Mapped",
		 d->dev.name);
	d->buft[0] = &d->device;
	d->buft[1] = &d->pinned;
	d->buft[2] = &d->mapped;
	d->dev.buft = d->buft;
	d->dev.n_bufts = 3;
}

static int fail_probe(CUresult r, const char *call)
{
	char words[160];

	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	return weir__cuda_host.fail(weir__cuda_errno(r),
				    "%s: %s (driver of CUDA %d.%d)", call,
				    words, drv.version / 1000,
				    drv.version % 1000 / 10);
}

int weir__cuda_describe(struct weir__cuda_number n,
			struct weir__cuda_desc *ret_desc)
{
	struct weir_backend_dev *d = &ret_desc->dev;
	size_t total;
	CUdevice device;
	CUresult r = drv.cuDeviceGet(&device, (int)n.ordinal);

	*d = (struct weir_backend_dev){ .size = sizeof(*d) };
	if (!r)
		r = drv.cuDeviceTotalMem(&total, device);
	if (!r)
		r = drv.cuDeviceGetName(d->description,
					sizeof(d->description) - 1, device);
	if (r)
		return fail_probe(r, "cuDeviceGet");
	snprintf(d->name, sizeof(d->name), n.part ? "CUDA%u-%u" : "CUDA%u",
		 n.ordinal, n.part);
	weir__cuda_pci(device, d->pci, sizeof(d->pci));
	d->type =
		weir__cuda_attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0)
			? WEIR_DEV_IGPU
			: WEIR_DEV_GPU;
	d->caps = WEIR_CAP_ASYNC | WEIR_CAP_EVENTS | WEIR_CAP_PINNED |
		  WEIR_CAP_WRAP_HOST;
	d->node = weir__cuda_node(device, d->pci);
	describe_memory(ret_desc, total);
	return 0;
}

int weir__cuda_probe(struct weir *weir, const struct weir_backend_host *host,
		     struct weir_backend_probe *probe)
{
	struct weir__cuda_desc desc;
	int n, ret = 0;
	CUresult r = drv.cuInit(0);

	(void)weir;
	if (r == CUDA_ERROR_NOT_INITIALIZED)
		return host->fail(
			-EPERM,
			"cuInit: the driver was in use before fork(2), and cannot be used in the child (process %ld)",
			(long)getpid());
	if (r)
		return fail_probe(r, "cuInit");
	r = drv.cuDeviceGetCount(&n);
	if (r || !n)
		return fail_probe(r ? r : CUDA_ERROR_NO_DEVICE,
				  "cuDeviceGetCount");
	for (unsigned i = 0; i < (unsigned)n && i < MAX_DEVS && ret >= 0; i++) {
		ret = weir__cuda_describe(
			(struct weir__cuda_number){ .ordinal = i }, &desc);
		if (ret >= 0)
			ret = host->dev_describe(probe, &desc.dev);
	}
	return ret;
}
