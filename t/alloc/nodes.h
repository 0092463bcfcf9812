/* SPDX-License-Identifier: MIT */
/*
 * A /sys and a /proc of a test's own: a machine with nodes 0 and 1, which have
 * CPUs, and others, which only have memory.
 */
#ifndef T_NODES_H
#define T_NODES_H

extern char nodes_root[]; /* the directory with /sys and /proc */

/* Make the directory, and remove it. They bail out rather than fail. */
void nodes_begin(void);
void nodes_end(void);
/* Write a file below the directory. */
void nodes_put(const char *path, const char *text);
/* Write "nodeN/access@class/initiators/read_bandwidth" */
void nodes_bandwidth(unsigned node, unsigned class, unsigned long rate);
/* Write the meminfo of a node: MiB that are free, of page cache, and in all. */
void nodes_memory(unsigned node, unsigned free_mib, unsigned cache,
		  unsigned total);

/*
 * The machine of most tests: nodes 0 and 1 have CPUs, 2 and 3 are HBM (2 next
 * to 0, 3 next to 1), 4 is far. Each of 2 to 4 has 48 MiB free of 64.
 */
void nodes_usual(void);

#endif
