/* SPDX-License-Identifier: MIT */
/*
 * Whether rows are prefetched by instructions: the votes of the first products.
 */
#include <string.h>
#include <weir.h>

#include "kernels/ahead.h"
#include "kernels/dot.h"
#include "tap.h"

static size_t decided(unsigned prefetched)
{
	struct weir__ahead a = { 0 };

	for (unsigned i = 0; i < WEIR__AHEAD_VOTES; i++)
		weir__ahead_vote(&a, i < prefetched);
	return weir__ahead_bytes(&a);
}

static void test_votes(void)
{
	struct weir__ahead a = { 0 };
	unsigned n = 0, first = 0;

	for (; weir__ahead_measures(&a) && n < 10000; n++) {
		first += weir__ahead_first(&a);
		weir__ahead_vote(&a, false);
	}
	is_int(n, WEIR__AHEAD_VOTES, "a measurement ends after 255 votes");
	is_int(first, WEIR__AHEAD_VOTES / 2,
	       "the half that is prefetched is the first one every other time");
	is_int(decided(WEIR__AHEAD_ENOUGH - 1), 0,
	       "rows are not prefetched if fewer than 240 votes are for it");
	is_int(decided(WEIR__AHEAD_ENOUGH), WEIR__AHEAD,
	       "rows are prefetched if 240 votes are for it");
}

/* Whether products of all dtypes of a set are the same without and with it. */
static bool is_same(const struct weir__dot *dot, size_t pitch)
{
	enum {
		ROWS = 8,
		K = 512
	};
	static unsigned char a[ROWS * 4 * K + 2 * WEIR__AHEAD];
	static _Alignas(64) unsigned char b[64 << 10];
	float got[2][ROWS], *dst[2] = { got[0], got[1] };
	const void *column = b;

	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = (unsigned char)(i * 7 % 60);
	memset(b, 1, sizeof(b));
	dot->run(&dst[0], a, pitch, ROWS, &column, 1, K, 0);
	dot->run(&dst[1], a, pitch, ROWS, &column, 1, K, WEIR__AHEAD);
	return memcmp(got[0], got[1], sizeof(got[0])) == 0;
}

static void test_results(const struct weir__dot_set *set)
{
	unsigned different = 0;

	for (size_t i = 0; i < set->n; i++) {
		struct weir_dtype_info info = { .size = sizeof(info) };

		if (weir_dtype_info((enum weir_dtype)set->list[i].dtype,
				    &info) < 0)
			bail("%s", weir_error());
		different +=
			!is_same(&set->list[i], 512 / info.block * info.bytes);
	}
	is_int(different, 0,
	       "%s: products are the same bits whether rows are prefetched or not",
	       set->name);
}

int main(void)
{
	struct weir *root;

	plan(0);
	test_votes();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; weir__dot_sets[i]; i++)
		if (weir__dot_sets[i]->usable())
			test_results(weir__dot_sets[i]);
	weir_close(root);
	return done_testing();
}
