/* SPDX-License-Identifier: MIT */
/* The greedy planner on 20,000 items, of which thousands live at once. */
#include <weir.h>

#include "lifetimes.h"
#include "tap.h"

#define MANY 20000

static struct weir_lifetime item[MANY];

static void is_low(enum lifetimes kind)
{
	uint64_t bound, height, simple;

	lifetimes_make(kind, item, MANY);
	height = greedy_height(item, MANY, &bound);
	simple = height > bound ? simple_height(item, MANY, SIMPLE_BYTES, false)
				: bound;
	ok(height <= simple, "%s: first fit by decreasing size is not lower",
	   lifetimes_name(kind));
	diag("%.4f of the bound, first fit %.4f",
	     (double)height / (double)bound, (double)simple / (double)bound);
}

int main(void)
{
	plan(3);
	is_low(LIVES_HALVES);
	is_low(LIVES_NESTED);
	is_low(LIVES_LAYERS);
	return done_testing();
}
