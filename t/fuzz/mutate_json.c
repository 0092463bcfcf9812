/* SPDX-License-Identifier: MIT */
/* Mutations of JSON. */
#include <stdio.h>
#include <string.h>

#include "mutate.h"

#define MOST 512u  /* values, and members, that are found in a text */
#define DEEPEST 64 /* what is deeper is one value */

/* What is found in a text. A member is a key, a colon and a value. */
struct found {
	const uint8_t *text; /* the input */
	size_t at, end;
	struct span value[MOST], member[MOST], key[MOST];
	size_t values, members;
};

static void find_value(struct found *f, int depth);

static int next(struct found *f)
{
	while (f->at < f->end && strchr(" \t\r\n", f->text[f->at]) &&
	       f->text[f->at])
		f->at++;
	return f->at < f->end ? f->text[f->at] : -1;
}

static void find_string(struct found *f)
{
	for (f->at++; f->at < f->end && f->text[f->at] != '"'; f->at++)
		if (f->text[f->at] == '\\')
			f->at++;
	f->at = f->at < f->end ? f->at + 1 : f->end;
}

static void find_member(struct found *f, int depth)
{
	size_t at = f->at, n = f->members;

	find_string(f);
	if (n < MOST)
		f->key[f->members++] = (struct span){ at, f->at - at };
	if (next(f) == ':') {
		f->at++;
		find_value(f, depth);
	}
	if (n < MOST)
		f->member[n] = (struct span){ at, f->at - at };
}

/* A number or a word, or one byte of another kind. */
static void find_word(struct found *f)
{
	size_t at = f->at;

	while (f->at < f->end && f->text[f->at] &&
	       !strchr(" \t\r\n,:[]{}\"", f->text[f->at]))
		f->at++;
	if (f->at == at && f->at < f->end)
		f->at++;
}

static void find_items(struct found *f, int depth)
{
	int open = f->text[f->at++], c;

	while ((c = next(f)) >= 0 && c != ']' && c != '}') {
		if (c == ',')
			f->at++;
		else if (open == '{' && c == '"')
			find_member(f, depth + 1);
		else
			find_value(f, depth + 1);
	}
	if (f->at < f->end)
		f->at++;
}

static void find_value(struct found *f, int depth)
{
	int c = next(f);
	size_t at = f->at;

	if (c == '"')
		find_string(f);
	else if ((c == '{' || c == '[') && depth < DEEPEST)
		find_items(f, depth);
	else
		find_word(f);
	if (f->values < MOST && f->at > at)
		f->value[f->values++] = (struct span){ at, f->at - at };
}

static struct span pick(struct edit *e, const struct span *of, size_t n)
{
	return of[edit_below(e, n)];
}

static void put_text(struct edit *e, struct span at, const char *text)
{
	edit_put(e, at, text, strlen(text));
}

static void change_value(struct edit *e, struct span at)
{
	static const char *const texts[] = {
		"null",
		"true",
		"[]",
		"{}",
		"\"\"",
		"\"F32\"",
		"\"BF16\"",
		"\"U8\"",
		"\"F4\"",
		"\"F6_E2M3\"",
		"\"C64\"",
		"\"I64\"",
		"[0,0]",
		"[1,0]",
		"[0]",
		"[1,1,1,1,1,1,1,1]",
		"1e999",
		"-1",
		"2.0",
		"18446744073709551616",
		"[18446744073709551615,0]",
		"\"\\u0000\"",
		"\"\\ud83d\\ude00\"",
		"\"\\ud800\"",
		"\"../x\"",
		"\"__metadata__\"",
		"{\"a\":\"b\"}",
		"99999999999999999999999",
	};
	bool number = e->bytes[at.at] >= '0' && e->bytes[at.at] <= '9';
	uint64_t old = 0;
	char text[24];

	for (size_t i = 0; number && i < at.len; i++)
		old = old * 10 + e->bytes[at.at + i] - '0';
	if (number && !edit_one_in(e, 4)) {
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)edit_number(e, old));
		put_text(e, at, text);
	} else {
		put_text(e, at,
			 texts[edit_below(e, sizeof(texts) / sizeof(*texts))]);
	}
}

static void wrap_value(struct edit *e, struct span at)
{
	struct span end = { at.at + at.len, 0 }, begin = { at.at, 0 };
	size_t n = edit_one_in(e, 4) ? 130 : 1 + edit_below(e, 3);

	if (e->max - e->n < 2 * n)
		return;
	for (size_t i = 0; i < n; i++) {
		put_text(e, end, "]");
		put_text(e, begin, "[");
		end.at++;
	}
}

static void change_member(struct edit *e, const struct found *f)
{
	struct span a = pick(e, f->member, f->members);
	struct span b = pick(e, f->member, f->members);
	struct span before = { b.at, 0 };

	switch (edit_below(e, 4)) {
	case 0: /* twice */
		if (edit_copy(e, before, a))
			put_text(e, (struct span){ b.at + a.len, 0 }, ",");
		break;
	case 1: /* not at all */
		if (a.at + a.len < f->end && f->text[a.at + a.len] == ',')
			a.len++;
		edit_put(e, a, "", 0);
		break;
	case 2:
		edit_swap(e, a, b);
		break;
	default:
		edit_copy(e, pick(e, f->key, f->members),
			  pick(e, f->key, f->members));
	}
}

void mutate_json(struct edit *e, struct span at)
{
	struct span a, b;
	struct found f;

	f.text = e->bytes;
	f.at = at.at;
	f.end = at.at + at.len;
	f.values = f.members = 0;
	find_value(&f, 0);
	if (!f.values || edit_one_in(e, 12)) {
		edit_bytes(e, at);
		return;
	}
	a = pick(e, f.value, f.values);
	b = pick(e, f.value, f.values);
	switch (edit_below(e, 8)) {
	case 0:
		edit_copy(e, a, b);
		break;
	case 1:
		edit_swap(e, a, b);
		break;
	case 2:
		edit_bytes(e, a);
		break;
	case 3:
		wrap_value(e, a);
		break;
	case 4:
	case 5:
		if (f.members)
			change_member(e, &f);
		else
			change_value(e, a);
		break;
	default:
		change_value(e, a);
	}
}
