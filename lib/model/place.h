/* SPDX-License-Identifier: MIT */
/*
 * Where the tensors of one put lie.
 *
 * They are taken in the order of the file. Neighbours make a run; a run is
 * shifted as a whole until each of its tensors has the alignment that is
 * wanted. Where no one shift serves all, or the gap is large, the run is cut.
 * In memory a run begins where its address equals its shifted file offset
 * modulo a page, so that direct reads land in place; or, if tight, at the next
 * place that the alignment allows: no order of placing takes fewer bytes.
 */
#ifndef WEIR__MODEL_PLACE_H
#define WEIR__MODEL_PLACE_H

#include <stdbool.h>

#include "model/plan.h"

/* What is placed: the tensors of a put, by their spots, in file order. */
struct weir__group {
	const struct weir_model *model;
	const struct weir__put *put;
	const size_t *spot;
	size_t n;
};

/* The bytes of put->buf that a group may use; of new buffers all. */
struct weir__bounds {
	uint64_t from, to;
	bool tight;
};

/*
 * Add to @l what the group needs, new buffers or the one given. *ret_end: where
 * it ends in the last of them. -ENOSPC: it does not fit the room. -ENOMEM: a
 * tensor is larger than any buffer, or there is no memory for the layout; of
 * either @l may have a part.
 */
int weir__place(struct weir__layout *l, const struct weir__group *g,
		const struct weir__bounds *bounds, uint64_t *ret_end);
/* The same for a put of WEIR_WAY_MAP: a buffer for each shard. */
int weir__place_mapped(struct weir__layout *l, const struct weir__group *g);

#endif
