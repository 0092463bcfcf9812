/* SPDX-License-Identifier: MIT */
#include "model/format/bytes.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/sys.h"
#include "core/util.h"
#include "model/format/json.h"

#define FIRST_ROOM 4096u

static bool reserve(struct weir__bytes *b, size_t n)
{
	size_t cap = b->cap ? b->cap : FIRST_ROOM;
	unsigned char *p;

	if (b->failed || n > SIZE_MAX / 2 - b->n)
		return false;
	while (cap < b->n + n)
		cap *= 2;
	if (cap == b->cap)
		return true;
	p = weir__realloc(b->p, cap, 1);
	if (!p)
		return false;
	b->p = p;
	b->cap = cap;
	return true;
}

void weir__bytes_add(struct weir__bytes *b, const void *bytes, size_t n)
{
	if (!n)
		return;
	if (!reserve(b, n)) {
		b->failed = true;
		return;
	}
	memcpy(b->p + b->n, bytes, n);
	b->n += n;
}

void weir__bytes_u32(struct weir__bytes *b, uint32_t number)
{
	number = htole32(number);
	weir__bytes_add(b, &number, sizeof(number));
}

void weir__bytes_u64(struct weir__bytes *b, uint64_t number)
{
	number = htole64(number);
	weir__bytes_add(b, &number, sizeof(number));
}

void weir__bytes_pad(struct weir__bytes *b, uint64_t align, unsigned char byte)
{
	while (b->n % align && !b->failed)
		weir__bytes_byte(b, byte);
}

void weir__bytes_decimal(struct weir__bytes *b, uint64_t number)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)number);

	weir__bytes_add(b, text, (size_t)n);
}

void weir__bytes_text(struct weir__bytes *b, const char *text)
{
	weir__bytes_add(b, text, strlen(text));
}

/* RFC 8259: quotes, backslashes and control characters are escaped. */
void weir__bytes_json(struct weir__bytes *b, const struct weir__str *str)
{
	static const char hex[] = "0123456789abcdef";
	size_t from = 0;

	weir__bytes_byte(b, '"');
	for (size_t i = 0; i < str->len; i++) {
		unsigned char c = (unsigned char)str->s[i];
		const char escape[] = { '\\', 'u',         '0',
					'0',  hex[c >> 4], hex[c & 15] };

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		weir__bytes_add(b, str->s + from, i - from);
		from = i + 1;
		if (c >= 0x20) {
			weir__bytes_byte(b, '\\');
			weir__bytes_byte(b, c);
		} else {
			weir__bytes_add(b, escape, sizeof(escape));
		}
	}
	weir__bytes_add(b, str->s + from, str->len - from);
	weir__bytes_byte(b, '"');
}

int weir__bytes_end(const struct weir__bytes *b)
{
	return b->failed ? -ENOMEM : 0;
}
