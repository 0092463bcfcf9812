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
	CHAR_SPACE,  /* \s: the property White_Space */
	/* Letters too, but for chars_case() only. */
	CHAR_UPPER, /* \p{Lu} and \p{Lt} */
	CHAR_LOWER  /* \p{Ll} */
};

extern const uint8_t chars_ascii[128];
enum char_class chars_beyond_ascii(uint32_t c);

/* The class of a character, of letters with their case if they have one. */
static inline enum char_class chars_case(uint32_t c)
{
	return c < 128 ? (enum char_class)chars_ascii[c]
		       : chars_beyond_ascii(c);
}

static inline enum char_class chars_class(uint32_t c)
{
	enum char_class class = chars_case(c);

	return class >= CHAR_UPPER ? CHAR_LETTER : class;
}

#endif
