/* SPDX-License-Identifier: MIT */
#include "model/format/json.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "model/format/utf8.h"

void weir__json_init(struct weir__json *j, const char *file, uint64_t base,
		     char *text, size_t len)
{
	*j = (struct weir__json){
		.file = file,
		.base = base,
		.text = (unsigned char *)text,
		.at = (unsigned char *)text,
		.end = (unsigned char *)text + len,
	};
}

__attribute__((format(printf, 3, 0))) static int
vfail(const struct weir__json *j, const unsigned char *at, const char *fmt,
      va_list ap)
{
	unsigned long long byte = j->base + (uint64_t)(at - j->text);
	char text[256];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (!j->kind)
		return weir__fail(-EBADMSG, "%s: byte %llu: %s", j->file, byte,
				  text);
	return weir__fail(-EBADMSG, "%s: byte %llu, in %s '%s': %s", j->file,
			  byte, j->kind, weir__quote(j->name.s, j->name.len),
			  text);
}

__attribute__((format(printf, 3, 4))) static int
fail_at(const struct weir__json *j, const unsigned char *at, const char *fmt,
	...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = vfail(j, at, fmt, ap);
	va_end(ap);
	return r;
}

int weir__json_fail(struct weir__json *j, const char *fmt, ...)
{
	va_list ap;
	int r;

	weir__json_peek(j);
	va_start(ap, fmt);
	r = vfail(j, j->at, fmt, ap);
	va_end(ap);
	return r;
}

struct found {
	char text[16];
};

/* Describe the next byte in a sentence. */
static struct found found(const struct weir__json *j)
{
	unsigned char c = *j->at;
	struct found f;

	if (j->at == j->end)
		snprintf(f.text, sizeof(f.text), "the end");
	else if (c > 0x20 && c < 0x7f)
		snprintf(f.text, sizeof(f.text), "'%c'", c);
	else
		snprintf(f.text, sizeof(f.text), "byte 0x%02x", c);
	return f;
}

static int fail_expected(const struct weir__json *j, const char *what)
{
	return fail_at(j, j->at, "expected %s, found %s", what, found(j).text);
}

unsigned char weir__json_peek(struct weir__json *j)
{
	/* weir__json_is_space, written out: gcc makes fewer branches of it. */
	while (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' ||
	       *j->at == '\t')
		j->at++;
	return *j->at;
}

int weir__json_enter(struct weir__json *j, char open)
{
	if (weir__json_peek(j) != (unsigned char)open)
		return fail_expected(j, open == '{' ? "'{'" : "'['");
	if (j->depth == WEIR__JSON_DEPTH)
		return fail_at(j, j->at, "nested deeper than %u levels",
			       WEIR__JSON_DEPTH);
	j->at++;
	j->depth++;
	j->fresh = true;
	return 0;
}

/* Go to the next item of a container and return 1, or leave it and return 0. */
static int next(struct weir__json *j, char close, const char *what)
{
	unsigned char c = weir__json_peek(j);
	bool first = j->fresh;

	j->fresh = false;
	if (c == (unsigned char)close) {
		j->at++;
		j->depth--;
		return 0;
	}
	if (first)
		return 1;
	if (c != ',')
		return fail_expected(j, what);
	j->at++;
	return 1;
}

int weir__json_member(struct weir__json *j, struct weir__str *ret_name)
{
	int r = next(j, '}', "',' or '}'");

	if (r <= 0)
		return r;
	r = weir__json_string(j, ret_name);
	if (r < 0)
		return r;
	if (weir__json_peek(j) != ':')
		return fail_expected(j, "':'");
	j->at++;
	return 1;
}

int weir__json_element(struct weir__json *j)
{
	return next(j, ']', "',' or ']'");
}

static int hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Return the value of four hexadecimal digits, or -1 if they are not
 * hexadecimal.
 */
static int hex4(const unsigned char *p)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int d = hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

static unsigned char *put_utf8(unsigned char *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (unsigned char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (unsigned char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		*out++ = (unsigned char)(0xe0 | c >> 12);
		*out++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
	} else {
		*out++ = (unsigned char)(0xf0 | c >> 18);
		*out++ = (unsigned char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
	}
	*out++ = (unsigned char)(0x80 | (c & 0x3f));
	return out;
}

/* Decode \uXXXX at *p, or the two of them that are a surrogate pair. */
static int unicode_escape(const struct weir__json *j, unsigned char **p,
			  unsigned char **out)
{
	int c = hex4(*p + 2), low;

	if (c < 0)
		return fail_at(j, *p, "\\u needs four hexadecimal digits");
	if (c >= 0xd800 && c < 0xe000) {
		low = (*p)[6] == '\\' && (*p)[7] == 'u' ? hex4(*p + 8) : -1;
		if (c >= 0xdc00 || low < 0xdc00 || low >= 0xe000)
			return fail_at(j, *p, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		*p += 6;
	}
	*out = put_utf8(*out, (unsigned)c);
	*p += 6;
	return 0;
}

static int json_escape(const struct weir__json *j, unsigned char **p,
		       unsigned char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	unsigned char c = (*p)[1];
	const char *hit;

	if (c == 'u')
		return unicode_escape(j, p, out);
	hit = c ? strchr(from, c) : NULL;
	if (!hit)
		return fail_at(j, *p, "not an escape that JSON has");
	*(*out)++ = (unsigned char)to[hit - from];
	*p += 2;
	return 0;
}

/* Decode the character at *p, which is an escape, not ASCII, or an error. */
static int odd_char(const struct weir__json *j, unsigned char **p,
		    unsigned char **out)
{
	unsigned n;

	if (**p == '\\')
		return json_escape(j, p, out);
	if (*p == j->end)
		return fail_at(j, *p, "the text ends inside a string");
	if (**p < 0x20)
		return fail_at(j, *p, "control character 0x%02x in a string",
			       **p);
	n = weir__utf8_len(*p);
	if (!n)
		return fail_at(j, *p, "byte 0x%02x is not UTF-8", **p);
	memmove(*out, *p, n);
	*out += n;
	*p += n;
	return 0;
}

/* ASCII except controls, '"' and '\\': a string contains it as it is. */
static const bool plain[256] = {
	[' ' ... '!'] = true,
	['#' ... '['] = true,
	[']' ... 0x7f] = true,
};

/* @c in each byte of a word. */
#define EIGHT(c) (0x0101010101010101u * (uint64_t)(c))

/*
 * Skip plain bytes, eight at a time while there are eight. Each of the four
 * terms sets the highest bit of a byte that is not plain. Borrows make wrong
 * bits only in bytes above the first such byte, and only the first is used.
 */
static unsigned char *skip_plain(unsigned char *p, const unsigned char *end)
{
	for (; end - p >= 8; p += 8) {
		uint64_t w, odd;

		memcpy(&w, p, 8);
		w = le64toh(w);
		odd = w - EIGHT(' ');
		odd |= (w ^ EIGHT('"')) - EIGHT(1);
		odd |= (w ^ EIGHT('\\')) - EIGHT(1);
		odd = (odd | w) & EIGHT(0x80);
		if (odd)
			return p + __builtin_ctzll(odd) / 8;
	}
	while (plain[*p])
		p++;
	return p;
}

int weir__json_string(struct weir__json *j, struct weir__str *ret_str)
{
	unsigned char *start, *p, *out;
	int r;

	if (weir__json_peek(j) != '"')
		return fail_expected(j, "a string");
	start = j->at + 1;
	p = skip_plain(start, j->end);
	for (out = p; *p != '"';) {
		if (plain[*p]) {
			*out++ = *p++;
			continue;
		}
		r = odd_char(j, &p, &out);
		if (r < 0)
			return r;
	}
	*ret_str = (struct weir__str){ (const char *)start,
				       (size_t)(out - start) };
	j->at = p + 1;
	return 0;
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

int weir__json_u64(struct weir__json *j, uint64_t *ret_value)
{
	uint64_t v = 0;
	unsigned char *p;

	if (!is_digit(weir__json_peek(j)))
		return fail_expected(j, "a whole number");
	p = j->at;
	if (*p == '0' && is_digit(p[1]))
		return fail_at(j, p, "a number may not begin with 0");
	for (; is_digit(*p); p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, *p - '0', &v))
			return fail_at(j, j->at,
				       "a number above 18446744073709551615");
	if (*p == '.' || *p == 'e' || *p == 'E')
		return fail_at(j, j->at, "expected a whole number");
	j->at = p;
	*ret_value = v;
	return 0;
}

static int json_digits(struct weir__json *j)
{
	if (!is_digit(*j->at))
		return fail_expected(j, "a digit");
	while (is_digit(*j->at))
		j->at++;
	return 0;
}

static int skip_number(struct weir__json *j)
{
	int r;

	if (*j->at == '-')
		j->at++;
	if (*j->at == '0' && is_digit(j->at[1]))
		return fail_at(j, j->at, "a number may not begin with 0");
	r = json_digits(j);
	if (r >= 0 && *j->at == '.') {
		j->at++;
		r = json_digits(j);
	}
	if (r >= 0 && (*j->at == 'e' || *j->at == 'E')) {
		j->at++;
		if (*j->at == '+' || *j->at == '-')
			j->at++;
		r = json_digits(j);
	}
	return r;
}

static int json_word(struct weir__json *j, const char *literal)
{
	size_t n = strlen(literal);

	if (strncmp((const char *)j->at, literal, n) != 0)
		return fail_expected(j, "a value");
	j->at += n;
	return 0;
}

int weir__json_null(struct weir__json *j)
{
	weir__json_peek(j);
	return json_word(j, "null");
}

static int skip_container(struct weir__json *j, char open)
{
	struct weir__str name;
	int r = weir__json_enter(j, open);

	while (r >= 0) {
		r = open == '{' ? weir__json_member(j, &name)
				: weir__json_element(j);
		if (r <= 0)
			break;
		r = weir__json_skip(j); /* weir__json_enter bounds the depth */
	}
	return r;
}

int weir__json_skip(struct weir__json *j)
{
	struct weir__str str;
	unsigned char c = weir__json_peek(j);

	switch (c) {
	case '{':
	case '[':
		return skip_container(j, (char)c);
	case '"':
		return weir__json_string(j, &str);
	case 't':
		return json_word(j, "true");
	case 'f':
		return json_word(j, "false");
	case 'n':
		return json_word(j, "null");
	default:
		break;
	}
	if (c == '-' || is_digit(c))
		return skip_number(j);
	return fail_expected(j, "a value");
}

int weir__json_end(struct weir__json *j)
{
	weir__json_peek(j);
	if (j->at != j->end)
		return fail_expected(j, "only white space after the object");
	return 0;
}
