/* SPDX-License-Identifier: MIT */
/*
 * The backend's table and its entry; devices: their descriptions, parameters
 * and states. The parameter devices=N of "CPU" adds CPU1 and so on, which
 * divide the CPUs and the threads with it; each has a team of its own.
 */
#include "cpu/cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define lib weir__cpu_host
#define NODE_DIR "/sys/devices/system/node"
#define CPU_ALIGN ((size_t)64) /* a cache line, a vector of AVX-512 */
#define MAX_DEVICES 16u

/*
 * A device's number in the library, which dev_open gets: 0 for "CPU"; for those
 * beside it their part of the CPUs, and what the parameters of "CPU" say.
 */
struct number {
	struct weir__share share; /* the part of the CPUs */
	uint32_t threads; /* sum over all devices; 0: one for each CPU */
	bool apart;       /* it computes in its own memory only */
};

/* The parameters of a device; -1: not given. */
struct cpu_params {
	int64_t node, threads, devices, apart;
};

/* A description, and what it points to. */
struct description {
	struct weir_backend_dev dev;
	struct weir_backend_buft buft[6];
	const struct weir_backend_buft *list[6];
};

struct weir__cpu *weir__cpu_of(struct weir_dev *dev)
{
	return lib->dev_state(dev);
}

/* The default first. */
static const struct {
	const char *suffix; /* ending of the name */
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

/* True if the machine has NUMA node @node. */
static bool has_node(uint64_t node)
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

static void describe_memory(struct description *d)
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

/* Describe the device "CPU" (0), "CPU1" and so on. */
static void describe(unsigned part, struct description *ret)
{
	*ret = (struct description){
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

static const struct key {
	const char *name;
	size_t at;              /* in struct cpu_params */
	unsigned long min, max; /* max 0: has_node() checks it */
	bool first; /* only "CPU" has it, not the devices beside it */
} keys[] = {
	{ "node", offsetof(struct cpu_params, node), 0, 0, false },
	{ "threads", offsetof(struct cpu_params, threads), 1, WEIR__TEAM_MAX,
	  false },
	{ "devices", offsetof(struct cpu_params, devices), 1, MAX_DEVICES,
	  true },
	{ "apart", offsetof(struct cpu_params, apart), 0, 1, true },
};

static const struct key *key_find(bool added, const char *p, size_t len)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strlen(keys[i].name) == len &&
		    !memcmp(keys[i].name, p, len) && !(added && keys[i].first))
			return &keys[i];
	return NULL;
}

/* @name is the device, for sentences. */
static int parse_value(const char *name, const struct key *key,
		       const char *value, size_t len, int64_t *ret)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || end != value + len)
		return lib->fail(-EINVAL, "%s: %s=%.*s is not a number", name,
				 key->name, (int)len, value);
	if (key->max && (n < key->min || n > key->max))
		return lib->fail(-EINVAL, "%s: %s=%lu, from %lu to %lu", name,
				 key->name, n, key->min, key->max);
	if (!key->max && (n > INT16_MAX || !has_node(n)))
		return lib->fail(-EINVAL, "%s: there is no NUMA node %lu", name,
				 n);
	if (*ret >= 0)
		return lib->fail(-EINVAL, "%s: %s is given twice", name,
				 key->name);
	*ret = (int64_t)n;
	return 0;
}

/*
 * Read the parameters of @dev. The library has checked their form: key=value,
 * separated by commas. -EINVAL with a sentence. An added device has no
 * "devices" and no "apart".
 */
static int params_parse(struct weir_dev *dev, bool added, const char *params,
			struct cpu_params *ret)
{
	const char *name = lib->dev_name(dev);
	int r = 0;

	*ret = (struct cpu_params){ -1, -1, -1, -1 };
	for (const char *p = params; *p && r >= 0;) {
		size_t len = strcspn(p, ","), n = strcspn(p, "=");
		const struct key *key = key_find(added, p, n);

		if (!key)
			return lib->fail(
				-EINVAL,
				"%s: unknown parameter '%.*s'; there are: node=N, threads=N%s",
				name, (int)n, p,
				added ? "" : ", devices=N, apart=1");
		r = parse_value(name, key, p + n + 1, len - n - 1,
				(int64_t *)(void *)((char *)ret + key->at));
		p += len + (p[len] == ',');
	}
	return r;
}

/*
 * A number has, from the lowest bit on, 8 bits for the part, 8 for the number
 * of parts, 1 for apart, and the threads. @i is not 0.
 */
static struct number number_decode(unsigned i)
{
	return (struct number){ { i & 0xff, i >> 8 & 0xff },
				i >> 17,
				i >> 16 & 1 };
}

static unsigned number_encode(struct number n)
{
	return n.share.part | n.share.parts << 8 | (unsigned)n.apart << 16 |
	       n.threads << 17;
}

/*
 * Add the devices that share the CPUs with "CPU", which is @dev; @first has its
 * own part. Errors of dev_add.
 */
static int devices_add(struct weir_dev *dev, struct number first)
{
	struct number more = first;
	int r = 0;

	for (unsigned part = 1; part < first.share.parts && r >= 0; part++) {
		struct description desc;

		more.share.part = part;
		describe(part, &desc);
		r = lib->dev_add(dev, &desc.dev, number_encode(more));
		if (r == -EEXIST) /* added by an open that failed later */
			r = 0;
	}
	return r;
}

static int cpu_probe(struct weir *weir, const struct weir_backend_host *host,
		     struct weir_backend_probe *probe)
{
	struct description desc;

	(void)weir;
	describe(0, &desc);
	return host->dev_describe(probe, &desc.dev);
}

static void cpu_dev_close(struct weir_dev *dev, void *state)
{
	struct weir__cpu *cpu = state;

	(void)dev;
	weir__team_free(cpu->team);
	pthread_mutex_destroy(&cpu->lock);
	lib->free(cpu);
}

/* The number that "CPU" would have if its parameters were encoded in one. */
static struct number number_given(const struct cpu_params *p)
{
	struct number n = { .apart = p->apart > 0 };

	n.share.parts = p->devices > 0 ? (unsigned)p->devices : 1;
	n.threads = p->threads > 0 ? (uint32_t)p->threads : 0;
	return n;
}

static int cpu_open(struct weir_dev *dev, struct weir__cpu *cpu,
		    struct number n, uint32_t threads)
{
	struct weir_threads t = { .size = sizeof(t), .count = threads };
	int r;

	cpu->apart = n.apart;
	if (!threads && n.threads)
		t.count = weir__share_of(n.share, n.threads);
	r = weir__team_new(lib->dev_root(dev), &t, n.share, &cpu->team);
	if (r >= 0 && !n.share.part)
		r = devices_add(dev, n);
	return r;
}

static int cpu_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state)
{
	struct weir__cpu *cpu = lib->calloc(1, sizeof(*cpu));
	struct cpu_params p;
	int r;

	if (!cpu)
		return lib->fail(-ENOMEM, "no memory for %zu bytes",
				 sizeof(*cpu));
	pthread_mutex_init(&cpu->lock, NULL);
	r = params_parse(dev, i != 0, params, &p);
	if (r >= 0 && i)
		r = cpu_open(dev, cpu, number_decode(i),
			     p.threads > 0 ? (uint32_t)p.threads : 0);
	else if (r >= 0)
		r = cpu_open(dev, cpu, number_given(&p), 0);
	if (r < 0) {
		cpu_dev_close(dev, cpu);
		return r;
	}
	cpu->node = (int32_t)p.node;
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

static const struct weir_backend backend = {
	.size = sizeof(backend),
	.abi = WEIR_BACKEND_ABI,
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
const struct weir_backend *weir__cpu_entry(const struct weir_backend_host *host,
					   int *ret_err)
{
	(void)ret_err;
	lib = host;
	return &backend;
}
