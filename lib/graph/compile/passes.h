/* SPDX-License-Identifier: MIT */
/*
 * All passes over one graph, and their results. They are made before anything
 * is allocated on a device, refer to the graph, and are freed before the call
 * that made them returns.
 */
#ifndef WEIR__GRAPH_PASSES_H
#define WEIR__GRAPH_PASSES_H

#include "graph/compile/assign.h"
#include "graph/graph.h"
#include "graph/compile/place_results.h"

struct weir__compiler;

/* The choices of the program for one executable graph: pins and rates. */
struct weir__choice {
	/* NULL with one device. */
	uint8_t *pin; /* device of each node, or WEIR__ASSIGN_NONE */
	struct weir_rates *rates; /* rates of each device */
	uint64_t key;             /* equal choices have equal keys */
};

/* Bytes and numbers, as in struct weir_exec_info. */
struct weir__lane_sizes {
	uint64_t results, inputs, workspace, leaves; /* inputs: of all copies */
	uint64_t computed, in_place, lowest;
	uint64_t kept, prefetched, buffer; /* bytes of imports */
};

struct weir__passes {
	const struct weir_graph *g;
	const struct weir__compiler *compiler;
	struct weir__reach_in in;
	struct weir__reach reach;
	uint8_t *marks;             /* WEIR__MARK_* of each node */
	struct weir__assign assign; /* device and cause of each node */
	uint64_t *usable; /* mask of each leaf, as in struct weir__sync_in */
	struct weir__sync sync;
	uint64_t *bytes;             /* bytes of each node that has its own */
	uint64_t *device_copy_bytes; /* bytes of each device copy */
	struct weir__places places;
	struct weir__lane_sizes *sizes; /* sizes of each lane; workspace: 0 */
};

/* -ENOMEM, -EOVERFLOW, -EOPNOTSUPP. Free it with weir__passes_free(). */
int weir__passes_run(const struct weir__compiler *compiler,
		     const struct weir_graph *g,
		     const struct weir__choice *choice,
		     struct weir__passes *ret);
void weir__passes_free(struct weir__passes *passes);

#endif
