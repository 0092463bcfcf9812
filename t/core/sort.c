/* SPDX-License-Identifier: MIT */
/* The radix sort, against qsort(3). */
#include <stdlib.h>
#include <string.h>

#include "core/sort.h"
#include "tap.h"

#define N 3000u

struct item {
	struct weir__sort_key key;
	size_t number;
};

static uint64_t next_random(void)
{
	static uint64_t x = 1;

	x = x * 6364136223846793005u + 1442695040888963407u;
	return x >> 32 ^ x << 32;
}

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (weir__sort_less(&x->key, &y->key))
		return -1;
	if (weir__sort_less(&y->key, &x->key))
		return 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Keys with the bits of these masks. */
static void sorts(uint64_t major, uint64_t minor, const char *what)
{
	static struct item got[N], want[N];
	int r;

	for (size_t i = 0; i < N; i++) {
		got[i].key.major = next_random() & major;
		got[i].key.minor = next_random() & minor;
		got[i].number = i;
	}
	memcpy(want, got, sizeof(want));
	qsort(want, N, sizeof(*want), by_key);
	r = weir__sort(got, N, sizeof(*got));
	ok(r == 0 && !memcmp(got, want, sizeof(got)),
	   "%s are sorted, equal ones in their order", what);
}

static void few_items_are_sorted(void)
{
	struct item one = { { 1, 2 }, 3 };
	struct item two[2] = { { { 1, 256 }, 0 }, { { 1, 255 }, 1 } };

	ok(weir__sort(NULL, 0, sizeof(one)) == 0 &&
		   weir__sort(&one, 1, sizeof(one)) == 0 && one.number == 3,
	   "no item and one item are sorted already");
	ok(weir__sort(two, 2, sizeof(*two)) == 0 && two[0].number == 1,
	   "two items are sorted");
}

static void integers_keep_their_order(void)
{
	ok(weir__sort_int32(INT32_MIN) < weir__sort_int32(-1) &&
		   weir__sort_int32(-1) < weir__sort_int32(0) &&
		   weir__sort_int32(0) < weir__sort_int32(INT32_MAX),
	   "negative numbers come before the others");
}

int main(void)
{
	plan(7);
	sorts(0, UINT64_MAX, "keys that differ in all bytes of minor");
	sorts(UINT64_MAX, 0, "keys that differ in all bytes of major");
	sorts(3, 0xfff000, "keys that differ in some bytes of both");
	sorts(0, 15, "keys that are often equal");
	few_items_are_sorted();
	integers_keep_their_order();
	return done_testing();
}
