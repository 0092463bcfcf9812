/* SPDX-License-Identifier: MIT */
#include "nomem.h"

#include <errno.h>
#include <string.h>

#include <weir.h>

#include "core/sys.h"
#include "tap.h"

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

void nomem_each(int (*call)(void), unsigned least, const char *what)
{
	unsigned n = 0, other = 0, silent = 0;
	bool one_failed = true;
	int r = 0;

	for (; one_failed; n++) {
		nomem_begin(n + 1);
		r = call();
		one_failed = nomem_end();
		other += one_failed && r != -ENOMEM;
		silent += one_failed && !strstr(weir_error(), "memory");
	}
	is_int(r, 0, "%s: without a failing allocation it succeeds", what);
	ok(n > least, "%s: it allocates memory (%u times)", what, n - 1);
	is_int(other, 0, "%s: it fails with nothing but -ENOMEM", what);
	is_int(silent, 0, "%s: the sentence says that there was no memory",
	       what);
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
