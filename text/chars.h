/* SPDX-License-Identifier: MIT */
/* Classes of characters, as regular expressions name them. */
#ifndef TEXT_CHARS_H
#define TEXT_CHARS_H

#include <stdint.h>

enum char_class {
	CHAR_OTHER,
	CHAR_LETTER, /* \p{L} */
	CHAR_NUMBER, /* \p{N} */
	CHAR_MARK,   /* \p{M} */
	CHAR_PUNCT,  /* \p{P} */
	CHAR_SPACE   /* \s: the property White_Space */
};

extern const uint8_t chars_ascii[128];
enum char_class chars_beyond_ascii(uint32_t c);

static inline enum char_class chars_class(uint32_t c)
{
	return c < 128 ? (enum char_class)chars_ascii[c]
		       : chars_beyond_ascii(c);
}

#endif
