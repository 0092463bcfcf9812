/* SPDX-License-Identifier: MIT */
/* Sets of NUMA nodes, as the kernel lists them in text: "0,2-3". */
#ifndef WEIR__NUMA_H
#define WEIR__NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__NODES 1024u /* more than any kernel has */
#define WEIR__NODE_BITS (8 * (unsigned)sizeof(unsigned long))
/* Bytes of a set as text, which is shortened to fit. */
#define WEIR__NODES_TEXT 40

struct weir__nodes {
	unsigned long word[WEIR__NODES / WEIR__NODE_BITS];
};

static inline bool weir__nodes_has(const struct weir__nodes *set, unsigned n)
{
	return set->word[n / WEIR__NODE_BITS] >> n % WEIR__NODE_BITS & 1;
}

/* @n is below WEIR__NODES, as everywhere here. */
static inline void weir__nodes_add(struct weir__nodes *set, unsigned n)
{
	set->word[n / WEIR__NODE_BITS] |= 1ul << n % WEIR__NODE_BITS;
}

unsigned weir__nodes_count(const struct weir__nodes *set);
/* The first node of the set from @n on, or WEIR__NODES if there is none. */
unsigned weir__nodes_next(const struct weir__nodes *set, unsigned n);
/* The node of a set that has one node, else -1. */
int32_t weir__nodes_only(const struct weir__nodes *set);
bool weir__nodes_equal(const struct weir__nodes *a,
		       const struct weir__nodes *b);
/* True if a node is in both sets. */
bool weir__nodes_meet(const struct weir__nodes *a, const struct weir__nodes *b);

/*
 * Read a list up to the end of its line. False: the list is malformed, or has a
 * number of WEIR__NODES or more. An empty list is an empty set.
 */
bool weir__nodes_parse(const char *text, struct weir__nodes *ret_set);
/* "node 2" or "nodes 2-3,5". @buf has WEIR__NODES_TEXT bytes; returns it. */
const char *weir__nodes_text(const struct weir__nodes *set, char *buf);

#endif
