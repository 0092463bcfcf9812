/* SPDX-License-Identifier: MIT */
#include "pre_tokenizers.h"

#include <string.h>

#include "chars.h"
#include "utf8.h"

/* A character of the text; n is 0 at the end. */
struct look {
	uint32_t c;
	enum char_class class;
	unsigned n;
};

static struct look look(const unsigned char *at, const unsigned char *end)
{
	struct look l = { 0, CHAR_OTHER, 0 };

	if (at == end)
		return l;
	l.n = utf8_get(at, &l.c);
	l.class = chars_class(l.c);
	return l;
}

static bool is_newline(struct look l)
{
	return l.c == '\n' || l.c == '\r';
}

/*
 * Return the letter of a contraction. U+017F is an 's' where case does not
 * matter.
 */
static unsigned contraction_letter(struct look l, bool any_case)
{
	if (any_case && l.c == 0x17f)
		return 's';
	return any_case && l.c < 128 ? l.c | 0x20 : l.c;
}

/* 's|'t|'re|'ve|'m|'ll|'d: its end, or NULL. */
static const unsigned char *contraction(const unsigned char *at,
					const unsigned char *end, bool any_case)
{
	struct look one, two;
	unsigned a, b;

	if (*at != '\'')
		return NULL;
	one = look(at + 1, end);
	a = contraction_letter(one, any_case);
	if (!a || a >= 128 || !strchr("stmdrvl", (int)a))
		return NULL;
	if (strchr("stmd", (int)a))
		return at + 1 + one.n;
	two = look(at + 1 + one.n, end);
	b = contraction_letter(two, any_case);
	return two.n && b == (a == 'l' ? 'l' : 'e') ? at + 1 + one.n + two.n
						    : NULL;
}

static const unsigned char *skip_class(const unsigned char *at,
				       const unsigned char *end,
				       enum char_class class)
{
	struct look l;

	while ((l = look(at, end)).n && l.class == class)
		at += l.n;
	return at;
}

/* \s+(?!\S)|\s+ */
static const unsigned char *white_space(const unsigned char *at,
					const unsigned char *end)
{
	const unsigned char *last = at;
	struct look l;

	for (const unsigned char *p = at; (l = look(p, end)).n; p += l.n) {
		if (l.class != CHAR_SPACE)
			return last == at ? p : last;
		last = p;
	}
	return end;
}

/* [^\s\p{L}\p{N}] */
static bool is_symbol(struct look l)
{
	return l.n && l.class != CHAR_SPACE && l.class != CHAR_LETTER &&
	       l.class != CHAR_NUMBER;
}

/*
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 */
const unsigned char *split_gpt2(const unsigned char *at,
				const unsigned char *end)
{
	const unsigned char *p = contraction(at, end, false);
	struct look l;

	if (p)
		return p;
	p = at + (*at == ' ');
	l = look(p, end);
	if (!l.n || l.class == CHAR_SPACE)
		return white_space(at, end);
	if (!is_symbol(l))
		return skip_class(p, end, l.class);
	while (is_symbol(l = look(p, end)))
		p += l.n;
	return p;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ */
static const unsigned char *lines(const unsigned char *at,
				  const unsigned char *end)
{
	const unsigned char *after = NULL;
	struct look l;

	for (const unsigned char *p = at;
	     (l = look(p, end)).n && l.class == CHAR_SPACE; p += l.n)
		if (is_newline(l))
			after = p + l.n;
	return after ? after : white_space(at, end);
}

/* [^\r\n\p{L}\p{N}]?\p{L}+: its end, or NULL. */
static const unsigned char *letters(const unsigned char *at,
				    const unsigned char *end)
{
	struct look l = look(at, end);

	if (l.class != CHAR_LETTER) {
		if (is_newline(l) || l.class == CHAR_NUMBER)
			return NULL;
		at += l.n;
		if (look(at, end).class != CHAR_LETTER)
			return NULL;
	}
	return skip_class(at, end, CHAR_LETTER);
}

/* ` ?[^\s\p{L}\p{N}]+[\r\n]*`, or with [\r\n/]*: its end, or NULL. */
static const unsigned char *symbols(const unsigned char *at,
				    const unsigned char *end, bool slashes)
{
	const unsigned char *begin = at + (*at == ' ');
	const unsigned char *p = begin;
	struct look l;

	while (is_symbol(l = look(p, end)))
		p += l.n;
	if (p == begin)
		return NULL;
	while (is_newline(l = look(p, end)) || (slashes && l.c == '/'))
		p += l.n;
	return p;
}

/*
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
 *  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static const unsigned char *
split_modern(const unsigned char *at, const unsigned char *end, unsigned digits)
{
	const unsigned char *p = contraction(at, end, true);
	struct look l;

	if (!p)
		p = letters(at, end);
	if (p)
		return p;
	for (p = at; digits && (l = look(p, end)).n; digits--) {
		if (l.class != CHAR_NUMBER)
			break;
		p += l.n;
	}
	if (p != at)
		return p;
	p = symbols(at, end, false);
	return p ? p : lines(at, end);
}

static const unsigned char *split_llama3(const unsigned char *at,
					 const unsigned char *end)
{
	return split_modern(at, end, 3);
}

static const unsigned char *split_qwen2(const unsigned char *at,
					const unsigned char *end)
{
	return split_modern(at, end, 1);
}

/*
 * [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+: its end, or NULL.
 * If no lower case follows the first set, the second has the last character of
 * it that has no case.
 */
static const unsigned char *cased(const unsigned char *at,
				  const unsigned char *end)
{
	const unsigned char *last = NULL;
	enum char_class class = CHAR_OTHER;
	struct look l;

	for (; (l = look(at, end)).n; at += l.n) {
		class = chars_case(l.c);
		if (class == CHAR_LETTER || class == CHAR_MARK)
			last = at + l.n;
		else if (class != CHAR_UPPER)
			break;
	}
	if (!l.n || class != CHAR_LOWER)
		return last;
	while ((l = look(at, end)).n && chars_case(l.c) != CHAR_UPPER &&
	       (l.class == CHAR_LETTER || l.class == CHAR_MARK))
		at += l.n;
	return at;
}

/*
 * With U for [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L for [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
 * [^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L*|\p{N}|
 *  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static const unsigned char *split_tekken(const unsigned char *at,
					 const unsigned char *end)
{
	struct look l = look(at, end);
	bool first = !is_newline(l) && l.class != CHAR_LETTER &&
		     l.class != CHAR_NUMBER;
	const unsigned char *begin = first ? at + l.n : at, *p;

	p = cased(begin, end);
	if (!p)
		p = cased(at, end);
	if (p)
		return p;
	/* All letters that follow are upper case. */
	for (p = begin; (l = look(p, end)).n && l.class == CHAR_LETTER;)
		p += l.n;
	if (p != begin)
		return p;
	l = look(at, end);
	if (l.class == CHAR_NUMBER)
		return at + l.n;
	p = symbols(at, end, true);
	return p ? p : lines(at, end);
}

/* \p{N} and the text between */
const unsigned char *split_number(const unsigned char *at,
				  const unsigned char *end)
{
	struct look l = look(at, end);

	if (l.class == CHAR_NUMBER)
		return at + l.n;
	while ((l = look(at, end)).n && l.class != CHAR_NUMBER)
		at += l.n;
	return at;
}

/* \p{N}+ and the text between */
const unsigned char *split_numbers(const unsigned char *at,
				   const unsigned char *end)
{
	if (look(at, end).class == CHAR_NUMBER)
		return skip_class(at, end, CHAR_NUMBER);
	return split_number(at, end);
}

/* [\p{P}\$\+<=>\^~\|]+ and what is between */
static const unsigned char *split_punct(const unsigned char *at,
					const unsigned char *end)
{
	bool in_first = false;
	struct look l;

	for (const unsigned char *p = at; (l = look(p, end)).n; p += l.n) {
		bool in = l.class == CHAR_PUNCT ||
			  (l.c && l.c < 128 && strchr("$+<=>^~|", (int)l.c));

		if (p == at)
			in_first = in;
		else if (in != in_first)
			return p;
	}
	return end;
}

static bool three_digits(const unsigned char *at, const unsigned char *end)
{
	for (unsigned i = 0; i < 3; i++, at++)
		if (at == end || *at < '0' || *at > '9')
			return false;
	return true;
}

/* [0-9][0-9][0-9] and the text between */
static const unsigned char *split_three(const unsigned char *at,
					const unsigned char *end)
{
	if (three_digits(at, end))
		return at + 3;
	while (at < end && !three_digits(at, end))
		at++;
	return at;
}

#define GPT2                       \
	{                          \
		{                  \
			split_gpt2 \
		}                  \
	}
#define DIGITS                                   \
	{                                        \
		{                                \
			split_number, split_gpt2 \
		}                                \
	}
#define LLAMA3                       \
	{                            \
		{                    \
			split_llama3 \
		}                    \
	}
#define QWEN2                       \
	{                           \
		{                   \
			split_qwen2 \
		}                   \
	}

/* The types of models whose architecture is llama, qwen2 or qwen3. */
static const struct split_type types[] = {
	{ "default",
	  { { split_punct, split_gpt2, split_numbers, split_three } },
	  false,
	  false },
	{ "llama-bpe", LLAMA3, true, true },
	{ "llama3", LLAMA3, true, true },
	{ "llama-v3", LLAMA3, true, true },
	{ "falcon3", LLAMA3, true, true },
	{ "pixtral", LLAMA3, true, true },
	{ "tekken", { { split_tekken } }, true, true },
	{ "smaug-bpe", LLAMA3, false, false },
	{ "gpt-2", GPT2, false, false },
	{ "qwen2", QWEN2, false, false },
	{ "deepseek-r1-qwen", QWEN2, false, false },
	{ "megrez", QWEN2, false, false },
	{ "refact", DIGITS, false, false },
	{ "smollm", DIGITS, false, false },
	{ "minerva-7b", DIGITS, false, false },
};

const struct split_type *split_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	return NULL;
}

#define CASELESS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define REST                                                         \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|" \
	"\\s+"

static const struct {
	const char *regex;
	split_fn *fn;
} regexes[] = {
	{ CASELESS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST,
	  split_llama3 },
	{ CASELESS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST, split_qwen2 },
	{ "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
	  "\\s+(?!\\S)|\\s+",
	  split_gpt2 },
	{ "\\p{N}", split_number },
	{ "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
	  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
	  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
	  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"
	  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|"
	  "\\s+",
	  split_tekken },
};

split_fn *split_by_regex(const char *regex, size_t len)
{
	for (size_t i = 0; i < sizeof(regexes) / sizeof(regexes[0]); i++)
		if (strlen(regexes[i].regex) == len &&
		    !memcmp(regexes[i].regex, regex, len))
			return regexes[i].fn;
	return NULL;
}

const char *split_name(const struct split *split, bool whole_words)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].whole_words == whole_words &&
		    !memcmp(&types[i].split, split, sizeof(*split)))
			return types[i].name;
	return NULL;
}

const char *split_regex(split_fn *fn)
{
	for (size_t i = 0; i < sizeof(regexes) / sizeof(regexes[0]); i++)
		if (regexes[i].fn == fn)
			return regexes[i].regex;
	return NULL;
}
