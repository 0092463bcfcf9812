/* SPDX-License-Identifier: MIT */
/* The tensors in a range of a run, such as a chunk. */
#ifndef WEIR__MODEL_PORTION_H
#define WEIR__MODEL_PORTION_H

#include <stdbool.h>

#include "model/load/plan.h"

/* Bytes [a, b) of the file, of which @take are data of tensor @spot. */
struct weir__portion {
	size_t spot;
	uint64_t a, b, take;
	/* For weir__portion_next only: */
	const struct weir__layout *layout;
	const struct weir__run *run;
	uint64_t from, to; /* the range */
	size_t at, end;    /* in the layout's order */
};

/*
 * Before the first tensor of bytes [from, to) of the file, in @run. If the run
 * is of a tensor in rows, the range begins and ends at rows.
 */
struct weir__portion weir__portion_begin(const struct weir__layout *layout,
					 const struct weir__run *run,
					 uint64_t from, uint64_t to);
/* The next tensor, in the order of the file. False: there is none. */
bool weir__portion_next(struct weir__portion *p);

#endif
