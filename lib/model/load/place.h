/* SPDX-License-Identifier: MIT */
/*
 * Placing the tensors of one put.
 *
 * Tensors are placed in the order of the file. Neighbours make a run, which is
 * shifted as a whole so that each of its tensors is aligned. Where no shift
 * aligns them all, or the gap before a tensor is large, a new run begins. The
 * address of a run is congruent to its shifted file offset modulo a page, so
 * that direct reads go to the final memory; or, if tight, it is the next
 * aligned address, which in this order takes the fewest bytes.
 */
#ifndef WEIR__MODEL_PLACE_H
#define WEIR__MODEL_PLACE_H

#include <stdbool.h>

#include "model/load/plan.h"

/* The tensors of a put: numbers of their spots, in the order of the file. */
struct weir__group {
	const struct weir_model *model;
	const struct weir__put *put;
	const size_t *spot;
	size_t n;
};

/* The bytes of put->buf that a group may use. New buffers have no bounds. */
struct weir__bounds {
	uint64_t from, to;
	bool tight;
};

/*
 * Place the group: add its buffers (new ones, or the put's), runs and tensors
 * to @l. *ret_end: its end in the last buffer. -ENOSPC: it does not fit the
 * bounds. -ENOMEM: a tensor is larger than any buffer, or there is no memory
 * for the layout. After a failure @l may have a part of the group.
 */
int weir__place(struct weir__layout *l, const struct weir__group *g,
		const struct weir__bounds *bounds, uint64_t *ret_end);
/* The same for a put of WEIR_WAY_MAP, with a buffer for each shard. */
int weir__place_mapped(struct weir__layout *l, const struct weir__group *g);
/* place_sink.c: add the sink of a put, and its runs. -ENOMEM. */
int weir__place_sink(struct weir__layout *l, const struct weir__group *g);
/* place_target.c: add the buffers and runs of the targets of @plan. -ENOMEM. */
int weir__place_targets(struct weir__layout *l, const struct weir_plan *plan);

#endif
