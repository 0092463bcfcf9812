/* SPDX-License-Identifier: MIT */
/*
 * The environment variable WEIR_DEBUG: words, separated by commas, that change
 * how roots work, as in "io=sync,log". weir_open() reads it once; weir(7) lists
 * the words. Ignored in set-user-ID programs (secure_getenv(3)).
 */
#ifndef WEIR__DEBUG_H
#define WEIR__DEBUG_H

#include <stdbool.h>

#include "core/root.h"

/* Read the variable. Unknown words are reported to the log. 0 or -ENOMEM. */
int weir__debug_read(struct weir *weir);
/* True if the variable is set and not empty. */
bool weir__debug_on(void);
/* As weir__debug_has(), of a root that has words. */
bool weir__debug_find(const struct weir *weir, const char *word);
/* True if @word, such as "io=sync", is among its words. */
static inline bool weir__debug_has(const struct weir *weir, const char *word)
{
	return weir->debug && weir__debug_find(weir, word);
}

#endif
