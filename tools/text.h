/* SPDX-License-Identifier: MIT */
/*
 * Text that others wrote (names, metadata, paths), made safe to show on a
 * terminal or to put into JSON. It may contain anything, NULs included.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

/*
 * Write @s for people: control characters, characters that reorder or hide
 * text, and bytes that are not UTF-8 become \n, \x1b, \u202e; a backslash is
 * doubled. At most @max bytes of @s, with "..." if there are more; 0: all.
 * Returns the columns written, counting each character as one.
 */
size_t text_put(FILE *to, const char *s, size_t len, size_t max);
/* The same for a sentence that is escaped already where it quotes. */
void text_put_sentence(FILE *to, const char *s);
/* Columns that text_put() would write. */
size_t text_width(const char *s, size_t len, size_t max);

/*
 * A name in a line of digests, as sha256sum(1) writes it: only a newline, a
 * carriage return and a backslash are escaped, and then the line begins with
 * a backslash, for which text_is_odd() asks.
 */
bool text_is_odd(const char *s, size_t len);
void text_put_odd(FILE *to, const char *s, size_t len);

/* A JSON string; bytes that are not UTF-8 become U+FFFD. NULL: no memory. */
json_t *text_json(const char *s, size_t len);

#endif
