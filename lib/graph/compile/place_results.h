/* SPDX-License-Identifier: MIT */
/*
 * The pass "place": it gives the lifetimes of results, in steps, to the planner
 * of lib/place, which finds their offsets. Arrays in, a placement out.
 */
#ifndef WEIR__GRAPH_PLACE_RESULTS_H
#define WEIR__GRAPH_PLACE_RESULTS_H

#include <weir/placement.h>

#include "graph/compile/sync.h"

/* The two memories of lane @l: one for all runs, and one for each copy. */
#define WEIR__IN_RESULTS(l) (2 * (uint32_t)(l))
#define WEIR__IN_COPY(l) (2 * (uint32_t)(l) + 1)

struct weir__place_in {
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	const struct weir__sync *sync;
	const uint8_t *marks;  /* WEIR__MARK_* */
	const uint64_t *bytes; /* bytes of each node that has its own */
	/*
	 * Bit s of in_place[i]: operation and layouts allow that the result of
	 * node i takes the place of its source s.
	 */
	const uint8_t *in_place;
	/* Bytes of each device copy; an import has 0. */
	const uint64_t *device_copy_bytes;
	const struct weir_place_memory *memory; /* two memories of each lane */
	int64_t time_ns; /* time of the exact planner; 0: only the greedy one */
	bool copies;     /* outputs are in the memory of copies, too */
};

struct weir__places {
	struct weir_placement *placement;
	/* The item of each alias class, at its node; NONE: no item. */
	uint32_t *item;
	/* The item of each device copy; NONE: an import. */
	uint32_t *device_copy;
	/* The class whose place the result of each node takes; NONE. */
	uint32_t *over;
};

/*
 * A result takes the place of a source only if that is planned, is no output,
 * shares its layout, and its whole class is used for the last time by this
 * step. Inputs, device copies, and results that other lanes read are never
 * overwritten, so lanes wait only for what they read. Errors of
 * weir_placement_new().
 */
int weir__place_nodes(const struct weir__place_in *in,
		      struct weir__places *ret);
void weir__places_free(struct weir__places *places);

#endif
