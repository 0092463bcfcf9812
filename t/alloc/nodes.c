/* SPDX-License-Identifier: MIT */
#include "nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "tap.h"

#define NODE "/sys/devices/system/node"

char nodes_root[] = "/tmp/weir-nodes-XXXXXX";

void nodes_begin(void)
{
	if (!mkdtemp(nodes_root))
		bail("mkdtemp failed");
}

void nodes_end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", nodes_root);
	if (system(command))
		bail("%s failed", command);
}

void nodes_put(const char *path, const char *text)
{
	files_below(nodes_root, path, text);
}

void nodes_bandwidth(unsigned node, unsigned class, unsigned long rate)
{
	char path[128], text[32];

	snprintf(path, sizeof(path),
		 NODE "/node%u/access%u/initiators/read_bandwidth", node,
		 class);
	snprintf(text, sizeof(text), "%lu\n", rate);
	nodes_put(path, text);
}

void nodes_memory(unsigned node, unsigned free_mib, unsigned cache,
		  unsigned total)
{
	char path[128], text[400];

	snprintf(path, sizeof(path), NODE "/node%u/meminfo", node);
	snprintf(text, sizeof(text),
		 "Node %u MemTotal:       %u kB\n"
		 "Node %u MemFree:        %u kB\n"
		 "Node %u Active:         9999999 kB\n"
		 "Node %u Active(anon):   9999999 kB\n"
		 "Node %u Active(file):   %u kB\n"
		 "Node %u Inactive(file): %u kB\n",
		 node, total * 1024, node, free_mib * 1024, node, node, node,
		 cache / 2 * 1024, node, (cache - cache / 2) * 1024);
	nodes_put(path, text);
}

void nodes_usual(void)
{
	nodes_put(NODE "/online", "0-4\n");
	nodes_put(NODE "/has_cpu", "0-1\n");
	nodes_put(NODE "/has_memory", "0-4\n");
	nodes_put(NODE "/node0/distance", "10 21 13 23 24\n");
	nodes_put(NODE "/node1/distance", "21 10 23 13 24\n");
	nodes_put(NODE "/node2/distance", "13 23 10 24 25\n");
	for (unsigned node = 0; node < 2; node++) {
		nodes_bandwidth(node, 1, 300000);
		nodes_memory(node, 4096, 0, 8192);
	}
	for (unsigned node = 2; node < 5; node++) {
		nodes_bandwidth(node, 1, node < 4 ? 1000000 : 60000);
		nodes_memory(node, 40, 8, 64);
	}
}
