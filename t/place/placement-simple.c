/* SPDX-License-Identifier: MIT */
/* The greedy planner is never worse than simple heuristics. */
#include <weir.h>

#include "lifetimes.h"
#include "tap.h"

#define MOST 4000

static struct weir_lifetime item[MOST];

static unsigned is_worse(enum lifetimes kind, size_t n)
{
	uint64_t bound, height;
	unsigned worse = 0;

	lifetimes_make(kind, item, n);
	height = greedy_height(item, n, &bound);
	for (unsigned k = 0; k < 2 * N_SIMPLE && height > bound; k++) {
		uint64_t simple = simple_height(
			item, n, (enum simple_order)(k / 2), k % 2);

		if (height <= simple)
			continue;
		diag("%zu items: %.4f of the bound, %s fit %u %.4f", n,
		     (double)height / (double)bound, k % 2 ? "best" : "first",
		     k / 2, (double)simple / (double)bound);
		worse++;
	}
	return worse;
}

int main(void)
{
	static const size_t sizes[] = { 500, 2000, MOST };

	plan(N_LIVES);
	for (enum lifetimes kind = 0; kind < N_LIVES; kind++) {
		unsigned worse = 0;

		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			worse += is_worse(kind, sizes[i]);
		is_int(worse, 0,
		       "%s: no first or best fit by size, area or lifetime is lower",
		       lifetimes_name(kind));
	}
	return done_testing();
}
