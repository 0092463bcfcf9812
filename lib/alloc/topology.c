/* SPDX-License-Identifier: MIT */
#include "alloc/topology.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"

#define NODE_DIR "/sys/devices/system/node"
#define TIER_DIR "/sys/devices/virtual/memory_tiering"
#define TIER "memory_tier"
/* A process may have 65,536 groups, which its status lists before the nodes. */
#define STATUS_BYTES ((size_t)1 << 20)

/* The kernel's data on the memory of NUMA nodes. */
struct topology {
	const char *root;
	struct weir__nodes cpu;    /* have CPUs and memory */
	struct weir__nodes memory; /* have memory only, and may be used */
	uint64_t bandwidth;        /* the highest of those with CPUs; 0: none */
	int tier; /* the fastest of those with CPUs; -1: none */
};

/* The text of a file of the tree; false: there is none. */
static bool __attribute__((format(printf, 4, 5)))
read_text(const char *root, char *text, size_t room, const char *fmt, ...)
{
	char path[512];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s", root);
	va_list ap;

	if (n >= sizeof(path))
		return false;
	va_start(ap, fmt);
	n += (size_t)vsnprintf(path + n, sizeof(path) - n, fmt, ap);
	va_end(ap);
	return n < sizeof(path) && weir__sys_text(path, text, room) > 0;
}

static bool read_nodes(const char *root, const char *name,
		       struct weir__nodes *ret_set)
{
	char text[4096];

	return read_text(root, text, sizeof(text), "%s/%s", NODE_DIR, name) &&
	       weir__nodes_parse(text, ret_set);
}

/* The line of @text that follows @key; NULL: there is none. */
static const char *line_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) : NULL;
}

static bool read_allowed(const char *root, struct weir__nodes *ret_set)
{
	char *text = weir__malloc(STATUS_BYTES);
	const char *list = NULL;
	bool known;

	if (text && read_text(root, text, STATUS_BYTES, "/proc/self/status"))
		list = line_after(text, "\nMems_allowed_list:\t");
	known = list && weir__nodes_parse(list, ret_set);
	weir__free(text);
	return known;
}

/* Remove the nodes that the process's cpuset excludes. */
static void keep_allowed(const char *root, struct weir__nodes *set)
{
	struct weir__nodes allowed;

	if (!weir__nodes_count(set) || !read_allowed(root, &allowed))
		return;
	for (size_t i = 0; i < sizeof(set->word) / sizeof(set->word[0]); i++)
		set->word[i] &= allowed.word[i];
}

/*
 * The rate at which CPUs read the node's memory, according to the firmware
 * (HMAT, or CDAT of CXL devices); 0: not known. Access class 1 is that of CPUs.
 * Older kernels have only class 0, which may be that of a GPU or another
 * device.
 */
static uint64_t read_bandwidth(const char *root, unsigned node)
{
	char text[64];

	for (int access_class = 1; access_class >= 0; access_class--)
		if (read_text(root, text, sizeof(text),
			      NODE_DIR
			      "/node%u/access%d/initiators/read_bandwidth",
			      node, access_class))
			return strtoull(text, NULL, 10);
	return 0;
}

static int is_tier(const struct dirent *entry)
{
	return !strncmp(entry->d_name, TIER, strlen(TIER));
}

/* The tier of the node's memory, of which lower ones are faster; -1: none. */
static int find_tier(const char *root, unsigned node)
{
	char path[512], text[4096];
	struct weir__nodes set;
	struct dirent **list;
	int n, tier = -1;

	if (snprintf(path, sizeof(path), "%s%s", root, TIER_DIR) >=
	    (int)sizeof(path))
		return -1;
	n = weir__sys_scandir(path, is_tier, &list);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (read_text(root, text, sizeof(text), TIER_DIR "/%s/nodelist",
			      name) &&
		    weir__nodes_parse(text, &set) &&
		    weir__nodes_has(&set, node))
			tier = atoi(name + strlen(TIER));
		weir__free(list[i]);
	}
	if (n >= 0)
		weir__free(list);
	return tier;
}

/*
 * Linux before 4.13 may lack the first list. The second omits movable memory.
 */
static bool read_memory(const char *root, struct weir__nodes *ret_set)
{
	return read_nodes(root, "has_memory", ret_set) ||
	       read_nodes(root, "has_normal_memory", ret_set);
}

/* Read the kernel's data. False: no node has memory only. */
static bool read_topology(const char *root, struct topology *ret_top)
{
	struct topology top = { .root = root, .tier = -1 };
	struct weir__nodes cpu, memory;

	if (!read_nodes(root, "has_cpu", &cpu) || !read_memory(root, &memory))
		return false;
	for (size_t i = 0; i < sizeof(cpu.word) / sizeof(cpu.word[0]); i++) {
		top.cpu.word[i] = cpu.word[i] & memory.word[i];
		top.memory.word[i] = memory.word[i] & ~cpu.word[i];
	}
	keep_allowed(root, &top.memory);
	if (!weir__nodes_count(&top.memory))
		return false;
	for (unsigned n = weir__nodes_next(&top.cpu, 0); n < WEIR__NODES;
	     n = weir__nodes_next(&top.cpu, n + 1)) {
		uint64_t bandwidth = read_bandwidth(root, n);
		int tier = find_tier(root, n);

		if (bandwidth > top.bandwidth)
			top.bandwidth = bandwidth;
		if (tier >= 0 && (top.tier < 0 || tier < top.tier))
			top.tier = tier;
	}
	*ret_top = top;
	return true;
}

/*
 * The kind of a node's memory, by bandwidth if the kernel has that of both,
 * else by tier. Memory of which it says neither is far: the distance alone
 * tells nothing of its bandwidth.
 */
static enum weir_mem kind_of(const struct topology *top, unsigned node)
{
	uint64_t bandwidth = read_bandwidth(top->root, node);
	bool faster;

	if (bandwidth && top->bandwidth) {
		faster = bandwidth > top->bandwidth;
	} else {
		int tier = find_tier(top->root, node);

		faster = tier >= 0 && tier < top->tier;
	}
	return faster ? WEIR_MEM_HBM : WEIR_MEM_FAR;
}

/* The distance of @to from a node whose distances are @text; or ULONG_MAX. */
static unsigned long distance_to(const char *text,
				 const struct weir__nodes *online, unsigned to)
{
	char *end;

	/* One number for each node that is online. */
	for (unsigned n = weir__nodes_next(online, 0); n < WEIR__NODES;
	     n = weir__nodes_next(online, n + 1)) {
		unsigned long distance = strtoul(text, &end, 10);

		if (end == text)
			return ULONG_MAX;
		if (n == to)
			return distance;
		text = end;
	}
	return ULONG_MAX;
}

/* Keep those of @set that are nearest to @near. */
static int keep_nearest(const char *root, int32_t near, struct weir__nodes *set)
{
	struct weir__nodes online, nearest = { { 0 } };
	unsigned long least = ULONG_MAX;
	char text[8192];

	if (!read_nodes(root, "online", &online) ||
	    !read_text(root, text, sizeof(text), NODE_DIR "/node%d/distance",
		       near))
		return weir__fail(-EINVAL, "there is no NUMA node %d", near);
	for (unsigned n = weir__nodes_next(set, 0); n < WEIR__NODES;
	     n = weir__nodes_next(set, n + 1)) {
		unsigned long distance = distance_to(text, &online, n);

		if (distance < least) {
			nearest = (struct weir__nodes){ { 0 } };
			least = distance;
		}
		if (distance == least)
			weir__nodes_add(&nearest, n);
	}
	*set = nearest;
	return 0;
}

int weir__topology_nodes(const char *root, enum weir_mem kind, int32_t near,
			 struct weir__nodes *ret_nodes)
{
	struct weir__nodes found = { { 0 } };
	struct topology top;
	unsigned n = 0;
	int r = 0;

	if (read_topology(root, &top))
		for (; (n = weir__nodes_next(&top.memory, n)) < WEIR__NODES;
		     n++)
			if (kind_of(&top, n) == kind)
				weir__nodes_add(&found, n);
	if (!weir__nodes_count(&found))
		return weir__fail(
			-EOPNOTSUPP,
			"no NUMA node that this process may use has memory of kind %s and no CPUs",
			kind == WEIR_MEM_HBM ? "HBM" : "FAR");
	if (near >= 0)
		r = keep_nearest(root, near, &found);
	if (r < 0)
		return r;
	*ret_nodes = found;
	return 0;
}

/* Bytes of the line "Node N @key:  M kB". */
static uint64_t bytes_of(const char *text, const char *key)
{
	const char *number = line_after(text, key);

	return number ? strtoull(number, NULL, 10) * 1024 : 0;
}

int weir__topology_room(const char *root, const struct weir__nodes *nodes,
			uint64_t *ret_free, uint64_t *ret_total)
{
	uint64_t avail = 0, total = 0;
	char text[4096];

	for (unsigned n = weir__nodes_next(nodes, 0); n < WEIR__NODES;
	     n = weir__nodes_next(nodes, n + 1)) {
		if (!read_text(root, text, sizeof(text),
			       NODE_DIR "/node%u/meminfo", n))
			continue;
		total += bytes_of(text, " MemTotal:");
		avail += bytes_of(text, " MemFree:") +
			 bytes_of(text, " Active(file):") +
			 bytes_of(text, " Inactive(file):");
	}
	if (!total)
		return weir__fail(
			-ENODATA,
			"/sys does not say how much memory the NUMA nodes have");
	*ret_free = avail < total ? avail : total;
	*ret_total = total;
	return 0;
}
