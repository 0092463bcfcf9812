/* SPDX-License-Identifier: MIT */
/* The backend's table and its entry; description and parameters. */
#include "cpu/cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define lib weir__cpu_host
#define NODE_DIR "/sys/devices/system/node"
#define CPU_ALIGN ((size_t)64) /* a cache line, a vector of AVX-512 */

const struct weir__host *_Atomic weir__cpu_host;

struct weir__cpu *weir__cpu_of(struct weir_dev *dev)
{
	return lib->dev_state(dev);
}

struct weir__team *weir__team_of(struct weir_dev *dev)
{
	return weir__cpu_of(dev)->team;
}

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

static bool has_node(unsigned long node)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), NODE_DIR "/node%lu/distance", node);
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

static const struct weir__buft_desc huge = {
	.size = sizeof(huge),
	.name = "CPU_Huge",
	.kind = WEIR_MEM_HUGE,
	.flags = WEIR_BUFT_HOST,
	.align = CPU_ALIGN,
	.max = SIZE_MAX,
};

static const struct weir__buft_desc plain = {
	.size = sizeof(plain),
	.name = "CPU",
	.kind = WEIR_MEM_PLAIN,
	.flags = WEIR_BUFT_HOST,
	.align = CPU_ALIGN,
	.max = SIZE_MAX,
};

static const struct weir__buft_desc locked = {
	.size = sizeof(locked),
	.name = "CPU_Locked",
	.kind = WEIR_MEM_LOCKED,
	.flags = WEIR_BUFT_HOST | WEIR_BUFT_LOCKED,
	.align = CPU_ALIGN,
	.max = SIZE_MAX,
};

static const struct weir__buft_desc mapped = {
	.size = sizeof(mapped),
	.name = "CPU_Mapped",
	.kind = WEIR_MEM_MAPPED,
	.flags = WEIR_BUFT_HOST | WEIR_BUFT_READONLY,
	.align = 1,
	.max = SIZE_MAX,
};

static const struct weir__buft_desc hbm = {
	.size = sizeof(hbm),
	.name = "CPU_HBM",
	.kind = WEIR_MEM_HBM,
	.flags = WEIR_BUFT_HOST,
	.align = CPU_ALIGN,
	.max = SIZE_MAX,
};

static const struct weir__buft_desc far = {
	.size = sizeof(far),
	.name = "CPU_Far",
	.kind = WEIR_MEM_FAR,
	.flags = WEIR_BUFT_HOST,
	.align = CPU_ALIGN,
	.max = SIZE_MAX,
};

/* Kinds of memory that only some NUMA nodes have. */
static const struct weir__buft_desc *const of_nodes[] = { &hbm, &far };

static bool has_memory_of(const struct weir__host *host, uint32_t kind)
{
	uint64_t free_bytes, total;

	return host->host_nodes((enum weir_mem)kind, -1, &free_bytes, &total) >=
	       0;
}

static int cpu_probe(struct weir *weir, const struct weir__host *host,
		     struct weir__probe *probe)
{
	const struct weir__buft_desc *bufts[6] = { &huge, &plain, &locked,
						   &mapped };
	struct weir__dev_desc desc = {
		.size = sizeof(desc),
		.name = "CPU",
		.type = WEIR_DEV_CPU,
		.caps = WEIR_CAP_ASYNC | WEIR_CAP_EVENTS |
			WEIR_CAP_HOST_MEMORY | WEIR_CAP_WRAP_HOST |
			WEIR_CAP_COMPUTE,
		.node = only_node(),
		.n_bufts = 4,
		.buft = bufts,
	};

	(void)weir;
	for (size_t i = 0; desc.node < 0 && i < 2; i++)
		if (has_memory_of(host, of_nodes[i]->kind))
			bufts[desc.n_bufts++] = of_nodes[i];
	describe_cpu(desc.description, sizeof(desc.description));
	return host->dev_describe(probe, &desc);
}

static int parse_node(const char *value, size_t len, int32_t *node)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || end != value + len)
		return lib->fail(-EINVAL, "CPU: node=%.*s is not a number",
				 (int)len, value);
	if (n > INT16_MAX || !has_node(n))
		return lib->fail(-EINVAL, "CPU: there is no NUMA node %lu", n);
	if (*node >= 0)
		return lib->fail(-EINVAL, "CPU: node is given twice");
	*node = (int32_t)n;
	return 0;
}

static int parse_threads(const char *value, size_t len, uint32_t *threads)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || end != value + len)
		return lib->fail(-EINVAL, "CPU: threads=%.*s is not a number",
				 (int)len, value);
	if (n < 1 || n > WEIR__TEAM_MAX)
		return lib->fail(-EINVAL, "CPU: threads=%lu, from 1 to %u", n,
				 WEIR__TEAM_MAX);
	if (*threads)
		return lib->fail(-EINVAL, "CPU: threads is given twice");
	*threads = (uint32_t)n;
	return 0;
}

/* The library has checked the form: key=value, separated by commas. */
static int parse_params(const char *params, int32_t *node, uint32_t *threads)
{
	for (const char *p = params; *p;) {
		size_t len = strcspn(p, ","), key = strcspn(p, "=");
		const char *value = p + key + 1;
		int r;

		if (key == 4 && !memcmp(p, "node", key))
			r = parse_node(value, len - key - 1, node);
		else if (key == 7 && !memcmp(p, "threads", key))
			r = parse_threads(value, len - key - 1, threads);
		else
			r = lib->fail(
				-EINVAL,
				"CPU: unknown parameter '%.*s'; there are: node=N, threads=N",
				(int)key, p);
		if (r < 0)
			return r;
		p += len + (p[len] == ',');
	}
	return 0;
}

static void cpu_dev_close(struct weir_dev *dev, void *state)
{
	struct weir__cpu *cpu = state;

	(void)dev;
	weir__team_free(cpu->team);
	lib->free(cpu);
}

static int cpu_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state)
{
	struct weir_threads threads = { .size = sizeof(threads) };
	struct weir__cpu *cpu = lib->calloc(1, sizeof(*cpu));
	int r;

	(void)i;
	if (!cpu)
		return lib->fail(-ENOMEM, "no memory for %zu bytes",
				 sizeof(*cpu));
	cpu->node = -1;
	r = parse_params(params, &cpu->node, &threads.count);
	if (r >= 0)
		r = weir__team_new(lib->dev_root(dev), &threads, &cpu->team);
	if (r < 0) {
		cpu_dev_close(dev, cpu);
		return r;
	}
	if (cpu->node >= 0)
		lib->dev_set_node(dev, cpu->node);
	*ret_state = cpu;
	return 0;
}

static int cpu_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total)
{
	(void)dev;
	(void)i;
	return lib->host_available(ret_free, ret_total);
}

static const struct weir__backend backend = {
	.size = sizeof(backend),
	.abi = WEIR__ABI,
	.name = "CPU",
	.probe = cpu_probe,
	.dev_open = cpu_dev_open,
	.dev_close = cpu_dev_close,
	.dev_memory = cpu_dev_memory,
	.mem = &weir__cpu_mem_ops,
	.queue = &weir__cpu_queue_ops,
	.compute = &weir__cpu_compute_ops,
};

/* A module would compare host->abi and host->size here. */
const struct weir__backend *weir__cpu_entry(const struct weir__host *host,
					    int *ret_err)
{
	(void)ret_err;
	lib = host;
	return &backend;
}
