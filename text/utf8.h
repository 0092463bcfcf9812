/* SPDX-License-Identifier: MIT */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Return the length of a character that begins with @first; 0: none begins with
 * it.
 */
static inline unsigned utf8_bytes(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/*
 * Return how many of the @n bytes at @p belong to one character (RFC 3629): all
 * of its bytes, or fewer if the text ends or another character begins. 0: no
 * character begins here.
 */
static inline unsigned utf8_begun(const unsigned char *p, size_t n)
{
	unsigned bytes = n ? utf8_bytes(p[0]) : 0;
	unsigned char low = 0x80, high = 0xbf;
	unsigned i;

	if (bytes < 2)
		return bytes;
	/* The range of the second byte depends on the first. */
	if (p[0] == 0xe0 || p[0] == 0xf0)
		low = p[0] == 0xe0 ? 0xa0 : 0x90;
	if (p[0] == 0xed || p[0] == 0xf4)
		high = p[0] == 0xed ? 0x9f : 0x8f;
	for (i = 1; i < bytes && i < n; i++) {
		if (p[i] < low || p[i] > high)
			break;
		low = 0x80;
		high = 0xbf;
	}
	return i;
}

/* Decode the character at @p, which is valid. Returns its length. */
static inline unsigned utf8_get(const unsigned char *p, uint32_t *ret_char)
{
	unsigned n = utf8_bytes(p[0]);

	switch (n) {
	case 1:
		*ret_char = p[0];
		break;
	case 2:
		*ret_char = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
		break;
	case 3:
		*ret_char = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 |
			    (p[2] & 0x3fu);
		break;
	default:
		*ret_char = (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 |
			    (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
	}
	return n;
}

/* Encode a character to up to 4 bytes. Returns how many. */
static inline unsigned utf8_put(unsigned char *p, uint32_t c)
{
	if (c < 0x80) {
		p[0] = (unsigned char)c;
		return 1;
	}
	if (c < 0x800) {
		p[0] = (unsigned char)(0xc0 | c >> 6);
		p[1] = (unsigned char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		p[0] = (unsigned char)(0xe0 | c >> 12);
		p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
		p[2] = (unsigned char)(0x80 | (c & 0x3f));
		return 3;
	}
	p[0] = (unsigned char)(0xf0 | c >> 18);
	p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
	p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
	p[3] = (unsigned char)(0x80 | (c & 0x3f));
	return 4;
}

#endif
