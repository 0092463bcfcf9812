/* SPDX-License-Identifier: MIT */
/*
 * Items of one memory as the planners see them. A piece is a rectangle in the
 * plane of time and addresses. Items that take one another's place are one
 * piece as long as their sizes are equal; a smaller one begins a new piece,
 * linked by next, at the same offset.
 */
#ifndef WEIR__PLACE_PIECES_H
#define WEIR__PLACE_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/placement.h>

#define WEIR__NO_PIECE UINT32_MAX

struct weir__place_piece {
	int64_t lower, upper;
	uint64_t bytes, align; /* > 0; bytes is a multiple of the unit */
	uint64_t offset;       /* the result */
	uint32_t next;         /* begins where this one ends, not larger */
	uint32_t box; /* its number in its section, from the greedy planner */
	bool follows; /* it is the next of another piece */
};

struct weir__pieces {
	struct weir__place_piece *piece;
	size_t n;
	uint64_t unit;     /* the least alignment: divides all sizes */
	uint64_t align;    /* the greatest alignment */
	uint64_t chunk;    /* no piece crosses a multiple of it; 0: may */
	uint64_t n_items;  /* of this memory, those without bytes too */
	uint64_t in_place; /* of these */
	uint64_t scans;    /* boxes that the greedy planner may examine when it
			      places without lists of conflicts */
};

/*
 * Check items and memories: -EINVAL, -ENOSPC or -EOVERFLOW with a sentence that
 * has the item's index. -ENOMEM.
 */
int weir__pieces_check(const struct weir_lifetime *items, size_t n,
		       const struct weir_place_memory *memory,
		       unsigned n_memories);
/*
 * The pieces of each memory, in ret_pieces[0..n_memories), and the piece of
 * each item (WEIR__NO_PIECE: it has no bytes). Items were checked. -ENOMEM.
 * weir__pieces_free() frees them, after a failure too.
 */
int weir__pieces_make(const struct weir_lifetime *items, size_t n,
		      const struct weir_place_memory *memory,
		      unsigned n_memories, struct weir__pieces *ret_pieces,
		      uint32_t *ret_piece_of);
void weir__pieces_free(struct weir__pieces *pieces, unsigned n_memories);

#endif
