/* SPDX-License-Identifier: MIT */
/*
 * Memory of a CPU device: host memory of the library, and the caller's. A
 * device that computes in its own memory only (apart=1) has a list of its
 * ranges.
 */
#include "cpu/cpu.h"

#include <errno.h>

#define lib weir__cpu_host

/* The values of mem->how: who allocated the memory. */
enum owner {
	CALLERS,
	LIBRARYS /* by host_alloc */
};

struct weir__cpu_range {
	struct weir__cpu_range *next; /* the range found last comes first */
	uintptr_t lo, hi;
};

static int range_add(struct weir__cpu *cpu, const void *base, size_t bytes)
{
	struct weir__cpu_range *range;

	if (!cpu->apart)
		return 0;
	range = lib->calloc(1, sizeof(*range));
	if (!range)
		return lib->fail(-ENOMEM, "no memory for a range of memory");
	range->lo = (uintptr_t)base;
	range->hi = range->lo + bytes;
	pthread_mutex_lock(&cpu->lock);
	range->next = cpu->ranges;
	cpu->ranges = range;
	pthread_mutex_unlock(&cpu->lock);
	return 0;
}

static void range_remove(struct weir__cpu *cpu, const void *base, size_t bytes)
{
	struct weir__cpu_range **link, *range;

	if (!cpu->apart)
		return;
	pthread_mutex_lock(&cpu->lock);
	for (link = &cpu->ranges; (range = *link); link = &range->next)
		if (range->lo == (uintptr_t)base &&
		    range->hi - range->lo == bytes) {
			*link = range->next;
			break;
		}
	pthread_mutex_unlock(&cpu->lock);
	lib->free(range);
}

/* Moves the range to the front: the operands of nodes are in few ranges. */
bool weir__cpu_owns(struct weir__cpu *cpu, const void *ptr)
{
	uintptr_t at = (uintptr_t)ptr;
	struct weir__cpu_range **link, *range;

	for (link = &cpu->ranges; (range = *link); link = &range->next)
		if (at >= range->lo && at < range->hi) {
			*link = range->next;
			range->next = cpu->ranges;
			cpu->ranges = range;
			return true;
		}
	return false;
}

static int cpu_alloc(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, const struct weir_buf_opts *opts,
		     struct weir_backend_mem *mem)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);
	int32_t node = opts->flags & WEIR_BUF_ON_NODE ? opts->node : cpu->node;
	int r;

	mem->how = LIBRARYS;
	r = lib->host_alloc(lib->dev_root(dev), desc->kind, bytes, node,
			    opts->flags, mem);
	if (r < 0)
		return r;
	if (!(mem->got & (WEIR_GOT_SHARED | WEIR_GOT_HUGETLB)))
		mem->got |= WEIR_GOT_PARKABLE;
	r = range_add(cpu, mem->base, bytes);
	if (r < 0)
		lib->host_free(lib->dev_root(dev), mem);
	return r;
}

static int cpu_reserve(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, size_t bytes,
		       const struct weir_buf_opts *opts,
		       struct weir_backend_mem *mem, size_t *ret_granule)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);
	int32_t node = opts->flags & WEIR_BUF_ON_NODE ? opts->node : cpu->node;
	int r;

	mem->how = LIBRARYS;
	r = lib->host_reserve_addresses(lib->dev_root(dev), desc->kind, bytes,
					node, opts->flags, mem, ret_granule);
	if (r < 0)
		return r;
	r = range_add(cpu, mem->base, bytes);
	if (r < 0)
		lib->host_free(lib->dev_root(dev), mem);
	return r;
}

static int cpu_commit(struct weir_dev *dev,
		      const struct weir_backend_buft *desc,
		      struct weir_backend_mem *mem, size_t off, size_t bytes)
{
	(void)desc;
	return lib->host_commit(lib->dev_root(dev), mem, off, bytes);
}

static int cpu_decommit(struct weir_dev *dev,
			const struct weir_backend_buft *desc,
			struct weir_backend_mem *mem, size_t off, size_t bytes)
{
	(void)desc;
	return lib->host_decommit(lib->dev_root(dev), mem, off, bytes);
}

static void cpu_free(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, struct weir_backend_mem *mem)
{
	(void)desc;
	range_remove(weir__cpu_of(dev), mem->base, bytes);
	if (mem->how == LIBRARYS)
		lib->host_free(lib->dev_root(dev), mem);
}

static void cpu_hide(struct weir_dev *dev, struct weir_backend_mem *mem,
		     bool hidden)
{
	(void)dev;
	lib->host_hide(mem, hidden);
}

static int cpu_park(struct weir_dev *dev, const struct weir_backend_buft *desc,
		    size_t bytes, struct weir_backend_mem *mem)
{
	(void)desc;
	(void)bytes;
	return lib->host_park(lib->dev_root(dev), mem);
}

static int cpu_unpark(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem)
{
	(void)desc;
	(void)bytes;
	return lib->host_unpark(lib->dev_root(dev), mem);
}

/* The caller's pages are treated as touched, and are not moved to a node. */
static int cpu_wrap(struct weir_dev *dev, const struct weir_backend_buft *desc,
		    void *ptr, size_t bytes, struct weir_backend_mem *mem)
{
	(void)desc;
	mem->base = ptr;
	mem->node = -1;
	mem->how = CALLERS;
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return range_add(weir__cpu_of(dev), ptr, bytes);
}

static int cpu_memory(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, uint64_t *ret_free,
		      uint64_t *ret_total)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);

	if (desc->kind != WEIR_MEM_HBM && desc->kind != WEIR_MEM_FAR)
		return -EOPNOTSUPP;
	return lib->host_nodes((enum weir_mem)desc->kind, cpu ? cpu->node : -1,
			       ret_free, ret_total);
}

/* There are no blocking moves: all memory of the CPU is WEIR_BUFT_HOST. */
const struct weir_backend_mem_ops weir__cpu_mem_ops = {
	.size = sizeof(weir__cpu_mem_ops),
	.alloc = cpu_alloc,
	.free = cpu_free,
	.wrap = cpu_wrap,
	.hide = cpu_hide,
	.memory = cpu_memory,
	.park = cpu_park,
	.unpark = cpu_unpark,
	.reserve = cpu_reserve,
	.commit = cpu_commit,
	.decommit = cpu_decommit,
};
