/* SPDX-License-Identifier: MIT */
/*
 * The pass that puts the operations into the order in which a run computes
 * them, the steps, and finds the gates between them. Arrays in, arrays out.
 *
 * With one device the order is that in which the nodes were made, which satisfies
 * the edges of the pass "reach" too, and the steps are one segment.
 */
#ifndef WEIR__GRAPH_ORDER_H
#define WEIR__GRAPH_ORDER_H

#include <stdbool.h>

#include "graph/reach.h"

/*
 * A point before step @step at which a run may stop: it waits for the bytes of
 * leaf @node, or reports the result of @node to the observer.
 */
struct weir__gate {
	uint32_t step, node;
	bool observe;
};

struct weir__order {
	uint32_t n;      /* steps */
	uint32_t *node;  /* of each step */
	uint32_t *step;  /* of each node; of one that is not computed, the
			     number of the next step */
	uint32_t *until; /* of each alias class, at its node: the step before
			     which its bytes are still used; 0: not used */
	struct weir__gate *gate; /* in the order in which a run gets to them */
	uint32_t n_gates;
};

/* Marks of nodes, besides the flags of the first pass. */
#define WEIR__MARK_LEAF 0x01u
#define WEIR__MARK_INPUT 0x02u
#define WEIR__MARK_OBSERVED 0x04u /* the observer is to get the result */
#define WEIR__MARK_EMPTY 0x08u    /* an operation with nothing to compute */

/* @marks: of each node. -ENOMEM. Free the arrays with weir__order_free(). */
int weir__order(const struct weir__reach_in *in,
		const struct weir__reach *reach, const uint8_t *marks,
		struct weir__order *ret);
void weir__order_free(struct weir__order *order);

#endif
