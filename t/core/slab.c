/* SPDX-License-Identifier: MIT */
/* Memory for many small objects. */
#include <stdint.h>
#include <string.h>

#include "core/slab.h"
#include "tap.h"

#define N 1000u
#define SIZE 200u

static unsigned char *object[N];

static bool is_zero(const unsigned char *p)
{
	for (size_t i = 0; i < SIZE; i++)
		if (p[i])
			return false;
	return true;
}

/* Allocate objects [from, N), and fill each with its number. */
static size_t fill(struct weir__slab *slab, size_t from)
{
	size_t wrong = 0;

	for (size_t i = from; i < N; i++) {
		object[i] = weir__slab_alloc(slab, SIZE);
		if (!object[i])
			bail("no memory");
		wrong += (uintptr_t)object[i] % 64 || !is_zero(object[i]);
		memset(object[i], (int)(i % 255) + 1, SIZE);
	}
	return wrong;
}

static size_t count_changed(size_t n)
{
	size_t changed = 0;

	for (size_t i = 0; i < n; i++)
		changed += object[i][0] != i % 255 + 1 ||
			   memcmp(object[i], object[i] + 1, SIZE - 1) != 0;
	return changed;
}

static void free_from(struct weir__slab *slab, size_t from)
{
	for (size_t i = from; i < N; i++)
		weir__slab_free(slab, object[i]);
}

int main(void)
{
	struct weir__slab slab;

	plan(7);
	weir__slab_init(&slab);
	is_int(fill(&slab, 0), 0,
	       "new objects are zeros, at the beginning of a cache line");
	is_int(count_changed(N), 0, "objects do not share memory");
	free_from(&slab, N / 2);
	is_int(fill(&slab, N / 2), 0,
	       "objects in the memory of freed ones are zeros");
	is_int(count_changed(N), 0, "objects that are in use do not change");
	free_from(&slab, 0);
	ok(!slab.chunks, "the memory of many objects is freed with the last");
	is_int(fill(&slab, 0), 0,
	       "objects that are allocated after that are zeros");
	is_int(count_changed(N), 0,
	       "objects that are allocated after that do not share memory");
	free_from(&slab, 0);
	weir__slab_fini(&slab);
	return done_testing();
}
