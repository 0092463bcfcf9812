/* SPDX-License-Identifier: MIT */
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A part of the input between two of the bytes @ends. */
static struct span any_part(struct edit *e, const char *ends)
{
	size_t at = edit_below(e, e->n + 1), end = at;

	while (at && !strchr(ends, e->bytes[at - 1]))
		at--;
	while (end < e->n && !strchr(ends, e->bytes[end]))
		end++;
	return (struct span){ at, end - at };
}

static struct span any_field(struct edit *e)
{
	return any_part(e, ",\r\n");
}

static struct span any_line(struct edit *e)
{
	struct span line = any_part(e, "\n");

	line.len += line.at + line.len < e->n;
	return line;
}

static void change_number(struct edit *e)
{
	struct span at = any_field(e);
	char text[32] = "";
	size_t n = at.len < 31 ? at.len : 31;
	uint64_t small = edit_below(e, 40);

	memcpy(text, e->bytes + at.at, n);
	if (n && strspn(text, "-0123456789") < n && !edit_one_in(e, 8))
		return;
	if (edit_one_in(e, 2))
		small = edit_number(e, strtoull(text, NULL, 10));
	n = (size_t)snprintf(text, sizeof(text),
			     edit_one_in(e, 4) ? "%lld" : "%llu",
			     (unsigned long long)small);
	edit_put(e, at, text, n);
}

static void put_word(struct edit *e)
{
	static const char *const words[] = {
		"id",  "buffer",  "lower",     "start", "upper",
		"end", "size",    "alignment", "gaps",  "hint",
		"",    "\"a,b\"", "\"\"\"\"",  " 7 ",   "\r",
		",",   "\n",      "\"",        "-1",
	};
	const char *word =
		words[edit_below(e, sizeof(words) / sizeof(words[0]))];

	edit_put(e, any_field(e), word, strlen(word));
}

void mutate_csv(struct edit *e)
{
	struct span at;

	switch (edit_below(e, 8)) {
	case 0:
		edit_bytes(e, any_field(e));
		break;
	case 1:
		put_word(e);
		break;
	case 2:
		edit_swap(e, any_field(e), any_field(e));
		break;
	case 3:
		edit_copy(e, any_field(e), any_field(e));
		break;
	case 4:
		edit_put(e, any_line(e), "", 0);
		break;
	case 5:
		at = any_line(e);
		at.len = 0;
		edit_copy(e, at, any_line(e));
		break;
	default:
		change_number(e);
	}
}
