/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG: words that change how a root works for one run of a program, read
 * once by weir_open; separated by commas, as in "io=sync,log". weir(7) lists
 * them. Not in programs that run with the rights of others.
 */
#ifndef WEIR__DEBUG_H
#define WEIR__DEBUG_H

#include <stdbool.h>

struct weir;

/* Needs the log. Unknown words are reported there. 0 or -ENOMEM. */
int weir__debug_read(struct weir *weir);
/* Is the variable set, to anything? */
bool weir__debug_on(void);
/* Was @word given, "io=sync" say? */
bool weir__debug_has(const struct weir *weir, const char *word);

#endif
