/* SPDX-License-Identifier: MIT */
/* The tensors in a range of a span, such as a chunk. */
#ifndef WEIR__MODEL_CHUNK_TENSORS_H
#define WEIR__MODEL_CHUNK_TENSORS_H

#include <stdbool.h>

#include "model/load/layout.h"

/* An iterator: bytes [a, b) of the file belong to a tensor. */
struct weir__chunk_tensors {
	size_t tensor; /* the number of its placement */
	uint64_t a, b;
	uint64_t data; /* bytes of the tensor in the range, without gaps */
	/* Used by weir__chunk_tensors_next only: */
	const struct weir__layout *layout;
	const struct weir__load_span *span;
	uint64_t from, to; /* the range */
	size_t at, end;    /* numbers in the layout's order */
};

/*
 * Begin before the first tensor of bytes [from, to) of the file, in @span. If
 * the span is of a tensor in rows, the range begins and ends at rows.
 */
struct weir__chunk_tensors
weir__chunk_tensors_begin(const struct weir__layout *layout,
			  const struct weir__load_span *span, uint64_t from,
			  uint64_t to);
/*
 * Go to the next tensor, in the order of the file. Returns false if there is
 * none.
 */
bool weir__chunk_tensors_next(struct weir__chunk_tensors *p);

#endif
