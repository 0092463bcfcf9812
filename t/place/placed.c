/* SPDX-License-Identifier: MIT */
#include "placed.h"

#include "tap.h"

struct weir_placement *placed(const struct weir_lifetime *items, size_t n,
			      const struct weir_place_memory *memory)
{
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_placement *p;

	o.memory = memory;
	o.n_memories = memory ? 1 : 0;
	if (weir_placement_new(items, n, &o, &p) < 0)
		bail("%s", weir_error());
	return p;
}

struct weir_placement_info placed_info(const struct weir_placement *p)
{
	struct weir_placement_info info = { .size = sizeof(info) };

	if (weir_placement_info(p, 0, &info) < 0)
		bail("%s", weir_error());
	return info;
}
