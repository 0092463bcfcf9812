/* SPDX-License-Identifier: MIT */
#include "nomem.h"

#include "core/sys.h"

/* Counts down to the allocation that fails: 1: the next one; 0: none. */
static _Thread_local unsigned until;
static _Thread_local bool failed;

void nomem_begin(unsigned n)
{
	failed = false;
	until = n;
}

bool nomem_end(void)
{
	until = 0;
	return failed;
}

static bool fails(void)
{
	bool now = until && --until == 0;

	failed |= now;
	return now;
}

void *__real_weir__malloc(size_t n);
void *__real_weir__calloc(size_t n, size_t size);
void *__real_weir__calloc_aligned(size_t n, size_t size);
void *__real_weir__realloc(void *p, size_t n, size_t size);
void *__real_weir__malloc_pages(size_t n);
char *__real_weir__strdup(const char *s);
void *__wrap_weir__malloc(size_t n);
void *__wrap_weir__calloc(size_t n, size_t size);
void *__wrap_weir__calloc_aligned(size_t n, size_t size);
void *__wrap_weir__realloc(void *p, size_t n, size_t size);
void *__wrap_weir__malloc_pages(size_t n);
char *__wrap_weir__strdup(const char *s);

void *__wrap_weir__malloc(size_t n)
{
	return fails() ? NULL : __real_weir__malloc(n);
}

void *__wrap_weir__calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_weir__calloc(n, size);
}

void *__wrap_weir__calloc_aligned(size_t n, size_t size)
{
	return fails() ? NULL : __real_weir__calloc_aligned(n, size);
}

void *__wrap_weir__realloc(void *p, size_t n, size_t size)
{
	return fails() ? NULL : __real_weir__realloc(p, n, size);
}

void *__wrap_weir__malloc_pages(size_t n)
{
	return fails() ? NULL : __real_weir__malloc_pages(n);
}

char *__wrap_weir__strdup(const char *s)
{
	return fails() ? NULL : __real_weir__strdup(s);
}
