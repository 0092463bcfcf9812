/* SPDX-License-Identifier: MIT */
/*
 * Linked items between those of two columns: where one column has a gap the
 * other has none, thousands of times. The place of each is found only above all
 * of them.
 */
#include <time.h>

#include <weir.h>

#include "placed.h"
#include "tap.h"

#define STAIRS 2000u
#define LINKED 1000u
#define STEP 65536u

static struct weir_lifetime item[3 * STAIRS + 2 * LINKED];

/*
 * Gaps of the one column at even multiples of STEP, of the other at odd ones.
 */
static size_t make_columns(void)
{
	size_t n = 0;

	for (unsigned i = 0; i < STAIRS; i++) {
		item[n++] = (struct weir_lifetime){
			.lower = 0,
			.upper = 10,
			.bytes = STEP,
			.align = 2 * STEP,
		};
		item[n++] = (struct weir_lifetime){
			.lower = 0,
			.upper = 20,
			.bytes = STEP - 1024,
		};
		item[n++] = (struct weir_lifetime){
			.lower = 20,
			.upper = 30,
			.bytes = STEP,
			.align = 2 * STEP,
		};
	}
	return n;
}

static size_t make_linked(size_t n)
{
	for (unsigned i = 0; i < LINKED; i++) {
		item[n++] = (struct weir_lifetime){
			.lower = 10,
			.upper = 20,
			.bytes = STEP - 2048,
		};
		item[n] = (struct weir_lifetime){
			.lower = 19,
			.upper = 30,
			.bytes = STEP - 3072,
			.flags = WEIR_PLACE_OVER,
			.over = n - 1,
		};
		n++;
	}
	return n;
}

int main(void)
{
	struct weir_placement *p;
	clock_t begun;
	double s;

	plan(2);
	make_linked(make_columns());
	begun = clock();
	p = placed(item, sizeof(item) / sizeof(*item), NULL);
	s = (double)(clock() - begun) / CLOCKS_PER_SEC;
	is_int(placed_info(p).in_place, LINKED, "all places are taken");
	/* It would take over 8 seconds if each gap were tried. */
	ok(s < 4, "items without a common gap do not take long to place");
	diag("%.2f s of the CPU", s);
	weir_placement_free(p);
	return done_testing();
}
