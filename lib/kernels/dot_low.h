/* SPDX-License-Identifier: MIT */
/* What the dtypes of few bits need in every instruction set, in plain C. */
#ifndef WEIR__DOT_LOW_H
#define WEIR__DOT_LOW_H

#include <stdint.h>
#include <string.h>

#define PLAIN static inline __attribute__((always_inline))

/* Little-endian, at any address. */
PLAIN uint32_t get_16(const unsigned char *p)
{
	uint16_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

PLAIN uint32_t get_32(const unsigned char *p)
{
	uint32_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

PLAIN uint64_t get_64(const unsigned char *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/*
 * Each byte of @signs has 7 signs; return them with the eighth, which makes the
 * number of negative ones even. What a shift moves into a byte does not reach
 * its lowest bit.
 */
PLAIN uint64_t even_signs(uint64_t signs)
{
	uint64_t odd = signs ^ signs >> 4;

	odd ^= odd >> 2;
	odd ^= odd >> 1;
	return signs | (odd & 0x0101010101010101) << 7;
}

/* Spread 4 times 7 bits of each of two words to bytes. */
PLAIN uint64_t spread_sevens(uint64_t x)
{
	return (x & 0x0000007f0000007f) | (x & 0x00003f8000003f80) << 1 |
	       (x & 0x001fc000001fc000) << 2 | (x & 0x0fe000000fe00000) << 3;
}

#endif
