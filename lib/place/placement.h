/* SPDX-License-Identifier: MIT */
/* A placement from the inside. It never changes after it was made. */
#ifndef WEIR__PLACE_PLACEMENT_H
#define WEIR__PLACE_PLACEMENT_H

#include <weir/placement.h>

struct weir__placed {
	struct weir_placement_info info;
	uint64_t *member; /* bytes of each, info.members of them */
};

struct weir_placement {
	size_t n;
	uint64_t *offset; /* of each item */
	struct weir__placed *memory;
	unsigned n_memories;
	uint64_t problem[2]; /* fingerprint of items and memories */
};

#endif
