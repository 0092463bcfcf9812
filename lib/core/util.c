/* SPDX-License-Identifier: MIT */
#include "core/util.h"

#include "core/sys.h"

#define FIRST_ITEMS 4u

void *weir__grow(void *array, size_t *cap, size_t n, size_t size)
{
	size_t want = *cap ? *cap : FIRST_ITEMS;
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
