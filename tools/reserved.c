/* SPDX-License-Identifier: MIT */
#include "reserved.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"

#define NODES "/sys/devices/system/node"

static long long read_number(const char *dir, const char *name)
{
	long long n = 0;
	char path[512];
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    (int)sizeof(path))
		return 0;
	f = fopen(path, "r");
	if (f && fscanf(f, "%lld", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

/* Those of one node; a size without pages is not listed. */
static void add_sizes(json_t *list, int node)
{
	char dir[128], path[400];
	struct dirent *entry;
	DIR *d;

	snprintf(dir, sizeof(dir), NODES "/node%d/hugepages", node);
	d = opendir(dir);
	while (d && (entry = readdir(d))) {
		long long kib, total;

		if (sscanf(entry->d_name, "hugepages-%lldkB", &kib) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		total = read_number(path, "nr_hugepages");
		if (total <= 0)
			continue;
		json_array_append_new(
			list, json_pack("{s:I, s:i, s:I, s:I}", "bytes",
					(json_int_t)kib * 1024, "node", node,
					"total", (json_int_t)total, "free",
					(json_int_t)read_number(
						path, "free_hugepages")));
	}
	if (d)
		closedir(d);
}

static int is_node(const struct dirent *entry)
{
	int node;

	return sscanf(entry->d_name, "node%d", &node) == 1;
}

json_t *reserved_json(void)
{
	json_t *list = json_array();
	struct dirent **nodes;
	int n = scandir(NODES, &nodes, is_node, versionsort);

	for (int i = 0; i < n; i++) {
		add_sizes(list, atoi(nodes[i]->d_name + strlen("node")));
		free(nodes[i]);
	}
	if (n >= 0)
		free(nodes);
	return list;
}

static long long member(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

void reserved_show(const json_t *list)
{
	char text[SIZE_TEXT];
	json_t *pages;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, pages) printf(
		"reserved huge pages of %s: %lld free of %lld on NUMA node %lld\n",
		binary_text((uint64_t)member(pages, "bytes"), text),
		member(pages, "free"), member(pages, "total"),
		member(pages, "node"));
}
