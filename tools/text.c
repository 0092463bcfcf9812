/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum syntax {
	LINE,     /* backslashes are doubled */
	SENTENCE, /* backslashes are not doubled */
	PROSE,    /* they are not doubled, and little else is escaped */
	XML       /* they are, and XML's own characters become references */
};

/*
 * Decode the character at @s. Returns the number of its bytes, or 0 if it is
 * not UTF-8; overlong forms and surrogates are not.
 */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret_cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t cp;
	size_t n;

	if (s[0] < 0x80) {
		*ret_cp = s[0];
		return 1;
	}
	n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || n > len)
		return 0;
	cp = s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3f);
	}
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*ret_cp = cp;
	return n;
}

/* Characters that control, reorder or hide text; and U+FFFE and U+FFFF. */
static bool is_unsafe(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0xad ||
	       (cp >= 0x200b && cp <= 0x200f) ||
	       (cp >= 0x2028 && cp <= 0x202e) ||
	       (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff || cp == 0xfffe ||
	       cp == 0xffff;
}

static size_t put_escape(FILE *to, uint32_t cp)
{
	static const char letters[] = "abtnvfr";
	char text[16];

	if (cp == '\\')
		snprintf(text, sizeof(text), "\\\\");
	else if (cp >= 7 && cp <= 13)
		snprintf(text, sizeof(text), "\\%c", letters[cp - 7]);
	else if (cp < 0x100)
		snprintf(text, sizeof(text), "\\x%02x", (unsigned)cp);
	else
		snprintf(text, sizeof(text), "\\u%04x", (unsigned)cp);
	if (to)
		fputs(text, to);
	return strlen(text);
}

static bool is_control(uint32_t cp)
{
	return (cp < 0x20 && cp != '\n' && cp != '\t') ||
	       (cp >= 0x7f && cp < 0xa0);
}

static bool is_escaped(uint32_t cp, enum syntax syntax)
{
	if (syntax == PROSE)
		return is_control(cp);
	return is_unsafe(cp) || (cp == '\\' && syntax != SENTENCE);
}

/*
 * Return the reference to a character of XML's syntax, or NULL if it is none.
 */
static const char *xml_reference(uint32_t cp)
{
	switch (cp) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	default:
		return NULL;
	}
}

/*
 * Write the character at @s, and set @used to the number of its bytes. Returns
 * its columns.
 */
static size_t put_one(FILE *to, const unsigned char *s, size_t len,
		      enum syntax syntax, size_t *used)
{
	uint32_t cp;
	size_t n = decode(s, len, &cp);

	*used = n ? n : 1;
	if (n == 0)
		return put_escape(to, s[0]);
	if (is_escaped(cp, syntax))
		return put_escape(to, cp);
	if (syntax == XML && xml_reference(cp))
		fputs(xml_reference(cp), to);
	else if (to)
		fwrite(s, 1, n, to);
	return 1;
}

/* The bytes from @s on that every syntax writes as they are. */
static size_t plain_bytes(const unsigned char *s, size_t len)
{
	size_t n = 0;

	while (n < len && s[n] >= 0x20 && s[n] < 0x7f && s[n] != '\\' &&
	       !xml_reference(s[n]))
		n++;
	return n;
}

static size_t put_all(FILE *to, const char *s, size_t len, size_t max,
		      enum syntax syntax)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t columns = 0, i = 0, used;

	while (i < len && (max == 0 || i < max)) {
		used = plain_bytes(p + i, max && max < len ? max - i : len - i);
		columns += used;
		if (to)
			fwrite(p + i, 1, used, to);
		if (!used)
			columns += put_one(to, p + i, len - i, syntax, &used);
		i += used;
	}
	if (i == len)
		return columns;
	if (to)
		fputs("...", to);
	return columns + 3;
}

size_t text_put(FILE *to, const char *s, size_t len, size_t max)
{
	return put_all(to, s, len, max, LINE);
}

void text_put_sentence(FILE *to, const char *s)
{
	put_all(to, s, strlen(s), 0, SENTENCE);
}

void text_put_prose(FILE *to, const char *s, size_t len)
{
	put_all(to, s, len, 0, PROSE);
}

void text_put_xml(FILE *to, const char *s, size_t len, size_t max)
{
	put_all(to, s, len, max, XML);
}

size_t text_width(const char *s, size_t len, size_t max)
{
	return text_put(NULL, s, len, max);
}

bool text_is_odd(const char *s, size_t len)
{
	return memchr(s, '\n', len) || memchr(s, '\r', len) ||
	       memchr(s, '\\', len);
}

void text_put_odd(FILE *to, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '\n')
			fputs("\\n", to);
		else if (s[i] == '\r')
			fputs("\\r", to);
		else if (s[i] == '\\')
			fputs("\\\\", to);
		else
			putc(s[i], to);
	}
}

/* @s with each byte that is not UTF-8 replaced by U+FFFD. */
static json_t *mended_json(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	char *mended = malloc(3 * len + 1);
	size_t n = 0, used;
	json_t *json;
	uint32_t cp;

	if (!mended)
		return NULL;
	for (size_t i = 0; i < len; i += used ? used : 1) {
		used = decode(p + i, len - i, &cp);
		memcpy(mended + n, used ? s + i : "\xef\xbf\xbd",
		       used ? used : 3);
		n += used ? used : 3;
	}
	json = json_stringn(mended, n);
	free(mended);
	return json;
}

json_t *text_json(const char *s, size_t len)
{
	json_t *json = json_stringn(s, len);

	return json ? json : mended_json(s, len);
}
