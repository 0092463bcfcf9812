/* SPDX-License-Identifier: MIT */
#include "core/numa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned weir__nodes_count(const struct weir__nodes *set)
{
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(set->word) / sizeof(set->word[0]); i++)
		n += (unsigned)__builtin_popcountl(set->word[i]);
	return n;
}

unsigned weir__nodes_next(const struct weir__nodes *set, unsigned n)
{
	while (n < WEIR__NODES && !weir__nodes_has(set, n))
		n++;
	return n;
}

int32_t weir__nodes_only(const struct weir__nodes *set)
{
	return weir__nodes_count(set) == 1 ? (int32_t)weir__nodes_next(set, 0)
					   : -1;
}

bool weir__nodes_equal(const struct weir__nodes *a, const struct weir__nodes *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool weir__nodes_meet(const struct weir__nodes *a, const struct weir__nodes *b)
{
	for (size_t i = 0; i < sizeof(a->word) / sizeof(a->word[0]); i++)
		if (a->word[i] & b->word[i])
			return true;
	return false;
}

/* A number below WEIR__NODES at *@text, which is moved past it. */
static bool parse_node(const char **text, unsigned *ret_n)
{
	unsigned long n;
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	n = strtoul(*text, &end, 10);
	*text = end;
	*ret_n = (unsigned)n;
	return n < WEIR__NODES;
}

static bool parse_range(const char **text, struct weir__nodes *set)
{
	unsigned from, to;

	if (!parse_node(text, &from))
		return false;
	to = from;
	if (**text == '-') {
		++*text;
		if (!parse_node(text, &to) || to < from)
			return false;
	}
	for (unsigned n = from; n <= to; n++)
		weir__nodes_add(set, n);
	return true;
}

bool weir__nodes_parse(const char *text, struct weir__nodes *ret_set)
{
	struct weir__nodes set = { { 0 } };

	while (*text && *text != '\n') {
		if (!parse_range(&text, &set))
			return false;
		if (*text == ',' && isdigit((unsigned char)text[1]))
			text++;
		else if (*text && *text != '\n')
			return false;
	}
	*ret_set = set;
	return true;
}

const char *weir__nodes_text(const struct weir__nodes *set, char *buf)
{
	size_t room = WEIR__NODES_TEXT, at;
	unsigned from, to;

	at = (size_t)snprintf(buf, room, "node%s",
			      weir__nodes_count(set) == 1 ? "" : "s");
	for (from = weir__nodes_next(set, 0); from < WEIR__NODES;
	     from = weir__nodes_next(set, to + 1)) {
		char sep = buf[at - 1] == 'e' || buf[at - 1] == 's' ? ' ' : ',';

		for (to = from;
		     to + 1 < WEIR__NODES && weir__nodes_has(set, to + 1);)
			to++;
		if (room - at < 16)
			break;
		at += (size_t)snprintf(buf + at, room - at,
				       from == to ? "%c%u" : "%c%u-%u", sep,
				       from, to);
	}
	if (from < WEIR__NODES)
		snprintf(buf + at, room - at, ",...");
	return buf;
}
