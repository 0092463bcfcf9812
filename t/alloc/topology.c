/* SPDX-License-Identifier: MIT */
/* High-bandwidth and far NUMA nodes, found in a /sys of the test's own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/topology.h"
#include "core/error.h"
#include "nodes.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)
#define NODE "/sys/devices/system/node"
#define TIER "/sys/devices/virtual/memory_tiering/memory_tier"

static char text[WEIR__NODES_TEXT];

/* The text of a list that the kernel would print; "": it is refused. */
static const char *parsed(const char *list)
{
	struct weir__nodes set;

	return weir__nodes_parse(list, &set) ? weir__nodes_text(&set, text)
					     : "";
}

static void lists(void)
{
	is_str(parsed("0\n"), "node 0", "a list of one node is read");
	is_str(parsed("0-1,4,6-7\n"), "nodes 0-1,4,6-7",
	       "a list of ranges of nodes is read");
	is_str(parsed("1023"), "node 1023",
	       "the last node there can be is read");
	is_str(parsed("1024"), "", "a node that is out of range is refused");
	is_str(parsed("99999999999999999999"), "",
	       "a number that overflows is refused");
	is_str(parsed("3-1"), "", "a range that runs backwards is refused");
	is_str(parsed("1,"), "", "a list that ends in a comma is refused");
	is_str(parsed("1-"), "", "a range without an end is refused");
	is_str(parsed("x"), "", "a list that is no number is refused");
	is_str(parsed("\n"), "nodes", "an empty list is a set of no node");
	has_str(parsed("1,3,5,7,9,11,13,15,17,19,21,23,25,27"), ",...",
		"a long list of nodes is cut: %s", text);
}

/* The nodes of @kind near @near, as text; "": there are none. */
static const char *of_kind(enum weir_mem kind, int32_t near)
{
	struct weir__nodes set;

	return weir__topology_nodes(nodes_root, kind, near, &set) < 0
		       ? ""
		       : weir__nodes_text(&set, text);
}

static void none(void)
{
	struct weir__nodes set;

	weir__enter("t");
	is_err(weir__topology_nodes(nodes_root, WEIR_MEM_HBM, -1, &set),
	       -EOPNOTSUPP, "memory of kind HBM and no CPUs",
	       "without /sys there is no high-bandwidth memory");
	nodes_put(NODE "/online", "0\n");
	nodes_put(NODE "/has_cpu", "0\n");
	nodes_put(NODE "/has_memory", "0\n");
	is_err(weir__topology_nodes(nodes_root, WEIR_MEM_FAR, -1, &set),
	       -EOPNOTSUPP, "memory of kind FAR and no CPUs",
	       "a machine of one node has no far memory");
}

static void figures(void)
{
	nodes_usual();
	is_str(of_kind(WEIR_MEM_HBM, -1), "nodes 2-3",
	       "nodes whose bandwidth exceeds that of nodes with CPUs are HBM");
	is_str(of_kind(WEIR_MEM_FAR, -1), "node 4",
	       "a node with a lower bandwidth is far");
	is_str(of_kind(WEIR_MEM_HBM, 1), "node 3",
	       "the HBM node nearest to a node is chosen by distance");
	is_str(of_kind(WEIR_MEM_HBM, 2), "node 2",
	       "the HBM node nearest to an HBM node is that node");
	is_str(of_kind(WEIR_MEM_FAR, 0), "node 4",
	       "the only far node is the nearest to each node");
	nodes_put(NODE "/node0/distance", "10 21 13 13 24\n");
	is_str(of_kind(WEIR_MEM_HBM, 0), "nodes 2-3",
	       "nodes of the same distance are chosen together");
	is_int(weir__topology_nodes(nodes_root, WEIR_MEM_HBM, 7,
				    &(struct weir__nodes){ { 0 } }),
	       -EINVAL, "no node is the nearest to one that does not exist");
	nodes_put(NODE "/node0/distance", "10 21 13\n");
	is_str(of_kind(WEIR_MEM_HBM, 0), "node 2",
	       "a node whose distance is missing is not the nearest");
	nodes_put(NODE "/node0/distance", "10 21\n");
	is_str(of_kind(WEIR_MEM_HBM, 0), "nodes 2-3",
	       "without distances each node is the nearest");
	nodes_bandwidth(4, 1, 300000);
	is_str(of_kind(WEIR_MEM_FAR, -1), "node 4",
	       "a node of the same bandwidth as those with CPUs is far");
	nodes_bandwidth(1, 1, 1000000);
	is_str(of_kind(WEIR_MEM_HBM, -1), "",
	       "a node is HBM only if it is faster than each node with CPUs");
	nodes_bandwidth(1, 1, 300000);
}

static void classes(void)
{
	nodes_bandwidth(4, 0, 2000000);
	is_str(of_kind(WEIR_MEM_FAR, -1), "node 4",
	       "the bandwidth from CPUs counts, not that from other devices");
	nodes_put(NODE "/node4/access1/initiators/read_bandwidth", "");
	is_str(of_kind(WEIR_MEM_HBM, -1), "nodes 2-4",
	       "without a bandwidth from CPUs that of class 0 counts");
	nodes_put(NODE "/node4/access0/initiators/read_bandwidth", "");
	is_str(of_kind(WEIR_MEM_FAR, -1), "node 4",
	       "a node of which the kernel says nothing is far");
}

static void tiers(void)
{
	nodes_put(TIER "4/nodelist", "0-1\n");
	nodes_put(TIER "2/nodelist", "4\n");
	is_str(of_kind(WEIR_MEM_HBM, -1), "nodes 2-4",
	       "without bandwidths a node of a faster tier is HBM");
	nodes_put(TIER "2/nodelist", "\n");
	nodes_put(TIER "22/nodelist", "4\n");
	is_str(of_kind(WEIR_MEM_FAR, -1), "node 4",
	       "without bandwidths a node of a slower tier is far");
}

static void allowed(void)
{
	nodes_put("/proc/self/status", "Name:\tx\nMems_allowed:\t1f\n"
				       "Mems_allowed_list:\t0-2\n");
	is_str(of_kind(WEIR_MEM_HBM, -1), "node 2",
	       "nodes that the process's cpuset excludes are left out");
	nodes_put("/proc/self/status", "Name:\tx\nMems_allowed:\t3\n");
	is_str(of_kind(WEIR_MEM_HBM, -1), "nodes 2-3",
	       "a status without the list of a cpuset excludes no node");
	nodes_put("/proc/self/status", "Name:\tx\nMems_allowed_list:\t0-1\n");
	is_str(of_kind(WEIR_MEM_HBM, -1), "",
	       "a process whose cpuset excludes all HBM has none");
}

/* A status with the line of a process that has 65,536 groups. */
static void put_status_with_groups(const char *list)
{
	size_t room = (size_t)1 << 20;
	char *status = malloc(room);
	int at;

	if (!status)
		bail("no memory");
	at = snprintf(status, room, "Name:\tx\nGroups:\t%*s\n", 65536 * 11,
		      "4294967294");
	snprintf(status + at, room - (size_t)at, "Mems_allowed_list:\t%s\n",
		 list);
	nodes_put("/proc/self/status", status);
	free(status);
}

static void many_groups(void)
{
	put_status_with_groups("0-2");
	is_str(of_kind(WEIR_MEM_HBM, -1), "node 2",
	       "the cpuset of a process with many groups excludes nodes");
	nodes_put("/proc/self/status", "");
}

static void old_kernels(void)
{
	nodes_put(NODE "/has_memory", "");
	is_str(of_kind(WEIR_MEM_HBM, -1), "",
	       "without a list of nodes with memory there is no HBM");
	nodes_put(NODE "/has_normal_memory", "0-4\n");
	is_str(of_kind(WEIR_MEM_HBM, -1), "nodes 2-3",
	       "the list of older kernels of nodes with memory counts");
	nodes_put(NODE "/has_memory", "0-4\n");
}

static void room(void)
{
	struct weir__nodes set = { { 0 } };
	uint64_t avail = 0, total = 0;

	weir__nodes_add(&set, 2);
	weir__nodes_add(&set, 3);
	is_int(weir__topology_room(nodes_root, &set, &avail, &total), 0,
	       "the memory of nodes is found");
	ok(avail == 96 * MIB && total == 128 * MIB,
	   "the memory of two nodes is the sum, with page cache as free");
	weir__nodes_add(&set, 9);
	is_int(weir__topology_room(nodes_root, &set, &avail, &total), 0,
	       "a node that is gone does not hide the memory of the others");
	set = (struct weir__nodes){ { 0 } };
	weir__nodes_add(&set, 9);
	is_int(weir__topology_room(nodes_root, &set, &avail, &total), -ENODATA,
	       "the memory of nodes that are gone is not known");
}

int main(void)
{
	plan(0);
	nodes_begin();
	lists();
	none();
	figures();
	classes();
	tiers();
	allowed();
	many_groups();
	old_kernels();
	room();
	nodes_end();
	return done_testing();
}
