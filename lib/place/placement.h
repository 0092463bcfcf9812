/* SPDX-License-Identifier: MIT */
/* The struct of a placement, which never changes after it was made. */
#ifndef WEIR__PLACE_PLACEMENT_H
#define WEIR__PLACE_PLACEMENT_H

#include <weir/placement.h>

/* What is placed in one memory. */
struct weir__placed {
	struct weir_placement_info info;
	uint64_t *member; /* the bytes of each of info.members buffers */
	uint64_t *begin;  /* where each begins if joined; follows member[] */
};

/* Where an item is placed. */
struct weir__place {
	uint64_t offset; /* offset in a joined buffer of exactly the members */
	uint64_t bytes;  /* rounded up */
	uint32_t memory, member;
};

struct weir_placement {
	size_t n;
	struct weir__place *place; /* one for each item */
	struct weir__placed *memory;
	unsigned n_memories;
};

/* weir_placement_new() for use inside the library. */
int weir__placement_new(const struct weir_lifetime *items, size_t n,
			const struct weir_placement_opts *opts,
			struct weir_placement **ret_placement);

#endif
