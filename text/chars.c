/* SPDX-License-Identifier: MIT */
#include "chars.h"

#include <stddef.h>

const uint8_t chars_ascii[128] = {
	['A' ... 'Z'] = CHAR_UPPER,  ['a' ... 'z'] = CHAR_LOWER,
	['0' ... '9'] = CHAR_NUMBER, ['\t' ... '\r'] = CHAR_SPACE,
	[' '] = CHAR_SPACE,          ['!' ... '#'] = CHAR_PUNCT,
	['%' ... '*'] = CHAR_PUNCT,  [',' ... '/'] = CHAR_PUNCT,
	[':'] = CHAR_PUNCT,          [';'] = CHAR_PUNCT,
	['?'] = CHAR_PUNCT,          ['@'] = CHAR_PUNCT,
	['[' ... ']'] = CHAR_PUNCT,  ['_'] = CHAR_PUNCT,
	['{'] = CHAR_PUNCT,          ['}'] = CHAR_PUNCT,
};

/* Pairs of the first character of a range and its class, in order. */
static const uint32_t ranges[] = {
#include "chars_table.h"
};

enum char_class chars_beyond_ascii(uint32_t c)
{
	size_t low = 0, high = sizeof(ranges) / sizeof(ranges[0]);

	/* The first range begins at 0. */
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (ranges[middle] >> 3 <= c)
			low = middle;
		else
			high = middle;
	}
	return (enum char_class)(ranges[low] & 7);
}
