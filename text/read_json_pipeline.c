/* SPDX-License-Identifier: MIT */
/* The normalizer and the pre-tokenizer of a tokenizer.json. */
#include <errno.h>
#include <string.h>

#include "read_json.h"

#define MARK "\xe2\x96\x81"

int text_json_unsupported(const struct json *j, const char *what,
			  const struct json_string *name)
{
	return text_fail(-EOPNOTSUPP,
			 "%s: byte %zu: %s '%.*s' is not supported", j->file,
			 (size_t)(j->at - j->begin), what,
			 name->len > 200 ? 200 : (int)name->len,
			 (const char *)name->s);
}

int text_json_members(struct json *j, const char *const *names, size_t n,
		      struct json *ret_member)
{
	struct json_string name;
	int r = text_json_enter(j, '{');

	memset(ret_member, 0, n * sizeof(*ret_member));
	while (r >= 0 && (r = text_json_member_raw(j, &name)) > 0) {
		bool null = text_json_peek(j) == 'n';

		for (size_t i = 0; i < n; i++)
			if (!null && text_json_is(&name, names[i]))
				ret_member[i] = *j;
		r = text_json_skip(j);
	}
	return r;
}

int text_json_type(const struct json *j, struct json_string *ret_type)
{
	static const char *const names[] = { "type" };
	static unsigned char nothing[1];
	struct json member, copy = *j;
	int r = text_json_members(&copy, names, 1, &member);

	*ret_type = (struct json_string){ nothing, 0 };
	if (!r && member.at)
		r = text_json_raw(&member, ret_type);
	return r;
}

int text_json_each(struct json *j,
		   int (*fn)(struct tokenizer *t, struct json *j),
		   struct tokenizer *t)
{
	int r = text_json_enter(j, '[');

	while (r >= 0 && (r = text_json_element(j)) > 0) {
		struct json item = *j;

		/*
		 * @fn may decode strings, which cannot be skipped afterwards.
		 */
		r = text_json_skip(j);
		if (!r)
			r = fn(t, &item);
	}
	return r;
}

/* Read a Sequence: its member @name is an array of steps. */
static int read_sequence(struct tokenizer *t, struct json *j, const char *name,
			 int (*fn)(struct tokenizer *t, struct json *j))
{
	struct json steps;
	int r = text_json_members(j, &name, 1, &steps);

	if (r < 0)
		return r;
	return steps.at ? text_json_each(&steps, fn, t)
			: text_json_fail(j, "the steps of a sequence");
}

/* Read the member of an object that is there, as a string. */
static int read_string(struct json *j, const struct json *member,
		       struct json_string *ret_s)
{
	struct json copy = *member;

	return copy.at ? text_json_string(&copy, ret_s)
		       : text_json_fail(j, "an object with another member");
}

static int read_prepend(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "prepend" };
	struct json_string text;
	struct json member;
	int r = text_json_members(j, names, 1, &member);

	if (!r)
		r = read_string(j, &member, &text);
	if (r < 0)
		return r;
	if (!text_json_is(&text, MARK))
		return text_json_unsupported(j, "the prefix", &text);
	t->prefix = PREFIX_EACH;
	t->normal_prefix = true;
	return 0;
}

/* Check that a space, and nothing else, is replaced by the mark U+2581. */
static int read_replace(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "pattern", "content" };
	static const char *const pattern_names[] = { "String" };
	struct json_string from, to;
	struct json member[2], pattern;
	int r = text_json_members(j, names, 2, member);

	if (!r)
		r = read_string(j, &member[1], &to);
	if (!r && !member[0].at)
		r = text_json_fail(j, "an object with a pattern");
	if (!r)
		r = text_json_members(&member[0], pattern_names, 1, &pattern);
	if (!r)
		r = read_string(j, &pattern, &from);
	if (r < 0)
		return r;
	if (!text_json_is(&from, " ") || !text_json_is(&to, MARK))
		return text_json_unsupported(j, "the replacement of", &from);
	t->marks = t->normal_marks = true;
	return 0;
}

int read_normalizer(struct tokenizer *t, struct json *j)
{
	struct json_string type;
	int r = text_json_type(j, &type);

	if (r < 0)
		return r;
	if (text_json_is(&type, "Sequence"))
		return read_sequence(t, j, "normalizers", read_normalizer);
	if (text_json_is(&type, "Prepend"))
		return read_prepend(t, j);
	if (text_json_is(&type, "Replace"))
		return read_replace(t, j);
	if (!text_json_is(&type, "NFC"))
		return text_json_unsupported(j, "the normalizer", &type);
	t->nfc = true;
	return 0;
}

static int add_stage(struct tokenizer *t, struct json *j, split_fn *fn)
{
	for (size_t i = 0; i < SPLIT_STAGES; i++) {
		if (t->split.stage[i])
			continue;
		t->split.stage[i] = fn;
		return 0;
	}
	return text_json_fail(j, "fewer pre-tokenizers");
}

static int read_byte_level(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "add_prefix_space", "use_regex" };
	bool prefix = true, regex = true;
	struct json member[2];
	int r = text_json_members(j, names, 2, member);

	if (!r && member[0].at)
		r = text_json_bool(&member[0], &prefix);
	if (!r && member[1].at)
		r = text_json_bool(&member[1], &regex);
	if (r < 0)
		return r;
	t->byte_level = true;
	t->prefix_if_none = true;
	t->prefix = prefix ? PREFIX_EACH : PREFIX_NEVER;
	return regex ? add_stage(t, j, split_gpt2) : 0;
}

static int read_digits(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "individual_digits" };
	struct json member;
	bool each = false;
	int r = text_json_members(j, names, 1, &member);

	if (!r && member.at)
		r = text_json_bool(&member, &each);
	if (r < 0)
		return r;
	return add_stage(t, j, each ? split_number : split_numbers);
}

/* Pieces that match stay whole, and so does what is between them. */
static bool isolates(const struct json_string *behavior, bool invert)
{
	return text_json_is(behavior, invert ? "Removed" : "Isolated");
}

static int read_regex(struct tokenizer *t, struct json *j, struct json *pattern)
{
	static const char *const names[] = { "Regex", "String" };
	struct json_string text;
	struct json member[2];
	split_fn *fn;
	int r = text_json_members(pattern, names, 2, member);

	if (r < 0)
		return r;
	/* There are no spaces any more: the normalizer has replaced them. */
	if (member[1].at && t->marks && !text_json_string(&member[1], &text) &&
	    text_json_is(&text, " "))
		return 0;
	r = read_string(j, &member[0], &text);
	if (r < 0)
		return r;
	fn = split_by_regex((const char *)text.s, text.len);
	return fn ? add_stage(t, j, fn)
		  : text_json_unsupported(j, "the regular expression", &text);
}

static int read_split(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "pattern", "behavior", "invert" };
	struct json_string behavior;
	bool invert = false;
	struct json member[3];
	int r = text_json_members(j, names, 3, member);

	if (!r)
		r = read_string(j, &member[1], &behavior);
	if (!r && member[2].at)
		r = text_json_bool(&member[2], &invert);
	if (!r && !member[0].at)
		r = text_json_fail(j, "an object with a pattern");
	if (r < 0)
		return r;
	if (!isolates(&behavior, invert) && !t->marks)
		return text_json_unsupported(j, "the behaviour", &behavior);
	return read_regex(t, j, &member[0]);
}

static int read_scheme(struct tokenizer *t, struct json *member)
{
	struct json_string scheme;
	int r = text_json_string(member, &scheme);

	if (r < 0)
		return r;
	if (text_json_is(&scheme, "never"))
		t->prefix = PREFIX_NEVER;
	else if (text_json_is(&scheme, "first"))
		t->prefix = PREFIX_START;
	else if (!text_json_is(&scheme, "always"))
		return text_json_unsupported(member, "the scheme", &scheme);
	return 0;
}

static int read_metaspace(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "prepend_scheme", "split",
					     "add_prefix_space",
					     "replacement" };
	struct json_string mark;
	bool split = true, prefix = true;
	struct json member[4];
	int r = text_json_members(j, names, 4, member);

	if (!r)
		r = read_string(j, &member[3], &mark);
	if (!r && !text_json_is(&mark, MARK))
		r = text_json_unsupported(j, "the mark for a space", &mark);
	if (!r && member[2].at)
		r = text_json_bool(&member[2], &prefix);
	t->marks = t->prefix_if_none = true;
	t->prefix = prefix ? PREFIX_EACH : PREFIX_NEVER;
	if (!r && member[0].at)
		r = read_scheme(t, &member[0]);
	if (!r && member[1].at)
		r = text_json_bool(&member[1], &split);
	t->each_space = split;
	return r;
}

int read_pre_tokenizer(struct tokenizer *t, struct json *j)
{
	struct json_string type;
	int r = text_json_type(j, &type);

	if (r < 0)
		return r;
	if (text_json_is(&type, "Sequence"))
		return read_sequence(t, j, "pretokenizers", read_pre_tokenizer);
	if (text_json_is(&type, "ByteLevel"))
		return read_byte_level(t, j);
	if (text_json_is(&type, "Split"))
		return read_split(t, j);
	if (text_json_is(&type, "Digits"))
		return read_digits(t, j);
	if (text_json_is(&type, "Metaspace"))
		return read_metaspace(t, j);
	return text_json_unsupported(j, "the pre-tokenizer", &type);
}
