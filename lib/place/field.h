/* SPDX-License-Identifier: MIT */
/*
 * A section prepared for many tries: times are numbers of boxes, and each box
 * knows those that live when it begins.
 */
#ifndef WEIR__PLACE_FIELD_H
#define WEIR__PLACE_FIELD_H

#include "place/greedy.h"

/* A piece. Boxes are sorted by their beginning. */
struct weir__box {
	uint64_t bytes, align;
	uint64_t lowest;   /* it may begin here: above the long ones */
	uint64_t pressure; /* most bytes that live at one time of its life */
	uint64_t time;     /* upper - lower, and that of its next ones */
	uint32_t from, to; /* it begins with box from, ends before box to */
	uint32_t next;     /* box at the same place, or WEIR__NO_PIECE */
	bool follows;
	bool is_long; /* placed for good, below the others */
};

struct weir__box_place {
	uint64_t at, end; /* end 0: not placed in this try */
};

struct weir__field {
	struct weir__box *box;
	struct weir__box_place *span; /* of each box that is not long */
	uint64_t *long_at;            /* of each long box */
	size_t n;
	bool has_long;
	bool crowded;      /* so many live at once that what follows is not
			      known, and boxes have no pressure */
	size_t *alive_at;  /* n + 1: where in alive[] those of a box begin */
	uint32_t *alive;   /* earlier boxes, not long, that live at its begin */
	uint64_t long_end; /* where the highest long box ends */
	size_t most;       /* no box has more conflicts, next ones included */
};

/* For sorting boxes: the greatest first, then second, then least box first. */
struct weir__box_key {
	uint64_t first, second;
	uint32_t box;
};
void weir__boxes_sort(struct weir__box_key *key, size_t n);

/* -ENOMEM with a sentence. */
int weir__field_init(struct weir__field *f, struct weir__pieces *p,
		     const struct weir__section *s);
void weir__field_free(struct weir__field *f);
/* No box is long any more. */
void weir__field_shorten(struct weir__field *f);

#endif
