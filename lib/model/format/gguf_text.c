/* SPDX-License-Identifier: MIT */
/*
 * GGUF files that a program has treated as text: a transfer that converts line
 * feeds, an editor or a script that writes bytes as UTF-8. All numbers after
 * the first such byte are at the wrong place, so the failure that is found says
 * nothing about the reason.
 */
#include "core/error.h"
#include "model/format/gguf_bytes.h"
#include "model/format/utf8.h"

#define FIXED 24u /* bytes before the first pair */
#define FRONT 28u /* and the low half of the length of its key */
#define KEY_MAX 65535u

/* How a conversion wrote one byte, and how it is undone. */
struct conversion {
	const char *what;
	/* Return how many bytes at @p it wrote for *@ret_byte, or 0. */
	size_t (*undo)(const unsigned char *p, unsigned char *ret_byte);
};

static size_t undo_replaced(const unsigned char *p, unsigned char *ret_byte)
{
	*ret_byte = 0x80; /* or any other that is not ASCII */
	return !memcmp(p, "\xef\xbf\xbd", 3) ? 3 : 0;
}

static size_t undo_latin1(const unsigned char *p, unsigned char *ret_byte)
{
	*ret_byte = (unsigned char)(p[0] << 6 | (p[1] & 0x3f));
	return (p[0] & 0xfe) == 0xc2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
}

static size_t undo_crlf(const unsigned char *p, unsigned char *ret_byte)
{
	*ret_byte = '\n';
	return p[0] == '\r' && p[1] == '\n' ? 2 : 0;
}

static const struct conversion conversions[] = {
	{ "bytes that are not UTF-8 have been replaced by U+FFFD (EF BF BD)",
	  undo_replaced },
	{ "it has been converted from Latin-1 to UTF-8", undo_latin1 },
	{ "line feeds have been converted from LF to CR LF", undo_crlf },
};

static uint32_t le32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

/*
 * True if the first bytes become numbers that a file can have when the
 * conversion is undone. Otherwise their high bytes are where low ones belong.
 */
static bool front_converted(const unsigned char *p, size_t n,
			    const struct conversion *c)
{
	unsigned char front[FRONT], byte;
	bool found = false;
	size_t out = 0;

	for (size_t i = 0; out < FRONT && i + 3 <= n; out++) {
		size_t len = i < 8 ? 0 : c->undo(p + i, &byte);

		found = found || len;
		front[out] = len ? byte : p[i];
		i += len ? len : 1;
	}
	/* The high halves of both numbers, and the length. */
	return found && out == FRONT && !le32(front + 12) &&
	       !le32(front + 20) && le32(front + 24) > 0 &&
	       le32(front + 24) <= KEY_MAX;
}

/* True if there are line feeds, and a carriage return before each. */
static bool all_crlf(const unsigned char *p, size_t n)
{
	bool found = false;

	for (size_t i = FIXED; i < n; i++)
		if (p[i] == '\n') {
			if (p[i - 1] != '\r')
				return false;
			found = true;
		}
	return found;
}

/*
 * True if all that was read is UTF-8 with U+FFFD in it. Numbers whose low byte
 * is not ASCII are not UTF-8, unless something has replaced those bytes.
 */
static bool all_utf8(const unsigned char *p, size_t n)
{
	bool found = false;
	size_t i = 0;

	while (i + 4 <= n) {
		unsigned len = p[i] < 0x80 ? 1 : weir__utf8_len(p + i);
		unsigned char byte;

		if (!len)
			return false;
		found = found || undo_replaced(p + i, &byte);
		i += len;
	}
	return found;
}

int weir__gguf_explain(const struct weir__gguf_in *in, int r)
{
	size_t n = in->m->text_len - in->base;
	const struct conversion *crlf = &conversions[2], *c = conversions;
	const unsigned char *p;

	if (r != -EBADMSG || n < FIXED)
		return r;
	p = (const unsigned char *)in->m->text + in->base;
	while (c <= crlf && !front_converted(p, n, c))
		c++;
	if (c > crlf && all_crlf(p, n < in->at + 8 ? n : in->at + 8))
		c = crlf;
	if (c > crlf && all_utf8(p, n))
		c = conversions;
	if (c > crlf)
		return r;
	return weir__fail(
		r,
		"%s: this GGUF file was treated as text and is damaged: %s; fetch it again, as a binary file",
		in->g->file, c->what);
}
