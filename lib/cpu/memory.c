/* SPDX-License-Identifier: MIT */
/* Memory of the CPU device: arenas, and what the caller owns. */
#include <string.h>

#include "alloc/arena.h"
#include "alloc/touch.h"
#include "core/error.h"
#include "core/root.h"
#include "cpu/cpu.h"
#include "dev/dev.h"

/* From this size on several threads touch faster than one. */
#define TOUCH_TOGETHER ((size_t)32 << 20)

static int32_t node_of(struct weir_dev *dev, const struct weir_buf_opts *opts)
{
	const struct weir__cpu *cpu = atomic_load(&dev->state);

	return opts->node > 0 ? opts->node - 1 : cpu->node;
}

static int cpu_alloc(struct weir_dev *dev, const struct weir__buft_desc *desc,
		     size_t bytes, const struct weir_buf_opts *opts,
		     struct weir__mem *mem)
{
	struct weir__arena_req req = {
		.bytes = bytes,
		.kind = desc->kind,
		.node = node_of(dev, opts),
		.strict = opts->flags & WEIR_BUF_STRICT,
	};
	int r = weir__arena_take(dev->weir, &req, mem);

	if (r < 0 || !(opts->flags & WEIR_BUF_TOUCH))
		return r;
	if (bytes >= TOUCH_TOGETHER)
		weir__touch_all(dev->weir, mem->base, bytes, &mem->touched);
	r = weir__arena_touch(mem, bytes);
	if (r < 0)
		weir__arena_give(dev->weir, mem);
	return r;
}

static void cpu_free(struct weir_dev *dev, const struct weir__buft_desc *desc,
		     size_t bytes, struct weir__mem *mem)
{
	(void)desc;
	(void)bytes;
	if (mem->handle)
		weir__arena_give(dev->weir, mem);
}

static void cpu_hide(struct weir_dev *dev, struct weir__mem *mem, bool hidden)
{
	(void)dev;
	weir__arena_hide(mem, hidden);
}

static void cpu_leak(struct weir_dev *dev, struct weir__mem *mem)
{
	weir__arena_leak(dev->weir, mem);
}

/* Nothing is known of its pages, and it stays the caller's. */
static int cpu_wrap(struct weir_dev *dev, const struct weir__buft_desc *desc,
		    void *ptr, size_t bytes, struct weir__mem *mem)
{
	(void)dev;
	(void)desc;
	mem->base = ptr;
	mem->node = -1;
	atomic_store(&mem->touched, bytes);
	return 0;
}

/* Not only for form's sake: the queue of another device may call these. */
static int cpu_set(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	(void)dev;
	memcpy(dst, src, n);
	return 0;
}

static int cpu_fill(struct weir_dev *dev, void *dst, uint8_t byte, size_t n)
{
	(void)dev;
	memset(dst, byte, n);
	return 0;
}

const struct weir__mem_ops weir__cpu_mem_ops = {
	.size = sizeof(weir__cpu_mem_ops),
	.alloc = cpu_alloc,
	.free = cpu_free,
	.wrap = cpu_wrap,
	.set = cpu_set,
	.get = cpu_set,
	.fill = cpu_fill,
	.copy = cpu_set,
	.hide = cpu_hide,
	.leak = cpu_leak,
};
