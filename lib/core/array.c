/* SPDX-License-Identifier: MIT */
#include "core/array.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "core/sys.h"
#include "core/util.h"

#define MAPPED_HEADER 64u
/* A new array has about this size: a malloc of up to 1 KiB takes no lock. */
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

static void *array_begin(unsigned char *entries, void *block, size_t mapped)
{
	struct weir__array_header *header =
		(struct weir__array_header *)(void *)entries - 1;

	*header = (struct weir__array_header){ block, mapped };
	return entries;
}

/* malloc(3) would not use the memory of an aligned block again for another. */
static void *array_map(size_t bytes)
{
	size_t huge = WEIR__HUGE_PAGE, mapped = weir__up(bytes, huge) + huge;
	unsigned char *from;
	void *block;

	if (weir__sys_map(mapped, -1, 0, PROT_READ | PROT_WRITE, &block) < 0)
		return NULL;
	from = (unsigned char *)block + (-(uintptr_t)block & (huge - 1));
	weir__sys_madvise(from, weir__down(bytes + huge / 2, huge),
			  MADV_HUGEPAGE);
	return array_begin(from + MAPPED_HEADER, block, mapped);
}

void *weir__array_alloc(size_t n, size_t size)
{
	uint64_t bytes;
	unsigned char *block;

	if (weir__mul_over(n, size, &bytes) || bytes > SIZE_MAX / 2)
		return NULL;
	if (bytes >= WEIR__HUGE_PAGE / 2)
		return array_map(MAPPED_HEADER + bytes);
	block = weir__malloc(sizeof(struct weir__array_header) + bytes);
	return block ? array_begin(block + sizeof(struct weir__array_header),
				   block, 0)
		     : NULL;
}

void *weir__array_grow(void *array, size_t *cap, size_t n, size_t size)
{
	size_t want = n + 1 > 2 * *cap ? n + 1 : 2 * *cap;
	void *more;

	if (n < *cap)
		return array;
	more = weir__array_alloc(want < 4 ? 4 : want, size);
	if (!more)
		return NULL;
	if (array)
		memcpy(more, array, *cap * size);
	weir__array_free(array);
	*cap = want < 4 ? 4 : want;
	return more;
}

void weir__array_free(void *array)
{
	struct weir__array_header *header = array;

	if (!array)
		return;
	header--;
	if (header->mapped)
		weir__sys_unmap(header->block, header->mapped);
	else
		weir__free(header->block);
}
