/* SPDX-License-Identifier: MIT */
#include "cpu/cpu.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/avail.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/dev.h"

#define NODE_DIR "/sys/devices/system/node"
#define CPU_ALIGN ((size_t)64) /* a cache line, a vector of AVX-512 */

/* The rest of a line, with runs of blanks as one. */
static void copy_words(char *dst, size_t room, const char *src)
{
	size_t at = 0;

	for (; *src && *src != '\n' && at < room - 1; src++)
		if (!isspace((unsigned char)*src))
			dst[at++] = *src;
		else if (at && dst[at - 1] != ' ')
			dst[at++] = ' ';
	dst[at] = '\0';
}

/* "model name" of x86 and others, "Model" of ARM boards. */
static void describe(char *dst, size_t room)
{
	static const char *const keys[] = { "\nmodel name", "\nModel",
					    "\ncpu\t", "\nHardware" };
	char text[4096] = "\n";

	snprintf(dst, room, "CPU of an unknown model");
	if (weir__sys_text("/proc/cpuinfo", text + 1, sizeof(text) - 1) <= 0)
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *line = strstr(text, keys[i]);

		line = line ? strchr(line, ':') : NULL;
		if (line) {
			copy_words(dst, room, line + 1);
			return;
		}
	}
}

static bool has_node(unsigned long node)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), NODE_DIR "/node%lu", node);
	if (weir__sys_stat(path, &st) == 0)
		return true;
	/* A kernel without NUMA, or without /sys: there is node 0. */
	return node == 0 && weir__sys_stat(NODE_DIR, &st) < 0;
}

/* 0 where there is only one, else -1. */
static int32_t only_node(void)
{
	char text[64];

	if (weir__sys_text(NODE_DIR "/online", text, sizeof(text)) <= 0)
		return -1;
	return strcmp(text, "0\n") ? -1 : 0;
}

static int cpu_probe(struct weir *weir, const struct weir__host *host,
		     struct weir__dev_desc *descs, unsigned max)
{
	static const struct weir__buft_desc bufts[] = {
		{ "CPU_Huge", WEIR_MEM_HUGE, WEIR_BUFT_HOST, CPU_ALIGN,
		  SIZE_MAX },
		{ "CPU", WEIR_MEM_PLAIN, WEIR_BUFT_HOST, CPU_ALIGN, SIZE_MAX },
		{ "CPU_Locked", WEIR_MEM_LOCKED,
		  WEIR_BUFT_HOST | WEIR_BUFT_LOCKED, CPU_ALIGN, SIZE_MAX },
		{ "CPU_Mapped", WEIR_MEM_MAPPED,
		  WEIR_BUFT_HOST | WEIR_BUFT_READONLY, 1, SIZE_MAX },
	};

	(void)weir;
	(void)host;
	(void)max;
	descs[0] = (struct weir__dev_desc){
		.name = "CPU",
		.type = WEIR_DEV_CPU,
		.caps = WEIR_CAP_ASYNC | WEIR_CAP_EVENTS |
			WEIR_CAP_HOST_MEMORY | WEIR_CAP_WRAP_HOST,
		.node = only_node(),
		.n_bufts = sizeof(bufts) / sizeof(bufts[0]),
	};
	memcpy(descs[0].buft, bufts, sizeof(bufts));
	describe(descs[0].description, sizeof(descs[0].description));
	return 1;
}

static int parse_node(const char *value, size_t len, int32_t *node)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || end != value + len)
		return weir__fail(-EINVAL, "CPU: node=%s is not a number",
				  weir__quote(value, len));
	if (n > INT16_MAX || !has_node(n))
		return weir__fail(-EINVAL, "CPU: there is no NUMA node %lu", n);
	if (*node >= 0)
		return weir__fail(-EINVAL, "CPU: node is given twice");
	*node = (int32_t)n;
	return 0;
}

/* The registry has checked the shape: key=value, separated by commas. */
static int parse_params(const char *params, struct weir__cpu *cpu)
{
	for (const char *p = params; *p;) {
		size_t len = strcspn(p, ","), key = strcspn(p, "=");
		int r;

		if (key != 4 || memcmp(p, "node", 4))
			return weir__fail(
				-EINVAL,
				"CPU: unknown parameter '%s'; there is: node=N",
				weir__quote(p, key));
		r = parse_node(p + key + 1, len - key - 1, &cpu->node);
		if (r < 0)
			return r;
		p += len + (p[len] == ',');
	}
	return 0;
}

static int cpu_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state)
{
	struct weir__cpu *cpu = weir__calloc(1, sizeof(*cpu));
	int r;

	(void)i;
	if (!cpu)
		return weir__fail(-ENOMEM, "no memory for %zu bytes",
				  sizeof(*cpu));
	cpu->node = -1;
	r = parse_params(params, cpu);
	if (r < 0) {
		weir__free(cpu);
		return r;
	}
	if (cpu->node >= 0)
		dev->desc.node = cpu->node;
	*ret_state = cpu;
	return 0;
}

static void cpu_dev_close(struct weir_dev *dev, void *state)
{
	(void)dev;
	weir__free(state);
}

static int cpu_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total)
{
	uint64_t avail, total, space = weir__avail_space();
	int r = weir__avail_ram("", &avail, &total);

	(void)dev;
	(void)i;
	if (r < 0)
		return r;
	*ret_free = avail < space ? avail : space;
	*ret_total = total;
	return 0;
}

const struct weir__backend weir__cpu_backend = {
	.size = sizeof(weir__cpu_backend),
	.abi = WEIR__ABI,
	.name = "CPU",
	.probe = cpu_probe,
	.dev_open = cpu_dev_open,
	.dev_close = cpu_dev_close,
	.dev_memory = cpu_dev_memory,
	.mem = &weir__cpu_mem_ops,
	.queue = &weir__cpu_queue_ops,
};
