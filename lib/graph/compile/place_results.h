/* SPDX-License-Identifier: MIT */
/*
 * The pass that places what a run computes: lifetimes in steps are given to the
 * planner (lib/place). Arrays in, a placement out.
 */
#ifndef WEIR__GRAPH_PLACE_RESULTS_H
#define WEIR__GRAPH_PLACE_RESULTS_H

#include <weir/placement.h>

#include "graph/compile/sync.h"

/* The memories of lane @l: shared by all runs; and what each copy has. */
#define WEIR__IN_RESULTS(l) (2 * (uint32_t)(l))
#define WEIR__IN_COPY(l) (2 * (uint32_t)(l) + 1)

struct weir__place_in {
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	const struct weir__sync *sync;
	const uint8_t *marks;  /* WEIR__MARK_* */
	const uint64_t *bytes; /* of each node, if it has bytes of its own */
	/*
	 * Of each node: bit s: its result may take the place of source s, as far
	 * as operation and layouts go.
	 */
	const uint8_t *fits;
	const uint64_t
		*device_copy_bytes; /* of each device copy; an import: 0 */
	const struct weir_place_memory *memory; /* of the lanes: two of each */
	bool copies; /* outputs are in the memory of copies, too */
};

struct weir__places {
	struct weir_placement *placement;
	uint32_t *item; /* of each alias class, at its node; NONE: no item */
	uint32_t *device_copy; /* item of each device copy; NONE: an import */
	uint32_t *over; /* of each node: the class whose place it has; NONE */
};

/*
 * A result takes the place of a source only if that is planned, is no output,
 * shares its layout, and its whole class is used for the last time by this step.
 * Inputs, device copies, and results that other lanes read are never overwritten, so
 * lanes wait only for what they read. Errors of weir_placement_new().
 */
int weir__place_nodes(const struct weir__place_in *in,
		      struct weir__places *ret);
void weir__places_free(struct weir__places *places);

#endif
