/* SPDX-License-Identifier: MIT */
/*
 * The conflict graph of a section: for each rectangle, those that live at the
 * same time and so cannot have the same addresses. Times are indices of
 * rectangles.
 */
#ifndef WEIR__PLACE_CONFLICT_GRAPH_H
#define WEIR__PLACE_CONFLICT_GRAPH_H

#include "place/greedy.h"

/* A rectangle of the section. They are sorted by their beginning. */
struct weir__section_rect {
	uint64_t bytes, align;
	uint64_t lowest;   /* offset above the long rectangles */
	uint64_t pressure; /* most bytes that live at one time of its life */
	uint64_t time;     /* upper - lower, with linked ones */
	uint32_t from, to; /* life: [begin of one, begin of another) */
	uint32_t next;     /* linked rectangle, or WEIR__NO_RECT */
	bool follows;
	bool is_long; /* long-lived: placed once, below the others */
};

struct weir__address_range {
	uint64_t at, end; /* end 0: not placed in this try */
};

struct weir__conflict_graph {
	struct weir__section_rect *rect;
	struct weir__address_range *range; /* those that are not long */
	uint64_t *long_at;                 /* offsets of long rectangles */
	size_t n;
	bool has_long;
	bool dense;        /* there are too many conflicts to list them: what
			     follows is not set, and neither is pressure */
	size_t *alive_at;  /* n + 1: where each list begins in alive[] */
	uint32_t *alive;   /* earlier rectangles that live then, not long */
	uint64_t long_end; /* where the highest long rectangle ends */
	size_t most; /* conflicts of any rectangle, linked ones included */
};

/*
 * Sort keys: the greatest first, of equals the greatest second, then the
 * lowest index.
 */
struct weir__rect_key {
	uint64_t first, second;
	uint32_t rect;
};
void weir__rect_keys_sort(struct weir__rect_key *key, size_t n);

/* -ENOMEM with a sentence. */
int weir__conflict_graph_init(struct weir__conflict_graph *cg,
			      struct weir__rects *p,
			      const struct weir__section *s);
void weir__conflict_graph_free(struct weir__conflict_graph *cg);
/* No rectangle is long any more. */
void weir__conflict_graph_clear_long(struct weir__conflict_graph *cg);

#endif
