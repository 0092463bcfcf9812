/* SPDX-License-Identifier: MIT */
/*
 * Text from files and arguments (names, metadata, paths), made safe for a
 * terminal or for JSON. It may contain any bytes, NULs included.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

/*
 * Write @s escaped: control characters, characters that reorder or hide text,
 * U+FFFE and U+FFFF (which XML forbids), and bytes that are not UTF-8 become
 * \n, \x1b, \u202e; a backslash is doubled. Writes at most @max bytes of @s,
 * and "..." if there are more; 0: all. Returns the columns written, counting
 * each character as one.
 */
size_t text_put(FILE *to, const char *s, size_t len, size_t max);
/* The same without doubling backslashes: quotes in @s are escaped already. */
void text_put_sentence(FILE *to, const char *s);
/*
 * Text to be read: only control characters other than newlines and tabs, and
 * bytes that are not UTF-8, are escaped.
 */
void text_put_prose(FILE *to, const char *s, size_t len);
/* text_put(), with the characters escaped that XML does not read as text. */
void text_put_xml(FILE *to, const char *s, size_t len, size_t max);
/* The columns that text_put() would write. */
size_t text_width(const char *s, size_t len, size_t max);

/*
 * Names in the lines of digests, as sha256sum(1) writes them: newlines,
 * carriage returns and backslashes are escaped, nothing else. If text_is_odd()
 * finds one of these, the line begins with a backslash.
 */
bool text_is_odd(const char *s, size_t len);
void text_put_odd(FILE *to, const char *s, size_t len);

/*
 * Make a JSON string; bytes that are not UTF-8 become U+FFFD. NULL: no memory.
 */
json_t *text_json(const char *s, size_t len);

#endif
