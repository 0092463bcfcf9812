/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail. The linker replaces the library's allocation functions
 * by those of nomem.c (T_NOMEM_FLAGS in local.mk).
 */
#ifndef T_NOMEM_H
#define T_NOMEM_H

#include <stdbool.h>

/* From now on the @n-th allocation of this thread fails, 1: the next one. */
void nomem_begin(unsigned n);
/* End that. True if one has failed. */
bool nomem_end(void);

/*
 * Four checks: @call, in which the first, the second ... allocation fails until
 * none does, allocates @least times or more, fails with nothing but -ENOMEM and
 * a sentence that says so, and then succeeds.
 */
void nomem_each(int (*call)(void), unsigned least, const char *what);

#endif
