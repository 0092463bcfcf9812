/* SPDX-License-Identifier: MIT */
/*
 * The results of all passes for one graph and one kind of memory. A draft is made
 * before anything is allocated on a device, refers to the graph, and is freed
 * before the call that made it returns.
 */
#ifndef WEIR__GRAPH_DRAFT_H
#define WEIR__GRAPH_DRAFT_H

#include "graph/graph.h"
#include "graph/place.h"

/* Bytes and numbers, as in struct weir_sched_estimate. */
struct weir__sizes {
	uint64_t results, inputs, workspace, leaves; /* inputs: of all copies */
	uint64_t computed, in_place, lowest;
};

struct weir__draft {
	const struct weir_graph *g;
	struct weir__reach_in in;
	struct weir__reach reach;
	struct weir__order order;
	struct weir__places places;
	uint8_t *marks;           /* of each node: WEIR__MARK_* */
	uint64_t *bytes;          /* of each node with bytes of its own */
	struct weir__sizes sizes; /* workspace: 0 */
};

/* -ENOMEM, -EOVERFLOW. Free it with weir__draft_free(). */
int weir__draft(const struct weir_graph *g, const struct weir_buft *buft,
		uint32_t copies, struct weir__draft *ret);
void weir__draft_free(struct weir__draft *draft);

#endif
