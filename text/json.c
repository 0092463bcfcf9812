/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <errno.h>
#include <string.h>

#include "error.h"
#include "utf8.h"

void text_json_init(struct json *j, const char *file, unsigned char *text,
		    size_t n)
{
	*j = (struct json){ file, text, text, text + n, 0, false };
}

int text_json_fail(struct json *j, const char *expected)
{
	return text_fail(-EBADMSG, "%s: byte %zu: expected %s", j->file,
			 (size_t)(j->at - j->begin), expected);
}

bool text_json_is(const struct json_string *s, const char *literal)
{
	return s->len == strlen(literal) && !memcmp(s->s, literal, s->len);
}

unsigned char text_json_peek(struct json *j)
{
	while (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' ||
	       *j->at == '\t')
		j->at++;
	return *j->at;
}

int text_json_enter(struct json *j, char open)
{
	if (text_json_peek(j) != (unsigned char)open)
		return text_json_fail(j,
				      open == '{' ? "an object" : "an array");
	if (j->depth == JSON_DEPTH)
		return text_json_fail(j, "fewer levels");
	j->at++;
	j->depth++;
	j->first = true;
	return 0;
}

static int json_next(struct json *j, char close)
{
	unsigned char c = text_json_peek(j);
	bool first = j->first;

	j->first = false;
	if (c == (unsigned char)close) {
		j->at++;
		j->depth--;
		return 0;
	}
	if (first)
		return 1;
	if (c != ',')
		return text_json_fail(j, close == '}' ? "',' or '}'"
						      : "',' or ']'");
	j->at++;
	return 1;
}

/* Skip a ':'. */
static int json_colon(struct json *j)
{
	if (text_json_peek(j) != ':')
		return text_json_fail(j, "':'");
	j->at++;
	return 1;
}

int text_json_member(struct json *j, struct json_string *ret_name)
{
	int r = json_next(j, '}');

	if (r <= 0)
		return r;
	r = text_json_string(j, ret_name);
	return r < 0 ? r : json_colon(j);
}

int text_json_member_raw(struct json *j, struct json_string *ret_name)
{
	int r = json_next(j, '}');

	if (r <= 0)
		return r;
	r = text_json_raw(j, ret_name);
	return r < 0 ? r : json_colon(j);
}

int text_json_element(struct json *j)
{
	return json_next(j, ']');
}

/*
 * Return the value of the four hexadecimal digits at @p, or -1. Nothing is read
 * after a byte that is not a digit.
 */
static int32_t hex4(const unsigned char *p)
{
	int32_t n = 0;

	for (unsigned i = 0; i < 4; i++) {
		unsigned char c = p[i] | 0x20;

		if (c >= '0' && c <= '9' && p[i] >= '0')
			n = n * 16 + c - '0';
		else if (c >= 'a' && c <= 'f')
			n = n * 16 + c - 'a' + 10;
		else
			return -1;
	}
	return n;
}

/* Decode \uXXXX at @p, or two of them that are surrogates. */
static int32_t json_unicode(const unsigned char *p, unsigned *ret_n)
{
	int32_t c = hex4(p + 2), low;

	*ret_n = 6;
	if (c < 0xd800 || c > 0xdfff)
		return c;
	if (c > 0xdbff || p[6] != '\\' || p[7] != 'u')
		return -1;
	low = hex4(p + 8);
	if (low < 0xdc00 || low > 0xdfff)
		return -1;
	*ret_n = 12;
	return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

/* Decode the escape at j->at to @to, which may be the same place. */
static int json_escape(struct json *j, unsigned char **to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;
	unsigned n;
	int32_t c;

	if (j->at[1] == 'u') {
		c = json_unicode(j->at, &n);
		if (c < 0)
			return text_json_fail(j, "a character after '\\u'");
		*to += utf8_put(*to, (uint32_t)c);
		j->at += n;
		return 0;
	}
	name = j->at[1] ? strchr(names, j->at[1]) : NULL;
	if (!name)
		return text_json_fail(j, "an escape");
	*(*to)++ = (unsigned char)values[name - names];
	j->at += 2;
	return 0;
}

/* Copy ASCII up to a quote or an escape. */
static void json_plain(struct json *j, unsigned char **to)
{
	const unsigned char *from = j->at, *p = from;

	while (*p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
		p++;
	if (*to != from)
		memmove(*to, from, (size_t)(p - from));
	*to += p - from;
	j->at += p - from;
}

static int json_character(struct json *j, unsigned char **to)
{
	size_t left = (size_t)(j->end - j->at);
	unsigned n = *j->at < 0x20 ? 0 : utf8_begun(j->at, left);

	if (!n || n < utf8_bytes(*j->at))
		return text_json_fail(j, "UTF-8 text and '\"'");
	while (n--)
		*(*to)++ = *j->at++;
	return 0;
}

/* Decode a string in place. */
int text_json_string(struct json *j, struct json_string *ret_s)
{
	unsigned char *to;
	int r = 0;

	if (text_json_peek(j) != '"')
		return text_json_fail(j, "a string");
	to = ++j->at;
	ret_s->s = to;
	for (json_plain(j, &to); !r && *j->at != '"'; json_plain(j, &to))
		r = *j->at == '\\' ? json_escape(j, &to)
				   : json_character(j, &to);
	if (r < 0)
		return r;
	ret_s->len = (size_t)(to - ret_s->s);
	j->at++;
	return 0;
}

int text_json_raw(struct json *j, struct json_string *ret_s)
{
	int r = 0;

	if (text_json_peek(j) != '"')
		return text_json_fail(j, "a string");
	ret_s->s = ++j->at;
	while (!r) {
		unsigned char ignored[4], *to = j->at;

		json_plain(j, &to); /* in place: nothing moves */
		if (*j->at == '"')
			break;
		to = ignored;
		r = *j->at == '\\' ? json_escape(j, &to)
				   : json_character(j, &to);
	}
	if (r < 0)
		return r;
	ret_s->len = (size_t)(j->at - ret_s->s);
	j->at++;
	return 0;
}

int text_json_id(struct json *j, uint32_t *ret_value)
{
	uint64_t n = 0;
	unsigned char c = text_json_peek(j);

	if (c < '0' || c > '9' ||
	    (c == '0' && j->at[1] >= '0' && j->at[1] <= '9'))
		return text_json_fail(j, "a whole number");
	for (; *j->at >= '0' && *j->at <= '9'; j->at++) {
		n = n * 10 + (*j->at - '0');
		if (n > INT32_MAX)
			return text_json_fail(j, "a number below 2^31");
	}
	if (*j->at == '.' || *j->at == 'e' || *j->at == 'E')
		return text_json_fail(j, "a whole number");
	*ret_value = (uint32_t)n;
	return 0;
}

static bool json_literal(struct json *j, const char *literal)
{
	size_t n = strlen(literal);

	if (strncmp((const char *)j->at, literal, n))
		return false;
	j->at += n;
	return true;
}

int text_json_bool(struct json *j, bool *ret_value)
{
	text_json_peek(j);
	*ret_value = json_literal(j, "true");
	if (*ret_value || json_literal(j, "false") || json_literal(j, "null"))
		return 0;
	return text_json_fail(j, "true or false");
}

static bool json_digits(struct json *j)
{
	unsigned char *from = j->at;

	while (*j->at >= '0' && *j->at <= '9')
		j->at++;
	return j->at > from;
}

static int json_number(struct json *j)
{
	bool right;

	j->at += *j->at == '-';
	right = json_digits(j);
	if (right && *j->at == '.') {
		j->at++;
		right = json_digits(j);
	}
	if (right && (*j->at | 0x20) == 'e') {
		j->at++;
		j->at += *j->at == '-' || *j->at == '+';
		right = json_digits(j);
	}
	return right ? 0 : text_json_fail(j, "a value");
}

static int json_skip_object(struct json *j)
{
	struct json_string ignored;
	int r = text_json_enter(j, '{');

	while (r >= 0 && (r = text_json_member_raw(j, &ignored)) > 0)
		r = text_json_skip(j);
	return r;
}

static int json_skip_array(struct json *j)
{
	int r = text_json_enter(j, '[');

	while (r >= 0 && (r = text_json_element(j)) > 0)
		r = text_json_skip(j);
	return r;
}

int text_json_skip(struct json *j)
{
	struct json_string ignored;

	switch (text_json_peek(j)) {
	case '{':
		return json_skip_object(j);
	case '[':
		return json_skip_array(j);
	case '"':
		return text_json_raw(j, &ignored);
	default:
		if (json_literal(j, "true") || json_literal(j, "false") ||
		    json_literal(j, "null"))
			return 0;
		return json_number(j);
	}
}

int text_json_finish(struct json *j)
{
	text_json_peek(j);
	return j->at == j->end ? 0 : text_json_fail(j, "the end of the file");
}
