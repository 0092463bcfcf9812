/* SPDX-License-Identifier: MIT */
/*
 * Devices that compute in their own memory only (apart=1), as accelerators do:
 * for tests, and to try a program without an accelerator. Their memory is host
 * memory, which copies and the program access as usual.
 */
#include "cpu/cpu.h"

#include <errno.h>
#include <stdio.h>

#define lib weir__cpu_host

struct weir__cpu_range {
	struct weir__cpu_range *next; /* the range found last comes first */
	uintptr_t lo, hi;
};

int weir__cpu_range_add(struct weir__cpu *cpu, const void *base, size_t bytes)
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

void weir__cpu_range_remove(struct weir__cpu *cpu, const void *base,
			    size_t bytes)
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

/*
 * The lock is held. Moves the range to the front: operands are in few ranges.
 */
static bool range_has(struct weir__cpu *cpu, uintptr_t at)
{
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

static bool operand_is_here(struct weir__cpu *cpu, const struct weir_operand *o)
{
	for (uint32_t i = 0; i < o->ndim; i++)
		if (!o->shape[i])
			return true;
	return !o->data || range_has(cpu, (uintptr_t)o->data);
}

static int node_refuse(struct weir_dev *dev,
		       const struct weir_backend_node *node, const char *what)
{
	return lib->fail(
		-EINVAL,
		"%s computes in its own memory only (apart=1): %s of node %llu%s%s is elsewhere",
		lib->dev_name(dev), what, (unsigned long long)node->index,
		node->name ? " " : "", node->name ? node->name : "");
}

/* The lock is held. */
static int node_check(struct weir_dev *dev,
		      const struct weir_backend_node *node)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);
	char source[32];

	if (!operand_is_here(cpu, &node->dst))
		return node_refuse(dev, node, "the result");
	for (uint32_t s = 0; s < node->n_src; s++)
		if (!operand_is_here(cpu, &node->src[s])) {
			snprintf(source, sizeof(source), "source %u", s);
			return node_refuse(dev, node, source);
		}
	return 0;
}

int weir__cpu_check(struct weir_dev *dev,
		    const struct weir_backend_node *const *nodes, size_t n)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);
	int r = 0;

	if (!cpu->apart)
		return 0;
	pthread_mutex_lock(&cpu->lock);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = node_check(dev, nodes[i]);
	pthread_mutex_unlock(&cpu->lock);
	return r;
}
