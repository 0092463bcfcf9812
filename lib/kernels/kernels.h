/* SPDX-License-Identifier: MIT */
/*
 * The kernels of the CPU: for each operation of graphs, how its work is divided
 * into parts, and what computes a part. lib/kernels/README.md has a node's way.
 */
#ifndef WEIR__KERNELS_H
#define WEIR__KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dev/backend.h"

/* The library's functions, from the entry of lib/cpu. */
extern const struct weir__host *_Atomic weir__cpu_host;

/* How a node is computed; constant from prepare on. */
struct weir__kernel_plan {
	uint32_t phases; /* at least 1; all parts of a phase end before the next
			    begins */
	uint32_t parts;  /* of each phase, at least 1: threads take one after
			    the other until none is left */
	size_t scratch;  /* bytes for each thread */
	size_t shared;   /* bytes for all threads, kept between the phases */
	uint64_t cost;   /* about, in ns of one thread */
	uint32_t variant; /* the kernel's own choice */
};

/* What a thread is to compute of a node. */
struct weir__kernel_run {
	const struct weir__node *node;
	const struct weir__kernel_plan *plan;
	uint32_t phase, part;
	void *scratch, *shared; /* aligned to 64 bytes */
};

/* The kernel of an operation. Constant; any thread, any number of them. */
struct weir__kernel {
	uint32_t op; /* enum weir_op */
	/* 0, or -EOPNOTSUPP with a sentence. Reads no address. */
	int (*supports)(const struct weir__node *node);
	/* For at most @threads threads. Cannot fail: supports said 0. */
	void (*plan)(const struct weir__node *node, unsigned threads,
		     struct weir__kernel_plan *ret);
	/*
	 * Compute a part. Does not block or allocate. < 0: with a sentence, ends
	 * the run: an index that is out of range, say.
	 */
	int (*run)(const struct weir__kernel_run *run);
};

/* The kernel of an enum weir_op; NULL: none. */
const struct weir__kernel *weir__kernel_find(uint32_t op);

#endif
