/* SPDX-License-Identifier: MIT */
#include "dev/host.h"

#include "core/debug.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "dev/registry.h"

static struct weir *dev_root(struct weir_dev *dev)
{
	return dev->weir;
}

static void *dev_state(struct weir_dev *dev)
{
	return atomic_load_explicit(&dev->state, memory_order_acquire);
}

static const char *dev_name(struct weir_dev *dev)
{
	return dev->desc.name;
}

/* The CPU is the first device, and its first kind is that of huge pages. */
static int host_take(struct weir *weir, size_t bytes,
		     const struct weir_buf_opts *opts, struct weir__mem *mem)
{
	struct weir_dev *cpu = weir__registry(weir)->dev[0];
	int r = weir__dev_use(cpu);

	if (r >= 0)
		r = cpu->backend->mem->alloc(cpu, &cpu->desc.buft[0], bytes,
					     opts, mem);
	/* A device that it is registered with may write to it at any time. */
	if (r >= 0)
		cpu->backend->mem->hide(cpu, mem, true);
	return r;
}

static void host_give(struct weir *weir, size_t bytes, struct weir__mem *mem)
{
	struct weir_dev *cpu = weir__registry(weir)->dev[0];

	cpu->backend->mem->free(cpu, &cpu->desc.buft[0], bytes, mem);
}

static void host_leak(struct weir *weir, struct weir__mem *mem)
{
	struct weir_dev *cpu = weir__registry(weir)->dev[0];

	cpu->backend->mem->leak(cpu, mem);
}

const struct weir__host weir__host = {
	.size = sizeof(struct weir__host),
	.abi = WEIR__ABI,
	.fail = weir__fail,
	.log = weir__log,
	.calloc = weir__calloc,
	.free = weir__free,
	.text = weir__sys_text,
	.dlopen = weir__sys_dlopen,
	.thread = weir__thread_start,
	.dev_root = dev_root,
	.dev_state = dev_state,
	.dev_name = dev_name,
	.host_take = host_take,
	.host_give = host_give,
	.dev_add = weir__registry_beside,
	.host_leak = host_leak,
	.debug = weir__debug_has,
};
