/* SPDX-License-Identifier: MIT */
#include "core/util.h"

#include "core/sys.h"

/* Of a new array: a malloc of up to 1 KiB takes no lock. */
#define FIRST_BYTES 1000u
#define FIRST_ITEMS 4u

static size_t first_items(size_t size)
{
	size_t n = FIRST_BYTES / size;

	return n > FIRST_ITEMS ? FIRST_ITEMS : n ? n : 1;
}

void *weir__grow(void *array, size_t *cap, size_t n, size_t size)
{
	size_t want = *cap ? *cap : first_items(size);
	void *p;

	if (n < *cap)
		return array;
	while (want <= n)
		if (__builtin_mul_overflow(want, 2, &want))
			want = SIZE_MAX; /* weir__realloc refuses it */
	p = weir__realloc(array, want, size);
	if (p)
		*cap = want;
	return p;
}
