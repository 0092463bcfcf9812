/* SPDX-License-Identifier: MIT */
/*
 * What the library offers backends of devices and host memory: the functions
 * of struct weir__host that are no calls to the outside.
 */
#include <stdio.h>

#include "root.h"

struct weir *weir__dev_root(struct weir_dev *dev)
{
	return dev->weir;
}

void *weir__dev_state(struct weir_dev *dev)
{
	return atomic_load_explicit(&dev->state, memory_order_acquire);
}

const char *weir__dev_name(struct weir_dev *dev)
{
	return dev->desc.name;
}

/* The CPU is the first device, and its first kind is that of huge pages. */
int weir__host_take(struct weir *weir, size_t bytes,
		    const struct weir_buf_opts *opts, struct weir__mem *mem)
{
	struct weir_dev *cpu = weir->dev[0];
	int r = weir__dev_use(cpu);

	if (r >= 0)
		r = cpu->backend->mem->alloc(cpu, &cpu->desc.buft[0], bytes,
					     opts, mem);
	/* A device that it is registered with may write to it at any time. */
	if (r >= 0)
		cpu->backend->mem->hide(cpu, mem, true);
	return r;
}

void weir__host_give(struct weir *weir, size_t bytes, struct weir__mem *mem)
{
	struct weir_dev *cpu = weir->dev[0];

	cpu->backend->mem->free(cpu, &cpu->desc.buft[0], bytes, mem);
}

void weir__host_leak(struct weir *weir, struct weir__mem *mem)
{
	weir->dev[0]->backend->mem->leak(weir->dev[0], mem);
}

const char *weir__dev_words(const struct weir_dev *dev, int32_t native)
{
	static _Thread_local char ring[2][200];
	static _Thread_local unsigned turn;
	char words[160] = "", *text = ring[turn++ % 2];

	if (native && dev->backend->explain)
		dev->backend->explain(native, words, sizeof(words));
	snprintf(text, sizeof(ring[0]), *words ? " (%s)" : "%s", words);
	return text;
}
