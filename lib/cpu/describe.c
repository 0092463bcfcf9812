/* SPDX-License-Identifier: MIT */
/* The descriptions of devices and of their kinds of memory. */
#include "cpu/cpu.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define lib weir__cpu_host
#define NODE_DIR "/sys/devices/system/node"
#define CPU_ALIGN ((size_t)64) /* a cache line, a vector of AVX-512 */

/* The default first. */
static const struct {
	const char *suffix; /* of the name */
	enum weir_mem kind;
	uint32_t flags; /* besides WEIR_BUFT_HOST */
	size_t align;
	bool of_nodes; /* only some NUMA nodes have it */
} kinds[] = {
	{ "_Huge", WEIR_MEM_HUGE, 0, CPU_ALIGN, false },
	{ "", WEIR_MEM_PLAIN, 0, CPU_ALIGN, false },
	{ "_Locked", WEIR_MEM_LOCKED, WEIR_BUFT_LOCKED, CPU_ALIGN, false },
	{ "_Mapped", WEIR_MEM_MAPPED, WEIR_BUFT_READONLY, 1, false },
	{ "_HBM", WEIR_MEM_HBM, 0, CPU_ALIGN, true },
	{ "_Far", WEIR_MEM_FAR, 0, CPU_ALIGN, true },
};

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
static void describe_cpu(char *dst, size_t room)
{
	static const char *const keys[] = { "\nmodel name", "\nModel",
					    "\ncpu\t", "\nHardware" };
	char text[4096] = "\n";

	snprintf(dst, room, "CPU of an unknown model");
	if (lib->text("/proc/cpuinfo", text + 1, sizeof(text) - 1) <= 0)
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

bool weir__cpu_has_node(uint64_t node)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), NODE_DIR "/node%llu/distance",
		 (unsigned long long)node);
	if (lib->text(path, text, sizeof(text)) > 0)
		return true;
	/* A kernel without NUMA, or no /sys: there is node 0. */
	return node == 0 &&
	       lib->text(NODE_DIR "/online", text, sizeof(text)) < 0;
}

/* The NUMA node if there is only node 0, else -1. */
static int32_t only_node(void)
{
	char text[64];

	if (lib->text(NODE_DIR "/online", text, sizeof(text)) <= 0)
		return -1;
	return strcmp(text, "0\n") ? -1 : 0;
}

static bool has_memory_of(enum weir_mem kind)
{
	uint64_t free_bytes, total;

	return lib->host_nodes(kind, -1, &free_bytes, &total) >= 0;
}

static void describe_memory(struct weir__cpu_desc *d)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct weir_backend_buft *t = &d->buft[d->dev.n_bufts];

		if (kinds[i].of_nodes &&
		    (d->dev.node >= 0 || !has_memory_of(kinds[i].kind)))
			continue;
		*t = (struct weir_backend_buft){
			.size = sizeof(*t),
			.kind = kinds[i].kind,
			.flags = WEIR_BUFT_HOST | kinds[i].flags,
			.align = kinds[i].align,
			.max = SIZE_MAX,
		};
		snprintf(t->name, sizeof(t->name), "%.16s%s", d->dev.name,
			 kinds[i].suffix);
		d->list[d->dev.n_bufts++] = t;
	}
}

void weir__cpu_describe(unsigned part, struct weir__cpu_desc *ret)
{
	*ret = (struct weir__cpu_desc){
		.dev = { .size = sizeof(ret->dev),
			 .name = "CPU",
			 .type = WEIR_DEV_CPU,
			 .caps = WEIR_CAP_ASYNC | WEIR_CAP_EVENTS |
				 WEIR_CAP_HOST_MEMORY | WEIR_CAP_WRAP_HOST |
				 WEIR_CAP_COMPUTE,
			 .node = only_node(),
			 .buft = ret->list },
	};
	if (part)
		snprintf(ret->dev.name, sizeof(ret->dev.name), "CPU%u", part);
	describe_cpu(ret->dev.description, sizeof(ret->dev.description));
	describe_memory(ret);
}
