/* SPDX-License-Identifier: MIT */
/*
 * The results of all passes for one graph and one scheduler. A draft is made
 * before anything is allocated on a device, refers to the graph, and is freed
 * before the call that made it returns.
 */
#ifndef WEIR__GRAPH_DRAFT_H
#define WEIR__GRAPH_DRAFT_H

#include "graph/compile/assign.h"
#include "graph/graph.h"
#include "graph/compile/place_results.h"

struct weir_sched;
struct weir__choice;

/* Bytes and numbers, as in struct weir_exec_info. */
struct weir__sizes {
	uint64_t results, inputs, workspace, leaves; /* inputs: of all copies */
	uint64_t computed, in_place, lowest;
	uint64_t kept, prefetched, buffer; /* of imports */
};

struct weir__draft {
	const struct weir_graph *g;
	const struct weir_sched *sched;
	struct weir__reach_in in;
	struct weir__reach reach;
	uint8_t *marks;             /* of each node: WEIR__MARK_* */
	struct weir__assign assign; /* of each node: device and cause */
	uint64_t *usable; /* of each leaf: as in struct weir__sync_in */
	struct weir__sync sync;
	uint64_t *bytes;             /* of each node with bytes of its own */
	uint64_t *device_copy_bytes; /* of each device copy */
	struct weir__places places;
	struct weir__sizes *sizes; /* of each lane; workspace: 0 */
};

/* -ENOMEM, -EOVERFLOW, -EOPNOTSUPP. Free it with weir__draft_free(). */
int weir__draft(const struct weir_sched *sched, const struct weir_graph *g,
		const struct weir__choice *choice, struct weir__draft *ret);
void weir__draft_free(struct weir__draft *draft);

#endif
