/* SPDX-License-Identifier: MIT */
#ifndef WEIR__MODEL_UTF8_H
#define WEIR__MODEL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Return the length of the character at @p, which is not ASCII; 0: it is not
 * UTF-8. Reads up to 4 bytes, and none after one that does not belong to the
 * character.
 */
static inline unsigned weir__utf8_len(const unsigned char *p)
{
	/* The range of the second byte depends on the first: RFC 3629. */
	unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
	unsigned n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] < 0xc2 || p[0] > 0xf4 || p[1] < low || p[1] > high)
		return 0;
	for (unsigned i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* True if the @n bytes are UTF-8. */
static inline bool weir__utf8_valid(const char *text, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned char next[4] = { 0 };
		unsigned len = 1;

		for (unsigned k = 0; k < 4 && i + k < n; k++)
			next[k] = (unsigned char)text[i + k];
		if (next[0] >= 0x80)
			len = weir__utf8_len(next);
		if (!len)
			return false;
		i += len;
	}
	return true;
}

#endif
